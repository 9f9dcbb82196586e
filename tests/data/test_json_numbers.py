"""Numbers of JSON that are read apart: the same as Python's `json` reads, or none at all."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankgrove.data.json_numbers import read_apart

# The grammar of RFC 8259, as a second hand.
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
LARGEST = float(np.finfo(np.float32).max)

numbers = st.one_of(
    st.from_regex(NUMBER, fullmatch=True),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda x: str(np.float32(x))),
    st.integers().map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(lambda x: f"{x:f}"),
    st.just("null"),
)
# (A kernel is compiled meanwhile.)
many = settings(max_examples=300, deadline=None)
space = st.text(" \t\n\r", max_size=3)


def no_constant(name):
    raise ValueError(name)


def read(text):
    """The float32 of a JSON number, by way of a float64; a whole zero has no sign."""
    if text == "-0":
        return np.float32(0)
    with np.errstate(over="ignore"):
        return np.float32(np.nan if text == "null" else float(text))


def is_json(text):
    try:
        json.loads(text, parse_constant=no_constant)
    except ValueError:
        return False
    return True


def bits(values):
    return np.asarray(values, dtype=np.float32).view(np.uint32).tolist()


def is_read(value):
    """Whether a number is surely read: not beyond float32, nor halfway between two of them."""
    with np.errstate(over="ignore"):
        low, high = np.float32(value * (1 - 2.0**-49)), np.float32(value * (1 + 2.0**-49))
    return abs(value) < LARGEST and low == high


@many
@given(st.lists(st.tuples(space, numbers, space), min_size=1, max_size=8))
def test_a_list_has_the_float32_of_the_float64_of_each_number(parts):
    text = f"[{','.join(before + number + after for before, number, after in parts)}]"
    apart = read_apart(text.encode(), 0, 1, 0)
    wanted = [read(number) for _, number, _ in parts]
    if apart is None:
        assert not all(number == "null" or is_read(float(number)) for _, number, _ in parts)
    else:
        assert not np.isinf(wanted).any()
        assert bits(apart.numbers[0]) == bits(wanted)
        assert (apart.outline, apart.first, apart.end) == (b"[]", b"", len(text))


@many
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_whatever_float32_holds_is_read_in_any_writing(value):
    for text in (str(np.float32(value)), repr(value), f"{value:.20e}", f"{value:.60f}"):
        apart = read_apart(f"[{text}]".encode(), 0, 1, 0)
        assert bits(apart.numbers[0]) == bits([value])


@many
@given(st.text('0123456789+-.eE nul,[]"{}:\\\n\tNaIfity', max_size=12))
def test_nothing_is_read_that_is_no_json(inside):
    for text, depth in ((f"[{inside}]", 1), (f"[[{inside}]]", 2), (f'{{"a": {inside}}}', 1)):
        apart = read_apart(text.encode(), 0, depth, 3)
        if apart is None or apart.end != len(text):
            continue
        assert is_json(text)
        value = json.loads(text)
        rows = value if depth == 2 else [value]
        found = [list(row.values()) if isinstance(row, dict) else row for row in rows]
        wanted = [[np.nan if x is None else x for x in row] for row in found]
        assert bits(apart.numbers) == bits(np.array(wanted, dtype=np.float64))


@pytest.mark.parametrize(
    "number",
    ["01", "-01", "+1", ".5", "5.", "1.e3", "1e", "1e+", "-", "--1", "0x1", "1_0", "NaN", "nul",
     "nulls", "Infinity", "-Infinity", "-null", "true", '"1"', "1 2", "", "1e39", "1e400", "{}",
     "[1]", "1a", "1e5.0", "\u0661"],
)  # fmt: skip
def test_a_list_is_left_alone_that_has(number):
    for text in (f"[{number}]", f"[1, {number}]", f"[{number}, 1]", f'{{"a": {number}}}'):
        assert read_apart(text.encode(), 0, 1, 3) is None


objects = st.lists(st.text(max_size=3), min_size=1, max_size=4, unique=True)


@many
@given(objects, st.data(), st.sampled_from([None, 1]), st.booleans())
def test_objects_with_the_same_names_are_read_with_these_names(names, data, indent, ascii_only):
    n_rows = data.draw(st.integers(1, 4))
    some = st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False)
    rows = [[data.draw(some) for _ in names] for _ in range(n_rows)]
    ids = [data.draw(st.text(max_size=3) | st.integers()) for _ in rows]
    value = {
        "documents": [
            {"id": id_, "features": dict(zip(names, row, strict=True))}
            for id_, row in zip(ids, rows, strict=True)
        ]
    }
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "replace")
    apart = read_apart(text, 0, 4, len(names))
    wanted = [[np.nan if x is None else x for x in row] for row in rows]
    assert apart.numbers.shape == (n_rows, len(names))
    assert bits(apart.numbers) == bits(wanted)
    assert json.loads(apart.first) == dict.fromkeys(names, 0)
    assert json.loads(apart.outline) == {"documents": [{"id": id_, "features": {}} for id_ in ids]}
    assert read_apart(text, 0, 4, len(names) - 1) is None


def test_objects_that_are_not_like_the_first_are_left_alone():
    first = '{"a": 1, "b": 2}'
    for other in ('{"b": 1, "a": 2}', '{"a": 1}', '{"a": 1, "b": 2, "c": 3}', '{"a":1, "b": 2}',
                  '{"a": 1, "b": "2"}', "[1, 2]", "{}", '{"a": 1, "b": 2'):  # fmt: skip
        assert read_apart(f"[{first}, {other}]".encode(), 0, 2, 3) is None
    assert read_apart(f"[{first}, {first}]".encode(), 0, 2, 3).numbers.tolist() == [[1, 2]] * 2


def test_lists_of_other_lengths_are_left_alone():
    for text in (b"[[1, 2], [1]]", b"[[1], [1, 2]]", b"[[1], []]", b"[]", b"[[]]", b"[[1], {}]"):
        assert read_apart(text, 0, 2, 0) is None


@many
@given(st.binary(max_size=30), st.integers(1, 4))
def test_any_bytes_are_read_within_their_bounds(body, depth):
    for text in (body, b"[" + body + b"]", b'{"a": [' + body + b"  ]"):
        apart = read_apart(text, 0, depth, 2) if text else None
        assert apart is None or apart.end <= len(text)


@many
@given(objects, st.data())
def test_a_text_that_is_cut_short_has_no_sound_outline(names, data):
    row = json.dumps({"d": [dict.fromkeys(names, -1.5e-3)] * 3})
    end = data.draw(st.integers(1, len(row) - 1))
    for tail in ("", "]", "}", " ]", '"]'):
        text = (row[:end] + tail).encode()
        apart = read_apart(text, 0, 3, 9)
        # Brackets of another kind are left to the reader of the outline.
        assert apart is None or is_json(apart.outline) == is_json(text)
