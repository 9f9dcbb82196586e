"""Numbers that differ, as good as always, for other data; the same however rows are dealt out.

Each row has a hash of its contents and of its number among all rows, and hashes are added up modulo
2^64: over chunks, blocks of a file and workers, in any order.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel, run_chunks
from rankgrove._jit.hashing import draw_array, mix, mix_array
from rankgrove.data.sparse_features import Features, SparseFeatures

_CHUNK_ROWS = 1 << 13
# Told apart from other numbers that are drawn.
_KEYS, _ARRAYS = 0x73756D73, 0x61727279


@kernel
def _add_hashes(words, keys, numbers, first, last):
    total = np.uint64(0)
    for row in range(first, last):
        content = np.uint64(0)
        for j in range(len(keys)):
            content += np.uint64(words[row, j]) * keys[j]
        total += mix(content + mix(np.uint64(numbers[row])))
    return total


@kernel
def _add_sparse_hashes(
    starts, columns, words, absent, content_of_absent, keys, numbers, first, last
):
    """As `_add_hashes`; a row of absent values has `content_of_absent`."""
    total = np.uint64(0)
    for row in range(first, last):
        content = content_of_absent
        for at in range(starts[row], starts[row + 1]):
            content += (np.uint64(words[at]) - absent) * keys[columns[at]]
        total += mix(content + mix(np.uint64(numbers[row])))
    return total


def checksum_of_features(
    features: Features, numbers: NDArray[np.int64], n_jobs: int | None = None
) -> int:
    """Of rows with these numbers among all rows; the same for a sparse form and a dense one."""
    keys = draw_array(0, 0, _KEYS, np.arange(features.shape[1])) | np.uint64(1)
    keys, numbers = as_input(keys, np.uint64), as_input(numbers, np.int64)
    n_rows = len(features)
    hashes: Callable[..., Any]
    arguments: tuple[Any, ...]
    if isinstance(features, SparseFeatures):
        absent = np.float32(features.absent).view(np.uint32).astype(np.uint64)
        words = as_input(features.values.view(np.uint32), np.uint32)
        content = (absent * keys).sum(dtype=np.uint64)
        hashes = _add_sparse_hashes
        arguments = (features.starts, features.columns, words, absent, content, keys, numbers)
    else:
        words = as_input(as_input(features, np.float32).view(np.uint32), np.uint32)
        hashes, arguments = _add_hashes, (words, keys, numbers)
    sums = np.zeros(-(-n_rows // _CHUNK_ROWS), dtype=np.uint64)

    def task(chunk: int) -> None:
        first = chunk * _CHUNK_ROWS
        sums[chunk] = hashes(*arguments, first, min(first + _CHUNK_ROWS, n_rows))

    run_chunks(task, len(sums), n_jobs)
    return int(sums.sum(dtype=np.uint64))


def checksum_of_array(values: NDArray[Any], numbers: NDArray[np.int64], tag: int) -> int:
    """Of an array with one entry for each of these numbers; the tag tells arrays apart."""
    total = 0
    for first in range(0, len(numbers), _CHUNK_ROWS):
        rows = slice(first, first + _CHUNK_ROWS)
        words = np.ascontiguousarray(values[rows], dtype=np.float64).view(np.uint64)
        with np.errstate(over="ignore"):
            hashes = mix_array(words ^ draw_array(tag, 0, _ARRAYS, numbers[rows]))
        total += int(hashes.sum(dtype=np.uint64))
    return total % (1 << 64)
