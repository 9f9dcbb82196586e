"""A comparison: values of each query, and what they say about the candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankgrove.errors import DataError, ParameterError, check_names, whole_number
from rankgrove.experiments.checks import check_one_of, check_share, naming
from rankgrove.experiments.compare import displays, significance, tables
from rankgrove.experiments.compare.measured import Measured, align
from rankgrove.experiments.compare.slices import Slicing
from rankgrove.metrics.base import Floats

TESTS = ("t", "randomisation", "bootstrap")
CORRECTIONS = ("holm",)

Mark = Literal["best", "equal", "baseline", "better", "worse", ""]


@dataclass(frozen=True)
class Method:
    """How candidates are compared.

    Attributes
    ----------
    test
        "t" (the paired t-test), "randomisation" or "bootstrap".
    alternative
        "greater": one-tailed, as in the paper; or "two-sided".
    correction
        "holm", or None to take each p-value as it is.
    level
        What a p-value must not be above to be called significant.
    confidence
        Of the intervals.
    rounds, seed
        Of the randomised tests.
    n_jobs
        Threads; the result has the same bits for any number.
    """

    test: str = "t"
    alternative: str = "greater"
    correction: str | None = "holm"
    level: float = 0.05
    confidence: float = 0.95
    rounds: int = significance.ROUNDS
    seed: int = 0
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        check_one_of("test", self.test, TESTS)
        check_one_of("alternative", self.alternative, ("greater", "two-sided"))
        if self.correction is not None:
            check_one_of("correction", self.correction, CORRECTIONS)
        check_share("level", self.level)
        check_share("confidence", self.confidence)
        whole_number("rounds", self.rounds, 1)
        whole_number("seed", self.seed, 0, 2**64 - 1)

    def p_value(self, a: Floats, b: Floats, alternative: Any, weights: Floats | None) -> float:
        """Of the difference a - b."""
        if self.test == "t":
            return significance.paired_t(a, b, alternative, weights=weights)
        test = getattr(significance, self.test)
        return float(test(a, b, alternative, self.rounds, self.seed, self.n_jobs, weights=weights))

    def interval(self, values: Floats, weights: Floats | None) -> tuple[float, float]:
        """Of a mean: by the bootstrap if that is the test, else by the t distribution."""
        if self.test == "bootstrap":
            return significance.bootstrap_interval(
                values, self.confidence, self.rounds, self.seed, self.n_jobs, weights=weights
            )
        return significance.mean_interval(values, self.confidence, weights=weights)

    def adjust(self, p_values: Sequence[float]) -> list[float]:
        """P-values of one family of comparisons, corrected for their number."""
        return significance.holm(p_values).tolist() if self.correction else list(p_values)


class Row(NamedTuple):
    """One candidate under one metric, and how it differs from the one it is compared with.

    Attributes
    ----------
    name
        Of the candidate.
    mean, low, high
        The mean over the counted queries and its confidence interval; NaN for one query.
    counted, skipped
        Queries with a value, and without.
    reference
        What it is compared with: the baseline, or the best; None for that one itself.
    difference, p, adjusted, effect
        The candidate less the reference; the p-value, as it is and corrected; Cohen's d.
    wins, ties, losses
        Queries in which it is above the reference, equal, and below.
    mark
        "best"; "equal": not significantly worse than the best; "baseline"; "better" or "worse"
        significantly than the baseline; else "".
    """

    name: str
    mean: float
    low: float
    high: float
    counted: int
    skipped: int
    reference: str | None = None
    difference: float = math.nan
    p: float = math.nan
    adjusted: float = math.nan
    effect: float = math.nan
    wins: int = 0
    ties: int = 0
    losses: int = 0
    mark: Mark = ""


class Pair(NamedTuple):
    """Two candidates under one metric: a less b, with a two-sided p-value."""

    a: str
    b: str
    difference: float
    low: float
    high: float
    p: float
    adjusted: float
    effect: float
    wins: int
    ties: int
    losses: int


class Change(NamedTuple):
    """One query on which two candidates differ."""

    query: Any
    a: float
    b: float
    difference: float


class Group(NamedTuple):
    """The queries of one group of a slicing, and a row per candidate over them."""

    name: str
    queries: int
    rows: list[Row]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What `compare` gives: values of each query, and what they say about the candidates.

    Prints as a table in which the best of each metric, and all that are not significantly worse,
    have a star; with a baseline, those that are significantly better have a plus.

    Attributes
    ----------
    measured
        For each metric, the values of each candidate.
    names
        The candidates, in the order given.
    baseline
        With which all are compared, or None: then the best of each metric is.
    method
        How they are compared.
    slicings
        The groups of queries that were asked for.
    """

    measured: dict[str, Measured]
    names: tuple[str, ...]
    baseline: str | None = None
    method: Method = Method()
    slicings: dict[str, Slicing] = field(default_factory=dict)
    _kept: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.baseline is not None:
            check_one_of("baseline", self.baseline, self.names)
        for metric, measured in self.measured.items():
            if self.baseline is not None and self.baseline not in measured.values:
                raise DataError(
                    f"the baseline must have values under each metric. Got none for "
                    f"{self.baseline!r} under {metric}."
                )
            with naming(metric):
                for values in measured.values.values():
                    significance.sample_of(values, measured.weights)

    @classmethod
    def from_values(
        cls,
        values: Mapping[str, Mapping[str, ArrayLike | Mapping[Any, float]]],
        query_ids: ArrayLike | Mapping[str, ArrayLike] | None = None,
        *,
        weights: ArrayLike | None = None,
        baseline: str | None = None,
        missing: Literal["error", "drop"] = "error",
        **method: Any,
    ) -> Comparison:
        """From the values of queries that were measured elsewhere.

        Parameters
        ----------
        values
            For each metric, for each candidate, one value per query, NaN for none; or a mapping
            from query ids to values. What stands for a metric may be any column of a table, as
            a metric on one of several data sets: columns may differ in queries and candidates.
        query_ids
            One per query, for all metrics or by metric; by default numbers from 0.
        weights
            One per query; then all metrics must be of the same queries.
        baseline
            As in `compare`.
        missing
            What to do with a query that has a value for some candidates only: "error", or "drop"
            it for all of them.
        method
            The parameters of `Method`.

        Examples
        --------
        >>> values = {"map": {"old": [0.2, 0.4, 0.3], "new": [0.5, 0.6, 0.6]}}
        >>> [row.mark for row in Comparison.from_values(values).summary("map")]
        ['', 'best']
        """
        check_one_of("missing", missing, ("error", "drop"))
        if not values or not all(values.values()):
            raise ParameterError(
                "at least one candidate must be given under each metric. Got none."
            )
        measured = {}
        for metric, given in values.items():
            ids = query_ids.get(metric) if isinstance(query_ids, Mapping) else query_ids
            with naming(metric):
                measured[metric] = align(given, ids, weights, missing == "drop")
        names = dict.fromkeys(name for given in values.values() for name in given)
        return cls(measured, tuple(names), baseline, Method(**method))

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.measured)

    def per_query(self, metric: str) -> dict[str, Floats]:
        """The values of each candidate, one per query; NaN where the query is skipped."""
        return self._of(metric).values

    def summary(self, metric: str) -> list[Row]:
        """A row per candidate: its mean and how it compares with the baseline or the best.

        P-values are of one family a metric: all candidates but the one they are compared with.
        """
        if metric not in self._kept:
            rows = self._rows(self._of(metric), self.reference(metric))
            self._kept[metric] = self._finished(rows)
        return list(self._kept[metric])

    def reference(self, metric: str) -> str:
        """What the others are compared with: the baseline, or the one with the highest mean."""
        if self.baseline is not None:
            return self.baseline
        measured = self._of(metric)
        means = {
            name: significance.moments(significance.sample_of(values, measured.weights)).mean
            for name, values in measured.values.items()
        }
        return max(means, key=means.__getitem__)

    def marked(self, metric: str) -> list[str]:
        """The best candidate and all that are not significantly worse; of a baseline, better."""
        wanted = ("best", "equal") if self.baseline is None else ("better",)
        return [row.name for row in self.summary(metric) if row.mark in wanted]

    def pairs(self, metric: str) -> list[Pair]:
        """Every pair of candidates, with two-sided p-values, which are one family.

        Two-sided, because no direction was chosen before the values were seen.
        """
        measured, method = self._of(metric), self.method
        names = [name for name in self.names if name in measured.values]
        found = []
        for at, a in enumerate(names):
            for b in names[at + 1 :]:
                x, y, weights = measured.values[a], measured.values[b], measured.weights
                p = method.p_value(x, y, "two-sided", weights)
                low, high = method.interval(x - y, weights)
                compared = _compare_values(x, y, weights)
                found.append(Pair(a=a, b=b, low=low, high=high, p=p, adjusted=p, **compared))
        adjusted = method.adjust([pair.p for pair in found])
        return [pair._replace(adjusted=p) for pair, p in zip(found, adjusted, strict=True)]

    def changed(self, metric: str, a: str, b: str, n: int = 10) -> list[Change]:
        """The queries on which a and b differ most, the largest difference a - b first.

        Queries without a difference are none of them; of equal differences, the earlier query
        comes first.
        """
        whole_number("n", n, 0)
        measured = self._of(metric)
        check_names("a candidate", (a, b), measured.values)
        x, y = measured.values[a], measured.values[b]
        there = np.flatnonzero(~np.isnan(x - y))
        values = significance.differences(x, y).values
        order = np.argsort(-np.abs(values), kind="stable")[:n]
        order = order[values[order] != 0]
        rows = there[order]
        columns = measured.query_ids[rows], x[rows], y[rows], values[order]
        return [Change(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]

    def by_slice(self, slicing: str, metric: str) -> list[Group]:
        """A row per candidate for each group of queries, compared as over all queries.

        What the others are compared with is the same in all groups, and the p-values of all
        groups are one family. Nothing is tested in a group of fewer than two counted queries.
        """
        check_one_of("a slicing of this comparison", slicing, self.slicings)
        groups, reference = self.slicings[slicing], self.reference(metric)
        found = []
        for number, name in enumerate(groups.groups):
            chosen = groups.group_of == number
            rows = self._rows(self._of(metric).take(chosen), reference)
            found.append(Group(name, int(chosen.sum()), rows))
        finished = iter(self._finished([row for group in found for row in group.rows]))
        return [group._replace(rows=[next(finished) for _ in group.rows]) for group in found]

    def to_markdown(self, *, percent: bool = False, intervals: bool = False) -> str:
        """A table as papers have it: a row per candidate, a column per metric; marked is bold."""
        return tables.comparison_markdown(self, percent=percent, intervals=intervals)

    def to_latex(self, *, percent: bool = False, intervals: bool = False) -> str:
        r"""The same for LaTeX with the package booktabs; marked is `\textbf`."""
        return tables.comparison_latex(self, percent=percent, intervals=intervals)

    def to_csv(self) -> str:
        """A line per metric and candidate, with all digits; what does not apply is empty."""
        return tables.comparison_csv(self)

    def to_dict(self, *, pairs: bool = False, changed: int = 0) -> dict[str, Any]:
        """Plain values for JSON; what is not finite or does not apply is None."""
        return tables.comparison_dict(self, pairs=pairs, changed=changed)

    def plot(
        self, metric: str | None = None, *, kind: str = "scatter", ax: Any = None
    ) -> displays.ComparisonDisplay:
        """A picture of the candidates, query by query.

        Parameters
        ----------
        metric
            One of those that were measured; by default the first.
        kind
            "scatter": a point per query, the baseline or the best across, the others up. "change":
            the differences in order of size: a little on many queries, or much on few?
            "distribution": the share of queries up to each value of the metric.
        ax
            Axes of matplotlib to draw into; of "scatter" and "change" one for each other candidate.

        Examples
        --------
        >>> values = {"map": {"old": [0.2, 0.4, 0.3], "new": [0.5, 0.6, 0.6]}}
        >>> display = Comparison.from_values(values, baseline="old").plot(kind="change")
        >>> display.changes[0].differences.round(6).tolist()
        [0.3, 0.2, 0.3]
        """
        return displays.comparison_display(self, metric, kind).drawn_into(ax)

    def plot_slices(
        self, slicing: str | None = None, metric: str | None = None, *, ax: Any = None
    ) -> displays.SlicesDisplay:
        """A picture of the change in each group of queries: who pays for the mean.

        Parameters
        ----------
        slicing, metric
            Which groups, by default all; and the metric, by default the first.
        ax
            Two axes of matplotlib to draw into: of the picture and of the numbers beside it.
        """
        return displays.slices_display(self, slicing, metric).drawn_into(ax)

    def _repr_svg_(self) -> str:
        return self.plot().to_svg()

    def _repr_html_(self) -> str:
        return f"{tables.comparison_html(self)}\n{self.plot().to_svg()}"

    def __str__(self) -> str:
        return tables.comparison_text(self)

    def __repr__(self) -> str:
        return f"<Comparison: {', '.join(self.names)} by {', '.join(self.measured)}>"

    def _of(self, metric: str) -> Measured:
        check_one_of("a metric of this comparison", metric, self.measured)
        return self.measured[metric]

    def _rows(self, measured: Measured, reference: str) -> list[Row]:
        """A row per candidate, not yet corrected or marked."""
        weights = measured.weights
        base = measured.values[reference]
        rows = []
        for name in (name for name in self.names if name in measured.values):
            values = measured.values[name]
            there = ~np.isnan(values)
            counted = int(there.sum())
            row = Row(name, math.nan, math.nan, math.nan, counted, len(values) - counted,
                      None if name == reference else reference)  # fmt: skip
            kept = there if weights is None else there & (weights > 0)
            if kept.sum() == 1:
                row = row._replace(mean=float(values[kept][0]))
            elif kept.sum() > 1:
                sample = significance.sample_of(values, weights)
                low, high = self.method.interval(values, weights)
                row = row._replace(mean=significance.moments(sample).mean, low=low, high=high)
                if name != reference:
                    sides = (base, values) if self.baseline is None else (values, base)
                    p = self.method.p_value(*sides, self.method.alternative, weights)
                    row = row._replace(p=p, **_compare_values(values, base, weights))
            rows.append(row)
        return rows

    def _finished(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with their p-values corrected, as one family, and with their marks."""
        adjusted = iter(self.method.adjust([row.p for row in rows if not math.isnan(row.p)]))
        tested = [
            row if math.isnan(row.p) else row._replace(adjusted=next(adjusted)) for row in rows
        ]
        return [row._replace(mark=self._mark(row)) for row in tested]

    def _mark(self, row: Row) -> Mark:
        if row.reference is None:
            return "best" if self.baseline is None else "baseline"
        if row.adjusted <= self.method.level and self.baseline is not None:
            return "better" if row.difference > 0 else "worse"
        return "equal" if row.adjusted > self.method.level and self.baseline is None else ""


def _compare_values(a: Floats, b: Floats, weights: Floats | None) -> dict[str, Any]:
    """How a differs from b, by the names that `Row` and `Pair` have for it."""
    mean = significance.moments(significance.differences(a, b, weights)).mean
    effect = significance.effect_size(a, b, weights=weights)
    wins, ties, losses = significance.wins_ties_losses(a, b)
    return {"difference": mean, "effect": effect, "wins": wins, "ties": ties, "losses": losses}
