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

# Selecting the top k costs about n + k * ln(n / k) * k / 2 steps and sorting n * log2(n):
# measured, selection wins while k is at most a quarter of n.
_SELECT_RATIO = 4

# Runs shorter than this are sorted by insertion before merging starts.
_RUN = 8


@kernel
def _insertion_sort(scores, labels, lo, hi, sign):
    for i in range(lo + 1, hi):
        score = scores[i]
        label = labels[i]
        j = i
        while j > lo and (
            score > scores[j - 1]
            or (score == scores[j - 1] and sign * label > sign * labels[j - 1])
        ):
            scores[j] = scores[j - 1]
            labels[j] = labels[j - 1]
            j -= 1
        scores[j] = score
        labels[j] = label


@kernel
def _merge(scores, labels, lo, mid, hi, sign, out_scores, out_labels):
    """Merge two ranked runs; an equal element of the left run stays first."""
    i = lo
    j = mid
    for at in range(lo, hi):
        if i < mid and j < hi:
            right = scores[j] > scores[i] or (
                scores[j] == scores[i] and sign * labels[j] > sign * labels[i]
            )
        else:
            right = j < hi
        source = j if right else i
        out_scores[at] = scores[source]
        out_labels[at] = labels[source]
        j += right
        i += not right


@kernel
def _sort_ranked(scores, labels, n, sign, spare_scores, spare_labels):
    """Stable merge sort of the first n (score, label), in place, highest score first."""
    for lo in range(0, n, _RUN):
        _insertion_sort(scores, labels, lo, min(lo + _RUN, n), sign)
    width = _RUN
    source_scores, source_labels = scores, labels
    target_scores, target_labels = spare_scores, spare_labels
    while width < n:
        for lo in range(0, n, 2 * width):
            mid = min(lo + width, n)
            hi = min(lo + 2 * width, n)
            _merge(source_scores, source_labels, lo, mid, hi, sign, target_scores, target_labels)
        source_scores, target_scores = target_scores, source_scores
        source_labels, target_labels = target_labels, source_labels
        width *= 2
    if source_scores is not scores:
        for i in range(n):
            scores[i] = source_scores[i]
            labels[i] = source_labels[i]


@kernel
def _select_top(labels, scores, lo, n, depth, sign, top_scores, top_labels):
    """The first `depth` of the ranking of rows lo to lo + n, by insertion into a short list."""
    filled = 0
    for i in range(lo, lo + n):
        score = scores[i]
        label = labels[i]
        if filled == depth:
            last = depth - 1
            if not (
                score > top_scores[last]
                or (score == top_scores[last] and sign * label > sign * top_labels[last])
            ):
                continue
        else:
            last = filled
            filled += 1
        j = last
        while j > 0 and (
            score > top_scores[j - 1]
            or (score == top_scores[j - 1] and sign * label > sign * top_labels[j - 1])
        ):
            top_scores[j] = top_scores[j - 1]
            top_labels[j] = top_labels[j - 1]
            j -= 1
        top_scores[j] = score
        top_labels[j] = label


@kernel
def _longest(offsets, first, last):
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@kernel
def rank_labels(labels, scores, offsets, first, last, depth, sign, out):
    """Write the labels of queries first to last in rank order into `out`, down to `depth`.

    What `out` holds past `depth` ranks of a query is not defined.
    """
    longest = _longest(offsets, first, last)
    sorted_scores = np.empty(longest, np.float64)
    sorted_labels = np.empty(longest, np.float32)
    spare_scores = np.empty(longest, np.float64)
    spare_labels = np.empty(longest, np.float32)
    for q in range(first, last):
        lo = offsets[q]
        n = offsets[q + 1] - lo
        if depth * _SELECT_RATIO <= n:
            _select_top(labels, scores, lo, n, depth, sign, sorted_scores, sorted_labels)
            n = depth
        else:
            for i in range(n):
                sorted_scores[i] = scores[lo + i]
                sorted_labels[i] = labels[lo + i]
            _sort_ranked(sorted_scores, sorted_labels, n, sign, spare_scores, spare_labels)
        for i in range(n):
            out[lo + i] = sorted_labels[i]


@kernel
def rank_groups(labels, scores, offsets, first, last, out, out_end):
    """As `rank_labels` to full depth, and for each rank the end of its tie group.

    `out_end[lo + i]` counts from the start of the query and excludes the end.
    """
    longest = _longest(offsets, first, last)
    sorted_scores = np.empty(longest, np.float64)
    sorted_labels = np.empty(longest, np.float32)
    spare_scores = np.empty(longest, np.float64)
    spare_labels = np.empty(longest, np.float32)
    for q in range(first, last):
        lo = offsets[q]
        n = offsets[q + 1] - lo
        for i in range(n):
            sorted_scores[i] = scores[lo + i]
            sorted_labels[i] = labels[lo + i]
        _sort_ranked(sorted_scores, sorted_labels, n, 0.0, spare_scores, spare_labels)
        end = n
        for i in range(n - 1, -1, -1):
            if i + 1 < n and sorted_scores[i] != sorted_scores[i + 1]:
                end = i + 1
            out[lo + i] = sorted_labels[i]
            out_end[lo + i] = end
