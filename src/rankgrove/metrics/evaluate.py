"""Measure scores on a data set: per-query values and their mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove._jit.exact import exact_sums
from rankgrove._jit.peers import ALONE
from rankgrove.data.dataset import as_floats
from rankgrove.data.documents import Documents
from rankgrove.data.queries import SplitQueries, make_queries
from rankgrove.data.shard import Shard
from rankgrove.errors import DataError
from rankgrove.metrics.base import Floats, Metric, Rankings
from rankgrove.metrics.spec import MetricLike, parse_metrics


@dataclass(frozen=True, eq=False)
class MetricResult:
    """One metric on one data set.

    Attributes
    ----------
    metric
        What was measured.
    mean
        The mean over the counted queries, weighted if the queries are.
    standard_error
        Of that mean, from the spread between queries; NaN for one query.
    counted, skipped
        How many queries the mean is over, and how many `empty="skip"` left out.
    values
        One per query, in the order of the data; NaN where the query was skipped.
    """

    metric: Metric
    mean: float
    standard_error: float
    counted: int
    skipped: int
    values: Floats

    @classmethod
    def from_values(
        cls,
        metric: Metric,
        values: Floats,
        weights: NDArray[np.float64] | None,
        shard: Shard | None = None,
    ) -> MetricResult:
        counted = ~np.isnan(values)
        kept, weight = values[counted], _weights_of(counted, weights)
        n_all, peers = (len(values), ALONE) if shard is None else (shard.n_queries, shard.peers)
        total, summed = exact_sums([weight, kept * weight], n_all, 1, peers)
        if total <= 0:
            raise DataError(
                f"{metric} must have at least one query to average"
                f"{'' if weights is None else ' with a weight above 0'}: all {n_all} have no "
                f"relevant document or pair. Choose empty=zero or empty=one to count them."
            )
        mean = summed / total
        error = math.nan
        if len(kept) > 1:
            spread = ((weight * (kept - mean)) ** 2).sum() * len(kept) / (len(kept) - 1)
            error = math.sqrt(spread) / total
        return cls(metric, mean, error, len(kept), len(values) - len(kept), values)


class Evaluation(Mapping[str, float]):
    """The table that `evaluate` gives: metric name to mean, in the order asked.

    A mapping from canonical name to mean; `results` has the whole of each row. Prints as a
    table; `to_dict()` is for JSON.
    """

    def __init__(self, results: Sequence[MetricResult]) -> None:
        self.results = {str(result.metric): result for result in results}

    def __getitem__(self, name: str) -> float:
        return self.results[name].mean

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def per_query(self, name: str) -> Floats:
        """The value of each query under a metric of the table; NaN where skipped."""
        return self.results[name].values

    def to_dict(self) -> dict[str, dict[str, float | int | None]]:
        """Plain numbers; the standard error of a single query is None."""
        return {
            name: {
                "mean": row.mean,
                "standard_error": None if math.isnan(row.standard_error) else row.standard_error,
                "counted": row.counted,
                "skipped": row.skipped,
            }
            for name, row in self.results.items()
        }

    def __str__(self) -> str:
        width = max(len("metric"), *(len(name) for name in self.results))
        lines = [f"{'metric':<{width}}    mean  std.error  queries  skipped"]
        for name, row in self.results.items():
            error = "        -" if math.isnan(row.standard_error) else f"{row.standard_error:9.4f}"
            lines.append(
                f"{name:<{width}}  {row.mean:6.4f}  {error}  {row.counted:7d}  {row.skipped:7d}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Evaluation: {', '.join(f'{name}={mean:.4f}' for name, mean in self.items())}>"


DEFAULT_METRICS = ("ndcg@10", "map", "mrr", "err")


def evaluate(
    data: Documents | ArrayLike,
    scores: ArrayLike,
    metrics: MetricLike | Sequence[MetricLike] = DEFAULT_METRICS,
    *,
    qid: ArrayLike | None = None,
    group: ArrayLike | None = None,
    split_queries: SplitQueries = "error",
    weights: ArrayLike | None = None,
    document_ids: ArrayLike | None = None,
    document_weights: ArrayLike | None = None,
    more_labels: Mapping[str, ArrayLike] | None = None,
    preset: str | None = None,
    n_jobs: int | None = None,
) -> Evaluation:
    """Measure scores with one or several metrics.

    Parameters
    ----------
    data
        A Dataset, or the labels, with `qid=` or `group=` to say which rows form a query.
    scores
        One per document; higher is better. NaN is refused, infinities rank first and last.
    metrics
        Names or values; see `rankgrove.metrics.spec`.
    split_queries
        "error", or "group" to bring the rows of a query together first.
    weights
        One per query; the Dataset's own by default.
    document_ids
        For `ties=document_id`; the Dataset's own by default.
    document_weights
        One per document; the Dataset's own by default. `pair_accuracy` counts a pair by the product
        of the two; every other metric is one of positions, where they have no meaning, and refuses
        them.
    more_labels
        Further labels by name, for metrics as "ndcg@10 of clicks"; the Dataset's own by default.
    preset
        Whose policies apply where a name does not say: see `parse_metric`.
    n_jobs
        Threads; the result has the same bits for any number.

    Examples
    --------
    >>> print(evaluate([1, 0, 0, 1], [0.3, 0.2, 0.9, 0.1], ["mrr", "map"], qid=[1, 1, 2, 2]))
    metric    mean  std.error  queries  skipped
    mrr     0.7500     0.2500        2        0
    map     0.7500     0.2500        2        0
    """
    chosen = parse_metrics(metrics, preset=preset)
    if isinstance(data, Documents):
        if qid is not None or group is not None:
            raise DataError("qid and group must not be given with a Dataset, which has its own.")
        labels: NDArray[Any] = data.labels
        offsets, order = data.offsets, None
        weights = data.weights if weights is None else weights
        document_ids = data.document_ids if document_ids is None else document_ids
        if document_weights is None:
            document_weights = data.document_weights
        more_labels = data.more_labels if more_labels is None else more_labels
    else:
        labels = as_floats(data, "labels", np.float32)
        if len(labels) == 0:
            raise DataError("labels must have at least one entry. Got none.")
        offsets, _, order = make_queries(len(labels), qid, group, split_queries)
    ids = None if document_ids is None else np.asarray(document_ids)
    if ids is not None and ids.shape != labels.shape:
        raise DataError(f"document_ids must be one per document, {len(labels)}. Got {ids.shape}.")
    refused = [metric for metric in chosen if not metric.weighs_documents]
    if document_weights is not None and refused:
        raise DataError(
            f"{refused[0]} must be measured without document weights: a position has none. Got "
            f"some: leave them out, or choose pair_accuracy."
        )
    of_documents = checked_weights("document_weights", document_weights, "document", len(labels))
    rankings = Rankings(
        labels, scores, offsets, order=order, document_ids=ids, document_weights=of_documents,
        more_labels=_checked_labels(more_labels, len(labels)), n_jobs=n_jobs,
    )  # fmt: skip
    # NaN shows in the minimum, and the range is needed later anyway.
    if not np.isfinite(rankings.label_range).all():
        row = int((~np.isfinite(labels)).argmax())
        raise DataError(f"every label must be finite. Got {labels[row]} at row {row}.")
    of_queries = checked_weights("weights", weights, "query", rankings.n_queries)
    return Evaluation(measure(rankings, chosen, of_queries))


def _checked_labels(
    more_labels: Mapping[str, ArrayLike] | None, n_documents: int
) -> dict[str, NDArray[Any]]:
    """Further labels that are given, one per document, checked."""
    checked = {}
    for name, values in (more_labels or {}).items():
        labels = as_floats(values, f"labels {name!r}", np.float32)
        if len(labels) != n_documents or not np.isfinite(labels).all():
            raise DataError(
                f"labels {name!r} must be finite, one per document, {n_documents}. Got "
                f"{len(labels)}, or one that is not finite."
            )
        checked[name] = labels
    return checked


def measure_dataset(
    data: Documents,
    scores: ArrayLike,
    metrics: MetricLike | Sequence[MetricLike] = DEFAULT_METRICS,
    n_jobs: int | None = None,
) -> Evaluation:
    """As `evaluate`, of data whose document weights may be there for training.

    Validation, cross-validation, tuning and comparisons measure so: metrics of positions do not
    count document weights, where `evaluate` refuses them.
    """
    return Evaluation(
        measure(Rankings.of_data(data, scores, n_jobs), parse_metrics(metrics), data.weights)
    )


def prepare_metrics(
    data: Documents, metrics: Sequence[Metric], n_jobs: int | None = None
) -> Callable[[ArrayLike], list[float]]:
    """The means of metrics on data whose scores come again and again, as after each tree.

    They are those of `measure_dataset`, to the bit. What labels alone decide is found once: whether
    each metric takes them and has a query to average, which queries count and what they weigh,
    their range, the ideal ranking and what it is worth. The sums over queries of all metrics are
    one exchange between workers.

    >>> from rankgrove import make_web_search, parse_metric
    >>> data = make_web_search(20, 16)
    >>> prepare_metrics(data, [parse_metric("ndcg@10"), parse_metric("mrr")])(data.labels)
    [1.0, 1.0]
    """
    rankings = Rankings.of_data(data, np.zeros(data.n_documents), n_jobs)
    # Any scores show whether these data can be measured at all, and which queries count.
    found = measure(rankings, metrics, data.weights, data.shard)
    if not all(metric.skips_by_labels for metric in metrics):

        def measured(scores: ArrayLike) -> list[float]:
            results = measure(rankings.with_scores(scores), metrics, data.weights, data.shard)
            return [result.mean for result in results]

        return measured
    counted = [~np.isnan(result.values) for result in found]
    weights = [_weights_of(kept, data.weights) for kept in counted]
    n_all, peers = data.shard.n_queries, data.shard.peers
    totals = exact_sums(weights, n_all, 1, peers)

    def summed(scores: ArrayLike) -> list[float]:
        values = _values_of(rankings.with_scores(scores), metrics)
        columns = [
            each[kept] * weight for each, kept, weight in zip(values, counted, weights, strict=True)
        ]
        sums = exact_sums(columns, n_all, 1, peers)
        return [one / total for one, total in zip(sums, totals, strict=True)]

    return summed


def measure(
    rankings: Rankings,
    metrics: Sequence[Metric],
    weights: Floats | None,
    shard: Shard | None = None,
) -> list[MetricResult]:
    """What each metric says of rankings that are checked, over all workers.

    A metric that knows document weights counts by them.
    """
    return [
        MetricResult.from_values(metric, values, weights, shard)
        for metric, values in zip(metrics, _values_of(rankings, metrics), strict=True)
    ]


def _values_of(rankings: Rankings, metrics: Sequence[Metric]) -> list[Floats]:
    """The values of each metric, one per query; NaN where it is skipped."""
    for metric in metrics:
        metric.plan(rankings)
    if rankings.n_queries == 0:
        # (A worker may have no query.)
        return [np.empty(0) for _ in metrics]
    return [metric.per_query(rankings) for metric in metrics]


def _weights_of(counted: NDArray[np.bool_], weights: Floats | None) -> Floats:
    """What the queries weigh that count."""
    return np.ones(np.count_nonzero(counted)) if weights is None else weights[counted]


def checked_weights(
    name: str, weights: ArrayLike | None, unit: str, count: int
) -> NDArray[np.float64] | None:
    """Weights that are given, one per unit, checked."""
    if weights is None:
        return None
    array = as_floats(weights, name, np.float64)
    if len(array) != count:
        raise DataError(f"{name} must be one per {unit}, {count}. Got {len(array)}.")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise DataError(f"{name} must be finite and 0 or more.")
    return array
