"""Ranking the documents of one query by score, stable, in kernels."""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import numpy as np

from rankgrove._jit.compilation import kernel
from rankgrove._jit.intrinsics import empty

# Runs of this length are ranked by counting and then merged: longer ones would take longer.
RUN = 512

# Keys have 16 bits.
_KEYS = 65535.0
_LANES = 16


@kernel
def longest_query(offsets, first, last):
    """The number of documents of the longest of queries first to last."""
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@kernel
def ranking_scratch(longest):
    """What `rank_query` takes besides scores, for queries of up to so many documents."""
    used = empty(RUN, np.int64)
    room = empty((2, RUN), np.int16)
    return used, room, empty((2, longest), np.float64), empty((2, longest), np.int64)


@kernel
def _rank_run(scores, first, used, room, out_scores, out_idx):
    """Rank one run, stable, by counting for each document the documents with a higher score.

    Scores are cut to keys of 16 bits, of which a vector register holds many; a pass of insertion
    then puts those in order whose keys are equal.
    """
    n = len(scores)
    padded = (n + _LANES - 1) // _LANES * _LANES
    keys, above = room[0, :padded], room[1, :padded]
    lowest, highest = scores[0], scores[0]
    for i in range(n):
        lowest = min(lowest, scores[i])
        highest = max(highest, scores[i])
    span = highest - lowest
    scale = _KEYS / span if 0.0 < span < np.inf else 0.0
    for i in range(padded):
        above[i] = 0
        used[i] = 0
        # Above no other.
        keys[i] = -32768
    if scale > 0.0:
        # Without a scale, as among infinite scores, all keys are equal.
        for i in range(n):
            keys[i] = np.int16(np.int32(min((scores[i] - lowest) * scale, _KEYS)) - 32768)
    for i in range(0, padded, 4):
        a, b, c, d = keys[i], keys[i + 1], keys[i + 2], keys[i + 3]
        for j in range(padded):
            key = keys[j]
            above[j] += (
                np.int16(a > key) + np.int16(b > key) + np.int16(c > key) + np.int16(d > key)
            )
    for i in range(n):
        at = above[i] + used[above[i]]
        used[above[i]] += 1
        out_scores[at] = scores[i]
        out_idx[at] = first + i
    for i in range(1, n):
        score, at = out_scores[i], i
        if not score > out_scores[i - 1]:
            continue
        idx = out_idx[i]
        while at > 0 and score > out_scores[at - 1]:
            out_scores[at] = out_scores[at - 1]
            out_idx[at] = out_idx[at - 1]
            at -= 1
        out_scores[at] = score
        out_idx[at] = idx


@kernel
def _merge(scores, idx, mid, out_scores, out_idx):
    """Merge two ranked runs; an equal element of the left run stays first.

    From both ends to the middle, which are two chains of steps that do not wait for each other, and
    without a branch, as which run is next cannot be foreseen.
    """
    n = len(scores)
    i, j = 0, mid
    last_i, last_j = mid - 1, n - 1
    for at in range((n + 1) // 2):
        # A run that is used up has an end to look at, which does not count.
        left, right = scores[min(i, mid - 1)], scores[min(j, n - 1)]
        takes_right = (i == mid) | ((j < n) & (right > left))
        source = j if takes_right else i
        out_scores[at] = scores[source]
        out_idx[at] = idx[source]
        j += takes_right
        i += not takes_right
        left, right = scores[max(last_i, 0)], scores[max(last_j, min(mid, n - 1))]
        takes_left = (last_j < mid) | ((last_i >= 0) & (right > left))
        source = last_i if takes_left else last_j
        out_scores[n - 1 - at] = scores[source]
        out_idx[n - 1 - at] = idx[source]
        last_i -= takes_left
        last_j -= not takes_left


@kernel
def rank_query(scores, used, room, work_scores, work_idx):
    """Rank one query, stable; the result stands in row 0 or 1 of the work arrays, as returned.

    All but the scores is what `ranking_scratch` gives.
    """
    n = len(scores)
    for lo in range(0, n, RUN):
        hi = min(lo + RUN, n)
        _rank_run(scores[lo:hi], lo, used, room, work_scores[0, lo:hi], work_idx[0, lo:hi])
    row = 0
    width = RUN
    while width < n:
        for lo in range(0, n, 2 * width):
            hi = min(lo + 2 * width, n)
            _merge(
                work_scores[row, lo:hi], work_idx[row, lo:hi], min(width, n - lo),
                work_scores[1 - row, lo:hi], work_idx[1 - row, lo:hi]
            )  # fmt: skip
        row = 1 - row
        width *= 2
    return row


@kernel
def first_place(rising, first, last, value):
    """The first place from `first` to `last` of rising numbers that is not below a value."""
    while first < last:
        middle = (first + last) >> 1
        if rising[middle] < value:
            first = middle + 1
        else:
            last = middle
    return first
