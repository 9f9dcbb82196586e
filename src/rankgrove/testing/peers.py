"""LightGBM, XGBoost and CatBoost behind one face: names, data, fits.

None of them is needed to import this. One that is asked for and is not installed is an error that
says how to get it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np

from rankgrove.data.dataset import Dataset
from rankgrove.errors import need_extra, unknown_name
from rankgrove.metrics.base import Floats
from rankgrove.metrics.evaluate import measure_dataset


class Peer(NamedTuple):
    """A library and its words.

    Attributes
    ----------
    title, package
        What it is called, and what `pip` calls it.
    threads, quiet
        Its name of the number of threads, and what keeps it from writing.
    loss, parameters
        Its names of `objective` and of our other parameters.
    losses
        Its names of our objectives. "MAP" behind one is for that metric only.
    """

    title: str
    package: str
    threads: str
    quiet: Mapping[str, Any]
    loss: str
    parameters: Mapping[str, str]
    losses: Mapping[str, str]


PEERS: dict[str, Peer] = {
    "lightgbm": Peer(
        "LightGBM", "lightgbm", "num_threads", {"verbosity": -1}, "objective",
        {"learning_rate": "learning_rate", "l2": "lambda_l2", "max_depth": "max_depth",
         "max_leaves": "num_leaves", "min_samples_leaf": "min_data_in_leaf", "max_bins": "max_bin",
         "subsample": "bagging_fraction", "colsample": "feature_fraction", "random_state": "seed",
         "sigma": "sigmoid", "truncation": "lambdarank_truncation_level",
         "normalise": "lambdarank_norm"},
        {"lambdamart": "lambdarank", "xendcg": "rank_xendcg", "regression": "regression"},
    ),
    "xgboost": Peer(
        "XGBoost", "xgboost-cpu", "nthread", {"verbosity": 0}, "objective",
        {"learning_rate": "eta", "l2": "lambda", "max_depth": "max_depth",
         "max_leaves": "max_leaves", "min_child_weight": "min_child_weight", "max_bins": "max_bin",
         "subsample": "subsample", "colsample": "colsample_bytree", "random_state": "seed"},
        {"lambdamart": "rank:ndcg", "lambdamart MAP": "rank:map", "rankmart": "rank:pairwise",
         "regression": "reg:squarederror"},
    ),
    "catboost": Peer(
        "CatBoost", "catboost", "thread_count",
        {"verbose": False, "allow_writing_files": False}, "loss_function",
        {"learning_rate": "learning_rate", "l2_documents": "l2_leaf_reg", "max_depth": "depth",
         "shrink_rate": "model_shrink_rate", "temperature": "diffusion_temperature",
         "colsample": "rsm", "random_state": "random_seed"},
        {"lambdamart": "LambdaMart", "stochasticrank": "StochasticRank", "yetiloss": "YetiRank",
         "yetirank": "YetiRank", "queryrmse": "QueryRMSE", "softmax": "QuerySoftMax",
         "rankmart": "PairLogit", "regression": "RMSE", "logistic": "Logloss"},
    ),
}  # fmt: skip

# CatBoost's losses that take a metric: its words for the metric and for its gain.
_CATBOOST_WORDS = {
    "lambdamart": ("metric", "type"), "stochasticrank": ("metric", "type"),
    "yetiloss": ("mode", "dcg_type"),
}  # fmt: skip


def installed(tool: str) -> bool:
    """Whether a peer is there, without importing it."""
    return find_spec(tool) is not None


def import_peer(tool: str) -> Any:
    """The module of a peer; without it, an error that says how to install it."""
    try:
        return import_module(tool)
    except ImportError as error:
        raise need_extra(PEERS[tool].package, "bench", f"a fit of {PEERS[tool].title}") from error


def peer_settings(
    tool: str, parameters: Mapping[str, Any], n_jobs: int | None = None
) -> dict[str, Any]:
    """Our parameters in the words of a peer, which is also told to write nothing.

    `metric` and `mu` say more of an `objective`; see `peer_loss`.

    >>> peer_settings("xgboost", {"objective": "rankmart", "l2": 2}, n_jobs=1)
    {'verbosity': 0, 'nthread': 1, 'objective': 'rank:pairwise', 'lambda': 2}
    """
    peer, given = PEERS[tool], dict(parameters)
    settings = {**peer.quiet} if n_jobs is None else {**peer.quiet, peer.threads: n_jobs}
    if "objective" in given:
        about = (given.pop("objective"), given.pop("metric", ""), given.pop("mu", None))
        settings[peer.loss] = peer_loss(tool, *about)
    for name, value in given.items():
        if name not in peer.parameters:
            raise unknown_name(f"a parameter that {peer.title} has", name, peer.parameters)
        settings[peer.parameters[name]] = value
    # What it would pass over in silence without these.
    if tool == "lightgbm" and given.get("subsample", 1.0) < 1.0:
        settings |= {"bagging_freq": 1, "bagging_by_query": True}
    if tool == "catboost" and "temperature" in given:
        settings["langevin"] = True
    return settings


def peer_loss(tool: str, objective: str, metric: str = "", mu: float | None = None) -> str:
    """What a peer calls an objective for a metric, one of NDCG, NDCG@k, MAP, MRR and ERR.

    CatBoost is told the metric as it is measured here: its own gain is linear, over all ranks.

    >>> peer_loss("catboost", "yetiloss", "MAP"), peer_loss("xgboost", "lambdamart", "MAP")
    ('YetiRank:mode=MAP', 'rank:map')
    >>> peer_loss("catboost", "lambdamart", "NDCG@10")
    'LambdaMart:metric=NDCG;top=10;type=Exp'
    """
    losses = PEERS[tool].losses
    if objective not in losses:
        raise unknown_name(f"an objective that {PEERS[tool].title} has", objective, losses)
    loss = losses.get(f"{objective} {metric}", losses[objective])
    if tool != "catboost" or objective not in _CATBOOST_WORDS:
        return loss
    # A name that it does not know is passed over in silence, so each loss must get its own.
    choice, gain = _CATBOOST_WORDS[objective]
    name, _, depth = metric.partition("@")
    told = [f"{choice}={name}"] + ([f"top={depth}", f"{gain}=Exp"] if depth else [])
    return f"{loss}:{';'.join(told if mu is None else [*told, f'mu={mu!r}'])}"


def peer_data(tool: str, data: Dataset, settings: Mapping[str, Any], **more: Any) -> Any:
    """A data set as a peer holds it; `more` is what its constructor takes besides."""
    module = import_peer(tool)
    by_document = None if data.weights is None else np.repeat(data.weights, data.group)
    threads = settings.get(PEERS[tool].threads)
    # (Benchmarks hand scipy.sparse on as it is.)
    features: Any = data.features
    features = features if hasattr(features, "tocsr") else np.asarray(features)
    if tool == "lightgbm":
        return module.Dataset(
            features, data.labels, group=data.group, weight=by_document,
            params=dict(settings), **more,
        )  # fmt: skip
    if tool == "xgboost":
        return module.DMatrix(
            features, data.labels, group=data.group, weight=data.weights, nthread=threads,
            **more,
        )  # fmt: skip
    query = np.repeat(np.arange(data.n_queries), data.group)
    return module.Pool(
        features, data.labels, group_id=query, group_weight=by_document,
        thread_count=-1 if threads is None else threads, **more,
    )  # fmt: skip


class Watch(NamedTuple):
    """What ends a fit: so many trees that have not raised a value of the scores of documents."""

    data: Dataset
    value: Callable[[Any], float]
    patience: int


def metric_of_scores(data: Dataset, metric: str) -> Callable[[Any], float]:
    """A metric on these documents, a function of their scores."""
    return lambda scores: measure_dataset(data, np.asarray(scores, float), metric, n_jobs=1)[metric]


class Predict(Protocol):
    """Scores of documents by all trees that are kept, or by the first of them."""

    def __call__(self, data: Dataset, n_trees: int | None = None) -> Floats: ...


class Fitted(NamedTuple):
    """A trained peer: its model, the trees that are kept, and how it scores documents."""

    model: Any
    n_trees: int
    predict: Predict


def fit_peer(
    tool: str,
    settings: Mapping[str, Any],
    train: Dataset,
    n_trees: int,
    watch: Watch | None = None,
) -> Fitted:
    """Train a peer, all trees or as many as are best by what is watched.

    Parameters
    ----------
    tool, settings
        Which, and what it is told in its own words; see `peer_settings` and `peer_loss`.
    train, n_trees
        What it learns from, and the most trees.
    watch
        The labels of the documents that are watched are what the loss asks for; the value may be
        by other ones.
    """
    fits = {"lightgbm": _fit_lightgbm, "xgboost": _fit_xgboost, "catboost": _fit_catboost}
    return fits[tool](dict(settings), train, n_trees, watch)


_VALUE, _WATCHED = "value", "watched"


def _fit_lightgbm(
    settings: dict[str, Any], train: Dataset, n_trees: int, watch: Watch | None
) -> Fitted:
    lightgbm = import_peer("lightgbm")
    data, more = peer_data("lightgbm", train, settings), {}
    if watch is not None:
        settings["metric"] = "None"
        more = {
            "valid_sets": [peer_data("lightgbm", watch.data, settings, reference=data)],
            "feval": lambda scores, _: (_VALUE, watch.value(scores), True),
            "callbacks": [lightgbm.early_stopping(watch.patience, verbose=False)],
        }
    booster = lightgbm.train(settings, data, n_trees, **more)
    kept = booster.best_iteration if watch else booster.current_iteration()
    threads = settings.get("num_threads", 0)

    def predict(data: Dataset, n_trees: int | None = None) -> Floats:
        first = kept if n_trees is None else n_trees
        rows = np.asarray(data.features)
        return np.asarray(booster.predict(rows, num_iteration=first, num_threads=threads), float)

    return Fitted(booster, kept, predict)


def _fit_xgboost(
    settings: dict[str, Any], train: Dataset, n_trees: int, watch: Watch | None
) -> Fitted:
    xgboost = import_peer("xgboost")
    data, more = peer_data("xgboost", train, settings), {}
    if watch is not None:
        settings["disable_default_eval_metric"] = True
        more = {
            "evals": [(peer_data("xgboost", watch.data, settings), _WATCHED)],
            "verbose_eval": False,
            "custom_metric": lambda scores, _: (_VALUE, watch.value(scores)),
            "callbacks": [
                xgboost.callback.EarlyStopping(
                    rounds=watch.patience, metric_name=_VALUE, data_name=_WATCHED, maximize=True
                )
            ],
        }
    booster = xgboost.train(settings, data, n_trees, **more)
    kept = booster.best_iteration + 1 if watch else booster.num_boosted_rounds()

    def predict(data: Dataset, n_trees: int | None = None) -> Floats:
        rows = xgboost.DMatrix(np.asarray(data.features), nthread=settings.get("nthread"))
        first = (0, kept if n_trees is None else n_trees)
        return np.asarray(booster.predict(rows, output_margin=True, iteration_range=first), float)

    return Fitted(booster, kept, predict)


class _CatBoostWatch:
    """CatBoost's view of what is watched; it also asks for that of the training documents."""

    def __init__(self, watch: Watch) -> None:
        self._value, self._labels = watch.value, watch.data.labels

    def is_max_optimal(self) -> bool:
        return True

    def get_final_error(self, error: float, weight: float) -> float:
        return error

    def evaluate(self, approxes: Any, target: Any, weight: Any) -> tuple[float, float]:
        if not np.array_equal(np.asarray(target, dtype=np.float32), self._labels):
            return 0.0, 1.0
        return self._value(approxes[0]), 1.0


def _fit_catboost(
    settings: dict[str, Any], train: Dataset, n_trees: int, watch: Watch | None
) -> Fitted:
    catboost = import_peer("catboost")
    data, valid = peer_data("catboost", train, settings), None
    settings["iterations"] = n_trees
    if watch is not None:
        valid = peer_data("catboost", watch.data, settings)
        settings |= {
            "eval_metric": _CatBoostWatch(watch), "od_type": "Iter", "od_wait": watch.patience,
            "use_best_model": True,
        }  # fmt: skip
    model = catboost.CatBoost(settings)
    with warnings.catch_warnings():
        # It says that the metric is not one that Numba can compile.
        warnings.simplefilter("ignore")
        model.fit(data, eval_set=valid)
    threads = settings.get("thread_count", -1)

    def predict(data: Dataset, n_trees: int | None = None) -> Floats:
        scores = model.predict(
            np.asarray(data.features), prediction_type="RawFormulaVal", thread_count=threads,
            ntree_end=model.tree_count_ if n_trees is None else n_trees,
        )  # fmt: skip
        return np.asarray(scores, float)

    return Fitted(model, model.tree_count_, predict)
