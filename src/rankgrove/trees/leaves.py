"""The leaves of a grown tree: their values, and what they add to scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, resolve_n_jobs, run_chunks
from rankgrove._jit.exact import Scale, scales_of
from rankgrove._jit.peers import ALONE, Peers
from rankgrove.errors import DataError
from rankgrove.trees.binning import CATEGORICAL, BinnedMatrix, Bins
from rankgrove.trees.ensemble import NO_SET, SET_WORDS, Tree
from rankgrove.trees.grower import GrownTree
from rankgrove.trees.joint_leaves import joint_values
from rankgrove.trees.partition import (
    PART_ROWS,
    add_to_parts,
    number_parts,
    run_parts,
    sum_parts,
    walk_rows,
)

Floats = NDArray[np.float64]


def leaf_values(
    grown: GrownTree,
    rows: NDArray[np.int32],
    forces: Floats,
    curvatures: Floats,
    *,
    l2: float,
    l2_documents: float = 0.0,
    least: float = 0.0,
    unit: float,
    n_all: int | None = None,
    n_jobs: int | None = None,
    peers: Peers = ALONE,
    scales: Sequence[Scale] | None = None,
    matrix: Floats | None = None,
) -> Floats:
    """The Newton step of each leaf, sum of forces / (sum of curvatures + l2), within its bounds.

    The sums are of the numbers themselves, not of the whole units that splits are chosen by; they
    are exact, and over all workers. `l2_documents` adds to `l2` the average curvature of a document
    so many times. Curvatures count as `least` at the least, so that the step stays within reason
    where splits did not look at them, and a leaf without any gets 0. `unit` is what the bounds of
    nodes are counted in, and `n_all` the number of rows of all workers. `scales` are those of
    forces and curvatures, by `scales_of`, if they are known. With the `matrix` of pairs between
    leaves, by `laplacian`, the step is that of all leaves at once, its diagonal `least` or more.
    """
    parts = grown.parts
    sums = np.empty((len(parts), 2, 2), dtype=np.int64)
    rows = as_input(rows, np.int32)
    forces, curvatures = as_input(forces, np.float64), as_input(curvatures, np.float64)
    n_all = len(forces) if n_all is None else n_all
    if scales is None:
        scales = scales_of([forces, curvatures], n_all, n_jobs, peers)
    run_parts(
        lambda a, b: sum_parts(rows, forces, curvatures, *scales, parts, a, b, sums),
        parts,
        resolve_n_jobs(n_jobs),
    )
    n_leaves = grown.n_leaves
    totals = sums.reshape(-1, n_leaves, 2, 2).sum(axis=0)
    peers.sum(totals)
    force, curvature = (scale.total(totals[:, k]) for k, scale in enumerate(scales))
    if l2_documents:
        whole = float(scales[1].total(totals[:, 1].sum(axis=0)))
        l2 += l2_documents * (whole / max(int(grown.count.sum()), 1))
    if matrix is None:
        weight = np.maximum(curvature, least) + l2
        values = np.divide(force, weight, out=np.zeros(n_leaves), where=weight > 0)
    else:
        values = joint_values(matrix, force, np.maximum(least - np.diag(matrix), 0.0) + l2)
    clipped: Floats = np.minimum(np.maximum(values, grown.low * unit), grown.high * unit)
    return clipped


def add_to_scores(
    grown: GrownTree,
    rows: NDArray[np.int32],
    values: Floats,
    scores: Floats,
    n_jobs: int | None = None,
) -> None:
    """Add to the scores of the rows that the tree was grown on the values of their leaves."""
    parts = grown.parts
    rows, values = as_input(rows, np.int32), as_input(values, np.float64)
    run_parts(
        lambda a, b: add_to_parts(rows, parts, values, a, b, scores),
        parts,
        resolve_n_jobs(n_jobs),
    )


def leaves_of_rows(
    grown: GrownTree, rows: NDArray[np.int32], n_jobs: int | None = None
) -> NDArray[np.int32]:
    """The leaf of each row of a tree that was grown on all rows."""
    rows, leaves = as_input(rows, np.int32), np.empty(len(rows), np.int32)
    run_parts(
        lambda a, b: number_parts(rows, grown.parts, a, b, leaves),
        grown.parts,
        resolve_n_jobs(n_jobs),
    )
    return leaves


def walk(
    grown: GrownTree,
    matrix: BinnedMatrix,
    values: Floats,
    scores: Floats,
    n_jobs: int | None = None,
) -> None:
    """Add to the scores of all rows of a matrix the values of the leaves they reach."""
    _walk(grown, matrix.slots[grown.features], grown.tables, matrix, values, scores, n_jobs)


def walk_tree(
    tree: Tree, bins: Bins, matrix: BinnedMatrix, scores: Floats, n_jobs: int | None = None
) -> None:
    """Add to the scores of all rows of a matrix what a tree of any data gives them.

    Its thresholds must be edges of the bins.
    """
    tables = _tables_of(tree, bins)
    _walk(tree, matrix.slots[tree.feature], tables, matrix, tree.value, scores, n_jobs)


def _tables_of(tree: Tree, bins: Bins) -> NDArray[np.uint8]:
    """For each split, which codes go left."""
    tables = np.zeros((len(tree.feature), 256), dtype=np.uint8)
    for split, (feature, threshold) in enumerate(zip(tree.feature, tree.threshold, strict=True)):
        chosen = tree.category_set[split]
        if chosen != NO_SET:
            words = tree.category_sets[chosen][:, np.newaxis] >> np.arange(32, dtype=np.uint32)
            tables[split] = (words & np.uint32(1)).reshape(-1)
        else:
            edges = bins.edges[feature, : bins.n_bins[feature] - 1]
            at = len(edges) if threshold == np.inf else int(np.searchsorted(edges, threshold))
            if threshold != np.inf and (at == len(edges) or edges[at] != threshold):
                raise DataError(
                    f"a model must split binned data between their bins. Got {threshold:g} as a "
                    f"threshold of feature {feature + 1}, which is no edge of a bin: score the "
                    f"features themselves, or use a model that was trained with these bins."
                )
            tables[split, : at + 1 if threshold != np.inf else 255] = 1
    tables[:, 255] = tree.missing_left
    return tables


def _walk(
    tree: GrownTree | Tree,
    places: NDArray[np.int64],
    tables: NDArray[np.uint8],
    matrix: BinnedMatrix,
    values: Floats,
    scores: Floats,
    n_jobs: int | None,
) -> None:
    places, tables = as_input(places, np.int64), as_input(tables, np.uint8)
    left, right = as_input(tree.left, np.int32), as_input(tree.right, np.int32)
    values = as_input(values, np.float64)
    n_rows = matrix.n_rows
    if not matrix.has_all_codes:
        # The codes of those features are written that the tree asks for.
        asked, places = np.unique(places, return_inverse=True)
        places = as_input(places, np.int64)

    def task(chunk: int) -> None:
        first, last = chunk * PART_ROWS, min((chunk + 1) * PART_ROWS, n_rows)
        codes = matrix.codes[first:last]
        if not matrix.has_all_codes:
            codes = as_input(matrix.codes_at(asked, first, last), np.uint8)
        walk_rows(codes, places, tables, left, right, values, scores[first:last])

    run_chunks(task, -(-n_rows // PART_ROWS), n_jobs)


def to_tree(grown: GrownTree, bins: Bins, values: Floats) -> Tree:
    """The tree in terms of values of features instead of codes."""
    feature = grown.features
    by_category = bins.kinds[feature] == CATEGORICAL
    category_set = np.where(by_category, np.cumsum(by_category) - 1, NO_SET)
    bits = grown.tables[by_category].reshape(-1, SET_WORDS, 32).astype(np.uint32)
    # The edge after the last bin is infinity: every value goes left there, and only NaN right.
    n_edges = bins.edges.shape[1]
    edges = bins.edges[feature, np.minimum(grown.bins, n_edges - 1)]
    edges = np.where(grown.bins < n_edges, edges, np.inf)
    return Tree(
        feature=feature.astype(np.int32),
        threshold=np.where(by_category, 0, edges).astype(np.float32),
        missing_left=grown.tables[:, 255].copy(),
        left=grown.left,
        right=grown.right,
        category_set=category_set.astype(np.int32),
        gain=grown.gains,
        value=values,
        count=grown.count,
        category_sets=(bits << np.arange(32, dtype=np.uint32)).sum(axis=2, dtype=np.uint32),
    )
