"""Files of binned data: arrays one after the other, then what they are, with a checksum of each.

The file starts with 32 bytes: a mark, and where the description, JSON, starts and how long it is.
Arrays start at multiples of 64 bytes, so that they can be used in place. All of it is written
beside its place and renamed when it is complete.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from itertools import pairwise
from os import PathLike
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove._version import __version__
from rankgrove.data.levels import Levels
from rankgrove.data.streams import open_for_writing
from rankgrove.errors import DataError
from rankgrove.trees.binned_data import BinnedData, Cutting
from rankgrove.trees.binning import BinnedMatrix, Bins, padded_width

_MARK = b"rankgrove.bins\n\x01"
_START = 32
_ALIGNED = 64
# Codes are written in stretches of so many rows.
_ROWS = 1 << 14

_AGAIN = "Make it anew with 'rankgrove bin'."

# The fields of BinnedData that are arrays; there need not be those that stand last.
FIELDS = ("labels", "offsets", "weights", "base_scores", "document_weights")
_OF_BINS = ("edges", "n_bins", "kinds")
_TYPES = {
    "labels": "<f4", "offsets": "<i8", "weights": "<f8", "base_scores": "<f8",
    "document_weights": "<f8", "edges": "<f4", "n_bins": "<i8", "kinds": "<i8", "codes": "|u1",
    "query_ids": "<i8", "id_text": "|u1", "id_bounds": "<i8",
}  # fmt: skip


class Parts(NamedTuple):
    """What a file of binned data holds besides the codes."""

    fields: dict[str, NDArray[Any] | None]
    query_ids: NDArray[Any]
    bins: Bins
    cutting: Cutting
    feature_names: tuple[str, ...]
    levels: dict[int, Levels]


def save(data: BinnedData, path: str | PathLike[str]) -> None:
    """Write binned data."""
    fields = {name: getattr(data, name) for name in FIELDS}
    parts = Parts(fields, data.query_ids, data.bins, data.cutting, data.feature_names, data.levels)
    codes = data.matrix.codes
    blocks = (codes[first : first + _ROWS] for first in range(0, len(codes), _ROWS))
    write(path, parts, blocks, lambda: data.checksum)


def write(
    path: str | PathLike[str],
    parts: Parts,
    codes: Iterable[NDArray[np.uint8]],
    checksum: Any,
) -> None:
    """Write a file from codes that come block by block, and the checksum that is known then."""
    with open_for_writing(path) as stream:
        stream.write(bytes(_START))
        arrays: dict[str, Any] = {"codes": _put(stream, "codes", codes)}
        for name, array in _arrays_of(parts).items():
            arrays[name] = _put(stream, name, [array])
        header = {
            "version": __version__,
            "feature_names": parts.feature_names,
            "categories": {str(f): values for f, values in parts.bins.categories.items()},
            **({"levels": {str(f): v for f, v in parts.levels.items()}} if parts.levels else {}),
            "cutting": parts.cutting._asdict(),
            "checksum": checksum(),
            "arrays": arrays,
        }
        text = json.dumps(header).encode()
        at = stream.tell()
        stream.write(text)
        stream.seek(0)
        numbers = np.array([at, zlib.crc32(text) << 32 | len(text)], dtype="<u8")
        stream.write(_MARK + numbers.tobytes())
        stream.flush()
        os.fsync(stream.fileno())


def _arrays_of(parts: Parts) -> dict[str, NDArray[Any]]:
    arrays = {name: array for name, array in parts.fields.items() if array is not None}
    arrays |= {name: getattr(parts.bins, name) for name in _OF_BINS}
    ids = parts.query_ids
    if ids.dtype.kind in "iu":
        return arrays | {"query_ids": ids}
    texts = [str(id_).encode() for id_ in ids]
    bounds = np.cumsum([0, *map(len, texts)])
    return arrays | {"id_text": np.frombuffer(b"".join(texts), np.uint8), "id_bounds": bounds}


def _put(stream: BinaryIO, name: str, blocks: Iterable[NDArray[Any]]) -> dict[str, Any]:
    """Write an array that comes in blocks; what a reader must know of it."""
    stream.write(bytes(-stream.tell() % _ALIGNED))
    start, length, crc, width = stream.tell(), 0, 0, 0
    for block in blocks:
        array = np.ascontiguousarray(block, dtype=_TYPES[name])
        length, width = length + len(array), array.shape[1] if array.ndim == 2 else 0
        memory = array.reshape(-1).view(np.uint8).data
        crc = zlib.crc32(memory, crc)
        stream.write(memory)
    shape = [length, width] if width else [length]
    return {"start": start, "shape": shape, "crc32": crc}


def is_bins_file(path: str | PathLike[str]) -> bool:
    """Whether a file starts as those of binned data do."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_MARK)) == _MARK
    except OSError:
        return False  # whoever reads it says why it cannot be read


def load(path: str | PathLike[str]) -> BinnedData:
    """The data of a file, whose codes stay in it."""
    name = os.fspath(path)
    try:
        whole = np.memmap(name, np.uint8, "r").view(np.ndarray)
    except FileNotFoundError:
        raise DataError(f"{name}: there is no such file. Check the path.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{name}: cannot be read: {error}.") from None
    try:
        return _data_of(whole)
    except (KeyError, TypeError, ValueError, IndexError, DataError) as error:
        problem = str(error).rstrip(".") if isinstance(error, (DataError, ValueError)) else "damage"
        raise DataError(f"{name}: must be a whole file of binned data. Got: {problem}. {_AGAIN}") \
            from None  # fmt: skip


def _data_of(whole: NDArray[np.uint8]) -> BinnedData:
    if whole[: len(_MARK)].tobytes() != _MARK:
        raise DataError("another kind of file, or one that was never finished")
    at, packed = (int(n) for n in whole[len(_MARK) : _START].view("<u8"))
    size = packed & 0xFFFFFFFF
    text = whole[at : at + size].tobytes()
    if len(text) != size or zlib.crc32(text) != packed >> 32:
        raise DataError("one that is cut off or damaged")
    header = json.loads(text)
    arrays = {name: _take(whole, name, place) for name, place in header["arrays"].items()}
    categories = {int(f): tuple(values) for f, values in header["categories"].items()}
    bins = Bins(arrays["edges"], arrays["n_bins"], arrays["kinds"], categories)
    codes = arrays["codes"]
    if codes.ndim != 2 or codes.shape[1] != padded_width(len(bins.n_bins)):
        raise DataError(f"codes of shape {codes.shape}")
    cutting = header["cutting"]
    return BinnedData(
        matrix=BinnedMatrix.of(codes, bins),
        bins=bins,
        cutting=Cutting(
            cutting["max_bins"], tuple(cutting["categorical"]), cutting["random_state"]
        ),
        checksum=header["checksum"],
        in_file=True,
        labels=arrays["labels"],
        offsets=arrays["offsets"],
        query_ids=_ids_of(arrays),
        feature_names=tuple(header["feature_names"]),
        levels={int(f): tuple(values) for f, values in header.get("levels", {}).items()},
        weights=arrays.get("weights"),
        base_scores=arrays.get("base_scores"),
        document_weights=arrays.get("document_weights"),
    )


def _take(whole: NDArray[np.uint8], name: str, place: dict[str, Any]) -> NDArray[Any]:
    kind = np.dtype(_TYPES[name])
    start, shape = place["start"], tuple(place["shape"])
    memory = whole[start : start + int(np.prod(shape)) * kind.itemsize]
    if zlib.crc32(memory.data) != place["crc32"]:
        raise DataError(f"other {name} than were written")
    return memory.view(kind).reshape(shape)


def _ids_of(arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    if "query_ids" in arrays:
        return arrays["query_ids"]
    text, bounds = arrays["id_text"].tobytes(), arrays["id_bounds"].tolist()
    ids = np.empty(len(bounds) - 1, dtype=object)
    ids[:] = [text[a:b].decode() for a, b in pairwise(bounds)]
    return ids
