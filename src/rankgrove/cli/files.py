# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""Files of a command: what is checked before the work, how they are named, read and written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrove.cli.console import count
from rankgrove.cli.options import Reading, is_model_file
from rankgrove.errors import DataError, ParameterError, parameter, refusal

if TYPE_CHECKING:
    from rankgrove.data.dataset import Dataset
    from rankgrove.data.documents import Documents

# What names a feature of the data, in the place of a file of scores.
COLUMN = "column:"


def check_outputs(
    read: Iterable[Path | None], written: Mapping[str, Path | None], *, compressed: bool = False
) -> None:
    """Refuse before the work what could not be written after it.

    `written` has files by the parameter that names them. None of them may be one that is read, or
    be named twice; nor may its name say that it is compressed, unless such are written here.
    """
    from rankgrove.data.streams import check_writable, format_and_compression

    sources = [path for path in read if path is not None]
    seen: dict[Path, str] = {}
    for name, path in written.items():
        if path is None:
            continue
        if any(_is_same(path, source) for source in sources):
            raise refusal(name, "not be a file that is read", str(path))
        if (other := seen.setdefault(path.resolve(), name)) != name:
            raise refusal(f"{parameter(other)} and {parameter(name)}", "be two files", str(path))
        if not compressed and format_and_compression(path)[1] is not None:
            raise refusal(name, "not end in .gz or .zst, as it is not compressed", str(path))
        check_writable(path)


def _is_same(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)


def check_group(reading: Reading, valid: Iterable[Path | None]) -> None:
    """Refuse `--group`, which has the queries of one file, where two are read."""
    if reading.group is not None and any(valid):
        raise refusal(
            "group",
            f"be used without {parameter('valid')}, as it is about one file",
            got="both",
            advice="give the data query ids, or put FILE.query beside each LETOR file",
        )


def name_files(option: str, paths: Sequence[Path]) -> dict[str, Path]:
    """Files by name: without directory, compression and suffix where these names differ.

    >>> name_files("valid", [Path("fold1/vali.txt.gz"), Path("m0.5.safetensors")])
    {'vali': PosixPath('fold1/vali.txt.gz'), 'm0.5': PosixPath('m0.5.safetensors')}
    """
    short = [_stem(path) for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise ParameterError(f"each {option} must be another file. Got one twice.")
    return dict(zip(names, paths, strict=True))


def _stem(path: Path) -> str:
    from rankgrove.data.streams import format_and_compression

    return Path(path.stem).stem if format_and_compression(path)[1] else path.stem


def as_written(path: Path) -> str:
    """A path as it was given: a URI has two slashes, of which a Path keeps one.

    >>> as_written(Path("s3://bucket/a.parquet")), as_written(Path("file:///a.parquet"))
    ('s3://bucket/a.parquet', 'file:///a.parquet')
    """
    uri = re.match(r"(\w{2,}):/(?=[^/])", str(path))
    if uri is None:
        return str(path)
    return f"{uri[1]}://{'/' if uri[1] == 'file' else ''}{str(path)[uri.end() :]}"


def read_training(path: Path, reading: Reading, cut: Mapping[str, Any]) -> Documents:
    """The data of a file; in bins where it is a file of them, or where a pattern names several.

    `cut` has the parameters by which features are binned, and `categorical`, for tables, too.
    """
    from rankgrove.boosting.bin_files import bin_files
    from rankgrove.data.places import is_pattern
    from rankgrove.trees.bins_file import is_bins_file, load

    if path.suffix == ".bins" or is_bins_file(path):
        _refuse_reading(path, reading)
        return load(path)
    if not is_pattern(as_written(path)):
        return reading.read(path, **categories_option(path, cut.get("categorical")))
    return bin_files(as_written(path), **cut, **reading.chosen)


def categories_option(path: Path, categorical: Any) -> dict[str, Any]:
    """What has a table read with these categories; LETOR text has numbers only."""
    from rankgrove.data.files import format_of

    return {} if format_of(path) == "letor" else {"categorical": categorical}


def _refuse_reading(path: Path, reading: Reading) -> None:
    """Refuse options of reading that binned data have no use for."""
    given = [name for name in reading.chosen if name != "n_jobs"]
    if given:
        raise refusal(given[0], "be left out with binned data", str(path))


def read_with_features_of(
    train: Documents, source: Path, path: Path, reading: Reading
) -> Documents:
    """The data of a file with the features of training data, which `source` has."""
    from rankgrove.boosting.bin_files import bin_files
    from rankgrove.data.files import format_of
    from rankgrove.data.places import is_pattern
    from rankgrove.trees.binned_data import BinnedData
    from rankgrove.trees.bins_file import is_bins_file, load

    if path.suffix == ".bins" or is_bins_file(path):
        return load(path)
    if is_pattern(as_written(path)) and isinstance(train, BinnedData):
        return bin_files(as_written(path), like=train, **reading.chosen)
    # Of a table the columns of the training data, in their order.
    changes = {} if format_of(path) == "letor" else {"features": train.feature_names}
    data = reading.read(path, **changes, **categories_option(path, train.levels_by_name))
    if data.n_features != train.n_features:
        most = max(data.n_features, train.n_features)
        raise DataError(
            f"{path}: must have the {train.n_features} features of {source}. Got "
            f"{data.n_features}: if the last ones are absent from every line of one file, add "
            f"{parameter('n_features', most)}."
        )
    return data


def sort_files(
    files: Sequence[str], reading: Reading, others: str, least: int = 1
) -> tuple[list[str], Path]:
    """What is to be ranked by, and the data, which come last; or first, where the files tell.

    `others` says what must be there besides the data, and `least` how many.
    """
    from rankgrove.data.files import format_of

    if len(files) <= least:
        raise ParameterError(
            f"{others} must be given, then DATA. Got {count(len(files), 'file')}: see the examples "
            f"of --help."
        )
    first, last = (_looks_like_data(name, reading) for name in (files[0], files[-1]))
    if first == last == 2 and format_of(files[0]) == "letor":
        raise ParameterError(
            f"{others} must be given, then DATA. Got '{files[0]}' and '{files[-1]}', which both "
            f"are data."
        )
    if first > last:
        return list(files[1:]), Path(files[0])
    return list(files[:-1]), Path(files[-1])


def model_and_data(model: Path, data: Path) -> tuple[Path, Path]:
    """A model and the data, in either order."""
    swapped = is_model_file(data) and not is_model_file(model)
    return (data, model) if swapped else (model, data)


def _looks_like_data(name: str, reading: Reading) -> int:
    """2 for what is data, 0 for what is not, 1 for what cannot be told."""
    from rankgrove.data.files import format_of, read_lines

    path = Path(name)
    if not path.is_file():
        return int(not (name.startswith(COLUMN) or "=" in name))
    if is_model_file(path):
        return 0
    if format_of(path) == "parquet":
        return 2
    try:
        lines = (line.strip() for line in read_lines(path))
        line = next((line for line in lines if line and not line.startswith(b"#")), b"").decode()
    except (DataError, UnicodeDecodeError):
        return 1  # whoever reads it says what is wrong
    if format_of(path) == "letor":
        # After the label comes qid:7 or 1:0.5; a line of scores has one field, one of a run Q0.
        return 2 if any(":" in field for field in line.split()[1:2]) else 0
    separator = {"csv": ",", "tsv": "\t"}[format_of(path)]
    names = [cell.strip().strip('"') for cell in line.split(separator)]
    return 2 if (reading.label or "label") in names else int(len(names) > 1)


def read_labels(path: Path, reading: Reading) -> Dataset:
    """The data of a file without its features, where it is a table, which can do without."""
    from rankgrove.data.files import format_of

    return reading.read(path, **({} if format_of(path) == "letor" else {"features": []}))


def sizes_of(data: Any) -> dict[str, int]:
    """How much there is, for JSON."""
    return {"documents": data.n_documents, "queries": data.n_queries}


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write CSV, or TSV if the name says so; a value that is no number is left empty."""
    from rankgrove.data.files import format_of
    from rankgrove.experiments.tables import csv_text

    write_text(path, csv_text(header, rows, "\t" if format_of(path) == "tsv" else ","))


def write_text(path: Path, text: str) -> None:
    """Write a file, which appears whole or not at all."""
    from rankgrove.data.streams import open_for_writing

    with open_for_writing(path) as stream:
        stream.write(text.encode())
