"""Whether models of two commits score the same, bit for bit.

Every configuration trains a small model by the public API and prints a digest of its scores. Run
the script with the code of one commit, then with that of another:

    git worktree add ../old 425aad7
    PYTHONPATH=../old/src python -m benchmarks.bits > old.json
    PYTHONPATH=$PWD/src python -m benchmarks.bits --against old.json

The last line prints a table and ends with 1 if a digest differs. `--only cross_leaf` runs the
configurations whose names have this text in them, `--jobs 2` gives every model two threads.

Where a default has changed since commit 425aad7 the configuration gives the old value: the ties of
the metric that is trained for, `truncation`, `n_estimators`, and leaf-wise trees for categories
and monotone features. That commit knows these values and means the same by them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove import (
    Dataset,
    LambdaRank,
    MARTClassifier,
    MARTRegressor,
    Model,
    Ranker,
    RankNet,
    combine,
    combine_two,
    cross_validate,
    evaluate,
    make_web_search,
    parse_metric,
    tune,
)

Floats = NDArray[np.float64]
CATEGORY, N_CATEGORIES = 5, 9

# The old value of what has another default now.
STABLE = {"metric": "ndcg(ties=stable)"}
LAMBDAMART: dict[str, Any] = {"objective": "lambdamart", "truncation": 30, **STABLE}
YETIRANK: dict[str, Any] = {"objective": "yetirank"}
LEAFWISE: dict[str, Any] = {"grower": "leafwise"}
# An option since; before, equal scores were always ranked in the order of the rows.
STABLE_TIES: dict[str, Any] = {"ties": "stable"} if "ties" in Ranker().get_params() else {}
SMALL: dict[str, Any] = {"n_estimators": 8, "min_samples_leaf": 5}


class Data(NamedTuple):
    """What all configurations train on, watch and score, and a folder for their files."""

    train: Dataset
    valid: Dataset
    test: Dataset
    large: Dataset
    n_jobs: int
    folder: Path


def make_data(seed: int, n_queries: int, lengths: tuple[int, int], **more: Any) -> Dataset:
    """Documents whose grade depends on all features; one is a category, others have holes."""
    rng = np.random.default_rng(seed)
    group = rng.integers(*lengths, n_queries)
    n = int(group.sum())
    features = rng.normal(size=(n, 20)).astype(np.float32)
    features[:, 1] = np.round(features[:, 1])
    category = rng.integers(0, N_CATEGORIES, n)
    features[:, CATEGORY] = 10 * category + 7
    slopes = np.random.default_rng(0).normal(size=21)
    signal = features[:, :5] @ slopes[:5] + features[:, 6] * features[:, 7] + rng.normal(size=n)
    signal += 2 * np.random.default_rng(1).normal(size=N_CATEGORIES)[category]
    grades = np.digitize(signal, np.quantile(signal, [0.5, 0.75, 0.9, 0.97]))
    holes = rng.random(features.shape) < 0.2
    holes[:, [0, CATEGORY]] = False
    features[holes] = np.nan
    if more.pop("weighted", False):
        more["weights"] = rng.integers(1, 5, n_queries) / 2
    if more.pop("based", False):
        more["base_scores"] = rng.normal(size=n)
    return Dataset.from_arrays(features, grades, group=group, **more)


def _first_two(labels: Any) -> float:
    """A metric of a user's own."""
    return float(labels[0] + 0.5 * labels[1] if len(labels) > 1 else labels[0])


def _preferences(data: Dataset) -> list[tuple[int, int, float]]:
    """Some pairs of each query, which contradict each other now and then."""
    pairs = []
    for start, end in zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True):
        for row in range(start, end - 1):
            other = row + 1
            better, worse = (row, other) if data.labels[row] > data.labels[other] else (other, row)
            pairs.append((better, worse, 0.8))
            if row % 5 == 0:
                pairs.append((worse, better, 0.4))
    return pairs


def rank(data: Data, /, **parameters: Any) -> Floats:
    """The scores of a ranker with these parameters."""
    ranker = Ranker(**{**SMALL, **parameters}, n_jobs=data.n_jobs).fit(data.train)
    return np.asarray(ranker.predict(data.test))


def fit_with(data: Data, fit: Mapping[str, Any], /, **parameters: Any) -> Ranker:
    ranker: Ranker = Ranker(**{**SMALL, **parameters}, n_jobs=data.n_jobs)
    return ranker.fit(data.train, **fit)


def rank_large(data: Data, /, **parameters: Any) -> Floats:
    """Rows enough for several threads to share the work on a node."""
    values = {"n_estimators": 3, **parameters}
    ranker = Ranker(**values, n_jobs=data.n_jobs).fit(data.large)
    return np.asarray(ranker.predict(data.large))


def stop_early(data: Data) -> Floats:
    parameters = {"n_estimators": 60, "learning_rate": 0.5, "eval_metric": "ndcg@5"}
    ranker = fit_with(data, {"valid": data.valid}, early_stopping_rounds=5, **parameters)
    return np.asarray(ranker.predict(data.test))


def measure_validation(data: Data) -> Floats:
    """What validation sets are measured by after each tree, not scores."""
    metrics = ["ndcg@10", "map(relevant>=2)", "err", "mrr(relevant>=1, ties=expected)", "tau"]
    ranker = fit_with(data, {"valid": {"a": data.valid, "b": data.test}}, eval_metric=metrics)
    return np.array([ranker.history_[name][m] for name in "ab" for m in ranker.history_[name]])


def rank_weighted(data: Data, /, **parameters: Any) -> Floats:
    train = make_data(2, 60, (4, 20), weighted=True)
    ranker = Ranker(**{**SMALL, **parameters}, n_jobs=data.n_jobs).fit(train)
    return np.asarray(ranker.predict(data.test))


def rank_based(data: Data, /, **parameters: Any) -> Floats:
    train = make_data(3, 60, (4, 20), based=True)
    ranker = Ranker(**{**SMALL, **parameters}, n_jobs=data.n_jobs).fit(train)
    return np.asarray(ranker.predict(train))


def rank_classes(data: Data, /, **parameters: Any) -> Floats:
    train = data.train
    ranker = Ranker(**{**SMALL, **parameters}, n_jobs=data.n_jobs)
    ranker.fit(train.features, train.labels > 1, qid=train.qid)
    return np.asarray(ranker.predict(data.test))


def rank_preferences(data: Data, /, **parameters: Any) -> Floats:
    values = {**SMALL, **parameters}
    ranker = Ranker(**values, n_jobs=data.n_jobs).fit(
        data.train.features, qid=data.train.qid, preferences=_preferences(data.train)
    )
    return np.asarray(ranker.predict(data.test.features))


def resume(data: Data, /, **parameters: Any) -> Floats:
    """A run that ends after five trees, and one that goes on from its last checkpoint."""
    path = data.folder / "checkpoint.safetensors"
    first = {
        "checkpoint": path, "checkpoint_every": 2,
        "callbacks": [lambda training: len(training.trees) == 5],
    }  # fmt: skip
    fit_with(data, first, **parameters)
    return np.asarray(fit_with(data, {"resume": path}, **parameters).predict(data.test))


def from_model(data: Data, base: str) -> Floats:
    """Trees on top of an earlier model, given in one of several ways."""
    earlier = fit_with(data, {}, objective="queryrmse")
    path = data.folder / "base.safetensors"
    earlier.save(path)
    given = {"ranker": earlier, "model": earlier.model_, "file": path}[base]
    return np.asarray(fit_with(data, {"base_model": given}, **LAMBDAMART).predict(data.test))


def from_function(data: Data) -> Floats:
    def scores_of(features: Any) -> Floats:
        return np.nan_to_num(np.asarray(features)[:, 0].astype(np.float64))

    ranker = fit_with(data, {"base_model": scores_of})
    scores = scores_of(data.test.features)
    return np.asarray(ranker.predict(data.test, base_scores=scores))


def save_and_load(data: Data) -> Floats:
    path = data.folder / "model.safetensors"
    fit_with(data, {}, **LAMBDAMART, **LEAFWISE, categorical=[CATEGORY]).save(path)
    loaded = Model.load(path)
    parts = [loaded.predict(data.test), loaded.predict(data.test, n_trees=3)]
    return np.concatenate([*parts, Ranker.load(path).predict(data.test)])


def explain(data: Data) -> Floats:
    model = fit_with(data, {}).model_
    return np.concatenate([model.importance("gain"), model.importance("split")])


def tuned(data: Data, /, **arguments: Any) -> Floats:
    values = {"n_random": 2, "n_bayesian": 1, **arguments}
    found = tune(data.train, data.valid, **values, n_jobs=data.n_jobs)
    return np.asarray(found.fit(data.train).predict(data.test))


def combined(data: Data, method: str) -> Floats:
    models = {
        "a": fit_with(data, {}, objective="yetirank").model_,
        "b": fit_with(data, {}, objective="queryrmse").model_,
        "c": fit_with(data, {}, objective="rankmart").model_,
    }
    if method == "two":
        both = combine_two(data.valid, models["a"], models["b"], "ndcg@10", n_jobs=data.n_jobs)
        return np.asarray(both.to_model().predict(data.test))
    parameters = {**SMALL, "truncation": 30, "objective": "lambdamart"}
    more: dict[str, Any] = {} if method == "sweep" else {"parameters": parameters}
    several = combine(
        data.valid, models, "ndcg@10(ties=stable)", method=method,  # type: ignore[arg-type]
        n_jobs=data.n_jobs, **more,
    )  # fmt: skip
    model: Any = several.model
    return np.asarray(model.predict(data.test))


def validate_crosswise(data: Data) -> Floats:
    rankers = {"a": Ranker(**SMALL), "b": Ranker(**SMALL, **LAMBDAMART)}
    done = cross_validate(rankers, data.train, "ndcg@10", folds=3, n_jobs=data.n_jobs)
    return np.concatenate([np.asarray(done.scores[name]) for name in rankers])


def regress(data: Data, /, fit: Mapping[str, Any] | None = None, **parameters: Any) -> Floats:
    values = {"n_estimators": 8, **parameters}
    X, y = data.train.features, data.train.features[:, 0] ** 2 + data.train.labels
    more = dict(fit or {})
    if more.pop("watched", False):
        more["eval_set"] = [(data.valid.features, data.valid.labels)]
    if more.pop("weighted", False):
        more["sample_weight"] = np.random.default_rng(4).integers(0, 3, len(y)) / 2
    regressor = MARTRegressor(**values, n_jobs=data.n_jobs).fit(X, y, **more)
    return np.asarray(regressor.predict(data.test.features))


def classify(data: Data, /, **parameters: Any) -> Floats:
    values = {"n_estimators": 8, **parameters}
    classes = np.where(data.train.labels > 1, "good", "bad")
    classifier = MARTClassifier(**values, n_jobs=data.n_jobs).fit(data.train.features, classes)
    chances = np.asarray(classifier.predict_proba(data.test.features))
    return np.append(np.asarray(classifier.decision_function(data.test.features)), chances)


def network(
    data: Data, /, estimator: Any, fit: Mapping[str, Any] | None = None, **given: Any
) -> Floats:
    values = {"max_epochs": 3, "hidden": (8, 4), **given}
    more = dict(fit or {})
    if more.pop("watched", False):
        more["valid"] = data.valid
    if more.pop("on_trees", False):
        more["base_model"] = fit_with(data, {})
    if more.pop("preferred", False):
        more["preferences"] = _preferences(data.train)
    ranker = estimator(**values, n_jobs=data.n_jobs).fit(data.train, **more)
    path = data.folder / "network.safetensors"
    ranker.save(path)
    scores = np.asarray(ranker.predict(data.test))
    return np.append(scores, np.asarray(estimator.load(path).predict(data.test)))


def web_search(data: Data) -> Floats:
    """The synthetic data themselves, and a ranker on them."""
    made = make_web_search(30, 20, mean_documents=15, seed=3)
    ranker = Ranker(n_estimators=5, n_jobs=data.n_jobs).fit(made)
    features = np.nan_to_num(made.features).ravel().astype(np.float64)
    return np.concatenate([features, made.labels.astype(np.float64), ranker.predict(made)])


def evaluated(data: Data) -> Floats:
    """Values of metrics by query, of scores with ties."""
    scores = np.round(np.nan_to_num(data.test.features[:, 0].astype(np.float64)), 1)
    starts = ("ndcg@10(", "dcg(", "map(relevant>=2, ", "mrr(relevant>=1, ", "err(")
    names = [
        f"{start}ties={ties})"
        for start in starts
        for ties in ("worst", "best", "stable", "expected")
    ]
    names += ["expdcg", "rbp(relevant>=1)", "precision@5(relevant>=1)", "tau"]
    result = evaluate(data.test, scores, names, n_jobs=data.n_jobs)
    return np.concatenate([result.per_query(str(parse_metric(name))) for name in names])


def _growers() -> dict[str, Callable[[Data], Floats]]:
    """Every family of objectives on every kind of tree."""
    objectives: dict[str, dict[str, Any]] = {
        "yetirank": YETIRANK,
        "yetiloss": {"objective": "yetiloss", "metric": "ndcg@10"},
        "lambdamart": LAMBDAMART,
        "rankmart": {"objective": "rankmart"},
        "stochasticrank": {"objective": "stochasticrank", "metric": "ndcg@10"},
        "queryrmse": {"objective": "queryrmse"},
        "xendcg": {"objective": "xendcg"},
        "softmax": {"objective": "softmax"},
        "listnet": {"objective": "listnet"},
        "regression": {"objective": "regression"},
    }
    sizes = {
        "oblivious": {"max_depth": 4}, "leafwise": {"max_leaves": 9}, "depthwise": {"max_depth": 3},
    }  # fmt: skip
    return {
        f"{name}, {grower}": partial(rank, **values, grower=grower, **size)
        for name, values in objectives.items()
        for grower, size in sizes.items()
    }


def _metrics() -> dict[str, Callable[[Data], Floats]]:
    """Every family of metrics in every objective that takes one."""
    starts = (
        "ndcg@3", "ndcg(gain=linear", "ndcg(gain=[0, 1, 3, 7, 20]", "dcg@5", "expdcg",
        "rbp(relevant>=1", "map@10(relevant>=2", "mrr(relevant>=1", "err", "err(r/4",
        "precision@5(relevant>=1", "recall@5(relevant>=2",
    )  # fmt: skip
    found: dict[str, Callable[[Data], Floats]] = {}
    for start in starts:
        opened = "(" in start
        plain, stable = start + ")" * opened, start + (", " if opened else "(") + "ties=stable)"
        own = {**LAMBDAMART, "metric": stable}
        found[f"lambdamart, {plain}"] = partial(rank, **own)
        found[f"lambdamart, no truncation, {plain}"] = partial(rank, **{**own, "truncation": None})
        found[f"yetiloss, {plain}"] = partial(rank, objective="yetiloss", metric=plain)
        found[f"stochasticrank, {plain}"] = partial(rank, objective="stochasticrank", metric=plain)
    return found


def _options() -> dict[str, Callable[[Data], Floats]]:
    """Options of training, by the default objective or by LambdaMART."""
    mart = {**LAMBDAMART, **LEAFWISE}
    sglb = {"temperature": 1e4, "shrink_rate": 0.05}
    return {
        "all defaults": partial(rank, min_samples_leaf="auto"),
        "lambdamart, all defaults": partial(rank, **LAMBDAMART, min_samples_leaf="auto"),
        "yetiloss by a metric alone": partial(rank, metric="ndcg@5", min_samples_leaf="auto"),
        "logistic": partial(rank_classes, objective="logistic"),
        "logistic, balanced": partial(
            rank_classes, objective="logistic", sigma=2.0, balanced=True
        ),
        **{
            f"{sampling} sampling, {name}": partial(rank, **own, subsample=0.5, sampling=sampling)
            for sampling in ("query", "document", "gradient", "variance", "variance_query")
            for name, own in (("yetirank", YETIRANK), ("lambdamart", mart))
        },
        "bootstrap by document": partial(rank, **mart, bootstrap=1.0),
        "bootstrap by query": partial(rank, bootstrap=0.5, bootstrap_by="query"),
        "split noise": partial(rank, **mart, split_noise=1.0),
        "split noise and bootstrap, oblivious": partial(
            rank, **LAMBDAMART, grower="oblivious", split_noise=2.0, bootstrap=1.0
        ),
        "colsample": partial(rank, colsample=0.5, random_state=7),
        "colsample, leafwise": partial(rank, **mart, colsample=0.5),
        "few bins": partial(rank, max_bins=7),
        "few bins, leafwise, l2, child weight": partial(
            rank, **mart, max_bins=7, l2=1.0, min_child_weight=0.1
        ),
        "l2 in documents": partial(rank, l2_documents=5.0),
        "categorical": partial(rank, **mart, categorical=[CATEGORY]),
        "categorical, yetirank, numbers of its own": partial(
            rank, **LEAFWISE, categorical=[CATEGORY], category_l2=1.0, category_smoothing=2.0,
            max_categories=3,
        ),
        "categorical, depthwise": partial(
            rank, **LAMBDAMART, grower="depthwise", max_depth=4, categorical=[CATEGORY]
        ),
        "monotone": partial(rank, **mart, monotone={0: 1, 2: -1}),
        "monotone, yetirank": partial(rank, **LEAFWISE, monotone=[1, -1] + [0] * 18),
        "monotone and categorical": partial(
            rank, **mart, monotone={0: 1}, categorical=[CATEGORY], subsample=0.7
        ),
        **{
            f"{leaf}, {grower}": partial(rank, **LAMBDAMART, leaf=leaf, grower=grower)
            for leaf in ("mean", "newton_cross_leaf")
            for grower in ("leafwise", "oblivious")
        },
        "newton_cross_leaf, rankmart": partial(
            rank, objective="rankmart", leaf="newton_cross_leaf"
        ),
        "newton_cross_leaf, yetirank": partial(rank, **YETIRANK, leaf="newton_cross_leaf"),
        "joint, lambdamart": partial(rank, **LAMBDAMART, leaf="joint"),
        "joint, rankmart": partial(rank, objective="rankmart", leaf="joint", l2=0.0),
        "joint, yetirank": partial(rank, **YETIRANK, leaf="joint"),
        "joint, new noise, steps": partial(rank, leaf="joint", leaf_noise="new", leaf_steps=2),
        "new noise": partial(rank, leaf_noise="new"),
        "leaf steps": partial(rank, **mart, leaf_steps=3),
        "leaf steps, yetirank": partial(rank, leaf_steps=2),
        "leaf steps, cross leaf": partial(rank, **mart, leaf="newton_cross_leaf", leaf_steps=2),
        "least squares": partial(rank, **mart, split_gain="least_squares", leaf="mean"),
        "least squares, oblivious": partial(rank, split_gain="least_squares"),
        "langevin": partial(rank, objective="stochasticrank", metric="ndcg@5", mu=0.1, **sglb),
        "langevin, lambdamart": partial(rank, **mart, **sglb),
        "shrinkage": partial(rank, shrink_rate=0.1),
        "stochasticrank, numbers of its own": partial(
            rank, objective="stochasticrank", metric="map(relevant>=1)", samples=3, sigma=0.5,
            mu=0.2, nu=0.1, projection=0.5,
        ),
        "yetirank, decay and permutations": partial(rank, decay=0.7, permutations=3, sigma=2.0),
        "yetiloss, neighbours": partial(
            rank, objective="yetiloss", metric="ndcg", neighbours=1, permutations=4
        ),
        "yetiloss, gaussian": partial(
            rank, objective="yetiloss", metric="err", noise="gaussian", noise_scale=0.5,
            neighbours=3,
        ),
        "yetiloss, normalised": partial(
            rank, objective="yetiloss", metric="ndcg@5", normalise=True, truncation=5
        ),
        "lambdamart, not normalised": partial(rank, **mart, normalise=False, sigma=0.5),
        "lambdamart, truncation 3": partial(rank, **{**mart, "truncation": 3}),
        "lambdamart, noise and neighbours": partial(
            rank, **mart, noise="gaussian", neighbours=3, permutations=2
        ),
        "rankmart, normalised and cut": partial(
            rank, objective="rankmart", normalise=True, truncation=4, **STABLE_TIES
        ),
        "a function as metric, yetiloss": partial(rank, objective="yetiloss", metric=_first_two),
        "a function as metric, lambdamart with noise": partial(
            rank, objective="lambdamart", metric=_first_two, truncation=5, noise="logistic"
        ),
    }  # fmt: skip


def _ways() -> dict[str, Callable[[Data], Floats]]:
    """Ways to train: what data bring, what a run goes on from, estimators, experiments."""
    mart: dict[str, Any] = {**LAMBDAMART, **LEAFWISE}
    lambdarank: dict[str, Any] = {"truncation": 30, "metric": "ndcg@10(ties=stable)"}
    return {
        **{
            f"large data, {name}": partial(rank_large, **own)
            for name, own in {
                "yetirank": YETIRANK,
                "lambdamart": {**mart, "max_leaves": 63},
                "lambdamart, depthwise, gradient": {
                    **LAMBDAMART, "grower": "depthwise", "max_depth": 6, "subsample": 0.7,
                    "sampling": "gradient",
                },
                "categorical": {**mart, "categorical": [CATEGORY], "monotone": {0: 1}},
                "queryrmse": {"objective": "queryrmse"},
            }.items()
        },
        "weights": rank_weighted,
        "weights, lambdamart": partial(rank_weighted, **mart),
        "base scores": rank_based,
        "base scores, lambdamart": partial(rank_based, **mart),
        "preferences, rankmart": partial(rank_preferences, objective="rankmart"),
        "preferences, lambdamart": partial(rank_preferences, **mart),
        "preferences, rankmart, leafwise": partial(
            rank_preferences, objective="rankmart", **LEAFWISE
        ),
        "early stopping": stop_early,
        "history of validation": measure_validation,
        "resumed": resume,
        "resumed, lambdamart with samples": partial(
            resume, **mart, subsample=0.6, colsample=0.6, bootstrap=1.0
        ),
        "resumed, langevin": partial(resume, objective="stochasticrank", temperature=1e4),
        **{f"base model, a {base}": partial(from_model, base=base)
           for base in ("ranker", "model", "file")},
        "base model, a function": from_function,
        "saved and loaded": save_and_load,
        "importance": explain,
        "tuned, yetirank": partial(tuned, max_trees=10),
        "tuned, lambdamart": partial(
            tuned, objective="lambdamart", fixed=lambdarank, metric="ndcg@10", max_trees=10
        ),
        "tuned, folds": partial(
            lambda data, **more: np.asarray(
                tune(data.train, n_jobs=data.n_jobs, **more).fit(data.train).predict(data.test)
            ),
            max_trees=5, n_random=2, n_bayesian=0, folds=3,
        ),
        "tuned, a network": partial(
            tuned, objective="lambdarank", fixed=lambdarank, metric="ndcg@10", max_epochs=2,
            n_random=1,
        ),
        **{f"combined, {method}": partial(combined, method=method)
           for method in ("two", "sweep", "lambdamart")},
        "cross-validated": validate_crosswise,
        "regressor": regress,
        "regressor, watched": partial(
            regress, fit={"watched": True}, early_stopping_rounds=3, n_estimators=40
        ),
        "regressor, weights": partial(regress, fit={"weighted": True}, max_leaves=7),
        "regressor, depthwise": partial(regress, grower="depthwise", max_depth=3),
        "classifier": classify,
        "classifier, balanced": partial(classify, balanced=True, sigma=2.0, max_depth=3),
        "ranknet": partial(network, estimator=RankNet),
        "ranknet, linear": partial(network, estimator=RankNet, hidden=()),
        "ranknet, preferences": partial(network, estimator=RankNet, fit={"preferred": True}),
        "lambdarank": partial(network, estimator=LambdaRank, **lambdarank),
        "lambdarank, watched": partial(
            network, estimator=LambdaRank, fit={"watched": True}, eval_metric="ndcg@5",
            early_stopping_rounds=2, max_epochs=8, schedule="plateau", **lambdarank,
        ),
        "lambdarank, on trees": partial(
            network, estimator=LambdaRank, fit={"on_trees": True}, transform="standard",
            optimiser="sgd", **lambdarank,
        ),
        "synthetic data": web_search,
        "metrics by ties": evaluated,
    }  # fmt: skip


def configurations() -> dict[str, Callable[[Data], Floats]]:
    """What is trained, by name: a function from the data to scores."""
    return {**_growers(), **_metrics(), **_options(), **_ways()}


def digest(scores: Floats) -> str:
    """The first half of the SHA-256 of the bytes of the scores, as float64 low byte first."""
    return hashlib.sha256(np.ascontiguousarray(scores, "<f8").tobytes()).hexdigest()[:32]


def run(only: str, n_jobs: int) -> dict[str, str]:
    """The digest of each configuration, or the error that it ended with."""
    digests = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Data(
            make_data(0, 40, (4, 60)), make_data(1, 30, (4, 40)), make_data(2, 30, (4, 40)),
            make_data(5, 300, (20, 80)), n_jobs, Path(folder),
        )  # fmt: skip
        for name, scores_of in configurations().items():
            if only not in name:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    digests[name] = digest(scores_of(data))
            except Exception as error:  # one configuration must not hide the others
                digests[name] = f"{type(error).__name__}: {error}"
            print(f"{len(digests)}  {name}: {digests[name]}", file=sys.stderr, flush=True)
    return digests


def compare(digests: Mapping[str, str], others: Mapping[str, str]) -> bool:
    """Print a table of both, and say whether all are the same."""
    width = max(map(len, digests), default=0)
    different = 0
    for name, value in digests.items():
        same = others.get(name) == value
        different += not same
        says = "same" if same else f"DIFFERENT: {value}, was {others.get(name, 'not there')}"
        print(f"{name:{width}}  {says}")
    print(f"{len(digests)} configurations, {len(digests) - different} the same, {different} not")
    return not different


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="digests of another commit, to compare with")
    parser.add_argument("--only", default="", help="the configurations with this text in the name")
    parser.add_argument("--jobs", type=int, default=1, help="threads of each model")
    options = parser.parse_args()
    digests = run(options.only, options.jobs)
    if options.against is None:
        print(json.dumps(digests, indent=1))
    elif not compare(digests, json.loads(options.against.read_text(encoding="utf-8"))):
        sys.exit(1)


if __name__ == "__main__":
    main()
