"""The model: what training gives, scoring uses and a file keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove._jit import as_input
from rankgrove._version import __version__
from rankgrove.data.dataset import Dataset
from rankgrove.data.matrix import base_of, features_of
from rankgrove.errors import DataError, ParameterError, whole_number
from rankgrove.metrics.base import Metric
from rankgrove.metrics.evaluate import evaluate
from rankgrove.metrics.spec import parse_metric
from rankgrove.model import explain
from rankgrove.model.files import Contents, read_model, refusing, write_model
from rankgrove.model.importance import (
    PermutationImportance,
    shuffled_drops,
    tree_importance,
)
from rankgrove.model.schema import Schema
from rankgrove.trees.contributions import contributions
from rankgrove.trees.ensemble import Ensemble
from rankgrove.trees.predict import Scorer

# Where the parameters of a model note how many trees it has from a base model.
N_BASE_TREES = "n_base_trees"


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """Trained trees with their schema, parameters and history. Immutable; shares no state.

    Its data may be a Dataset, a NumPy array or list of lists, a scipy.sparse matrix (absent
    entries are 0), or a data frame of any kind that Narwhals knows. Frames go by name: columns
    that are no features are ignored. Arrays go by position. Categories are given as values.
    NaN is missing, and so is a category that training did not see. Data are never written to.

    Attributes
    ----------
    ensemble
        The trees.
    schema
        The features they take.
    parameters
        As given to training: JSON values, numbers finite.
    history
        For each validation set, for each metric, its value after each iteration. In a file
        only finite values keep their bits: others come back as NaN.
    version
        Of the Rankgrove that trained the model.

    >>> Model(Ensemble.from_trees([]), Schema(("bm25", "pagerank")), {}, {}, version="1.0")
    <Model: 0 trees, 0 leaves, 2 features, by Rankgrove 1.0>
    """

    ensemble: Ensemble
    schema: Schema
    parameters: dict[str, Any]
    history: dict[str, dict[str, list[float]]]
    version: str = __version__

    def __post_init__(self) -> None:
        self.schema.check_ensemble(self.ensemble)
        arrays = self.ensemble.arrays()
        own = Ensemble(**{name: as_input(array, array.dtype) for name, array in arrays.items()})
        object.__setattr__(self, "ensemble", own)
        object.__setattr__(self, "parameters", _as_json_values(self.parameters))
        object.__setattr__(
            self,
            "history",
            {
                str(name): {str(spec): [float(v) for v in curve] for spec, curve in curves.items()}
                for name, curves in self.history.items()
            },
        )

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[Any, ...]]:
        # Without what is cached, and checked anew.
        return type(self), self._contents()

    def _contents(self) -> Contents:
        return Contents(self.ensemble, self.schema, self.parameters, self.history, self.version)

    @property
    def n_trees(self) -> int:
        return self.ensemble.n_trees

    @property
    def n_base_trees(self) -> int:
        """How many of the trees, the first ones, are those of a base model."""
        number = self.parameters.get(N_BASE_TREES, 0)
        return number if isinstance(number, int) and 0 <= number <= self.n_trees else 0

    @property
    def n_features(self) -> int:
        return self.schema.n_features

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.schema.feature_names

    @cached_property
    def _scorer(self) -> Scorer:
        # Threads that come first together may each make one; all are alike, and one stays.
        return Scorer(self.ensemble)

    def predict(
        self,
        data: Any,
        *,
        n_trees: int | None = None,
        base_scores: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> NDArray[np.float64]:
        """The score of each document; higher is better.

        Parameters
        ----------
        data
            What to score: see the class.
        n_trees
            Use the first trees only; all by default.
        base_scores
            What to start from, one a document or one for all. By default the base scores of the
            Dataset for a model that was trained on top of such, and 0 for any other. A model
            that needs them and gets none is an error; 0.0 gives what the trees add.
        n_jobs
            Threads; the scores have the same bits for any number.
        """
        schema = self.schema
        features = features_of(data, schema.feature_names)
        base = base_of(data, base_scores, len(features), needed=schema.needs_base_scores)
        if n_trees is not None:
            n_trees = whole_number("n_trees", n_trees, 0, self.n_trees)
        return self._scorer.score(
            schema.encode(features), n_trees=n_trees, n_jobs=n_jobs, base=base
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write a model file, best named `.safetensors`; it appears whole or not at all.

        The same model gives the same bytes, and `load` gives back the same model, bit for bit.
        """
        write_model(self._contents(), path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Model:
        """The model of a file that `save` wrote; anything else is a `ModelFileError`.

        A file runs no code, and its checksum and the structure of its trees are checked.
        """
        with refusing(path):
            return cls(*read_model(path))

    def importance(self, kind: Literal["gain", "split"] = "gain") -> NDArray[np.float64]:
        """How much the trees use each feature: the sum of split gains, or the number of splits.

        >>> Model(Ensemble.from_trees([]), Schema(("bm25", "pagerank")), {}, {}).importance()
        array([0., 0.])
        """
        return tree_importance(self.ensemble, self.n_features, kind)

    def permutation_importance(
        self,
        data: Dataset,
        metric: str | Metric = "ndcg@10",
        *,
        repeats: int = 5,
        seed: int = 0,
        base_scores: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> PermutationImportance:
        """By how much a metric drops when a feature's values are shuffled over all documents.

        Only features that the trees use are tried; the drop of any other is 0. Of features that
        say the same each looks unimportant, as the others stand in for it.

        Parameters
        ----------
        data
            Judged documents, best those that training did not see.
        metric
            A name or a metric, as for `evaluate`.
        repeats
            How many shuffles to take the mean over.
        seed
            Which shuffles.
        base_scores, n_jobs
            As for `predict`.
        """
        if not isinstance(data, Dataset):
            raise ParameterError(
                f"permutation importance must be given a Dataset, for its labels. Got "
                f"{type(data).__name__}: make one with Dataset.from_arrays or from_frame."
            )
        repeats = whole_number("repeats", repeats, 1)
        seed = whole_number("seed", seed, 0)
        chosen = parse_metric(metric)
        features = features_of(data, self.feature_names)
        base = base_of(data, base_scores, len(features), needed=self.schema.needs_base_scores)

        def measure(encoded: NDArray[np.float32]) -> float:
            scores = self._scorer.score(encoded, n_jobs=n_jobs, base=base)
            return evaluate(data, scores, chosen, n_jobs=n_jobs)[str(chosen)]

        used = np.unique(self.ensemble.feature).astype(np.int64)
        encoded = self.schema.encode(features)
        baseline, drops = shuffled_drops(encoded, used, measure, repeats, seed)
        return PermutationImportance(
            chosen, baseline, self.feature_names, drops.mean(axis=1), drops.std(axis=1)
        )

    def contributions(
        self, data: Any, *, base_scores: ArrayLike | None = None, n_jobs: int | None = None
    ) -> NDArray[np.float64]:
        """How much each feature adds to each score (SHAP values), one row a document.

        One column a feature, and a last one with what the trees expect of a document of which
        nothing is known, and its base score if there is one. A row adds up to the score.
        """
        features = features_of(data, self.feature_names)
        base = base_of(data, base_scores, len(features), needed=self.schema.needs_base_scores)
        parts = contributions(self.ensemble, self.schema.encode(features), n_jobs=n_jobs)
        if base is not None:
            parts[:, -1] += base
        return parts

    def why(
        self, data: Any, a: int, b: int, *, base_scores: ArrayLike | None = None
    ) -> explain.Comparison:
        """Why the document of row a stands above that of row b: the features that part them.

        Rows count from 0. Print the answer, or take its parts; it says so where a does not stand
        above b.
        """
        features = features_of(data, self.feature_names)
        base = base_of(data, base_scores, len(features), needed=self.schema.needs_base_scores)
        last = len(features) - 1
        rows = [whole_number("row a", a, 0, last), whole_number("row b", b, 0, last)]
        values = features[rows]
        starts = None if base is None else base[rows]
        encoded = self.schema.encode(values)
        scores = self._scorer.score(encoded, n_jobs=1, base=starts)
        parts = contributions(self.ensemble, encoded, n_jobs=1)[:, :-1]
        names = self.feature_names
        if starts is not None:
            names = (*names, explain.BASE_SCORE)
            values = np.column_stack([values.astype(np.float64), starts])
            parts = np.column_stack([parts, starts])
        return explain.compare((rows[0], rows[1]), scores, names, values, parts)

    def describe_tree(self, number: int) -> str:
        """One tree as text, indented, to read: trees count from 0."""
        return explain.describe_tree(self.ensemble, self.schema, self._tree_number(number))

    def tree_as_dict(self, number: int) -> dict[str, Any]:
        """One tree as nested dicts of plain values, the root outermost: trees count from 0.

        A split has feature, threshold or categories (of those that go left), missing ("left" or
        "right"), gain, count, left and right; a leaf has leaf, value and count.
        """
        return explain.tree_as_dict(self.ensemble, self.schema, self._tree_number(number))

    def _tree_number(self, number: Any) -> int:
        if self.n_trees == 0:
            raise ParameterError(f"a tree must be asked of a model with trees. Got {self!r}.")
        return int(whole_number("the number of a tree", number, 0, self.n_trees - 1))

    def __repr__(self) -> str:
        base = ", needs base scores" if self.schema.needs_base_scores else ""
        return (
            f"<Model: {self.n_trees} trees, {len(self.ensemble.value)} leaves, "
            f"{self.n_features} features{base}, by Rankgrove {self.version}>"
        )


def _as_json_values(parameters: dict[str, Any]) -> dict[str, Any]:
    """A copy that a file can hold and give back as it is."""

    def plain(value: Any) -> Any:
        if isinstance(value, (np.generic, np.ndarray)):
            return value.tolist()
        raise TypeError(f"{value!r} of type {type(value).__name__}")

    try:
        copy = json.loads(json.dumps(parameters, allow_nan=False, default=plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"parameters must be JSON values, numbers finite. Got {error}.") from None
    if not isinstance(copy, dict):
        raise DataError(f"parameters must be a dict. Got {type(parameters).__name__}.")
    return copy
