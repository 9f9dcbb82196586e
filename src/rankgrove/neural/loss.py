"""A loss for any PyTorch module whose backward pass is the forces of an objective.

The forces of all pairs of a query are one number per document. So the loss has no graph over pairs:
its gradient by the scores is handed to PyTorch as it is, and one backward pass through the module
does the rest (Burges 2010, section 2.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rankgrove.data.dataset import Dataset
from rankgrove.data.preferences import Preferences
from rankgrove.data.queries import spans
from rankgrove.errors import DataError, ParameterError, refusal, unknown_name, whole_number
from rankgrove.objectives.base import Floats, Forces, Objective
from rankgrove.objectives.preferences import prepare_preferences
from rankgrove.objectives.registry import make_objective
from rankgrove.training.network_parameters import FORCES_OF

Reduction = Literal["mean", "sum"]


class _Push(torch.autograd.Function):
    """A value whose gradient by the scores is given."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, gradient: Tensor, value: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return grad * gradient, None, None


class RankingLoss(nn.Module):
    """A loss for any module that gives each document a score.

    Call it with the scores of a batch, one per document, on any device and of any float type, and
    with `labels`, one per document, and the queries: `offsets` (the documents of query q are
    `offsets[q]` to `offsets[q + 1]`), `group` (documents of each query) or `qid` (one per
    document). Queries may have any lengths; nothing is padded. `weights` are one per query.
    `preferences`, pairs (better, worse) or (better, worse, probability) of rows of the batch, take
    the place of labels.
    `iteration` numbers the draws of objectives with noise; by default the calls are counted.

    The gradient by the scores is minus the forces of the objective, which are computed on the CPU
    in float64: exactly those that trees are trained by. Memory is linear in the documents. There is
    no second derivative.

    The value is the cost, where forces are those of one (`rankmart` without truncation, noise and
    normalising, `softmax`, `listnet`, `queryrmse`, `regression` and `logistic`).
    Elsewhere, as for `lambdamart`, whose weights change with the ranking, it is minus the sum of
    force times score: right for the gradient, but no measure of progress.

    Parameters
    ----------
    objective
        A name, as `rankgrove objectives` lists them, or an objective; `ranknet` is `rankmart` and
        `lambdarank` is `lambdamart`.
    reduction
        `mean` divides value and gradient by the number of queries of the batch, `sum` does not.
    cost
        Whether the cost is computed, where there is one. For pairs it takes about a quarter of
        the time of the forces.
    seed, n_jobs
        Of objectives with noise; threads for the forces, which have the same bits for any number.
    parameters
        Of the objective, as `metric="map"` or `sigma=2.0`.

    Examples
    --------
    >>> loss = ranking_loss("ranknet")
    >>> scores = torch.zeros(3, requires_grad=True)
    >>> value = loss(scores, [2, 1, 0], offsets=[0, 2, 3])
    >>> value.backward()
    >>> round(value.item(), 4), scores.grad.tolist()
    (0.3466, [-0.25, 0.25, -0.0])
    """

    def __init__(
        self,
        objective: str | Objective = "lambdamart",
        *,
        reduction: Reduction = "mean",
        cost: bool = True,
        seed: int = 0,
        n_jobs: int | None = None,
        **parameters: Any,
    ) -> None:
        super().__init__()
        if reduction not in ("mean", "sum"):
            raise unknown_name("reduction", str(reduction), ("mean", "sum"))
        if isinstance(objective, str):
            objective = FORCES_OF.get(objective.lower(), objective)
        self.objective = make_objective(objective, **parameters)
        self.reduction, self.cost = reduction, bool(cost)
        self.seed, self.n_jobs = whole_number("seed", seed, 0), n_jobs
        self.calls = 0

    def forward(
        self,
        scores: Tensor,
        labels: Any = None,
        offsets: Any = None,
        *,
        group: Any = None,
        qid: Any = None,
        weights: Any = None,
        preferences: Preferences | Iterable[Sequence[Any]] | None = None,
        iteration: int | None = None,
    ) -> Tensor:
        """The loss of a batch of queries; see the class for what each argument is."""
        flat = _as_scores(scores)
        own = _numbers(flat)
        given = None if weights is None else np.asarray(_array(weights), dtype=np.float64)
        if given is not None and not given.any() and np.isfinite(given).all():
            # Nothing counts in this batch: a value and a gradient of 0.
            return flat.sum() * 0.0
        data = _as_batch(len(own), labels, offsets, group, qid, given, preferences is not None)
        if preferences is not None and not isinstance(preferences, Preferences):
            preferences = Preferences.from_rows(data, preferences)
        if iteration is None:
            iteration, self.calls = self.calls, self.calls + 1
        prepared = _prepare(self.objective, data, preferences, self.seed, self.n_jobs)
        forces = forces_at(prepared, own, iteration)
        scale = 1 / data.n_queries if self.reduction == "mean" else 1.0
        costs = prepared.cost(own) if self.cost else None
        value = float(-(forces @ own) if costs is None else costs.sum()) * scale
        gradient = torch.from_numpy(-scale * forces).to(flat)
        loss: Tensor = _Push.apply(flat, gradient, flat.new_tensor(value))
        return loss

    def extra_repr(self) -> str:
        return f"{self.objective}, reduction={self.reduction!r}"


# The loss as a function of what it is made with.
ranking_loss = RankingLoss


def _prepare(
    objective: Objective, data: Dataset, pairs: Preferences | None, seed: int, n_jobs: int | None
) -> Forces:
    if pairs is None:
        return objective.prepare(data, n_jobs, seed)
    return prepare_preferences(objective, data, pairs, n_jobs)


def forces_at(prepared: Forces, scores: Floats, iteration: int) -> Floats:
    """The force on each document of a batch."""
    forces, curvatures = np.empty(len(scores)), np.empty(len(scores))
    prepared.compute(scores, iteration, forces, curvatures)
    return forces


class Batches:
    """The labels of a data set, of which the forces on any of its queries can be asked."""

    def __init__(
        self,
        objective: Objective,
        data: Dataset,
        preferences: Preferences | None = None,
        *,
        seed: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self._objective, self._seed, self._n_jobs = objective, seed, n_jobs
        self._data = Dataset(
            np.empty((data.n_documents, 0), np.float32), data.labels, data.offsets,
            data.query_ids, data.weights, document_weights=data.document_weights,
            more_labels=data.more_labels,
        )  # fmt: skip
        self._preferences = preferences
        if preferences is not None:
            preferences.check(data)
            query = np.searchsorted(data.offsets, preferences.better, side="right") - 1
            order = np.argsort(query, kind="stable")
            self._preferences = preferences.take(order)
            self._starts = np.searchsorted(query[order], np.arange(data.n_queries + 1))
        # Says what is wrong with labels and objective before any work is done.
        _prepare(objective, self._data, preferences, seed, n_jobs)

    @property
    def counting(self) -> NDArray[np.int64]:
        """The queries whose weight is not 0."""
        weights = self._data.weights
        return np.arange(self._data.n_queries) if weights is None else np.flatnonzero(weights)

    def rows(self, queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of these queries, one query after the other."""
        return spans(self._data.offsets[queries], self._data.group[queries])

    def forces(self, queries: NDArray[np.int64], scores: Floats, iteration: int) -> Floats:
        """The forces on the documents of these queries at their scores, in the order of `rows`."""
        batch = self._data.take_queries(queries)
        pairs = self._preferences
        if pairs is not None:
            n_pairs = np.diff(self._starts)[queries]
            moved = np.repeat(batch.offsets[:-1] - self._data.offsets[queries], n_pairs)
            pairs = pairs.take(spans(self._starts[queries], n_pairs), moved)
        prepared = _prepare(self._objective, batch, pairs, self._seed, self._n_jobs)
        return forces_at(prepared, scores, iteration)


def _as_scores(scores: Any) -> Tensor:
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        got = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
        raise ParameterError(f"scores must be a tensor of floats. Got {got}.")
    if scores.ndim == 2 and scores.shape[1] == 1:
        return scores[:, 0]
    if scores.ndim != 1:
        rule = "be one per document, of shape (n,) or (n, 1)"
        raise refusal("scores", rule, tuple(scores.shape))
    return scores


def _numbers(scores: Tensor) -> Floats:
    own: Floats = scores.detach().to("cpu", torch.float64).numpy()
    if not np.isfinite(own).all():
        row = int((~np.isfinite(own)).argmax())
        raise DataError(
            f"every score must be finite. Got {own[row]} at row {row}: a lower learning rate or "
            f"scaled features may help."
        )
    return own


def _array(values: Any) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


def _as_batch(
    n_rows: int, labels: Any, offsets: Any, group: Any, qid: Any, weights: Any, paired: bool
) -> Dataset:
    """The labels and queries of a batch."""
    given = [value is not None for value in (offsets, group, qid)]
    if sum(given) != 1:
        raise ParameterError(
            f"exactly one of offsets, group and qid must be given, to say which rows form a query. "
            f"Got {sum(given)} of them."
        )
    if labels is None and not paired:
        raise DataError("labels must be given, one per document, or preferences. Got neither.")
    own = np.zeros(n_rows, np.float32) if labels is None else _array(labels)
    if len(own) != n_rows:
        raise DataError(f"labels must be one per score, {n_rows}. Got {len(own)}.")
    if offsets is not None:
        ends = np.asarray(_array(offsets))
        if ends.ndim != 1 or len(ends) < 2 or ends[0] != 0 or ends[-1] != n_rows:
            got = f"{ends[0]} to {ends[-1]}" if ends.ndim == 1 and len(ends) else "none"
            raise DataError(
                f"offsets must rise from 0 to the number of scores, {n_rows}. Got {got}."
            )
        group = np.diff(ends)
    return Dataset.from_arrays(
        np.empty((n_rows, 0), np.float32), own, group=_array(group), qid=_array(qid),
        weights=weights,
    )  # fmt: skip
