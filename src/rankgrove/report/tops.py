"""The sections `tops` and `shares`: the documents that are shown, and what each is worth."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankgrove.report.material import (
    Integers,
    Material,
    digits_for,
    plain_labels,
    plain_numbers,
    plain_text,
)
from rankgrove.report.queries import in_units

# Scores are as many bytes as all else of this section: beyond so many documents they are left out.
MOST_SCORES = 30_000
_SCORE_DIGITS = 5


def ideal_ranks(material: Material) -> Integers:
    """The rank of each row in the ideal order: highest label first, then the best shown rank."""
    shown = np.min(list(material.ranks.values()), axis=0)
    data = material.data
    order = np.lexsort((shown, -data.labels.astype(np.float64), material.query_of_row))
    ranks = np.empty(data.n_documents, np.int64)
    ranks[order] = material.places + 1
    return ranks


def shown_rows(material: Material, ideal: Integers) -> Integers:
    """The rows of all that stand in the first ranks of a candidate or of the ideal order.

    Query by query, and within each in the ideal order: labels that fall and ideal ranks that rise
    are packed into next to nothing.
    """
    best = np.minimum(np.min(list(material.ranks.values()), axis=0), ideal)
    rows = np.flatnonzero(best <= material.top)
    return rows[np.lexsort((ideal[rows], material.query_of_row[rows]))]


def make_tops(material: Material, rows: Integers, ideal: Integers, titles: Any) -> dict[str, Any]:
    """The documents of `rows`, one entry per document in each list but `counts`."""
    data = material.data
    counts = np.bincount(material.query_of_row[rows], minlength=material.n_queries)
    ids = None
    if data.document_ids is not None:
        ids = [plain_text(one) for one in data.document_ids[rows].tolist()]
    scores = None
    if len(rows) <= MOST_SCORES:
        scores = [_plain_scores(one.scores[rows]) for one in material.candidates.values()]
    return {
        "k": material.top,
        "ties": material.ties,
        "queries": None,
        "counts": counts.tolist(),
        "document": (material.places[rows] + 1).tolist(),
        "id": ids,
        "title": None if titles is None else [titles[row] for row in rows.tolist()],
        "label": plain_labels(data.labels[rows]),
        "rank": [material.ranks[name][rows].tolist() for name in material.names],
        # (Where a document stands below the shown ranks of the ideal order is of no use.)
        "ideal": np.minimum(ideal[rows], material.top + 1).tolist(),
        "score": scores,
    }


def make_shares(material: Material, rows: Integers, chosen: Integers) -> dict[str, Any]:
    """What each shown document of the chosen queries adds to each metric, in its units.

    The difference between two candidates is by how much a document that moved changed the metric.
    """
    kept = rows[np.isin(material.query_of_row[rows], chosen)]
    values = {
        str(metric): None
        if material.no_shares(metric)
        else [in_units(material.shares(metric, name)[kept]) for name in material.names]
        for metric in material.metrics
    }
    counts = np.bincount(material.query_of_row[kept], minlength=material.n_queries)[chosen]
    return {"queries": chosen.tolist(), "counts": counts.tolist(), "values": values}


def _plain_scores(scores: Any) -> list[float | None]:
    return plain_numbers(scores, digits_for(scores, _SCORE_DIGITS))
