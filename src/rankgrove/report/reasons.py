"""The section `why`: which features put the shown documents where they are, under each model."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.levels import value_of
from rankgrove.metrics.base import Floats
from rankgrove.model.explain import BASE_SCORE
from rankgrove.report.material import (
    Candidate,
    Integers,
    Material,
    digits_for,
    plain_numbers,
    rows_of,
)

# So many features are named in each query; the others are added up.
FEATURES = 8
# The contributions of a network take milliseconds per document: so many documents are explained.
MOST_BY_NETWORK = 2000
_SIGNIFICANT = 4
_SCORE_DIGITS = 5
# Contributions of this many numbers at a time: 64 MB for each candidate.
_BLOCK = 1 << 23


class Contributions(NamedTuple):
    """What each feature adds to the scores of some rows under one model, by all features' names."""

    adds: Floats
    start: float
    scores: Floats


def explained(material: Material) -> dict[str, Candidate]:
    """The candidates whose scores are sums over features."""
    return {
        name: candidate
        for name, candidate in material.candidates.items()
        if candidate.model is not None and candidate.model.adds_up
    }


def feature_names(candidates: dict[str, Candidate]) -> list[str]:
    """The features of all these models, in their order; base scores count as one more."""
    models = [one.model for one in candidates.values() if one.model is not None]
    names = dict.fromkeys(name for model in models for name in model.feature_names)
    if any(model.schema.needs_base_scores for model in models):
        names[BASE_SCORE] = None
    return list(names)


def contributions_of(
    candidate: Candidate, rows: Integers, names: list[str], n_jobs: int | None
) -> Contributions:
    """What a model's features add, with a column per name; 0 for those that are not its own."""
    model, data = candidate.model, candidate.data
    if model is None or data is None:
        raise TypeError("contributions are those of a model on data with its features.")
    part = rows_of(data, rows)
    found = model.contributions(part, n_jobs=n_jobs)
    columns = {name: number for number, name in enumerate(names)}
    adds = np.zeros((len(rows), len(names)))
    adds[:, [columns[name] for name in model.feature_names]] = found[:, :-1]
    start = found[:, -1]
    if model.schema.needs_base_scores and part.base_scores is not None:
        adds[:, columns[BASE_SCORE]] = part.base_scores
        start = start - part.base_scores
    return Contributions(adds, float(start[0]), candidate.scores[rows])


def values_of(
    candidates: dict[str, Candidate], rows: Integers, names: list[str]
) -> NDArray[np.float64]:
    """The values of the features in these rows, NaN where missing, by the names of all."""
    columns = {name: number for number, name in enumerate(names)}
    values = np.full((len(rows), len(names)), np.nan)
    for candidate in reversed(candidates.values()):
        model, data = candidate.model, candidate.data
        if model is None or data is None:
            continue
        own = [columns[name] for name in model.feature_names]
        values[:, own] = np.asarray(data.features[rows])
        if model.schema.needs_base_scores and data.base_scores is not None:
            values[:, columns[BASE_SCORE]] = data.base_scores[rows]
    return values


def make_reasons(material: Material, rows: Integers, chosen: Integers) -> dict[str, Any]:
    """The features that part the shown documents of the chosen queries most, and what each adds.

    Features are chosen query by query, so that any two documents, and any two models, can be set
    against each other. Of a query, all documents have the same features, in the same order. A score
    is `start`, what the features add, and the rest.
    """
    candidates = explained(material)
    names = feature_names(candidates)
    n_shown = min(FEATURES, len(names))
    kept = rows[np.isin(material.query_of_row[rows], chosen)]
    counts = np.bincount(material.query_of_row[kept], minlength=material.n_queries)[chosen]
    blocks = [
        _explain_block(material, candidates, names, n_shown, kept[first:last], counts[q0:q1])
        for q0, q1, first, last in _blocks(counts, len(names))
    ]
    adds = {name: np.concatenate([block.adds[name] for block in blocks]) for name in candidates}
    rests = {name: np.concatenate([block.rests[name] for block in blocks]) for name in candidates}
    scores = {name: candidate.scores[kept] for name, candidate in candidates.items()}
    digits = {name: digits_for(adds[name], _SIGNIFICANT) for name in candidates}

    def listed(arrays: dict[str, Floats]) -> list[list[float | None] | None]:
        return [
            plain_numbers(arrays[name].ravel(), digits[name]) if name in arrays else None
            for name in material.names
        ]

    values = np.concatenate([block.values for block in blocks])
    features = np.concatenate([block.features for block in blocks])
    by_row = np.repeat(features, counts, axis=0)
    return {
        "queries": chosen.tolist(),
        "counts": counts.tolist(),
        "features": n_shown,
        "names": names,
        "feature": features.ravel().tolist(),
        "value": _plain_values(candidates, names, by_row.ravel(), values.ravel()),
        "adds": listed(adds),
        "rest": listed(rests),
        "start": [blocks[0].starts.get(name) for name in material.names],
        "score": [
            plain_numbers(scores[name], digits_for(scores[name], _SCORE_DIGITS))
            if name in scores
            else None
            for name in material.names
        ],
    }


class _Block(NamedTuple):
    """The reasons of some queries: features by query, all else by row or by row and feature."""

    features: Integers
    values: Floats
    adds: dict[str, Floats]
    rests: dict[str, Floats]
    starts: dict[str, float]


def _blocks(counts: Integers, n_features: int) -> list[tuple[int, int, int, int]]:
    """Runs of queries, and of their rows, whose contributions take little memory."""
    ends = np.cumsum(counts)
    part = (ends - 1) * max(1, n_features) // _BLOCK
    bounds = [*np.flatnonzero(np.append(True, part[1:] != part[:-1])).tolist(), len(counts)]
    starts = np.append(0, ends).tolist()
    return [(q0, q1, starts[q0], starts[q1]) for q0, q1 in pairwise(bounds)]


def _explain_block(
    material: Material, candidates: dict[str, Candidate], names: list[str], n_shown: int,
    rows: Integers, counts: Integers,
) -> _Block:  # fmt: skip
    found = {
        name: contributions_of(candidate, rows, names, material.n_jobs)
        for name, candidate in candidates.items()
    }
    query = np.repeat(np.arange(len(counts)), counts)
    firsts = np.cumsum(counts) - counts
    centred = {
        name: one.adds - (np.add.reduceat(one.adds, firsts) / counts[:, None])[query]
        for name, one in found.items()
    }
    # What parts the documents of the query, and what parts the models in them.
    baseline = material.comparison.baseline
    reference = centred[baseline if baseline in centred else next(iter(centred))]
    strength = sum(np.abs(one) + np.abs(one - reference) for one in centred.values())
    by_query = np.add.reduceat(np.asarray(strength), firsts)
    features = np.argsort(-by_query, axis=1, kind="stable")[:, :n_shown]
    picked = features[query]
    adds = {name: np.take_along_axis(one.adds, picked, axis=1) for name, one in found.items()}
    rests = {name: one.adds.sum(axis=1) - adds[name].sum(axis=1) for name, one in found.items()}
    values = np.take_along_axis(values_of(candidates, rows, names), picked, axis=1)
    return _Block(features, values, adds, rests, {name: one.start for name, one in found.items()})


def _plain_values(
    candidates: dict[str, Candidate], names: list[str], features: Integers, values: Floats
) -> list[Any]:
    """Values for JSON: six digits of a number, a category or infinity as text, None if missing."""
    levels = {}
    for candidate in candidates.values():
        if candidate.data is not None and candidate.model is not None:
            for number, known in candidate.data.levels.items():
                levels[names.index(candidate.model.feature_names[number])] = known
    shown: list[Any] = [
        None if value != value else str(value) if math.isinf(value) else float(f"{value:.6g}")
        for value in values.tolist()
    ]
    for at in np.flatnonzero(np.isin(features, list(levels))).tolist():
        if values[at] == values[at]:
            shown[at] = str(value_of(levels, int(features[at]), float(values[at])))
    return shown
