"""Training as labels show it: who is pushed where by how much, and who stands at which rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.documents import Documents
from rankgrove.errors import DataError, ParameterError, whole_number
from rankgrove.metrics.base import Rankings
from rankgrove.model.forces import (
    ForceField,
    ObjectiveLike,
    check_documents,
    forces_over_trees,
    tree_numbers,
    trees_of,
)
from rankgrove.model.model import prefix_scores
from rankgrove.objectives.base import Floats

# So many values of labels can be told apart; more are real-valued labels.
_MOST_LABELS = 64


@dataclass(frozen=True, eq=False)
class ForceTotals:
    """What documents of each label are pushed by through training, added up over all of them.

    Attributes
    ----------
    objective
        The name of what pushes.
    trees
        The trees that the forces are for.
    labels
        The labels of the data, rising.
    up, down
        One row per tree, one column per label: the sum of the forces that push up, 0 or more, and
        of those that push down, 0 or less.
    documents
        How many documents have each label.
    """

    objective: str
    trees: list[int]
    labels: list[float]
    up: Floats
    down: Floats
    documents: NDArray[np.int64]

    @classmethod
    def of(cls, fields: Iterable[ForceField]) -> ForceTotals:
        """The sums of forces on the same documents, tree by tree."""
        trees: list[int] = []
        sums: list[tuple[Floats, Floats]] = []
        for field in fields:
            if not trees:
                name = field.objective.name
                labels, label_of = _labels(field)
            trees.append(field.tree or 0)
            up, down = (
                np.bincount(label_of, weights=parts, minlength=len(labels)).astype(np.float64)
                for parts in (np.maximum(field.forces, 0.0), np.minimum(field.forces, 0.0))
            )
            sums.append((up, down))
        if not trees:
            raise ParameterError("force totals must be of at least one tree. Got none.")
        documents = np.bincount(label_of, minlength=len(labels))
        by_tree = np.array(sums)
        return cls(name, trees, labels, by_tree[:, 0], by_tree[:, 1], documents)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "objective": self.objective,
            "trees": self.trees,
            "labels": self.labels,
            "up": self.up.tolist(),
            "down": self.down.tolist(),
            "documents": self.documents.tolist(),
        }


@dataclass(frozen=True, eq=False)
class LabelsByRank:
    """How many documents of each label stand at each rank, through training.

    Attributes
    ----------
    trees
        After so many trees.
    labels
        The labels of the data, rising.
    counts
        By tree, rank and label: the queries that have a document of that label there. Queries of
        fewer documents have nothing at a rank.
    """

    trees: list[int]
    labels: list[float]
    counts: NDArray[np.int64]

    @property
    def shares(self) -> Floats:
        """As `counts`, in shares of the documents at each rank; 0 where there are none."""
        shares: Floats = self.counts / np.maximum(self.counts.sum(axis=2, keepdims=True), 1)
        return shares

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"trees": self.trees, "labels": self.labels, "counts": self.counts.tolist()}


def force_totals(
    model: Any,
    data: Documents,
    trees: Sequence[int] | None = None,
    objective: ObjectiveLike | None = None,
    *,
    n_jobs: int | None = None,
) -> ForceTotals:
    """The sums of upward and of downward forces on the documents of each label, tree by tree.

    Parameters
    ----------
    model, data, trees, objective, n_jobs
        As for `forces_over_trees`.

    Examples
    --------
    >>> from rankgrove import Ranker, force_totals, make_web_search
    >>> data = make_web_search(20, 16, mean_documents=8)
    >>> ranker = Ranker(objective="rankmart", n_estimators=4).fit(data)
    >>> totals = force_totals(ranker, data, [0, 4])
    >>> totals.up.shape == (2, len(totals.labels))
    True
    """
    return ForceTotals.of(forces_over_trees(model, data, trees, objective, n_jobs=n_jobs))


def labels_by_rank(
    model: Any,
    data: Documents,
    trees: Sequence[int] | None = None,
    *,
    top: int = 20,
    n_jobs: int | None = None,
) -> LabelsByRank:
    """How many documents of each label the first trees put at each rank.

    Parameters
    ----------
    model, data, n_jobs
        As for `forces_over_trees`.
    trees
        Rising numbers of trees to rank by, from 0; every one by default. Of equal scores, as after
        0 trees, the earlier row stands first.
    top
        Down to this rank.

    Examples
    --------
    >>> from rankgrove import Ranker, labels_by_rank, make_web_search
    >>> data = make_web_search(20, 16, mean_documents=8)
    >>> found = labels_by_rank(Ranker(n_estimators=4).fit(data), data, [0, 4], top=3)
    >>> found.counts.sum(axis=2).tolist()
    [[20, 20, 18], [20, 20, 18]]
    """
    of_trees = trees_of(model)
    check_documents(data)
    labels, label_of = _labels(data)
    numbers = tree_numbers(of_trees, trees)
    deepest = min(whole_number("top", top, 1), int(data.group.max()))
    rankings = Rankings.of_data(data, np.zeros(data.n_documents), n_jobs)
    places = np.arange(data.n_documents) - np.repeat(data.offsets[:-1], data.group)
    first = places < deepest
    counts = []
    for scores in prefix_scores(of_trees, data, numbers, n_jobs):
        order = rankings.with_scores(scores).order("stable")
        cells = places[first] * len(labels) + label_of[order[first]]
        found = np.bincount(cells, minlength=deepest * len(labels))
        counts.append(found.reshape(deepest, len(labels)))
    return LabelsByRank(numbers, labels, np.array(counts))


def _labels(data: Documents | ForceField) -> tuple[list[float], NDArray[np.int64]]:
    """The labels that there are, rising, and for each document which of them it has."""
    values, label_of = np.unique(data.labels, return_inverse=True)
    if len(values) > _MOST_LABELS:
        raise DataError(
            f"labels must be at most {_MOST_LABELS} grades to be told apart. Got {len(values)} "
            f"different ones: round them first."
        )
    return values.astype(float).tolist(), label_of
