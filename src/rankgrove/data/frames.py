"""Data frames, CSV and Parquet: tables with a row per document to Dataset and back.

Frames come through Narwhals, so any kind it knows will do; files go through pyarrow, which is
the optional extra `frames`. Both are imported on first use: `import rankgrove` stays cheap.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.columns import (
    ColumnOptions,
    Columns,
    block_rows,
    build_dataset,
    code_columns,
    columns_to_code,
    cut_frame,
    plain_ids,
    role_arrays,
)
from rankgrove.data.dataset import Dataset
from rankgrove.data.levels import Levels, code_column
from rankgrove.data.queries import SplitQueries
from rankgrove.data.streams import format_and_compression, open_for_writing
from rankgrove.errors import DataError, ParameterError, need_extra, parameter, unknown_name

Backend = Literal["pandas", "polars", "pyarrow"]
Format = Literal["csv", "tsv", "parquet"]

_BACKENDS = ("pandas", "polars", "pyarrow")
SEPARATORS = {"csv": ",", "tsv": "\t"}
_FORMATS = (*SEPARATORS, "parquet")

# What pyarrow takes from each column of a Parquet file at once. With 800,000 rows of 136 features
# in one row group, its memory peaks at 0.16 GB beside the 0.44 GB of the features. With its own
# buffers, which hold all bytes of a row group, and the same rows it is 0.38 GB.
READ_ROWS = 1 << 14
PARQUET = {"pre_buffer": False, "buffer_size": 1 << 16, "page_checksum_verification": True}


def from_frame(
    frame: Any,
    *,
    label: str = "label",
    qid: str | None = "qid",
    group: ArrayLike | None = None,
    weight: str | None = None,
    base_score: str | None = None,
    document_id: str | None = None,
    document_weight: str | None = None,
    features: Sequence[str] | None = None,
    categorical: Collection[Any] | None = None,
    split_queries: SplitQueries = "error",
    more_labels: Sequence[str] | None = None,
) -> Dataset:
    """A Dataset from a data frame with a row per document.

    Parameters
    ----------
    frame
        pandas, polars, pyarrow or whatever else Narwhals knows; a lazy frame is collected,
        only the columns that are used. The index of a pandas frame is not looked at.
    label, qid, weight, base_score, document_id, document_weight
        The columns that hold these; none of their entries may be missing. Ids keep their type.
        `weight` is that of the query, the same in all of its rows.
    group
        The rows of each query, instead of `qid`.
    features
        The columns to take as features, in this order. By default all that remain, except an
        index that pandas stored as `__index_level_0__`.
    categorical
        Those of the features, by name or number, whose strings are categories; a mapping of names
        to levels says which, as `levels_by_name` of a model's schema does. Columns that are
        Categorical, Enum or an Arrow dictionary are categories by their type.
    split_queries
        What to do when a query's rows are not contiguous: "error" or "group".
    more_labels
        Columns of further labels, for metrics of these, as "ndcg@10 of clicks".

    Notes
    -----
    Integers, floats, decimals and booleans become float32; null, None and NaN are missing. An
    integer past 2**24 is rounded to a float32; a finite number past the float32 range, or a
    column of anything else, is an error. Categories are strings, whole numbers or booleans; their
    values in `features` are places in `levels`, and an empty string is a category like others.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"label": [1, 0], "qid": ["a", "a"], "bm25": [7.5, None]})
    >>> from_frame(frame).features.tolist()
    [[7.5], [nan]]
    >>> data = from_frame(frame.assign(source=["web", "app"]), categorical=["source"])
    >>> data.features.tolist(), data.levels_by_name
    ([[7.5, 1.0], [nan, 0.0]], {'source': ('app', 'web')})
    """
    import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

    table = as_narwhals(frame)
    names = (label, qid, weight, base_score, document_id, document_weight)
    options = ColumnOptions(names, group, features, split_queries, categorical, more_labels)
    columns = options.choose(table.collect_schema().names())
    if isinstance(table, nw.LazyFrame):
        table = table.select(columns.names).collect()
    return _from_eager(table, columns, options)


def to_frame(
    data: Dataset,
    backend: Backend = "pandas",
    *,
    label: str = "label",
    qid: str = "qid",
    weight: str | None = "weight",
    base_score: str | None = "base_score",
    document_id: str | None = "document_id",
    document_weight: str | None = "document_weight",
) -> Any:
    """A data frame with a row per document; `from_frame` brings back the same Dataset, bit for bit.

    Columns: label, qid, then weight, base_score, document_id and document_weight where the Dataset
    has them and the name is not None, then further labels, then the features, those of categories
    as pandas or polars Categorical or as an Arrow dictionary. A query's weight stands in each row.

    >>> data = Dataset.from_arrays([[7.5], [2.0]], [1, 0], group=[2])
    >>> to_frame(data, "polars").columns
    ['label', 'qid', 'f1']
    """
    columns = role_arrays(data, label, qid, weight, base_score, document_id, document_weight)
    if backend != "pandas":
        columns = {name: plain_ids(values, backend) for name, values in columns.items()}
    for number, name in enumerate(data.feature_names):
        columns[name] = data.features[:, number]
    frame = make_frame(columns, backend)
    for number, levels in data.levels.items():
        name = data.feature_names[number]
        frame = _with_categories(frame, name, data.features[:, number], levels, backend)
    return frame


def _with_categories(
    frame: Any, name: str, numbers: NDArray[np.float32], levels: Levels, backend: Backend
) -> Any:
    """The frame with a column of categories in place of its numbers."""
    places = np.where(np.isnan(numbers), -1, numbers).astype(np.int32)
    if backend == "pandas":
        module = importlib.import_module("pandas")
        return frame.assign(**{name: module.Categorical.from_codes(places, list(levels))})
    if backend == "pyarrow":
        column = _as_dictionary(numbers, levels, importlib.import_module("pyarrow"))
        return frame.set_column(frame.column_names.index(name), name, column)
    module = importlib.import_module("polars")
    if not all(isinstance(level, str) for level in levels):
        raise DataError(
            f"categories must be strings in a frame of polars. Got {levels[0]!r} in {name!r}: take "
            f"another backend."
        )
    values = [None if place < 0 else levels[place] for place in places.tolist()]
    return frame.with_columns(module.Series(name, values, dtype=module.Categorical))


def _as_dictionary(numbers: NDArray[np.float32], levels: Levels, pa: Any) -> Any:
    """A column of categories as Arrow has it."""
    missing = np.isnan(numbers)
    places = pa.array(np.where(missing, 0, numbers).astype(np.int32), mask=missing)
    return pa.DictionaryArray.from_arrays(places, pa.array(levels, _arrow_type(levels, pa)))


def _arrow_type(levels: Levels, pa: Any) -> Any:
    kinds = {str: pa.string(), bool: pa.bool_(), int: pa.int64()}
    return kinds[type(levels[0]) if levels else str]


def make_frame(columns: dict[str, Any], backend: Backend) -> Any:
    """A data frame of these columns."""
    import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

    if backend not in _BACKENDS:
        raise unknown_name(parameter("backend"), str(backend), _BACKENDS)
    try:
        importlib.import_module(backend)
    except ImportError as error:
        purpose = f"to_frame with {parameter('backend', backend)}"
        raise need_extra(backend, None, purpose) from error
    return nw.from_dict(columns, backend=backend).to_native()


def read_table(
    path: str | PathLike[str],
    *,
    format: Format | None = None,
    header: bool = True,
    label: str = "label",
    qid: str | None = "qid",
    group: ArrayLike | None = None,
    weight: str | None = None,
    base_score: str | None = None,
    document_id: str | None = None,
    document_weight: str | None = None,
    features: Sequence[str] | None = None,
    categorical: Collection[Any] | None = None,
    split_queries: SplitQueries = "error",
    more_labels: Sequence[str] | None = None,
) -> Dataset:
    """A Dataset from a CSV, TSV or Parquet file with a row per document.

    Parameters
    ----------
    path
        `.csv`, `.tsv` or `.parquet`; CSV and TSV also compressed, `.gz` or `.zst`.
    format
        "csv", "tsv" or "parquet", where the path does not say it.
    header
        Whether the first line of a CSV or TSV file names the columns. If not, they are named
        "0", "1", ... from the left, as in `label="0", qid="1"`.
    label, qid, group, weight, base_score, document_id, document_weight, features, categorical
        As for `from_frame`.
    split_queries, more_labels
        As for `from_frame`.

    Notes
    -----
    In CSV an empty field, NA, NaN, nan, null and NULL are missing. Ids that are all plain
    integers (7, not 007) are read as integers, others as strings, of which only the empty one
    is missing. Categories that are all numbers are read as numbers, unless a mapping says that
    they are strings; others are strings, of which only the empty one is missing. Parquet knows
    its types, and is read block by block: there is never a second copy of the features in memory.
    """
    pa = import_pyarrow("reading CSV and Parquet files")
    file = Path(path)
    kind, compression = _format_of(file, format)
    names = (label, qid, weight, base_score, document_id, document_weight)
    options = ColumnOptions(names, group, features, split_queries, categorical, more_labels)
    with naming_file(file, kind, pa):
        if not file.is_file():
            what = "a directory" if file.is_dir() else "no file there"
            raise DataError(f"must be a {kind} file. Got {what}: check the path.")
        if file.stat().st_size == 0:
            raise DataError(f"must be a {kind} file. Got an empty one.")
        if kind == "parquet":
            return _read_parquet(file, pa, options)
        # It needs pyarrow, which is known to be there by now.
        from rankgrove.data.delimited import DelimitedFile, read_delimited  # noqa: PLC0415

        text = DelimitedFile(file, SEPARATORS[kind], compression, header)
        table, columns = read_delimited(text, options)
        return _from_eager(table, columns, options)


def write_table(
    data: Dataset,
    path: str | PathLike[str],
    *,
    format: Format | None = None,
    header: bool = True,
    label: str = "label",
    qid: str = "qid",
    weight: str | None = "weight",
    base_score: str | None = "base_score",
    document_id: str | None = "document_id",
    document_weight: str | None = "document_weight",
) -> None:
    """Write a CSV, TSV or Parquet file; `read_table` brings back the same Dataset, bit for bit.

    The columns are those of `to_frame`, the path and `format` as for `read_table`. Numbers in
    CSV have as few digits as bring back the same float. CSV has no types: ids that are strings
    of digits are read back as integers, and categories must be named when they are read. Parquet
    has a type for categories that are strings; others are read back as numbers. An existing file
    is replaced when all is written, and stays as it was if anything fails.
    """
    pa = import_pyarrow("writing CSV and Parquet files")
    file = Path(path)
    kind, _ = _format_of(file, format)
    roles = role_arrays(data, label, qid, weight, base_score, document_id, document_weight)
    if kind != "parquet" and any(np.any(values == "") for values in roles.values()):
        raise DataError(f"ids must not be empty strings to be written to a {kind} file. Got one.")
    columns = {name: pa.array(plain_ids(values, kind)) for name, values in roles.items()}
    # CSV has no types: there a category is its text.
    kinds = {
        number: pa.dictionary(pa.int32(), _arrow_type(levels, pa)) if kind == "parquet"
        else _arrow_type(levels, pa)
        for number, levels in data.levels.items()
    }  # fmt: skip
    if kind != "parquet" and any("" in levels for levels in data.levels.values()):
        raise DataError(f"categories must not be empty strings in a {kind} file. Got one.")
    features = [(n, kinds.get(number, pa.float32())) for number, n in enumerate(data.feature_names)]
    schema = pa.schema([(name, column.type) for name, column in columns.items()] + features)
    step = block_rows(data.n_features)
    with open_for_writing(file) as stream, _open_writer(stream, kind, schema, header, pa) as writer:
        for start in range(0, data.n_documents, step):
            block = np.asarray(data.features[start : start + step])
            arrays = [column.slice(start, step) for column in columns.values()]
            arrays += [
                _as_dictionary(block[:, number], data.levels[number], pa).cast(kinds[number])
                if number in kinds
                else pa.array(block[:, number])
                for number in range(data.n_features)
            ]
            writer.write_table(pa.table(arrays, schema=schema))


def _open_writer(stream: Any, kind: str, schema: Any, header: bool, pa: Any) -> Any:
    if kind == "parquet":
        # With checksums a damaged page is refused when read, not taken for other numbers.
        return pa.parquet.ParquetWriter(stream, schema, write_page_checksum=True)
    how = pa.csv.WriteOptions(include_header=header, delimiter=SEPARATORS[kind])
    return pa.csv.CSVWriter(stream, schema, write_options=how)


def as_narwhals(frame: Any) -> Any:
    import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

    try:
        table = nw.from_native(frame)
        # pandas allows names that are not strings, as the numbers of a frame from an array.
        names = table.collect_schema().names()
        odd = {name: str(name) for name in names if not isinstance(name, str)}
        return table.rename(odd) if odd else table
    except nw.exceptions.DuplicateError as error:
        problem = " ".join(str(error).split())
        raise DataError(f"column names must differ from each other. {problem}.") from None
    except TypeError:
        raise ParameterError(
            f"frame must be a data frame (pandas, polars, pyarrow, ...). Got "
            f"{type(frame).__name__}: arrays go to Dataset.from_arrays, files to read_table."
        ) from None


def _from_eager(frame: Any, columns: Columns, options: ColumnOptions) -> Dataset:
    import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

    table = nw.from_native(frame, eager_only=True)
    names = columns_to_code(table, columns.features, columns.categorical, options.advice)
    coded = code_columns(table, names)
    return build_dataset(table, cut_frame(table, len(columns.features)), columns, options, coded)


def import_pyarrow(purpose: str) -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415 (optional)
        import pyarrow.csv  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise need_extra("pyarrow", "frames", purpose) from error
    return pa


def _format_of(path: Path, given: str | None) -> tuple[str, str | None]:
    """The format and the compression of a file, from its name unless the format is given."""
    if given is not None and given not in _FORMATS:
        raise unknown_name("format", str(given), _FORMATS)
    suffix, compression = format_and_compression(path)
    kind = given or suffix.removeprefix(".")
    if kind not in _FORMATS or (kind == "parquet" and compression):
        raise ParameterError(
            f"a table's path must end in .csv, .tsv (then also in .gz or .zst) or .parquet. "
            f"Got {str(path)!r}: rename it, or pass format=."
        )
    return kind, compression


@contextmanager
def naming_file(path: Path | str, kind: str, pa: Any) -> Iterator[None]:
    """Turn what goes wrong with the contents of a file into one error that names the file."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}: {error.marked}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split()).rstrip(".")
        raise DataError(
            f"{path}: must be a sound {kind} file. Got: {problem}. Correct it or make it anew."
        ) from error


def _read_parquet(path: Path, pa: Any, options: ColumnOptions) -> Dataset:
    import narwhals as nw  # noqa: PLC0415 (24 ms, not to be paid by `import rankgrove`)

    with pa.parquet.ParquetFile(path, **PARQUET) as file:
        columns = options.choose(file.schema_arrow.names)
        features = columns.features
        empty = nw.from_native(file.schema_arrow.empty_table())
        names = columns_to_code(empty, features, columns.categorical, options.advice)
        roles = nw.from_native(file.read(columns=columns.role_names))
        # One at a time: a column of strings takes far more memory than its numbers.
        coded = {n: code_column(nw.from_native(file.read(columns=[n]))[n]) for n in names}
        step = min(READ_ROWS, block_rows(len(features)))
        plain = [name for name in features if name not in coded]
        batches = file.iter_batches(step, columns=plain) if plain else []
        blocks = (nw.from_native(pa.Table.from_batches([batch])) for batch in batches)
        return build_dataset(roles, blocks if plain else [roles], columns, options, coded)
