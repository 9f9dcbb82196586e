"""Compiling what training needs while data are read, which leaves processors idle."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.data.shard import Shard
from rankgrove.training.trees import start_trees

_LOOK = 0.2
# What takes longer than loading what is compiled already, and is worth a line.
_WORTH_A_LINE = 5.0

_logger = logging.getLogger("rankgrove.distributed")


class _Mirror:
    """Another worker that has nothing to add."""

    rank, size = 0, 2

    def sum(self, numbers: NDArray[np.int64]) -> None:
        """It adds nothing."""

    def reduce_scatter(
        self, numbers: NDArray[np.int64], bounds: Sequence[int]
    ) -> NDArray[np.int64]:
        """It adds nothing."""
        return np.zeros(bounds[1], dtype=np.int64)

    def scatter(self, messages: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """It adds nothing."""
        return [messages[0][:0]]

    def max(self, values: NDArray[np.float64]) -> None:
        """It has nothing larger."""

    def gather(self, message: bytes, lengths: Sequence[int] | None = None) -> list[bytes]:
        """It says the same."""
        return [message, message]


def train_a_little(parameters: Parameters, n_workers: int, *, sparse: bool = False) -> None:
    """Have two trees grown on a few rows by the kernels that these parameters need."""
    # So many features and values that workers share histograms and compare cuts.
    rng = np.random.default_rng(0)
    features = rng.random((512, 80)).astype(np.float32)
    if sparse:
        features[rng.random(features.shape) < 0.9] = 0
    features[:, 0] = np.arange(512) % 9
    data = Dataset.from_arrays(features, np.arange(512) % 2, group=[32] * 16)
    if n_workers > 1:
        data = replace(data, shard=replace(Shard.whole(data.offsets), peers=_Mirror()))
    few = replace(
        parameters, n_estimators=2, early_stopping_rounds=None, min_samples_leaf=2,
        categorical=None if parameters.categorical is None else [0],
        monotone=None if parameters.monotone is None else {1: 1},
    )  # fmt: skip
    start_trees(data, {"valid": data}, few, n_jobs=1).run()


class WarmUp:
    """Compiles kernels in a thread of its own, from when it is made."""

    def __init__(self, parameters: Parameters, n_workers: int) -> None:
        self._begun = time.perf_counter()
        self._thread = threading.Thread(
            target=self._compile, args=(parameters, n_workers), name="rankgrove-warmup", daemon=True
        )
        self._thread.start()
        _logger.info("compiling what training needs while data are read")

    def wait(self, check_going_on: Callable[[], None]) -> None:
        """Until all is compiled; what `check_going_on` raises ends waiting."""
        begun = time.perf_counter()
        while self._thread.is_alive():
            self._thread.join(_LOOK)
            check_going_on()
        waited, took = time.perf_counter() - begun, time.perf_counter() - self._begun
        if took > _WORTH_A_LINE:
            _logger.info("compiled in %.0f s, %.0f s of them after data were read", took, waited)

    @staticmethod
    def _compile(parameters: Parameters, n_workers: int) -> None:
        # A function of the user is not called for nothing. What goes wrong on a few rows may be
        # right on the data, and if not, it goes wrong there, with its own words.
        if not callable(parameters.objective):
            with suppress(Exception):
                train_a_little(parameters, n_workers)
