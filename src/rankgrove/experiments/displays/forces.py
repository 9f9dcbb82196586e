"""Pictures of forces: on one ranked list, by label through training, and where they lead."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.documents import Documents
from rankgrove.errors import ParameterError, refusal, unknown_name, whole_number
from rankgrove.experiments.burges import OBJECTIVES, burges_example
from rankgrove.model.by_label import ForceTotals, LabelsByRank, force_totals, labels_by_rank
from rankgrove.model.forces import ForceField, ObjectiveLike, forces_at, trees_of
from rankgrove.pictures.chart import Axis, Band, Chart, Line, Mark, Panel, Rule, stacked
from rankgrove.pictures.display import Display
from rankgrove.pictures.forces import Documents as ListedDocuments
from rankgrove.pictures.forces import Pushes, ranked_lists
from rankgrove.pictures.palette import AXIS, Colour, label_colours

ArrowScale = Literal["own", "common"]
ARROW_SCALES = ("own", "common")

# What Burges calls the objectives of his figure.
_BURGES_NAMES = {"rankmart": "RankNet", "lambdamart": "LambdaRank"}

# A picture of training has about so many points where nothing else is asked for.
_POINTS = 60


class ForcesDisplay(Display):
    """Ranked lists with the forces of one or several objectives on them.

    Attributes
    ----------
    lists
        For each list its forces, one `ForceField` of one query per objective.
    titles
        One per list.
    names
        What the objectives are called.
    grades
        All labels that there are, rising: a label has the same colour in every query.
    top, scale
        As for `plot_forces`.
    """

    def __init__(
        self,
        lists: Sequence[Sequence[ForceField]],
        titles: Sequence[str] = (),
        *,
        names: Sequence[str] = (),
        grades: Iterable[float] = (),
        top: int = 20,
        scale: ArrowScale = "own",
    ) -> None:
        if scale not in ARROW_SCALES:
            raise unknown_name("scale", str(scale), ARROW_SCALES)
        self.lists = [list(fields) for fields in lists]
        self.titles = list(titles) or [_title(fields[0]) for fields in self.lists]
        self.names = list(names) or [field.objective.name for field in self.lists[0]]
        here = (label for fields in self.lists for label in fields[0].labels.tolist())
        self.grades = sorted({*grades, *here})
        self.top, self.scale = int(whole_number("top", top, 1)), scale

    def chart(self) -> Chart:
        lists = [(self._listed(fields[0]), self._pushes(fields)) for fields in self.lists]
        label = f"The forces of {' and '.join(self.names)} on documents in rank order"
        return Chart(ranked_lists(self.titles, lists), label, columns=2)

    def longest(self) -> list[float]:
        """For each objective the force that its longest arrow stands for, the same in all lists."""
        largest = [
            max(float(np.abs(field.forces[self._rows(field)]).max()) for field in fields)
            for fields in zip(*self.lists, strict=True)
        ]
        return largest if self.scale == "own" else [max(largest)] * len(largest)

    def _rows(self, field: ForceField) -> NDArray[np.int64]:
        return field.rows_by_rank()[: self.top]

    def _listed(self, field: ForceField) -> ListedDocuments:
        rows, ids = self._rows(field), field.document_ids
        names = [] if ids is None else [str(name) for name in ids[rows]]
        return ListedDocuments(field.labels[rows].tolist(), self.grades, names)

    def _pushes(self, fields: Sequence[ForceField]) -> list[Pushes]:
        return [
            Pushes(
                name, field.forces[self._rows(field)].tolist(), longest,
                "one draw of its noise" if field.objective.is_random else "",
            )
            for name, field, longest in zip(self.names, fields, self.longest(), strict=True)
        ]  # fmt: skip


class ForceTotalsDisplay(Display):
    """The sums of forces by label through training, one panel per model.

    Attributes
    ----------
    totals
        The sums of each model, by its name.
    """

    def __init__(self, totals: Mapping[str, ForceTotals]) -> None:
        self.totals = dict(totals)

    def chart(self) -> Chart:
        reach = 1.05 * max(
            float(np.abs(sums.sum(axis=1)).max())
            for found in self.totals.values()
            for sums in (found.up, found.down)
        )
        panels = [
            Panel(
                name, Axis("trees"), Axis("sum of forces" if at == 0 else "", -reach, reach),
                [*_areas(found), Rule(0.0, upright=False, dash=())], width=340,
            )
            for at, (name, found) in enumerate(self.totals.items())
        ]  # fmt: skip
        objective = next(iter(self.totals.values())).objective
        label = f"The sums of the forces of {objective} on documents of each label, over trees"
        return Chart(panels, label, "above 0: pushed up; below: pushed down", columns=2)


class LabelsByRankDisplay(Display):
    """Which labels stand at which rank through training: one panel per model and number of trees.

    Attributes
    ----------
    labels
        The counts of each model, by its name.
    """

    def __init__(self, labels: Mapping[str, LabelsByRank]) -> None:
        self.labels = dict(labels)

    def chart(self) -> Chart:
        panels = [
            self._panel(name, found, at)
            for name, found in self.labels.items()
            for at in range(len(found.trees))
        ]
        columns = max(len(found.trees) for found in self.labels.values())
        label = "The share of each label at each rank, after some numbers of trees"
        return Chart(panels, label, columns=min(columns, 4))

    def _panel(self, name: str, found: LabelsByRank, at: int) -> Panel:
        number = found.trees[at]
        trees = f"{number:,} {'tree' if number == 1 else 'trees'}"
        shares = found.shares[at]
        ranks = list(range(1, len(shares) + 1))
        # The highest label stands at the bottom: how high it reaches is what one looks for.
        layers: list[tuple[str, Sequence[float], Colour]] = [
            (f"label {label:g}", shares[:, place].tolist(), colour)
            for place, (label, colour) in reversed(list(enumerate(_colours(found.labels))))
        ]
        marks: list[Mark] = list(stacked(ranks, layers, thickness=1.0))
        edges = [side for rank in ranks for side in (rank - 0.5, rank + 0.5)]
        for tops in np.cumsum(shares[:, :0:-1], axis=1).T:
            marks.append(_edge(edges, np.repeat(tops, 2).tolist()))
        title = f"{name}, {trees}" if name else trees
        share = Axis("share of documents" if at == 0 else "", 0.0, 1.0, shown=at == 0)
        ticks = [rank for rank in ranks if rank == 1 or rank % 5 == 0]
        x = Axis("rank", 0.5, len(ranks) + 0.5, ticks=[(rank, str(rank)) for rank in ticks])
        return Panel(title, x, share, marks, width=200, height=160)


def plot_forces(
    data: Documents,
    scores: ArrayLike,
    objectives: ObjectiveLike | Sequence[ObjectiveLike] = OBJECTIVES,
    *,
    query: Any = None,
    top: int = 20,
    scale: ArrowScale = "own",
    iteration: int = 0,
    seed: int = 0,
    ax: Any = None,
) -> ForcesDisplay:
    """Draw the forces of objectives on the ranked list of one query, as arrows.

    Each arrow starts at the row of its document; its length is the force, and where it points is
    where the document is pushed. The chip of a document has its label.

    Parameters
    ----------
    data, scores
        Judged documents, and one score for each: those of `predict`, or any others.
    objectives
        One or several, as `forces_at` takes them.
    query
        The id of the query; it may be left out where there is one.
    top
        Show so many documents, the first ones.
    scale
        Whether the longest arrow of each objective is as long as that of the others, "own", or
        arrows of all objectives are to one scale, "common".
    iteration, seed
        As for `forces_at`.
    ax
        Axes of matplotlib to draw into.

    Examples
    --------
    >>> from rankgrove import Dataset, plot_forces
    >>> data = Dataset.from_arrays([[0.0]] * 3, [0, 0, 1], group=[3])
    >>> plot_forces(data, [0.3, 0.2, 0.1]).longest()[0] > 1
    True
    """
    given = [objectives] if isinstance(objectives, str) or callable(objectives) else objectives
    several = list(given) if isinstance(given, Sequence) else [given]
    if not several:
        raise refusal("objectives", "be at least one", got="none")
    if query is None and isinstance(data, Documents):
        if data.n_queries > 1:
            raise refusal("query", "be given for data of several queries", got="none",
                          advice="name the one to draw")  # fmt: skip
        query = data.query_ids[0]
    fields = [
        forces_at(data, scores, objective, iteration=iteration, seed=seed).of_query(query)
        for objective in several
    ]
    grades = data.labels.tolist()
    return ForcesDisplay([fields], grades=grades, top=top, scale=scale).drawn_into(ax)


def plot_burges(
    objectives: Sequence[ObjectiveLike] = OBJECTIVES, *, ax: Any = None
) -> ForcesDisplay:
    """Draw figure 1 of Burges (2010): forces on two orders of 16 documents.

    Parameters
    ----------
    objectives
        As `forces_at` takes them; by default those of RankNet and of LambdaRank.
    ax
        Axes of matplotlib to draw into, one for each order.

    Examples
    --------
    >>> from rankgrove import plot_burges
    >>> plot_burges().titles
    ['before: 13 wrong pairs, NDCG 0.766', 'after: 11 wrong pairs, NDCG 0.441']
    """
    orders = burges_example()
    lists = [
        [forces_at(order.data, order.scores, objective) for objective in objectives]
        for order in orders
    ]
    names = [_BURGES_NAMES.get(field.objective.name, "") for field in lists[0]]
    names = [name or field.objective.name for name, field in zip(names, lists[0], strict=True)]
    titles = [f"{order.name}: {order.summary}" for order in orders]
    return ForcesDisplay(lists, titles, names=names).drawn_into(ax)


def plot_force_totals(
    model: Any,
    data: Documents,
    *,
    trees: Sequence[int] | None = None,
    objective: ObjectiveLike | None = None,
    n_jobs: int | None = None,
    ax: Any = None,
) -> ForceTotalsDisplay:
    """Draw the sums of upward and downward forces on the documents of each label, over trees.

    Parameters
    ----------
    model
        A model of trees, a ranker fitted with one, or a mapping from names to several.
    data, objective, n_jobs
        As for `force_totals`.
    trees
        Rising numbers of trees; by default about 60 of them.
    ax
        Axes of matplotlib to draw into, one for each model.
    """
    totals = {
        name: force_totals(one, data, trees or _points(one), objective, n_jobs=n_jobs)
        for name, one in _named(model).items()
    }
    return ForceTotalsDisplay(totals).drawn_into(ax)


def plot_labels_by_rank(
    model: Any,
    data: Documents,
    trees: Sequence[int] | None = None,
    *,
    top: int = 20,
    n_jobs: int | None = None,
    ax: Any = None,
) -> LabelsByRankDisplay:
    """Draw which share of the documents at each rank has which label, after numbers of trees.

    Parameters
    ----------
    model
        A model of trees, a ranker fitted with one, or a mapping from names to several.
    data, top, n_jobs
        As for `labels_by_rank`.
    trees
        Rising numbers of trees, a panel for each; by default none, a tenth of them, and all.
    ax
        Axes of matplotlib to draw into, one for each panel.
    """
    found = {}
    for name, one in _named(model).items():
        n_trees = trees_of(one).n_trees
        numbers = trees or sorted({0, math.ceil(n_trees / 10), n_trees})
        found[name] = labels_by_rank(one, data, numbers, top=top, n_jobs=n_jobs)
    return LabelsByRankDisplay(found).drawn_into(ax)


def _title(field: ForceField) -> str:
    tree = field.tree
    after = "" if tree is None else f", {tree:,} {'tree' if tree == 1 else 'trees'}"
    return f"query {field.query_ids[0]}{after}"


def _named(model: Any) -> dict[str, Any]:
    named = dict(model) if isinstance(model, Mapping) else {"": model}
    if not named:
        raise ParameterError("at least one model must be given. Got none.")
    return named


def _points(model: Any) -> list[int]:
    n_trees = trees_of(model).n_trees
    step = max(1, math.ceil(n_trees / _POINTS))
    return [*range(0, n_trees, step), n_trees]


def _colours(labels: Sequence[float]) -> list[tuple[float, Colour]]:
    return list(zip(labels, label_colours(len(labels)), strict=True))


def _areas(totals: ForceTotals) -> list[Mark]:
    """The sums on each other, the highest label at 0: upward forces above, downward ones below."""
    areas: list[Mark] = []
    for sums in (totals.up, totals.down):
        base = np.zeros(len(totals.trees))
        for place, (label, colour) in reversed(list(enumerate(_colours(totals.labels)))):
            reach = base + sums[:, place]
            low, high = np.minimum(base, reach).tolist(), np.maximum(base, reach).tolist()
            areas.append(Band(totals.trees, low, high, f"label {label:g}", colour, 1.0))
            areas.append(_edge(totals.trees, reach.tolist()))
            base = reach
    return areas


def _edge(x: Sequence[float], y: Sequence[float]) -> Line:
    """Between two labels: the darkest is as dark as a dark ground."""
    return Line(x, y, colour=AXIS, width=0.7)
