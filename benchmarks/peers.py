"""Rankgrove and its peers behind one face: the same data, the same settings, trees on demand."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from benchmarks.common import THREADS
from benchmarks.differences import Floats
from rankgrove.boosting.loop import Boosting
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.data.synthetic import make_web_search
from rankgrove.metrics.evaluate import evaluate
from rankgrove.testing.peers import import_peer, peer_data, peer_settings
from rankgrove.trees.binning import Bins, encode
from rankgrove.trees.predict import PreparedEnsemble

METRIC = "ndcg@10"
_FEWEST_FEATURES = 16
_LAYOUTS: tuple[dict[str, bool], ...] = ({}, {"force_row_wise": True}, {"force_col_wise": True})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every library is told, in the words of `Parameters`."""

    max_leaves: int = 63
    learning_rate: float = 0.1
    min_samples_leaf: int = 20
    subsample: float = 1.0
    colsample: float = 1.0
    l2: float | None = 0.0  # None is the default of each library, for XGBoost 0
    random_state: int = 0

    def of(self, *without: str) -> dict[str, Any]:
        """The parameters that a library has; without a number for `l2` it is 0."""
        given = {**vars(self), "l2": self.l2 or 0.0}
        return {name: value for name, value in given.items() if name not in without}


class Tool(Protocol):
    """A library with its training data in its own format."""

    every: int  # it takes part in every so many rounds of an alternating run

    def grow(self, n_trees: int) -> float:
        """Add so many trees; the seconds that each took."""

    def scores(self, data: Dataset) -> Floats:
        """The scores of all trees so far."""


class Rankgrove:
    """LambdaMART, unless told; `make` may give a training run that differs a little."""

    every = 1

    def __init__(
        self, data: Dataset, settings: Settings, make: Callable[..., Boosting] = Boosting,
        **parameters: Any,
    ) -> None:  # fmt: skip
        given = {name: value for name, value in vars(settings).items() if value is not None}
        # Trees are asked for in turns: there is always room for more.
        given |= {"objective": "lambdamart", "n_estimators": 1 << 30, **parameters}
        own = Parameters(**given)
        self.training = make(data, {}, own, n_jobs=THREADS)

    @staticmethod
    def convert(data: Dataset) -> Any:
        bins = Bins.fit(data.features, n_jobs=THREADS)
        return encode(np.asarray(data.features), bins, THREADS, by_feature=True)

    def grow(self, n_trees: int) -> float:
        start = time.perf_counter()
        for _ in range(n_trees):
            if not self.training.is_stuck:
                self.training.step()
                self.training.keep()
        return (time.perf_counter() - start) / n_trees

    def scores(self, data: Dataset) -> Floats:
        prepared = PreparedEnsemble(self.training.ensemble)
        scores: Floats = prepared.score(data.features, n_jobs=THREADS)
        return scores


class LightGBM:
    """`lambdarank` at its defaults, in the memory layout that proves the fastest."""

    every = 1

    def __init__(
        self, converted: Any, settings: Settings, layout: Mapping[str, bool] | None = None
    ) -> None:
        self.data = converted
        given = {"objective": "lambdamart", "max_bins": 255, **settings.of()}
        self.settings = peer_settings("lightgbm", given, THREADS)
        self.layout = self._fastest_layout() if layout is None else dict(layout)
        self.booster = self._make(self.layout)

    @staticmethod
    def convert(data: Dataset) -> Any:
        settings = peer_settings("lightgbm", {"max_bins": 255}, THREADS)
        return peer_data("lightgbm", data, settings).construct()

    def _make(self, layout: Mapping[str, bool]) -> Any:
        return import_peer("lightgbm").Booster({**self.settings, **layout}, self.data)

    def _fastest_layout(self, n_trees: int = 3) -> dict[str, bool]:
        times = []
        for layout in _LAYOUTS:
            booster = self._make(layout)
            booster.update()
            start = time.perf_counter()
            for _ in range(n_trees):
                booster.update()
            times.append(time.perf_counter() - start)
        return _LAYOUTS[int(np.argmin(times))]

    @property
    def layout_name(self) -> str:
        return next(iter(self.layout), "its own choice")

    def grow(self, n_trees: int) -> float:
        start = time.perf_counter()
        for _ in range(n_trees):
            self.booster.update()
        return (time.perf_counter() - start) / n_trees

    def scores(self, data: Dataset) -> Floats:
        scores: Floats = self.booster.predict(data.features, num_threads=THREADS)
        return scores


class XGBoost:
    """`rank:ndcg` with leaf-wise trees and the pairs nearest to a truncation of 30."""

    every = 1

    def __init__(self, converted: Any, settings: Settings) -> None:
        self.data = converted
        given = {
            # As the others have them; its own defaults are 1 and 1.
            **settings.of("min_samples_leaf"), "min_child_weight": 1e-3,
            "objective": "lambdamart", "max_depth": 0, "max_bins": 256,
        }  # fmt: skip
        own = {
            **peer_settings("xgboost", given, THREADS), "tree_method": "hist",
            "grow_policy": "lossguide", "lambdarank_pair_method": "topk",
            "lambdarank_num_pair_per_sample": 30,
        }  # fmt: skip
        self.booster = import_peer("xgboost").Booster(own, [self.data])

    @staticmethod
    def convert(data: Dataset) -> Any:
        return import_peer("xgboost").QuantileDMatrix(
            data.features, data.labels, group=data.group, weight=data.weights, max_bin=256,
            nthread=THREADS,
        )  # fmt: skip

    def grow(self, n_trees: int) -> float:
        first = self.booster.num_boosted_rounds()
        start = time.perf_counter()
        for tree in range(first, first + n_trees):
            self.booster.update(self.data, tree)
        return (time.perf_counter() - start) / n_trees

    def scores(self, data: Dataset) -> Floats:
        margins = self.booster.inplace_predict(data.features, predict_type="margin")
        return np.asarray(margins, dtype=np.float64)


class CatBoost:
    """Oblivious trees; it can't be asked for more trees, so `grow` starts anew each time."""

    every = 5

    def __init__(self, converted: Any, settings: Settings, loss: str = "QueryRMSE") -> None:
        self.data = converted
        given = settings.of("max_leaves", "min_samples_leaf", "subsample", "l2")
        given["max_depth"] = round(np.log2(settings.max_leaves))
        self.settings = {**peer_settings("catboost", given, THREADS), "loss_function": loss}
        self.model: Any = None

    @staticmethod
    def convert(data: Dataset) -> Any:
        pool = peer_data("catboost", data, peer_settings("catboost", {}, THREADS))
        pool.quantize(border_count=254)
        return pool

    def grow(self, n_trees: int) -> float:
        ends: list[float] = []

        class Clock:
            def after_iteration(self, info: Any) -> bool:
                ends.append(time.perf_counter())
                return True

        # The clock starts after the first tree, as that of the others after theirs.
        self.model = import_peer("catboost").CatBoost({**self.settings, "iterations": n_trees + 1})
        self.model.fit(self.data, callbacks=[Clock()])
        return (ends[-1] - ends[0]) / n_trees

    def scores(self, data: Dataset) -> Floats:
        scores: Floats = self.model.predict(data.features, thread_count=THREADS)
        return scores


def grow_in_turns(tools: Mapping[str, Tool], n_trees: int, rounds: int) -> dict[str, list[float]]:
    """Seconds a tree of each tool in each round; a first round, before the clock, warms up."""
    times: dict[str, list[float]] = {name: [] for name in tools}
    for turn in range(rounds + 1):
        for name, tool in tools.items():
            if turn == 0 or (turn - 1) % tool.every == 0:
                seconds = tool.grow(n_trees)
                times[name] += [seconds] if turn else []
    return times


def ndcg_of_queries(data: Dataset, scores: Floats) -> Floats:
    """NDCG@10 of each query, NaN where it has no relevant document."""
    return evaluate(data, scores, METRIC, n_jobs=THREADS).per_query(METRIC)


def make_rows(rows: int, n_features: int, seed: int) -> Dataset:
    """Web search data of this many rows, to within half a query."""
    # A query is the same for any number of queries and its length for any number of features.
    narrow = make_web_search(rows // 60 + 50, _FEWEST_FEATURES, seed=seed, n_jobs=THREADS)
    n_queries = int(np.abs(narrow.offsets - rows).argmin())
    return make_web_search(n_queries, n_features, seed=seed, n_jobs=THREADS)
