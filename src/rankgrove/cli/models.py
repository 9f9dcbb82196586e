# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""A model file and the data to use it on, as commands are given them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankgrove.cli.files import categories_option
from rankgrove.cli.options import Reading, argument
from rankgrove.errors import DataError

if TYPE_CHECKING:
    from rankgrove.data.dataset import Dataset
    from rankgrove.model.base import ScoringModel

ModelPath = Annotated[Path, argument("MODEL", "A model file, from 'train'.")]

_SEPARATORS = {"csv": ",", "tsv": "\t"}


def load_model(path: Path) -> ScoringModel:
    """The model of a file, whatever it holds."""
    from rankgrove.model.base import load

    return load(path)


def read_for_model(
    model: ScoringModel, path: Path, reading: Reading, *, with_labels: bool = False
) -> Dataset:
    """The data of a file with the features of a model: a table's by name, a LETOR file's all.

    A table without labels is refused `with_labels`, and otherwise read with labels of 0.
    """
    columns = table_columns(path)
    names = model.feature_names
    chosen = reading.feature_list
    if columns and chosen is None:
        from rankgrove.data.dataset import default_feature_names

        # A model of default names, f1 to fN, was trained on LETOR text: it goes by position.
        if names != default_feature_names(len(names)) or set(names) <= set(columns):
            chosen = list(names)
    levels = model.schema.levels_by_name
    if not with_labels and lacks_labels(path, reading):
        data = _read_unlabelled(path, reading, columns, chosen, levels)
    else:
        changes = {} if chosen is None else {"features": chosen}
        data = reading.read(path, **changes, **categories_option(path, levels))
    _check_width(model, path, data)
    if model.schema.needs_base_scores and data.base_scores is None:
        raise DataError(
            f"{path}: must have base scores, as the model was trained on top of such. Got none: "
            f"name their column with --base-score; LETOR text has no place for them."
        )
    return data


def lacks_labels(path: Path, reading: Reading) -> bool:
    """Whether a file is a table that has no column of labels."""
    columns = table_columns(path)
    return bool(columns) and (reading.label or "label") not in columns


def table_columns(path: Path) -> list[str]:
    """The names of the columns of a table; none for another file, or one that is unsound."""
    from rankgrove.data.files import format_of
    from rankgrove.data.streams import format_and_compression

    kind = format_of(path)
    if kind == "letor" or not path.is_file():
        return []
    try:
        import pyarrow as pa
        import pyarrow.parquet

        from rankgrove.data.delimited import DelimitedFile
    except ImportError:
        return []  # whoever reads it says what to install
    try:
        if kind == "parquet":
            return list(pyarrow.parquet.read_schema(path).names)
        return DelimitedFile(path, _SEPARATORS[kind], format_and_compression(path)[1], True).names
    except (pa.ArrowException, DataError, OSError, UnicodeDecodeError):
        return []  # whoever reads it says what is wrong


def _check_width(model: ScoringModel, path: Path, data: Dataset) -> None:
    if data.n_features == model.n_features:
        return
    from rankgrove.data.files import format_of

    if format_of(path) != "letor":
        advice = "name those of the model, in its order, with --features."
    elif data.n_features < (width := model.n_features):
        advice = f"if the last ones are absent from every line, add --n-features {width}."
    else:
        advice = "was the model trained on other data?"
    raise DataError(
        f"{path}: must have the {model.n_features} features of the model. "
        f"Got {data.n_features}: {advice}"
    )


def _read_unlabelled(
    path: Path,
    reading: Reading,
    columns: list[str],
    chosen: list[str] | None,
    levels: Mapping[str, Any],
) -> Dataset:
    """A table without labels: these are all 0; without query ids, it is one query."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet

    from rankgrove.data.columns import ColumnOptions
    from rankgrove.data.delimited import DelimitedFile, read_delimited
    from rankgrove.data.files import format_of
    from rankgrove.data.frames import from_frame
    from rankgrove.data.streams import format_and_compression

    ids = reading.document_id or ("document_id" if reading.document_ids else None)
    qid = reading.qid or ("qid" if "qid" in columns else None)
    roles = [name for name in (qid, ids, reading.base_score) if name is not None]
    if chosen is None:
        chosen = [name for name in columns if name not in {*roles, reading.weight}]
    if absent := [name for name in [*roles, *chosen] if name not in columns]:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise DataError(f"{path}: must have the columns asked for. Got no {absent[0]!r}{more}.")
    wanted = list(dict.fromkeys([*roles, *chosen]))
    kind = format_of(path)
    try:
        if kind == "parquet":
            table = pyarrow.parquet.read_table(path, columns=wanted)
        else:
            file = DelimitedFile(path, _SEPARATORS[kind], format_and_compression(path)[1], True)
            names = (None, qid, None, reading.base_score, ids, None)
            group = None if qid else [0]
            table, _ = read_delimited(file, ColumnOptions(names, group, chosen, "error", levels))
    except (pa.ArrowException, OSError) as error:
        problem = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"{path}: must be a sound {kind} file. Got: {problem}.") from None
    label = reading.label or "label"
    table = table.append_column(label, pa.array(np.zeros(table.num_rows, np.float32)))
    try:
        return from_frame(
            table, label=label, qid=qid, group=None if qid else [table.num_rows],
            base_score=reading.base_score, document_id=ids, features=chosen, categorical=levels,
            split_queries="group" if reading.split_queries == "group" else "error",
        )  # fmt: skip
    except DataError as error:
        raise DataError(f"{path}: {error.marked}") from None
