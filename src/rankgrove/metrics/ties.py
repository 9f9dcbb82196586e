"""Ranking: the labels of each query in rank order, under a written policy on ties.

Documents are ranked by score, highest first. What happens among equal scores is the policy:

- `worst`: the less relevant document first. A tie is resolved against the model, so a model
  that gives all documents one score gains nothing by it (Lyzhin et al., section 2.2).
- `best`: the more relevant document first.
- `stable`: the order of the rows.
- `expected`: the mean of the metric over all orders of the tied documents, computed exactly.
  Metrics work on tie groups then, which `rank_groups` marks.
- `document_id`: by document id, descending, as trec_eval does. It needs document ids.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from rankgrove._jit import empty, kernel
from rankgrove._jit.elementary import copy
from rankgrove._jit.ranking import longest_query, rank_query, ranking_scratch

Ties = Literal["worst", "best", "stable", "expected", "document_id"]
TIES: tuple[str, ...] = get_args(Ties)

# Among equal scores the document with the larger sign * label is ranked first; with 0 nothing
# moves, which keeps the order of the rows.
TIE_SIGN = {"worst": -1.0, "best": 1.0, "stable": 0.0, "document_id": 0.0}

# While k is at most a quarter of n, dropping what cannot be among the first k pays for itself
# (measured from 50 to 10,000 documents per query).
_SELECT_RATIO = 4


@kernel
def _sort_tied_labels(labels, sign):
    """Shell sort in place: most groups are small, and a sort of NumPy would ask for memory."""
    n = len(labels)
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            label = labels[i]
            at = i
            while at >= gap and sign * labels[at - gap] < sign * label:
                labels[at] = labels[at - gap]
                at -= gap
            labels[at] = label
        gap //= 3


@kernel
def _sort_ties(scores, labels, sign):
    """Sort the labels of each run of equal scores: the larger sign * label comes first."""
    n = len(scores)
    start = 0
    for i in range(1, n + 1):
        if i == n or scores[i] != scores[start]:
            if i - start > 1:
                _sort_tied_labels(labels[start:i], sign)
            start = i


@kernel
def _keep_candidates(scores, labels, depth, peaks, out_scores, out_labels):
    """Copy the documents of one query that can be among the first `depth`; return how many.

    The rows are dealt to 2 * depth lanes and each lane keeps its highest score. The depth-th
    highest of these peaks cannot be above the depth-th highest score, so whatever scores less
    is out. No step has a branch that depends on the data.
    """
    n = len(scores)
    width = 2 * depth
    for j in range(width):
        peaks[j] = scores[j]
    for lo in range(width, n, width):
        row = scores[lo : min(lo + width, n)]
        for j in range(len(row)):
            peaks[j] = row[j] if row[j] > peaks[j] else peaks[j]
    threshold = np.inf
    for i in range(width):
        peak = peaks[i]
        above = 0
        for j in range(width):
            above += peaks[j] > peak
        threshold = min(threshold, peak if above < depth else np.inf)
    kept = 0
    for i in range(n):
        out_scores[kept] = scores[i]
        out_labels[kept] = labels[i]
        kept += scores[i] >= threshold
    return kept


@kernel
def all_whole(values):
    """Whether all values are whole numbers; without a branch, so that it is vectorised."""
    fractions = 0
    for i in range(len(values)):
        fractions += values[i] != np.floor(values[i])
    return fractions == 0


@kernel
def rank_labels(labels, scores, offsets, first, last, depth, sign, starts, out):
    """Write the labels of queries first to last in rank order, down to `depth`.

    Query q goes to out[starts[q]:starts[q + 1]], the smaller of its length and depth.
    """
    longest = longest_query(offsets, first, last)
    used, room, ranked_scores, ranked_idx = ranking_scratch(longest)
    peaks = empty(longest, np.float64)
    kept_scores = empty(longest, np.float64)
    kept_labels = empty(longest, np.float32)
    ranked_labels = empty(longest, np.float32)
    for q in range(first, last):
        lo = offsets[q]
        hi = offsets[q + 1]
        if depth * _SELECT_RATIO <= hi - lo:
            n = _keep_candidates(
                scores[lo:hi], labels[lo:hi], depth, peaks, kept_scores, kept_labels
            )
        else:
            n = hi - lo
            copy(scores[lo:hi], kept_scores)
            copy(labels[lo:hi], kept_labels)
        row = rank_query(kept_scores[:n], used, room, ranked_scores, ranked_idx)
        for i in range(n):
            ranked_labels[i] = kept_labels[ranked_idx[row, i]]
        if sign != 0.0:
            _sort_ties(ranked_scores[row, :n], ranked_labels, sign)
        start = starts[q]
        for i in range(starts[q + 1] - start):
            out[start + i] = ranked_labels[i]


@kernel
def rank_grades(labels, offsets, first, last, highest, starts, out):
    """The labels of queries first to last from the best down, for whole grades up to `highest`.

    Counting one grade after the other is a vectorised pass each, and few grades are left to
    count once the ranks are filled: far cheaper than sorting.
    """
    for q in range(first, last):
        query = labels[offsets[q] : offsets[q + 1]]
        at = starts[q]
        end = starts[q + 1]
        grade = np.float32(highest)
        while at < end and grade > 0:
            count = np.int32(0)
            for i in range(len(query)):
                count += query[i] == grade
            for i in range(at, min(at + count, end)):
                out[i] = grade
            at = min(at + count, end)
            grade -= np.float32(1)
        for i in range(at, end):
            out[i] = np.float32(0)


@kernel
def rank_groups(labels, scores, offsets, first, last, out, out_end):
    """The labels in rank order to full depth, and for each rank the end of its tie group.

    `out_end[lo + i]` counts from the start of the query and excludes the end.
    """
    used, room, ranked, idx = ranking_scratch(longest_query(offsets, first, last))
    for q in range(first, last):
        lo = offsets[q]
        n = offsets[q + 1] - lo
        row = rank_query(scores[lo : lo + n], used, room, ranked, idx)
        end = n
        for i in range(n - 1, -1, -1):
            if i + 1 < n and ranked[row, i] != ranked[row, i + 1]:
                end = i + 1
            out[lo + i] = labels[lo + idx[row, i]]
            out_end[lo + i] = end
