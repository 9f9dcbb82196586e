"""Scoring: what an ensemble gives to documents.

Documents are scored in blocks of 128. First their values become codes of one byte, by `coding`.

Then every split of a tree is decided, from the last to the first, for all documents of the block
at once: the leaf of a document below a split is the one below its left or its right child, and
both are known by then. This does more comparisons than a walk from the root, 62 instead of 9 for
a tree of 63 leaves, but it has no branch, reads memory in order and handles 32 documents
with one instruction, and so it is several times faster. A leaf number has one byte: trees of
more than 256 leaves, and blocks of a few documents, are walked instead, several trees at a time.
Of an oblivious tree one split a level is decided: the answers are the bits of the leaf number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove._jit import (
    LANES,
    as_input,
    choose_bytes,
    empty,
    flattened,
    kernel,
    resolve_n_jobs,
    run_chunks,
)
from rankgrove.data.sparse_features import Features, SparseFeatures
from rankgrove.errors import DataError, ParameterError
from rankgrove.trees.coding import BLOCK, FEW_ROWS, Coding, encode_block, encode_sparse_block
from rankgrove.trees.ensemble import Ensemble

# A leaf number is a byte, so a tree that is decided for a whole block has at most 255 splits.
# Slots from here on are leaves in such a tree.
_BYTE_SPLITS = 255
# Walks that go on side by side, of documents or in trees: one does not wait for another's memory.
_WALKS = 64
# Splits times documents that make it worth while to call a thread: about 0.5 ms.
_CHUNK_WORK = 8_000_000
# To code a value costs as much as to decide so many splits.
_CODE_COST = 100

# The kernels index with unsigned numbers: a signed index is tested for being negative, and the
# test keeps a loop from being vectorised.
_ROWS = np.uint64(BLOCK)
_LANES = np.uint64(LANES)
_LEAVES = np.uint64(_BYTE_SPLITS * BLOCK)


@kernel
def _decide_block(records, place, n_splits, codes, leaves, rows):
    """Leaf numbers of a block for one tree, split by split; returns where they stand.

    `leaves` has a row of the block for each split and for each leaf; the latter hold the leaf's
    own number. A record is left slot, right slot, column (all times 128), and the highest code
    that goes left with the amount to take off a code before.
    """
    out = _LEAVES
    for split in range(n_splits):
        left = np.uint64(records[place])
        right = np.uint64(records[place + np.uint64(1)])
        column = np.uint64(records[place + np.uint64(2)])
        rule = records[place + np.uint64(3)]
        highest = np.uint8(rule)
        less = np.uint8(rule >> np.uint32(8))
        place += np.uint64(4)
        out = np.uint64(split) * _ROWS
        i = np.uint64(0)
        while i < rows:
            choose_bytes(codes, column + i, less, highest, leaves, left + i, right + i, out + i)
            i += _LANES
    return out


@kernel
def _decide_levels(records, place, n_splits, codes, leaves, rows):
    """As `_decide_block` for an oblivious tree: a bit of the leaf number for each level."""
    for lane in range(np.uint64(0), rows, _LANES):
        for i in range(_LANES):
            leaves[np.uint64(lane) + i] = 0
    # Splits stand from the last to the first; the first one of each level will do.
    level = np.uint64(0)
    while level < n_splits:
        at = place + (n_splits - np.uint64(1) - level) * np.uint64(4)
        column = np.uint64(records[at + np.uint64(2)])
        rule = records[at + np.uint64(3)]
        highest = np.uint8(rule)
        less = np.uint8(rule >> np.uint32(8))
        for lane in range(np.uint64(0), rows, _LANES):
            for i in range(_LANES):
                row = np.uint64(lane) + i
                goes_right = np.uint8(codes[column + row] - less) > highest
                leaves[row] = np.uint8(leaves[row] * np.uint8(2) + np.uint8(goes_right))
        level = level * np.uint64(2) + np.uint64(1)
    return np.uint64(0)


@kernel
def _walk_trees(
    records, split_offsets, leaf_value, first_tree, last_tree, rows, codes, walks, sums
):
    """Add the values of the leaves of some documents in some trees, each walked from the root.

    The walks, of each document in each tree, take their steps in turn; those that have reached a
    leaf drop out of the list without a branch. `walks` has a row each for that list and for the
    slot, the document, the first split and the first slot of a leaf of each walk.
    """
    walking, slots, documents, starts, first_leaves = walks
    n_walks = 0
    n_walking = np.int64(0)
    for tree in range(first_tree, last_tree):
        n_splits = split_offsets[tree + 1] - split_offsets[tree]
        for row in range(rows):
            starts[n_walks] = split_offsets[tree]
            documents[n_walks] = row
            first_leaves[n_walks] = max(n_splits, _BYTE_SPLITS)
            slots[n_walks] = n_splits - 1 if n_splits > 0 else _BYTE_SPLITS
            walking[n_walking] = n_walks
            n_walking += n_splits > 0
            n_walks += 1
    while n_walking > 0:
        kept = np.int64(0)
        for k in range(n_walking):
            walk = walking[k]
            place = np.uint64(starts[walk] + slots[walk]) * np.uint64(4)
            rule = records[place + np.uint64(3)]
            code = codes[np.uint64(records[place + np.uint64(2)]) + np.uint64(documents[walk])]
            goes_right = np.uint8(code - np.uint8(rule >> np.uint32(8))) > np.uint8(rule)
            slot = np.int64(records[place + np.uint64(goes_right)] // np.uint32(_ROWS))
            slots[walk] = slot
            walking[kept] = walk
            kept += slot < first_leaves[walk]
        n_walking = kept
    walk = 0
    for tree in range(first_tree, last_tree):
        for row in range(rows):
            leaf = slots[walk] - first_leaves[walk]
            sums[row] += leaf_value[split_offsets[tree] + tree + leaf]
            walk += 1


@kernel
def score_rows(
    features, sparse, first, last, column_feature, column_set, edges, n_edges, sets,
    records, split_offsets, leaf_value, oblivious, n_trees, max_leaves, scores,
):  # fmt: skip
    """Add the values of the leaves of the trees, in their order, to the scores of some rows.

    The features are those of a matrix, or sparse; the other one is None.
    """
    # Codes past the last document are whatever they are, and so are their leaves: nobody looks.
    codes = empty((len(column_feature), BLOCK), np.uint8)
    flat_codes = flattened(codes)
    leaves = empty((_BYTE_SPLITS + max_leaves) * BLOCK, np.uint8)
    for leaf in range(max_leaves):
        leaves[(_BYTE_SPLITS + leaf) * BLOCK : (_BYTE_SPLITS + leaf + 1) * BLOCK] = leaf
    walks = empty((5, BLOCK), np.int64)
    sums = empty(BLOCK, np.float64)
    for start in range(first, last, BLOCK):
        rows = min(last - start, BLOCK)
        if sparse is None:
            encode_block(
                features, start, rows, column_feature, column_set, edges, n_edges, sets, codes
            )
        else:
            encode_sparse_block(sparse, start, rows, column_set, edges, n_edges, sets, codes)
        for row in range(rows):
            sums[row] = scores[start + row]
        tree = 0
        while tree < n_trees:
            next_tree = tree + 1
            n_splits = np.uint64(split_offsets[next_tree] - split_offsets[tree])
            place = np.uint64(split_offsets[tree]) * np.uint64(4)
            if n_splits > _BYTE_SPLITS or (rows <= FEW_ROWS and not oblivious[tree]):
                next_tree = min(tree + max(1, _WALKS // rows), n_trees)
                _walk_trees(
                    records, split_offsets, leaf_value, tree, next_tree, rows, flat_codes, walks,
                    sums,
                )  # fmt: skip
            else:
                if oblivious[tree]:
                    root = _decide_levels(
                        records, place, n_splits, flat_codes, leaves, np.uint64(rows)
                    )
                else:
                    root = _decide_block(
                        records, place, n_splits, flat_codes, leaves, np.uint64(rows)
                    )
                values = leaf_value[split_offsets[tree] + tree :]
                for i in range(np.uint64(rows)):
                    sums[i] += values[leaves[root + i]]
            tree = next_tree
        for row in range(rows):
            scores[start + row] = sums[row]


class PreparedEnsemble:
    """An ensemble made ready to score.

    A document's score is its base score plus the values of its leaves, added one after the
    other in the order of the trees: the same bits however many documents are scored together,
    on however many threads. A missing value (NaN) goes where the split says. At a split by
    categories, a value that is no whole number from 0 to 255 is missing.

    Parameters
    ----------
    ensemble
        The trees, well formed (see `Ensemble.check`).
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self.n_trees = ensemble.n_trees
        self._coding = Coding.of(ensemble)
        self._split_offsets = as_input(ensemble.split_offsets, np.int64)
        self._oblivious = as_input(
            [_is_oblivious(ensemble, self._coding, tree) for tree in range(self.n_trees)], np.bool_
        )
        # What the kernel takes between the rows and the number of trees.
        self._arrays = (
            *self._coding.arrays(), _records_of(ensemble, self._coding), self._split_offsets,
            as_input(ensemble.value, np.float64), self._oblivious,
        )  # fmt: skip
        leaves = np.diff(ensemble.split_offsets) + 1
        self._max_leaves = int(leaves[leaves <= _BYTE_SPLITS + 1].max(initial=1))
        self._chunk_rows = self._rows_of_chunk(self.n_trees)

    def _rows_of_chunk(self, n_trees: int) -> int:
        """The documents that are worth a thread."""
        n_splits = int(self._split_offsets[n_trees])
        work = (n_splits + _CODE_COST * self._coding.n_columns) * BLOCK + 1
        return BLOCK * max(1, _CHUNK_WORK // work)

    def score(
        self,
        features: Features,
        n_trees: int | None = None,
        n_jobs: int | None = None,
        base: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """The score of each document.

        Parameters
        ----------
        features
            One row per document, float32, row-major; or sparse.
        n_trees
            Use so many trees, the first ones; all if None.
        n_jobs
            Threads, as in scikit-learn.
        base
            What to start from: a number, or one per document; 0 if None.

        Examples
        --------
        >>> empty = PreparedEnsemble(Ensemble.from_trees([]))
        >>> empty.score(np.zeros((2, 3), dtype=np.float32), base=[0.5, -1.0]).tolist()
        [0.5, -1.0]
        """
        self._coding.check(features)
        values = sparse = None
        if isinstance(features, SparseFeatures):
            sparse = self._coding.sparse_rows(features)
        else:
            values = as_input(features, np.float32)
        size = self._chunk_rows
        if n_trees is None:
            n_trees = self.n_trees
        elif not isinstance(n_trees, (int, np.integer)) or not 0 <= n_trees <= self.n_trees:
            raise ParameterError(
                f"n_trees must be a whole number from 0 to the trees of the model, "
                f"{self.n_trees}. Got {n_trees!r}."
            )
        else:
            n_trees = int(n_trees)
            size = self._rows_of_chunk(n_trees)
        n_rows = len(features)
        scores = _starting_scores(base, n_rows)
        if n_rows <= size:
            # To count the CPUs takes longer than to score a few documents.
            if n_jobs is not None:
                resolve_n_jobs(n_jobs)
            score_rows(values, sparse, 0, n_rows, *self._arrays, n_trees, self._max_leaves, scores)
            return scores

        def task(chunk: int) -> None:
            first = chunk * size
            last = min(first + size, n_rows)
            score_rows(
                values, sparse, first, last, *self._arrays, n_trees, self._max_leaves, scores
            )

        run_chunks(task, -(-n_rows // size), n_jobs)
        return scores


def _starting_scores(base: ArrayLike | None, n_rows: int) -> NDArray[np.float64]:
    scores = np.zeros(n_rows)
    if base is not None:
        given = np.asarray(base, dtype=np.float64)
        if given.shape not in ((), (n_rows,)):
            rule = f"must be a number or have one per document, {n_rows}"
            raise DataError(f"base {rule}. Got shape {given.shape}.")
        scores[:] = given
    return scores


def _is_oblivious(ensemble: Ensemble, coding: Coding, tree: int) -> bool:
    """Whether a tree is whole, asks one question a level and has its leaves in order."""
    first, last = int(ensemble.split_offsets[tree]), int(ensemble.split_offsets[tree + 1])
    n = last - first
    if n == 0 or n > _BYTE_SPLITS or n & (n + 1):
        return False
    own = np.arange(n)
    inner = n // 2
    left = np.where(own < inner, 2 * own + 1, ~(2 * (own - inner)))
    right = np.where(own < inner, left + 1, left - 1)
    if np.any(ensemble.left[first:last] != left) or np.any(ensemble.right[first:last] != right):
        return False
    # The first split of the level that each is on.
    top = (1 << (np.frexp(own + 1)[1] - 1)) - 1
    asked = (coding.column, coding.highest, coding.less)
    return all(np.array_equal(part[first:last], part[first + top]) for part in asked)


def _records_of(ensemble: Ensemble, coding: Coding) -> NDArray[np.uint32]:
    """Four numbers a split (see `_decide_block`); within a tree the last split comes first."""
    offsets = ensemble.split_offsets
    n_splits = np.diff(offsets)
    tree = np.repeat(np.arange(len(n_splits)), n_splits)
    last = n_splits[tree] - 1
    first_leaf = np.maximum(n_splits, _BYTE_SPLITS)[tree]
    records = np.empty((len(tree), 4), dtype=np.int64)
    for side, child in enumerate((ensemble.left.astype(np.int64), ensemble.right.astype(np.int64))):
        records[:, side] = np.where(child >= 0, last - child, first_leaf + ~child) * BLOCK
    records[:, 2] = coding.column * BLOCK
    records[:, 3] = coding.highest.astype(np.int64) | (coding.less.astype(np.int64) << 8)
    if records.max(initial=0) > np.iinfo(np.uint32).max:
        raise ParameterError(
            f"a tree must have fewer than 2^24 leaves. Got {n_splits.max() + 1}; "
            f"grow smaller trees."
        )
    own = np.arange(len(tree)) - offsets[tree]
    return as_input(records[offsets[tree] + last - own].reshape(-1), np.uint32)
