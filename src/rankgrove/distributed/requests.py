"""What is asked of workers, checked before anything is read; and the run that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from os import PathLike
from typing import Any, Self

from rankgrove.boosting.parameters import Parameters
from rankgrove.distributed.following import FollowedRun, Start, Step
from rankgrove.distributed.tasks import Training
from rankgrove.errors import ParameterError, refusal, unknown_name, whole_number
from rankgrove.estimators.base import Estimator
from rankgrove.model.base import load
from rankgrove.training.checkpoints import gather_callbacks, load_checkpoint
from rankgrove.training.progress import make_progress

# What `Ranker.fit` takes and workers cannot have, each with the reason.
_NOT_HERE = {
    "preferences": "pairs of rows, which are on other workers",
    "eval_set": "arrays, which are on one machine",
    "sample_weight": "an array, which is on one machine; name a column by weight=",
    "base_scores": "an array, which is on one machine; name a column by base_score=",
    "document_weights": "an array, which is on one machine; name a column by document_weight=",
    "group": "the sizes of the queries of one file; give the data query ids",
    "document_ids": "ids that workers do not keep",
    "document_id": "ids that workers do not keep",
}


class Following:
    """What is known of a run so far, and what each new attempt of workers goes on from.

    As a context it ends the display of progress, and keeps the trees that are there at Ctrl-C.
    `dumps` is how functions are sent to workers.
    """

    def __init__(
        self,
        parameters: Parameters,
        valid: Mapping[str, Any],
        dumps: Callable[[Any], bytes],
        *,
        callbacks: Iterable[Any] = (),
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: int = 50,
        resume: Any = None,
        base_model: Any = None,
        max_restarts: int = 3,
        verbose: bool = False,
    ) -> None:
        whole_number("max_restarts", max_restarts, 0)
        self.run: FollowedRun | None = None
        self._parameters, self._verbose = parameters, verbose
        self._callbacks = list(gather_callbacks(callbacks, checkpoint, checkpoint_every))
        self._resume, self._base_model = load_checkpoint(resume), _load_base(base_model)
        if self._resume is not None and self._base_model is not None:
            raise refusal("base_model", "be left out where training goes on", got="both")
        _check_pickles(
            dumps, objective=parameters.objective, metric=parameters.metric,
            base_model=self._base_model,
        )  # fmt: skip
        if parameters.constraints is not None:
            raise refusal("constraints", "be left out on workers", parameters.constraints,
                          advice="train on one machine")  # fmt: skip
        if parameters.early_stopping_rounds is not None and not valid:
            raise refusal(
                "early_stopping_rounds", "have a validation set to watch", got="none",
                advice="give fit a validation set, or early_stopping_rounds=None",
            )  # fmt: skip

    def make_task(self) -> Training:
        """Training from the trees so far; all over where scores cannot be had back from trees."""
        resume = self._resume
        if self.run is not None and self.run.n_steps > 0 and not self._parameters.shrink_rate:
            resume = self.run.checkpoint()
        return Training(self._parameters, resume, self._base_model)

    def told(self, news: Start | Step) -> bool:
        """Take what the first worker tells; whether to stop."""
        if isinstance(news, Start):
            if self.run is None:
                self.run = FollowedRun(news, self._parameters)
            return False
        return self.run is not None and self.run.take(news, self._callbacks)

    def words(self) -> str:
        """How far it is, for messages."""
        n_steps = 0 if self.run is None else self.run.n_steps
        return f"after tree {n_steps}" if n_steps else "before the first tree"

    def finished(self) -> FollowedRun:
        """The run, at its end."""
        if self.run is None:
            raise ParameterError("workers must tell of a run. Got an end without a start.")
        return self.run

    def __enter__(self) -> Self:
        self._progress = make_progress() if self._verbose else None
        if self._progress is not None:
            self._callbacks.append(self._progress.__enter__())
        return self

    def __exit__(self, error_type: Any, *_: object) -> bool:
        if self._progress is not None:
            self._progress.__exit__()
        keep = error_type is KeyboardInterrupt and self.run is not None and self.run.n_steps > 0
        if keep and self.run is not None:
            self.run.interrupted = True
        return keep


def check_reading(reading: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The options of reading; what cannot be done over workers is refused, and why."""
    options = {name: value for name, value in reading.items() if value is not None}
    for name in options:
        if name in _NOT_HERE:
            raise refusal(name, f"be left out over workers: it is {_NOT_HERE[name]}", got="it")
        if name not in known:
            raise unknown_name("an option of reading", name, known)
    return options


def named_sets(valid: Any, is_frame: Callable[[Any], bool]) -> dict[str, Any]:
    """Validation sets by name, as `Ranker.fit` names them."""
    if valid is None:
        return {}
    if isinstance(valid, Mapping):
        if "" in valid:
            raise refusal("valid", "have names that are not empty", got="one")
        return dict(valid)
    frames = list(valid) if isinstance(valid, (list, tuple)) else []
    if len(frames) > 1 and all(is_frame(each) for each in frames):
        return {f"valid_{number}": each for number, each in enumerate(frames, start=1)}
    return {"valid": frames[0] if len(frames) == 1 and is_frame(frames[0]) else valid}


def _check_pickles(dumps: Callable[[Any], bytes], **values: Any) -> None:
    """Refuse functions that cannot be sent to workers, before anything is read."""
    for name, value in values.items():
        try:
            dumps(value)
        except Exception as error:
            raise refusal(
                name, "be something that can be sent to workers", got=f"{error}"
            ) from None


def _load_base(base_model: Any) -> Any:
    if isinstance(base_model, Estimator):
        return base_model._fitted()
    return load(base_model) if isinstance(base_model, (str, PathLike)) else base_model
