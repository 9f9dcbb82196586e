"""Files of compiled kernels that come with the package.

There is one for each level of processors. It begins with a mark, the checksum and the length of a
header, and the header, which says what the code was compiled by and for, and where that of each
kernel is. Nothing of a file is used before its checksum was found right.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("kernels")
_MARK = b"rankgrove kernels 1\n"
_DIGEST_BYTES, _LENGTH_BYTES = 32, 8

# What a processor of each level can do, by the names that LLVM has for it; the highest level first.
_V2 = frozenset({"cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2"})
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
LEVELS: dict[str, Mapping[str, frozenset[str]]] = {
    "x86_64": {"x86-64-v3": _V3, "x86-64-v2": _V2},
    "aarch64": {"generic": frozenset()},
}
# The processor that code of a level is made for, where LLVM takes the level for the oldest one that
# has it, and what is taken away from that processor. On the oldest, choices between two numbers
# become branches: scoring took twice as long on all later ones. All that is beyond the level goes,
# and reading from many places by one instruction ("gather"), which is slow on many.
_TUNING = {
    "x86-64-v3": (
        "skylake",
        "adx aes clflushopt fsgsbase invpcid pclmul prfchw rdrnd rdseed xsavec xsaveopt xsaves "
        "fast-gather",
    )
}
_MACHINES = {"AMD64": "x86_64", "arm64": "aarch64"}


class DamagedStoreError(ValueError):
    """A file of compiled kernels is not what it was when it was written."""


@dataclass(frozen=True)
class Compiled:
    """The code of a kernel for one signature, and the digest of the source it was made from."""

    kernel: str
    signature: str
    source: str
    code: bytes


def levels_of_this_machine() -> Mapping[str, frozenset[str]]:
    """All levels of this kind of processor, the highest first, and what each can do."""
    machine = platform.machine()
    return LEVELS.get(_MACHINES.get(machine, machine), {})


def supported_levels(features: Iterable[str]) -> list[str]:
    """The levels of a processor that can do all of this, the highest first."""
    able = set(features)
    return [level for level, needed in levels_of_this_machine().items() if needed <= able]


def environment_of(level: str) -> dict[str, str]:
    """The variables by which Numba compiles for a level."""
    name, without = _TUNING.get(level, (level, ""))
    features = ",".join(f"-{feature}" for feature in without.split())
    return {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}


def compilers() -> dict[str, str]:
    """The versions that compiled code depends on."""
    import llvmlite  # noqa: PLC0415 (not needed to look for files)
    import numba  # noqa: PLC0415

    return {
        "Numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "Python": "{}.{}".format(*sys.version_info),
    }


def file_of(level: str, folder: Path) -> Path:
    """Where the kernels of a level are."""
    return folder / f"{level}.kernels"


def write_store(path: Path, key: Mapping[str, str], kernels: Iterable[Compiled]) -> None:
    """Write a file of compiled kernels."""
    places: dict[str, dict[str, Any]] = {}
    blobs: list[bytes] = []
    at = 0
    for each in kernels:
        blob = zlib.compress(each.code, 9)
        digest = hashlib.sha256(blob).hexdigest()
        of_kernel = places.setdefault(each.kernel, {})
        of_kernel[each.signature] = [each.source, at, len(blob), digest]
        blobs.append(blob)
        at += len(blob)
    header = json.dumps({"key": dict(key), "places": places}, sort_keys=True).encode()
    start = [_MARK, hashlib.sha256(header).digest(), len(header).to_bytes(_LENGTH_BYTES, "little")]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join([*start, header, *blobs]))


class Store:
    """A file of compiled kernels; `DamagedStoreError` if its header is not as it was written.

    Attributes
    ----------
    path, key
        Where it is, and what its code was compiled by and for.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            start = file.read(len(_MARK) + _DIGEST_BYTES + _LENGTH_BYTES)
            length = int.from_bytes(start[-_LENGTH_BYTES:], "little")
            is_whole = start.startswith(_MARK) and length <= os.fstat(file.fileno()).st_size
            header = file.read(length) if is_whole else b""
            self._first = file.tell()
        digest = start[len(_MARK) : len(_MARK) + _DIGEST_BYTES]
        if not is_whole or hashlib.sha256(header).digest() != digest:
            raise DamagedStoreError(f"{path} is damaged")
        content = json.loads(header)
        self.key: dict[str, str] = content["key"]
        self._places: dict[str, dict[str, Any]] = content["places"]

    def find(self, kernel: str, signature: str, source: str) -> bytes | None:
        """The code of a kernel; None if there is none that was made from this source."""
        place = self._places.get(kernel, {}).get(signature)
        if place is None or place[0] != source:
            return None
        _, at, length, digest = place
        with self.path.open("rb") as file:
            file.seek(self._first + at)
            blob = file.read(length)
        if hashlib.sha256(blob).hexdigest() != digest:
            raise DamagedStoreError(f"{self.path} is damaged")
        return zlib.decompress(blob)
