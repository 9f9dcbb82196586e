"""Which features a model rests on, and in which direction each moves a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.dataset import Dataset
from rankgrove.data.matrix import features_of
from rankgrove.errors import refusal, unknown_name, whole_number
from rankgrove.experiments.checks import check_dataset
from rankgrove.metrics.base import Floats
from rankgrove.model.base import ScoringModel
from rankgrove.model.explain import value_text
from rankgrove.model.importance import PermutationImportance
from rankgrove.model.model import Model
from rankgrove.pictures.chart import Axis, Band, Bars, Chart, Line, Mark, Panel, Points, Rule
from rankgrove.pictures.display import Display
from rankgrove.pictures.palette import AXIS, CANDIDATES, DOWN

# Values are put into so many parts of about as many documents each.
_PARTS = 20
_BINS = 25
_BAR = 20
_LONGEST_NAME = 32


@dataclass
class ImportanceDisplay(Display):
    """How much each feature counts, the largest first.

    Attributes
    ----------
    measure
        What the numbers are.
    feature_names, values
        Of the features shown.
    errors
        The standard deviation of each value; None where there is none.
    left_out
        How many features are not shown.
    """

    measure: str
    feature_names: list[str]
    values: Floats
    errors: Floats | None = None
    left_out: int = 0

    def chart(self) -> Chart:
        places = range(len(self.values))
        errors = () if self.errors is None else self.errors.tolist()
        bars = Bars(places, self.values.tolist(), lying=True, errors=errors, thickness=0.7)
        down = Axis(names=[short(name) for name in self.feature_names], backwards=True)
        across = Axis(self.measure, margin=0.02)
        panel = Panel("", across, down, [bars, Rule(0.0, dash=())], 360, _BAR * len(self.values))
        shown = len(self.values)
        note = f"{shown} of {shown + self.left_out:,} features" if self.left_out else ""
        return Chart([panel], f"Features by {self.measure}", note)


def plot_importance(
    model: Any, *, kind: str = "gain", data: Any = None, top: int = 20, ax: Any = None
) -> ImportanceDisplay:
    """The features that count most, as bars.

    Parameters
    ----------
    model
        A model, a fitted estimator, or what `Model.permutation_importance` gives: then bars are
        drops of a metric, with their standard deviation.
    kind, data
        For a model, as for `Model.importance`: "gain", "split", or "contribution" on data. A
        network has "contribution" only, and needs data.
    top
        How many features to show.
    ax
        Axes of matplotlib to draw into.

    Examples
    --------
    >>> from rankgrove import Ranker, make_web_search
    >>> ranker = Ranker(n_estimators=3).fit(make_web_search(30, 16))
    >>> display = plot_importance(ranker, top=2)
    >>> gains = ranker.model_.importance("gain")
    >>> display.values.tolist() == sorted(gains, reverse=True)[:2]
    True
    """
    top = whole_number("top", top, 1)
    errors = None
    if isinstance(model, PermutationImportance):
        names, values, errors = model.feature_names, model.mean, model.std
        measure = f"drop of {model.metric} when the feature is shuffled"
    else:
        trained = model_of(model)
        if kind == "gain" and not isinstance(trained, Model):
            kind = "contribution"
        names, values = trained.feature_names, trained.importance(kind, data)
        measure = {"gain": "sum of the gains of its splits", "split": "number of its splits"}.get(
            kind, "mean size of its contribution"
        )
    order = np.argsort(-values, kind="stable")[:top]
    shown = [names[at] for at in order.tolist()]
    spread = None if errors is None else errors[order]
    return ImportanceDisplay(
        measure, shown, values[order], spread, len(names) - len(shown)
    ).drawn_into(ax)


class Dependence(NamedTuple):
    """What the values of one feature do to a score.

    Attributes
    ----------
    feature
        Its name.
    x
        The middle value of each part; of categories 0, 1, 2, …
    categories
        What these stand for; () for numbers.
    mean, low, high
        The mean effect in each part, and the effects that a tenth of its documents are below and
        above.
    counts
        The documents of each part.
    heights
        How many documents have which value: of numbers from the first x to the last, in 25 parts
        of equal width, as tails may be long; of categories and few values the counts.
    missing, n_missing
        The mean effect where the feature is missing, NaN if it never is; in how many documents.
    """

    feature: str
    x: Floats
    categories: tuple[str, ...]
    mean: Floats
    low: Floats
    high: Floats
    counts: NDArray[np.int64]
    heights: NDArray[np.int64]
    missing: float
    n_missing: int


@dataclass
class DependenceDisplay(Display):
    """What features do to scores, with how many documents have which value.

    Attributes
    ----------
    dependences
        One per feature.
    within_query
        Whether effects are less their mean in the query.
    """

    dependences: list[Dependence]
    within_query: bool

    def chart(self) -> Chart:
        effects = [self._effects(one) for one in self.dependences]
        densities = [_density(one) for one in self.dependences]
        names = ", ".join(one.feature for one in self.dependences)
        note = "mean effect on the score, and the range of 8 in 10 documents"
        columns = len(self.dependences)
        return Chart([*effects, *densities], f"The effect of {names}", note, columns)

    def _effects(self, one: Dependence) -> Panel:
        marks: list[Mark] = [Rule(0.0, upright=False, dash=())]
        x, mean = one.x.tolist(), one.mean.tolist()
        if one.categories:
            marks.append(Bars(x, one.high.tolist(), one.low.tolist(), "", CANDIDATES[0],
                              0.5, opacity=0.25))  # fmt: skip
            marks.append(Points(x, mean, "", CANDIDATES[0], size=4))
        else:
            marks.append(Band(x, one.low.tolist(), one.high.tolist()))
            marks.append(Line(x, mean))
            if len(x) <= _PARTS:
                marks.append(Points(x, mean, size=2))
        if one.n_missing:
            marks.append(Rule(one.missing, False, "missing", DOWN, (2, 3), 1.5))
        title = "effect less its mean in the query" if self.within_query else "effect"
        across = Axis(names=one.categories) if one.categories else Axis("", *_reach(one))
        return Panel(short(one.feature), across, Axis(title, margin=0.05), marks, 300, 200)


def plot_dependence(
    model: Any, data: Dataset, features: str | Sequence[str], *, within_query: bool = True,
    ax: Any = None,
) -> DependenceDisplay:  # fmt: skip
    """What the values of a feature add to or take from a score: the mean of its contributions.

    A ranker's score has no zero: only differences within a query count. So each effect is taken
    less the mean of those of its query.

    Parameters
    ----------
    model
        A model or a fitted estimator.
    data
        Documents in their queries.
    features
        One name or several.
    within_query
        Whether to take effects less their mean in the query.
    ax
        Axes of matplotlib to draw into: first one for the effect of each feature, then one for the
        documents of each.

    Examples
    --------
    >>> from rankgrove import Ranker, make_web_search
    >>> data = make_web_search(30, 16)
    >>> ranker = Ranker(n_estimators=3).fit(data)
    >>> [shown] = plot_dependence(ranker, data, data.feature_names[0]).dependences
    >>> bool(shown.counts.sum() + shown.n_missing == data.n_documents)
    True
    """
    check_dataset("data", data)
    trained = model_of(model)
    names = [features] if isinstance(features, str) else list(features)
    if not names:
        raise refusal("features", "name at least one feature", got="none")
    for name in names:
        if name not in trained.feature_names:
            raise unknown_name("a feature", str(name), trained.feature_names)
    contributions = trained.contributions(data)
    matrix = features_of(data, trained.feature_names, trained.schema.levels)
    found = []
    for name in names:
        at = trained.feature_names.index(name)
        effects = contributions[:, at]
        if within_query:
            means = np.add.reduceat(effects, data.offsets[:-1]) / data.group
            effects = effects - np.repeat(means, data.group)
        values = np.asarray(matrix[:, [at]], dtype=np.float64)[:, 0]
        found.append(_dependence(trained, at, values, effects))
    return DependenceDisplay(found, within_query).drawn_into(ax)


def model_of(model: Any) -> ScoringModel:
    """The model of a fitted estimator, or itself."""
    trained = getattr(model, "model_", model)
    if not isinstance(trained, ScoringModel):
        raise refusal("model", "be a model or a fitted estimator", got=type(model).__name__)
    return trained


def short(name: str) -> str:
    """A name that an axis has room for.

    >>> short("x" * 40)
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'
    """
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _dependence(model: ScoringModel, at: int, values: Floats, effects: Floats) -> Dependence:
    there = ~np.isnan(values)
    present, moved = values[there], effects[there]
    known = np.unique(present)
    categories: tuple[str, ...] = ()
    many = False
    if at in model.schema.categories:
        pairs = zip(model.schema.categories[at], model.schema.named_categories[at], strict=True)
        named = dict(pairs)
        categories = tuple(value_text(named.get(value, value)) for value in known.tolist())
    elif len(known) > _PARTS:
        many = True
        known = _part_starts(present)
    part = np.searchsorted(known, present, "right") - 1
    groups = [moved[part == p] for p in range(len(known))]
    counts = np.array([len(group) for group in groups], dtype=np.int64)
    x, heights = known, counts
    if categories:
        x = np.arange(len(known), dtype=np.float64)
    elif many:
        x = np.array([np.median(present[part == p]) for p in range(len(known))])
        heights = np.histogram(present, _BINS, (x[0], x[-1]))[0].astype(np.int64)
    missing = effects[~there]
    return Dependence(
        model.feature_names[at],
        x,
        categories,
        np.array([group.mean() for group in groups]),
        np.array([np.quantile(group, 0.1) for group in groups]),
        np.array([np.quantile(group, 0.9) for group in groups]),
        counts,
        heights,
        float(missing.mean()) if len(missing) else np.nan,
        len(missing),
    )


def _part_starts(values: Floats) -> Floats:
    """Where parts of about as many values begin; a value that fills one by itself is a part.

    Each of these is one of the values, so that no part is empty.
    """
    known, counts = np.unique(values, return_counts=True)
    frequent = known[counts > len(values) / _PARTS]
    others = values[~np.isin(values, frequent)]
    shares = np.linspace(0.0, 1.0, _PARTS + 1 - len(frequent))
    starts = np.quantile(others, shares, method="lower") if len(others) else others
    return np.unique(np.concatenate([frequent, starts[:-1]]))


def _density(one: Dependence) -> Panel:
    """How many documents have which value."""
    across = Axis(one.feature, names=one.categories)
    places, thickness = one.x, 0.5
    if len(one.heights) != len(one.x):
        edges = np.linspace(one.x[0], one.x[-1], _BINS + 1)
        places, thickness = (edges[:-1] + edges[1:]) / 2, float(edges[1] - edges[0])
        across = Axis(one.feature, *_reach(one))
    elif not one.categories:
        across, thickness = Axis(one.feature, *_reach(one)), 0.02 * float(np.ptp(one.x)) or 0.5
    bars = Bars(places.tolist(), one.heights.tolist(), colour=AXIS, thickness=thickness)
    return Panel("", across, Axis("documents", 0.0), [bars], 300, 60)


def _reach(one: Dependence) -> tuple[float, float]:
    """Where the axis of values begins and ends, the same for effects and documents."""
    return Axis(margin=0.02).limits(one.x.tolist())
