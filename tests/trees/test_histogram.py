"""Histograms, held to a plain sum over rows; integers make that exact."""

import numpy as np
import pytest

from rankgrove._jit import as_input
from rankgrove.trees.histogram import pack_rows, sum_all_rows, sum_rows, units, unpack

N_BLOCKS, N_ROWS = 2, 3000


def naive_histograms(codes, packed, rows):
    """Sums of packed values by block, bin and column, one row at a time."""
    out = np.zeros((len(codes), 256, 16), dtype=np.int64)
    for block in range(len(codes)):
        for row in rows:
            for column in range(16):
                out[block, codes[block, row, column], column] += packed[row]
    return out.reshape(len(codes), 4096)


@pytest.fixture
def node():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (N_BLOCKS, N_ROWS, 16)).astype(np.uint8)
    forces, curvatures = rng.standard_cauchy(N_ROWS), rng.random(N_ROWS)
    packed = np.empty(N_ROWS, np.int64)
    pack_rows(as_input(forces, float), as_input(curvatures, float), *units(forces, curvatures),
              packed)  # fmt: skip
    return codes, as_input(packed, np.int64)


def flat(codes):
    return as_input(codes.reshape(len(codes), -1), np.uint8)


def poisoned():
    return np.full((N_BLOCKS, 4096), 12345, dtype=np.int64)


def test_histogram_of_all_rows_equals_the_plain_sum(node):
    codes, packed = node
    out = poisoned()
    sum_all_rows(flat(codes), packed, 0, N_BLOCKS, out)
    assert np.array_equal(out, naive_histograms(codes, packed, range(N_ROWS)))


def test_sibling_histogram_is_exact_by_subtraction(node):
    codes, packed = node
    rows = np.sort(np.random.default_rng(1).choice(N_ROWS, 700, replace=False)).astype(np.int32)
    others = np.setdiff1d(np.arange(N_ROWS), rows)
    parent, child = poisoned(), poisoned()
    sum_all_rows(flat(codes), packed, 0, N_BLOCKS, parent)
    sum_rows(flat(codes), packed, as_input(rows, np.int32), 0, N_BLOCKS, parent, child)
    assert np.array_equal(child, naive_histograms(codes, packed, rows))
    assert np.array_equal(parent, naive_histograms(codes, packed, others))


def test_only_the_blocks_asked_for_are_written(node):
    codes, packed = node
    out = poisoned()
    sum_all_rows(flat(codes), packed, 1, 2, out)
    assert np.all(out[0] == 12345)


@pytest.mark.parametrize("n_rows", [1, 10, 100_000])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_packed_sums_never_overflow_and_lose_at_most_half_a_unit_a_row(n_rows, sign):
    rng = np.random.default_rng(2)
    forces = sign * np.abs(rng.standard_cauchy(n_rows))
    curvatures = rng.random(n_rows) ** 8
    steps = units(forces, curvatures)
    packed = np.empty(n_rows, np.int64)
    pack_rows(as_input(forces, float), as_input(curvatures, float), *steps, packed)
    force, curvature = unpack(int(packed.sum()), *steps)
    assert abs(force - forces.sum()) <= 0.5 * n_rows * steps[0]
    assert abs(curvature - curvatures.sum()) <= 0.5 * n_rows * steps[1]


def test_rows_without_force_or_curvature_pack_to_zero():
    zeros = np.zeros(5)
    packed = np.empty(5, np.int64)
    pack_rows(as_input(zeros, float), as_input(zeros, float), *units(zeros, zeros), packed)
    assert packed.tolist() == [0] * 5
