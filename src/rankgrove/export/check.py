"""Does the file score as the model does: asked of who reads it, document by document."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.dataset import Dataset
from rankgrove.errors import MissingExtraError
from rankgrove.export.format import (
    Agreement,
    Consumer,
    Exportable,
    ExportError,
    Floats,
    Format,
    Options,
    Rows,
)
from rankgrove.metrics.evaluate import measure_dataset

METRIC = "ndcg@10"


@dataclass(frozen=True)
class Check:
    """What one consumer made of the file.

    Attributes
    ----------
    checked_by
        The consumer and its version, or whose rules were followed.
    is_emulated
        Whether these were the written rules of an engine, not the engine itself.
    n_documents
        How many documents were compared.
    n_same
        How many have the same score, to the bit or after the rounding that the format states.
    rounding
        What is the same then: "bits", "float32"; "" where the format promises a bound only.
    largest_difference, bound
        Of a score from that of Rankgrove, and the largest that the format states; a bound of None
        asks for equality.
    left_out
        Documents that the format does not score alike, as it says, by reason: not compared.
    n_queries, n_reordered
        How many queries there were, and in how many the documents stand in another order, ties in
        the order of the data; None for made documents.
    metric, here, there
        A metric of the data by the scores of Rankgrove and of the consumer; None for made documents
        and for data on which it has no value.
    """

    checked_by: str
    is_emulated: bool
    n_documents: int
    n_same: int
    rounding: str
    largest_difference: float
    bound: float | None
    left_out: dict[str, int]
    n_queries: int | None = None
    n_reordered: int | None = None
    metric: str | None = None
    here: float | None = None
    there: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the file scores as the format says it does."""
        if self.bound is None:
            return self.n_same == self.n_documents
        return self.largest_difference <= self.bound

    def describe(self) -> dict[str, Any]:
        """Its fields as plain values."""
        return asdict(self)


def consumers_at_hand(written: Format, options: Options) -> list[tuple[Consumer, str]]:
    """Who can check a format here, with their versions: the real ones, or else an emulator."""
    readers = [consumer for consumer in written.consumers if consumer.reads(options)]
    versions = [(consumer, consumer.version()) for consumer in readers]
    present = [(consumer, found) for consumer, found in versions if found is not None]
    real = [entry for entry in present if not entry[0].is_emulated]
    return real or present[:1]


def check_content(
    written: Format,
    source: Exportable,
    content: bytes,
    options: Options,
    rows: Rows,
    data: Dataset | None = None,
) -> list[Check]:
    """Score documents by the content of a file, and compare with the model.

    Parameters
    ----------
    written, source, content, options
        The format, the model, the file and the options that it was written with.
    rows
        The documents.
    data
        Where they come from: for queries and a metric.

    A difference beyond what the format states is an `ExportError`.
    """
    # As a matrix: `predict` wants categories with names by their names, and no file has these.
    # As `predict` does, but categories already are the numbers that stand for them.
    scores = source.as_model()._score(rows.features, rows.base, None, None)
    outside = written.outside(source, options, rows)
    agreement = written.agreement(options)
    checks = []
    for consumer, version in consumers_at_hand(written, options):
        name = f"{consumer.name} {version}".strip()
        there = _scores_of(consumer, content, rows, options)
        check = _compared(name, consumer, agreement, source, scores, there, outside, data)
        if not check.holds:
            raise ExportError(_failure(written, check))
        checks.append(check)
    return checks


def _scores_of(consumer: Consumer, content: bytes, rows: Rows, options: Options) -> NDArray[Any]:
    try:
        return np.asarray(consumer.score(content, rows, options))
    except (ExportError, MissingExtraError, MemoryError):
        raise
    except Exception as error:
        # Whatever another program raises, the file is not one to ship.
        problem = " ".join(str(error).split())[:300]
        raise ExportError(
            f"{consumer.name} must read what was written. Got {type(error).__name__}: {problem}. "
            f"No file was written; please report this."
        ) from error


def _compared(
    name: str,
    consumer: Consumer,
    agreement: Agreement,
    source: Exportable,
    here: Floats,
    there: NDArray[Any],
    outside: dict[str, NDArray[np.bool_]],
    data: Dataset | None,
) -> Check:
    if there.shape != here.shape:
        raise ExportError(f"{name} must give one score per document. Got shape {there.shape}.")
    left_out = {reason: int(mask.sum()) for reason, mask in outside.items() if mask.any()}
    inside = ~np.logical_or.reduce([np.zeros(len(here), dtype=bool), *outside.values()])
    same = there == agreement.rounded(here)
    # NaN, which no score of Rankgrove is, is as far away as can be.
    apart = np.nan_to_num(np.abs(there.astype(np.float64) - here), nan=np.inf, posinf=np.inf)
    measured: dict[str, Any] = {}
    if data is not None:
        measured = _of_queries(data, here, there.astype(np.float64))
    return Check(
        checked_by=name,
        is_emulated=consumer.is_emulated,
        n_documents=int(inside.sum()),
        n_same=int(same[inside].sum()),
        rounding=agreement.words,
        largest_difference=float(apart[inside].max(initial=0.0)),
        bound=None if agreement.words else agreement.bound(source),
        left_out=left_out,
        **measured,
    )


def _of_queries(data: Dataset, here: Floats, there: Floats) -> dict[str, Any]:
    found: dict[str, Any] = {
        "n_queries": data.n_queries,
        "n_reordered": reordered_queries(data.offsets, here, there),
    }
    if not np.isfinite(there).all():
        return found
    try:
        here_value, there_value = (measure_dataset(data, s, METRIC)[METRIC] for s in (here, there))
    except ValueError:
        return found  # labels that the metric does not take, or no query that it counts
    return {**found, "metric": METRIC, "here": here_value, "there": there_value}


def reordered_queries(offsets: NDArray[Any], here: Floats, there: Floats) -> int:
    """In how many queries two scores put the documents into another order, ties as they stand.

    >>> reordered_queries(np.array([0, 2, 4]), np.array([2.0, 1, 2, 1]), np.array([5.0, 5, 1, 2]))
    1
    """
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    differs = np.lexsort((-here, query)) != np.lexsort((-there, query))
    return len(np.unique(query[differs]))


def _failure(written: Format, check: Check) -> str:
    n_apart = check.n_documents - check.n_same
    if check.bound is None:
        rule = f"give every document the same {check.rounding}"
        got = f"{n_apart:,} of {check.n_documents:,} others, {check.largest_difference:.2g} apart"
    else:
        rule = f"stay within {check.bound:.2g} of the score"
        got = f"a difference of {check.largest_difference:.2g}"
    return (
        f"{written.name}: {check.checked_by} must {rule}. Got {got}. No file was written: export "
        f"to another format, and please report this."
    )


def check_table(checks: Iterable[Check]) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of the table that `rankgrove export` prints."""
    checks = list(checks)
    of_data = any(check.n_queries is not None for check in checks)
    measured = next((check.metric for check in checks if check.metric), None)
    header = ["checked by", "documents", "same score", "largest difference"]
    header += ["queries in another order"] if of_data else []
    header += [f"{measured} here / there"] if measured else []
    rows = []
    for check in checks:
        if check.bound is None:
            same = "all" if check.n_same == check.n_documents else f"{check.n_same:,}"
            same += f" ({check.rounding})"
        else:
            same = f"within {check.bound:.1e}"
        row = [check.checked_by, f"{check.n_documents:,}", same]
        row.append(f"{check.largest_difference:.1e}" if check.largest_difference else "0")
        row += [f"{check.n_reordered:,} of {check.n_queries:,}"] if of_data else []
        row += [f"{check.here:.4f} / {check.there:.4f}"] if measured else []
        rows.append(row)
    return header, rows
