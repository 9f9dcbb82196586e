"""What all generated scorers share: the tables of a model, and how its trees become one score.

A generated scorer is a table per column of `WalkTables` and a loop of a few lines over them, in
one file that needs nothing else. Trees written out as nested ifs are what compilers refuse or take
minutes for; tables have no limit of method, constant or compiler.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove._version import __version__
from rankgrove.export.format import Exportable
from rankgrove.export.tables import WalkTables
from rankgrove.trees.ensemble import NO_SET

# What `rankgrove export --list` says of every generated scorer.
SCORER_EXACT = (
    "the score, bit for bit, with categories, missing and infinite values and base scores"
)
SCORER_REFUSES = "networks"


@dataclass(frozen=True, eq=False)
class Program:
    """What a generated scorer does, for every language.

    Attributes
    ----------
    tables
        All trees. The `feature` of a split by categories is a place in `categorical`.
    categorical
        The features whose categories are looked up, one code each.
    first_trees
        Where the trees of each part begin, and where the last ones end. A model of trees is one
        part; the trees on top of a combined model come last.
    weights
        One per part where the score is a weighted sum of the parts' scores.
    on_top
        Whether the last trees take the scores of the other parts, as float32, as their features.
    needs_base
        Whether every part but the last one on top starts from a base score.
    feature_names, levels
        Those of the model; levels by name of the feature.
    """

    tables: WalkTables
    categorical: tuple[int, ...]
    first_trees: tuple[int, ...]
    weights: tuple[float, ...] | None
    on_top: bool
    needs_base: bool
    feature_names: tuple[str, ...]
    levels: dict[str, tuple[Any, ...]]

    @classmethod
    def of(cls, source: Exportable) -> Program:
        """The program of a model of trees, or of a combined model of such."""
        parts = [WalkTables.of(model) for model in source.models]
        schema = source.parts[0].schema
        categorical = tuple(sorted(set().union(*(part.categories for part in parts))))
        counts = [len(part.roots) for part in parts]
        return cls(
            tables=joined([_with_places(part, categorical) for part in parts]),
            categorical=categorical,
            first_trees=tuple(itertools.accumulate(counts, initial=0)),
            weights=source.weights,
            on_top=source.top is not None,
            needs_base=source.needs_base_scores,
            feature_names=source.feature_names,
            levels=schema.levels_by_name,
        )

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The first and the last tree, plus one, of each part."""
        return list(itertools.pairwise(self.first_trees))

    @property
    def has_sets(self) -> bool:
        return bool(self.categorical)

    @property
    def category_values(self) -> NDArray[np.float32]:
        """The categories of all categorical features, each in the order of its codes."""
        values = [self.tables.categories[feature] for feature in self.categorical]
        return np.concatenate([np.empty(0, np.float32), *values])

    @property
    def first_categories(self) -> NDArray[np.int32]:
        """Where the categories of each categorical feature begin, and where the last ones end."""
        counts = [len(self.tables.categories[feature]) for feature in self.categorical]
        return np.cumsum([0, *counts], dtype=np.int32)


def _with_places(tables: WalkTables, categorical: Sequence[int]) -> WalkTables:
    """The tables with places in `categorical` for the features of splits by categories."""
    places = np.searchsorted(categorical, tables.feature) if categorical else tables.feature
    feature = np.where(tables.category_set != NO_SET, places, tables.feature)
    return replace(tables, feature=feature.astype(np.int32))


def joined(parts: Sequence[WalkTables]) -> WalkTables:
    """The tables of several models as one, their trees one after the other."""
    n_splits = np.cumsum([0, *(len(part.feature) for part in parts)])
    n_leaves = np.cumsum([0, *(len(part.value) for part in parts)])
    n_sets = np.cumsum([0, *(len(part.category_sets) for part in parts)])

    def moved(name: str) -> NDArray[np.int32]:
        arrays = [getattr(part, name) for part in parts]
        shifted = [
            np.where(nodes >= 0, nodes + splits, nodes - leaves)
            for nodes, splits, leaves in zip(arrays, n_splits[:-1], n_leaves[:-1], strict=True)
        ]
        return np.concatenate(shifted).astype(np.int32)

    sets = [
        np.where(part.category_set == NO_SET, NO_SET, part.category_set + first)
        for part, first in zip(parts, n_sets[:-1], strict=True)
    ]
    return WalkTables(
        roots=moved("roots"),
        feature=np.concatenate([part.feature for part in parts]),
        threshold=np.concatenate([part.threshold for part in parts]),
        missing_left=np.concatenate([part.missing_left for part in parts]),
        left=moved("left"),
        right=moved("right"),
        category_set=np.concatenate(sets).astype(np.int32),
        category_sets=np.concatenate([part.category_sets for part in parts]),
        value=np.concatenate([part.value for part in parts]),
        categories={f: values for part in parts for f, values in part.categories.items()},
        n_features=parts[0].n_features,
    )


def base64_of(array: ArrayLike, dtype: str) -> str:
    """The numbers of an array, in a type whose bytes stand from low to high, as Base64."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode("ascii")


def base64_text(text: str) -> str:
    """A text in UTF-8 as Base64."""
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")


def cut_text(text: str, length: int) -> Iterator[str]:
    """A text in pieces of at most so many characters; one empty piece of an empty text."""
    for first in range(0, max(len(text), 1), length):
        yield text[first : first + length]


def level_lines(program: Program) -> list[str]:
    """For each feature of categories with names a line of ASCII that says what its numbers mean."""
    return [
        f"The value of {json.dumps(name)} is a place, from 0 on, in {json.dumps(list(levels))}."
        for name, levels in program.levels.items()
    ]


def origin(source: Exportable) -> str:
    """A line that says what a file was made of and by whom."""
    return (
        f"Written by Rankgrove {__version__} from the model {source.checksum}: "
        f"{source.n_trees} trees, {source.n_leaves} leaves."
    )
