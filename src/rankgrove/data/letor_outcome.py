"""What the parser of a chunk of LETOR text leaves behind: errors, and what it found."""

from __future__ import annotations

import numpy as np

from rankgrove._jit import kernel

# Why a chunk could not be read; letor.py has the messages.
OK, BAD_LABEL, LABEL_RANGE, MIXED_QID, EMPTY_QID, BAD_FEATURE = 0, 1, 2, 3, 4, 5
INDEX_RANGE, INDEX_ZERO, INDEX_TWICE, BAD_VALUE, VALUE_RANGE, STRAY_RETURN = 6, 7, 8, 9, 10, 11

# Where parse_chunk leaves what it found. END_INDEX is one more than the largest index,
# INCOMPLETE tells that some value had no column, ZERO_AT where the first index 0 was then.
CODE, POSITION, RUNS, HARDS, END_INDEX, INCOMPLETE, ZERO_AT, WITH_QID = range(8)
N_OUTCOMES = 8

# The bits of a NaN that no text parses to: marks what a row has not got yet.
UNSET = 0x7FA5A5A5


@kernel
def note_hard(position, slot, hards, outcome):
    """Leave a number to Python; past the end of the list only the count goes on."""
    if outcome[HARDS] < len(hards):
        hards[outcome[HARDS], 0] = np.int64(position)
        hards[outcome[HARDS], 1] = slot
    outcome[HARDS] += 1
