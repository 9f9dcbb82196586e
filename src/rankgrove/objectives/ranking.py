"""Ranking the documents of one query by score, stable, in kernels."""

from __future__ import annotations

from rankgrove._jit import kernel

# Runs of this length are ranked by counting, n / 8 vector steps a document, and then merged.
RUN = 128


@kernel
def _rank_run(scores, first, used, out_scores, out_idx):
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
        out_idx[at] = first + i


@kernel
def _merge(scores, idx, mid, out_scores, out_idx):
    """Merge two ranked runs; an equal element of the left run stays first."""
    n = len(scores)
    i = 0
    j = mid
    for at in range(n):
        right = i == mid or (j < n and scores[j] > scores[i])
        source = j if right else i
        out_scores[at] = scores[source]
        out_idx[at] = idx[source]
        j += right
        i += not right


@kernel
def rank_query(scores, used, work_scores, work_idx):
    """Rank one query, stable; the result stands in row 0 or 1 of the work arrays, as returned."""
    n = len(scores)
    for lo in range(0, n, RUN):
        hi = min(lo + RUN, n)
        _rank_run(scores[lo:hi], lo, used, work_scores[0, lo:hi], work_idx[0, lo:hi])
    row = 0
    width = RUN
    while width < n:
        for lo in range(0, n, 2 * width):
            hi = min(lo + 2 * width, n)
            _merge(
                work_scores[row, lo:hi],
                work_idx[row, lo:hi],
                min(width, n - lo),
                work_scores[1 - row, lo:hi],
                work_idx[1 - row, lo:hi],
            )
        row = 1 - row
        width *= 2
    return row
