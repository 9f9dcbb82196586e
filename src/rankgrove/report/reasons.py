"""The section `why`: which features put the shown documents where they are, under each model."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.levels import Levels, value_of
from rankgrove.metrics.base import Floats
from rankgrove.model.base import ScoringModel
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
_SIGNIFICANT = 3
# Contributions of this many numbers at a time: 64 MB for each candidate.
_BLOCK = 1 << 23


class Contributions(NamedTuple):
    """What each feature adds to the scores of some rows under one model, by all features' names."""

    adds: Floats
    start: float


def explained(material: Material) -> dict[str, Candidate]:
    """The candidates whose scores are sums over features."""
    return {
        name: candidate
        for name, candidate in material.candidates.items()
        if candidate.model is not None and candidate.model.adds_up
    }


def feature_names(candidates: dict[str, Candidate]) -> list[str]:
    """The features that these models use, in their order; base scores count as one more."""
    models = [one.model for one in candidates.values() if one.model is not None]
    names = dict.fromkeys(
        model.feature_names[number]
        for model in models
        for number in np.sort(model.used_features()).tolist()
    )
    if any(model.schema.needs_base_scores for model in models):
        names[BASE_SCORE] = None
    return list(names)


def widest(candidates: dict[str, Candidate]) -> int:
    """The most features that any of the models has."""
    return max((one.model.n_features for one in candidates.values() if one.model), default=1)


def own_columns(model: ScoringModel, names: list[str]) -> tuple[Integers, Integers]:
    """The numbers of the features that a model uses, and their places among the names of all."""
    places = {name: place for place, name in enumerate(names)}
    own = np.sort(model.used_features())
    return own, np.array([places[model.feature_names[one]] for one in own.tolist()], np.int64)


def contributions_of(
    candidate: Candidate, rows: Integers, names: list[str], n_jobs: int | None
) -> Contributions:
    """What a model's features add, with a column per name; 0 for those that are not its own."""
    model, data = candidate.model, candidate.data
    if model is None or data is None:
        raise TypeError("contributions are those of a model on data with its features.")
    part = rows_of(data, rows)
    found = model.contributions(part, n_jobs=n_jobs)
    own, columns = own_columns(model, names)
    adds = np.zeros((len(rows), len(names)))
    adds[:, columns] = found[:, own]
    start = found[:, -1]
    if model.schema.needs_base_scores and part.base_scores is not None:
        adds[:, names.index(BASE_SCORE)] = part.base_scores
        start = start - part.base_scores
    return Contributions(adds, float(start[0]))


def values_of(
    candidates: dict[str, Candidate], rows: Integers, names: list[str]
) -> NDArray[np.float64]:
    """The values of the features in these rows, NaN where missing, by the names of all."""
    values = np.full((len(rows), len(names)), np.nan)
    for candidate in reversed(candidates.values()):
        model, data = candidate.model, candidate.data
        if model is None or data is None:
            continue
        own, columns = own_columns(model, names)
        values[:, columns] = np.asarray(data.features[rows])[:, own]
        if model.schema.needs_base_scores and data.base_scores is not None:
            values[:, names.index(BASE_SCORE)] = data.base_scores[rows]
    return values


def levels_of(candidates: dict[str, Candidate], names: list[str]) -> dict[int, Levels]:
    """What the values stand for of features that are categories, by their place among the names."""
    levels: dict[int, Levels] = {}
    for candidate in reversed(candidates.values()):
        if candidate.model is not None and candidate.data is not None:
            own, columns = own_columns(candidate.model, names)
            known = candidate.data.levels
            pairs = zip(own.tolist(), columns.tolist(), strict=True)
            levels |= {column: known[number] for number, column in pairs if number in known}
    return levels


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
        for q0, q1, first, last in _blocks(counts, widest(candidates))
    ]
    adds = {name: np.concatenate([block.adds[name] for block in blocks]) for name in candidates}
    rests = {name: np.concatenate([block.rests[name] for block in blocks]) for name in candidates}
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
    """Values for JSON: four digits of a number, a category or infinity as text, None if missing."""
    levels = levels_of(candidates, names)
    shown: list[Any] = [
        None if value != value else str(value) if math.isinf(value) else float(f"{value:.4g}")
        for value in values.tolist()
    ]
    for at in np.flatnonzero(np.isin(features, list(levels))).tolist():
        if values[at] == values[at]:
            shown[at] = str(value_of(levels, int(features[at]), float(values[at])))
    return shown
