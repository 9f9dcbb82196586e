"""Whether a trained model is at a local maximum of a metric: a one-sided Monte Carlo test.

Burges 2010, section 4.2: move the weights of the model a little in random directions. If the metric
rises in a share p of all directions, n of them miss every such direction with a chance of
(1 - p)^n. So n >= log(delta) / log(1 - p0) directions none of which rises say, with confidence
1 - delta, that p is at most p0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove._jit import as_input, kernel, run_chunks
from rankgrove.data.dataset import Dataset, as_floats
from rankgrove.data.matrix import features_of
from rankgrove.data.sparse_features import Features
from rankgrove.errors import DataError, is_number, refusal, whole_number
from rankgrove.experiments.checks import check_dataset, check_share
from rankgrove.experiments.combine.curve import Curve
from rankgrove.metrics.base import Floats, Metric
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.metrics.spec import parse_metric
from rankgrove.model.model import Model
from rankgrove.pictures.chart import Axis, Chart, Line, Mark, Panel, Rule
from rankgrove.pictures.display import Picture
from rankgrove.trees.ensemble import Ensemble
from rankgrove.trees.predict import PreparedEnsemble

# A mean over queries that is this much higher has risen, and is not only rounded otherwise.
_ROUNDING = 1e-12
# Leaf numbers are kept in two bytes.
_MOST_LEAVES = 1 << 16
# Directions that are followed together, so that a leaf is looked up once for all of them.
_DIRECTIONS = 16
_CHUNK_DOCUMENTS = 1 << 12


@kernel
def add_moves(leaves, first_leaf, moves, first, last, out):
    """For some documents and a block of directions: what the moves of their leaves add up to.

    `leaves` has a row per tree; `moves` a row per leaf of all trees, with an entry per direction.
    """
    for tree in range(len(leaves)):
        start = first_leaf[tree]
        for row in range(first, last):
            move = moves[start + np.int64(leaves[tree, row])]
            for direction in range(len(move)):
                out[row, direction] += move[direction]


@dataclass(frozen=True)
class Optimality:
    """What the test found. Prints as a sentence or two.

    Attributes
    ----------
    metric, value
        The metric, and the value of the model as it is.
    n_directions
        How many random directions were tried: log(delta) / log(1 - p0), rounded up.
    delta, p0
        As given.
    step, seed
        As given.
    values
        The value after the step in each direction.
    """

    metric: Metric
    value: float
    n_directions: int
    delta: float
    p0: float
    step: float
    seed: int
    values: Floats = field(repr=False)
    _lines: Any = field(repr=False, compare=False)

    @property
    def n_rising(self) -> int:
        """In how many directions the metric rose by more than rounding."""
        rounding = _ROUNDING * max(1.0, abs(self.value))
        return int(np.count_nonzero(self.values > self.value + rounding))

    @property
    def share_rising(self) -> float:
        return self.n_rising / self.n_directions

    @property
    def largest_rise(self) -> float:
        """The most that the metric rose in a direction; 0 if it rose in none."""
        return max(0.0, float(self.values.max()) - self.value) if self.n_rising else 0.0

    @property
    def is_local_maximum(self) -> bool:
        """Whether no direction raised the metric."""
        return self.n_rising == 0

    @property
    def share_bound(self) -> float:
        """With confidence 1 - delta, the share of all directions that raise it is at most this.

        Exact for the number that rose among those tried (Clopper and Pearson 1934); at most p0 if
        none did.
        """
        if self.n_rising == 0:
            return float(1.0 - self.delta ** (1.0 / self.n_directions))
        if self.n_rising == self.n_directions:
            return 1.0
        from scipy.stats import beta  # noqa: PLC0415 (0.5 s that only this needs)

        rising, n = self.n_rising, self.n_directions
        return float(beta.ppf(1.0 - self.delta, rising + 1, n - rising))

    def along(self, direction: int | ArrayLike, steps: ArrayLike | None = None) -> Curve:
        """The metric along one direction, through the model in the middle.

        Parameters
        ----------
        direction
            The number of a direction that was tried, from 0, or a vector with a number a weight.
        steps
            How far to go; by default 41 steps, up to 4 times as far as the test went either way.
        """
        if steps is None:
            steps = np.linspace(-4.0, 4.0, 41) * self.step
        at = as_floats(steps, "steps", np.float64)
        if not np.isfinite(at).all() or np.any(np.diff(at) <= 0):
            raise refusal("steps", "be finite and rise", got="others")
        lines = self._lines
        if isinstance(direction, (int, np.integer)) and not isinstance(direction, bool):
            number = whole_number("direction", direction, 0, self.n_directions - 1)
            vector = lines.direction(self.seed, number)
        else:
            vector = as_floats(direction, "direction", np.float64)
            if vector.shape != (lines.n_weights,) or not np.isfinite(vector).all():
                rule = f"be a finite number per weight, {lines.n_weights}"
                raise refusal("direction", rule, got="others")
        values = lines.measure(self.metric, [step * vector for step in at])
        return Curve(at, values, ("step", str(self.metric)), mark=0.0)

    def along_weight(self, weight: int, steps: ArrayLike | None = None) -> Curve:
        """The metric along one single weight, all others as they are.

        A step of 1 moves the weight by its scale, as the test's directions do on average.
        """
        lines = self._lines
        vector = np.zeros(lines.n_weights)
        number = whole_number("weight", weight, 0, lines.n_weights - 1)
        vector[number] = np.broadcast_to(lines.scale, lines.n_weights)[number]
        if not vector.any():
            raise refusal("weight", "be one that can move", got=f"{weight}, the only leaf")
        return self.along(vector, steps)

    def plot(
        self, weights: int | Sequence[int] = 6, steps: ArrayLike | None = None, *, ax: Any = None
    ) -> Picture:
        """The metric along single weights, as Burges (2010, section 4.2) looks at a network.

        Parameters
        ----------
        weights
            The numbers of weights, from 0; or how many to take, spread over all of them.
        steps
            As for `along`.
        ax
            Axes of matplotlib to draw into, one for each weight.
        """
        lines = self._lines
        if isinstance(weights, Sequence):
            chosen = [int(weight) for weight in weights]
        else:
            most = whole_number("weights", weights, 1)
            moving = np.flatnonzero(np.broadcast_to(lines.scale, lines.n_weights))
            places = np.linspace(0, len(moving) - 1, min(most, len(moving))).astype(int)
            chosen = moving[places].tolist()
        if not chosen:
            raise refusal("weights", "be at least one", got="none")
        panels = []
        for weight in chosen:
            curve = self.along_weight(weight, steps)
            marks: list[Mark] = [Rule(0.0), Rule(self.value, upright=False),
                     Line(curve.x.tolist(), curve.values.tolist())]  # fmt: skip
            title = f"weight {weight} of {lines.n_weights:,}"
            panels.append(Panel(title, Axis("step"), marks=marks, width=220, height=130))
        note = f"{self.metric} when one weight moves and all others stay"
        return Picture(Chart(panels, "The metric along single weights", note)).drawn_into(ax)

    def __str__(self) -> str:
        if self.is_local_maximum:
            found = (
                f"none of {self.n_directions} random directions: no sign that the model is not at "
                f"a local maximum"
            )
        else:
            found = (
                f"{self.n_rising} of {self.n_directions} random directions, by up to "
                f"{self.largest_rise:.2g}: the model is not at a local maximum"
            )
        return (
            f"{self.metric} = {self.value:.6f} rises in {found}. With confidence "
            f"{100 * (1 - self.delta):g} %, it rises in at most {100 * self.share_bound:.2g} % of "
            f"all directions."
        )


def is_local_maximum(
    model: Any,
    data: Dataset,
    metric: str | Metric = "ndcg@10",
    *,
    delta: float = 0.01,
    p0: float = 0.01,
    step: float = 0.3,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Optimality:
    r"""Test whether a trained model is at a local maximum of a metric.

    Each of :math:`n = \lceil \log\delta / \log(1 - p_0) \rceil` directions is a draw from a normal
    distribution, one number a weight. The weights of trees are the values of their leaves; leaf l
    of tree t moves by ``step`` times the spread (standard deviation) of the leaf values of t times
    its number. Other weights move by ``step`` times their root mean square.

    A mean of a ranking metric is a step function of the weights, so the step says at which scale
    one looks: too small a step finds single trades of ranks and no slope.

    Parameters
    ----------
    model
        A model of trees or a network, or a fitted estimator; or, for any other, its weights and a
        function that gives the scores of the data for such weights.
    data
        Judged documents: those that the model was trained on, as it is their maximum that training
        looks for.
    metric
        A name or a metric.
    delta
        One minus the confidence, between 0 and 1.
    p0
        The share of rising directions that may stay unseen, between 0 and 1.
    step
        How far to move, above 0.
    seed
        Which directions.
    n_jobs
        Threads; the result has the same bits for any number.
    progress
        Is called now and then with the number of directions that were tried, and of all.

    Examples
    --------
    >>> data = Dataset.from_arrays([[1.0, 0.0], [0.0, 1.0]], [1, 0], qid=[1, 1])
    >>> right, wrong = (
    ...     is_local_maximum((weights, lambda w: data.features @ w), data, "mrr")
    ...     for weights in ([1.0, 0.0], [0.9, 1.0])
    ... )
    >>> right.n_directions, right.is_local_maximum
    (459, True)
    >>> wrong.value, wrong.is_local_maximum, wrong.largest_rise
    (0.5, False, 0.5)
    """
    check_dataset("data", data)
    for name, share in (("delta", delta), ("p0", p0)):
        check_share(name, share, "be a number between 0 and 1")
    if not is_number(step) or not 0 < step < math.inf:
        raise refusal("step", "be a number above 0", step)
    seed = whole_number("seed", seed, 0)
    chosen = parse_metric(metric)
    lines: _Lines
    model = getattr(model, "model_", model)
    if hasattr(model, "weights_and_scorer"):
        model = model.weights_and_scorer(data)
    if isinstance(model, Model):
        lines = _TreeLines(model, data, n_jobs)
    elif isinstance(model, tuple) and len(model) == 2 and callable(model[1]):
        lines = _WeightLines(model[0], model[1], data, n_jobs)
    else:
        rule = "be a Model, or weights and a function from weights to scores"
        raise refusal("model", rule, got=type(model).__name__)
    n_directions = directions_needed(delta, p0)
    value = float(lines.measure(chosen, [np.zeros(lines.n_weights)])[0])
    values = np.empty(n_directions)
    for first in range(0, n_directions, _DIRECTIONS):
        numbers = range(first, min(first + _DIRECTIONS, n_directions))
        moves = [step * lines.direction(seed, number) for number in numbers]
        values[first : first + len(moves)] = lines.measure(chosen, moves)
        if progress is not None:
            progress(first + len(moves), n_directions)
    return Optimality(
        chosen, value, n_directions, float(delta), float(p0), float(step), seed, values, lines
    )


def directions_needed(delta: float, p0: float) -> int:
    """The least n for which (1 - p0)^n is at most delta.

    >>> directions_needed(0.01, 0.01)
    459
    """
    return max(1, math.ceil(math.log(delta) / math.log1p(-p0)))


class _Lines(ABC):
    """The data and what a model scores on them when its weights move."""

    def __init__(
        self, data: Dataset, n_jobs: int | None, n_weights: int, scale: float | Floats
    ) -> None:
        self._data, self._n_jobs, self.n_weights, self.scale = data, n_jobs, n_weights, scale

    def direction(self, seed: int, number: int) -> Floats:
        """A random direction, in which a step of 1 moves each weight by its scale."""
        normal = np.random.default_rng([seed, number]).standard_normal(self.n_weights)
        return np.asarray(self.scale * normal)

    def measure(self, metric: Metric, moves: Sequence[Floats]) -> Floats:
        """The metric after each move of the weights."""
        tables = (measure_dataset(self._data, scores, metric, n_jobs=self._n_jobs)
                  for scores in self._scores_after(moves))  # fmt: skip
        return np.array([table[str(metric)] for table in tables])

    @abstractmethod
    def _scores_after(self, moves: Sequence[Floats]) -> Iterator[ArrayLike]:
        """The scores of all documents after each move."""


class _WeightLines(_Lines):
    """Any model by its weights; their scale is their typical size."""

    def __init__(
        self, weights: ArrayLike, function: Callable[[Floats], ArrayLike], data: Dataset,
        n_jobs: int | None,
    ) -> None:  # fmt: skip
        self._weights, self._function = as_floats(weights, "weights", np.float64), function
        if not np.isfinite(self._weights).all() or not self._weights.any():
            raise DataError("weights must be finite and not all 0. Got others.")
        scale = math.sqrt(float(np.mean(self._weights**2)))
        super().__init__(data, n_jobs, len(self._weights), scale)

    def _scores_after(self, moves: Sequence[Floats]) -> Iterator[ArrayLike]:
        return (self._function(self._weights + move) for move in moves)


class _TreeLines(_Lines):
    """A model of trees by the values of its leaves; their scale is the spread of their tree."""

    def __init__(self, model: Model, data: Dataset, n_jobs: int | None) -> None:
        ensemble = model.ensemble
        if ensemble.n_trees == 0 or not len(ensemble.feature):
            raise DataError(f"a model must have leaves to move. Got {model!r}.")
        encoded = model.schema.encode(features_of(data, model.feature_names, model.schema.levels))
        self._scores = model.predict(data, n_jobs=n_jobs)
        self._leaves = _leaves_of(ensemble, encoded, n_jobs)
        starts = ensemble.split_offsets[:-1] + np.arange(ensemble.n_trees)
        self._first_leaf = as_input(starts, np.int64)
        n_weights = len(ensemble.value)
        sizes = np.diff(np.append(starts, n_weights))
        spreads = [float(np.std(ensemble.tree(t).value)) for t in range(ensemble.n_trees)]
        super().__init__(data, n_jobs, n_weights, np.repeat(spreads, sizes))

    def _scores_after(self, moves: Sequence[Floats]) -> Iterator[ArrayLike]:
        for first in range(0, len(moves), _DIRECTIONS):
            block = moves[first : first + _DIRECTIONS]
            for change in self._changes(block).T[: len(block)]:
                yield self._scores + change

    def _changes(self, moves: Sequence[Floats]) -> Floats:
        """What moves of the leaves add to the score of each document, a column per move."""
        n_rows = self._leaves.shape[1]
        # Always as many columns, so that each sum is made alike; those without a move are 0.
        columns = np.zeros((self.n_weights, _DIRECTIONS))
        columns[:, : len(moves)] = np.transpose(moves)
        moved = as_input(columns, np.float64)
        out = np.zeros((n_rows, _DIRECTIONS))

        def task(chunk: int) -> None:
            first = chunk * _CHUNK_DOCUMENTS
            last = min(first + _CHUNK_DOCUMENTS, n_rows)
            add_moves(self._leaves, self._first_leaf, moved, first, last, out)

        run_chunks(task, -(-n_rows // _CHUNK_DOCUMENTS), self._n_jobs)
        return out


def _leaves_of(ensemble: Ensemble, encoded: Features, n_jobs: int | None) -> NDArray[np.uint16]:
    """The leaf of each document in each tree, a row per tree: each tree scores by leaf numbers."""
    leaves = np.empty((ensemble.n_trees, len(encoded)), np.uint16)
    for number in range(ensemble.n_trees):
        tree = ensemble.tree(number)
        if tree.n_leaves > _MOST_LEAVES:
            raise DataError(
                f"trees must have at most {_MOST_LEAVES:,} leaves here. Got {tree.n_leaves:,}."
            )
        numbered = replace(tree, value=np.arange(tree.n_leaves, dtype=np.float64))
        tree_alone = PreparedEnsemble(Ensemble.from_trees([numbered]))
        leaves[number] = tree_alone.score(encoded, n_jobs=n_jobs)
    return as_input(leaves, np.uint16)
