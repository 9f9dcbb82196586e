"""What `tune` shows on stderr while it runs."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rankgrove.experiments.tune.trials import Trial, TrialTable
from rankgrove.training.progress import clock_time
from rankgrove.training.trainer import TREES, Unit

_SECONDS_BETWEEN_LINES = 5.0


class TrialProgress:
    """The trials so far, the best and the time left: a line that moves, or one now and then."""

    def __init__(
        self, n_trials: int, metric: str, unit: Unit = TREES, stream: TextIO | None = None
    ) -> None:
        self._n_trials, self._metric, self._unit = n_trials, metric, unit
        self._stream = sys.stderr if stream is None else stream
        self._moves = self._stream.isatty()
        self._trials: list[Trial] = []
        self._before, self._start, self._written = 0, 0.0, 0.0

    def start(self, trials: list[Trial]) -> None:
        self._trials, self._before = list(trials), len(trials)
        self._start = time.monotonic()
        if trials:
            self._write(f"going on after {len(trials):,} trials", force=True)

    def grown(self, n_trees: int, best: float) -> None:
        now = f"{best:.4f} at {self._unit.noun} {n_trees:,}"
        self._write("  ".join([*self._parts(), now, *self._left()]))

    def finished(self, trials: list[Trial]) -> None:
        self._trials = trials
        last = trials[-1]
        now = f"last {last.value:.4f} with {self._unit.count(last.n_trees)}"
        now += " (pruned)" if last.state == "pruned" else ""
        self._write(
            "  ".join([*self._parts(), now, *self._left()]), force=len(trials) == self._n_trials
        )

    def end(self) -> None:
        if self._moves:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _parts(self) -> list[str]:
        parts = [f"{len(self._trials):,}/{self._n_trials:,} trials"]
        complete = [trial for trial in self._trials if trial.state == "complete"]
        if complete:
            best = TrialTable(complete).best
            parts.append(f"best {self._metric} {best.value:.4f} in trial {best.number:,}")
        return parts

    def _left(self) -> list[str]:
        done = len(self._trials) - self._before
        if done == 0 or len(self._trials) == self._n_trials:
            return []
        each = (time.monotonic() - self._start) / done
        return [f"{clock_time(each * (self._n_trials - len(self._trials)))} left"]

    def _write(self, line: str, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now - self._written < (0.1 if self._moves else _SECONDS_BETWEEN_LINES):
            return
        self._written = now
        self._stream.write("\r\x1b[K" + line if self._moves else line + "\n")
        self._stream.flush()
