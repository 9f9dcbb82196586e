"""Combine rankers: the best weight between two, exactly, and weights of several.

The metric of `alpha * first + (1 - alpha) * second` changes at finitely many alphas only
(Burges 2010, section 7.1). All of them are found, so the best alpha is the best of all alphas and
not of a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from rankgrove.data.dataset import Dataset, as_floats
from rankgrove.errors import DataError, ParameterError, refusal, whole_number
from rankgrove.experiments.checks import check_dataset, check_one_of
from rankgrove.experiments.combine.alpha_steps import TwoRankers
from rankgrove.experiments.combine.best_alpha import ROUNDING, find_best_alpha
from rankgrove.experiments.combine.curve import Curve
from rankgrove.experiments.combine.linear import fit_linear
from rankgrove.metrics.base import Floats, Metric
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.metrics.spec import parse_metric
from rankgrove.model.base import ScoringModel
from rankgrove.model.combined import CombinedModel, weigh_models
from rankgrove.model.model import Model

METHODS = ("sweep", "linear", "lambdamart")

# What data must be, and how to get there.
_DATA = ("be a Dataset, for its labels", "make one with Dataset.from_arrays or from_frame")

# Differences of larger scores would overflow.
_LARGEST = 1e300


@dataclass(frozen=True)
class Combination:
    """The best of all `alpha * first + (1 - alpha) * second`, alpha from 0 to 1.

    Attributes
    ----------
    metric
        What was maximised.
    alpha
        The share of the first ranker: in the middle of `interval`.
    value
        What `evaluate` gives for the combined scores.
    interval
        Around alpha, where all have this value; one point where only that one has.
    first_value, second_value
        What either ranker has alone.
    curve
        The whole step function; it may have millions of steps.
    models
        The two models, of trees or networks, if models were given.
    """

    metric: Metric
    alpha: float
    value: float
    interval: tuple[float, float]
    first_value: float
    second_value: float
    curve: Curve = field(repr=False)
    models: tuple[ScoringModel, ...] | None = field(default=None, repr=False)

    def to_model(self) -> Model | CombinedModel:
        """One model of both, which scores as the combination does; of trees, one with all trees."""
        if self.models is None:
            raise ParameterError(
                "a combined model must be made of two models, of trees or networks. Got scores: "
                "give combine_two the models that they are of."
            )
        return weigh_models(self.models, (self.alpha, 1.0 - self.alpha))


@dataclass(frozen=True)
class CombinedRankers:
    """Several rankers combined.

    Attributes
    ----------
    metric
        What was maximised.
    method
        "sweep", "linear" or "lambdamart".
    values
        What each ranker has alone.
    weights
        The weight of each, 1 in all: of a sweep 0 or more, of linear of any sign; None for
        lambdamart, which has none.
    value
        What `evaluate` gives for the combined scores.
    scores
        The combined scores of the data.
    model
        What gives them: one model, if all rankers are models of the same features; else None.
    """

    metric: Metric
    method: str
    values: dict[str, float]
    weights: dict[str, float] | None
    value: float
    scores: Floats = field(repr=False)
    model: Model | CombinedModel | None = field(default=None, repr=False)


def combine_two(
    data: Dataset,
    first: ArrayLike | ScoringModel,
    second: ArrayLike | ScoringModel,
    metric: str | Metric = "ndcg@10",
    *,
    n_jobs: int | None = None,
) -> Combination:
    r"""The alpha that maximises a metric of :math:`\alpha s_1 + (1 - \alpha) s_2`, exactly.

    Documents i and j of a query trade ranks where
    :math:`\alpha (s_{1i} - s_{1j}) = (1 - \alpha) (s_{2j} - s_{2i})`. Between these alphas nothing
    changes, so all steps of all queries, sorted and added up, are the whole curve. Documents whose
    two scores are the same tie everywhere and stand as the metric's policy on ties says; where
    others tie, at a step or at 0 or 1, the point is a candidate of its own.

    Queries that `empty=skip` leaves out stay out, and the weights of queries count. Among equal
    values the widest interval is taken. The alpha is the best on these data: measure it on others.

    Parameters
    ----------
    data
        Judged documents.
    first, second
        Scores, one per document and finite, or models that give them.
    metric
        Any metric; all but those of the user's own are followed from step to step.
    n_jobs
        Threads; the result has the same bits for any number.

    Examples
    --------
    >>> data = Dataset.from_arrays([[0.0]] * 4, [1, 1, 0, 0], qid=[1, 1, 1, 1])
    >>> best = combine_two(data, [5, 1, 4, 0], [1, 5, 0, 4], "map")
    >>> best.first_value < best.value > best.second_value, best.value
    (True, 1.0)
    >>> round(best.alpha, 9), [round(end, 9) for end in best.interval]
    (0.5, [0.375, 0.625])
    """
    check_dataset("data", data, *_DATA)
    chosen = parse_metric(metric)
    names = ("the first ranker", "the second ranker")
    scores = [_scores_of(*pair, data, n_jobs) for pair in zip(names, (first, second), strict=True)]
    best, curve, ends = find_best_alpha(TwoRankers(data, scores[0], scores[1], chosen, n_jobs))
    models = _models_of((first, second))
    return Combination(chosen, best.alpha, best.value, best.interval, *ends, curve, models)


def combine(
    data: Dataset,
    candidates: Mapping[str, ArrayLike | ScoringModel],
    metric: str | Metric = "ndcg@10",
    *,
    method: Literal["sweep", "linear", "lambdamart"] = "sweep",
    rounds: int = 10,
    seed: int = 0,
    parameters: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
) -> CombinedRankers:
    """Combine several rankers: by weights, or by trees on their scores (Burges 2010, section 7.1).

    `sweep` starts with the best ranker alone and takes one ranker after the other: the best share
    between it and all the others as they are, exactly as in `combine_two`. It ends when no share
    of any ranker brings more, so the result is never worse than the best ranker, and no change of
    one weight makes it better. Weights are 0 or more.

    `linear` trains a linear LambdaRank on the scores: all weights move at once, along the forces of
    the metric, and may become negative. It starts with the best ranker too and keeps the best
    ranking on its way, so it is never worse either. It takes metrics that LambdaMART takes.

    `lambdamart` trains a Ranker for the metric with the scores as its features.

    Parameters
    ----------
    data
        Judged documents, best ones that the rankers were not trained on.
    candidates
        Two or more, by name: scores, one per document, or models.
    metric
        As for `combine_two`.
    method
        "sweep", "linear" or "lambdamart".
    rounds
        How often all rankers are taken at most, for sweep.
    seed
        Of the order in which rankers are taken, or of the training.
    parameters
        Of the `Ranker` for lambdamart; of the objective for linear, as `{"sigma": 2.0}`.
    n_jobs
        Threads; the result has the same bits for any number.

    Examples
    --------
    >>> data = Dataset.from_arrays([[0.0]] * 3, [1, 0, 2], qid=[1, 1, 1])
    >>> found = combine(data, {"a": [3, 2, 1], "b": [0, 1, 2], "c": [0, 0, 1]}, "mrr(relevant>=2)")
    >>> found.value, found.weights
    (1.0, {'a': 0.0, 'b': 1.0, 'c': 0.0})
    """
    check_dataset("data", data, *_DATA)
    check_one_of("method", method, METHODS)
    if not isinstance(candidates, Mapping) or len(candidates) < 2:
        raise refusal("candidates", "be two or more rankers by name", got="fewer")
    if parameters and method == "sweep":
        raise refusal(
            "parameters", "be used with method='linear' or 'lambdamart'", got="method='sweep'"
        )
    rounds, seed = whole_number("rounds", rounds, 1), whole_number("seed", seed, 0)
    chosen = parse_metric(metric)
    names = [str(name) for name in candidates]
    scores = np.array([_scores_of(name, given, data, n_jobs) for name, given in candidates.items()])
    values = [_measure(data, row, chosen, n_jobs) for row in scores]
    models = _models_of(candidates.values())
    alone = dict(zip(names, values, strict=True))
    if method == "lambdamart":
        top = _train_on_scores(data, scores, names, chosen, seed, parameters or {}, n_jobs)
        combined = np.asarray(top.predict(scores.T.astype(np.float32), n_jobs=n_jobs))
        value = _measure(data, combined, chosen, n_jobs)
        model = _one_of(models, lambda parts: CombinedModel(parts, top))
        return CombinedRankers(chosen, method, alone, None, value, combined, model)
    if method == "linear":
        weights, value = fit_linear(data, scores, values, chosen, parameters or {}, n_jobs)
    else:
        weights, value = _sweep_coordinates(data, scores, values, chosen, rounds, seed, n_jobs)
    shares = dict(zip(names, weights.tolist(), strict=True))
    weighed = _one_of(models, lambda parts: weigh_models(parts, weights))
    return CombinedRankers(chosen, method, alone, shares, value, weights @ scores, weighed)


def _sweep_coordinates(
    data: Dataset, scores: Floats, values: list[float], metric: Metric, rounds: int, seed: int,
    n_jobs: int | None,
) -> tuple[Floats, float]:  # fmt: skip
    """Weights that no change of a single share makes better, or as `rounds` leaves them."""
    n = len(scores)
    best = int(np.argmax(values))
    weights, value = np.eye(n)[best], values[best]
    for turn in range(rounds):
        gained = False
        for ranker in np.random.default_rng([seed, turn]).permutation(n).tolist():
            rest = weights.copy()
            rest[ranker] = 0.0
            if rest.sum() == 0:
                continue
            rest /= rest.sum()
            two = TwoRankers(data, scores[ranker], rest @ scores, metric, n_jobs)
            alpha = find_best_alpha(two)[0].alpha
            tried = (1.0 - alpha) * rest
            tried[ranker] = alpha
            reached = _measure(data, tried @ scores, metric, n_jobs)
            if reached > value + ROUNDING * max(1.0, abs(value)):
                weights, value, gained = tried, reached, True
        if not gained:
            break
    return weights, value


def _train_on_scores(
    data: Dataset, scores: Floats, names: list[str], metric: Metric, seed: int,
    parameters: Mapping[str, Any], n_jobs: int | None,
) -> Model:  # fmt: skip
    from rankgrove.estimators.ranker import Ranker  # noqa: PLC0415 (brings scikit-learn)

    judged = Dataset.from_arrays(
        scores.T.astype(np.float32), data.labels, group=data.group, weights=data.weights,
        feature_names=names,
    )  # fmt: skip
    own: dict[str, Any] = {"objective": "lambdamart", "metric": metric, "random_state": seed}
    model: Model = Ranker(**{**own, "n_jobs": n_jobs, **parameters}).fit(judged).model_
    return model


def check_models(models: Sequence[ScoringModel], method: str) -> None:
    """Refuse, before the work, models that a method cannot make one model of."""
    equal = (1.0 / len(models),) * len(models)
    if method == "lambdamart":
        CombinedModel(tuple(models), weights=equal)
    else:
        weigh_models(models, equal)


def _models_of(candidates: Iterable[Any]) -> tuple[ScoringModel, ...] | None:
    """The models that candidates are or have; None if any is something else."""
    models = [getattr(candidate, "model_", candidate) for candidate in candidates]
    return tuple(models) if all(isinstance(model, ScoringModel) for model in models) else None


def _one_of(
    models: tuple[ScoringModel, ...] | None,
    make: Callable[[tuple[ScoringModel, ...]], Model | CombinedModel],
) -> Model | CombinedModel | None:
    """One model of several, or None where they are not all models, or not of the same features."""
    try:
        return None if models is None else make(models)
    except DataError:
        return None


def _measure(data: Dataset, scores: Floats, metric: Metric, n_jobs: int | None) -> float:
    return measure_dataset(data, scores, metric, n_jobs=n_jobs)[str(metric)]


def _scores_of(name: str, given: Any, data: Dataset, n_jobs: int | None) -> Floats:
    """The scores of a ranker: those of a model, or those given."""
    if isinstance(given, ScoringModel):
        given = given.predict(data, n_jobs=n_jobs)
    elif hasattr(given, "predict"):
        given = given.predict(data)
    scores = as_floats(given, f"scores of {name}", np.float64)
    if len(scores) != data.n_documents:
        raise DataError(
            f"scores of {name} must be one per document, {data.n_documents}. Got {len(scores)}."
        )
    wrong = ~(np.abs(scores) <= _LARGEST)
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"scores of {name} must be finite, up to {_LARGEST:g}, to be combined. "
            f"Got {scores[row]} at row {row}."
        )
    return scores
