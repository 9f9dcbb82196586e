"""The candidates of the comparison of objectives, and one fit of each: Rankgrove and its peers.

Every library is stopped by the same numbers, Rankgrove's metrics on the validation queries with
their own labels, whatever labels it is trained on: NDCG@10, and the metric that a loss is for. One
fit goes on until neither improves, and is measured at both stops.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.differences import Floats
from benchmarks.real_data import Split
from rankgrove.data.dataset import Dataset
from rankgrove.estimators.ranker import Ranker
from rankgrove.experiments.paper.cells import convert_labels
from rankgrove.metrics.evaluate import evaluate
from rankgrove.metrics.spec import parse_metric
from rankgrove.testing.peers import (
    PEERS,
    Watch,
    fit_peer,
    metric_of_scores,
    peer_loss,
    peer_settings,
)
from rankgrove.training.run import Run

N_TREES, LEARNING_RATE, PATIENCE, N_LEAVES, DEPTH = 500, 0.05, 50, 31, 6
WATCHED = "ndcg@10"
METRICS = ("NDCG@10", "MAP", "MRR", "ERR")
PACKAGES = {"rankgrove": "numba", **{tool: peer.package for tool, peer in PEERS.items()}}
LEAFWISE, OBLIVIOUS = "leafwise", "oblivious"
# What is fitted first: the larger, the later.
_SOON, _LATE, _LAST = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A library with one of its losses.

    Attributes
    ----------
    tool
        The library.
    name
        What the tables call it; with the tool, what the results are kept under.
    settings
        What the library is told beyond trees, rate and seed; "{top}" is the largest grade.
    metric
        What it optimises, one of METRICS, where the loss says so.
    labels
        What it is trained on: `grades`, `binary` (1 for all above 0) or `chances` (by the top).
    random
        Whether the seed matters. If not, one seed stands for all.
    when
        The larger, the later it is fitted.
    """

    tool: str
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    metric: str | None = None
    labels: str = "grades"
    random: bool = True
    when: int = _SOON

    @property
    def key(self) -> str:
        return f"{self.tool} {self.name}"

    @property
    def ours(self) -> bool:
        return self.tool == "rankgrove"


def metric_names(top: int) -> dict[str, str]:
    """The metrics of Lyzhin et al., section 4.1, for labels up to `top`, in Rankgrove's words."""
    names = (WATCHED, "map(relevant>=1)", "mrr(relevant>=1)", f"err(r/{top})")
    return dict(zip(METRICS, names, strict=True))


def our_name(objective: str, metric: str | None, grower: str) -> str:
    return f"{objective}{f' {metric}' if metric else ''}, {grower}"


def _ours(
    title: str, grower: str, metric: str | None = None, *, random: bool = False, **own: Any
) -> Candidate:
    own = {"objective": title.partition(" ")[0], "grower": grower, **own}
    labels = "binary" if title == "logistic" else "grades"
    return Candidate(tool="rankgrove", name=our_name(title, metric, grower), metric=metric,
                     settings=own, labels=labels,
                     random=random or grower == OBLIVIOUS)  # fmt: skip


# As published: pairs of neighbours, in ten rankings; and the same without noise, with ties in the
# order of the rows, as in the worst one neighbours have equal labels before the first tree.
NEAR, NO_NOISE = "yetiloss of neighbours", "yetiloss of neighbours without noise"


def _our_candidates() -> list[Candidate]:
    found = []
    for grower in (LEAFWISE, OBLIVIOUS):
        for metric in METRICS:
            found += [
                _ours("lambdamart", grower, metric),
                _ours("yetiloss", grower, metric, random=True),
                _ours(NEAR, grower, metric, random=True, neighbours=1),
                _ours(NO_NOISE, grower, metric, noise="none", neighbours=1, permutations=1),
                _ours("stochasticrank", grower, metric, random=True),
            ]
        found.append(_ours("yetirank", grower, random=True))
        found += [
            _ours(title, grower)
            for title in ("queryrmse", "rankmart", "softmax", "regression", "logistic")
        ]
    # LightGBM has the one, and no peer the other: no oblivious twin.
    return [*found, _ours("xendcg", LEAFWISE, random=True), _ours("listnet", LEAFWISE)]


def _catboost(loss: str, metric: str | None = None, when: int = _SOON) -> Candidate:
    labels = {"MAP": "binary", "MRR": "binary", "ERR": "chances"}.get(metric or "", "grades")
    if loss == "Logloss":
        labels = "binary"
    return Candidate(tool="catboost", name=loss, settings={"loss_function": loss}, metric=metric,
                     labels=labels, when=when)  # fmt: skip


def _their_candidates() -> list[Candidate]:
    peers = [
        Candidate(tool=tool, name=loss, settings={"objective": loss}, random="xendcg" in loss,
                  metric="MAP" if loss == "rank:map" else None,
                  labels="binary" if loss == "rank:map" else "grades")
        for tool in ("lightgbm", "xgboost") for loss in PEERS[tool].losses.values()
    ]  # fmt: skip
    peers.append(_catboost("YetiRank"))
    for metric in METRICS:
        peers += [
            _catboost(peer_loss("catboost", "yetiloss", metric), metric),
            _catboost(peer_loss("catboost", "lambdamart", metric), metric, _LATE),
        ]
        if metric != "MAP":
            loss = peer_loss("catboost", "stochasticrank", metric)
            peers.append(_catboost(loss, metric, _LAST))
    for loss in ("QueryRMSE", "QuerySoftMax", "PairLogit", "RMSE", "Logloss"):
        peers.append(_catboost(loss))
    # Seconds a tree on the set with the most features.
    return [
        *peers,
        _catboost("YetiRankPairwise", when=_LATE),
        _catboost("PairLogitPairwise", when=_LAST),
    ]


CANDIDATES = {one.key: one for one in (*_our_candidates(), *_their_candidates())}


class Twins(NamedTuple):
    """An objective of ours, a peer's loss of the same kind, and what the two are compared by."""

    ours: str
    theirs: str
    metric: str


def _twins() -> list[Twins]:
    def pair(tool: str, objective: str, metric: str = METRICS[0]) -> Twins:
        takes_metric = objective in ("lambdamart", "yetiloss", "stochasticrank")
        grower = OBLIVIOUS if tool == "catboost" else LEAFWISE
        name = our_name(objective, metric if takes_metric else None, grower)
        return Twins(f"rankgrove {name}", f"{tool} {peer_loss(tool, objective, metric)}", metric)

    found = [
        pair(tool, *losses.split())
        for tool in ("lightgbm", "xgboost") for losses in PEERS[tool].losses
    ]  # fmt: skip
    found += [
        pair("catboost", objective, metric)
        for metric in METRICS for objective in ("lambdamart", "yetiloss", "stochasticrank")
    ]  # fmt: skip
    found += [
        pair("catboost", objective)
        for objective in ("yetirank", "queryrmse", "softmax", "rankmart", "regression", "logistic")
    ]
    return [twins for twins in found if twins.theirs in CANDIDATES]


TWINS = _twins()


class Task(NamedTuple):
    """One fit; `mark` tells the results of these settings, versions and data from others."""

    candidate: str
    set_name: str
    fold: int
    seed: int
    n_trees: int
    mark: str


class Fitted(NamedTuple):
    """For each metric that stops a fit, the scores of the test documents and the trees kept."""

    scores: dict[str, Floats]
    n_trees: dict[str, int]


class Stops:
    """The values of metrics after each tree, and where each of them was best."""

    def __init__(self, metrics: Iterable[str]) -> None:
        self.values: dict[str, list[float]] = {metric: [] for metric in metrics}
        # The trees after which one of the metrics was better than ever.
        self.n_improved = 0

    def add(self, new: Mapping[str, float]) -> None:
        """The values after one more tree."""
        better = any(value > max(self.values[name], default=-np.inf) for name, value in new.items())
        self.n_improved += better
        for name, value in new.items():
            self.values[name].append(value)

    @property
    def n_trees(self) -> dict[str, int]:
        """The first tree after which each metric was best."""
        return {name: int(np.argmax(values)) + 1 for name, values in self.values.items()}

    def is_over(self, patience: int) -> bool:
        """Whether none has improved for so many trees."""
        n_trees = len(next(iter(self.values.values())))
        return n_trees - max(self.n_trees.values()) >= patience


def top_grade(splits: Sequence[Split]) -> int:
    return int(max(part.labels.max() for part in splits[0] if part is not None))


def fingerprint(splits: Sequence[Split]) -> int:
    """A check sum of a data set and how it is cut."""
    total = 0
    for part in (part for split in splits for part in split.with_vali()):
        for array in (part.features, part.labels, part.group):
            total = zlib.crc32(np.ascontiguousarray(array).tobytes(), total)
    return total


def mark_of(candidate: Candidate, n_trees: int, data: int, code: str) -> str:
    """A hash of all that a result depends on, besides the candidate's name, set, fold and seed."""
    told = {
        "settings": dict(candidate.settings), "metric": candidate.metric,
        "labels": candidate.labels, "stops": list(stops_of(candidate)), "trees": n_trees,
        "rate": LEARNING_RATE, "patience": PATIENCE, "leaves": N_LEAVES, "depth": DEPTH,
        "data": data,
        "version": importlib.metadata.version(PACKAGES[candidate.tool]),
        "code": code if candidate.ours else "",
    }  # fmt: skip
    return hashlib.sha1(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def relabel(data: Dataset, labels: str, top: int) -> Dataset:
    """The same documents with the labels that a loss asks for."""
    as_for = {"binary": "MAP", "chances": "ERR", "grades": "NDCG@10"}[labels]
    return replace(data, labels=convert_labels(as_for, data.labels, top))


def stops_of(one: Candidate) -> tuple[str, ...]:
    """The metrics that stop a fit: NDCG@10 first, last the one that it is for."""
    return tuple(dict.fromkeys((METRICS[0], one.metric or METRICS[0])))


def _fit_rankgrove(one: Candidate, parts: Sequence[Dataset], task: Task, top: int) -> Fitted:
    train, vali, test = parts
    own, names = dict(one.settings), metric_names(top)
    if one.metric is not None:
        metric = parse_metric(names[one.metric])
        own["metric"] = replace(metric, ties="stable") if own.get("noise") == "none" else metric
    stops = Stops(stops_of(one))

    def watch(run: Run) -> bool:
        (history,) = run.history.values()
        stops.add({metric: history[names[metric]][-1] for metric in stops.values})
        return stops.is_over(PATIENCE)

    ranker = Ranker(
        n_estimators=task.n_trees, learning_rate=LEARNING_RATE, random_state=task.seed, n_jobs=1,
        eval_metric=[names[metric] for metric in stops.values], **own,
    )  # fmt: skip
    ranker.fit(relabel(train, one.labels, top), valid=vali, callbacks=[watch])
    scores = {
        stop: np.asarray(ranker.predict(test, n_trees=n)) for stop, n in stops.n_trees.items()
    }
    return Fitted(scores, stops.n_trees)


OF_TOOL: dict[str, dict[str, Any]] = {
    "lightgbm": {"num_leaves": N_LEAVES, "force_col_wise": True},
    "xgboost": {
        "tree_method": "hist", "grow_policy": "lossguide", "max_leaves": N_LEAVES, "max_depth": 0
    },
    "catboost": {"depth": DEPTH},
}  # fmt: skip


def _fit_peer(one: Candidate, parts: Sequence[Dataset], task: Task, top: int) -> Fitted:
    train, vali, test = parts
    given = {"learning_rate": LEARNING_RATE, "random_state": task.seed}
    settings = {**peer_settings(one.tool, given, n_jobs=1), **OF_TOOL[one.tool], **one.settings}
    stops = Stops(stops_of(one))
    measures = {
        metric: metric_of_scores(vali, metric_names(top)[metric]) for metric in stops.values
    }

    def improvements(scores: Any) -> float:
        """What a library sees: it rises with each tree after which a metric is the best so far."""
        stops.add({metric: measure(scores) for metric, measure in measures.items()})
        return float(stops.n_improved)

    watch = Watch(relabel(vali, one.labels, top), improvements, PATIENCE)
    fitted = fit_peer(one.tool, settings, relabel(train, one.labels, top), task.n_trees, watch)
    scores = {stop: fitted.predict(test, n) for stop, n in stops.n_trees.items()}
    return Fitted(scores, stops.n_trees)


def fit(splits: Sequence[Split], task: Task) -> dict[str, Any]:
    """Fit, and measure every test query by all metrics at each stop: a line of the results."""
    one, top = CANDIDATES[task.candidate], top_grade(splits)
    parts = splits[task.fold].with_vali()
    start = time.process_time()
    found = (_fit_rankgrove if one.ours else _fit_peer)(one, parts, task, top)
    seconds = time.process_time() - start
    names = metric_names(top)
    values = {}
    for stop, scores in found.scores.items():
        figures = evaluate(parts[2], scores, list(names.values()), n_jobs=1)
        values[stop] = {
            metric: [None if np.isnan(v) else round(float(v), 7) for v in figures.per_query(name)]
            for metric, name in names.items()
        }
    return {**task._asdict(), "trees": found.n_trees, "seconds": round(seconds, 2),
            "values": values}  # fmt: skip
