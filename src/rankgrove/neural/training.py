"""Training a network: batches of queries, forces on their documents, one backward pass, again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rankgrove._jit import resolve_n_jobs
from rankgrove.boosting.history import History, Validation
from rankgrove.data.dataset import Dataset
from rankgrove.data.preferences import Preferences
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.base import load
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.neural.loss import Batches
from rankgrove.neural.model import N_EPOCHS, NetworkModel
from rankgrove.neural.networks import (
    build_network,
    forward,
    one_thread,
    own_module,
    score_chunks,
)
from rankgrove.neural.transform import Transform
from rankgrove.training.network_parameters import NetworkParameters
from rankgrove.training.progress import Progress
from rankgrove.training.trees import scores_by

Floats = NDArray[np.float64]
State = dict[str, Tensor]

# Called after each epoch; training stops if one returns True.
Callback = Callable[["NetworkTraining"], "bool | None"]


class DivergedError(DataError):
    """The scores of a network have become infinite or NaN while it was trained."""


class NetworkTraining:
    """A training run of a network.

    Attributes
    ----------
    n_epochs
        How many are done.
    validation
        What validation measured after each of them.
    module
        The network as it is now.
    interrupted
        Whether Ctrl-C ended it.
    has_pushed
        Whether any document has had a force.
    """

    def __init__(
        self,
        train: Dataset,
        valid: Mapping[str, Dataset],
        parameters: NetworkParameters,
        *,
        module: Any = None,
        base_model: Any = None,
        preferences: Preferences | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.parameters, self.train, self.valid = parameters, train, dict(valid)
        self.n_jobs = resolve_n_jobs(n_jobs)
        self.n_epochs, self.interrupted, self.has_pushed = 0, False, False
        _check_sets(train, self.valid, parameters)
        self._batches = Batches(
            parameters.make_objective(), train, preferences, seed=parameters.random_state,
            n_jobs=self.n_jobs,
        )  # fmt: skip
        self.base, self._needs_base = _find_base(base_model, train)
        sets = {"": train, **{f"valid {name}": data for name, data in self.valid.items()}}
        starts = {name: _start(base_model, self.base, data) for name, data in sets.items()}
        self.transform = Transform.fit(parameters.transform, train.features, self.n_jobs)
        self._is_own = module is not None
        self._device = _device(parameters.device)
        with _seeded(parameters.random_state, 0):
            self.module = self._make_module(module)
        self._optimiser = self._make_optimiser()
        self._schedule = self._make_schedule()
        self._inputs = self._inputs_of(train).to(self._device)
        self._start = starts.pop("")
        self._valid_inputs = {name: self._inputs_of(data) for name, data in self.valid.items()}
        self._valid_starts = dict(zip(self.valid, starts.values(), strict=True))
        self.validation = Validation(
            self.valid, parameters.metrics(), parameters.early_stopping_rounds, None, self.n_jobs
        )
        self._steps = 0
        self._last = self._best = self._state()

    def _make_module(self, module: Any) -> nn.Module:
        p, n_inputs = self.parameters, self.transform.n_inputs
        if n_inputs == 0:
            raise DataError("a network must have at least one feature. Got none.")
        made = (
            own_module(module, n_inputs)
            if self._is_own
            else build_network(n_inputs, p.hidden, p.activation, p.dropout)
        )
        try:
            made = made.to(self._device)
        except (RuntimeError, AssertionError) as error:
            problem = str(error).partition("\n")[0].rstrip(".")
            raise ParameterError(
                f"device must be one that PyTorch has here. Got {p.device!r}: {problem}."
            ) from None
        if not any(weights.requires_grad for weights in made.parameters()):
            raise ParameterError("module must have weights to train. Got none.")
        return made

    def _make_optimiser(self) -> torch.optim.Optimizer:
        p = self.parameters
        kind = torch.optim.AdamW if p.optimiser == "adam" else torch.optim.SGD
        return kind(self.module.parameters(), lr=p.learning_rate, weight_decay=p.weight_decay)

    def _make_schedule(self) -> Callable[[], None]:
        p = self.parameters
        if p.schedule is None:
            return lambda: None
        if p.schedule == "cosine":
            cosine = torch.optim.lr_scheduler.CosineAnnealingLR(self._optimiser, p.max_epochs)
            return cosine.step
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self._optimiser, mode="max", factor=0.1, patience=5
        )
        return lambda: plateau.step(self.validation.watched[-1])

    def _inputs_of(self, data: Dataset) -> Tensor:
        return torch.from_numpy(self.transform.apply(data.features, self.n_jobs))

    @property
    def history(self) -> History:
        return self.validation.history

    def run(self, callbacks: Sequence[Callback] = ()) -> None:
        """Train until there are enough epochs, validation or a callback says stop, or Ctrl-C."""
        p = self.parameters
        try:
            with one_thread():
                while self.n_epochs < p.max_epochs and not self.validation.should_stop:
                    with _seeded(p.random_state, self.n_epochs + 1):
                        self._epoch()
                    self.validation.measure(self._valid_scores())
                    self._schedule()
                    state, done = self._state(), self.n_epochs + 1
                    gained = bool(self.validation.watched) and self.validation.best == done
                    # Nothing is called in between, so that Ctrl-C finds all of this or none.
                    self._last, self._best = state, state if gained else self._best
                    self.n_epochs = done
                    answers = [callback(self) for callback in callbacks]
                    if any(answers):
                        break
        except KeyboardInterrupt:
            self.interrupted = True
            for curves in self.history.values():
                for values in curves.values():
                    del values[self.n_epochs :]
            self.module.load_state_dict(self._last)

    def _epoch(self) -> None:
        """Go through all queries once, in an order of the epoch's own."""
        p = self.parameters
        order = np.random.default_rng([p.random_state, self.n_epochs]).permutation(
            self._batches.counting
        )
        self.module.train()
        for first in range(0, len(order), p.batch_queries):
            self._step(order[first : first + p.batch_queries])

    def _step(self, queries: NDArray[np.int64]) -> None:
        rows = self._batches.rows(queries)
        inputs = self._inputs[torch.from_numpy(rows).to(self._device)]
        self._optimiser.zero_grad(set_to_none=True)
        scores = forward(self.module, inputs)
        own = scores.detach().to("cpu", torch.float64).numpy()
        if not np.isfinite(own).all():
            raise DivergedError(
                f"scores must stay finite in training. Got others in epoch {self.n_epochs + 1}: "
                f"lower learning_rate, {self.parameters.learning_rate:g}, or scale the features "
                f"with transform='quantile'."
            )
        start = None if self._start is None else self._start[rows]
        forces = self._batches.forces(queries, own if start is None else own + start, self._steps)
        self._steps += 1
        if not forces.any():
            return
        self.has_pushed = True
        scores.backward(torch.from_numpy(forces / -len(queries)).to(scores))
        self._optimiser.step()

    def _valid_scores(self) -> dict[str, Floats]:
        found = {}
        for name, inputs in self._valid_inputs.items():
            scores = score_chunks(
                self.module,
                len(inputs),
                lambda rows, inputs=inputs: inputs[rows],  # type: ignore[misc]
                1 if self._is_own else self.n_jobs,
            )
            if not np.isfinite(scores).all():
                raise DivergedError(
                    f"scores must stay finite in training. Got others for {name!r} after epoch "
                    f"{self.n_epochs + 1}: lower learning_rate."
                )
            start = self._valid_starts[name]
            found[name] = scores if start is None else scores + start
        return found

    def _state(self) -> State:
        """A copy of the weights as they are now."""
        return {name: value.detach().clone() for name, value in self.module.state_dict().items()}

    def kept_epochs(self) -> int:
        """How many epochs the model keeps: up to the best one if training stops early."""
        if self.parameters.early_stopping_rounds is None or not self.validation.watched:
            return self.n_epochs
        return self.validation.best

    def make_model(self) -> NetworkModel:
        """The model of the epochs that are kept."""
        kept = self.kept_epochs()
        with _seeded(self.parameters.random_state, 0):
            module = own_module(self.module, self.transform.n_inputs)
        module.load_state_dict(self._last if kept == self.n_epochs else self._best)
        schema = Schema(self.train.feature_names, {}, self._needs_base)
        return NetworkModel(
            module.cpu().eval(), self.transform, schema, self.parameters.as_json(), self.history,
            self._is_own, self.base, notes={N_EPOCHS: kept},
        )  # fmt: skip


class EpochProgress(Progress):
    """As for trees, by epochs."""

    def __call__(self, training: Any) -> None:
        super().__call__(_AsTrees(training))  # type: ignore[arg-type]

    def _line(self, training: Any, done: int, total: int, now: float) -> str:
        return super()._line(training, done, total, now).replace(" trees", " epochs", 1)


class _AsTrees:
    """A run of epochs as the progress of trees sees one."""

    def __init__(self, training: NetworkTraining) -> None:
        self.trees = range(training.n_epochs)
        self.validation = training.validation
        self.parameters = self
        self.n_estimators = training.parameters.max_epochs
        self.metrics = training.parameters.metrics


@contextmanager
def _seeded(seed: int, number: int) -> Iterator[None]:
    """Within this, PyTorch draws by the seed and a number; what it drew before stays as it was."""
    drawn = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]
    with torch.random.fork_rng():
        torch.manual_seed(int(drawn) >> 1)
        yield


def _device(name: str) -> torch.device:
    try:
        return torch.device(name)
    except RuntimeError:
        raise ParameterError(
            f"device must be a device of PyTorch, as cpu or cuda. Got {name!r}."
        ) from None


def _check_sets(
    train: Dataset, valid: Mapping[str, Dataset], parameters: NetworkParameters
) -> None:
    needs = {
        "early_stopping_rounds": parameters.early_stopping_rounds is not None,
        "schedule": parameters.schedule == "plateau",
    }
    for name, needed in needs.items():
        if needed and not valid:
            value = getattr(parameters, name)
            raise ParameterError(
                f"{name} must have a validation set to watch. Got {value!r} and none: pass valid=, "
                f"or {name}=None."
            )
    for name, data in valid.items():
        if data.feature_names != train.feature_names:
            raise DataError(
                f"validation set {name!r} must have the {train.n_features} features of the "
                f"training data in the same order. Got others."
            )
        if (data.base_scores is None) != (train.base_scores is None):
            raise DataError(
                f"validation set {name!r} and the training data must both have base scores, or "
                f"neither. Got them in one only."
            )


def load_base(base_model: Any) -> Any:
    """A base model as an object: that of a file, or of a fitted estimator."""
    if isinstance(base_model, (str, PathLike)):
        return load(base_model)
    return getattr(base_model, "model_", base_model)


def _find_base(base_model: Any, train: Dataset) -> tuple[Model | None, bool]:
    """The trees to build on, and whether the network needs base scores from outside."""
    if base_model is None:
        return None, train.base_scores is not None
    if isinstance(base_model, Model):
        if base_model.feature_names != train.feature_names:
            raise DataError(
                f"the base model must have the {train.n_features} features of the training data in "
                f"the same order. Got others."
            )
        return base_model, base_model.schema.needs_base_scores
    if not callable(base_model) and not hasattr(base_model, "predict"):
        raise ParameterError(
            f"base_model must be a model, its file or a function of features. Got "
            f"{type(base_model).__name__}."
        )
    if train.base_scores is not None:
        raise DataError("base scores must come from the data or from base_model. Got both.")
    return None, True


def _start(base_model: Any, trees: Model | None, data: Dataset) -> Floats | None:
    """The scores that the network adds to, if any."""
    if base_model is None:
        return data.base_scores
    if trees is not None:
        return trees.predict(data)
    return scores_by(getattr(base_model, "predict", base_model), data)


def train_network(
    train: Dataset,
    valid: Mapping[str, Dataset],
    parameters: NetworkParameters,
    *,
    module: Any = None,
    base_model: Any = None,
    preferences: Preferences | None = None,
    callbacks: Iterable[Callback] = (),
    verbose: bool = False,
    n_jobs: int | None = None,
) -> NetworkTraining:
    """Run a training to its end, or to Ctrl-C; see `RankNet.fit` for what each argument means."""
    if not isinstance(callbacks, Iterable):
        raise ParameterError(f"callbacks must be a list of functions. Got {callbacks!r}.")
    training = NetworkTraining(
        train, valid, parameters, module=module, base_model=load_base(base_model),
        preferences=preferences, n_jobs=n_jobs,
    )  # fmt: skip
    if not verbose:
        training.run(list(callbacks))
        return training
    progress = EpochProgress()
    with progress:
        training.run([*callbacks, progress])
    return training
