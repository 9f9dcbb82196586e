"""What all models share: data in, scores out, files, and why a score is what it is."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.dataset import Dataset
from rankgrove.data.documents import Documents, feature_numbers
from rankgrove.data.levels import value_of
from rankgrove.data.matrix import base_of, features_of
from rankgrove.data.sparse_features import Features
from rankgrove.errors import DataError, ParameterError, refusal, unknown_name, whole_number
from rankgrove.metrics.base import Metric
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.metrics.spec import parse_metric
from rankgrove.model import explain
from rankgrove.model.files import (
    FORMATS,
    NETWORK,
    Arrays,
    CallError,
    History,
    map_history,
    read_file,
    refusing,
    with_checksum,
    write_file,
)
from rankgrove.model.importance import PermutationImportance, shuffled_drops
from rankgrove.model.schema import Schema
from rankgrove.model.scorer import Scorer
from rankgrove.model.showing import model_html

if TYPE_CHECKING:
    from rankgrove.model.forces import ForceField, ObjectiveLike

Floats = NDArray[np.float64]

# Where the notes of a model have what its parameters came to.
PLAN = "plan"
# Where they have what each of its members is, of a model that is the average of several.
MEMBERS = "members"
# Where models are exported: above this layer, and imported when it is asked for.
_EXPORT = "rankgrove.export.export"


class ScoringModel(ABC):
    """Whatever scores documents: trees, a network, or several of them combined. Immutable.

    Its data may be a Dataset, a NumPy array or list of lists, a scipy.sparse matrix (absent
    entries are 0), a data frame of any kind that Narwhals knows, or a list of dicts. Frames and
    dicts go by name: what is no feature is ignored. A frame must have all features; one that a
    dict does not have is missing. Arrays go by position. Categories are given as values: strings
    where training had strings, in any order of levels that the type of a column has. NaN is
    missing, and so is a category that training did not see. Data are never written to.

    Attributes
    ----------
    schema
        The features it takes.
    parameters
        As given to training: JSON values, numbers finite.
    notes
        What else is known of it, as JSON values: which data it was trained on, for how long.
    history
        For each validation set, for each metric, its value after each step of training. In a file
        only finite values keep their bits: others come back as NaN.
    version
        Of the Rankgrove that trained it.
    """

    _format: ClassVar[str]

    schema: Schema
    parameters: dict[str, Any]
    history: History
    version: str
    notes: dict[str, Any]

    @property
    def noun(self) -> str:
        """What it is, in messages."""
        return FORMATS[self._format].noun

    @property
    def n_features(self) -> int:
        return self.schema.n_features

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.schema.feature_names

    @property
    def n_trees(self) -> int:
        """The trees that `predict` can take the first ones of."""
        return 0

    @property
    def n_kept_steps(self) -> int:
        """The steps of training, trees or epochs, that the model keeps and the history tells of."""
        return 0

    @property
    def n_members(self) -> int:
        """The models that its score is the average of; 0 for one that was trained alone."""
        members = self.notes.get(MEMBERS)
        return len(members) if isinstance(members, list) else 0

    def final_metrics(self) -> dict[str, dict[str, float]]:
        """For each validation set its metrics after the last step that the model keeps."""
        kept = self.n_kept_steps
        by_set = {
            name: {
                spec: curve[kept - 1] for spec, curve in curves.items() if 0 < kept <= len(curve)
            }
            for name, curves in self.history.items()
        }
        return {name: values for name, values in by_set.items() if values}

    def describe(self) -> dict[str, Any]:
        """What is worth knowing of it, as plain values; further ones by what it is."""
        return {
            "kind": self._format.removeprefix("rankgrove."),
            "version": self.version,
            "features": self.n_features,
            "feature_names": list(self.feature_names),
            "needs_base_scores": self.schema.needs_base_scores,
        }

    def predict(
        self,
        data: Any,
        *,
        n_trees: int | None = None,
        base_scores: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Floats:
        """The score of each document; higher is better.

        Parameters
        ----------
        data
            What to score: see the class.
        n_trees
            Use the first trees only; all by default. A network has none.
        base_scores
            What to start from, one per document or one for all. By default the base scores of the
            Dataset for a model that was trained on top of such, and 0 for any other. A model
            that needs them and gets none is an error; 0.0 gives what the model adds.
        n_jobs
            Threads; the scores have the same bits for any number.
        """
        return self._score(*self._inputs(data, base_scores), n_trees, n_jobs)

    def scorer(self, *, n_trees: int | None = None) -> Scorer:
        """What services score with: queries one at a time, and single documents.

        Parameters
        ----------
        n_trees
            As for `predict`.
        """
        return Scorer(self, n_trees)

    @abstractmethod
    def _score(
        self, features: Features, base: Floats | None, n_trees: int | None, n_jobs: int | None
    ) -> Floats:
        """The scores of a matrix of all its features, on top of base scores if there are any."""

    @abstractmethod
    def _to_file(self) -> tuple[dict[str, str], Arrays]:
        """Its metadata and arrays, as a file holds them."""

    @classmethod
    @abstractmethod
    def _from_file(cls, metadata: dict[str, str], arrays: Arrays) -> Self:
        """The model of a file, which may hold anything."""

    @property
    def _file_version(self) -> int:
        """The version of its format that has what this model needs."""
        return 1

    @property
    def checksum(self) -> str:
        """SHA-256 of all that its file holds, as `save` writes it there: which model this is."""
        metadata, arrays = self._to_file()
        return with_checksum(self._format, metadata, arrays, self._file_version)["checksum"]

    def save(self, path: str | PathLike[str]) -> None:
        """Write a model file, best named `.safetensors`; it appears whole or not at all.

        The same model gives the same bytes, and `load` gives back the same model, bit for bit.
        """
        write_file(self._format, *self._to_file(), path, self._file_version)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """The model of a file that `save` wrote; anything else is a `ModelFileError`.

        A file runs no code, and its checksum and structure are checked.
        """
        with refusing(path):
            return cls._from_file(*read_file(path, cls._format))

    def export(
        self,
        path: str | PathLike[str],
        to: str | None = None,
        check: Any = None,
        n_trees: int | None = None,
        **options: Any,
    ) -> Any:
        """As `rankgrove.export_model`: write a file that another program scores with, checked.

        Examples
        --------
        >>> import tempfile
        >>> from rankgrove import Ranker, make_web_search
        >>> model = Ranker(n_estimators=5).fit(make_web_search(20, 16, mean_documents=8)).model_
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.export(f"{folder}/model.sql").format.name
        'sql'
        """
        return import_module(_EXPORT).export_model(self, path, to, check, n_trees, **options)

    def permutation_importance(
        self,
        data: Dataset,
        metric: str | Metric = "ndcg@10",
        *,
        repeats: int = 5,
        features: Collection[str | int] | None = None,
        seed: int = 0,
        base_scores: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> PermutationImportance:
        """By how much a metric drops when a feature's values are shuffled over all documents.

        Only features that the model uses are tried; the drop of any other is 0. Of features that
        say the same each looks unimportant, as the others stand in for it.

        Parameters
        ----------
        data
            Judged documents, best those that training did not see.
        metric
            A name or a metric, as for `evaluate`.
        repeats
            How many shuffles to take the mean over.
        features
            Those to try, by name or number; all by default. Others have NaN.
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
        tried = np.arange(self.n_features)
        if features is not None:
            tried = np.unique(feature_numbers("features", features, self.feature_names))
        inputs, base = self._inputs(data, base_scores)

        def measure(shuffled: Features) -> float:
            scores = self._score(shuffled, base, None, n_jobs)
            return measure_dataset(data, scores, chosen, n_jobs=n_jobs)[str(chosen)]

        used = np.intersect1d(self.used_features(), tried)
        baseline, drops = shuffled_drops(np.asarray(inputs), used, measure, repeats, seed)
        drops[np.setdiff1d(np.arange(self.n_features), tried)] = np.nan
        return PermutationImportance(
            chosen, baseline, self.feature_names, drops.mean(axis=1), drops.std(axis=1)
        )

    def forces(
        self,
        data: Documents,
        tree: int | None = None,
        objective: ObjectiveLike | None = None,
        *,
        n_jobs: int | None = None,
    ) -> ForceField:
        """What an objective pushes each document by, at the scores that the first trees give.

        On the data of training these are, bit for bit, the forces that tree number `tree` was
        fitted to, with the noise that was drawn for it where the objective draws some: it is drawn
        by the seed of training and the number of the tree. They are those of the objective alone:
        samples, a `temperature` and further `leaf_steps` come after, and preferences in place of
        labels are not known. With a `shrink_rate` the first trees are as the last one left them.

        Parameters
        ----------
        data
            Judged documents. Base scores count as in `predict`, weights as in training.
        tree
            Take the scores of so many trees, the first ones; all by default. Models without trees
            have none.
        objective
            A name, an objective or a function in place of what the model was trained by.
        n_jobs
            Threads; the forces have the same bits for any number.

        Examples
        --------
        >>> from rankgrove import Ranker, make_web_search
        >>> data = make_web_search(20, 16, mean_documents=8)
        >>> model = Ranker(objective="rankmart", n_estimators=4).fit(data).model_
        >>> first, last = model.forces(data, tree=0), model.forces(data)
        >>> bool(abs(last.forces).sum() < abs(first.forces).sum())
        True
        """
        from rankgrove.model.forces import forces_of  # noqa: PLC0415 (it imports this module)

        return forces_of(self, data, tree, objective, n_jobs)

    def _forces_name(self, objective: Any) -> str:
        """The objective of trees that has the forces of what training calls by this name."""
        return str(objective)

    def used_features(self) -> NDArray[np.int64]:
        """The numbers of the features that can change a score."""
        return np.arange(self.n_features)

    @property
    def adds_up(self) -> bool:
        """Whether a score is a sum of contributions; not so for trees on the scores of others."""
        return True

    def importance(
        self,
        kind: str = "contribution",
        data: Any = None,
        *,
        base_scores: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Floats:
        """How much each feature moves scores: the mean of its |contribution| over documents.

        Parameters
        ----------
        kind
            "contribution"; models of trees also have "gain" and "split".
        data
            The documents.
        base_scores, n_jobs
            As for `predict`.
        """
        if kind != "contribution":
            raise unknown_name("kind of importance", str(kind), ["contribution"])
        if data is None:
            raise refusal(
                "data", f"be given for the importance of features in {self.noun}", got="none",
                advice="pass documents, over which it is a mean",
            )  # fmt: skip
        found = self.contributions(data, base_scores=base_scores, n_jobs=n_jobs)
        means: Floats = np.abs(found[:, :-1]).sum(axis=0) / max(1, len(found))
        return means

    def contributions(
        self, data: Any, *, base_scores: ArrayLike | None = None, n_jobs: int | None = None
    ) -> Floats:
        """How much each feature adds to each score, one row per document.

        One column per feature, and a last one with the score of a document of which nothing is
        known, and its base score if there is one. A row adds up to the score.
        """
        return self._contributions(*self._inputs(data, base_scores), n_jobs)

    @abstractmethod
    def _contributions(self, features: Features, base: Floats | None, n_jobs: int | None) -> Floats:
        """The contributions for a matrix of all its features, base scores in the last column."""

    def spread(self, data: Any, *, n_jobs: int | None = None) -> Floats:
        """How far the members of an average differ on each document: how sure its score is.

        With s_m the score of member m, centred in each query and divided by its spread on the
        training data, and p_m its share: sqrt(sum_m p_m (s_m - sum_k p_k s_k)^2). Data without
        queries count as one query. A model that was trained alone is refused.

        Examples
        --------
        >>> from rankgrove import Ranker, make_web_search
        >>> data = make_web_search(20, 16, mean_documents=8)
        >>> model = Ranker(members=3, n_estimators=5).fit(data).model_
        >>> bool((model.spread(data) > 0).any()), model.n_members
        (True, 3)
        """
        from rankgrove.model.members import spread_over_members  # noqa: PLC0415 (imports this one)

        return spread_over_members(self, data, self._inputs(data, None)[0], n_jobs)

    def why(
        self, data: Any, a: int, b: int, *, base_scores: ArrayLike | None = None
    ) -> explain.Comparison:
        """Why the document of row a stands above that of row b: the features that part them.

        Rows count from 0. Print the answer, or take its parts; it says so where a does not stand
        above b.
        """
        features, base = self._inputs(data, base_scores)
        last = len(features) - 1
        rows = [whole_number("row a", a, 0, last), whole_number("row b", b, 0, last)]
        values: NDArray[Any] = np.asarray(features[rows])
        starts = None if base is None else base[rows]
        scores = self._score(values, starts, None, 1)
        parts = self._contributions(values, starts, 1)[:, :-1]
        names = self.feature_names
        if starts is not None:
            names = (*names, explain.BASE_SCORE)
            values = np.column_stack([values.astype(np.float64), starts])
            parts = np.column_stack([parts, starts])
        levels = self.schema.levels
        shown = [[value_of(levels, f, v) for f, v in enumerate(row)] for row in values.tolist()]
        return explain.compare((rows[0], rows[1]), scores, names, shown, parts)

    def _inputs(self, data: Any, base_scores: ArrayLike | None) -> tuple[Features, Floats | None]:
        """The features of data, and what their scores start from, or None for 0."""
        features = features_of(data, self.feature_names, self.schema.levels)
        needed = self.schema.needs_base_scores
        return features, base_of(data, base_scores, len(features), needed=needed)

    def _noted_number(self, name: str) -> int:
        """A count in the notes; 0 where there is none, or something else in its place."""
        number = self.notes.get(name, 0)
        return number if isinstance(number, int) and number >= 0 else 0

    def _repr_html_(self) -> str:
        return model_html(self, self.notes.get(PLAN) or self.parameters)

    def _keep_plain_values(self) -> None:
        """Make own copies of parameters, notes and history that a file can hold."""
        object.__setattr__(self, "history", map_history(self.history, float))
        for name in ("parameters", "notes"):
            object.__setattr__(self, name, _as_json_values(name, getattr(self, name)))


def load(path: str | PathLike[str], module: Any = None) -> ScoringModel:
    """The model of a file that `save` wrote, whatever it holds: trees, a network, both combined.

    PyTorch is needed for networks only. A file runs no code, and its checksum and structure are
    checked; what is no sound model file is a `ModelFileError`.

    Parameters
    ----------
    path
        The file.
    module
        For a network of a module of one's own, that module or the function that makes it: the file
        has its weights only.

    Examples
    --------
    >>> import tempfile
    >>> from rankgrove import Ranker, load, make_web_search
    >>> ranker = Ranker(n_estimators=2).fit(make_web_search(20, 16, mean_documents=8))
    >>> with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
    ...     ranker.save(file.name)
    ...     load(file.name).n_trees
    2
    """
    return load_with_checksum(path, module)[0]


def load_with_checksum(path: str | PathLike[str], module: Any = None) -> tuple[ScoringModel, str]:
    """The model of a file, as `load` gives it, and the checksum of that file."""
    with refusing(path):
        metadata, arrays = read_file(path)
        name = metadata["format"]
        if module is not None and name != NETWORK:
            raise CallError(f"module must be left out for {FORMATS[name].noun}. Got {module!r}.")
        options = {} if module is None else {"module": module}
        model: ScoringModel = model_class(name)._from_file(metadata, arrays, **options)
        return model, metadata["checksum"]


def model_class(format_name: str) -> Any:
    """The class of models that are kept in files of a format."""
    found = FORMATS[format_name]
    return getattr(import_module(found.module), found.class_name)


def _as_json_values(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """A copy that a file can hold and give back as it is."""

    def plain(value: Any) -> Any:
        if isinstance(value, (np.generic, np.ndarray)):
            return value.tolist()
        raise TypeError(f"{value!r} of type {type(value).__name__}")

    try:
        copy = json.loads(json.dumps(values, allow_nan=False, default=plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{name} must be JSON values, numbers finite. Got {error}.") from None
    if not isinstance(copy, dict):
        raise DataError(f"{name} must be a dict. Got {type(values).__name__}.")
    return copy
