"""Kernels of LETOR text: count the rows of a chunk, parse a chunk into a matrix or into cells.

A chunk of text ends with a newline, and every loop here stops at a newline at the latest, so
no position is checked against the end of the chunk. Positions are unsigned: Numba then leaves
out the test for a negative index.
"""

# mypy: disable-error-code="assignment"
# (Numba gives the variables of kernels their types.)

from __future__ import annotations

import numpy as np

from rankgrove._jit import kernel, reinterpret
from rankgrove.data.letor_cells import parse_any_cells, put_cell
from rankgrove.data.letor_numbers import (
    BLANK,
    COLON,
    DOT,
    HARD,
    HASH,
    MALFORMED,
    MINUS,
    NEWLINE,
    ONE,
    PLAIN,
    POWERS,
    RETURN,
    TAB,
    TO_POWER,
    TOO_LARGE,
    ZERO,
    decimal_to_float32,
    ends_token,
    parse_feature,
    parse_number,
    skip_blanks,
)
from rankgrove.data.letor_outcome import (
    BAD_FEATURE,
    BAD_LABEL,
    BAD_VALUE,
    CODE,
    EMPTY_QID,
    END_INDEX,
    INCOMPLETE,
    INDEX_RANGE,
    INDEX_TWICE,
    INDEX_ZERO,
    LABEL_RANGE,
    MIXED_QID,
    OK,
    POSITION,
    RUNS,
    STRAY_RETURN,
    UNSET,
    VALUE_RANGE,
    WITH_QID,
    ZERO_AT,
    note_hard,
)

LETTER_Q = 113


@kernel
def count_rows(text, size):
    """The (lines, rows) of a chunk; blank lines and those with only a comment are no rows."""
    lines = 0
    doubtful = 0
    blocks = (size - 1) // 128
    for block in range(blocks):
        # Sums of 128 fit into a byte, and sums in bytes are what makes this fast (0.04 ns a byte).
        lines_here = np.uint8(0)
        doubtful_here = np.uint8(0)
        for k in range(128):
            i = block * 128 + k
            newline = np.uint8(text[i] == NEWLINE)
            lines_here = np.uint8(lines_here + newline)
            doubtful_here = np.uint8(doubtful_here + (newline & np.uint8(text[i + 1] <= HASH)))
        lines += np.int64(lines_here)
        doubtful += np.int64(doubtful_here)
    for i in range(blocks * 128, size - 1):
        lines += text[i] == NEWLINE
        doubtful += text[i] == NEWLINE and text[i + 1] <= HASH
    if doubtful == 0 and text[0] > HASH:
        return lines + 1, lines + 1
    rows = 0
    p = np.uint64(0)
    while p < np.uint64(size):
        while text[p] == BLANK or text[p] == TAB:
            p += ONE
        rows += text[p] != NEWLINE and text[p] != HASH and text[p] != RETURN
        while text[p] != NEWLINE:
            p += ONE
        p += ONE
    return lines + 1, rows


@kernel
def _parse_plain(text, p, following, end_index, start, absent, matrix, cells, at):
    """Features with plain numbers and indices that rise; stops in front of anything else.

    Plain is -12 or 0.25, with up to 18 digits. Feature `index` goes to `matrix[start + index]`,
    and `absent` to the gaps before it; or to cells, from `at` on. Gives (place, least index that
    may come next, end of the cells).

    This is where the time goes, so it calls nothing that takes an array: Numba would count
    references. Digit by digit is as fast as eight digits at a time, which saves instructions
    but waits for a longer chain of them.
    """
    if cells is None:
        gap = np.uint64(start + following)
    else:
        columns, values, bits = cells.columns, cells.values, reinterpret(cells.values, np.int32)
    while True:
        token = p
        index = 0
        digit = np.uint64(text[p]) - np.uint64(ZERO)
        while digit <= np.uint64(9):
            index = index * 10 + np.int64(digit)
            p += ONE
            digit = np.uint64(text[p]) - np.uint64(ZERO)
        n_digits = np.int64(p - token)
        if text[p] != COLON or not following <= index < end_index or not 1 <= n_digits <= 18:
            return token, following, at
        p += ONE
        negative = text[p] == MINUS
        if negative:
            p += ONE
        first = p
        mantissa = 0
        digit = np.uint64(text[p]) - np.uint64(ZERO)
        while digit <= np.uint64(9):
            mantissa = mantissa * 10 + np.int64(digit)
            p += ONE
            digit = np.uint64(text[p]) - np.uint64(ZERO)
        n_digits = np.int64(p - first)
        decimals = 0
        if text[p] == DOT:
            p += ONE
            first = p
            digit = np.uint64(text[p]) - np.uint64(ZERO)
            while digit <= np.uint64(9):
                mantissa = mantissa * 10 + np.int64(digit)
                p += ONE
                digit = np.uint64(text[p]) - np.uint64(ZERO)
            decimals = np.int64(p - first)
            n_digits += decimals
        if not 1 <= n_digits <= 18:
            return token, following, at
        if cells is None:
            slot = np.uint64(start + index)
            while gap < slot:
                matrix[gap] = absent
                gap += ONE
            gap += ONE
        if n_digits <= 15:
            value = np.float32(mantissa / POWERS[np.uint64(TO_POWER + decimals)])
        else:
            value, kind = decimal_to_float32(np.uint64(mantissa), -decimals)
            if kind != PLAIN:
                return token, following, at
        value = -value if negative else value
        end = at
        if cells is None:
            matrix[slot] = value
        else:
            columns[at] = index
            values[at] = value
            end += bits[at] != cells.absent_bits
        if text[p] != BLANK and text[p] != TAB:
            if ends_token(text[p]):
                return p, index + 1, end
            return token, following, at
        following = index + 1
        at = end
        p += ONE


@kernel
def _parse_rows(
    text, p, size, row, line, qid, qid_bytes, base, width, absent, first_row,
    matrix, cells, labels, comments,
):  # fmt: skip
    """The features of `row`, from `p`, and rows after it, as long as they are regular.

    Regular are indices that rise and have a column, numbers that are not HARD, and rows with a
    label of one digit and the same query id as the row before them, if any: that id, with its
    `qid:`, is `text[qid:qid + qid_bytes]`. The first row that is not is left to others. Gives
    (place, begun, row, line, largest index + 1): the place is where that row starts, or, if
    `begun`, where its features start.
    """
    features = p
    following = base
    largest = base
    at = np.int64(0)
    if cells is not None:
        at = cells.ends[row - first_row]
    while True:
        while text[p] == BLANK or text[p] == TAB:
            p += ONE
        start = row * width - base
        p, following, at = _parse_plain(
            text, p, following, base + width, start, absent, matrix, cells, at
        )
        if text[p] == BLANK or text[p] == TAB:
            continue
        gap = np.uint64(start + following)
        if not ends_token(text[p]):
            index, _, p, value, kind = parse_feature(text, p)
            if kind < PLAIN or not following <= index < base + width:
                return features, True, row, line, largest
            if cells is None:
                while gap < np.uint64(start + index):
                    matrix[gap] = absent
                    gap += ONE
                matrix[gap] = value
            else:
                at = put_cell(cells, at, index, value)
            following = index + 1
            continue
        if cells is None:
            while gap < np.uint64(row * width + width):
                matrix[gap] = absent
                gap += ONE
        else:
            cells.ends[row - first_row + 1] = at
        largest = max(largest, following)

        first = p + ONE
        if text[p] == HASH:
            while text[p] != NEWLINE:
                p += ONE
            if len(comments):
                comments[row - first_row, 0] = np.int64(first)
                comments[row - first_row, 1] = np.int64(p)
        elif text[p] == RETURN:
            p += ONE
        if text[p] != NEWLINE:
            return features, True, row, line, largest
        p += ONE
        row += 1
        line += 1

        header = p
        if p == size:
            return header, False, row, line, largest
        label = np.int64(text[p]) ^ ZERO
        if label > 9 or text[p + ONE] != BLANK:
            return header, False, row, line, largest
        p += np.uint64(2)
        for i in range(qid_bytes):
            if text[p + np.uint64(i)] != text[qid + np.uint64(i)]:
                return header, False, row, line, largest
        p += np.uint64(qid_bytes)
        # An id that goes on, or a q where no row has an id.
        if (qid_bytes and text[p] != BLANK) or text[p] == LETTER_Q:
            return header, False, row, line, largest
        p += np.uint64(qid_bytes > 0)
        labels[row] = label
        features = p
        following = base


@kernel
def _parse_any_features(
    text, p, row, base, width, lowest, highest, absent, matrix, bits, hards, outcome
):
    """The features of a row in any form and order, up to the end of its line or its comment.

    Gives (end, code); with a code, the end is where the error is. What the row has not got yet
    is marked, to see an index that comes twice.
    """
    start = row * width
    for slot in range(start, start + width):
        bits[slot] = UNSET
    start -= base
    code = OK
    while code == OK:
        p = skip_blanks(text, p)
        if ends_token(text[p]):
            break
        index, at_value, end, value, kind = parse_feature(text, p)
        fits = base <= index < base + width
        if index < 0:
            code = BAD_FEATURE
        elif index < lowest:
            code = INDEX_ZERO
        elif index > highest:
            code = INDEX_RANGE
        elif not fits:
            outcome[INCOMPLETE] = 1
            if index == 0 and outcome[ZERO_AT] < 0:
                outcome[ZERO_AT] = np.int64(p)
        elif bits[start + index] != UNSET:
            code = INDEX_TWICE
        if code == OK:
            if kind < HARD:
                code = BAD_VALUE if kind == MALFORMED else VALUE_RANGE
                end = at_value
            elif kind == HARD:
                note_hard(at_value, start + index, hards, outcome)
            if fits:
                matrix[start + index] = value
            outcome[END_INDEX] = max(outcome[END_INDEX], index + 1)
            p = end
    for slot in range(row * width, row * width + width):
        if bits[slot] == UNSET:
            matrix[slot] = absent
    return p, code


@kernel
def _parse_qid(text, p, row, line, runs, outcome):
    """The `qid:` token at `p`, if it is one: (end, code). A new id starts a run."""
    found = text[p] == LETTER_Q and text[p + ONE] == 105
    found = found and text[p + np.uint64(2)] == 100 and text[p + np.uint64(3)] == COLON
    if outcome[WITH_QID] < 0:
        outcome[WITH_QID] = found
    if found != (outcome[WITH_QID] == 1):
        return p, MIXED_QID
    if not found:
        return p, OK
    start = p + np.uint64(4)
    end = start
    while not ends_token(text[end]):
        end += ONE
    if end == start:
        return p, EMPTY_QID
    run = outcome[RUNS]
    if run:
        before = np.uint64(runs[run - 1, 2])
        same = np.int64(end - start) == runs[run - 1, 3] - runs[run - 1, 2]
        i = np.uint64(0)
        while same and start + i < end:
            same = text[start + i] == text[before + i]
            i += ONE
        if same:
            return end, OK
    runs[run, 0] = row
    runs[run, 1] = line
    runs[run, 2] = np.int64(start)
    runs[run, 3] = np.int64(end)
    outcome[RUNS] = run + 1
    return end, OK


@kernel
def _parse_header(text, p, row, line, labels, runs, hards, outcome):
    """The label and the query id of a row: (end, code)."""
    end, value, kind = parse_number(text, p)
    if kind != PLAIN and kind != HARD:
        return p, LABEL_RANGE if kind == TOO_LARGE else BAD_LABEL
    if kind == HARD:
        note_hard(p, -1 - row, hards, outcome)
    labels[row] = value
    return _parse_qid(text, skip_blanks(text, end), row, line, runs, outcome)


@kernel
def parse_chunk(
    text, size, first_row, base, width, lowest, highest, absent,
    matrix, cells, labels, runs, comments, hards, outcome,
):  # fmt: skip
    """Parse the lines of a chunk into the rows from `first_row`; stop at the first error.

    Parameters
    ----------
    text, size
        IN: the chunk is `text[:size]` and ends with a newline.
    base, width, lowest, highest, absent
        IN: feature `index` goes to column `index - base` if that is below `width`; an index
        below `lowest` or above `highest` is an error; `absent` is the value of other columns.
    matrix, cells, labels
        OUT: float32, `matrix` flat, row after row. Only this chunk's rows are written. With cells
        there is no matrix, and without them None.
    runs
        OUT: for each run of rows with one query id: row, line in the chunk, and start and end
        of the id.
    comments
        OUT: start and end of each row's comment. Without rows: not wanted.
    hards
        OUT: start of each number that is left to Python, and its slot in `matrix` (for cells, row
        of the chunk * 2^32 + index), or -1 - row for a label.
    outcome
        IN: WITH_QID is 1 or 0 if rows must have or must not have a query id, -1 if the first
        row decides; ZERO_AT is -1; the others are 0. OUT: what was found.
    """
    if cells is None:
        bits = reinterpret(matrix, np.int32)
    end = np.uint64(size)
    p = np.uint64(0)
    row = first_row
    line = 0
    while p < end:
        p = skip_blanks(text, p)
        code = OK
        begun = not ends_token(text[p])
        if begun:
            p, code = _parse_header(text, p, row, line, labels, runs, hards, outcome)
        if begun and code == OK:
            qid = np.uint64(0)
            qid_bytes = 0
            if outcome[RUNS]:
                qid = np.uint64(runs[outcome[RUNS] - 1, 2] - 4)
                qid_bytes = runs[outcome[RUNS] - 1, 3] - np.int64(qid)
            p, begun, row, line, largest = _parse_rows(
                text, p, end, row, line, qid, qid_bytes, base, width, absent, first_row,
                matrix, cells, labels, comments,
            )  # fmt: skip
            outcome[END_INDEX] = max(outcome[END_INDEX], largest)
            if not begun:
                continue
            if cells is None:
                p, code = _parse_any_features(
                    text, p, row, base, width, lowest, highest, absent, matrix, bits, hards, outcome
                )
            else:
                p, code = parse_any_cells(
                    text, p, row - first_row, base, lowest, highest, cells, hards, outcome
                )
        if code == OK and text[p] == RETURN and text[p + ONE] != NEWLINE:
            code = STRAY_RETURN
        if code != OK:
            outcome[CODE] = code
            outcome[POSITION] = np.int64(p)
            break
        start = p
        while text[p] != NEWLINE:
            p += ONE
        if begun:
            if len(comments) and text[start] == HASH:
                comments[row - first_row, 0] = np.int64(start + ONE)
                comments[row - first_row, 1] = np.int64(p)
            row += 1
        p += ONE
        line += 1
