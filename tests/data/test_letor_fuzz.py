"""Broken and odd LETOR text: read as the naive parser reads it, or refused at the same place.

`pytest -m long` runs a hundred thousand inputs and more; by default there are a few thousand.
"""

from __future__ import annotations

import random

import pytest

from data.naive_letor import NaiveParser, RefusedError, assert_same
from rankgrove.data import letor_reader, sparse_features
from rankgrove.data.letor import parse_letor
from rankgrove.errors import DataError, ParseError

NUMBERS = rb"""
    0 -0 7 -3 +2 0.5 .5 5. -.5e1 1e5 1E-5 1.e+2 1e38 3.4028235e38 3.40282356e38 1.17549435e-38
    -3.4028235677973362e38 1e-45 7.006492321624085e-46 7.1e-46 1e-400 -1e-99999999999
    0e99999999999999999999 nan NaN -nan +NAN inf -inf +INFINITY null NULL na NA 16777217
    16777216.5 4.9e-324 9007199254740993 1.00000005960464477539062500 0.034483 11089534
    1.000000059604644775390625000000000000000000000000001 123456789012345678901234567890
    0000000000000000000001.5 1.5e-0000000000000000000000001 123456.789012345678
    0.0344830006361007690 1111111111111111111 999999999999999999
    0.0000000000000000000000000000000000000000000000000000000001e55
    1000000000000000000000000000000000000000000000000000000000e-55
""".split()
NO_NUMBERS = [b"", b"1\x00", b"\xd9\xa1"]
NO_NUMBERS += rb"""
    . -. 1e 1e+ e5 3.4028236e38 3.4028235677973366e38 1e39 -1e39 1e400 1e99999999999 nan0 infinit
    infinityy -null n 0x10 1_0 --1 +-1 1.2.3 1e5.0 1,5 NaN() 1f 1e5e5
""".split()
INDICES = rb"""
    0 1 2 3 5 8 12 01 00 0000000000000000000000003 999 4095 4096 4097 99999999999
    18446744073709551617 -1 +1 1.0 x
""".split()
PLAIN_IDS = b"1 2 10 01 -7 007".split()
IDS = [*PLAIN_IDS, b"\xc3\xa9", b"\xff", b"q\x00"]
IDS += rb"""
    abc a:b +5 1e3 - 9223372036854775807 9223372036854775808 -9223372036854775808
    a-long-id-a-long-id-a-long-id-a-long-id-a-long-id-a-long-id
""".split()
COMMENTS = b"#|# doc1| #docid = G-1 inc = 1| #\tb \t|#\xc3\xa9| #\xe9|#\r x".split(b"|")
PIECES = b" |\t|\r|\n|\r\n|#|:|qid:| qid:3|\xef\xbb\xbf|\x00|1:1| 2:|\n\n| \n|# c\n|\n#\n".split(
    b"|"
)
PIECES += b"\x0b|\xa0|-|9|e|.".split(b"|")


def make_line(rng, base, with_qid, ids, plain):
    n_indices = rng.randint(0, rng.choice((1, 3, 8, 12)))
    indices = [b"%d" % index for index in sorted(rng.sample(range(base, 13), n_indices))]
    if rng.random() < 0.2:
        rng.shuffle(indices)
    numbers = [b"0", b"%d" % rng.randint(0, 200), b"%.6f" % rng.random()]
    if not plain:
        numbers = numbers + rng.sample(NUMBERS, 8)
        if rng.random() < 0.02:
            indices.append(rng.choice(INDICES))
            numbers.append(rng.choice(NO_NUMBERS))
    parts = [rng.choice((b"0", b"1", b"2", b"4", b"1.5"))]
    if with_qid:
        parts.append(b"qid:" + rng.choice(ids))
    parts += [index + b":" + rng.choice(numbers) for index in indices]
    blank = b" " if rng.random() < 0.9 else rng.choice((b"\t", b"  ", b" \t "))
    line = blank.join(parts)
    if rng.random() < 0.1:
        line += rng.choice(COMMENTS)
    return line + (b"\r\n" if rng.random() < 0.1 else b"\n")


def make_text(rng):
    with_qid = rng.random() < 0.85
    base = rng.choice((0, 1, 1, 1))
    plain = rng.random() < 0.4
    ids = rng.sample(PLAIN_IDS if plain else IDS, 2)
    lines = [make_line(rng, base, with_qid, ids, plain) for _ in range(rng.randint(1, 9))]
    if rng.random() < 0.8:
        lines.sort(key=lambda line: line.split(b"qid:")[-1].split()[0] if with_qid else b"")
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        lines.insert(rng.randint(0, len(lines)), rng.choice((b"\n", b" \r\n", b"# c\n", b"\t#\n")))
    text = b"".join(lines)
    return text if rng.random() < 0.7 else text.rstrip(b"\n"), with_qid


def mutate(rng, text):
    text = bytearray(text)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 3, 6))):
        at = rng.randint(0, len(text))
        kind = rng.randint(0, 7)
        if kind == 0 and at < len(text):
            text[at] ^= 1 << rng.randint(0, 7)
        elif kind == 1:
            del text[at : at + rng.randint(1, 4)]
        elif kind == 2:
            text[at:at] = rng.choice(PIECES)
        elif kind == 3:
            end = min(len(text), at + rng.randint(1, 30))
            text[at:at] = text[at:end]
        elif kind == 4:
            other = rng.randint(0, len(text))
            text[at:at] = text[other : other + rng.randint(1, 40)]
        elif kind == 5:
            text[at:at] = rng.choice(NUMBERS + NO_NUMBERS)
        elif kind == 6:
            colon = text.find(b":", at)
            text[colon + 1 : colon + 1 + rng.randint(0, 3)] = rng.choice(NUMBERS + NO_NUMBERS)
        else:
            text[at:at] = bytes(rng.choices(range(256), k=rng.randint(1, 3)))
    return bytes(text)


def make_input(rng):
    """(text, options of parse_letor)."""
    if rng.random() < 0.03:
        alphabet = b"0123456789:. #\n\tqide-+na"
        text, with_qid = bytes(rng.choices(alphabet, k=rng.randint(0, 80))), rng.random() < 0.5
    elif rng.random() < 0.02:
        text, with_qid = rng.randbytes(rng.randint(0, 60)), rng.random() < 0.5
    else:
        text, with_qid = make_text(rng)
        text = mutate(rng, text)
    options = {
        "index_base": rng.choice(("auto", "auto", "auto", "auto", 0, 1)),
        "absent": rng.choice(("zero", "missing")),
        "n_features": rng.choice((None, None, None, None, 8, 12, 13, 20)),
        "document_ids": rng.random() < 0.3,
        "split_queries": rng.choice(("group", "group", "error")),
    }
    if not with_qid:
        options["group"] = [rng.randint(1, 9)] * rng.randint(1, 2)
        if rng.random() < 0.8:
            options["group"] = [max(1, text.rstrip().count(b"\n") + 1)]
    return text, options


def check(text, options, chunk_bytes, n_jobs, monkeypatch):
    monkeypatch.setattr(letor_reader, "CHUNK_BYTES", chunk_bytes)
    try:
        expected, place = NaiveParser(**options).parse(text), None
    except RefusedError as refused:
        expected, place = None, refused.place
    try:
        data, error = parse_letor(text, n_jobs=n_jobs, **options), None
    except DataError as raised:
        data, error = None, raised
    if expected is not None:
        assert error is None, error
        assert_same(data, expected)
    else:
        assert error is not None
        assert isinstance(error, ParseError) == (place is not None), error
        if place is not None:
            assert (error.line, error.column) == place, error


def fuzz(seed, count, monkeypatch):
    # Wide matrices would only take time here.
    monkeypatch.setattr(letor_reader, "LARGEST_INDEX", 4096)
    rng = random.Random(seed)
    for _ in range(count):
        text, options = make_input(rng)
        chunk_bytes = rng.choice((1, 7, 32, 100, 300, 1 << 16))
        n_jobs = 2 if rng.random() < 0.1 else 1
        try:
            check(text, options, chunk_bytes, n_jobs, monkeypatch)
        except Exception as error:
            pytest.fail(f"parse_letor({text!r}, **{options}), chunks of {chunk_bytes}: {error!r}")


@pytest.mark.parametrize("seed", range(4))
def test_mutated_text_is_read_as_the_naive_parser_reads_it(seed, monkeypatch):
    fuzz(seed, 5_000, monkeypatch)


def have_all_text_sparse(monkeypatch):
    monkeypatch.setattr(sparse_features, "LEAST_FEATURES", 1)
    monkeypatch.setattr(sparse_features, "LARGEST_SHARE", 1.0)


@pytest.mark.parametrize("seed", range(4, 8))
def test_mutated_text_is_read_into_cells_as_the_naive_parser_reads_it(seed, monkeypatch):
    have_all_text_sparse(monkeypatch)
    fuzz(seed, 5_000, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(140, 180))
def test_a_hundred_thousand_inputs_are_read_into_cells(seed, monkeypatch):
    have_all_text_sparse(monkeypatch)
    fuzz(seed, 3_000, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_a_hundred_thousand_inputs_are_read_as_the_naive_parser_reads_them(seed, monkeypatch):
    fuzz(seed, 3_000, monkeypatch)
