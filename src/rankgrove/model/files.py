"""Model files: one safetensors file with a checksum, read by no code but this.

The tensors are the arrays of the ensemble. The metadata are strings:

    format             rankgrove.model
    format_version     1; 2 where the schema has levels
    rankgrove_version  of the program that trained the model
    schema             JSON: feature_names, categories, needs_base_scores; and levels, where
                       categories are other than numbers
    parameters         JSON: as given to training
    history            JSON: validation set, metric, value after each iteration; null for NaN
    notes              JSON, where there are some: what else is known of the model, as how many
                       trees are those of a base model (older files have them in the parameters)
    checksum           SHA-256 of all the other metadata and all tensors

A change that would make an older reader score differently raises `format_version`, and a reader
refuses a version above its own. Within a version, further metadata and further entries of the
schema may be added: a reader that does not know them ignores them. Tensors may not be added.

The same model gives the same bytes, on any machine; numbers are little-endian.

Networks, in `rankgrove.neural`, and combined models are kept in files of the same make under
formats of their own; `FORMATS` has them all.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from rankgrove.data.streams import format_and_compression, open_for_writing
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.schema import Schema


class Format(NamedTuple):
    """A format of model files: what it holds, the class that reads it, and its newest version."""

    noun: str
    module: str
    class_name: str
    newest: int = 1


TREES, NETWORK, COMBINED = "rankgrove.model", "rankgrove.network", "rankgrove.combined"

# Classes go by name, as networks stand in a higher row and need PyTorch.
FORMATS = {
    TREES: Format("a model of trees", "rankgrove.model.model", "Model", newest=2),
    NETWORK: Format("a network", "rankgrove.neural.model", "NetworkModel"),
    COMBINED: Format("a combined model", "rankgrove.model.combined", "CombinedModel", newest=3),
}

# What older files have among the parameters.
_NOTES_AMONG_PARAMETERS = {
    "n_base_trees", "data_fingerprint", "classes", "classes_dtype", "n_epochs", "combined",
}  # fmt: skip

_TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U32": "<u4", "U8": "|u1"}
_NAMES = {np.dtype(code).newbyteorder("="): name for name, code in _TYPES.items()}

Arrays = dict[str, NDArray[Any]]
History = dict[str, dict[str, list[float]]]

# The longest header that safetensors reads.
_LONGEST_HEADER = 100_000_000
_METADATA = "__metadata__"
AGAIN = "Get the file again from where it came from, or save the model anew."


class ModelFileError(DataError):
    """A model file cannot be used: it is none, damaged, of a newer format or unsound.

    Attributes
    ----------
    path
        The file.
    problem
        The message without the path.
    """

    def __init__(self, problem: str, path: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.problem = problem
        self.path = path

    def __reduce__(self) -> tuple[type[ModelFileError], tuple[str, str]]:
        return type(self), (self.problem, self.path)


class _RefusedError(DataError):
    """A problem with a file whose message already says what to do."""


class CallError(ParameterError):
    """A problem with what is given beside a file: the file itself is sound."""


class _Tensor(NamedTuple):
    name: str
    kind: str
    shape: tuple[int, ...]
    data: bytes | bytearray


def write_file(
    format_name: str,
    metadata: dict[str, str],
    arrays: Arrays,
    path: str | os.PathLike[str],
    version: int = 1,
) -> None:
    """Write a file of a format with its checksum; it appears whole or not at all."""
    if format_and_compression(path)[1] is not None:
        raise ParameterError(
            f"a model is not compressed: its path must not end in .gz or .zst. "
            f"Got {os.fspath(path)!r}: name it model.safetensors."
        )
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    metadata = with_checksum(format_name, metadata, arrays, version)
    content = in_fixed_order(safetensors.numpy.save(arrays, metadata))
    with open_for_writing(path) as stream:
        stream.write(content)


def with_checksum(
    format_name: str, metadata: dict[str, str], arrays: Arrays, version: int
) -> dict[str, str]:
    """All metadata of a file: the given ones, the format, its version and the checksum."""
    metadata = {"format": format_name, "format_version": str(version), **metadata}
    tensors = [_as_tensor(*item) for item in arrays.items()]
    return {**metadata, "checksum": checksum(metadata, tensors)}


def read_file(
    path: str | os.PathLike[str], format_name: str | None = None
) -> tuple[dict[str, str], Arrays]:
    """Metadata and arrays of a file of a format, or of any; inside `refusing`."""
    with open_regular(path) as (file, size):
        metadata = _read_metadata(file, size)
        got = FORMATS[metadata["format"]]
        if format_name not in (None, metadata["format"]):
            wanted = FORMATS[str(format_name)].noun
            refuse(f"must be {wanted}. Got {got.noun}: load it with rankgrove.load.")
        _check_version(metadata, got.newest)
        file.seek(0)
        tensors = _read_tensors(file.read(size))
    if metadata.get("checksum") != checksum(metadata, tensors):
        refuse(f"must match its checksum. Got other content: the file is damaged. {AGAIN}")
    return metadata, {tensor.name: _as_array(tensor) for tensor in tensors}


@contextmanager
def refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever is wrong with a model that is read into one error that names the file."""
    name = os.fspath(path)
    try:
        yield
    except CallError as error:
        raise ParameterError(f"{name}: {error.marked}") from None
    except _RefusedError as error:
        raise ModelFileError(str(error), name) from None
    except (DataError, ParameterError) as error:
        raise ModelFileError(f"holds no sound model: {error} {AGAIN}", name) from None
    except MemoryError:
        raise ModelFileError("must fit into memory. Got a larger file.", name) from None


def checksum(metadata: dict[str, str], tensors: Iterable[_Tensor]) -> str:
    """SHA-256 of all metadata but the checksum and of all tensors, each by name.

    Every part is preceded by its length, so that different contents never run together.
    """
    digest = hashlib.sha256()

    def add(part: bytes | bytearray) -> None:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)

    for key in sorted(metadata):
        if key != "checksum":
            add(key.encode("utf-8", "surrogatepass"))
            add(metadata[key].encode("utf-8", "surrogatepass"))
    for tensor in sorted(tensors):
        shape = ",".join(map(str, tensor.shape))
        add(f"{tensor.name} {tensor.kind} {shape}".encode("utf-8", "surrogatepass"))
        add(tensor.data)
    return digest.hexdigest()


def in_fixed_order(content: bytes) -> bytes:
    """The same file with the keys of its header sorted: safetensors puts them at random."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _LONGEST_HEADER:
        raise DataError(
            f"names, parameters and history of a model must fit into {_LONGEST_HEADER} bytes. "
            f"Got {len(text)}: shorten them."
        )
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def refuse(problem: str) -> NoReturn:
    """Refuse a file, inside `refusing`, by a message that says what to do."""
    raise _RefusedError(problem)


@contextmanager
def open_regular(path: str | os.PathLike[str]) -> Iterator[tuple[BinaryIO, int]]:
    """A file and its size. Opening a pipe or reading a device might never end."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        refuse("there is no such file. Check the path.")
    except (OSError, ValueError) as error:
        refuse(f"cannot be found: {error}. Check the path.")
    if stat.S_ISDIR(status.st_mode):
        refuse("must be a model file. Got a directory: name a file in it.")
    if not stat.S_ISREG(status.st_mode):
        refuse("must be a regular file. Got a device or a pipe: name a file.")
    try:
        with open(path, "rb") as file:
            yield file, status.st_size
    except OSError as error:
        refuse(f"cannot be read: {error.strerror}. Check the file and its permissions.")


def _read_metadata(file: BinaryIO, size: int) -> dict[str, str]:
    """The metadata from the header: little is read before it is known whose file this is."""
    foreign = "must be a model file that Rankgrove saved. Got another kind of file: check the path."
    if size == 0:
        refuse(f"must be a model file. Got an empty one. {AGAIN}")
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or not 2 <= length <= _LONGEST_HEADER:
        refuse(foreign)
    if length > size - 8:
        ours = file.read(len(_METADATA) + 2) == f'{{"{_METADATA}'.encode()
        refuse(f"must be whole. Got only the start of it. {AGAIN}" if ours else foreign)
    try:
        header = json.loads(file.read(length).decode("utf-8"))
    except (ValueError, RecursionError):
        refuse(foreign)
    metadata = header.get(_METADATA) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or metadata.get("format") not in FORMATS:
        refuse(foreign)
    if not all(isinstance(value, str) for value in metadata.values()):
        refuse(f"must have metadata that are strings. Got others. {AGAIN}")
    return metadata


def _check_version(metadata: dict[str, str], newest: int) -> None:
    version = metadata.get("format_version", "")
    if not (version.isascii() and version.isdigit() and 0 < len(version) < 10 and int(version)):
        refuse(f"must have a format_version of 1 or more. Got {version[:20]!r}. {AGAIN}")
    if int(version) > newest:
        maker = metadata.get("rankgrove_version", "a newer one")[:40]
        refuse(
            f"must be of model format {newest} or older. Got format {int(version)}, "
            f"written by Rankgrove {maker}: update Rankgrove to read it."
        )


def _read_tensors(content: bytes) -> list[_Tensor]:
    try:
        found = safetensors.deserialize(content)
    except safetensors.SafetensorError as error:
        problem = str(error).removeprefix("Error while deserializing: ")[:200]
        refuse(f"must be whole and undamaged. Got: {problem}. {AGAIN}")
    return [
        _Tensor(name, entry["dtype"], tuple(entry["shape"]), entry["data"]) for name, entry in found
    ]


def _as_tensor(name: str, array: NDArray[Any]) -> _Tensor:
    kind = _NAMES[array.dtype.newbyteorder("=")]
    return _Tensor(name, kind, array.shape, array.astype(_TYPES[kind]).tobytes())


def _as_array(tensor: _Tensor) -> NDArray[Any]:
    """The numbers of a tensor, in the byte order of this machine."""
    if tensor.kind not in _TYPES:
        refuse(f"must hold numbers of known types. Got {tensor.kind} in {tensor.name}. {AGAIN}")
    try:
        array = np.frombuffer(tensor.data, dtype=_TYPES[tensor.kind]).reshape(tensor.shape)
    except (ValueError, OverflowError):
        refuse(f"must hold arrays. Got shape {tensor.shape} for {tensor.name}. {AGAIN}")
    return array.astype(array.dtype.newbyteorder("="))


def to_json(value: Any) -> str:
    """JSON without blanks, and without numbers that are not finite."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def from_json(metadata: dict[str, str], key: str) -> dict[str, Any]:
    """The object that an entry of the metadata holds as JSON."""

    def refuse_constant(text: str) -> NoReturn:
        raise ValueError(text)

    try:
        value = json.loads(metadata.get(key, ""), parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        refuse(f"must hold the {key} of the model as JSON. Got none that can be read. {AGAIN}")
    return value


def describe(model: Any) -> dict[str, str]:
    """The metadata that every model has."""
    # JSON has no word for what is not finite.
    history = map_history(model.history, lambda value: value if math.isfinite(value) else None)
    schema = asdict(model.schema)
    if not model.schema.levels:
        del schema["levels"]
    found = {
        "rankgrove_version": model.version,
        "schema": to_json(schema),
        "parameters": to_json(model.parameters),
        "history": to_json(history),
    }
    has_notes = model.notes or model.parameters.keys() & _NOTES_AMONG_PARAMETERS
    return found | ({"notes": to_json(model.notes)} if has_notes else {})


def described(metadata: dict[str, str]) -> dict[str, Any]:
    """The fields of a model that `describe` wrote."""
    return training_of(metadata) | {
        "schema": schema_from_json(metadata, "schema"),
        "version": metadata.get("rankgrove_version", "unknown"),
    }


def training_of(metadata: dict[str, str]) -> dict[str, Any]:
    """The parameters, history and notes of a model that `describe` wrote."""
    noted = from_json(metadata, "notes") if "notes" in metadata else None
    parameters, notes = apart(from_json(metadata, "parameters"), noted)
    return {"parameters": parameters, "history": _history_from_json(metadata), "notes": notes}


def apart(
    parameters: dict[str, Any], notes: dict[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and notes; of an older file, without notes, they are among the parameters."""
    if notes is not None:
        return parameters, notes
    old = {name: value for name, value in parameters.items() if name in _NOTES_AMONG_PARAMETERS}
    return {name: value for name, value in parameters.items() if name not in old}, old


def named_under(part: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of a part of a file, by the names that they have there."""
    return {f"{part}.{name}": entry for name, entry in entries.items()}


def taken_from(part: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that `named_under` named, by their own names."""
    start = f"{part}."
    return {name[len(start) :]: e for name, e in entries.items() if name.startswith(start)}


def schema_from_json(metadata: dict[str, str], key: str) -> Schema:
    """The schema whose fields an entry of the metadata holds as JSON."""
    schema = from_json(metadata, key)
    names = schema.get("feature_names")
    categories = schema.get("categories")
    needs_base_scores = schema.get("needs_base_scores")
    levels = schema.get("levels", {})
    if (
        not isinstance(names, list)
        or not isinstance(categories, dict)
        or not isinstance(needs_base_scores, bool)
        or not isinstance(levels, dict)
        or not all(_is_number_text(key) for key in (*categories, *levels))
        or not all(are_numbers(values) for values in categories.values())
        or not all(isinstance(values, list) for values in levels.values())
        or not all(isinstance(v, (str, int)) for values in levels.values() for v in values)
    ):
        refuse(
            f"must have feature_names, categories, needs_base_scores and levels, if any, as JSON. "
            f"{AGAIN}"
        )
    by_number, levels_by_number = (
        {int(key): values for key, values in entry.items()} for entry in (categories, levels)
    )
    return Schema(tuple(names), by_number, needs_base_scores, levels_by_number)


def _is_number_text(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _history_from_json(metadata: dict[str, str]) -> History:
    """The history that `describe` wrote, with NaN for None."""
    history = from_json(metadata, "history")
    for curves in history.values():
        if not isinstance(curves, dict) or not all(
            isinstance(curve, list) and are_numbers([v for v in curve if v is not None])
            for curve in curves.values()
        ):
            refuse(f"must have a history of numbers by validation set and metric. {AGAIN}")
    return map_history(history, lambda value: math.nan if value is None else float(value))


def map_history(history: History, change: Callable[[Any], Any]) -> History:
    """A history of changed values, under names that are strings."""
    return {
        str(name): {str(spec): [change(value) for value in curve] for spec, curve in curves.items()}
        for name, curves in history.items()
    }


def are_numbers(values: Any) -> bool:
    """Whether this is a list of numbers that a float64 can hold."""
    return isinstance(values, list) and all(
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
        for value in values
    )
