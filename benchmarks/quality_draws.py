"""One fit of each model of the comparison with other libraries, on a draw of training queries.

A draw has 90 % of the training queries of a fold, by a hash of the draw and the query, so that all
candidates see the same. What is kept of a fit are the scores of the test documents, so that
averages and mixtures are made of kept scores and nothing is fitted twice.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from benchmarks.differences import Floats
from benchmarks.kept_fits import Record
from benchmarks.quality_fits import (
    DEPTH,
    LEARNING_RATE,
    N_LEAVES,
    N_TREES,
    OBLIVIOUS,
    OF_TOOL,
    PACKAGES,
    PATIENCE,
    WATCHED,
)
from benchmarks.quality_hypotheses import N_AVERAGED, PEERS, TREATMENTS
from benchmarks.real_data import Split
from rankgrove.data.dataset import Dataset
from rankgrove.data.joined import join_datasets
from rankgrove.estimators.ranker import Ranker
from rankgrove.model.members import spread_of
from rankgrove.testing.peers import Watch, fit_peer, metric_of_scores, peer_settings

N_DRAWS, DRAWN_SHARE = 5, 0.9
COMMON, OWN = TREATMENTS
# As common, but every tree may split by so much of the features: LightGBM and XGBoost draw
# nothing unless told, and nine times the same model is no average.
FEATURES, FEATURE_SHARE = "80 % of the features", 0.8
# Trees of a fit on training and validation queries together, which has nothing to stop it.
REFIT_TREES = 200
# The seeds of single models, and those of the networks in mixtures.
N_SINGLE = 3
# A seed of one draw is none of another.
_SEEDS_A_DRAW = 1000
# Trees that a library grows unless told: of `LGBMRanker`, `XGBRanker`, `CatBoostRanker`.
_OWN_TREES = {"lightgbm": 100, "xgboost": 100, "catboost": 1000}
NETWORK, NETWORK_PATIENCE = "lambdarank network", 10
STOP, AGAIN = "stop", "refit"
# Of a refit: the number of trees that is given, beside that of the early stop.
GIVEN = "given"
EFFORTS = ("low", "medium", "high")


@dataclass(frozen=True, kw_only=True)
class Single:
    """A library with one of its losses, in one treatment.

    Attributes
    ----------
    tool, name, treatment
        What it is called; together the key under which fits are kept.
    settings
        What the library is told by the loss.
    random
        Whether the seed matters. If not, one seed stands for all.
    """

    tool: str
    name: str
    treatment: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    random: bool = True

    @property
    def key(self) -> str:
        return f"{self.tool} {self.name}, {self.treatment}"

    @property
    def ours(self) -> bool:
        return self.tool == "rankgrove"


_LOSSES: dict[str, dict[str, Any]] = {
    "catboost YetiRank": {"loss_function": "YetiRank"},
    "catboost QueryRMSE": {"loss_function": "QueryRMSE"},
    "lightgbm lambdarank": {"objective": "lambdarank"},
    "xgboost topk": {"objective": "rank:ndcg", "lambdarank_pair_method": "topk"},
    "xgboost mean": {"objective": "rank:ndcg", "lambdarank_pair_method": "mean"},
}
_TREES = {
    "yetirank": {"objective": "yetirank"},
    "lambdamart": {"objective": "lambdamart", "metric": WATCHED},
    "queryrmse": {"objective": "queryrmse"},
}


def _singles() -> list[Single]:
    found = []
    for peer in PEERS:
        tool, _, name = peer.partition(" ")
        draws = tool == "catboost"
        treatments = TREATMENTS if draws else (*TREATMENTS, FEATURES)
        found += [
            Single(tool=tool, name=name, treatment=each, settings=_LOSSES[peer],
                   random=draws or each == FEATURES)
            for each in treatments
        ]  # fmt: skip
    # Leaf-wise trees, LambdaMART's own, draw nothing.
    found += [
        Single(tool="rankgrove", name=name, treatment=treatment, settings=settings,
               random=treatment == COMMON or name != "lambdamart")
        for name, settings in _TREES.items() for treatment in TREATMENTS
    ]  # fmt: skip
    found.append(Single(tool="rankgrove", name=NETWORK, treatment=OWN))
    found += [Single(tool="rankgrove", name=f"effort {effort}", treatment=OWN,
                     settings={"effort": effort}) for effort in EFFORTS]  # fmt: skip
    return found


SINGLES = {one.key: one for one in _singles()}
NETWORKS = f"rankgrove {NETWORK}, {OWN}"


def member_of(peer: str) -> str:
    """The single model whose seeds are averaged."""
    return f"{peer}, {COMMON if peer.startswith('catboost') else FEATURES}"


def recipe_of(effort: str) -> str:
    return f"rankgrove effort {effort}, {OWN}"


class Task(NamedTuple):
    """One fit; `mark` tells the results of these settings, versions and data from others.

    `kind` is STOP, trained on the draw and stopped by the validation part, or AGAIN, trained on
    both with a number of trees that is given. `most` trees are grown in either, which is less than
    the protocol's in quick runs; `stop` is how many the early stop of the same seed kept, 0 unless
    it is a fit of the kind AGAIN.
    """

    candidate: str
    kind: str
    set_name: str
    fold: int
    draw: int
    seed: int
    most: int
    stop: int
    mark: str


def draw_queries(train: Dataset, draw: int) -> Dataset:
    """The queries of a draw: those with the smallest hashes of draw and query.

    The number is the nearest to the share, and at least one is left out.
    """
    hashes = [
        hashlib.sha1(f"{draw} {query}".encode()).hexdigest() for query in train.query_ids.tolist()
    ]
    number = max(1, min(round(DRAWN_SHARE * train.n_queries), train.n_queries - 1))
    chosen = sorted(range(train.n_queries), key=lambda query: (hashes[query], query))[:number]
    return train.take_queries(np.sort(chosen))


def mark_of(one: Single, data: int, code: str) -> str:
    """A hash of all that a fit depends on, besides what its task names."""
    told = {
        "settings": dict(one.settings), "rate": LEARNING_RATE, "patience": PATIENCE,
        "trees": N_TREES, "own trees": _OWN_TREES.get(one.tool), "leaves": N_LEAVES,
        "depth": DEPTH, "share": FEATURE_SHARE, "again": REFIT_TREES, "draw": DRAWN_SHARE,
        "data": data, "of tool": OF_TOOL.get(one.tool),
        "version": importlib.metadata.version(PACKAGES[one.tool]),
        "code": code if one.ours else "",
    }  # fmt: skip
    return hashlib.sha1(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def as_text(scores: Floats) -> str:
    return base64.b64encode(np.asarray(scores, dtype="<f4").tobytes()).decode()


def from_text(text: str) -> Floats:
    """Scores as they were kept: to single precision.

    >>> from_text(as_text(np.array([0.5, -2.0]))).tolist()
    [0.5, -2.0]
    """
    return np.frombuffer(base64.b64decode(text), dtype="<f4").astype(np.float64)


class Kept(NamedTuple):
    """What is kept of a model: test scores, their spread on the training documents, trees.

    Of a recipe of several models, it is their number that stands for that of trees.
    """

    scores: Floats
    spread: float
    n_trees: int

    def as_json(self) -> Record:
        return {"scores": as_text(self.scores), "spread": self.spread, "trees": self.n_trees}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Kept:
        return cls(from_text(record["scores"]), record["spread"], record["trees"])


Parts = tuple[Dataset, Dataset, Dataset]


def _peer_settings(one: Single, seed: int) -> dict[str, Any]:
    """What a peer is told besides the number of trees."""
    given: dict[str, Any] = {"random_state": seed}
    if one.treatment == OWN:
        return {**peer_settings(one.tool, given, n_jobs=1), **one.settings}
    given["learning_rate"] = LEARNING_RATE
    if one.treatment == FEATURES:
        given["colsample"] = FEATURE_SHARE
    return {**peer_settings(one.tool, given, n_jobs=1), **OF_TOOL[one.tool], **one.settings}


def _fit_peer(one: Single, parts: Parts, seed: int, most: int) -> Kept:
    train, vali, test = parts
    n_trees = min(_OWN_TREES[one.tool], most) if one.treatment == OWN else most
    watch = Watch(vali, metric_of_scores(vali, WATCHED), PATIENCE)
    fitted = fit_peer(one.tool, _peer_settings(one, seed), train, n_trees, watch)
    return Kept(
        fitted.predict(test), spread_of(fitted.predict(train), train.offsets), fitted.n_trees
    )


def _fit_peer_again(one: Single, parts: Parts, seed: int, task: Task) -> dict[str, Kept]:
    """On training and validation queries: the number of trees that is given, and that of the stop.

    Both are first trees of the same model.
    """
    train, vali, test = parts
    both = join_datasets([train, vali])
    given = min(REFIT_TREES, task.most)
    fitted = fit_peer(one.tool, _peer_settings(one, seed), both, max(given, task.stop))
    return {
        name: Kept(fitted.predict(test, n), spread_of(fitted.predict(both, n), both.offsets), n)
        for name, n in ((GIVEN, given), (STOP, task.stop))
    }


def _our_ranker(one: Single, seed: int, most: int) -> Any:
    if one.name == NETWORK:
        from rankgrove.neural import LambdaRank

        return LambdaRank(eval_metric=WATCHED, early_stopping_rounds=NETWORK_PATIENCE,
                          random_state=seed, n_jobs=1)  # fmt: skip
    ranker = Ranker(eval_metric=WATCHED, early_stopping_rounds=PATIENCE, random_state=seed,
                    n_jobs=1, **one.settings)  # fmt: skip
    if one.treatment == COMMON:
        ranker.set_params(n_estimators=most, learning_rate=LEARNING_RATE, grower=OBLIVIOUS,
                          max_depth=DEPTH)  # fmt: skip
    elif most < N_TREES:
        ranker.set_params(n_estimators=most)
    return ranker


def fit_recipe(train: Dataset, vali: Dataset, effort: str, seed: int) -> Any:
    """What a user has who says no more than `effort`: members, mixture and refit as it says."""
    given: dict[str, Any] = {"effort": effort, "random_state": seed, "n_jobs": 1}
    return Ranker(**given).fit(train, valid=vali)


def has_recipe() -> bool:
    """Whether this Rankgrove knows `effort`."""
    return "effort" in Ranker().get_params()


def _fit_ours(one: Single, parts: Parts, seed: int, most: int) -> Kept:
    train, vali, test = parts
    if effort := one.settings.get("effort"):
        fitted = fit_recipe(train, vali, effort, seed)
    else:
        fitted = _our_ranker(one, seed, most).fit(train, valid=vali)
    spread = spread_of(np.asarray(fitted.predict(train), float), train.offsets)
    return Kept(np.asarray(fitted.predict(test), float), spread, int(fitted.best_iteration_))


def fit(splits: Sequence[Split], task: Task) -> Record:
    """Fit and score the test documents: a line of the results."""
    one = SINGLES[task.candidate]
    train, vali, test = splits[task.fold].with_vali()
    parts = draw_queries(train, task.draw), vali, test
    seed = _SEEDS_A_DRAW * task.draw + task.seed
    start = time.process_time()
    if task.kind == STOP:
        models = {STOP: (_fit_ours if one.ours else _fit_peer)(one, parts, seed, task.most)}
    else:
        models = _fit_peer_again(one, parts, seed, task)
    seconds = round(time.process_time() - start, 3)
    return {**task._asdict(), "seconds": seconds,
            "models": {name: kept.as_json() for name, kept in models.items()}}  # fmt: skip


class Frame(NamedTuple):
    """What all fits of a run have in common: folds and check sum of each set, draws, code."""

    folds: Mapping[str, int]
    data: Mapping[str, int]
    draws: Sequence[int]
    code: str
    most: int = N_TREES


class Wanted(NamedTuple):
    """Fits of a candidate with some seeds."""

    candidate: str
    kind: str
    seeds: Sequence[int]


def order_of_fits(recipe: bool) -> list[Wanted]:
    """All fits, the most needed first."""
    first, later = range(N_SINGLE), range(N_SINGLE, N_AVERAGED)
    members = [member_of(peer) for peer in PEERS]
    found: list[Wanted] = []
    for peer in PEERS:
        found += [Wanted(f"{peer}, {COMMON}", STOP, first), Wanted(member_of(peer), STOP, first)]
    found.append(Wanted(NETWORKS, STOP, first))
    found += [Wanted(f"{peer}, {OWN}", STOP, range(1)) for peer in PEERS]
    found += [Wanted(f"rankgrove {name}, {COMMON}", STOP, first) for name in _TREES]
    found += [Wanted(recipe_of(effort), STOP, range(1)) for effort in EFFORTS[::-1] if recipe]
    found += [Wanted(f"rankgrove {name}, {OWN}", STOP, range(1)) for name in _TREES]
    found += [Wanted(member_of(peer), AGAIN, first)
              for peer in ("catboost YetiRank", "lightgbm lambdarank")]  # fmt: skip
    found += [Wanted(member, STOP, later) for member in members]
    found += [Wanted(member, AGAIN, first) for member in members]
    found += [Wanted(member, AGAIN, later) for member in members]
    return found


def stop_tasks(each: Wanted, frame: Frame) -> list[Task]:
    """The fits with an early stop: seed by seed, draw by draw."""
    one = SINGLES[each.candidate]
    return [
        Task(one.key, STOP, name, fold, draw, seed, frame.most, 0,
             mark_of(one, frame.data[name], frame.code))
        for seed in (each.seeds if one.random else [0] * (0 in each.seeds))
        for draw in frame.draws
        for name, n_folds in frame.folds.items()
        for fold in range(n_folds)
    ]  # fmt: skip


def tasks_of(each: Wanted, frame: Frame, found: Mapping[Task, Record]) -> list[Task]:
    """All fits of what is wanted; a refit is left out until there is the stop that it asks for."""
    stops = stop_tasks(each, frame)
    if each.kind == STOP:
        return stops
    return [
        task._replace(kind=AGAIN, stop=found[task]["models"][STOP]["trees"])
        for task in stops if task in found
    ]  # fmt: skip
