"""Networks: how they are built, and how they score so that the bits do not depend on threads."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rankgrove._jit import run_chunks
from rankgrove.errors import ParameterError, refusal

Floats = NDArray[np.float64]

# Rows that a network scores in one go. The bits of a score may depend on how many these are.
CHUNK_ROWS = 4096

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


def build_network(
    n_inputs: int, hidden: Sequence[int], activation: str, dropout: float
) -> nn.Sequential:
    """Layers that are fully connected, down to one score.

    The last has no bias: a constant moves no document past another.

    >>> build_network(3, (), "relu", 0.0)
    Sequential(
      (0): Linear(in_features=3, out_features=1, bias=False)
    )
    """
    layers: list[nn.Module] = []
    width = n_inputs
    for following in hidden:
        layers += [nn.Linear(width, following), _ACTIVATIONS[activation]()]
        if dropout > 0:
            layers.append(nn.Dropout(dropout))
        width = following
    return nn.Sequential(*layers, nn.Linear(width, 1, bias=False))


def own_module(module: Any, n_inputs: int) -> nn.Module:
    """A copy of a user's module, or what their function from the number of inputs makes."""
    if isinstance(module, nn.Module):
        return copy.deepcopy(module)
    if not callable(module):
        rule = "be an nn.Module or a function from the number of inputs to one"
        raise refusal("module", rule, module)
    made = module(n_inputs)
    if not isinstance(made, nn.Module):
        got = type(made).__name__
        raise refusal("the function given as module", "make an nn.Module", got=got)
    return made


def forward(module: nn.Module, inputs: Tensor) -> Tensor:
    """What a module gives for each row, of shape (n,)."""
    try:
        scores = module(inputs)
    except RuntimeError as error:
        if not any(word in str(error) for word in ("shape", "size", "dimension")):
            raise
        raise ParameterError(
            f"module must take {inputs.shape[1]} inputs, the features and one for each of them "
            f"that has missing values. Got: {error}."
        ) from None
    if isinstance(scores, Tensor) and scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if not isinstance(scores, Tensor) or scores.shape != (len(inputs),):
        shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        got = f"{shape} for {len(inputs)} rows"
        raise refusal("module", "give one score per row, of shape (n,) or (n, 1)", got=got)
    return scores


# The number of threads and the random numbers of PyTorch belong to the process: whoever sets them
# is alone with them, also where folds are trained in threads.
PYTORCH_LOCK = threading.RLock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Within this, an operation of PyTorch runs on one thread: sums then have one order."""
    with PYTORCH_LOCK:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def score_chunks(
    module: nn.Module,
    n_rows: int,
    inputs_of: Callable[[slice], NDArray[np.float32] | Tensor],
    n_jobs: int | None,
) -> Floats:
    """The scores of rows whose inputs are made chunk by chunk."""
    out = np.empty(n_rows)
    was_training = module.training
    device = device_of(module)
    module.eval()

    def score(chunk: int) -> None:
        rows = slice(chunk * CHUNK_ROWS, min((chunk + 1) * CHUNK_ROWS, n_rows))
        with torch.inference_mode():
            inputs = torch.as_tensor(inputs_of(rows), device=device)
            out[rows] = forward(module, inputs).to("cpu", torch.float64).numpy()

    try:
        with one_thread():
            run_chunks(score, -(-n_rows // CHUNK_ROWS), n_jobs)
    finally:
        module.train(was_training)
    return out


def device_of(module: nn.Module) -> torch.device:
    """Where the weights of a module are."""
    return next((tensor.device for tensor in module.parameters()), torch.device("cpu"))
