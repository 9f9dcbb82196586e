"""Compare any number of models, score files or estimators on the same queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankgrove.data.dataset import Dataset, as_floats, with_numbers
from rankgrove.errors import DataError, refusal
from rankgrove.experiments.checks import check_one_of, naming
from rankgrove.experiments.compare import significance
from rankgrove.experiments.compare.comparison import Change, Comparison, Group, Method, Pair, Row
from rankgrove.experiments.compare.measured import Measured
from rankgrove.experiments.compare.slices import Slices, make_slicings
from rankgrove.metrics.base import Floats, Metric
from rankgrove.metrics.evaluate import DEFAULT_METRICS, measure_dataset
from rankgrove.metrics.spec import parse_metrics
from rankgrove.model.base import load
from rankgrove.model.model import Model

__all__ = ["Change", "Comparison", "Group", "Method", "Pair", "Row", "compare"]

# What takes features as they are, in messages.
_OTHERS = "a function of features"


def compare(
    data: Dataset | ArrayLike,
    candidates: Mapping[str, Any],
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    baseline: str | None = None,
    test: str = "t",
    alternative: str = "greater",
    correction: str | None = "holm",
    level: float = 0.05,
    confidence: float = 0.95,
    slices: Slices | None = None,
    rounds: int = significance.ROUNDS,
    seed: int = 0,
    weights: ArrayLike | None = None,
    qid: ArrayLike | None = None,
    group: ArrayLike | None = None,
    preset: str | None = None,
    n_jobs: int | None = None,
) -> Comparison:
    """Compare candidates on the same queries.

    Parameters
    ----------
    data
        A Dataset; or labels, with `qid=` or `group=`, if all candidates are scores.
    candidates
        By name: scores, one per document; a `Model` or the path of its file; a fitted `Ranker`, or
        anything with `predict`; or a function from features to scores.
    metrics, weights, preset
        As for `evaluate`.
    baseline
        The name of the candidate that all others are compared with: is it beaten? Without one,
        the best of each metric is compared with the others: which are worse?
    test, alternative, correction, level, confidence, rounds, seed, n_jobs
        See `Method`.
    slices
        Groups of queries to look at: see `rankgrove.experiments.compare.slices.make_slicings`.

    Examples
    --------
    >>> import numpy as np
    >>> labels, old = np.tile([1, 0, 0, 0], 9), np.tile([1, 2, 0, 0], 9)
    >>> new = np.where(np.arange(36) < 28, 3 * labels, old)
    >>> print(compare(labels, {"old": old, "new": new}, "mrr", qid=np.repeat(range(9), 4)))
    metric  candidate     mean     95 % interval  to best       p  effect  wins/ties/losses
    mrr     old         0.5000  0.5000 to 0.5000  -0.3889  0.0004   -1.76             0/2/7
            new        *0.8889  0.7194 to 1.0584
    <BLANKLINE>
    * best, or not significantly worse: paired t-test, one-tailed, p > 0.05; 9 queries
    """
    method = Method(test, alternative, correction, level, confidence, rounds, seed, n_jobs)
    chosen = parse_metrics(metrics, preset=preset)
    if not isinstance(data, Dataset):
        data = _without_features(data, qid, group)
    elif qid is not None or group is not None:
        raise DataError("qid and group must not be given with a Dataset, which has its own.")
    if not isinstance(candidates, Mapping) or not candidates:
        raise refusal("candidates", "be a mapping with at least one name", got="none")
    if baseline is not None:
        check_one_of("baseline", baseline, candidates)
    slicings = {} if slices is None else make_slicings(data, slices)
    if weights is not None:
        given = as_floats(weights, "weights", np.float64)
        if len(given) != data.n_queries:
            raise DataError(f"weights must be one per query, {data.n_queries}. Got {len(given)}.")
        data = replace(data, weights=given)
    scores = score_candidates(data, candidates, n_jobs)
    tables = {
        name: measure_dataset(data, own, chosen, n_jobs=n_jobs) for name, own in scores.items()
    }
    measured = {}
    for metric in map(str, chosen):
        values = {name: table.per_query(metric) for name, table in tables.items()}
        measured[metric] = Measured(values, data.query_ids, data.weights)
    return Comparison(measured, tuple(scores), baseline, method, slicings)


def score_candidates(
    data: Dataset, candidates: Mapping[str, Any], n_jobs: int | None = None
) -> dict[str, Floats]:
    """The scores of each candidate; scores that are given are all checked before any is made."""
    given = {name: _given_scores(one) for name, one in candidates.items()}
    for name, scores in given.items():
        if scores is not None:
            _check_scores(name, scores, data)
    made: dict[str, Floats] = {}
    for name, candidate in candidates.items():
        scores = given[name]
        if scores is None:
            with naming(name):
                scores = np.asarray(_make_scores(candidate, data, n_jobs), dtype=np.float64)
            _check_scores(name, scores, data)
        made[str(name)] = scores
    return made


def _given_scores(candidate: Any) -> Floats | None:
    """The candidate as scores, or None if it is something that makes them."""
    makes = isinstance(candidate, (str, PathLike)) or hasattr(candidate, "predict")
    return None if makes or callable(candidate) else as_floats(candidate, "scores", np.float64)


def _make_scores(candidate: Any, data: Dataset, n_jobs: int | None) -> Any:
    if isinstance(candidate, (str, PathLike)):
        candidate = load(candidate)
    if isinstance(candidate, Model):
        return candidate.predict(data, n_jobs=n_jobs)
    if hasattr(candidate, "predict"):
        # Our own take the data as they are, with base scores and names; others an array.
        own = type(candidate).__module__.startswith("rankgrove.")
        return candidate.predict(data if own else np.asarray(with_numbers(data, _OTHERS).features))
    return candidate(np.asarray(with_numbers(data, _OTHERS).features))


def _check_scores(name: str, scores: Floats, data: Dataset) -> None:
    if scores.shape != (data.n_documents,):
        got = len(scores) if scores.ndim == 1 else f"shape {scores.shape}"
        raise DataError(
            f"{name}: must have one score per document, {data.n_documents}. Got {got}: are the "
            f"scores and the data of the same part?"
        )
    if np.isnan(scores).any():
        row = int(np.isnan(scores).argmax())
        raise DataError(
            f"{name}: scores must not be NaN: it cannot be ranked. Got NaN at row {row}."
        )


def _without_features(labels: ArrayLike, qid: Any, group: Any) -> Dataset:
    array = as_floats(labels, "labels", np.float32)
    return Dataset.from_arrays(np.empty((len(array), 0)), array, qid=qid, group=group)
