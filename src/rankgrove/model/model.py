"""The model of trees: what training gives, scoring uses and a file keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove._jit import as_input
from rankgrove._version import __version__
from rankgrove.data.levels import named_categories
from rankgrove.data.matrix import base_of, check_names, features_of
from rankgrove.data.sparse_features import Features
from rankgrove.errors import DataError, ParameterError, whole_number
from rankgrove.model import explain
from rankgrove.model.base import Floats, ScoringModel
from rankgrove.model.files import AGAIN, TREES, Arrays, History, describe, described, refuse
from rankgrove.model.importance import tree_importance
from rankgrove.model.schema import Schema
from rankgrove.trees.binned_data import BinnedData
from rankgrove.trees.contributions import contributions
from rankgrove.trees.ensemble import Ensemble
from rankgrove.trees.predict import PreparedEnsemble

# Where the notes of a model say how many of its trees are those of a base model.
N_BASE_TREES = "n_base_trees"

_ARRAYS = frozenset(Ensemble.from_trees([]).arrays())


@dataclass(frozen=True, eq=False, repr=False)
class Model(ScoringModel):
    """Trained trees with their schema, parameters and history. Immutable; shares no state.

    What it takes as data, and all attributes but `ensemble`, are those of `ScoringModel`. Its
    contributions are SHAP values, the last column what the trees expect of a document of which
    nothing is known.

    Attributes
    ----------
    ensemble
        The trees.

    >>> Model(Ensemble.from_trees([]), Schema(("bm25", "pagerank")), {}, {}, version="1.0")
    <Model: 0 trees, 0 leaves, 2 features, by Rankgrove 1.0>
    """

    _format: ClassVar[str] = TREES

    ensemble: Ensemble
    schema: Schema
    parameters: dict[str, Any]
    history: History
    version: str = __version__
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.schema.check_ensemble(self.ensemble)
        arrays = self.ensemble.arrays()
        own = Ensemble(**{name: as_input(array, array.dtype) for name, array in arrays.items()})
        object.__setattr__(self, "ensemble", own)
        self._keep_plain_values()

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[Any, ...]]:
        # Without what is cached, and checked anew.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @property
    def n_trees(self) -> int:
        return self.ensemble.n_trees

    @property
    def n_base_trees(self) -> int:
        """How many of the trees, the first ones, are those of a base model."""
        number = self._noted_number(N_BASE_TREES)
        return number if number <= self.n_trees else 0

    @property
    def n_own_trees(self) -> int:
        """How many of the trees, the last ones, its own training has added."""
        return self.n_trees - self.n_base_trees

    @property
    def n_kept_steps(self) -> int:
        return self.n_members or self.n_own_trees

    def describe(self) -> dict[str, Any]:
        """What is worth knowing of it, as plain values."""
        trees = [self.ensemble.tree(number) for number in range(self.n_trees)]
        return super().describe() | {
            "trees": self.n_trees,
            "base_trees": self.n_base_trees,
            "leaves": len(self.ensemble.value),
            "most_leaves": max((tree.n_leaves for tree in trees), default=0),
            "depth": max((tree.depth for tree in trees), default=0),
            "categorical": [self.feature_names[feature] for feature in self.schema.categories],
            "levels": {n: list(levels) for n, levels in self.schema.levels_by_name.items()},
        }

    @cached_property
    def _prepared(self) -> PreparedEnsemble:
        # Threads that come first together may each make one; all are alike, and one stays.
        return PreparedEnsemble(self.ensemble)

    def predict(
        self,
        data: Any,
        *,
        n_trees: int | None = None,
        base_scores: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Floats:
        """As that of `ScoringModel`; `BinnedData` are scored by their codes."""
        if not isinstance(data, BinnedData):
            return super().predict(data, n_trees=n_trees, base_scores=base_scores, n_jobs=n_jobs)
        if n_trees is not None:
            n_trees = whole_number("n_trees", n_trees, 0, self.n_trees)
        scores = self._start_of_binned(data, base_scores)
        self._walk_binned(data, scores, 0, self.n_trees if n_trees is None else n_trees, n_jobs)
        return scores

    def _start_of_binned(self, data: BinnedData, base_scores: ArrayLike | None) -> Floats:
        """What the scores of data with the bins of the model start from: an array of its own."""
        check_names(data.feature_names, self.feature_names)
        if named_categories(data.bins.categories, data.levels) != self.schema.named_categories:
            raise DataError(
                "binned data must have the categories of the model. Got others: score the features "
                "themselves."
            )
        needed = self.schema.needs_base_scores
        base = base_of(data, base_scores, data.n_documents, needed=needed)
        return np.zeros(data.n_documents) if base is None else base.copy()

    def _walk_binned(
        self, data: BinnedData, scores: Floats, first: int, last: int, n_jobs: int | None
    ) -> None:
        """Add to scores what trees from one number to before another give, by codes."""
        from rankgrove.trees.leaves import walk_tree  # noqa: PLC0415 (imports the engine)

        for number in range(first, last):
            walk_tree(self.ensemble.tree(number), data.bins, data.matrix, scores, n_jobs)

    def _score(
        self, features: Features, base: Floats | None, n_trees: int | None, n_jobs: int | None
    ) -> Floats:
        if n_trees is not None:
            n_trees = whole_number("n_trees", n_trees, 0, self.n_trees)
        return self._prepared.score(
            self.schema.encode(features), n_trees=n_trees, n_jobs=n_jobs, base=base
        )

    @property
    def _file_version(self) -> int:
        return 2 if self.schema.levels else 1

    def _to_file(self) -> tuple[dict[str, str], Arrays]:
        return describe(self), self.ensemble.arrays()

    @classmethod
    def _from_file(cls, metadata: dict[str, str], arrays: Arrays) -> Self:
        if arrays.keys() != _ARRAYS:
            refuse(f"must hold the arrays {', '.join(sorted(_ARRAYS))} and no others. {AGAIN}")
        return cls(Ensemble(**arrays), **described(metadata))

    def importance(
        self,
        kind: str = "gain",
        data: Any = None,
        *,
        base_scores: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Floats:
        """How much each feature counts: the sum of its split gains, or the number of its splits.

        The third kind, "contribution", is measured on data: see `ScoringModel.importance`.

        >>> Model(Ensemble.from_trees([]), Schema(("bm25", "pagerank")), {}, {}).importance()
        array([0., 0.])
        """
        if kind == "contribution":
            return super().importance(kind, data, base_scores=base_scores, n_jobs=n_jobs)
        return tree_importance(self.ensemble, self.n_features, kind)

    def used_features(self) -> NDArray[np.int64]:
        return np.unique(self.ensemble.feature).astype(np.int64)

    def _contributions(self, features: Features, base: Floats | None, n_jobs: int | None) -> Floats:
        parts = contributions(self.ensemble, self.schema.encode(features), n_jobs=n_jobs)
        if base is not None:
            parts[:, -1] += base
        return parts

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


def prefix_scores(
    model: Model, data: Any, n_trees: Sequence[int], n_jobs: int | None = None
) -> Iterator[Floats]:
    """The scores by the first so many trees, for rising numbers; each tree is gone through once.

    They have the bits of `Model.predict` with that number of trees.
    """
    if isinstance(data, BinnedData):
        scores, done = model._start_of_binned(data, None), 0
        for number in n_trees:
            model._walk_binned(data, scores, done, number, n_jobs)
            done = number
            yield scores.copy()
        return
    encoded = model.schema.encode(features_of(data, model.feature_names, model.schema.levels))
    base = base_of(data, None, len(encoded), needed=model.schema.needs_base_scores)
    scores = np.zeros(len(encoded)) if base is None else base
    done = 0
    for number in n_trees:
        part = model.ensemble.between(done, number)
        scores = PreparedEnsemble(part).score(encoded, n_jobs=n_jobs, base=scores)
        done = number
        yield scores
