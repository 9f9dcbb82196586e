"""Model files taken apart and put together again, right or wrong, by the format alone."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import safetensors.numpy

KINDS = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32",
         "uint32": "U32", "uint8": "U8"}  # fmt: skip


def unpack(content):
    """The metadata and the tensors of a file."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    return header["__metadata__"], dict(safetensors.numpy.load(content))


def pack(metadata, tensors):
    """A safetensors file of these."""
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    return safetensors.numpy.save(arrays, metadata)


def with_checksum(metadata, tensors):
    """A safetensors file of these, with the checksum that the format asks for."""
    digest = hashlib.sha256()

    def add(part):
        digest.update(len(part).to_bytes(8, "little") + part)

    for key in sorted(metadata.keys() - {"checksum"}):
        add(key.encode())
        add(metadata[key].encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        shape = ",".join(str(length) for length in array.shape)
        add(f"{name} {KINDS[array.dtype.name]} {shape}".encode())
        add(array.tobytes())
    return pack(metadata | {"checksum": digest.hexdigest()}, tensors)
