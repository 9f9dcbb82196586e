"""Reads LETOR text chunk by chunk, each parsed straight into its rows of the final matrix.

Where the text names few of many features, chunks are parsed into cells of their own instead.

The caller's thread reads the text and counts the rows of each chunk, so that it knows where
they go; threads parse several chunks side by side; chunks are finished in the order of the
text, so that the first error of the text is the one that is raised. When a chunk turns out not
to fit the columns so far, the others are waited for and the rows are laid out anew. Cells have
indices as they stand in the text, so they fit whatever comes.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import submit
from rankgrove.data import letor_outcome as outcomes
from rankgrove.data.letor_cells import TO_ROW, Cells
from rankgrove.data.letor_text import count_rows, parse_chunk
from rankgrove.data.queries import SplitQueries, offsets_of
from rankgrove.data.rows import GrowingRows, check_dense_memory, check_sparse_memory
from rankgrove.data.sparse_features import Features, SparseFeatures, stays_sparse
from rankgrove.data.streams import LineReader, Source
from rankgrove.errors import DataError, ParseError, parameter

# Small enough to stay in the cache between being read and being parsed, large enough that
# handing it to a thread costs nothing next to parsing it.
CHUNK_BYTES = 1 << 21
_PROBE_BYTES = 1 << 16
_HARDS = 256

# An index past this is a mistake, unless n_features allows it.
LARGEST_INDEX = 1 << 20

IndexBase = Literal["auto", 0, 1]
Absent = Literal["zero", "missing"]
ABSENT = {"zero": 0.0, "missing": float("nan")}

_PROBLEMS = {
    outcomes.BAD_LABEL: "the label must be a finite decimal number. Got {token}.",
    outcomes.LABEL_RANGE: "the label must fit into float32 (up to 3.4e38). Got {token}.",
    outcomes.EMPTY_QID: "qid: must be followed by the query id, without a blank. Got {token}.",
    outcomes.BAD_FEATURE: "a feature must be index:value, the index a whole number. Got {token}.",
    outcomes.INDEX_RANGE: "a feature index must be at most {highest}. Got {token}; if it is right, "
    f"pass a larger {parameter('n_features')}.",
    outcomes.INDEX_ZERO: f"with {parameter('index_base', 1)} a feature index must be at least 1. "
    f"Got {{token}}; pass {parameter('index_base', 0)} or 'auto'.",
    outcomes.INDEX_TWICE: "a feature index must come once in a line. Got {token}, the index again.",
    outcomes.BAD_VALUE: "a feature value must be a decimal number, inf, or nan, null or na for "
    "missing. Got {token}.",
    outcomes.VALUE_RANGE: "a feature value must fit into float32 (up to 3.4e38). Got {token}: "
    "rescale that feature.",
    outcomes.STRAY_RETURN: "a carriage return must be followed by a newline. Got {token}.",
}
_QID_ABSENT = (
    "every line must have qid: and the query id after its label. Got {token}; add it, or pass "
    f"the number of lines of each query as {parameter('group=')}."
)
_QID_PRESENT = (
    f"no line may have a qid: where the query sizes come from {parameter('group=')} or a .query "
    "file. Got {token}; leave out these sizes, or the qid: of all lines."
)
_NOT_UTF8 = "text must be UTF-8. Got {token}; convert the file."
_ZERO_CONFLICT = (
    "index 0 means that all indices must be below n_features = {n_features}. Got {token}, but "
    "index {n_features} came before; pass "
    f"{parameter('index_base')}, or a larger {parameter('n_features')}."
)
_TOKEN = re.compile(rb"[^ \t\r\n#]*")


class LetorOptions(NamedTuple):
    """How to understand a text; see `read_letor`."""

    index_base: IndexBase = "auto"
    absent: Absent = "zero"
    n_features: int | None = None
    document_ids: bool = False
    split_queries: SplitQueries = "error"
    feature_names: Sequence[str] | None = None
    n_jobs: int | None = None


class Parsed(NamedTuple):
    """What the text says, in the order of its lines.

    A run is a stretch of lines with the same bytes as query id; `run_starts` has the row and the
    line (from 1) where each begins. Without query ids in the text there are no runs.
    """

    features: Features
    labels: NDArray[np.float32]
    run_ids: list[bytes]
    run_starts: NDArray[np.int64]
    comments: list[str]


class _Chunk:
    """A piece of text on its way through the parser."""

    def __init__(self, buffer: bytearray, size: int, first_row: int, first_line: int) -> None:
        self.buffer, self.size = buffer, size
        self.first_row, self.first_line = first_row, first_line
        self.text: NDArray[np.uint8] = np.frombuffer(buffer, dtype=np.uint8)
        self.text.flags.writeable = False
        self.n_lines, self.n_rows = count_rows(self.text, size)
        self.future: Future[None] | None = None
        self.zero_at = -1
        self.hards: NDArray[np.int64] = np.empty((_HARDS, 2), dtype=np.int64)
        self.runs: NDArray[np.int64]
        self.comments: NDArray[np.int64]
        self.outcome: NDArray[np.int64]
        self.cells: Cells | None = None

    def wait(self) -> None:
        if self.future is not None:
            self.future.result()

    def fits(self) -> bool:
        return not self.outcome[outcomes.INCOMPLETE] and self.outcome[outcomes.HARDS] <= len(
            self.hards
        )

    def names(self, size: int, with_qid: bool) -> tuple[int, int]:
        """The rows of its first bytes, and about how many features these name."""
        n_rows = int(count_rows(self.text, size)[1])
        return n_rows, self.buffer.count(b":", 0, size) - n_rows * with_qid

    def token(self, position: int) -> bytes:
        match = _TOKEN.match(self.buffer, position, self.size)
        return match.group() if match else b""


class LetorReader:
    """One reading of one text, by options that are checked and name the number of threads.

    `with_qid` is 1 or 0 if rows must have or must not have a query id, -1 if the first decides.
    """

    def __init__(self, source: Source, options: LetorOptions, with_qid: int) -> None:
        self.source, self.lines = source, LineReader(source, CHUNK_BYTES)
        self.base = 0 if options.index_base == 0 else 1
        self.lowest = 1 if options.index_base == 1 else 0
        self.n_features, self.document_ids = options.n_features, options.document_ids
        self.with_qid, self.n_jobs = with_qid, options.n_jobs or 1
        self.rows = GrowingRows(source.name, self.n_features or 0, ABSENT[options.absent])
        # Cells of the chunks that are finished, where the text is sparse: columns, values, sizes.
        self.pieces: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] | None = None
        self.probed = False
        self.in_flight: deque[_Chunk] = deque()
        self.n_rows = self.n_lines = self.n_bytes = self.n_cells = 0
        self.in_blocks = False
        self.end_index = self.base
        self.run_ids: list[bytes] = []
        self.run_starts = [np.empty((0, 2), dtype=np.int64)]
        self.comments: list[str] = []

    @property
    def highest(self) -> int:
        return LARGEST_INDEX if self.n_features is None else self.n_features - 1 + self.base

    def _width(self, end_index: int) -> int:
        """The columns of rows whose indices are below an end."""
        return end_index - self.base if self.n_features is None else self.n_features

    def read(self) -> Parsed:
        """Read the text to its end."""
        for _ in self._chunks():
            pass
        self._refuse_empty(self.n_rows)
        width = self._width(self.end_index)
        features: Features
        if self.pieces is None:
            features, labels = self.rows.finish(self.n_rows, width)
        else:
            _, labels = self.rows.finish(self.n_rows, 0)
            features = self._join(self.pieces, width)
        run_starts = np.concatenate(self.run_starts)
        return Parsed(features, labels, self.run_ids, run_starts, self.comments)

    def _join(self, pieces: list[Any], width: int) -> Features:
        """The rows of all pieces; they are let go."""
        columns, values, sizes = ([piece[k] for piece in pieces] for k in range(3))
        pieces.clear()
        indices = np.concatenate(columns)
        columns.clear()
        indices -= np.int32(self.base)
        starts = offsets_of(np.concatenate(sizes))
        absent = float(self.rows.absent)
        sparse = SparseFeatures.of(starts, indices, np.concatenate(values), width, absent)
        if stays_sparse(*sparse.shape, sparse.n_stored):
            return sparse
        check_dense_memory(self.source.name, *sparse.shape)
        return np.asarray(sparse)

    def blocks(self, least_rows: int) -> Iterator[Parsed]:
        """Read the text in blocks of at least so many rows, the last one maybe less.

        A block has the columns that are known by then, `rows.width` of them. Its features stand in
        memory that the next block uses again.
        """
        self.in_blocks, n_all = True, 0
        for _ in self._chunks():
            if self.n_rows >= least_rows:
                n_all += self.n_rows
                yield self._hand_on()
        n_all += self.n_rows
        self._refuse_empty(n_all)
        if self.n_rows:
            yield self._hand_on()

    def _hand_on(self) -> Parsed:
        while self.in_flight:
            self._finish()
        n_rows, width = self.n_rows, self.rows.width
        block = Parsed(
            self.rows.matrix[: n_rows * width].reshape(n_rows, width),
            self.rows.labels[:n_rows].copy(),
            self.run_ids,
            np.concatenate(self.run_starts),
            self.comments,
        )
        self.n_rows, self.run_ids, self.comments = 0, [], []
        self.run_starts = [np.empty((0, 2), dtype=np.int64)]
        return block

    def _chunks(self) -> Iterator[None]:
        """Have one chunk after the other parsed."""
        try:
            while (piece := self.lines.next_chunk()) is not None:
                self._begin(_Chunk(*piece, self.n_rows, self.n_lines))
                while len(self.in_flight) > (self.n_jobs if self.n_jobs > 1 else 0):
                    self._finish()
                yield
            while self.in_flight:
                self._finish()
        finally:
            for chunk in self.in_flight:
                if chunk.future is not None and not chunk.future.cancel():
                    chunk.wait()

    def _refuse_empty(self, n_rows: int) -> None:
        if n_rows == 0:
            raise DataError(
                f"{self.source.name}: must have at least one line that is neither blank nor a "
                f"comment. Got none."
            )

    def _begin(self, chunk: _Chunk) -> None:
        """Find the rows of a chunk their place, and have them parsed."""
        if not self.probed:
            self._probe(chunk)
        self.n_rows += chunk.n_rows
        self.n_lines += chunk.n_lines
        self.n_bytes += chunk.size
        if not self.rows.fits(self.n_rows):
            self._wait()
            expected = 0
            if self.source.size is not None and not self.in_blocks:
                rest = max(0, self.source.size - self.n_bytes)
                expected = self.n_rows + int(1.02 * rest * chunk.n_rows / chunk.size)
            self.rows.reserve(self.n_rows, expected)
        self.in_flight.append(chunk)
        self._start(chunk)

    def _probe(self, chunk: _Chunk) -> None:
        """Learn from the first lines whether they have query ids, and the likely columns."""
        size = chunk.size
        if size > _PROBE_BYTES:
            size = (chunk.buffer.find(b"\n", _PROBE_BYTES, chunk.size) + 1) or chunk.size
        self._parse(chunk, size, np.empty(0, np.float32), np.empty(chunk.n_rows, np.float32), 0, 0)
        self.with_qid = int(chunk.outcome[outcomes.WITH_QID])
        if self.n_features is None and chunk.outcome[outcomes.ZERO_AT] >= 0:
            self.base = self.end_index = 0
        self.probed = self.with_qid >= 0
        width = self._width(int(chunk.outcome[outcomes.END_INDEX]))
        if self._is_sparse(chunk, size, width):
            self.pieces = []
            self.rows.drop_matrix()
        elif width > self.rows.width:
            self.rows.widen(0, width, 0, width)

    def _is_sparse(self, chunk: _Chunk, size: int, width: int) -> bool:
        """Whether the first bytes of a chunk name few of so many features."""
        n_rows, n_named = chunk.names(size, self.with_qid == 1)
        return not self.in_blocks and n_rows > 0 and stays_sparse(n_rows, width, n_named)

    def _start(self, chunk: _Chunk) -> None:
        rows, width = self.rows, self.rows.width
        matrix: NDArray[np.float32] | None = rows.matrix
        if self.pieces is not None:
            chunk.cells = Cells.make(chunk.size, chunk.n_rows, float(rows.absent))
            matrix, width = None, self.highest + 1 - self.base
        arguments = (chunk, chunk.size, matrix, rows.labels, chunk.first_row, width)
        if self.n_jobs > 1 and not (self.lines.ended and len(self.in_flight) == 1):
            chunk.future = submit(self.n_jobs, self._parse, *arguments)
        else:
            chunk.future = None
            self._parse(*arguments)

    def _parse(
        self,
        chunk: _Chunk,
        size: int,
        matrix: NDArray[np.float32] | None,
        labels: NDArray[np.float32],
        first_row: int,
        width: int,
    ) -> None:
        chunk.runs = np.empty((chunk.n_rows, 4), dtype=np.int64)
        n_comments = chunk.n_rows if self.document_ids else 0
        chunk.comments = np.zeros((n_comments, 2), dtype=np.int64)
        chunk.outcome = np.zeros(outcomes.N_OUTCOMES, dtype=np.int64)
        chunk.outcome[outcomes.WITH_QID] = self.with_qid
        chunk.outcome[outcomes.ZERO_AT] = -1
        # Without the compiler, NumPy would warn of what the kernel means to do.
        with np.errstate(over="ignore"):
            parse_chunk(
                chunk.text, size, first_row, self.base, width, self.lowest, self.highest,
                self.rows.absent, matrix, chunk.cells, labels, chunk.runs, chunk.comments,
                chunk.hards, chunk.outcome,
            )  # fmt: skip

    def _wait(self) -> None:
        for chunk in self.in_flight:
            chunk.wait()

    def _finish(self) -> None:
        """Take up what the first chunk in flight has brought."""
        chunk = self.in_flight[0]
        chunk.wait()
        while not chunk.fits():
            self._refit(chunk)
            chunk.wait()
        problems = []
        if self._zero_conflicts(chunk):
            problems.append((chunk.zero_at, _ZERO_CONFLICT))
            # For what else there is before that place, by the rules that held up to there.
            self.base = 1
            self._start(chunk)
            chunk.wait()
        problems += [*self._code_problems(chunk), *self._take_hards(chunk)]
        problems += [*self._take_runs(chunk), *self._take_comments(chunk)]
        if problems:
            raise self._error(chunk, *min(problems))
        self.end_index = max(self.end_index, int(chunk.outcome[outcomes.END_INDEX]))
        self._take_cells(chunk)
        self.in_flight.popleft()
        self.lines.release(chunk.buffer)

    def _refit(self, chunk: _Chunk) -> None:
        """Make columns for all of a chunk's indices, or room for its hard numbers; parse again."""
        self._wait()
        outcome = chunk.outcome
        if outcome[outcomes.HARDS] > len(chunk.hards):
            chunk.hards = np.empty((2 * outcome[outcomes.HARDS], 2), dtype=np.int64)
        if outcome[outcomes.INCOMPLETE]:
            shift = int(outcome[outcomes.ZERO_AT] >= 0)
            if shift:
                chunk.zero_at = int(outcome[outcomes.ZERO_AT])
                self.base = 0
            width = self._width(max(self.end_index, int(outcome[outcomes.END_INDEX])))
            if self.pieces is None and self._is_sparse(chunk, chunk.size, width):
                # What there is of them is compressed: they have turned out to be wide.
                self.pieces = [self.rows.compress(chunk.first_row, self.base + shift)]
                self.n_cells = len(self.pieces[0][0])
            elif self.pieces is None:
                self.rows.widen(chunk.first_row, width, shift, self.highest + 1 - self.base)
        for other in self.in_flight:
            self._start(other)

    def _zero_conflicts(self, chunk: _Chunk) -> bool:
        """Whether index 0 came in this chunk, and before it an index that it forbids."""
        if self.n_features is None or chunk.zero_at < 0:
            return False
        outcome = chunk.outcome
        too_large = (
            outcome[outcomes.CODE] == outcomes.INDEX_RANGE
            and outcome[outcomes.POSITION] < chunk.zero_at
        )
        return bool(too_large) or self.end_index > self.n_features

    def _code_problems(self, chunk: _Chunk) -> Iterator[tuple[int, str]]:
        code, position = int(chunk.outcome[outcomes.CODE]), int(chunk.outcome[outcomes.POSITION])
        if code == outcomes.MIXED_QID:
            yield position, _QID_ABSENT if self.with_qid else _QID_PRESENT
        elif code != outcomes.OK:
            yield position, _PROBLEMS[code]

    def _take_hards(self, chunk: _Chunk) -> Iterator[tuple[int, str]]:
        """Parse the numbers that the kernel left over, by the definition."""
        for position, slot in chunk.hards[: chunk.outcome[outcomes.HARDS]].tolist():
            with np.errstate(over="ignore"):
                value = np.float32(float(chunk.token(position)))
            if np.isinf(value):
                yield (
                    position,
                    _PROBLEMS[outcomes.VALUE_RANGE if slot >= 0 else outcomes.LABEL_RANGE],
                )
            elif slot >= 0 and chunk.cells is not None:
                row, index = divmod(slot, TO_ROW)
                columns, values, ends, _ = chunk.cells
                start, end = ends[row : row + 2]
                values[start + np.searchsorted(columns[start:end], index)] = value
            elif slot >= 0:
                self.rows.matrix[slot] = value
            else:
                self.rows.labels[-1 - slot] = value

    def _take_cells(self, chunk: _Chunk) -> None:
        """Keep the cells of a chunk, in arrays of their own size."""
        if self.pieces is None or chunk.cells is None:
            return
        columns, values, ends, _ = chunk.cells
        n, chunk.cells = ends[-1], None
        self.pieces.append((columns[:n].copy(), values[:n].copy(), np.diff(ends)))
        self.n_cells += int(n)
        check_sparse_memory(self.source.name, self.n_rows, self.n_cells)

    def _take_runs(self, chunk: _Chunk) -> Iterator[tuple[int, str]]:
        runs = chunk.runs[: chunk.outcome[outcomes.RUNS]]
        ids = [bytes(chunk.buffer[start:end]) for start, end in runs[:, 2:].tolist()]
        for id_, start in zip(ids, runs[:, 2].tolist(), strict=True):
            try:
                id_.decode()
            except UnicodeDecodeError as error:
                yield start + error.start, _NOT_UTF8
        self.run_ids += ids
        self.run_starts.append(runs[:, :2] + np.array([0, chunk.first_line + 1]))

    def _take_comments(self, chunk: _Chunk) -> Iterator[tuple[int, str]]:
        for start, end in chunk.comments.tolist():
            try:
                self.comments.append(chunk.buffer[start:end].decode().strip(" \t\r"))
            except UnicodeDecodeError as error:
                yield start + error.start, _NOT_UTF8

    def _error(self, chunk: _Chunk, position: int, problem: str) -> ParseError:
        token = chunk.token(position).decode(errors="backslashreplace")
        if len(token) > 40:
            token = token[:40] + "…"
        shown = problem.format(
            token=repr(token) if token else "the end of the line",
            highest=self.highest,
            n_features=self.n_features,
        )
        line = chunk.first_line + chunk.buffer.count(b"\n", 0, position) + 1
        column = position - chunk.buffer.rfind(b"\n", 0, position)
        return ParseError(shown, self.source.name, line, column)
