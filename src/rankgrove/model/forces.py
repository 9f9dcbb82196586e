"""Forces on documents: what an objective pushes each by, at the scores of a model or at any others.

The force of a document is minus the derivative of the cost by its score: positive pushes up. What
tree k of a model was fitted to are the forces at the scores of the trees before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.documents import Documents
from rankgrove.data.queries import unknown_query
from rankgrove.errors import DataError, ParameterError, parameter, refusal, whole_number
from rankgrove.metrics.base import Rankings
from rankgrove.model.base import PLAN, ScoringModel
from rankgrove.model.model import Model, prefix_scores
from rankgrove.objectives.base import Floats, Forces, Objective
from rankgrove.objectives.function import AbsentObjective
from rankgrove.objectives.registry import OBJECTIVES, make_objective, objective_from_json
from rankgrove.rules import is_auto, options_of

# An objective: its name, itself, or a function as `FunctionObjective` takes it.
ObjectiveLike = str | Objective | Callable[..., Any]

_SAY = f"say which forces are meant with {parameter('objective')}"


@dataclass(frozen=True, eq=False, repr=False)
class ForceField:
    """What an objective pushes the documents of queries by. Immutable.

    Attributes
    ----------
    objective
        What pushes.
    scores
        Where the documents are: one score per document.
    forces
        Minus the derivative of the cost by each score: positive pushes up. Weights of queries and
        documents are in it.
    curvatures
        The second derivative that goes with it, 0 or more.
    labels
        One per document.
    ranks
        One per document, from 1, within its query; of equal scores the earlier row comes first.
    offsets, query_ids
        The documents of query q are rows `offsets[q]:offsets[q + 1]`; one id per query.
    document_ids
        One per document, or None.
    tree
        The tree that these forces are for, from 0: the scores are those of the trees before it.
        None where no model has given the scores, or one without trees.
    """

    objective: Objective
    scores: Floats
    forces: Floats
    curvatures: Floats
    labels: NDArray[np.float32]
    ranks: NDArray[np.int64]
    offsets: NDArray[np.int64]
    query_ids: NDArray[Any]
    document_ids: NDArray[Any] | None = None
    tree: int | None = None
    _places: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for array in (self.scores, self.forces, self.curvatures, self.ranks):
            array.flags.writeable = False

    @property
    def n_documents(self) -> int:
        return len(self.scores)

    @property
    def n_queries(self) -> int:
        return len(self.query_ids)

    def of_query(self, query: Any) -> ForceField:
        """The documents of one query, by its id, or by the text of it."""
        if not self._places:
            self._places.update((str(name), q) for q, name in enumerate(self.query_ids.tolist()))
        at = self._places.get(str(query))
        if at is None:
            raise unknown_query("the query of a ForceField", str(query), list(self._places))
        rows = slice(int(self.offsets[at]), int(self.offsets[at + 1]))
        return ForceField(
            self.objective, self.scores[rows], self.forces[rows], self.curvatures[rows],
            self.labels[rows], self.ranks[rows], self.offsets[at : at + 2] - self.offsets[at],
            self.query_ids[at : at + 1],
            None if self.document_ids is None else self.document_ids[rows], self.tree,
        )  # fmt: skip

    def rows_by_rank(self) -> NDArray[np.int64]:
        """All rows, query by query, each in the order of its ranks."""
        starts = np.repeat(self.offsets[:-1], np.diff(self.offsets))
        rows = np.empty(self.n_documents, np.int64)
        rows[starts + self.ranks - 1] = np.arange(self.n_documents)
        return rows

    def __repr__(self) -> str:
        tree = "" if self.tree is None else f" for tree {self.tree}"
        return (
            f"<ForceField: {self.objective.name}{tree}, {self.n_documents} documents, "
            f"{self.n_queries} queries>"
        )


def forces_at(
    data: Documents,
    scores: ArrayLike,
    objective: ObjectiveLike,
    *,
    iteration: int = 0,
    seed: int = 0,
    n_jobs: int | None = None,
) -> ForceField:
    """The forces of an objective on documents that have these scores; no model is needed.

    Parameters
    ----------
    data
        Judged documents; weights of queries and documents count.
    scores
        One per document, finite.
    objective
        A name out of `rankgrove objectives`, an objective with parameters of its own, or a function
        as training takes it.
    iteration, seed
        Of objectives that draw noise: what training by this seed draws for the tree of this number,
        from 0.
    n_jobs
        Threads; the forces have the same bits for any number.

    Examples
    --------
    >>> from rankgrove import Dataset, forces_at
    >>> data = Dataset.from_arrays([[0.0]] * 3, [0, 0, 1], group=[3])
    >>> forces_at(data, [0.3, 0.2, 0.1], "rankmart").forces.round(2).tolist()
    [-0.55, -0.52, 1.07]
    """
    return _Prepared(data, make_objective(objective), seed, n_jobs).at(
        scores, whole_number("iteration", iteration, 0)
    )


def forces_of(
    model: ScoringModel,
    data: Documents,
    tree: int | None = None,
    objective: ObjectiveLike | None = None,
    n_jobs: int | None = None,
) -> ForceField:
    """As `ScoringModel.forces`."""
    check_documents(data)
    source = _Source.of(model, objective)
    if tree is not None and not source.has_trees:
        raise refusal("tree", f"be left out for {model.noun}, which has none", tree)
    number = source.number(tree)
    scores = model.predict(data, n_trees=number, n_jobs=n_jobs)
    return source.prepare(data, n_jobs).at_tree(source, scores, number)


def forces_over_trees(
    model: Any,
    data: Documents,
    trees: Sequence[int] | None = None,
    objective: ObjectiveLike | None = None,
    *,
    n_jobs: int | None = None,
) -> Iterator[ForceField]:
    """The forces through training: for each of these trees, those that it was fitted to.

    Each tree is gone through once, so that many cost little more than the last.

    Parameters
    ----------
    model
        A `Model` of trees, or an estimator fitted with one.
    data, objective, n_jobs
        As for `Model.forces`.
    trees
        Rising numbers, from 0 to the number of trees, which stands for a further one; all by
        default.

    Examples
    --------
    >>> from rankgrove import Ranker, forces_over_trees, make_web_search
    >>> data = make_web_search(20, 16, mean_documents=8)
    >>> ranker = Ranker(objective="lambdamart", n_estimators=4).fit(data)
    >>> [forces.tree for forces in forces_over_trees(ranker, data, [0, 2, 4])]
    [0, 2, 4]
    """
    of_trees = trees_of(model)
    check_documents(data)
    numbers = tree_numbers(of_trees, trees)
    source = _Source.of(of_trees, objective)
    prepared = source.prepare(data, n_jobs)
    scores = prefix_scores(of_trees, data, numbers, n_jobs)
    return (
        prepared.at_tree(source, part, number) for number, part in zip(numbers, scores, strict=True)
    )


def training_objective(model: ScoringModel) -> Objective:
    """What a model was trained by, with its parameters; refused where a file cannot say it."""
    noted = model.notes.get(PLAN)
    values = noted if isinstance(noted, Mapping) else model.parameters
    told = values.get("objective")
    if isinstance(told, Mapping):
        objective = objective_from_json(told)
        if isinstance(objective, AbsentObjective):
            raise refusal(
                "objective", "be given again for a model whose file has its name only",
                str(told.get("function", told.get("name"))),
                advice=f"pass {parameter('objective')}, the function or value of that name",
            )  # fmt: skip
        return objective
    name = model._forces_name(told)
    if name not in OBJECTIVES:
        got = "none" if told is None else repr(told)
        raise refusal(
            "objective", "be given for a model that does not say by which it was trained",
            got=got, advice=_SAY,
        )  # fmt: skip
    own = {
        option: values[option]
        for option in options_of(OBJECTIVES[name])
        if option in values and not is_auto(values[option])
    }
    if str(own.get("metric", "")).startswith("custom("):
        raise refusal(
            "objective", "be given again for a model that was trained by a function as metric",
            got=own["metric"], advice=_SAY,
        )  # fmt: skip
    return make_objective(name, **own)


def _has_trained(model: ScoringModel, objective: Objective) -> bool:
    try:
        return training_objective(model) == objective
    except ParameterError:
        return False


def trees_of(model: Any) -> Model:
    """The model of trees that this is, or that it was fitted with; anything else is refused."""
    found = getattr(model, "model_", model)
    if not isinstance(found, Model):
        got = found.noun if isinstance(found, ScoringModel) else type(found).__name__
        raise refusal("model", "be one of trees, or a ranker fitted with one", got=got)
    return found


def tree_numbers(model: Model, trees: Sequence[int] | None) -> list[int]:
    """Numbers of trees that rise, from 0 to that of all; every one by default."""
    if trees is None:
        return list(range(model.n_trees + 1))
    numbers = [whole_number("a number in trees", number, 0, model.n_trees) for number in trees]
    if not numbers or sorted(set(numbers)) != numbers:
        raise refusal("trees", "be numbers that rise, at least one", got=str(numbers))
    return numbers


@dataclass(frozen=True)
class _Source:
    """Whose forces, and by which seed; `starts` if a first tree starts from the objective's own."""

    objective: Objective
    seed: int
    n_trees: int
    n_base_trees: int
    has_trees: bool
    starts: bool

    @classmethod
    def of(cls, model: ScoringModel, objective: ObjectiveLike | None) -> _Source:
        chosen = training_objective(model) if objective is None else make_objective(objective)
        top = getattr(model, "top", None) or model
        has_trees = isinstance(top, Model)
        n_base = top.n_base_trees if isinstance(top, Model) else 0
        on_nothing = has_trees and n_base == 0 and not top.schema.needs_base_scores
        starts = on_nothing and (objective is None or _has_trained(model, chosen))
        seed = model.parameters.get("random_state", 0)
        return cls(chosen, seed, model.n_trees, n_base, has_trees, starts)

    def number(self, tree: int | None) -> int | None:
        """The number of a tree; that after the last by default, and None where there are none."""
        if not self.has_trees:
            return None
        return self.n_trees if tree is None else int(whole_number("tree", tree, 0, self.n_trees))

    def prepare(self, data: Documents, n_jobs: int | None) -> _Prepared:
        return _Prepared(data, self.objective, self.seed, n_jobs)


class _Prepared:
    """An objective on one data set, for any scores."""

    def __init__(
        self, data: Documents, objective: Objective, seed: int, n_jobs: int | None
    ) -> None:
        check_documents(data)
        self._data, self._objective = data, objective
        self._forces: Forces = objective.prepare(data, n_jobs, seed)
        self._rankings = Rankings.of_data(data, np.zeros(data.n_documents), n_jobs)

    def at(self, scores: ArrayLike, iteration: int, tree: int | None = None) -> ForceField:
        """The forces at these scores."""
        data = self._data
        rankings = self._rankings.with_scores(scores)
        given = rankings.scores.copy()
        if not np.isfinite(given).all():
            row = int((~np.isfinite(given)).argmax())
            raise DataError(f"scores must be finite. Got {given[row]} at row {row}.")
        forces, curvatures = np.empty(len(given)), np.empty(len(given))
        self._forces.compute(given, iteration, forces, curvatures)
        ranks = np.empty(len(given), np.int64)
        starts = np.repeat(data.offsets[:-1], data.group)
        ranks[rankings.order("stable")] = np.arange(len(given)) - starts + 1
        return ForceField(
            self._objective, given, forces, curvatures, data.labels, ranks, data.offsets,
            data.query_ids, data.document_ids, tree,
        )  # fmt: skip

    def at_tree(self, source: _Source, scores: Floats, tree: int | None) -> ForceField:
        """The forces that a tree is fitted to, at the scores of those before it."""
        if tree is None:
            return self.at(scores, 0)
        if tree == 0 and source.starts:
            scores = scores + self._objective.start_score(self._data)
        # Those of a base model are fitted to forces of its own.
        return self.at(scores, max(0, tree - source.n_base_trees), tree)


def check_documents(data: Any) -> None:
    """Refuse data without labels and queries."""
    if not isinstance(data, Documents):
        raise refusal(
            "data", "be a Dataset, for its labels and queries", got=type(data).__name__,
            advice="make one with Dataset.from_arrays or from_frame",
        )  # fmt: skip
