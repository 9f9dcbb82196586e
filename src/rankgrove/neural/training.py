"""Training a network: batches of queries, forces on their documents, one backward pass, again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rankgrove._jit import resolve_n_jobs
from rankgrove.boosting.phases import Phases
from rankgrove.data.dataset import Dataset, with_numbers
from rankgrove.data.documents import Documents
from rankgrove.data.preferences import Preferences
from rankgrove.errors import DataError, ParameterError, refusal
from rankgrove.model.base import PLAN
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.neural.loss import Batches
from rankgrove.neural.model import N_EPOCHS, NetworkModel
from rankgrove.neural.networks import (
    PYTORCH_LOCK,
    build_network,
    forward,
    one_thread,
    own_module,
    score_chunks,
)
from rankgrove.neural.transform import Transform
from rankgrove.training.base import apply_base
from rankgrove.training.measures import MetricMeasures
from rankgrove.training.network_parameters import NetworkParameters
from rankgrove.training.run import Run
from rankgrove.training.trainer import EPOCHS, DivergedError
from rankgrove.training.validation import History, Validation, check_sets

Floats = NDArray[np.float64]
State = dict[str, Tensor]


class NetworkTrainer:
    """A network in training: a step is an epoch. What each attribute is, `Trainer` says.

    Attributes
    ----------
    module
        The network as it is now.
    base
        The trees that it is trained on top of, or None.
    """

    unit = EPOCHS
    is_stuck = False

    def __init__(
        self,
        train: Dataset,
        valid: Mapping[str, Dataset],
        parameters: NetworkParameters,
        *,
        module: Any = None,
        base: Model | None = None,
        preferences: Preferences | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.parameters, self.train, self.valid = parameters, train, dict(valid)
        self.plan = parameters.resolve()
        self.base, self.n_jobs, self.phases = base, resolve_n_jobs(n_jobs), Phases()
        self.n_steps, self._has_pushed = 0, False
        self._batches = Batches(
            self.plan.objective, train, preferences, seed=parameters.random_state,
            n_jobs=self.n_jobs,
        )  # fmt: skip
        self._start = self._start_of(train)
        self._valid_starts = {name: self._start_of(data) for name, data in self.valid.items()}
        self.transform = Transform.fit(parameters.transform, train.features, self.n_jobs)
        self._is_own = module is not None
        self._device = _device(parameters.device)
        with _seeded(parameters.random_state, 0):
            self.module = self._make_module(module)
        optimiser = torch.optim.AdamW if parameters.optimiser == "adam" else torch.optim.SGD
        self._optimiser = optimiser(
            self.module.parameters(), lr=parameters.learning_rate,
            weight_decay=parameters.weight_decay,
        )  # fmt: skip
        self._schedule = self._make_schedule()
        self._inputs = self._inputs_of(train).to(self._device)
        self._valid_inputs = {name: self._inputs_of(data) for name, data in self.valid.items()}
        self._n_batches = 0
        self._last = self._best = self._state()

    def _start_of(self, data: Dataset) -> Floats | None:
        """The scores that the network adds to, if any."""
        return data.base_scores if self.base is None else self.base.predict(data)

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
            raise refusal(
                "device", "be one that PyTorch has here", p.device, advice=problem
            ) from None
        if not any(weights.requires_grad for weights in made.parameters()):
            raise ParameterError("module must have weights to train. Got none.")
        return made

    def _make_schedule(self) -> Callable[[Sequence[float]], None]:
        """What changes the learning rate after an epoch, by the values that validation watches."""
        p = self.parameters
        if p.schedule is None:
            return lambda watched: None
        if p.schedule == "cosine":
            cosine = torch.optim.lr_scheduler.CosineAnnealingLR(self._optimiser, p.max_epochs)
            return lambda watched: cosine.step()
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self._optimiser, mode="max", factor=0.1, patience=5
        )
        return lambda watched: plateau.step(watched[-1])

    def _inputs_of(self, data: Dataset) -> Tensor:
        return torch.from_numpy(self.transform.apply(data.features, self.n_jobs))

    @property
    def most_steps(self) -> int:
        """How many epochs there are to be, at most."""
        return self.parameters.max_epochs

    def step(self) -> None:
        """Go through all queries once, in an order of the epoch's own."""
        p = self.parameters
        order = np.random.default_rng([p.random_state, self.n_steps]).permutation(
            self._batches.counting
        )
        self.module.train()
        with one_thread(), _seeded(p.random_state, self.n_steps + 1):
            for first in range(0, len(order), p.batch_queries):
                self._learn(order[first : first + p.batch_queries])

    def keep(self, validation: Validation) -> None:
        """Count the last epoch in, and remember the network if it is the best so far."""
        self._schedule(validation.watched)
        state, n_steps = self._state(), self.n_steps + 1
        gained = bool(validation.watched) and validation.best == n_steps
        # Nothing is called from here on, so that Ctrl-C finds all of this or none.
        self._last, self._best = state, state if gained else self._best
        self.n_steps = n_steps

    def undo(self) -> None:
        """Go back to the network after the last epoch that counts."""
        self.module.load_state_dict(self._last)

    def finish(self) -> None:
        """Nothing is under way between steps."""

    def has_learned(self, n_steps: int) -> bool:
        """Whether any document has had a force."""
        return self._has_pushed

    def _learn(self, queries: NDArray[np.int64]) -> None:
        rows = self._batches.rows(queries)
        inputs = self._inputs[torch.from_numpy(rows).to(self._device)]
        self._optimiser.zero_grad(set_to_none=True)
        scores = forward(self.module, inputs)
        own = scores.detach().to("cpu", torch.float64).numpy()
        if not np.isfinite(own).all():
            raise DivergedError(
                f"scores must stay finite in training. Got others in epoch {self.n_steps + 1}: "
                f"lower learning_rate, {self.parameters.learning_rate:g}, or scale the features "
                f"with transform='quantile'."
            )
        start = None if self._start is None else self._start[rows]
        forces = self._batches.forces(
            queries, own if start is None else own + start, self._n_batches
        )
        self._n_batches += 1
        if not forces.any():
            return
        self._has_pushed = True
        scores.backward(torch.from_numpy(forces / -len(queries)).to(scores))
        self._optimiser.step()

    def valid_scores(self) -> dict[str, Floats]:
        """The scores of each validation set after the last epoch."""
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
                    f"{self.n_steps + 1}: lower learning_rate."
                )
            start = self._valid_starts[name]
            found[name] = scores if start is None else scores + start
        return found

    def _state(self) -> State:
        """A copy of the weights as they are now."""
        return {name: value.detach().clone() for name, value in self.module.state_dict().items()}

    def make_model(self, n_steps: int, history: History) -> NetworkModel:
        """The model after the last epoch, or after the best one."""
        with _seeded(self.parameters.random_state, 0):
            module = own_module(self.module, self.transform.n_inputs)
        module.load_state_dict(self._last if n_steps == self.n_steps else self._best)
        needs_base_scores = (
            self.train.base_scores is not None
            if self.base is None
            else self.base.schema.needs_base_scores
        )
        schema = Schema(self.train.feature_names, {}, needs_base_scores)
        return NetworkModel(
            module.cpu().eval(), self.transform, schema, self.parameters.as_json(), history,
            self._is_own, self.base, notes={N_EPOCHS: n_steps, PLAN: self.plan.as_json()},
        )  # fmt: skip


@contextmanager
def _seeded(seed: int, number: int) -> Iterator[None]:
    """Within this, PyTorch draws by the seed and a number; what it drew before stays as it was."""
    drawn = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]
    with PYTORCH_LOCK, torch.random.fork_rng():
        torch.manual_seed(int(drawn) >> 1)
        yield


def _device(name: str) -> torch.device:
    try:
        return torch.device(name)
    except RuntimeError:
        raise refusal("device", "be a device of PyTorch, as cpu or cuda", name) from None


def start_network(
    train: Documents,
    valid: Mapping[str, Documents],
    parameters: NetworkParameters,
    *,
    base_model: Any = None,
    n_jobs: int | None = None,
    **options: Any,
) -> Run:
    """A run that has done no epoch yet; further options are those of `NetworkTrainer`.

    See `RankNet` for what each argument means.
    """
    base, train, sets = apply_base(base_model, train, valid)
    check_sets(train, sets, parameters)
    rows = with_numbers(train, "a network")
    held_out = {name: with_numbers(data, "a network") for name, data in sets.items()}
    measures = MetricMeasures(parameters.metrics())
    validation = Validation(sets, measures, parameters.early_stopping_rounds, None, n_jobs)
    trainer = NetworkTrainer(rows, held_out, parameters, base=base, n_jobs=n_jobs, **options)
    return Run(trainer, validation)
