"""One trial of `tune`: its parameters drawn, its model trained on all parts, its record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from rankgrove.boosting.binned import SharedBins
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.documents import Documents
from rankgrove.data.frames import Backend, make_frame
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments import tables
from rankgrove.experiments.checks import naming
from rankgrove.experiments.tune.spaces import Choices, Range, Space, as_drawn, from_drawn
from rankgrove.experiments.tune.studies import NUMBER, import_optuna
from rankgrove.metrics.base import Metric
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.pictures import html
from rankgrove.training.run import Run
from rankgrove.training.starting import start_run
from rankgrove.training.trainer import TREES, DivergedError, Unit, unit_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from rankgrove.training.starting import AnyParameters

State = Literal["complete", "pruned"]

# The best values at some numbers of trees, which pruning looks at.
STEPS = "steps"
# It looks at a trial so many times, at most.
_LOOKS = 20
# And not before this part of its rounds: the first ones say little of what is to come.
_WARM_UP = 10


@dataclass(frozen=True)
class Trial:
    """What came of one choice of parameters.

    Attributes
    ----------
    number
        Its place in the study, from 0.
    state
        `complete`, or `pruned` if it was given up.
    value
        The best value of the metric on validation.
    n_trees, n_grown
        With how many trees, and how many were grown; for a network with how many epochs.
    parameters
        What was drawn.
    drawn_by
        `random`, `tpe` or `gp`.
    seconds
        How long it took.
    """

    number: int
    state: State
    value: float
    n_trees: int
    n_grown: int
    parameters: dict[str, Any]
    drawn_by: str
    seconds: float

    @classmethod
    def from_study(cls, trial: FrozenTrial) -> Trial:
        """The trial that a study keeps."""
        names = (NUMBER, "value", "n_trees", "n_grown", "drawn_by", "seconds")
        noted = {name: trial.user_attrs[name] for name in names}
        state: State = "pruned" if trial.state.name == "PRUNED" else "complete"
        return cls(state=state, parameters=from_drawn(trial.params), **noted)


def best_of(trials: Iterable[Trial]) -> Trial | None:
    """The complete trial of the highest value, the first one if several; None without one."""
    complete = (trial for trial in trials if trial.state == "complete")
    return max(complete, key=lambda trial: trial.value, default=None)


class TrialTable(Sequence[Trial]):
    """The trials in their order. Prints as a table, the best one marked."""

    def __init__(self, trials: Sequence[Trial], unit: Unit = TREES) -> None:
        self._trials, self._unit = list(trials), unit

    @overload
    def __getitem__(self, at: int) -> Trial: ...
    @overload
    def __getitem__(self, at: slice) -> list[Trial]: ...
    def __getitem__(self, at: int | slice) -> Trial | list[Trial]:
        return self._trials[at]

    def __len__(self) -> int:
        return len(self._trials)

    @property
    def best(self) -> Trial:
        """The complete trial of the highest value, the first one if several."""
        best = best_of(self._trials)
        if best is None:
            raise DataError("a study must have a complete trial to have a best one. Got none.")
        return best

    def to_dict(self) -> dict[str, list[Any]]:
        """A column a list; parameters have columns of their own."""
        own = ("number", "state", "value", "n_trees", "n_grown", "drawn_by", "seconds")
        drawn = dict.fromkeys(name for trial in self._trials for name in trial.parameters)
        rows = [{**dict.fromkeys(drawn), **vars(trial), **trial.parameters}
                for trial in self._trials]  # fmt: skip
        return {name: [row[name] for row in rows] for name in (*own, *drawn)}

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """A data frame of pandas, polars or pyarrow with a row per trial."""
        return make_frame(self.to_dict(), backend)

    def to_markdown(self) -> str:
        """A Markdown table."""
        return tables.markdown(*self._cells(), left=())

    def __str__(self) -> str:
        return tables.aligned(*self._cells(), left=())

    def _repr_html_(self) -> str:
        return html.table(*self._cells(), left=())

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        columns = self.to_dict()
        del columns["seconds"], columns["n_grown"]
        best = best_of(self._trials)
        names = {"number": "trial", "n_trees": self._unit.plural, "drawn_by": "drawn by"}
        header = [names.get(name, name) for name in columns]
        rows = [
            [f"{trial.number}{'*' if trial is best else ''}", *(_shown(cell) for cell in cells)]
            for trial, (_, *cells) in zip(self, zip(*columns.values(), strict=True), strict=True)
        ]
        return header, rows


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, eq=False)
class Part:
    """Data to train on with those to validate on, and their bins, which all trials share.

    Attributes
    ----------
    weight
        What the queries that validation counts weigh in all: the part's share in the mean.
    """

    train: Documents
    valid: Documents
    weight: float
    bins: SharedBins


def make_parts(
    train: Documents, valid: Documents | None, folds: int | None, metric: Metric, seed: int
) -> list[Part]:
    """The training data with the validation set, or the folds of the training data."""
    if valid is not None:
        pairs: list[tuple[str, Documents, Documents]] = [("the validation set", train, valid)]
    else:
        found = train.folds(5 if folds is None else folds, seed=seed)
        pairs = [(f"fold {number}", *pair) for number, pair in enumerate(found, start=1)]
    parts = []
    for name, training, held_out in pairs:
        with naming(name):
            # Any scores show which queries count.
            table = measure_dataset(held_out, np.zeros(held_out.n_documents), metric)
        counted = ~np.isnan(table.per_query(str(metric)))
        weight = float(held_out.query_weights[counted].sum())
        parts.append(Part(training, held_out, weight, SharedBins()))
    return parts


def grow(parts: Sequence[Part], parameters: AnyParameters, n_jobs: int | None) -> Iterator[float]:
    """Add tree after tree, or epoch after epoch, to a run on each part.

    After each comes the mean value over all queries. A network whose scores leave all bounds is
    trained no further; if that is its first epoch, it is worth what equal scores are worth.
    """
    runs = [_start(part, parameters, n_jobs) for part in parts]
    is_first = True
    while True:
        try:
            advanced = [run.advance() for run in runs]
        except DivergedError:
            if is_first:
                yield _mean_value(parts, [_value_of_nothing(part, parameters) for part in parts])
            return
        if not any(advanced):
            return
        is_first = False
        yield _mean_value(parts, [run.validation.watched[-1] for run in runs])


def _start(part: Part, parameters: AnyParameters, n_jobs: int | None) -> Run:
    shared = {"shared_bins": part.bins} if isinstance(parameters, Parameters) else {}
    return start_run(part.train, {"valid": part.valid}, parameters, n_jobs=n_jobs, **shared)


def _mean_value(parts: Sequence[Part], values: Sequence[float]) -> float:
    if len(parts) == 1:
        return values[0]
    return float(np.average(values, weights=[part.weight for part in parts]))


def _value_of_nothing(part: Part, parameters: AnyParameters) -> float:
    metric = parameters.metrics()[0]
    return measure_dataset(part.valid, np.zeros(part.valid.n_documents), metric)[str(metric)]


@dataclass(frozen=True)
class Protocol:
    """How trials are drawn and run.

    Attributes
    ----------
    rounds
        Trees or epochs without a better value after which a trial ends, or None.
    """

    base: AnyParameters
    space: Space
    n_random: int
    sampler: str
    prune: bool
    rounds: int | None
    seed: int

    @property
    def unit(self) -> Unit:
        """What a trial adds one of at a time."""
        return unit_of(self.base.objective)

    @property
    def most(self) -> int:
        """The trees or epochs of a trial, at most."""
        most: int = getattr(self.base, self.unit.parameter)
        return most

    def drawn_by(self, number: int) -> str:
        """How a trial is drawn."""
        return "random" if number < self.n_random else self.sampler

    def prunes(self, number: int) -> bool:
        """Whether a trial may be given up: random ones show how much is gained late."""
        return self.prune and number >= max(1, self.n_random)


# Told after each tree or epoch of a trial what it has reached: their number, the best value so far.
Watch = Callable[[int, float], None]


def run_trial(
    protocol: Protocol,
    finished: Sequence[FrozenTrial],
    parts: Sequence[Part],
    watch: Watch,
    n_jobs: int | None = None,
) -> FrozenTrial:
    """The next trial, finished. It depends on the protocol, the data and the trials before only."""
    optuna = import_optuna()
    start = time.perf_counter()
    number, most = len(finished), protocol.most
    trial = draw_next(protocol, finished)
    parameters = _with_drawn(protocol.base, from_drawn(trial.params), number)
    every = max(1, most // _LOOKS)
    best, at, n_grown, steps, pruned = -np.inf, 0, 0, {}, False
    for value in grow(parts, parameters, n_jobs):
        n_grown += 1
        if value > best:
            best, at = value, n_grown
        watch(n_grown, best)
        if n_grown % every == 0:
            steps[n_grown] = best
            late = n_grown >= most // _WARM_UP and protocol.prunes(number)
            pruned = late and is_hopeless(n_grown, best, finished)
        if pruned or (protocol.rounds is not None and n_grown - at >= protocol.rounds):
            break
    states = optuna.trial.TrialState
    made: FrozenTrial = optuna.trial.create_trial(
        state=states.PRUNED if pruned else states.COMPLETE,
        value=best,
        params=trial.params,
        distributions=trial.distributions,
        # The sampler looks at the last one only, and each is a row to write.
        intermediate_values=dict(list(steps.items())[-1:]),
        user_attrs={
            NUMBER: number, "drawn_by": protocol.drawn_by(number), "value": float(best),
            "n_trees": at, "n_grown": n_grown, "seconds": time.perf_counter() - start,
            STEPS: [list(step) for step in steps.items()],
        },
    )  # fmt: skip
    return made


def draw_next(protocol: Protocol, finished: Sequence[FrozenTrial]) -> Any:
    """The next trial with its parameters drawn, and nothing run yet.

    Optuna sees a study in memory of the trials before, and nothing of a trial that did not end.
    """
    sampler = make_sampler(protocol, len(finished))
    study = import_optuna().create_study(direction="maximize", sampler=sampler)
    seen = [copy(trial) for trial in finished]
    for trial in seen:
        # Only we look at these, and a study copies all of every trial.
        trial.user_attrs = {}
    study.add_trials(seen)
    return study.ask(distributions(protocol.space))


def is_hopeless(n_trees: int, best: float, finished: Sequence[FrozenTrial]) -> bool:
    """Whether a trial with this best value after so many trees can be given up.

    It can if it would have to gain more from here on than any complete trial has gained from the
    same number of trees on, in order to reach the best of them. A small learning rate gains late,
    so that trials are not judged by what others have reached with as many trees.
    """
    complete = [trial.user_attrs for trial in finished if trial.state.name == "COMPLETE"]
    values = [float(noted["value"]) for noted in complete]
    # A trial that has ended before has nothing to gain.
    gains = [
        value - dict(noted[STEPS]).get(n_trees, value)
        for value, noted in zip(values, complete, strict=True)
    ]
    return bool(complete) and best + max(gains) < max(values)


def _with_drawn(base: AnyParameters, drawn: Mapping[str, Any], number: int) -> AnyParameters:
    try:
        return replace(base, **drawn)
    except ParameterError as error:
        raise ParameterError(
            f"the space must be of parameters that go together. Trial {number} drew some that do "
            f"not: {error}"
        ) from None


def distributions(space: Space) -> dict[str, Any]:
    kinds = import_optuna().distributions

    def made(entry: Range | Choices) -> Any:
        if isinstance(entry, Choices):
            return kinds.CategoricalDistribution([as_drawn(value) for value in entry.values])
        kind = kinds.IntDistribution if entry.whole else kinds.FloatDistribution
        return kind(entry.low, entry.high, log=entry.log)

    return {name: made(entry) for name, entry in space.items()}


def make_sampler(protocol: Protocol, number: int) -> Any:
    """A sampler of this trial's own: what it draws depends on seed, number and trials before."""
    samplers = import_optuna().samplers
    seed = int(np.random.SeedSequence([protocol.seed, number]).generate_state(1)[0])
    sampler = protocol.drawn_by(number)
    if sampler == "random":
        return samplers.RandomSampler(seed=seed)
    if sampler == "gp":
        return samplers.GPSampler(seed=seed, n_startup_trials=0, warn_independent_sampling=False)
    return samplers.TPESampler(seed=seed, n_startup_trials=1, constant_liar=False)
