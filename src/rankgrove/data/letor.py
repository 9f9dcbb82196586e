"""LETOR text, which is SVMlight text with query ids: to a Dataset and back."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove._jit import as_input, resolve_n_jobs, submit
from rankgrove.data.dataset import Dataset, arranged
from rankgrove.data.letor_format import NUMBER_BYTES, format_rows
from rankgrove.data.letor_reader import ABSENT, Absent, IndexBase, LetorOptions, LetorReader, Parsed
from rankgrove.data.queries import Queries, SplitQueries, queries_from_runs, queries_from_sizes
from rankgrove.data.rows import permute_rows
from rankgrove.data.sparse_features import SparseFeatures
from rankgrove.data.streams import Source, open_for_reading, open_for_writing, read_all
from rankgrove.errors import DataError, ParseError, parameter, refusal, unknown_name, whole_number

Path = str | os.PathLike[str]
Group = ArrayLike | Path

_MOST_FEATURES = 1 << 24
_INTEGER = re.compile(rb"-?[0-9]+")
_SIZE = re.compile(rb"0{0,99}[1-9][0-9]{0,17}")
# What a query id cannot have in it: a blank or # ends it.
_ID_ENDS = re.compile(r"[ \t\r\n#]")
_BLOCK_BYTES = 1 << 22


def read_letor(
    path: Path,
    *,
    group: Group | None = None,
    index_base: IndexBase = "auto",
    absent: Absent = "zero",
    n_features: int | None = None,
    document_ids: bool = False,
    split_queries: SplitQueries = "error",
    feature_names: Sequence[str] | None = None,
    weights: ArrayLike | None = None,
    base_scores: ArrayLike | None = None,
    document_weights: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Dataset:
    """Read a file of `label qid:ID index:value index:value ... # comment` lines.

    A gzip or zstd file is known by its first bytes. Blanks and tabs separate; blank lines and
    lines that start with # are skipped; a # ends any token. The label is a finite decimal
    number. Values are what Python's `float` takes, rounded to float64 and then to float32;
    nan, null and na (in any case) are missing; a finite value that float32 cannot hold is an
    error. Indices may come in any order, each once per line.

    Parameters
    ----------
    path
        The file.
    group
        Where lines have no qid: the number of lines of each query, or the path of a file with
        one such number per line. Without it, a file of the same name with `.query` added is
        used if there is one (for `x.gz` also `x.query`), as in LightGBM.
    index_base
        The index of the first feature: 0, 1, or "auto" for 0 if the index 0 occurs, else 1.
    absent
        What a feature is that a line leaves out: "zero" or "missing".
    n_features
        The width of the matrix; by default the largest index decides, which must not be above
        2**20. A larger index than this allows is an error.
    document_ids
        Whether the comments, without blanks around them, are document ids.
    split_queries
        Where the lines of a query are not together: "error", or "group" to bring them so.
    feature_names
        One per feature. Gives n_features, if that is not given.
    weights, base_scores, document_weights
        What the text has no place for, as in `Dataset.from_arrays`; in the order of the lines.
        `read_data` takes them from files.
    n_jobs
        Threads; the result does not depend on it.

    Returns
    -------
    Dataset
        Its query ids are int64 if all are decimal integers of that range (01 and 1 are then
        the same), otherwise strings in an object array. A text without any feature gives a
        Dataset of 0 features. Features stay sparse if there are at least 64 of them and at most a
        fifth of the values is named: no dense matrix is made then.

    Raises
    ------
    ParseError
        For the first place in the text that breaks a rule, with its line and column.
    DataError
        For a file that is missing, empty, truncated, or too large for memory.
    """
    options = LetorOptions(
        index_base, absent, n_features, document_ids, split_queries, feature_names, n_jobs
    )
    query_file = file_beside(os.fspath(path), ".query") if group is None else None
    beside = {"weights": weights, "base_scores": base_scores, "document_weights": document_weights}
    with open_for_reading(path) as source:
        return _read(source, options, group, query_file, **beside)


def parse_letor(
    text: bytes, *, group: Group | None = None, path: str = "<bytes>", **options: Any
) -> Dataset:
    r"""Read LETOR text from memory; `path` is the name for messages. Options as of `read_letor`.

    >>> data = parse_letor(b"2 qid:7 1:0.5 3:-1\n0 qid:7 2:nan\n1 qid:8 1:1e-3\n")
    >>> data.features.tolist()
    [[0.5, 0.0, -1.0], [0.0, nan, 0.0], [0.0010000000474974513, 0.0, 0.0]]
    >>> data.labels.tolist(), data.query_ids.tolist(), data.offsets.tolist()
    ([2.0, 0.0, 1.0], [7, 8], [0, 2, 3])
    """
    if not isinstance(text, (bytes, bytearray, memoryview)):
        raise refusal("text", "be bytes", got=type(text).__name__, advice="encode it as UTF-8")
    return _read(Source.of_bytes(text, path), LetorOptions(**options), group)


def _read(
    source: Source,
    options: LetorOptions,
    group: Group | None,
    query_file: str | None = None,
    **beside: ArrayLike | None,
) -> Dataset:
    """The Dataset of a text and of what stands beside it, in the order of its lines."""
    check_choice("index_base", options.index_base, ("auto", 0, 1))
    check_choice("absent", options.absent, tuple(ABSENT))
    check_choice("split_queries", options.split_queries, ("error", "group"))
    sizes_file = os.fspath(group) if isinstance(group, (str, os.PathLike)) else None
    sizes = group if sizes_file is None else read_sizes(sizes_file)
    with_qid = 0 if group is not None else -1 if query_file else 1
    checked = options._replace(n_features=width_of(options), n_jobs=resolve_n_jobs(options.n_jobs))
    parsed = LetorReader(source, checked, with_qid).read()
    if parsed.run_ids:
        queries = _queries_of_runs(source.name, parsed, options.split_queries)
    else:
        if sizes is None and query_file is not None:
            sizes_file, sizes = query_file, read_sizes(query_file)
        queries = queries_of_sizes(sizes, len(parsed.labels), sizes_file)
    features, labels, comments = parsed.features, parsed.labels, _as_objects(parsed.comments)
    if queries.order is not None:
        if isinstance(features, SparseFeatures):
            features = features[queries.order]
        else:
            permute_rows(features, queries.order)
        labels = labels[queries.order]
        comments = comments[queries.order] if options.document_ids else comments
    return Dataset(
        features=features,
        labels=labels,
        offsets=queries.offsets,
        query_ids=queries.ids,
        document_ids=comments if options.document_ids else None,
        feature_names=tuple(options.feature_names or ()),
        **arranged(queries, **beside),
    )


def check_choice(name: str, got: object, choices: tuple[object, ...]) -> None:
    # 0 and 1 are not True and False here.
    if isinstance(got, bool) or got not in choices:
        raise unknown_name(name, str(got), map(str, choices))


def width_of(options: LetorOptions) -> int | None:
    """The number of features that was asked for, by number or by names."""
    width: int | None = whole_number("n_features", options.n_features, 1, _MOST_FEATURES, none=True)
    names = options.feature_names
    if names is not None and width not in (None, len(names)):
        raise refusal("feature_names", f"have one name a feature, {width}", len(names))
    return width if names is None else len(names)


def file_beside(name: str, suffix: str) -> str | None:
    """The file that belongs to a data file by its name and a suffix, if there is one."""
    stem = name.removesuffix(".gz").removesuffix(".zst")
    return next((file for file in (name + suffix, stem + suffix) if os.path.isfile(file)), None)


def read_sizes(name: str) -> NDArray[np.int64]:
    """The number of rows of each query, one per line."""
    sizes = []
    for number, line in enumerate(read_all(name).split(b"\n"), start=1):
        size = line.strip(b" \t\r")
        if size and not _SIZE.fullmatch(size):
            shown = size[:40].decode(errors="backslashreplace")
            problem = f"a query size must be a whole number, 1 or more. Got {shown!r}."
            raise ParseError(problem, name, number, line.index(size) + 1)
        if size:
            sizes.append(int(size))
    return np.array(sizes, dtype=np.int64)


def queries_of_sizes(sizes: Any, n_rows: int, name: str | None) -> Queries:
    try:
        return queries_from_sizes(sizes, n_rows)
    except DataError as error:
        raise error if name is None else DataError(f"{name}: {error.marked}") from None


def _queries_of_runs(name: str, parsed: Parsed, split_queries: SplitQueries) -> Queries:
    """The queries by the ids in the text, in which a run is a stretch of equal bytes."""
    ids = as_query_ids(parsed.run_ids)
    changes = np.append(True, ids[1:] != ids[:-1])
    ids, (rows, lines) = ids[changes], parsed.run_starts[changes].T

    def refuse(first: int, again: int) -> NoReturn:
        raise DataError(
            f"{name}: the lines of a query must be together. Got query {ids[again]!s} from line "
            f"{lines[first]} on and again from line {lines[again]} on. Sort the lines by query "
            f"id, or pass {parameter('split_queries', 'group')}."
        )

    on_split = refuse if split_queries == "error" else None
    return queries_from_runs(ids, rows, len(parsed.labels), on_split)


def as_query_ids(ids: list[bytes]) -> NDArray[Any]:
    """int64 if all are decimal integers that fit, otherwise strings."""
    if all(map(_INTEGER.fullmatch, ids)):
        try:
            return np.array([int(id_) for id_ in ids], dtype=np.int64)
        except (OverflowError, ValueError):
            pass
    return _as_objects([id_.decode() for id_ in ids])


def _as_objects(texts: list[str]) -> NDArray[Any]:
    """Not NumPy's own strings: these have one width for all, and drop zero bytes at the end."""
    objects = np.empty(len(texts), dtype=object)
    objects[:] = texts
    return objects


def write_letor(
    data: Dataset,
    path: Path,
    *,
    index_base: Literal[0, 1] = 1,
    absent: Absent = "zero",
    document_ids: bool = True,
    n_jobs: int | None = None,
) -> None:
    """Write a Dataset as a file that `read_letor` reads back bit for bit.

    Each number is written in the fewest digits that read back as the same float32: whole
    numbers below 1e9 as such, NaN as nan. The file appears when it is complete. A name that
    ends in .gz or .zst is compressed.

    Parameters
    ----------
    data
        Its features, labels and queries. The text has no place for weights, base scores and
        feature names. Query ids are written as `str` gives them: ids that are strings of
        digits come back as integers.
    path
        The file.
    index_base
        The index of the first feature.
    absent
        Which value is left out: "zero" (0.0, but not -0.0) or "missing" (NaN). Read the file
        with the same `absent`. The first line always has the last feature, and with
        index_base=0 also the first, so that the width and the base are read back.
    document_ids
        Whether document ids, if there are any, are written as comments.
    n_jobs
        Threads; the file does not depend on it.

    Raises
    ------
    DataError
        For a query id that is empty or has a blank or # in it, a document id with a newline in
        it or blanks around it, and a file that cannot be written.
    """
    check_choice("index_base", index_base, (0, 1))
    check_choice("absent", absent, tuple(ABSENT))
    workers = resolve_n_jobs(n_jobs)
    blocks = _Blocks(data, index_base, absent, document_ids)
    with open_for_writing(path) as stream:
        pending: deque[Future[NDArray[np.uint8]]] = deque()
        for block in range(blocks.count):
            if workers == 1 or blocks.count == 1:
                stream.write(blocks.format(block))
                continue
            pending.append(submit(workers, blocks.format, block))
            if len(pending) > workers:
                stream.write(pending.popleft().result())
        while pending:
            stream.write(pending.popleft().result())


class _Blocks:
    """A Dataset cut into blocks of rows, each to be formatted by itself."""

    def __init__(self, data: Dataset, index_base: int, absent: Absent, document_ids: bool) -> None:
        self.labels = as_input(data.labels, np.float32)
        self.offsets = as_input(data.offsets, np.int64)
        self.data = data
        self.base = index_base
        self.absent_is_nan = absent == "missing"
        self.ids, self.id_bounds = _packed([_query_id(id_) for id_ in data.query_ids.tolist()])
        self.comments = data.document_ids if document_ids else None
        # A number, its index, a colon and a blank; the label, qid: and the newline likewise.
        self.row_bytes = (data.n_features + 1) * (NUMBER_BYTES + 12)
        self.size = max(1, _BLOCK_BYTES // self.row_bytes)
        self.count = -(-data.n_documents // self.size)

    def format(self, block: int) -> NDArray[np.uint8]:
        first = block * self.size
        last = min(first + self.size, len(self.labels))
        query = self.data.query_of(first)
        comments: list[bytes] = []
        if self.comments is not None:
            comments = [_comment(id_) for id_ in self.comments[first:last].tolist()]
        texts, bounds = _packed(comments)
        longest_id = int(np.diff(self.id_bounds).max())
        out = np.empty((last - first) * (self.row_bytes + longest_id) + len(texts), dtype=np.uint8)
        features = as_input(self.data.features[first:last], np.float32)
        size = format_rows(
            features, self.labels, first, last, self.offsets, query, self.ids, self.id_bounds,
            texts, bounds if comments else bounds[:0], self.base, self.absent_is_nan, out,
        )  # fmt: skip
        return out[:size]


def _packed(texts: Iterable[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Texts in one, and where each begins, and the end."""
    pieces = list(texts)
    bounds = np.append(0, np.cumsum([len(piece) for piece in pieces], dtype=np.int64))
    packed = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    return as_input(packed, np.uint8), as_input(bounds, np.int64)


def _query_id(id_: Any) -> bytes:
    text = str(id_)
    if not text or _ID_ENDS.search(text):
        raise DataError(
            f"a query id must not be empty and must have no blank and no # in it to be written. "
            f"Got {text!r}; rename the queries."
        )
    return _encoded(text)


def _comment(id_: Any) -> bytes:
    text = str(id_)
    if "\n" in text or text != text.strip(" \t\r"):
        raise DataError(
            f"a document id must have no newline in it and no blanks around it to be written. "
            f"Got {text!r}; rename it, or pass document_ids=False."
        )
    return _encoded(text)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DataError(f"an id must be valid Unicode to be written. Got {text!r}.") from None
