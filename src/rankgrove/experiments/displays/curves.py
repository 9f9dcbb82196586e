"""Learning curves of several runs, and what a learning rate does to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, is_number, refusal
from rankgrove.experiments.checks import check_dataset, check_one_of
from rankgrove.metrics.base import show_number
from rankgrove.model.base import load
from rankgrove.pictures.chart import Axis, Chart, Line, Mark, Panel, Points
from rankgrove.pictures.display import Display
from rankgrove.pictures.palette import candidate

History = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass
class LearningCurvesDisplay(Display):
    """A metric after each step of several runs.

    Attributes
    ----------
    metric
        What was measured.
    curves
        For each run, for each of its data sets, the value after each step.
    kept
        For each run that is a model, how many steps the model keeps.
    title
        Of the runs.
    """

    metric: str
    curves: dict[str, dict[str, list[float]]]
    kept: dict[str, int] = field(default_factory=dict)
    title: str = ""

    def chart(self) -> Chart:
        sets = dict.fromkeys(name for curves in self.curves.values() for name in curves)
        panels = []
        for set_name in sets:
            marks: list[Mark] = []
            for number, (run, curves) in enumerate(self.curves.items()):
                values = curves.get(set_name)
                if values is None:
                    continue
                look, kept = candidate(number), self.kept.get(run, 0)
                steps = range(1, len(values) + 1)
                marks.append(Line(steps, values, run, look.colour, look.dash))
                if 0 < kept <= len(values):
                    marks.append(
                        Points([kept], [values[kept - 1]], "", look.colour, look.shape, 4.5)
                    )
            axes = Axis("steps of training"), Axis(self.metric, margin=0.05)
            panels.append(Panel(set_name, *axes, marks, 340, 240))
        marked = "the mark is the last step that the model keeps" if self.kept else ""
        note = "; ".join(filter(None, (self.title, marked)))
        return Chart(panels, f"Learning curves of {self.metric}", note)


def plot_learning_curves(
    runs: Mapping[str, Any], metric: str | None = None, *, ax: Any = None
) -> LearningCurvesDisplay:
    """The metrics that several runs measured on their validation sets, step by step.

    Parameters
    ----------
    runs
        From names to: a fitted estimator, a model, the path of its file, or a history: for each
        data set, for each metric, its value after each step.
    metric
        One that all runs measured; by default the first of the first run.
    ax
        Axes of matplotlib to draw into, one for each data set.

    Examples
    --------
    >>> history = {"valid": {"map": [0.1, 0.3, 0.2]}}
    >>> display = plot_learning_curves({"0.1": history, "0.5": history})
    >>> display.metric, display.curves["0.5"]["valid"]
    ('map', [0.1, 0.3, 0.2])
    """
    if not isinstance(runs, Mapping) or not runs:
        raise refusal("runs", "be a mapping with at least one name", got="none")
    histories, kept = {}, {}
    for name, run in runs.items():
        histories[str(name)], kept[str(name)] = _history_of(str(name), run)
    known = [list(dict.fromkeys(m for values in one.values() for m in values))
             for one in histories.values()]  # fmt: skip
    shared = [name for name in known[0] if all(name in names for names in known)]
    if not shared:
        raise DataError("runs must have measured one and the same metric. Got none that all have.")
    if metric is not None:
        check_one_of("metric", metric, shared)
    chosen = shared[0] if metric is None else metric
    curves = {
        run: {
            name: [float(value) for value in values[chosen]]
            for name, values in history.items()
            if chosen in values
        }
        for run, history in histories.items()
    }
    steps = {name: number for name, number in kept.items() if number}
    return LearningCurvesDisplay(chosen, curves, steps).drawn_into(ax)


def plot_shrinkage(
    data: Dataset,
    valid: Dataset | Mapping[str, Dataset] | None = None,
    learning_rates: Sequence[float] = (1.0, 0.5, 0.1, 0.01),
    *,
    ax: Any = None,
    **params: Any,
) -> LearningCurvesDisplay:
    """Train at several learning rates ("shrinkage") and show the metric after each tree.

    Parameters
    ----------
    data
        What is trained on, and measured as "train".
    valid
        Other queries to measure, alone or by name.
    learning_rates
        Numbers above 0.
    ax
        Axes of matplotlib to draw into, one for each data set.
    params
        Other parameters of `Ranker`; LambdaMART is the objective unless told.

    Examples
    --------
    >>> from rankgrove import make_web_search
    >>> train, valid = make_web_search(40, 16).split(0.5, 0.5)
    >>> display = plot_shrinkage(train, valid, (1.0, 0.1), n_estimators=3)
    >>> list(display.curves), list(display.curves["0.1"]), len(display.curves["0.1"]["valid"])
    (['1', '0.1'], ['train', 'valid'], 3)
    """
    from rankgrove.estimators.ranker import Ranker  # noqa: PLC0415 (imports scikit-learn)

    check_dataset("data", data)
    rates = list(learning_rates)
    if not rates or not all(is_number(rate) and rate > 0 for rate in rates):
        raise refusal("learning_rates", "be numbers above 0", rates)
    others = valid if isinstance(valid, Mapping) else {} if valid is None else {"valid": valid}
    for name, one in others.items():
        check_dataset(str(name), one)
    given = {"objective": "lambdamart"} | params
    runs = {
        show_number(float(rate)): Ranker(**given, learning_rate=rate).fit(
            data, valid={"train": data, **others}
        )
        for rate in rates
    }
    display = plot_learning_curves(runs)
    # Where nothing stops a run early, the last tree is no choice that is worth a mark.
    if given.get("early_stopping_rounds") is None:
        display.kept = {}
    display.title = "by learning rate"
    return display.drawn_into(ax)


def _history_of(name: str, run: Any) -> tuple[History, int]:
    """What a run measured, and how many of its steps are kept; 0 where that is not known."""
    if isinstance(run, (str, PathLike)):
        run = load(run)
    model = getattr(run, "model_", run)
    history = getattr(model, "history", model)
    if not isinstance(history, Mapping) or not all(
        isinstance(values, Mapping) for values in history.values()
    ):
        raise refusal("runs", "be fitted models or their histories",
                      got=f"{type(run).__name__} for {name!r}")  # fmt: skip
    if not history:
        raise DataError(
            f"{name}: a run must have measured something. Got no history: give fit a validation "
            f"set, valid=."
        )
    return history, int(getattr(model, "n_kept_steps", 0))
