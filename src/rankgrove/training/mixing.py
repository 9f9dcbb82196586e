"""What each kind of model adds to an average, found on held-out folds of the training data.

Every fold is scored by models that have not seen it. The folds of a kind are trained side by side,
a step at a time, and the number of steps is the one at which the mean over the folds is best: the
curve of one fold is too noisy to stop by.

Weights are found by greedy forward selection with replacement (Caruana et al. 2004): start with
nothing, add again and again the kind that makes the average best, and keep the best of all
averages on the way. On few queries one such search follows noise. So it is done on many draws of
the queries, with replacement, and the weights are the mean of those: kinds that cannot be told
apart share the weight about equally, and one that is worse on nearly all draws gets next to none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import resolve_n_jobs
from rankgrove.boosting.binned import SharedBins
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.documents import Documents
from rankgrove.metrics.base import Metric
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.model.members import standardised
from rankgrove.rules import is_auto
from rankgrove.training.recipe import Kind
from rankgrove.training.run import Run
from rankgrove.training.starting import AnyParameters, start_run
from rankgrove.training.trainer import EPOCHS

Floats = NDArray[np.float64]

N_FOLDS = 5
# Draws of the queries, and additions of each search.
_DRAWS, _ADDITIONS = 50, 12
# A kind with a smaller share is left out: it would cost a fit and change next to nothing.
_LEAST_SHARE = 0.05
# On data of at most so many values, runs beside each other use the threads better than one run
# with all of them does (`python -m benchmarks.members`).
_FEW_VALUES = 20_000_000
# How long to wait for a better mean over folds, in trees, where nobody says so.
_PATIENCE = 50


@dataclass(frozen=True)
class HeldOut:
    """A kind of model on folds.

    Attributes
    ----------
    kind
        What was trained.
    scores
        Of each document, by a model that has not seen its query, centred in each query and divided
        by their spread over the fold.
    values
        The metric of each query at these scores; NaN where it does not count.
    n_steps
        The number of trees or epochs.
    """

    kind: Kind
    scores: Floats
    values: Floats
    n_steps: int

    @property
    def mean(self) -> float:
        """Over the queries that count."""
        return _mean_of(self.values, np.ones(len(self.values)))


def folds_of(data: Documents, seed: int) -> list[NDArray[np.int64]]:
    """The numbers of the queries that each fold holds out."""
    shuffled = np.random.default_rng([seed, N_FOLDS]).permutation(data.n_queries)
    return [np.sort(part) for part in np.array_split(shuffled, min(N_FOLDS, data.n_queries))]


class RunsBeside(NamedTuple):
    """How many runs to have at the same time, and how many threads each gets."""

    n_runs: int
    n_jobs: int | None

    @classmethod
    def on(cls, train: Documents, n_runs: int, n_jobs: int | None) -> RunsBeside:
        """As many as there are threads, or one with all of them on large data."""
        n_threads = resolve_n_jobs(n_jobs)
        beside = min(n_runs, n_threads)
        if beside < 2 or train.n_documents * train.n_features > _FEW_VALUES:
            return cls(1, n_jobs)
        return cls(beside, n_threads // beside)

    def n_jobs_of(self, number: int, n_all: int) -> int | None:
        """The threads of a run; those left over at the end share what the others have had.

        >>> [RunsBeside(2, 1).n_jobs_of(number, 5) for number in range(5)]
        [1, 1, 1, 1, 2]
        """
        n_over = n_all % self.n_runs
        if self.n_jobs is None or number < n_all - n_over:
            return self.n_jobs
        return self.n_jobs * self.n_runs // n_over


class FoldData:
    """Data cut into folds: what each fold trains on, and what it holds out, in bins once."""

    def __init__(self, data: Documents, seed: int) -> None:
        self.data, self.held_out = data, folds_of(data, seed)
        self.parts = []
        for queries in self.held_out:
            mask = np.zeros(data.n_queries, dtype=bool)
            mask[queries] = True
            self.parts.append((data.take_queries(~mask), data.take_queries(mask)))
        self._bins = [SharedBins() for _ in self.held_out]

    def start(self, parameters: AnyParameters, n_jobs: int | None) -> list[Run]:
        """A run of training on each fold, whose validation set is what the fold holds out."""
        runs = []
        for (train, test), bins in zip(self.parts, self._bins, strict=True):
            of_trees = isinstance(parameters, Parameters)
            shared: dict[str, Any] = {"shared_bins": bins} if of_trees else {}
            runs.append(start_run(train, {"fold": test}, parameters, n_jobs=n_jobs, **shared))
        return runs

    def joined(self, parts: Sequence[Floats]) -> Floats:
        """What each fold has for the documents that it holds out, in the order of the data."""
        whole = np.empty(self.data.n_documents)
        for queries, (_, test), values in zip(self.held_out, self.parts, parts, strict=True):
            starts = self.data.offsets[queries]
            rows = np.repeat(starts - test.offsets[:-1], test.group) + np.arange(test.n_documents)
            whole[rows] = values
        return whole


def hold_out(
    folds: FoldData, kind: Kind, n_jobs: int | None, say: Callable[[str], None] = lambda text: None
) -> HeldOut:
    """Train a kind on all folds, side by side, for as many steps as are best in their mean."""
    parameters, patience = _without_stopping(kind.parameters)
    beside = RunsBeside.on(folds.data, len(folds.parts), n_jobs)
    runs = folds.start(parameters, beside.n_jobs)
    sizes = np.array([test.n_queries for _, test in folds.parts], dtype=float)
    best, best_value, kept = 0, -np.inf, [np.zeros(test.n_documents) for _, test in folds.parts]
    step = 0
    with ThreadPoolExecutor(beside.n_runs) as pool:
        # One that is stuck stays as it is while the others go on. (All are waited for.)
        while True in list(pool.map(Run.advance, runs)):
            step += 1
            value = _mean_of(np.array([run.validation.watched[-1] for run in runs]), sizes)
            if patience is None or value > best_value:
                best, best_value = step, value
                kept = [_scores_of(run) for run in runs]
            if patience is not None and step - best >= patience:
                break
    pairs = zip(kept, folds.parts, strict=True)
    scores = folds.joined([standardised(own, test.offsets) for own, (_, test) in pairs])
    metric = kind.parameters.metrics()[0]
    found = HeldOut(kind, scores, values_of(folds.data, scores, metric, n_jobs), best)
    say(f"{kind.name}: {metric} {found.mean:.4f} on held-out folds, {runs[0].unit.count(best)}")
    return found


def _without_stopping(parameters: AnyParameters) -> tuple[AnyParameters, int | None]:
    """The parameters of a run that no single fold stops, and the patience with their mean.

    Where the number of trees is given and nothing is to stop early, all are grown.
    """
    rounds = parameters.early_stopping_rounds
    if not isinstance(parameters, Parameters):
        free = replace(parameters, early_stopping_rounds=None)
        return free, EPOCHS.tune_rounds if rounds is None else rounds
    if rounds is None and not is_auto(parameters.n_estimators):
        return parameters, None
    # As many as early stopping may have.
    stopping = replace(parameters, early_stopping_rounds=rounds or _PATIENCE)
    most = stopping.resolve().n_estimators
    return replace(parameters, early_stopping_rounds=None, n_estimators=most), rounds or _PATIENCE


def _scores_of(run: Run) -> Floats:
    scores: Floats = run.trainer.valid_scores()["fold"].copy()
    return scores


def values_of(data: Documents, scores: Floats, metric: Metric, n_jobs: int | None) -> Floats:
    """The metric of each query; NaN where it does not count."""
    return measure_dataset(data, scores, [metric], n_jobs=n_jobs).per_query(str(metric))


def choose_weights(
    candidates: Mapping[str, Floats],
    measure: Callable[[Floats], Floats],
    query_weights: Floats,
    seed: int = 0,
) -> dict[str, float]:
    """The share of each candidate in the average, 1 in all; 0 for those that are left out.

    Parameters
    ----------
    candidates
        The scores of each, centred in each query and of spread 1.
    measure
        From scores to the value of each query, NaN where it does not count.
    query_weights
        How much each query counts.
    seed
        Of the draws of queries.

    Examples
    --------
    >>> labels = np.array([2.0, 0.0, 1.0])
    >>> candidates = {"good": labels - 1, "bad": 1 - labels}
    >>> choose_weights(candidates, lambda scores: np.array([scores @ labels]), np.ones(1))
    {'good': 1.0, 'bad': 0.0}
    """
    names = list(candidates)
    known: dict[tuple[int, ...], Floats] = {}

    def value(counts: tuple[int, ...]) -> Floats:
        if counts not in known:
            chosen = zip(counts, candidates.values(), strict=True)
            known[counts] = measure(sum(n * scores for n, scores in chosen if n))  # type: ignore[arg-type]
        return known[counts]

    generator = np.random.default_rng(seed)
    n_queries = len(query_weights)
    shares = np.zeros(len(names))
    for _ in range(_DRAWS):
        drawn = np.bincount(generator.integers(n_queries, size=n_queries), minlength=n_queries)
        counts = np.asarray(_search(value, drawn * query_weights, len(names)))
        shares += counts / sum(counts)
    shares /= _DRAWS
    shares[shares < min(_LEAST_SHARE, shares.max())] = 0.0
    shares /= math.fsum(shares)
    return dict(zip(names, shares.tolist(), strict=True))


def _search(
    value: Callable[[tuple[int, ...]], Floats], weights: Floats, n_candidates: int
) -> tuple[int, ...]:
    """How often each candidate is in the best average that additions one by one come to."""
    counts = (0,) * n_candidates
    best: tuple[float, tuple[int, ...]] | None = None
    for _ in range(_ADDITIONS):
        options = [
            tuple(n + (at == added) for at, n in enumerate(counts)) for added in range(n_candidates)
        ]
        means = [_mean_of(value(option), weights) for option in options]
        counts = options[int(np.argmax(means))]
        if best is None or max(means) > best[0]:
            best = max(means), counts
    return counts if best is None else best[1]


def _mean_of(values: Floats, weights: Floats) -> float:
    """The weighted mean of values that are numbers; 0 where none counts."""
    counted = ~np.isnan(values)
    total = math.fsum(weights[counted])
    return math.fsum(values[counted] * weights[counted]) / total if total > 0 else 0.0


def select(
    folds: FoldData,
    kinds: Sequence[Kind],
    metric: Metric,
    *,
    seed: int = 0,
    n_jobs: int | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[dict[str, HeldOut], dict[str, float]]:
    """What each kind comes to on folds, and its share in the average."""
    found = {kind.name: hold_out(folds, kind, n_jobs, say) for kind in kinds}
    if len(found) == 1:
        return found, dict.fromkeys(found, 1.0)
    data = folds.data
    shares = choose_weights(
        {name: one.scores for name, one in found.items()},
        lambda scores: values_of(data, scores, metric, n_jobs),
        data.query_weights,
        seed,
    )
    return found, shares
