"""The sections `by_rank` and `labels`: where a metric is won, and how labels are ranked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.metrics.base import Floats, Metric
from rankgrove.metrics.shares import order_of
from rankgrove.report.material import Integers, Material, digits_for, plain_numbers

# Of the scores of a label.
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_SCORE_DIGITS = 5


def make_by_rank(material: Material) -> dict[str, Any]:
    """What each rank gives to each metric, and which labels stand there, one row per candidate.

    The gains of a candidate and its `rest` add up to its mean, but for rounding.
    """
    cutoffs = [metric.k for metric in material.metrics if metric.k is not None]
    longest = int(material.data.group.max())
    n_ranks = min(longest, max([material.top, *(k for k in cutoffs if k <= 2 * material.top)]))
    grades = material.grades
    counts = None
    if grades is not None:
        counts = [
            label_counts(material.ranks[name], material.grade_of_row, n_ranks, len(grades)).tolist()
            for name in material.names
        ]
    lengths = np.bincount(material.data.group, minlength=n_ranks + 1)
    return {
        "ranks": n_ranks,
        "gains": {str(metric): _gains(material, metric, n_ranks) for metric in material.metrics},
        "queries": (material.n_queries - np.cumsum(lengths)[:n_ranks]).tolist(),
        "mean_label": [_mean_labels(material, name, n_ranks) for name in material.names],
        "grades": grades,
        "labels": counts,
    }


def label_counts(
    ranks: Integers, grade_of_row: Integers, n_ranks: int, n_grades: int
) -> NDArray[np.int64]:
    """How many documents of each grade stand at each rank: ranks by grades."""
    shown = ranks <= n_ranks
    cells = (ranks[shown] - 1) * n_grades + grade_of_row[shown]
    return np.bincount(cells, minlength=n_ranks * n_grades).reshape(n_ranks, n_grades)


def _mean_labels(material: Material, name: str, n_ranks: int) -> list[float | None]:
    ranks = material.ranks[name]
    shown = ranks <= n_ranks
    sums = np.bincount(
        ranks[shown] - 1, weights=material.data.labels[shown].astype(np.float64), minlength=n_ranks
    )
    return plain_numbers(sums / np.bincount(ranks[shown] - 1, minlength=n_ranks), 6)


def _gains(material: Material, metric: Metric, n_ranks: int) -> dict[str, Any]:
    """The mean of the metric by rank; the rest is below these ranks, or of empty queries."""
    reason = material.no_shares(metric)
    entry: dict[str, Any] = {"reason": reason, "by_rank": None, "rest": None}
    if reason is not None:
        return entry
    weights = material.data.query_weights
    entry |= {"by_rank": [], "rest": []}
    for name, values in material.comparison.per_query(str(metric)).items():
        weight = np.where(np.isnan(values), 0.0, weights)
        shares = material.shares(metric, name) * weight[material.query_of_row]
        by_place = shares[material.order(name, order_of(metric))]
        place = np.minimum(material.places, n_ranks)
        sums = np.bincount(place, weights=by_place, minlength=n_ranks + 1) / weight.sum()
        # What empty queries are counted as is of no rank.
        summed = np.bincount(material.query_of_row, weights=shares)
        empty = np.where(summed == 0.0, np.nan_to_num(values) * weight, 0.0).sum() / weight.sum()
        entry["by_rank"].append(sums[:n_ranks].tolist())
        entry["rest"].append(float(sums[n_ranks] + empty))
    return entry


def make_labels(material: Material) -> dict[str, Any] | None:
    """Scores by label, and pairs of labels in the wrong order; None if labels are no grades.

    A score is taken less the mean of its query, as only differences within a query count.
    """
    grades = material.grades
    if grades is None:
        return None
    data = material.data
    spreads = []
    for candidate in material.candidates.values():
        with np.errstate(invalid="ignore"):
            sums = np.add.reduceat(candidate.scores, data.offsets[:-1])
            centred = candidate.scores - (sums / data.group)[material.query_of_row]
        rows = [centred[material.grade_of_row == grade] for grade in range(len(grades))]
        spreads.append([_quantiles(scores, centred) for scores in rows])
    totals, wrong, tied = _pairs_of_labels(material, len(grades))
    return {
        "grades": grades,
        "quantiles": list(_QUANTILES),
        "scores": spreads,
        "pairs": totals.tolist(),
        "wrong": [one.tolist() for one in wrong],
        "tied": [one.tolist() for one in tied],
    }


def _quantiles(scores: Floats, everything: Floats) -> list[float | None] | None:
    finite = scores[np.isfinite(scores)]
    if len(finite) == 0:
        return None
    return plain_numbers(np.quantile(finite, _QUANTILES), digits_for(everything, _SCORE_DIGITS))


def _pairs_of_labels(
    material: Material, n_grades: int
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """For each higher and lower grade: pairs within queries, those in the wrong order, the tied.

    In the wrong order is a pair of which the lower label has the higher score.
    """
    data, grade = material.data, material.grade_of_row
    members = [(grade == one).astype(np.int64) for one in range(n_grades)]
    sizes = np.array([np.add.reduceat(member, data.offsets[:-1]) for member in members])
    totals = np.tril(sizes @ sizes.T, -1)
    wrong, tied = [], []
    for name, candidate in material.candidates.items():
        order = material.order(name, "stable")
        scores = candidate.scores[order]
        begins = np.append(True, scores[1:] != scores[:-1]) | (material.places == 0)
        starts = np.flatnonzero(begins)
        group = np.cumsum(begins) - 1
        ends = np.append(starts[1:], len(order))
        first = data.offsets[:-1][material.query_of_row]
        above, level = np.zeros((2, n_grades, n_grades), np.int64)
        own = grade[order]
        for lower in range(n_grades - 1):
            counts = np.append(0, np.cumsum(members[lower][order]))
            before = counts[starts][group] - counts[first]
            within = (counts[ends] - counts[starts])[group]
            above[:, lower] = np.bincount(own, weights=before, minlength=n_grades)
            level[:, lower] = np.bincount(own, weights=within, minlength=n_grades)
        wrong.append(np.tril(above, -1))
        tied.append(np.tril(level, -1))
    return totals, wrong, tied
