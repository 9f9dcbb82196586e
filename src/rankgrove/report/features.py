"""The section `features`: what each model rests on, and in which direction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.levels import Levels
from rankgrove.metrics.base import Floats
from rankgrove.model.model import Model
from rankgrove.report.material import (
    Candidate,
    Integers,
    Material,
    digits_for,
    every_nth,
    plain_numbers,
)
from rankgrove.report.reasons import (
    contributions_of,
    explained,
    feature_names,
    levels_of,
    own_columns,
    values_of,
    widest,
)

# So many features are shuffled and drawn, those that move scores most.
SHOWN = 20
# Of each query that is looked at, up to so many documents have their contributions taken; a network
# needs milliseconds for each.
_OF_QUERY = 20
_EXPLAINED, _EXPLAINED_BY_NETWORK = 4000, 400
# Documents whose scores are made again for each shuffle of each feature.
_SHUFFLED = 20_000
_REPEATS = 3
_BINS = 20
_SIGNIFICANT = 4
_DROP_DIGITS = 6
# Values in memory at a time, for data of very many features.
_MOST_VALUES = 1 << 25


def make_features(material: Material) -> dict[str, Any]:
    """Importance and shape of the features of all models, on one list of names."""
    with_model = {name: one for name, one in material.candidates.items() if one.model is not None}
    names = feature_names(with_model)
    candidates = explained(material)
    rows = _sample_rows(material, candidates)
    effects = {
        name: _centred(material, contributions_of(one, rows, names, material.n_jobs).adds, rows)
        for name, one in candidates.items()
    }
    moved = {name: np.abs(effect).mean(axis=0) for name, effect in effects.items()}
    shown = _shown_features(with_model, names, moved)
    most = min(_SHUFFLED, _MOST_VALUES // widest(with_model))
    n_queries = max(2, material.n_queries * most // material.data.n_documents)
    queries = _counted_queries(material, n_queries)
    return {
        "names": names,
        "shown": shown.tolist(),
        "metric": str(material.metrics[0]),
        "queries": len(queries),
        "repeats": _REPEATS,
        "candidates": [
            _importance(material, material.candidates[name], names, shown, moved.get(name), queries)
            for name in material.names
        ],
        "documents": len(rows),
        "dependence": _dependence(material, candidates, names, shown, rows, effects),
    }


def _counted_queries(material: Material, n_queries: int) -> Integers:
    """Queries evenly spread over those that the first metric does not skip."""
    values = next(iter(material.comparison.per_query(str(material.metrics[0])).values()))
    return every_nth(np.flatnonzero(~np.isnan(values)), n_queries)


def _sample_rows(material: Material, candidates: dict[str, Candidate]) -> Integers:
    """Documents evenly spread over queries, and over the rows of each."""
    of_trees = all(isinstance(one.model, Model) for one in candidates.values())
    most = _EXPLAINED if of_trees else _EXPLAINED_BY_NETWORK
    most = min(most, _MOST_VALUES // widest(candidates))
    if material.data.n_documents <= most:
        return np.arange(material.data.n_documents)
    step = -(-material.data.group // _OF_QUERY)
    spread = np.flatnonzero(material.places % step[material.query_of_row] == 0)
    per_query = max(1, len(spread) // material.n_queries)
    queries = every_nth(np.arange(material.n_queries), max(1, most // per_query))
    return spread[np.isin(material.query_of_row[spread], queries)]


def _centred(material: Material, adds: Floats, rows: Integers) -> Floats:
    """What features add, less the mean of the query: only that can move a document."""
    _, firsts, counts = np.unique(
        material.query_of_row[rows], return_index=True, return_counts=True
    )
    means = np.add.reduceat(adds, firsts) / counts[:, None]
    centred: Floats = adds - np.repeat(means, counts, axis=0)
    return centred


def _shown_features(
    candidates: dict[str, Candidate], names: list[str], moved: dict[str, Floats]
) -> Integers:
    """The features that move scores most under any model, most first."""
    shares = np.zeros(len(names))
    for name, candidate in candidates.items():
        own = moved.get(name)
        if own is None and candidate.model is not None:
            # Trees on scores of models do not say: each feature that is used counts the same.
            own = np.zeros(len(names))
            own[own_columns(candidate.model, names)[1]] = 1.0
        if own is not None and own.any():
            shares = np.maximum(shares, own / own.sum())
    order = np.argsort(-shares, kind="stable")
    found: Integers = order[shares[order] > 0][:SHOWN]
    return found


def _importance(
    material: Material, candidate: Candidate, names: list[str], shown: Integers,
    moved: Floats | None, queries: Integers,
) -> dict[str, Any] | None:  # fmt: skip
    """What each feature is worth to one model, by the names of all; None without a model."""
    model, data = candidate.model, candidate.data
    if model is None or data is None:
        return None
    own, columns = own_columns(model, names)
    found: dict[str, Any] = {"gain": None, "split": None}
    if isinstance(model, Model):
        gains, splits = model.importance("gain"), model.importance("split")
        found["gain"] = _spread(gains[own], columns, len(names), digits_for(gains, 6))
        found["split"] = _spread(splits[own], columns, len(names), 0)
    found["contribution"] = None
    if moved is not None:
        found["contribution"] = plain_numbers(moved, digits_for(moved, _SIGNIFICANT))
    drops = model.permutation_importance(
        data.take_queries(queries), material.metrics[0], repeats=_REPEATS, seed=material.seed,
        features=own[np.isin(columns, shown)].tolist(), n_jobs=material.n_jobs,
    )  # fmt: skip
    found["permutation"] = {
        "baseline": drops.baseline,
        "mean": _spread(drops.mean[own], columns, len(names), _DROP_DIGITS),
        "std": _spread(drops.std[own], columns, len(names), _DROP_DIGITS),
    }
    return found


def _spread(values: Floats, columns: Integers, width: int, digits: int) -> list[float | None]:
    """The figures of a model's features at their places among all; None where there is none."""
    wide = np.full(width, np.nan)
    wide[columns] = values
    return plain_numbers(wide, digits)


def _dependence(
    material: Material, candidates: dict[str, Candidate], names: list[str], shown: Integers,
    rows: Integers, effects: dict[str, Floats],
) -> list[dict[str, Any]]:  # fmt: skip
    """For each shown feature, its mean effect within the query by value, and how many have it."""
    if not candidates:
        return []
    values = values_of(candidates, rows, names)
    levels = levels_of(candidates, names)
    digits = {name: digits_for(effect, _SIGNIFICANT) for name, effect in effects.items()}
    found = []
    for feature in shown.tolist():
        column = values[:, feature]
        there = ~np.isnan(column)
        bins = np.full(len(column), -1)
        categories = levels.get(feature)
        if categories is None:
            bins[there], centres = _bins(column[there])
        else:
            bins[there], centres = _category_bins(column[there])
        entry: dict[str, Any] = {
            "feature": feature,
            "x": plain_numbers(centres, digits_for(centres, 6)),
            "levels": None if categories is None else _level_names(categories, centres),
            "density": np.bincount(bins[there], minlength=len(centres)).tolist(),
            "missing": int((~there).sum()),
            "y": [],
            "y_missing": [],
        }
        for name in material.names:
            effect = effects.get(name)
            if effect is None:
                entry["y"].append(None)
                entry["y_missing"].append(None)
                continue
            means = _means(effect[:, feature], bins, len(centres))
            shown_means = plain_numbers(means, digits[name])
            entry["y"].append(shown_means[1:])
            entry["y_missing"].append(shown_means[0])
        found.append(entry)
    return found


def _category_bins(values: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The bin of each value, and the category of each bin; NaN for the rest of very many."""
    known, bins, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(known) <= _BINS:
        return bins, known
    kept = np.sort(np.argsort(-counts, kind="stable")[: _BINS - 1])
    new_place = np.full(len(known), len(kept))
    new_place[kept] = np.arange(len(kept))
    return new_place[bins], np.append(known[kept], np.nan)


def _level_names(categories: Levels, bins: Floats) -> list[str]:
    return ["others" if np.isnan(at) else str(categories[int(at)]) for at in bins]


def _bins(values: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The bin of each value, and the mean of the finite values of each bin.

    Few distinct values are a bin each; many are put into bins of about as many documents.
    """
    if len(values) == 0:
        return np.empty(0, np.int64), np.empty(0)
    distinct = np.unique(values)
    if len(distinct) <= _BINS:
        finite = np.where(np.isfinite(distinct), distinct, np.nan)
        return np.searchsorted(distinct, values), finite
    edges = np.unique(np.quantile(values, np.arange(1, _BINS) / _BINS, method="lower"))
    bins = np.unique(np.searchsorted(edges, values), return_inverse=True)[1]
    finite = np.isfinite(values)
    sums = np.bincount(bins, weights=np.where(finite, values, 0.0))
    counts = np.bincount(bins, weights=finite)
    with np.errstate(invalid="ignore"):
        return bins, sums / counts


def _means(effects: Floats, bins: NDArray[np.int64], n_bins: int) -> Floats:
    """The mean effect of what is missing, and of each bin; NaN where there is nothing."""
    counts = np.bincount(bins + 1, minlength=n_bins + 1)
    sums = np.bincount(bins + 1, weights=effects, minlength=n_bins + 1)
    with np.errstate(invalid="ignore"):
        found: Floats = sums / counts
    return found
