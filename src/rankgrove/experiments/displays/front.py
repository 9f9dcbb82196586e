"""The front of two metrics: models that were trained with several weights, on two axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankgrove.data.dataset import Dataset
from rankgrove.errors import is_number, refusal
from rankgrove.experiments.checks import check_dataset
from rankgrove.experiments.compare.compare import score_candidates
from rankgrove.metrics.base import show_number
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.metrics.spec import MetricLike, parse_metric, parse_metrics
from rankgrove.pictures.chart import Axis, Chart, Line, Mark, Panel, Points, Text
from rankgrove.pictures.display import Display
from rankgrove.pictures.palette import AXIS, CANDIDATES

if TYPE_CHECKING:
    from rankgrove.estimators.ranker import Ranker

# Weights of the second metric unless told: from the first alone to the second alone.
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass
class FrontDisplay(Display):
    """Two metrics of several models. Pale are those that another beats in one and equals in both.

    Attributes
    ----------
    metrics
        What is on the two axes.
    values
        For each model its two values.
    """

    metrics: tuple[str, str]
    values: dict[str, tuple[float, float]]

    @property
    def front(self) -> list[str]:
        """The models that no other one dominates, by the first metric."""
        best = [name for name in self.values if not self._is_dominated(name)]
        return sorted(best, key=lambda name: self.values[name])

    def _is_dominated(self, name: str) -> bool:
        x, y = self.values[name]
        return any(a >= x and b >= y and (a, b) != (x, y) for a, b in self.values.values())

    def chart(self) -> Chart:
        front = self.front
        marks: list[Mark] = []
        for names, look, opacity in (
            (front, ("on the front", CANDIDATES[0], "circle"), 1.0),
            ([name for name in self.values if name not in front],
             ("dominated", AXIS, "diamond"), 0.45),
        ):  # fmt: skip
            if not names:
                continue
            x, y = zip(*(self.values[name] for name in names), strict=True)
            if names is front:
                marks.append(Line(x, y, "", CANDIDATES[0], (4.0, 3.0), 1.2))
            marks.append(Points(x, y, *look, 4.5, opacity))
        # Below its point a name is off the line, which falls to the right.
        marks += [Text(x, y, name, shift=(0.0, 17.0), size=10.0)
                  for name, (x, y) in self.values.items()]  # fmt: skip
        across, up = (Axis(metric, margin=0.08) for metric in self.metrics)
        label = f"{self.metrics[0]} against {self.metrics[1]} of {len(self.values)} models"
        return Chart([Panel("", across, up, marks, 460, 320)], label)


def plot_front(
    models: Mapping[str, Any],
    data: Dataset,
    metrics: Sequence[MetricLike] = ("ndcg@10", "map"),
    *,
    ax: Any = None,
) -> FrontDisplay:
    """Two metrics of several models, one on each axis; those that another dominates are pale.

    Parameters
    ----------
    models
        From names to models, scores or whatever else `compare` takes; `pareto_front` trains some.
    data
        Judged documents.
    metrics
        Two of them.
    ax
        Axes of matplotlib to draw into.

    Examples
    --------
    >>> data = Dataset.from_arrays([[1.0], [2.0]], [1, 0], group=[2], more_labels={"b": [0, 1]})
    >>> scores = {"first": [1, 0], "second": [0, 1], "neither": [0, 0]}
    >>> plot_front(scores, data, ["ndcg", "ndcg of b"]).front
    ['second', 'first']
    """
    check_dataset("data", data)
    if not isinstance(models, Mapping) or not models:
        raise refusal("models", "be a mapping with at least one name", got="none")
    chosen = parse_metrics(metrics)
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        raise refusal("metrics", "be two, one for each axis", got=", ".join(map(str, chosen)))
    values = {}
    for name, scores in score_candidates(data, models).items():
        first, second = measure_dataset(data, scores, chosen).values()
        values[name] = (first, second)
    return FrontDisplay((str(chosen[0]), str(chosen[1])), values).drawn_into(ax)


def pareto_front(
    train: Dataset,
    valid: Dataset | None,
    metric_a: MetricLike,
    metric_b: MetricLike,
    weights: Sequence[float] = WEIGHTS,
    **params: Any,
) -> dict[str, Ranker]:
    """Rankers for weighted sums of two metrics: (1 - weight) times the first, weight the second.

    Parameters
    ----------
    train, valid
        What is trained on, and what is measured after each tree, if anything.
    metric_a, metric_b
        Two metrics, maybe of different labels.
    weights
        From 0 to 1, those of the second metric.
    params
        Other parameters of `Ranker`.

    Returns
    -------
    A ranker for each weight, by the weight as a text, for `plot_front`.

    Examples
    --------
    >>> from rankgrove import make_web_search
    >>> train, valid = make_web_search(40, 16).split(0.5, 0.5)
    >>> both = ("ndcg@5", "mrr(relevant>=2)")
    >>> rankers = pareto_front(train, valid, *both, weights=(0, 0.5, 1), n_estimators=3)
    >>> len(plot_front(rankers, valid, both).values)
    3
    """
    from rankgrove.estimators.ranker import Ranker  # noqa: PLC0415 (imports scikit-learn)

    check_dataset("train", train)
    first, second = parse_metric(metric_a), parse_metric(metric_b)
    if first == second:
        raise refusal("metric_b", "be another metric than metric_a", got=str(second))
    shares = list(weights)
    if not shares or not all(is_number(share) and 0 <= share <= 1 for share in shares):
        raise refusal("weights", "be numbers from 0 to 1", shares)
    found = {}
    for share in shares:
        parts = {first: 1 - share, second: share}
        metric = {part: weight for part, weight in parts.items() if weight > 0}
        ranker = Ranker(**params, metric=first if share == 0 else second if share == 1 else metric)
        found[show_number(float(share))] = ranker.fit(train, valid=valid)
    return found
