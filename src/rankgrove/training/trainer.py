"""What a run asks of whatever it trains: to take a step, to score, and to make a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rankgrove.boosting.phases import Phases
from rankgrove.data.documents import Documents
from rankgrove.errors import DataError
from rankgrove.training.measures import Floats
from rankgrove.training.network_parameters import FORCES_OF
from rankgrove.training.validation import History, Validation


@dataclass(frozen=True)
class Unit:
    """What training adds one of at a time.

    Attributes
    ----------
    noun
        A tree, an epoch or a member.
    parameter
        The parameter that says how many.
    can_resume
        Whether training can go on from a checkpoint.
    tune_limit, tune_most, tune_rounds
        The argument of `tune` that says how many at most, that limit by default, and after how many
        without a better value a trial ends.
    """

    noun: str
    parameter: str
    can_resume: bool
    tune_limit: str
    tune_most: int
    tune_rounds: int

    @property
    def plural(self) -> str:
        return f"{self.noun}s"

    def count(self, number: int) -> str:
        """So many in words.

        >>> EPOCHS.count(1), TREES.count(1200)
        ('1 epoch', '1,200 trees')
        """
        return f"{number:,} {self.noun if number == 1 else self.plural}"


TREES = Unit("tree", "n_estimators", True, "max_trees", 1000, 100)
EPOCHS = Unit("epoch", "max_epochs", False, "max_epochs", 100, 10)
# Of a model that is the average of several, each trained by a run of its own.
MEMBERS = Unit("member", "members", True, "members", 1, 1)


def unit_of(objective: Any) -> Unit:
    """What an objective trains: trees, or epochs of a network."""
    return EPOCHS if isinstance(objective, str) and objective in FORCES_OF else TREES


class DivergedError(DataError):
    """The scores of a network have become infinite or NaN while it was trained."""


class AnyPlan(Protocol):
    """What training does, with nothing left open."""

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""


class Trainer(Protocol):
    """Adds one step after the other to a model; `Run` decides how many, and measures them.

    Nothing here knows of validation, stopping, callbacks or interrupts. A trainer whose data are
    spread over several processes takes its steps together with its peers, and is one all the same.

    Attributes
    ----------
    unit
        What a step is.
    parameters, plan
        How it is trained, as given and as resolved.
    train, valid
        The data it learns from, and the sets it scores after each step.
    n_steps, most_steps
        How many steps count so far, and how many there are to be.
    is_stuck
        Whether further steps would change nothing.
    phases
        Where the time went.
    """

    unit: Unit
    parameters: Any
    phases: Phases

    @property
    def train(self) -> Documents: ...

    @property
    def valid(self) -> Mapping[str, Documents]: ...

    @property
    def plan(self) -> AnyPlan: ...

    @property
    def n_steps(self) -> int: ...

    @property
    def most_steps(self) -> int: ...

    @property
    def is_stuck(self) -> bool: ...

    def step(self) -> None:
        """Take a step. It does not count yet: an interrupt may still come."""

    def valid_scores(self) -> Mapping[str, Floats]:
        """The scores of each validation set after the last step."""

    def keep(self, validation: Validation) -> None:
        """Count the step in, all of it or nothing; validation has measured it."""

    def undo(self) -> None:
        """Forget a step that an interrupt has cut short."""

    def finish(self) -> None:
        """Let go of what is still under way: the run is over, however it ended."""

    def has_learned(self, n_steps: int) -> bool:
        """Whether the model after so many steps tells any two documents apart."""

    def make_model(self, n_steps: int, history: History) -> Any:
        """The model after so many steps: any number for trees, the last or best for networks."""
