"""How training is going, for whoever waits.

A curve that grows in a notebook, a bar on a terminal, lines elsewhere.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

from rankgrove.data.documents import Documents, feature_numbers
from rankgrove.pictures import svg
from rankgrove.pictures.curves import history_chart

if TYPE_CHECKING:
    from rankgrove.training.run import Run

# What is shown is renewed after this many seconds at the earliest.
_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BETWEEN_CURVES = 0.5
_SECONDS_OF_BAR = 0.1
_FEATURES_SHOWN = 5


class Progress:
    """Shows after each step how many there are, the watched measure and the time left.

    Used as a context and as a callback of training. On a terminal it is one line that moves;
    elsewhere a line is written every few seconds.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._bar = self._stream.isatty()
        self._wait = _SECONDS_OF_BAR if self._bar else _SECONDS_BETWEEN_LINES
        self._opened = self._start = self._written = 0.0
        self._first = 0

    def __enter__(self) -> Progress:
        self._opened = self._start = self._written = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def say(self, text: str) -> None:
        """Write a line that stays, if there is a text."""
        if text:
            self._stream.write(text + "\n")
            self._stream.flush()

    def __call__(self, run: Run) -> None:
        now = time.monotonic()
        if self._first == 0:
            # The first step may have waited for compilation: time is counted from it on.
            self._first, self._start = run.n_steps, now
        if now - self._written < self._wait and run.n_steps < run.most_steps:
            return
        self._written = now
        self._show(run, self._line(run, now))

    def _show(self, run: Run, line: str) -> None:
        self._stream.write("\r\x1b[K" + line if self._bar else line + "\n")
        self._stream.flush()

    def _line(self, run: Run, now: float) -> str:
        done, total = run.n_steps, run.most_steps
        words = [f"{done:,}/{total:,} {run.unit.plural}"]
        if self._bar:
            filled = 24 * done // total
            words.insert(0, "━" * filled + "╌" * (24 - filled))
        if run.title:
            words.insert(0, run.title)
        validation = run.validation
        if validation.watched:
            words.append(f"{validation.measures.names[0]} {validation.watched[-1]:.4f}")
            words += [f"{name} {value:.4f}" for name, value in validation.beside]
            best = validation.best
            words.append(f"best {validation.watched[best - 1]:.4f} at {best:,}")
        since_first = done - self._first
        if done == total:
            words.append(clock_time(now - self._opened))
        elif since_first > 0:
            each = (now - self._start) / since_first
            words.append(f"{clock_time(each * (total - done))} left")
        return "  ".join(words)


class NotebookProgress(Progress):
    """The same in a notebook: one display with the learning curves so far, which stays.

    Without a validation set it is the line alone. What a notebook cannot draw, as a terminal that
    is joined to its kernel, has the line too.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._bar, self._wait = False, _SECONDS_BETWEEN_CURVES
        self._display: Any = None
        self._last: Run | None = None

    def __exit__(self, *_: object) -> None:
        if self._last is not None:
            self._show(self._last, self._line(self._last, time.monotonic()))

    def __call__(self, run: Run) -> None:
        self._last = run
        super().__call__(run)

    def _show(self, run: Run, line: str) -> None:
        from IPython.display import display  # noqa: PLC0415 (there in notebooks only)

        kept = run.validation.best if run.validation.watched else 0
        chart = history_chart(run.history, kept, line, kept_name="best")
        content = {"text/plain": line}
        if chart is not None:
            content["image/svg+xml"] = svg.draw(chart)
        if self._display is None:
            self._display = display(content, raw=True, display_id=True)
        else:
            self._display.update(content, raw=True)


def make_progress() -> Progress:
    """What shows progress here: a display in a kernel of IPython, text elsewhere."""
    # Whoever runs in a kernel has imported IPython: nobody else waits for it.
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return Progress() if getattr(shell, "kernel", None) is None else NotebookProgress()


def categories_text(train: Documents, parameters: Any) -> str:
    """Which features are categories other than numbers, by name or by type; "" for none.

    >>> from rankgrove import from_frame
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"label": [1, 0], "qid": [1, 1], "source": ["web", "app"]})
    >>> data = from_frame(frame, categorical=["source"])
    >>> from rankgrove.boosting.parameters import Parameters
    >>> categories_text(data, Parameters(categorical=["source"]))
    'categories: source (2 levels)'
    >>> categories_text(data, Parameters())
    'categories: source (2 levels, by its type)'
    """
    chosen = getattr(parameters, "categorical", None) or ()
    named = feature_numbers("categorical", chosen, train.feature_names)
    most = getattr(parameters, "max_bins", 0)
    words = []
    for feature, levels in train.levels.items():
        of_type = "" if feature in named else ", by its type"
        rare = f", of which the {most} most frequent count" if len(levels) > most else ""
        words.append(f"{train.feature_names[feature]} ({len(levels):,} levels{of_type}{rare})")
    more = len(words) - _FEATURES_SHOWN
    shown = ", ".join(words[:_FEATURES_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"categories: {shown}" if words else ""


def clock_time(seconds: float) -> str:
    """A time to read: 42 s, 3 min 20 s, 2 h 5 min.

    >>> clock_time(4.2), clock_time(200), clock_time(7500)
    ('4.2 s', '3 min 20 s', '2 h 5 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
