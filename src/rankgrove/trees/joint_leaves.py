"""The values of all leaves of a tree at once, from the pairs that documents form across leaves.

The cost of pairs depends on differences of scores only. Moved by values x of the leaves, its second
derivative is a Laplacian: each pair with curvature h whose documents are in leaves a and b adds h
to L[a, a] and L[b, b] and takes it from L[a, b] and L[b, a]. The Newton step solves

    (L + l2) x = d,  d the sum of the forces of each leaf.

The step of each leaf by itself, d / (L[a, a] + l2), takes the other leaves for fixed: where two
leaves push each other apart, both go the whole way.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel

Floats = NDArray[np.float64]

# Leaves that are solved for at once, at most: some 0.3 s for each tree.
MOST_JOINT_LEAVES = 1024

# A pivot below this share of what it was is nothing but rounding.
_NOTHING = 1e-13


def laplacian(sums: NDArray[np.int64], unit: float) -> Floats:
    """L from the curvatures of pairs in units, summed by their leaves in one order or the other.

    >>> laplacian(np.array([[7, 3], [0, 7]]), 0.5).tolist()
    [[1.5, -1.5], [-1.5, 1.5]]
    """
    sums = sums + sums.T
    np.fill_diagonal(sums, 0)
    # Whole numbers, so that rows add up in any order.
    matrix: Floats = -unit * sums
    np.fill_diagonal(matrix, unit * sums.sum(axis=1))
    return matrix


@kernel
def _parts_of(matrix, part):
    """Number the parts that leaves fall into, each connected by pairs; returns how many."""
    n, n_parts = len(part), 0
    waiting = np.empty(n, np.int64)
    part[:] = -1
    for start in range(n):
        if part[start] >= 0:
            continue
        part[start], waiting[0], n_waiting = n_parts, start, 1
        while n_waiting > 0:
            n_waiting -= 1
            a = waiting[n_waiting]
            for b in range(n):
                if part[b] < 0 and matrix[a, b] != 0.0:
                    part[b], waiting[n_waiting] = n_parts, b
                    n_waiting += 1
        n_parts += 1
    return n_parts


@kernel
def _solve(matrix, values):
    """Solve by Cholesky, in place; a leaf without a pivot gets 0. The matrix is spoilt.

    Rows are taken from rows, so that the compiler makes vectors of them.
    """
    n = len(values)
    for k in range(n):
        pivot, before = matrix[k, k], matrix[k, k]
        for j in range(k):
            before += matrix[j, k] * matrix[j, k]
        if not pivot > _NOTHING * before:
            matrix[k, k:] = 0.0
            continue
        root = math.sqrt(pivot)
        for j in range(k, n):
            matrix[k, j] /= root
        for i in range(k + 1, n):
            factor = matrix[k, i]
            if factor != 0.0:
                for j in range(i, n):
                    matrix[i, j] -= factor * matrix[k, j]
    for k in range(n):
        if matrix[k, k] == 0.0:
            values[k] = 0.0
            continue
        values[k] /= matrix[k, k]
        for j in range(k + 1, n):
            values[j] -= matrix[k, j] * values[k]
    for k in range(n - 1, -1, -1):
        if matrix[k, k] == 0.0:
            continue
        for j in range(k + 1, n):
            values[k] -= matrix[k, j] * values[j]
        values[k] /= matrix[k, k]


@kernel
def _centre(part, n_parts, is_free, values):
    """Take from the values of each part that nothing holds their mean."""
    sums, counts = np.zeros(n_parts), np.zeros(n_parts)
    for a in range(len(part)):
        sums[part[a]] += values[a]
        counts[part[a]] += 1.0
    for a in range(len(part)):
        if is_free[part[a]]:
            values[a] -= sums[part[a]] / counts[part[a]]


def joint_values(matrix: Floats, forces: Floats, held: Floats) -> Floats:
    """The solution x of (L + held) x = forces; of several, the one of the least length.

    Parameters
    ----------
    matrix
        L, by `laplacian`.
    forces
        One per leaf: the sum of its forces.
    held
        One per leaf, 0 or more: what is added to the diagonal.

    Examples
    --------
    Two leaves that a pair with force 1 and curvature 1/4 connects end 4 apart.

    >>> pair = np.array([[0.25, -0.25], [-0.25, 0.25]])
    >>> joint_values(pair, np.array([1.0, -1.0]), np.zeros(2)).tolist()
    [2.0, -2.0]
    """
    n = len(forces)
    values, part = np.array(forces, dtype=np.float64), np.empty(n, dtype=np.int64)
    n_parts = _parts_of(as_input(matrix, np.float64), part)
    # A part that nothing holds may be moved as a whole: forces that would do so are left out.
    is_free = np.bincount(part, held, n_parts) == 0
    _centre(part, n_parts, is_free, values)
    spoilt = matrix + np.diag(held)
    _, last = np.unique(part[::-1], return_index=True)
    fixed = n - 1 - last[is_free]
    spoilt[fixed, :] = 0.0
    spoilt[:, fixed] = 0.0
    _solve(np.ascontiguousarray(spoilt), values)
    _centre(part, n_parts, is_free, values)
    return values
