"""LETOR text that names few of many features is read into cells, never into a dense matrix."""

import random
import tracemalloc

import pytest

from data.naive_letor import NaiveParser, assert_same
from rankgrove.data import letor_reader, rows
from rankgrove.data.letor import parse_letor
from rankgrove.data.sparse_features import SparseFeatures
from rankgrove.errors import DataError, ParseError


def agrees_with_naive(text, *, is_sparse=True, **options):
    expected = NaiveParser(**options).parse(text)
    for n_jobs in (1, 3):
        data = parse_letor(text, n_jobs=n_jobs, **options)
        assert isinstance(data.features, SparseFeatures) == is_sparse
        assert_same(data, expected)
    return data


def make_text(n_rows=300, n_features=90, seed=0, *, base=1, shuffled=0.2):
    """Rows of up to ten features, some of them out of order, absent or hard to read."""
    rng = random.Random(seed)
    numbers = (b"0", b"-0", b"7", b"0.25", b"nan", b"inf", b"1e-3", b"1.00000005960464477539062500")
    lines = []
    for row in range(n_rows):
        indices = sorted(
            rng.sample(range(base, n_features + base), rng.randint(0, min(10, n_features)))
        )
        if rng.random() < shuffled:
            rng.shuffle(indices)
        named = b"".join(b" %d:%s" % (index, rng.choice(numbers)) for index in indices)
        lines.append(b"%d qid:%d%s # %d\n" % (row % 3, row // 9, named, row))
    return lines


@pytest.mark.parametrize("chunk_bytes", [100, 1000, 1 << 20])
@pytest.mark.parametrize("absent", ["zero", "missing"])
@pytest.mark.parametrize("base", [0, 1])
def test_rows_are_read_as_the_naive_parser_reads_them(base, absent, chunk_bytes, monkeypatch):
    monkeypatch.setattr(letor_reader, "CHUNK_BYTES", chunk_bytes)
    text = b"".join(make_text(base=base))
    for more in ({}, {"n_features": 120}, {"document_ids": True}, {"index_base": 0}):
        agrees_with_naive(text, absent=absent, **more)


@pytest.mark.parametrize("chunk_bytes", [300, 1 << 20])
def test_the_index_0_may_come_late(chunk_bytes, monkeypatch):
    monkeypatch.setattr(letor_reader, "CHUNK_BYTES", chunk_bytes)
    lines = make_text()
    lines[250] = b"1 qid:27 0:5 90:1\n"
    agrees_with_naive(b"".join(lines))
    with pytest.raises(ParseError, match="index 0 means that all indices must be below") as caught:
        parse_letor(b"".join(lines), n_features=90)
    assert (caught.value.line, caught.value.column) == (251, 10)


def test_text_that_becomes_wide_becomes_sparse(monkeypatch):
    monkeypatch.setattr(letor_reader, "CHUNK_BYTES", 500)
    narrow = make_text(n_features=8, seed=1)
    lines = [line.replace(b"qid:", b"qid:100") for line in narrow] + make_text(n_features=400)
    agrees_with_naive(b"".join(lines))
    lines[400] = b"1 qid:11 0:5 90:1\n"
    agrees_with_naive(b"".join(lines), split_queries="group")


def test_text_that_proves_to_be_full_is_dense(monkeypatch):
    monkeypatch.setattr(letor_reader, "CHUNK_BYTES", 500)
    monkeypatch.setattr(letor_reader, "_PROBE_BYTES", 100)
    full = b"1 qid:5" + b"".join(b" %d:1" % index for index in range(1, 91)) + b"\n"
    agrees_with_naive(b"1 qid:4 90:1\n" * 20 + full * 30, is_sparse=False)


def test_rows_of_a_query_are_brought_together():
    lines = make_text()
    agrees_with_naive(b"".join(lines[::2] + lines[1::2]), split_queries="group", document_ids=True)


def test_long_rows_in_any_order_are_put_in_order():
    indices = [index * 7919 % 10007 for index in range(1, 1500)]
    row = b"".join(b" %d:%d" % (index, index) for index in indices)
    agrees_with_naive(b"1 qid:1" + row + b"\n0 qid:1\n")
    reverse = b"".join(b" %d:1" % index for index in range(9000, 0, -7))
    agrees_with_naive(b"1 qid:1" + reverse + b"\n")


@pytest.mark.parametrize(
    ("named", "token", "column"),
    [
        (b"90:1 4:2 7:3 4:5 7:1", "4:5", 23), (b"4:0 4:0", "4:0", 14), (b"9:1 8:1 9:x", "9:x", 18),
        (b"9:1 8:1 7:x 9:1", "x", 20), (b"3:1 2:1 5000000:1 2:1", "5000000:1", 18),
    ],
)  # fmt: skip
def test_the_first_error_of_a_row_out_of_order_is_raised(named, token, column):
    text = b"".join(make_text(100)) + b"1 qid:99 " + named + b"\n"
    with pytest.raises(ParseError) as caught:
        parse_letor(text)
    assert (caught.value.line, caught.value.column) == (101, column)
    assert repr(token) in str(caught.value)


def test_the_widest_text_takes_the_memory_of_what_it_names():
    text = b"".join(b"1 qid:%d 1:1 %d:2 1048576:3\n" % (row, 2 + row * 37) for row in range(20_000))
    tracemalloc.start()
    try:
        data = parse_letor(text, n_jobs=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert data.features.shape == (20_000, 1 << 20)
    assert data.features.n_stored == 60_000
    # Names of features and ids of queries are most of it; a dense matrix would take 84 GB.
    assert peak < 300e6


def test_sparse_rows_past_all_memory_are_refused_with_their_size(monkeypatch):
    monkeypatch.setattr(rows, "physical_memory", lambda: 100_000)
    text = b"1 qid:1 1:1 400:1\n" * 10_000
    with pytest.raises(
        DataError, match=r"some\.txt: .*Got 20000 values in 10000 rows, 0\.00016 GB"
    ):
        parse_letor(text, path="some.txt")
    # A dense matrix of these would not fit.
    assert parse_letor(text[: len(text) // 2]).features.shape == (5000, 400)
