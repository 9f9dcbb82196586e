"""Discounted sums of gains: DCG, NDCG, ExpDCG, RBP, precision and recall.

All are `sum over ranks p of G(label at p) * D(p)`, divided by a normaliser of the query, so
they share one kernel, one exact expectation over ties (a tied document has the mean gain of
its group at every rank of it) and one form for optimisers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel
from rankgrove.errors import DataError, ParameterError, unknown_name
from rankgrove.metrics.base import Binary, Floats, Metric, Rankings
from rankgrove.metrics.forms import PRODUCT, Form
from rankgrove.metrics.grades import BINARY, EXPONENTIAL, LINEAR, TABLE, worth, worths

# Above this grade 2^r - 1 is computed for each document and not looked up.
_LARGEST_TABLE = 1 << 12


@kernel
def sum_discounted(ranked, starts, first, last, discounts, kind, table, out):
    """The discounted sum of gains of queries first to last, in rank order."""
    for q in range(first, last):
        lo = starts[q]
        total = 0.0
        for i in range(min(starts[q + 1] - lo, len(discounts))):
            total += worth(ranked[lo + i], kind, table) * discounts[i]
        out[q] = total


@kernel
def sum_discounted_expected(ranked, ends, offsets, first, last, discounts, kind, table, out):
    """As `sum_discounted`, the mean over all orders inside the tie groups."""
    for q in range(first, last):
        lo = offsets[q]
        depth = min(offsets[q + 1] - lo, len(discounts))
        total = 0.0
        start = 0
        while start < depth:
            end = ends[lo + start]
            gains = 0.0
            for i in range(start, end):
                gains += worth(ranked[lo + i], kind, table)
            weight = 0.0
            for i in range(start, min(end, depth)):
                weight += discounts[i]
            total += gains / (end - start) * weight
            start = end
        out[q] = total


class Discounted(Metric):
    """The shared part: a subclass says which gains, discounts and normaliser."""

    def gains(self, lowest: float, highest: float, whole: bool) -> tuple[int, NDArray[Any]]:
        """The kind of gain and its table, for labels in this range."""
        raise NotImplementedError

    def discounts(self, depth: int) -> Floats:
        raise NotImplementedError

    def normalise(self, sums: Floats, rankings: Rankings, kind: int, table: NDArray[Any]) -> Floats:
        """Divide by the normaliser; NaN where the query has no gain at all."""
        sums[_total_gains(rankings, kind, table) == 0] = np.nan
        return sums

    def _parameters(self, rankings: Rankings) -> tuple[Floats, int, NDArray[Any]]:
        """Discounts, the kind of gain and its table."""

        def find() -> tuple[Floats, int, NDArray[Any]]:
            discounts = as_input(self.discounts(self.depth(rankings.longest)), np.float64)
            return discounts, *self.gains(*rankings.label_range, rankings.whole_labels)

        return rankings.once(("parameters", self), find)

    def _compute(self, rankings: Rankings) -> Floats:
        parameters = self._parameters(rankings)
        sums = self._measure(
            rankings, sum_discounted, sum_discounted_expected, parameters, ranked_only=True
        )
        return self.normalise(sums, rankings, *parameters[1:])

    def form(self, rankings: Rankings) -> Form:
        kind, table = self.gains(*rankings.label_range, rankings.whole_labels)
        gains, longest = worths(rankings.labels, kind, table), rankings.longest
        # Normalising a sum of 1 gives one over the normaliser, and NaN for an empty query.
        scales = self.normalise(np.ones(rankings.n_queries), rankings, kind, table)
        return Form.of_ranks(PRODUCT, gains, self.discounts(self.depth(longest)), scales, longest)


def _total_gains(rankings: Rankings, kind: int, table: NDArray[Any]) -> Floats:
    """The sum of the gains of each query."""

    def summed() -> Floats:
        gains: Floats = worths(rankings.labels, kind, table)
        return np.add.reduceat(gains, rankings.offsets[:-1])

    return rankings.once(("gains", kind, table.tobytes()), summed)


def _read_table(text: str) -> tuple[float, ...]:
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError(text)
    return tuple(float(entry) for entry in text[1:-1].split(","))


@dataclass(frozen=True, kw_only=True, repr=False)
class _GradedGain(Discounted):
    """Gain from the grade: exponential 2^r - 1, linear r, or a table."""

    gain: str | tuple[float, ...] = "exponential"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.gain, str):
            if self.gain not in ("exponential", "linear"):
                raise unknown_name("gain", self.gain, ("exponential", "linear", "[0, 1, 3, …]"))
            return
        object.__setattr__(self, "gain", tuple(float(entry) for entry in self.gain))
        table = np.array(self.gain)
        if not (
            len(table)
            and np.isfinite(table).all()
            and table[0] >= 0
            and np.all(np.diff(table) >= 0)
        ):
            raise ParameterError(
                f"a gain table must be finite, 0 or more, and not fall from one grade to the "
                f"next. Got {list(self.gain)}."
            )

    @classmethod
    def read_parameter(cls, name: str, text: str) -> Any:
        if name == "gain":
            return _read_table(text) if text.startswith("[") else text
        return super().read_parameter(name, text)

    def gains(self, lowest: float, highest: float, whole: bool) -> tuple[int, NDArray[Any]]:
        if isinstance(self.gain, tuple):
            if not whole or highest >= len(self.gain):
                raise DataError(
                    f"labels must be whole numbers below {len(self.gain)} for the gain table of "
                    f"{self}. Got {'fractions' if not whole else f'{highest:g}'}: "
                    f"lengthen the table or choose gain=linear."
                )
            return TABLE, as_input(self.gain, np.float64)
        if self.gain == "linear":
            return LINEAR, as_input([1.0], np.float64)
        if highest > 1000:
            raise DataError(
                f"labels must be at most 1000 for the exponential gain of {self}: 2^r must be "
                f"finite. Got {highest:g}: choose gain=linear or a gain table."
            )
        if not whole or highest > _LARGEST_TABLE:
            return EXPONENTIAL, as_input([0.0], np.float64)
        return TABLE, as_input(np.exp2(np.arange(highest + 1)) - 1.0, np.float64)


@dataclass(frozen=True, kw_only=True, repr=False)
class DCG(_GradedGain):
    """Discounted cumulative gain.

    DCG@k = sum over ranks p <= k of G(r_p) / log2(1 + p), with G(r) = 2^r - 1, r or a table.

    >>> print(DCG(k=10, gain="linear"))
    dcg@10(gain=linear)
    """

    name: ClassVar[str] = "dcg"
    title: ClassVar[str] = "discounted cumulative gain"
    formula: ClassVar[str] = "sum_{p<=k} G(r_p) / log2(1 + p)"
    reference: ClassVar[str] = "Järvelin and Kekäläinen 2002; Burges 2010, eq. (5)"
    expected_ties: ClassVar[str] = "closed form: the mean gain of the tie group at its ranks"

    def discounts(self, depth: int) -> Floats:
        return np.asarray(1.0 / np.log2(np.arange(2, depth + 2)))

    def form_of_pairs(self, rankings: Rankings, truncation: int | None) -> Form:
        if truncation is None:
            return self.form(rankings)
        # LightGBM's: the truncation takes the place of the cut-off, and discounts have none.
        depth = min(truncation, rankings.longest)
        form = replace(self, k=depth).form(rankings)
        return form._replace(discounts=self.discounts(rankings.longest))


@dataclass(frozen=True, kw_only=True, repr=False)
class NDCG(DCG):
    """DCG@k divided by the DCG@k of the best possible order, so that 1 is perfect.

    >>> str(NDCG(k=10)), NDCG() == NDCG(ties="worst")
    ('ndcg@10', True)
    """

    name: ClassVar[str] = "ndcg"
    title: ClassVar[str] = "normalised discounted cumulative gain"
    formula: ClassVar[str] = "DCG@k / max over orders of DCG@k"

    def plan(self, rankings: Rankings) -> None:
        super().plan(rankings)
        rankings.plan("ideal", self.depth(rankings.longest))

    def normalise(self, sums: Floats, rankings: Rankings, kind: int, table: NDArray[Any]) -> Floats:
        discounts = self._parameters(rankings)[0]

        def summed() -> Floats:
            best = np.empty(rankings.n_queries)
            inputs = rankings.ranked("ideal", len(discounts))
            rankings.run(
                lambda q0, q1: sum_discounted(*inputs, q0, q1, discounts, kind, table, best),
                steps=len(inputs.labels),
            )
            return np.where(best > 0, best, np.nan)

        def find() -> Floats:
            key = "best", kind, table.tobytes(), discounts.tobytes()
            return rankings.once(key, summed)

        return np.asarray(sums / rankings.once(("best", self), find))

    def _compute(self, rankings: Rankings) -> Floats:
        # Tied documents share a mean gain, whose rounding must not lift a perfect ranking above 1.
        return np.minimum(super()._compute(rankings), 1.0)


@dataclass(frozen=True, kw_only=True, repr=False)
class ExpDCG(_GradedGain):
    """DCG with a discount that decays geometrically: what YetiRank optimises.

    ExpDCG@k = sum over ranks p <= k of G(r_p) * b^(p - 1), G(r) = r by default.

    >>> print(ExpDCG(b=0.9))
    expdcg(b=0.9)
    """

    gain: str | tuple[float, ...] = "linear"
    b: float = 0.85

    name: ClassVar[str] = "expdcg"
    title: ClassVar[str] = "discounted gain with a geometric discount"
    formula: ClassVar[str] = "sum_{p<=k} G(r_p) * b^(p-1)"
    reference: ClassVar[str] = "Gulin et al. 2011; Lyzhin et al. 2022, eq. (13)"
    expected_ties: ClassVar[str] = DCG.expected_ties
    shares: ClassVar[tuple[str, ...]] = ("b",)

    def discounts(self, depth: int) -> Floats:
        return np.asarray(self.b ** np.arange(depth))


class _BinaryGain(Binary, Discounted):
    """Gain 1 for a relevant document, else 0."""

    expected_ties: ClassVar[str] = "closed form: the share of relevant documents in the tie group"

    def gains(self, lowest: float, highest: float, whole: bool) -> tuple[int, NDArray[Any]]:
        return BINARY, as_input([self.threshold], np.float64)


@dataclass(frozen=True, kw_only=True, repr=False)
class RBP(_BinaryGain):
    """Rank-biased precision: a user reads on from each rank with probability p.

    RBP@k = (1 - p) * sum over relevant documents at ranks i <= k of p^(i - 1).

    >>> print(RBP(p=0.5))
    rbp(p=0.5)
    """

    p: float = 0.8

    name: ClassVar[str] = "rbp"
    title: ClassVar[str] = "rank-biased precision"
    formula: ClassVar[str] = "(1 - p) * sum_{i<=k} rel_i * p^(i-1)"
    reference: ClassVar[str] = "Moffat and Zobel 2008"
    shares: ClassVar[tuple[str, ...]] = ("p",)

    def discounts(self, depth: int) -> Floats:
        return np.asarray((1.0 - self.p) * self.p ** np.arange(depth))


class _NeedsCutoff(_BinaryGain):
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is None:
            raise ParameterError(
                f"{self.name} must have a cut-off: without one it does not depend on the "
                f"ranking. Write {self.name}@10."
            )

    def discounts(self, depth: int) -> Floats:
        return np.ones(depth)


@dataclass(frozen=True, kw_only=True, repr=False)
class Precision(_NeedsCutoff):
    """The share of relevant documents among the first k.

    Parameters
    ----------
    norm
        What a query of fewer than k documents divides by: `cutoff`, k all the same, so that
        missing ranks count as misses (trec_eval), or `documents`, what there is (XGBoost,
        CatBoost).

    Examples
    --------
    >>> print(Precision(k=5, relevant=2))
    precision@5(relevant>=2)
    """

    norm: str = "cutoff"

    name: ClassVar[str] = "precision"
    aliases: ClassVar[tuple[str, ...]] = ("p",)
    title: ClassVar[str] = "precision at k"
    formula: ClassVar[str] = "(relevant documents at ranks <= k) / k"
    reference: ClassVar[str] = "as trec_eval's P_k"
    words: ClassVar[dict[str, tuple[str, ...]]] = {"norm": ("cutoff", "documents")}

    def normalise(self, sums: Floats, rankings: Rankings, kind: int, table: NDArray[Any]) -> Floats:
        ranks = np.full(rankings.n_queries, float(self.k or 1))
        if self.norm == "documents":
            ranks = np.minimum(ranks, np.diff(rankings.offsets))
        return super().normalise(sums / ranks, rankings, kind, table)


@dataclass(frozen=True, kw_only=True, repr=False)
class Recall(_NeedsCutoff):
    """The share of a query's relevant documents that stand among the first k.

    >>> print(Recall(k=100))
    recall@100
    """

    name: ClassVar[str] = "recall"
    title: ClassVar[str] = "recall at k"
    formula: ClassVar[str] = "(relevant documents at ranks <= k) / (relevant documents)"
    reference: ClassVar[str] = "as trec_eval's recall_k"

    def normalise(self, sums: Floats, rankings: Rankings, kind: int, table: NDArray[Any]) -> Floats:
        relevant = _total_gains(rankings, kind, table)
        return np.asarray(sums / np.where(relevant > 0, relevant, np.nan))
