"""Scores in files, to read and to write: lines of numbers, a table, a run; or from a feature."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.cli.console import count, warn
from rankgrove.data.dataset import Dataset
from rankgrove.data.files import format_of, read_lines, read_numbers
from rankgrove.errors import DataError, ParameterError, ParseError, unknown_name

Scores = NDArray[np.float64]

# So many lines are written at once.
_BLOCK = 1 << 14
_TAG = "rankgrove"


def scores_from_lines(path: Path, n_documents: int) -> Scores:
    """One number per line."""
    advice = "The column of a table is read with --score-column NAME, a TREC run with --run."
    return _check_count(path, read_numbers(path, "a score", advice), n_documents)


def scores_from_table(path: Path, column: str, n_documents: int) -> Scores:
    """One column of a CSV or TSV file with a header."""
    separators = {"csv": ",", "tsv": "\t"}
    separator = separators.get(format_of(path))
    if separator is None:
        raise ParameterError(
            f"--score-column must be used with a CSV or TSV file. Got {os.fspath(path)!r}: rename "
            f"it, or write one score per line."
        )
    rows = csv.reader(_text_lines(path), delimiter=separator)
    scores = []
    try:
        names = next(rows, [])
        if column not in names:
            raise DataError(f"{path}: {unknown_name('the score column', column, names)}")
        at = names.index(column)
        for row in rows:
            if row:
                scores.append(_as_score(row[at] if at < len(row) else "", path, rows.line_num))
    except csv.Error as error:
        raise ParseError(
            f"must be a sound table. Got: {error}.", str(path), rows.line_num, 1
        ) from None
    return _check_count(path, np.array(scores), n_documents)


def scores_from_run(path: Path, data: Dataset) -> Scores:
    """A TREC run, lines of `qid Q0 document-id rank score tag`, matched by both ids.

    The run must have each document of the data once and no other: one that is not in the run
    has no score, and one that is not in the data has no label.
    """
    if data.document_ids is None:
        raise DataError("a run must be matched by document ids. Got data without them.")
    rows: dict[tuple[str, str], int] = {}
    ids = map(_trec_id, data.document_ids.tolist())
    for row, key in enumerate(zip(map(str, data.qid), ids, strict=True)):
        if rows.setdefault(key, row) != row:
            raise DataError(
                f"document ids must differ within a query to match a run. Got {key[1]!r} twice in "
                f"query {key[0]}."
            )
    scores = np.full(len(rows), np.nan)
    for line, text in enumerate(_text_lines(path), start=1):
        fields = text.split()
        if not fields:
            continue
        if len(fields) != 6:
            problem = f"a line must be 'qid Q0 document-id rank score tag'. Got {text.strip()!r}."
            raise ParseError(problem, str(path), line, 1)
        place = rows.get((fields[0], fields[2]))
        if place is None or not np.isnan(scores[place]):
            got = "one that the data do not have" if place is None else "it a second time"
            problem = f"document {fields[2]!r} of query {fields[0]} must be in the data, once"
            raise ParseError(f"{problem}. Got {got}.", str(path), line, 1)
        scores[place] = _as_score(fields[4], path, line)
    missing = np.isnan(scores)
    if missing.any():
        qid, document = list(rows)[int(missing.argmax())]
        raise DataError(
            f"{path}: the run must have a score for each of the {len(rows):,} documents. Got none "
            f"for {missing.sum():,} of them, as document {document!r} of query {qid}."
        )
    return scores


def scores_from_feature(data: Dataset, column: str) -> Scores:
    """A feature by its name or its number, from 1."""
    names = data.feature_names
    if column in names:
        at = names.index(column)
    elif column.isdecimal() and 1 <= int(column) <= len(names):
        at = int(column) - 1
    else:
        raise DataError(
            f"--column must be a feature's name or its number from 1 to {len(names)}. "
            f"Got {column!r}; names are {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}."
        )
    if at in data.levels:
        raise DataError(f"--column must be a feature of numbers. Got {names[at]!r}: categories.")
    if missing := int(np.isnan(data.features[:, at]).sum()):
        warn(f"{names[at]} is missing in {count(missing, 'document')}: these rank last.")
    return feature_scores(data, at)


def feature_scores(data: Dataset, feature: int) -> Scores:
    """The values of a feature as scores; where it is missing, the document ranks last."""
    values = data.features[:, feature].astype(np.float64)
    values[np.isnan(values)] = -np.inf
    return values


def score_lines(scores: Scores) -> Iterator[str]:
    """One number per line, with as few digits as bring back the same score; block by block."""
    for start in range(0, len(scores), _BLOCK):
        yield "".join(f"{score!r}\n" for score in scores[start : start + _BLOCK].tolist())


def score_rows(data: Dataset, scores: Scores, separator: str) -> Iterator[str]:
    """A table with a header: the query, the document id where there is one, and the score."""
    columns = {"qid": data.qid, "document_id": data.document_ids, "score": scores}
    there = {name: values for name, values in columns.items() if values is not None}
    text = io.StringIO()
    rows = csv.writer(text, delimiter=separator, lineterminator="\n")
    rows.writerow(there)
    for start in range(0, len(scores), _BLOCK):
        block = (values[start : start + _BLOCK].tolist() for values in there.values())
        rows.writerows(zip(*block, strict=True))
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def run_lines(data: Dataset, scores: Scores) -> Iterator[str]:
    """A TREC run, query by query, the highest score first; of equal ones, the earlier document."""
    if data.document_ids is None:
        raise DataError("a run must have document ids. Got data without them.")
    # All are looked at before the first line goes out.
    queries = [_run_field("query", qid) for qid in data.query_ids.tolist()]
    documents = [_run_field("document", _trec_id(name)) for name in data.document_ids.tolist()]
    for query, qid in enumerate(queries):
        first, end = data.offsets[query : query + 2].tolist()
        for rank, at in enumerate(np.argsort(-scores[first:end], kind="stable").tolist(), start=1):
            score = float(scores[first + at])
            yield f"{qid} Q0 {documents[first + at]} {rank} {score!r} {_TAG}\n"


def _run_field(what: str, name: Any) -> str:
    text = str(name)
    if len(text.split()) != 1:
        raise DataError(f"the id of a {what} must be one word in a run. Got {text!r}.")
    return text


def _check_count(path: Path, scores: Scores, n_documents: int) -> Scores:
    if len(scores) != n_documents:
        raise DataError(
            f"{path}: must have one score per document, {n_documents:,}. Got {len(scores):,}: are "
            f"the scores and the data of the same part?"
        )
    return scores


def _as_score(text: str, path: Path, line: int) -> float:
    try:
        score = float(text)
    except ValueError:
        score = np.nan
    if score != score or "_" in text:
        raise ParseError(f"a score must be a number. Got {text!r}.", str(path), line, 1)
    return score


def _trec_id(document_id: Any) -> str:
    """The id as a run has it: of LETOR 4.0's `docid = GX1 inc = 1 prob = 0.1` only the GX1."""
    text = str(document_id)
    match = re.match(r"docid\s*=\s*(\S+)", text)
    return match[1] if match else text


def _text_lines(path: Path) -> Iterator[str]:
    for place, line in enumerate(read_lines(path), start=1):
        try:
            yield line.decode()
        except UnicodeDecodeError:
            raise ParseError("text must be UTF-8. Got other bytes.", str(path), place, 1) from None
