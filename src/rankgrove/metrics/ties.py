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

from rankgrove._jit import kernel

Ties = Literal["worst", "best", "stable", "expected", "document_id"]
TIES: tuple[str, ...] = get_args(Ties)

# Among equal scores the document with the larger sign * label is ranked first; with 0 nothing
# moves, which keeps the order of the rows.
TIE_SIGN = {"worst": -1.0, "best": 1.0, "stable": 0.0, "document_id": 0.0}

# While k is at most a quarter of n, dropping what cannot be among the first k pays for itself
# (measured from 50 to 10,000 documents a query).
_SELECT_RATIO = 4

# Runs of this length are ranked by counting, n / 8 vector steps a document, and then merged.
_RUN = 128


@kernel
def _sort_tied_labels(labels, lo, hi, sign):
    """Heapsort labels[lo:hi] so that the larger sign * label comes first."""
    n = hi - lo
    start = n // 2
    end = n
    while end > 1:
        if start > 0:
            start -= 1
        else:
            end -= 1
            labels[lo], labels[lo + end] = labels[lo + end], labels[lo]
        parent = start
        label = labels[lo + parent]
        while 2 * parent + 1 < end:
            child = 2 * parent + 1
            if child + 1 < end and sign * labels[lo + child + 1] < sign * labels[lo + child]:
                child += 1
            if sign * labels[lo + child] >= sign * label:
                break
            labels[lo + parent] = labels[lo + child]
            parent = child
        labels[lo + parent] = label


@kernel
def _rank_run(scores, labels, used, out_scores, out_labels):
    """Rank one run, stable, by counting for each document the documents with a higher score."""
    n = len(scores)
    for i in range(n):
        used[i] = 0
    for i in range(n):
        score = scores[i]
        above = 0
        for j in range(n):
            above += scores[j] > score
        at = above + used[above]
        used[above] += 1
        out_scores[at] = score
        out_labels[at] = labels[i]


@kernel
def _merge(scores, labels, mid, out_scores, out_labels):
    """Merge two ranked runs; an equal element of the left run stays first."""
    n = len(scores)
    i = 0
    j = mid
    at = 0
    while i < mid and j < n:
        right = scores[j] > scores[i]
        source = j if right else i
        out_scores[at] = scores[source]
        out_labels[at] = labels[source]
        j += right
        i += not right
        at += 1
    while i < mid:
        out_scores[at] = scores[i]
        out_labels[at] = labels[i]
        i += 1
        at += 1
    while j < n:
        out_scores[at] = scores[j]
        out_labels[at] = labels[j]
        j += 1
        at += 1


@kernel
def _rank_query(scores, labels, sign, used, work_scores, work_labels):
    """Rank one query; the result stands in row 0 or 1 of the work arrays, which is returned."""
    n = len(scores)
    for lo in range(0, n, _RUN):
        hi = min(lo + _RUN, n)
        _rank_run(scores[lo:hi], labels[lo:hi], used, work_scores[0, lo:hi], work_labels[0, lo:hi])
    row = 0
    width = _RUN
    while width < n:
        for lo in range(0, n, 2 * width):
            mid = min(width, n - lo)
            hi = min(lo + 2 * width, n)
            _merge(
                work_scores[row, lo:hi],
                work_labels[row, lo:hi],
                mid,
                work_scores[1 - row, lo:hi],
                work_labels[1 - row, lo:hi],
            )
        row = 1 - row
        width *= 2
    if sign != 0.0:
        start = 0
        for i in range(1, n + 1):
            if i == n or work_scores[row, i] != work_scores[row, start]:
                if i - start > 1:
                    _sort_tied_labels(work_labels[row], start, i, sign)
                start = i
    return row


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
def _longest(offsets, first, last):
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


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
    longest = _longest(offsets, first, last)
    used = np.empty(_RUN, np.int64)
    peaks = np.empty(longest, np.float64)
    kept_scores = np.empty(longest, np.float64)
    kept_labels = np.empty(longest, np.float32)
    work_scores = np.empty((2, longest), np.float64)
    work_labels = np.empty((2, longest), np.float32)
    for q in range(first, last):
        lo = offsets[q]
        hi = offsets[q + 1]
        if depth * _SELECT_RATIO <= hi - lo:
            n = _keep_candidates(
                scores[lo:hi], labels[lo:hi], depth, peaks, kept_scores, kept_labels
            )
        else:
            n = hi - lo
            kept_scores[:n] = scores[lo:hi]
            kept_labels[:n] = labels[lo:hi]
        row = _rank_query(kept_scores[:n], kept_labels[:n], sign, used, work_scores, work_labels)
        start = starts[q]
        for i in range(starts[q + 1] - start):
            out[start + i] = work_labels[row, i]


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
    longest = _longest(offsets, first, last)
    used = np.empty(_RUN, np.int64)
    work_scores = np.empty((2, longest), np.float64)
    work_labels = np.empty((2, longest), np.float32)
    for q in range(first, last):
        lo = offsets[q]
        n = offsets[q + 1] - lo
        row = _rank_query(
            scores[lo : lo + n], labels[lo : lo + n], 0.0, used, work_scores, work_labels
        )
        end = n
        for i in range(n - 1, -1, -1):
            if i + 1 < n and work_scores[row, i] != work_scores[row, i + 1]:
                end = i + 1
            out[lo + i] = work_labels[row, i]
            out_end[lo + i] = end
