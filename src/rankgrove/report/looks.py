"""The section `looks`: what in the data, the scores and the report itself is worth a look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.describe import Description
from rankgrove.metrics.evaluate import measure
from rankgrove.report.material import Material

_NAMED = 10


def make_looks(material: Material, description: Description) -> list[dict[str, Any]]:
    """One entry per matter, each with a sentence, how many there are, and the first queries."""
    found = [
        *_tie_looks(material),
        *_query_looks(material),
        *_candidate_looks(material),
        *_feature_looks(description),
    ]
    return [look for look in found if look["count"]]


def _look(
    what: str, sentence: str, queries: NDArray[np.bool_] | int, **more: Any
) -> dict[str, Any]:
    """An entry about queries that have something, or about so many of something else."""
    if isinstance(queries, int):
        return {"what": what, "count": queries, "sentence": sentence, "queries": [], **more}
    numbers = np.flatnonzero(queries)
    return {
        "what": what,
        "count": len(numbers),
        "sentence": sentence.format(n=_queries(len(numbers))),
        "queries": numbers[:_NAMED].tolist(),
        **more,
    }


def _queries(number: int) -> str:
    return f"{number:,} {'query' if number == 1 else 'queries'}"


def _tie_looks(material: Material) -> list[dict[str, Any]]:
    """Equal scores of unequal labels in the first ranks, and what they could make of the metric."""
    metric = material.metrics[0]
    found = []
    for name, candidate in material.candidates.items():
        order = material.order(name, "stable")
        scores, labels = candidate.scores[order], material.data.labels[order]
        tied = (scores[1:] == scores[:-1]) & (labels[1:] != labels[:-1])
        tied &= (material.places[1:] > 0) & (material.places[:-1] < material.top)
        queries = np.zeros(material.n_queries, np.bool_)
        queries[material.query_of_row[1:][tied]] = True
        if not queries.any():
            continue
        bounds = measure(
            material.rankings[name],
            [replace(metric, ties="worst"), replace(metric, ties="best")],
            material.data.weights,
        )
        low, high = (bound.mean for bound in bounds)
        found.append(
            _look(
                "ties",
                f"{name} gives equal scores to documents of different labels in the first "
                f"{material.top} ranks of {{n}}: {metric} is {low:.4f} at worst, {high:.4f} at "
                f"best.",
                queries, candidate=name, low=low, high=high,
            )
        )  # fmt: skip
    return found


def _query_looks(material: Material) -> list[dict[str, Any]]:
    data, metric = material.data, str(material.metrics[0])
    starts = data.offsets[:-1]
    lowest, highest = (edge.reduceat(data.labels, starts) for edge in (np.minimum, np.maximum))
    values = next(iter(material.comparison.per_query(metric).values()))
    return [
        _look("skipped", f"{metric} skips {{n}}: they have nothing to rank.", np.isnan(values)),
        _look("no_relevant", "{n} without a relevant document.", highest <= 0),
        _look("one_document", "{n} of one document, which no ranking gets wrong.", data.group == 1),
        _look(
            "equal_labels",
            "{n} of several documents that all have the same label.",
            (lowest == highest) & (data.group > 1),
        ),
        _look(
            "all_relevant",
            "{n} in which every document is relevant.",
            (lowest > 0) & (data.group > 1) & (lowest < highest),
        ),
    ]


def _candidate_looks(material: Material) -> list[dict[str, Any]]:
    data = material.data
    found = []
    for name, candidate in material.candidates.items():
        lowest = np.minimum.reduceat(candidate.scores, data.offsets[:-1])
        highest = np.maximum.reduceat(candidate.scores, data.offsets[:-1])
        constant = (lowest == highest) & (data.group > 1)
        text = f"{name} gives all documents one score in {{n}}."
        found.append(_look("constant_scores", text, constant, candidate=name))
        infinite = np.zeros(material.n_queries, np.bool_)
        infinite[material.query_of_row[np.isinf(candidate.scores)]] = True
        text = f"{name} has infinite scores in {{n}}."
        found.append(_look("infinite_scores", text, infinite, candidate=name))
    names = material.names
    for at, a in enumerate(names):
        for b in names[at + 1 :]:
            if np.array_equal(material.ranks[a], material.ranks[b]):
                text = f"{a} and {b} rank all documents alike: are they the same?"
                found.append(_look("same_ranking", text, material.n_queries))
    return found


def _feature_looks(description: Description) -> list[dict[str, Any]]:
    gaps, constant = description.missing_features, description.constant_features
    return [
        _look(
            "contradictions",
            f"{description.contradictions:,} documents have the features of another one of their "
            f"query and another label: no model can tell them apart.",
            description.contradictions if description.features else 0,
        ),
        _look(
            "duplicates",
            f"{description.duplicates:,} documents have the same features as an earlier one.",
            description.duplicates if description.features else 0,
        ),
        _look(
            "missing_values",
            f"{100 * description.missing_share:.1f} % of all values are missing, in "
            f"{len(gaps):,} of {description.features:,} features: {_some(list(gaps))}.",
            len(gaps),
        ),
        _look(
            "constant_features",
            f"{len(constant):,} of {description.features:,} features have the same value in every "
            f"document: {_some(constant)}.",
            len(constant),
        ),
    ]


def _some(names: Any) -> str:
    shown = [str(name) for name in names]
    more = f" and {len(shown) - _NAMED:,} more" if len(shown) > _NAMED else ""
    return ", ".join(shown[:_NAMED]) + more
