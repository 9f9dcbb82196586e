"""What `tune` shows on stderr while it runs."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rankgrove.experiments.tune.trials import Trial, best_of
from rankgrove.training.progress import clock_time
from rankgrove.training.trainer import TREES, Unit

_SECONDS_BETWEEN_LINES = 5.0


class TrialProgress:
    """The trials so far, the best and the time left: a line that moves, or one now and then.

    With `shown` as False nothing is.
    """

    def __init__(
        self, n_trials: int, metric: str, unit: Unit = TREES, stream: TextIO | None = None,
        shown: bool = True,
    ) -> None:  # fmt: skip
        self._n_trials, self._metric, self._unit, self._shown = n_trials, metric, unit, shown
        self._stream = sys.stderr if stream is None else stream
        self._moves = shown and self._stream.isatty()
        self._trials: list[Trial] = []
        self._before, self._start, self._written = 0, 0.0, 0.0

    def start(self, trials: list[Trial]) -> None:
        self._trials, self._before = list(trials), len(trials)
        self._start = time.monotonic()
        if trials and self._shown:
            self._write(f"going on after {len(trials):,} trials")

    def grown(self, n_trees: int, best: float) -> None:
        self._update(f"{best:.4f} at {self._unit.noun} {n_trees:,}")

    def finished(self, trials: list[Trial]) -> None:
        self._trials, last = trials, trials[-1]
        pruned = " (pruned)" if last.state == "pruned" else ""
        now = f"last {last.value:.4f} with {self._unit.count(last.n_trees)}{pruned}"
        self._update(now, force=len(trials) == self._n_trials)

    def end(self) -> None:
        if self._moves:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _update(self, now: str, force: bool = False) -> None:
        """Show how it is going, if it is time to or if it must be."""
        wait = 0.1 if self._moves else _SECONDS_BETWEEN_LINES
        if not self._shown or not (force or time.monotonic() - self._written >= wait):
            return
        n_done, parts = len(self._trials), [now]
        best = best_of(self._trials)
        if best is not None:
            parts.insert(0, f"best {self._metric} {best.value:.4f} in trial {best.number:,}")
        if self._before < n_done < self._n_trials:
            each = (time.monotonic() - self._start) / (n_done - self._before)
            parts.append(f"{clock_time(each * (self._n_trials - n_done))} left")
        self._write("  ".join([f"{n_done:,}/{self._n_trials:,} trials", *parts]))

    def _write(self, line: str) -> None:
        self._written = time.monotonic()
        self._stream.write("\r\x1b[K" + line if self._moves else line + "\n")
        self._stream.flush()
