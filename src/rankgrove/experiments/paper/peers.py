"""CatBoost and LightGBM under the protocol of the paper: the same trials, data and watched metric.

Nothing here is imported until a peer is asked for, and the peers themselves not before they train.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from rankgrove.data.benchmarks import Split
from rankgrove.data.dataset import Dataset
from rankgrove.experiments.paper.cells import Budget, Cell
from rankgrove.metrics.base import Floats
from rankgrove.metrics.evaluate import evaluate

TITLES = {"catboost": "CatBoost", "lightgbm": "LightGBM"}


class Fitted(NamedTuple):
    """A trained peer: its value on validation, the trees it keeps, and how it scores documents."""

    value: float
    n_trees: int
    predict: Callable[[Dataset], Floats]


def installed(tool: str) -> bool:
    """Whether a peer is there, without importing it."""
    return find_spec(tool) is not None


def fit_peer(
    cell: Cell,
    parameters: Mapping[str, Any],
    split: Split,
    metric: str,
    budget: Budget,
    n_jobs: int | None,
) -> Fitted:
    """Train a peer with parameters in our words, stopped by our metric on validation.

    `split` has the labels that the paper's metric asks for.
    """
    fit = _fit_lightgbm if cell.tool == "lightgbm" else _fit_catboost
    return fit(cell, parameters, split, metric, budget, n_jobs)


def _watched(vali: Dataset, metric: str) -> Callable[[Any], float]:
    """The metric on the validation queries, a function of their scores."""
    return lambda scores: evaluate(vali, np.asarray(scores, float), metric, n_jobs=1)[metric]


def _fit_lightgbm(
    cell: Cell,
    parameters: Mapping[str, Any],
    split: Split,
    metric: str,
    budget: Budget,
    n_jobs: int | None,
) -> Fitted:
    import lightgbm  # noqa: PLC0415 (a peer, which need not be installed)

    names = {
        "learning_rate": "learning_rate", "l2": "lambda_l2", "max_depth": "max_depth",
        "max_leaves": "num_leaves", "min_samples_leaf": "min_data_in_leaf",
    }  # fmt: skip
    own = {
        "objective": "lambdarank", "metric": "None", "seed": budget.seed, "verbosity": -1,
        "num_threads": n_jobs or 0, "force_col_wise": True, "deterministic": True,
        **{names[name]: value for name, value in parameters.items()},
    }  # fmt: skip
    train, vali = split.train, split.vali
    value = _watched(vali, metric)
    data = lightgbm.Dataset(train.features, train.labels, group=train.group, params=own)
    valid = data.create_valid(vali.features, vali.labels, group=vali.group)
    booster = lightgbm.train(
        own, data, budget.max_trees, valid_sets=[valid],
        feval=lambda scores, _: (metric, value(scores), True),
        callbacks=[lightgbm.early_stopping(budget.rounds, verbose=False)],
    )  # fmt: skip
    n_trees = booster.best_iteration or booster.current_iteration()
    best = float(booster.best_score["valid_0"][metric])
    return Fitted(
        best, n_trees,
        lambda data: np.asarray(booster.predict(data.features, num_iteration=n_trees), float),
    )  # fmt: skip


def catboost_loss(algorithm: str, metric: str, mu: float | None = None) -> str:
    """The loss with the metric as it is measured here: its own gain is linear, over all ranks.

    >>> catboost_loss("yetiloss", "MAP"), catboost_loss("lambdamart", "NDCG@10")
    ('YetiRank:mode=MAP', 'LambdaMart:metric=NDCG;top=10;type=Exp')
    """
    plain = {"queryrmse": "QueryRMSE", "yetirank": "YetiRank"}
    if algorithm in plain:
        return plain[algorithm]
    families = {"lambdamart": ("LambdaMart", "metric", "type"),
                "stochasticrank": ("StochasticRank", "metric", "type"),
                "yetiloss": ("YetiRank", "mode", "dcg_type")}  # fmt: skip
    # A name that it does not know is passed over in silence, so each family must get its own.
    family, choice, gain = families[algorithm]
    name, _, depth = metric.partition("@")
    told = [f"{choice}={name}"] + ([f"top={depth}", f"{gain}=Exp"] if depth else [])
    if mu is not None:
        told.append(f"mu={mu!r}")
    return f"{family}:{';'.join(told)}"


class _Watch:
    """CatBoost's view of our metric; it also asks for that of the training documents."""

    def __init__(self, vali: Dataset, metric: str) -> None:
        self._value, self._labels = _watched(vali, metric), vali.labels

    def is_max_optimal(self) -> bool:
        return True

    def get_final_error(self, error: float, weight: float) -> float:
        return error

    def evaluate(self, approxes: Any, target: Any, weight: Any) -> tuple[float, float]:
        if not np.array_equal(np.asarray(target, dtype=np.float32), self._labels):
            return 0.0, 1.0
        return self._value(approxes[0]), 1.0


def _fit_catboost(
    cell: Cell,
    parameters: Mapping[str, Any],
    split: Split,
    metric: str,
    budget: Budget,
    n_jobs: int | None,
) -> Fitted:
    import catboost  # noqa: PLC0415 (a peer, which need not be installed)

    given = dict(parameters)
    names = {
        "learning_rate": "learning_rate", "l2_documents": "l2_leaf_reg", "max_depth": "depth",
        "shrink_rate": "model_shrink_rate", "temperature": "diffusion_temperature",
    }  # fmt: skip
    loss = catboost_loss(cell.row.algorithm, cell.metric, given.pop("mu", None))
    own = {
        "loss_function": loss, "iterations": budget.max_trees, "random_seed": budget.seed,
        "od_type": "Iter", "od_wait": budget.rounds, "use_best_model": True, "verbose": False,
        "thread_count": n_jobs or -1, "allow_writing_files": False,
        **{names[name]: value for name, value in given.items()},
    }  # fmt: skip
    if cell.row.algorithm == "stochasticrank":
        own |= {"langevin": True, "l2_leaf_reg": 0.0}
    pools = []
    for part in (split.train, split.vali):
        query = np.repeat(np.arange(part.n_queries), part.group)
        pools.append(catboost.Pool(part.features, part.labels, group_id=query))
    own["eval_metric"] = _Watch(split.vali, metric)
    model = catboost.CatBoost(own)
    with warnings.catch_warnings():
        # It says that the metric is not one that Numba can compile.
        warnings.simplefilter("ignore")
        model.fit(pools[0], eval_set=pools[1])

    def predict(data: Dataset) -> Floats:
        return np.asarray(model.predict(data.features, prediction_type="RawFormulaVal"), float)

    return Fitted(_watched(split.vali, metric)(predict(split.vali)), model.tree_count_, predict)
