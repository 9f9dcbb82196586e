"""What a metric is: an immutable value with a name that parses back, and its policies."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove._jit import as_input, chunk_queries, run_queries
from rankgrove.data.documents import Documents, labels_of
from rankgrove.data.queries import offsets_of
from rankgrove.errors import DataError, ParameterError, parameter, unknown_name
from rankgrove.metrics.forms import PAIRS, Form, fill_deltas
from rankgrove.metrics.ties import (
    TIE_SIGN,
    TIES,
    Ties,
    all_whole,
    rank_grades,
    rank_groups,
    rank_labels,
)

Empty = Literal["skip", "zero", "one"]
EMPTY: tuple[str, ...] = get_args(Empty)
Floats = NDArray[np.float64]
T = TypeVar("T")

# A chunk of this many documents keeps its rows in cache and costs far more than its hand-out.
_CHUNK_DOCUMENTS = 1 << 15

# Some 0.3 ms of work: as long as it takes to hand out the chunks and to wait for them.
_FEW_STEPS = 150_000

# Up to this grade the ideal order is found by counting grades, beyond by sorting.
_FEW_GRADES = 31


class Ranked(NamedTuple):
    """Labels in rank order: those of query q are labels[starts[q]:starts[q + 1]]."""

    labels: NDArray[np.float32]
    starts: NDArray[np.int64]


class Rankings:
    """Labels and scores of many queries, ranked once for all the metrics that ask.

    The scores are checked here, at the door: one per document, none NaN. With `order`, labels,
    scores and document ids are first put into that order of rows. `more_labels` are further labels
    by name, for metrics of these.
    """

    def __init__(
        self,
        labels: ArrayLike,
        scores: ArrayLike,
        offsets: ArrayLike,
        *,
        order: NDArray[np.int64] | None = None,
        document_ids: NDArray[Any] | None = None,
        document_weights: Floats | None = None,
        more_labels: Mapping[str, ArrayLike] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.labels = as_input(labels, np.float32)
        self.scores = _as_scores(scores, len(self.labels))
        if order is not None:
            self.labels = as_input(self.labels[order], np.float32)
            self.scores = as_input(self.scores[order], np.float64)
            document_ids = None if document_ids is None else document_ids[order]
            document_weights = None if document_weights is None else document_weights[order]
        self.offsets = as_input(offsets, np.int64)
        self.n_queries = len(self.offsets) - 1
        # A worker may have no query.
        self.longest = int(np.diff(self.offsets).max(initial=1))
        self._document_ids, self.document_weights = document_ids, document_weights
        self._more_labels, self._order = more_labels or {}, order
        self._n_jobs = n_jobs
        self._bounds = chunk_queries(self.offsets, _CHUNK_DOCUMENTS).tolist()
        self._planned: dict[str, int] = {}
        self._ranked: dict[tuple[str, int], Ranked] = {}
        self._of_labels: dict[Hashable, Any] = {}
        self._by_label: dict[str, Rankings] = {}

    def with_scores(self, scores: ArrayLike) -> Rankings:
        """The same labels under other scores: what labels alone decide is not found again."""
        other = copy(self)
        other.scores = _as_scores(scores, len(self.labels))
        other._ranked = {}
        other._by_label = {name: r.with_scores(other.scores) for name, r in self._by_label.items()}
        other.__dict__.pop("groups", None)
        return other

    def of_label(self, name: str) -> Rankings:
        """The same documents and scores under a further label; made when it is first asked for."""
        if name not in self._by_label:
            labels = as_input(labels_of(self._more_labels, name), np.float32)
            other = copy(self)
            other.labels = (
                labels if self._order is None else as_input(labels[self._order], np.float32)
            )
            other._planned, other._ranked, other._of_labels, other._by_label = {}, {}, {}, {}
            other.__dict__.pop("groups", None)
            self._by_label[name] = other
        return self._by_label[name]

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What labels and document ids alone decide: made when it is first asked for."""
        if key not in self._of_labels:
            self._of_labels[key] = make()
        found: T = self._of_labels[key]
        return found

    @classmethod
    def of_data(cls, data: Documents, scores: ArrayLike, n_jobs: int | None = None) -> Rankings:
        """The documents of a data set, ranked by these scores."""
        return cls(
            data.labels, scores, data.offsets, document_ids=data.document_ids,
            document_weights=data.document_weights, more_labels=data.more_labels, n_jobs=n_jobs,
        )  # fmt: skip

    @classmethod
    def of_order(cls, ranked_labels: NDArray[np.float32]) -> Rankings:
        """One query that is ranked in the order of its rows."""
        n_documents = len(ranked_labels)
        return cls(ranked_labels, -np.arange(n_documents), [0, n_documents], n_jobs=1)

    def run(self, task: Callable[[int, int], None], steps: int | None = None) -> None:
        """Call `task(first, last)` for runs of queries, in parallel.

        With `steps`, what the task goes through in all where that is not every document: few
        steps are done at once on the caller's thread, which costs less than waking others.
        """
        if steps is not None and steps <= _FEW_STEPS:
            task(0, self.n_queries)
            return
        run_queries(task, self._bounds, self._n_jobs)

    def plan(self, ties: str, depth: int) -> None:
        """Announce a depth, so that one ranking is made, deep enough for all metrics."""
        self._planned[ties] = max(depth, self._planned.get(ties, 0))

    def ranked(self, ties: str, depth: int) -> Ranked:
        """Labels in rank order under a policy, or in the `ideal` order, down to at least depth."""
        self.plan(ties, depth)
        key = ties, self._planned[ties]
        if ties == "ideal":
            return self.once(key, lambda: self._rank(*key))
        if key not in self._ranked:
            self._ranked[key] = self._rank(*key)
        return self._ranked[key]

    def _rank(self, ties: str, depth: int) -> Ranked:
        labels, scores, offsets = self.labels, self.scores, self.offsets
        starts = offsets
        if depth < self.longest:
            starts = self.once(
                ("starts", depth),
                lambda: as_input(offsets_of(np.minimum(np.diff(offsets), depth)), np.int64),
            )
        out = np.empty(starts[-1], np.float32)
        if ties == "ideal" and self.whole_labels and self.label_range[1] <= _FEW_GRADES:
            highest = int(self.label_range[1])
            self.run(lambda q0, q1: rank_grades(labels, offsets, q0, q1, highest, starts, out))
            return Ranked(as_input(out, np.float32), starts)
        if ties == "ideal":
            scores = as_input(labels, np.float64)
        elif ties == "document_id":
            order = self.once("document_id", self._order_by_document_id)
            labels, scores = as_input(labels[order], np.float32), as_input(scores[order], float)
        sign = TIE_SIGN.get(ties, 0.0)
        self.run(
            lambda q0, q1: rank_labels(labels, scores, offsets, q0, q1, depth, sign, starts, out)
        )
        return Ranked(as_input(out, np.float32), starts)

    @cached_property
    def groups(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Labels in rank order and the end of each rank's tie group, for `expected`."""
        out = np.empty(len(self.labels), np.float32)
        end = np.empty(len(self.labels), np.int64)
        self.run(
            lambda q0, q1: rank_groups(self.labels, self.scores, self.offsets, q0, q1, out, end)
        )
        return as_input(out, np.float32), as_input(end, np.int64)

    def _order_by_document_id(self) -> NDArray[np.int64]:
        """Rows sorted within each query by document id, descending."""
        if self._document_ids is None:
            raise DataError(
                "ties=document_id must have document ids. Got none: read the data with "
                f"{parameter('document_ids', True)}, or choose ties=stable."
            )
        ids = np.asarray([str(id_) for id_ in self._document_ids])
        return self._sorted(-np.unique(ids, return_inverse=True)[1])

    def tie_order(self, ties: str) -> NDArray[np.int64]:
        """Rows in an order of which a stable ranking follows the policy; none if theirs does."""
        if ties == "document_id":
            return self.once("document_id", self._order_by_document_id)
        sign = TIE_SIGN[ties]
        if sign == 0.0:
            return np.empty(0, np.int64)
        return self._sorted(-sign * self.labels)

    def order(self, ties: str) -> NDArray[np.int64]:
        """All rows in rank order under a policy, but `expected`."""
        by_policy = self.tie_order(ties)
        if len(by_policy) == 0:
            return self._sorted(-self.scores)
        return by_policy[self._sorted(-self.scores[by_policy])]

    def _sorted(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Rows by query and within each by these values, stable."""
        query = np.repeat(np.arange(self.n_queries), np.diff(self.offsets))
        return np.lexsort((values, query))

    @property
    def label_range(self) -> tuple[float, float]:
        # A worker may have no label.
        labels = self.labels if len(self.labels) else np.zeros(1)
        return self.once("range", lambda: (float(labels.min()), float(labels.max())))

    @property
    def whole_labels(self) -> bool:
        return self.once("whole", lambda: bool(all_whole(self.labels)))


def _as_scores(scores: ArrayLike, n_documents: int) -> NDArray[np.float64]:
    try:
        array = as_input(scores, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"scores must be numbers. Got {error}.") from None
    if array.shape != (n_documents,):
        raise DataError(f"scores must be one per document, {n_documents}. Got shape {array.shape}.")
    # The minimum of anything with a NaN is NaN, and NumPy finds it in one vectorised pass.
    if math.isnan(array.min(initial=0.0)):
        row = int(np.isnan(array).argmax())
        raise DataError(f"scores must not be NaN: it cannot be ranked. Got NaN at row {row}.")
    return array


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """A metric of one ranked query, averaged over queries. A value: compare, hash, print it.

    `str(metric)` is its canonical name, and `parse_metric` turns that back into an equal value.

    Parameters
    ----------
    k
        The cut-off: only the first k ranks count. None is no cut-off.
    ties
        What to do among equal scores; see `rankgrove.metrics.ties`.
    empty
        What a query is worth whose best possible value is 0 (no relevant document, no pair):
        `skip` leaves it out of the mean, `zero` and `one` count it as that.
    """

    k: int | None = None
    ties: Ties = "worst"
    empty: Empty = "skip"

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    title: ClassVar[str]
    formula: ClassVar[str]
    reference: ClassVar[str]
    has_cutoff: ClassVar[bool] = True
    # How `expected` ties are computed, for the docs and the command line.
    expected_ties: ClassVar[str]
    # What parameters of one's own may be: words by name, and names of those between 0 and 1.
    words: ClassVar[dict[str, tuple[str, ...]]] = {}
    shares: ClassVar[tuple[str, ...]] = ()
    # Whether labels alone decide which queries `empty` is for.
    skips_by_labels: ClassVar[bool] = True
    # Whether weights of documents have a meaning; in a metric of positions they have none.
    weighs_documents: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.k is not None:
            if not self.has_cutoff:
                raise ParameterError(f"{self.name} must have no cut-off. Got @{self.k}.")
            if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
                raise ParameterError(
                    f"the cut-off of {self.name} must be a whole number, 1 or more. Got {self.k!r}."
                )
        if self.ties not in TIES:
            raise unknown_name("ties", str(self.ties), TIES)
        if self.empty not in EMPTY:
            raise unknown_name("empty", str(self.empty), EMPTY)
        for name, words in self.words.items():
            if getattr(self, name) not in words:
                raise unknown_name(f"{name} of {self.name}", getattr(self, name), words)
        for name in self.shares:
            if not 0 < getattr(self, name) < 1:
                got = f"{getattr(self, name):g}"
                raise ParameterError(f"{name} of {self.name} must be between 0 and 1. Got {got}.")

    def per_query(self, rankings: Rankings) -> Floats:
        """The value of each query; NaN marks a query that `empty="skip"` leaves out."""
        self.check_labels(rankings)
        values = self._compute(rankings)
        if self.empty != "skip":
            values[np.isnan(values)] = 0.0 if self.empty == "zero" else 1.0
        return values

    def plan(self, rankings: Rankings) -> None:
        """Announce the rankings that `per_query` will ask for."""
        if self.ties != "expected":
            rankings.plan(self.ties, self.depth(rankings.longest))

    def depth(self, longest: int) -> int:
        """How many ranks of a query of `longest` documents count."""
        return longest if self.k is None else min(self.k, longest)

    @abstractmethod
    def _compute(self, rankings: Rankings) -> Floats:
        """The value of each query, NaN where the best possible value is 0."""

    def _measure(
        self,
        rankings: Rankings,
        plain: Callable[..., None],
        expected: Callable[..., None],
        parameters: tuple[Any, ...],
        *,
        ranked_only: bool = False,
    ) -> Floats:
        """Run one of two kernels over all queries: that for a ranking, or for tie groups.

        With `ranked_only`, the one for a ranking does not look at labels below the depth.
        """
        out = np.empty(rankings.n_queries)
        labels, offsets = rankings.labels, rankings.offsets
        if self.ties == "expected":
            ranked, ends = rankings.groups
            rankings.run(lambda q0, q1: expected(ranked, ends, offsets, q0, q1, *parameters, out))
            return out
        top = rankings.ranked(self.ties, self.depth(rankings.longest))
        inputs = top if ranked_only else (labels, offsets, *top)
        steps = len(top.labels) if ranked_only else None
        rankings.run(lambda q0, q1: plain(*inputs, q0, q1, *parameters, out), steps)
        return out

    def check_labels(self, rankings: Rankings) -> None:
        """Refuse labels for which the metric has no meaning."""
        lowest, _ = rankings.label_range
        if lowest < 0:
            raise DataError(
                f"labels must be 0 or more for {self}. Got {lowest:g}: shift the labels, or "
                f"choose pair_accuracy or tau, which take any label."
            )

    def check_grades(self, rankings: Rankings) -> None:  # noqa: B027 (most take all grades)
        """Refuse labels of which the metric was not told what they mean, to train for it."""

    def form(self, rankings: Rankings) -> Form | None:
        """How the metric adds up over ranks, for kernels that optimise it.

        None is a metric that they do not know: it is computed again for every swap, which is slow.
        """
        return None

    def form_of_pairs(self, rankings: Rankings, truncation: int | None) -> Form | None:
        """The form that weighs pairs whose better-ranked document is among the first ones.

        Without a truncation it is the form of the metric with its own cut-off.
        """
        form = self.form(rankings)
        if form is None or truncation is None:
            return form
        return form._replace(depth=min(form.depth, truncation))

    def swap_deltas(self, ranked_labels: ArrayLike) -> Floats:
        """By how much the metric of one query changes when two documents trade ranks.

        Parameters
        ----------
        ranked_labels
            The labels of one query in rank order.

        Returns
        -------
        A symmetric matrix: entry (a, b) is the metric after the swap of ranks a + 1 and b + 1
        minus the metric before. Zero where the query is empty.
        """
        labels = one_query(ranked_labels)
        rankings = Rankings.of_order(labels)
        self.check_labels(rankings)
        deltas = np.zeros((len(labels), len(labels)))
        form = self.form(rankings)
        if form is None or form.kind == PAIRS:
            self.fill_deltas(labels.astype(np.float64), len(labels), len(labels), deltas)
        elif not math.isnan(form.scales[0]):
            x = as_input(form.values * form.scales[0], np.float64)
            fill_deltas(form.kind, x, as_input(form.discounts, np.float64), deltas)
        return deltas + deltas.T

    def fill_deltas(self, labels: Floats, depth: int, neighbours: int, out: Floats) -> None:
        """Swap deltas of the pairs of near ranks, the upper one above `depth`, into the upper half.

        The metric is computed again for every pair with different labels; NaN counts as 0.
        """
        n = len(labels)
        for a in range(min(depth, n)):
            below = np.arange(a + 1, min(n, a + neighbours + 1))
            below = below[labels[below] != labels[a]]
            lists = np.tile(labels, (len(below) + 1, 1))
            lists[np.arange(len(below)), below] = labels[a]
            lists[:-1, a] = labels[below]
            values = self.of_orders(lists)
            out[a, below] = np.nan_to_num(values[:-1] - values[-1])

    def of_orders(self, lists: Floats) -> Floats:
        """The value of each row of labels in rank order."""
        n_lists, n = lists.shape
        scores = np.tile(-np.arange(n), n_lists)
        rankings = Rankings(lists.ravel(), scores, np.arange(n_lists + 1) * n, n_jobs=1)
        return self.per_query(rankings)

    def __str__(self) -> str:
        cutoff = "" if self.k is None else f"@{self.k}"
        changed = [
            self.show_parameter(field.name, getattr(self, field.name))
            for field in fields(self)
            if field.name != "k" and getattr(self, field.name) != field.default
        ]
        return self.name + cutoff + (f"({', '.join(changed)})" if changed else "")

    def __repr__(self) -> str:
        return f"parse_metric({str(self)!r})"

    @classmethod
    def show_parameter(cls, name: str, value: Any) -> str:
        if name == "relevant":
            return f"relevant>={show_number(1.0 if value is None else value)}"
        if isinstance(value, tuple):
            return f"{name}=[{', '.join(show_number(entry) for entry in value)}]"
        return f"{name}={value if isinstance(value, str) else show_number(value)}"

    @classmethod
    def read_parameter(cls, name: str, text: str) -> Any:
        """The value of a parameter from its text; `ValueError` where it has none."""
        hint = get_type_hints(cls)[name]
        return float(text) if hint is float or float in get_args(hint) else text

    @classmethod
    def read_positional(cls, text: str) -> dict[str, Any] | None:
        """Parameters from an argument without a name, or None if there is no such argument."""
        return None


def show_number(value: float) -> str:
    """The shortest text that reads back to the same number; whole numbers without a point.

    >>> show_number(2.0), show_number(0.1)
    ('2', '0.1')
    """
    return str(int(value)) if value == int(value) else repr(float(value))


@dataclass(frozen=True, kw_only=True, repr=False)
class Binary(Metric):
    """A metric of two kinds of documents: those with a label of `relevant` or more, and others."""

    relevant: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        relevant = self.relevant
        if relevant is not None and not (math.isfinite(relevant) and relevant > 0):
            raise ParameterError(
                f"relevant of {self.name} must be a finite threshold above 0. Got {relevant:g}."
            )

    @property
    def threshold(self) -> float:
        """The least label of a relevant document."""
        return 1.0 if self.relevant is None else float(self.relevant)

    def check_grades(self, rankings: Rankings) -> None:
        labels = rankings.labels
        others = labels[(labels != 0) & (labels != 1)]
        if self.relevant is None and len(others):
            raise DataError(
                f"labels must be 0 or 1 to train for {self}, or it must say which are relevant, as "
                f"in {self.name}(relevant>=1). Got label {others[0]:g}."
            )


def one_query(ranked_labels: ArrayLike) -> NDArray[np.float32]:
    """The labels of one query as kernels take them."""
    labels = as_input(ranked_labels, np.float32)
    if labels.ndim != 1 or not np.isfinite(labels).all():
        raise DataError(f"ranked labels must be finite numbers in one row. Got {ranked_labels!r}.")
    return labels
