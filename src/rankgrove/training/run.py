"""One training run, whatever it trains: steps, validation, stopping, callbacks, Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

from rankgrove.training.progress import categories_text, make_progress
from rankgrove.training.trainer import Trainer, Unit
from rankgrove.training.validation import History, Validation

# Called after each tree or epoch; training stops if one returns True.
Callback = Callable[["Run"], "bool | None"]


class Run:
    """A training run, which callbacks are given after each step.

    A step is a tree or, of a network, an epoch.

    Attributes
    ----------
    trainer
        What takes the steps; it has the data, and what has been learned so far.
    parameters
        How the model is trained.
    validation
        What was measured: `watched`, the values that decide, `best`, the number of steps with the
        best of them, and `should_stop`.
    interrupted
        Whether Ctrl-C ended it.
    title
        What stands before its progress: which of several runs it is.
    """

    def __init__(self, trainer: Trainer, validation: Validation) -> None:
        self.trainer, self.validation = trainer, validation
        self.parameters = trainer.parameters
        self.interrupted = False
        self.title = ""

    @property
    def unit(self) -> Unit:
        """What a step is: a tree or an epoch."""
        return self.trainer.unit

    @property
    def n_steps(self) -> int:
        """How many steps are done, besides those of a base model."""
        return self.trainer.n_steps

    @property
    def most_steps(self) -> int:
        """How many there are to be, at most."""
        return self.trainer.most_steps

    @property
    def history(self) -> History:
        """For each validation set, for each measure, its value after each step."""
        return self.validation.history

    @property
    def trees(self) -> list[Any]:
        """The trees so far, besides those of a base model; a network has none."""
        trees: list[Any] = self.trainer.trees  # type: ignore[attr-defined]
        return trees

    @property
    def scores(self) -> Any:
        """What the trees so far give the training documents; a network does not keep it."""
        return self.trainer.scores  # type: ignore[attr-defined]

    @property
    def is_over(self) -> bool:
        """Whether there are enough steps, validation says stop, or nothing is left to learn."""
        enough = self.n_steps >= self.most_steps
        return enough or self.trainer.is_stuck or self.validation.should_stop

    def advance(self) -> bool:
        """Take one step more, measure it and count it in; False if the run is over."""
        if self.is_over:
            return False
        self.trainer.step()
        with self.trainer.phases.measured("validation"):
            self.validation.measure(self.trainer.valid_scores())
        # Ctrl-C finds all of a step or none of it.
        self.trainer.keep(self.validation)
        return True

    def run(self, callbacks: Iterable[Callback] = (), *, verbose: bool = False) -> Run:
        """Take steps until the run is over, a callback says stop, or Ctrl-C."""
        called = list(callbacks)
        try:
            with make_progress() if verbose else nullcontext() as progress:
                if progress is not None:
                    called.append(progress)
                    progress.say(categories_text(self.trainer.train, self.parameters))
                while self.advance():
                    answers = [callback(self) for callback in called]
                    if any(answers):
                        break
        except KeyboardInterrupt:
            self.interrupted = True
            self.validation.cut(self.n_steps)
            self.trainer.undo()
        finally:
            self.trainer.finish()
        return self

    def kept_steps(self) -> int:
        """How many steps the model keeps: up to the best one if training may stop early.

        With constraints it is the best one that meets them, always.
        """
        is_free = self.validation.constraints is None and not self.validation.may_stop
        if is_free or not self.validation.watched:
            return self.n_steps
        return self.validation.best

    @property
    def has_learned(self) -> bool:
        """Whether the model that is kept tells any two documents apart."""
        return self.trainer.has_learned(self.kept_steps())

    @property
    def problem(self) -> str:
        """What is to be said of constraints that the model that is kept does not meet, or ""."""
        return self.validation.problem(self.kept_steps())

    def make_model(self, n_steps: int | None = None) -> Any:
        """The model of the first steps; by default of those that are kept."""
        chosen = self.kept_steps() if n_steps is None else n_steps
        return self.trainer.make_model(chosen, self.history)
