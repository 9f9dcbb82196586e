"""Reading LETOR text: every option, every error, and the same bits however it is cut up."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
from backports import zstd

from data.naive_letor import NaiveParser, assert_same, to_float32
from rankgrove.data import letor_reader, letor_text, rows, streams
from rankgrove.data.letor import parse_letor, read_letor
from rankgrove.errors import DataError, ParameterError, ParseError


def words(text):
    return text.split()


SHARED = Path(__file__).parents[3] / "shared" / "data"

NUMBERS = words(
    """0 -0 7 +7 -12.5 .5 5. 0.034483 -22.076928 1e5 1E-5 1.5e+3 1e-45 7.1e-46 7e-46 1e-400 0e999
    3.4028235e38 3.40282356e38 16777217 16777219 9007199254740993 0.1 123456789.123456789
    1.17549435e-38 4.9e-324 0.30000001192092896"""
)
NO_NUMBERS = words(
    """. - + -. e5 1e 1e+ 1e5.0 1.2.3 --1 1_000 0x10 1,5 nan0 infinit infinityy -null -na n 1f 1e5e5
    1:2"""
)

# Wider rows, index 0 and new forms come late, one query is split, and nothing is regular.
ODD_TEXT = (
    b"# header\n2 qid:7 1:0.5 3:-1 # a\n0 qid:7 2:nan 4:1e-3\n\n1 qid:8 5:3 2:1 4:0.25#b\r\n"
    b"0.5 qid:8\t9:12345678901234567890123\t10:.5\n  # nothing\n"
    b"4 qid:seven 1:1.000000059604644775390625000000001 30:-0\n0 qid:7 17:NULL 20:inf # c d\n"
    b"0 qid:9 0:1 31:2.5\n0 qid:9 1:1 2:2 3:3 4:4 5:5 6:6 7:7 8:8 9:9 40:3.4028235e38"
)


def fails_at(text, line, column, *words, **options):
    with pytest.raises(ParseError) as caught:
        parse_letor(text, path="some.txt", **options)
    error = caught.value
    assert (error.path, error.line, error.column) == ("some.txt", line, column)
    assert str(error).startswith(f"some.txt:{line}:{column}: ")
    for word in words:
        assert word in error.problem
    return error


def agrees_with_naive(text, **options):
    data = parse_letor(text, **options)
    assert_same(data, NaiveParser(**options).parse(text))
    return data


def test_a_line_is_a_label_a_query_and_features():
    data = parse_letor(b"2 qid:10 1:0.5 3:-1\n0 qid:10 2:4\n1.5 qid:11 1:7\n")
    assert data.features.tolist() == [[0.5, 0, -1], [0, 4, 0], [7, 0, 0]]
    assert data.features.dtype == np.float32
    assert data.labels.tolist() == [2, 0, 1.5]
    assert data.query_ids.tolist() == [10, 11]
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.document_ids is None
    assert data.feature_names == ("f1", "f2", "f3")


@pytest.mark.parametrize(
    "text",
    [
        b"1\tqid:1\t1:2 \t 2:3\n",
        b"  1   qid:1  1:2  2:3  \t\n",
        b"1 qid:1 1:2 2:3\r\n",
        b"1 qid:1 1:2 2:3",
        b"1 qid:1 1:2 2:3\r",
        b"\xef\xbb\xbf1 qid:1 1:2 2:3\n",
        b"\n\n# comment\n \t# more\n\r\n1 qid:1 1:2 2:3\n\n#\n \t\r\n",
        b"1 qid:1 1:2 2:3# a comment: 4:5\n",
        b"1 qid:1 1:2 2:3 #\n",
    ],
)
def test_blanks_line_ends_comments_and_a_byte_order_mark_do_not_matter(text):
    data = agrees_with_naive(text)
    assert data.features.tolist() == [[2, 3]]


@pytest.mark.parametrize("token", NUMBERS)
def test_a_value_is_the_float32_nearest_to_the_float64(token):
    data = parse_letor(f"1 qid:1 1:{token} 2:1\n-{token.strip('+-')} qid:1 1:0\n".encode())
    expected = np.float32(float(token))
    assert data.features[0, 0].tobytes() == expected.tobytes()
    assert data.labels[1].tobytes() == np.float32(-abs(expected)).tobytes()


def test_ties_of_many_digits_are_rounded_by_the_definition():
    # Just below, at and just above the middle between 1 and the next float32, and the same for
    # float64: the last two are rounded twice.
    middle = "1.000000059604644775390625"
    tokens = [middle, f"{middle}0001", "1.00000005960464477539062499", f"{middle}00000000000001",
              "1.0000000596046447753906250000000000000001", "16777217.0000000000000000001",
              "3.40282356779733e38"]  # fmt: skip
    text = "\n".join(f"0 qid:1 1:{token}" for token in tokens)
    got = parse_letor(text.encode()).features[:, 0]
    assert got.tolist() == [to_float32(token) for token in tokens]


def test_more_hard_numbers_than_a_chunk_has_room_for_are_all_read():
    middle = b"1.000000059604644775390625"
    text = b"".join(b"%s qid:1 1:%s0001 2:%s\n" % (middle, middle, middle) for _ in range(400))
    data = parse_letor(text)
    assert data.features.tolist() == [[to_float32(middle + b"0001"), to_float32(middle)]] * 400
    assert data.labels.tolist() == [to_float32(middle)] * 400


def test_many_random_decimals_are_read_as_float_and_float32_read_them():
    rng = np.random.default_rng(0)
    tokens = []
    for n_digits in range(1, 31):
        for digits in rng.integers(0, 10, (400, n_digits)):
            text = "".join(map(str, digits))
            at = int(rng.integers(0, n_digits + 1))
            power = int(rng.integers(-60, 39 - n_digits))
            tokens.append(f"{text[:at]}.{text[at:]}" + rng.choice(["", f"e{power}"]))
    text = "".join(f"0 qid:1 1:{token}\n" for token in tokens).encode()
    got = parse_letor(text).features[:, 0]
    expected = np.array([to_float32(token) for token in tokens])
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("token", ["nan", "NaN", "-nan", "+NAN", "null", "NULL", "na", "Na"])
def test_nan_null_and_na_are_missing(token):
    data = parse_letor(f"1 qid:1 1:{token} 2:1\n".encode())
    assert data.features.view(np.uint32).tolist() == [[0x7FC00000, 0x3F800000]]


@pytest.mark.parametrize("token", ["inf", "-inf", "+Inf", "INFINITY", "-infinity"])
def test_infinities_are_values(token):
    assert parse_letor(f"1 qid:1 1:{token}\n".encode()).features[0, 0] == float(token)


@pytest.mark.parametrize("token", [*NO_NUMBERS, ""])
def test_a_value_that_is_no_number_is_refused(token):
    fails_at(
        f"0 qid:1\n1 qid:1 1:0.5 12:{token} 13:1\n".encode(), 2, 18, "value", repr(token)[1:-1]
    )


@pytest.mark.parametrize("token", ["3.4028236e38", "1e39", "-1e39", "1e400", "1e99999999999"])
def test_a_finite_number_past_float32_is_refused(token):
    fails_at(f"1 qid:1 1:0.5 2:{token}\n".encode(), 1, 17, "float32", token, "rescale")
    fails_at(f"{token} qid:1 1:0.5\n".encode(), 1, 1, "label", "float32", token)


@pytest.mark.parametrize(
    "token", ["nan", "NULL", "inf", "-inf", "x", "1:2", "qid:3", "1e", "\ufeff1"]
)
def test_a_label_that_is_not_finite_is_refused(token):
    fails_at(f"1 qid:1 1:0.5\n {token} qid:1 1:0.5\n".encode(), 2, 2, "label", repr(token))


@pytest.mark.parametrize("token", ["x", "x:1", "-1:1", "+1:1", "1.5:1", ":1", "qid:1", "12", "1;2"])
def test_a_feature_without_index_and_colon_is_refused(token):
    fails_at(f"1 qid:1 1:0.5 {token} 3:1\n".encode(), 1, 15, "index:value", repr(token))


def test_a_shown_token_is_cut_short_and_foreign_bytes_are_escaped():
    error = fails_at(b"1 qid:1 1:" + b"x" * 500 + b"\n", 1, 11)
    assert "x" * 40 + "…" in error.problem
    assert "x" * 41 not in error.problem
    fails_at(b"1 qid:1 1:\xff\n", 1, 11, "xff")


def test_a_parse_error_survives_pickling():
    error = fails_at(b"1 qid:1 1:x\n", 1, 11)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_carriage_return_inside_a_line_is_refused():
    fails_at(b"1 qid:1 1:2\r2 qid:1 1:3\n", 1, 12, "carriage return")
    fails_at(b"1 qid:1 1:2\n\r1 qid:1\n", 2, 1, "carriage return")


def test_indices_may_come_in_any_order():
    data = agrees_with_naive(b"1 qid:1 3:3 1:1 2:2\n0 qid:1 2:5 5:1e-3 4:nan\n2 qid:1 1:4\n")
    assert data.features[0, :3].tolist() == [1, 2, 3]


@pytest.mark.parametrize("features", ["1:1 2:2 2:3", "2:1 1:1 2:1", "2:nan 02:1", "3:1 3:1"])
def test_an_index_that_comes_twice_in_a_line_is_refused(features):
    column = 9 + features.rindex(" ")
    fails_at(f"1 qid:1 {features}\n".encode(), 1, column + 1, "once")


@pytest.mark.parametrize("token", ["1048577", "99999999999", "18446744073709551617", "9" * 400])
def test_an_index_past_all_reason_is_refused(token):
    fails_at(f"1 qid:1 {token}:1\n".encode(), 1, 9, "at most 1048576", token[:20])


def test_zeros_in_front_of_an_index_do_not_count():
    assert parse_letor(b"1 qid:1 " + b"0" * 300 + b"2:1\n").features.tolist() == [[0, 1]]


def test_index_base_auto_is_0_where_index_0_occurs_and_1_otherwise():
    assert parse_letor(b"1 qid:1 1:5 2:6\n").features.tolist() == [[5, 6]]
    assert parse_letor(b"1 qid:1 1:5 2:6\n1 qid:1 0:4\n").features.tolist() == [
        [0, 5, 6],
        [4, 0, 0],
    ]


def test_index_base_0_and_1_are_taken_at_their_word():
    assert parse_letor(b"1 qid:1 1:5\n", index_base=0).features.tolist() == [[0, 5]]
    assert parse_letor(b"1 qid:1 1:5\n", index_base=1).features.tolist() == [[5]]
    fails_at(b"1 qid:1 1:5\n1 qid:1 0:5\n", 2, 9, "'0:5'", "index_base", index_base=1)


def test_n_features_fixes_the_width():
    assert parse_letor(b"1 qid:1 1:5\n", n_features=3).features.tolist() == [[5, 0, 0]]
    assert parse_letor(b"1 qid:1 0:5\n", n_features=3).features.tolist() == [[5, 0, 0]]
    fails_at(b"1 qid:1 1:5 4:1\n", 1, 13, "at most 3", "n_features", n_features=3)
    fails_at(b"1 qid:1 3:1\n", 1, 9, "at most 2", n_features=3, index_base=0)


@pytest.mark.parametrize("chunk_bytes", [16, 1 << 20])
def test_an_index_0_after_index_n_features_is_refused(chunk_bytes, monkeypatch):
    monkeypatch.setattr(letor_reader, "CHUNK_BYTES", chunk_bytes)
    fails_at(b"1 qid:1 3:5\n1 qid:1 2:1\n1 qid:1 1:1 0:1\n", 3, 13, "'0:1'", "3", n_features=3)
    fails_at(b"1 qid:1 0:5\n1 qid:1 2:1\n1 qid:1 1:1 3:1\n", 3, 13, "at most 2", n_features=3)


@pytest.mark.parametrize("n_features", [0, -1, 1.5, True, "3", 2**24 + 1])
def test_n_features_must_be_a_positive_whole_number(n_features):
    with pytest.raises(ParameterError, match="n_features must be"):
        parse_letor(b"1 qid:1 1:5\n", n_features=n_features)


def test_feature_names_name_the_features_and_fix_the_width():
    data = parse_letor(b"1 qid:1 1:5\n", feature_names=["bm25", "pagerank"])
    assert data.feature_names == ("bm25", "pagerank")
    assert data.features.tolist() == [[5, 0]]
    with pytest.raises(ParameterError, match="feature_names must have one name a feature, 3"):
        parse_letor(b"1 qid:1 1:5\n", feature_names=["bm25", "pagerank"], n_features=3)


def test_absent_features_are_zero_or_missing():
    text = b"1 qid:1 2:5\n0 qid:1 3:1 1:0\n"
    assert parse_letor(text).features.tolist() == [[0, 5, 0], [0, 0, 1]]
    missing = agrees_with_naive(text, absent="missing")
    assert np.isnan(missing.features).tolist() == [[True, False, True], [False, True, False]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"absent": "mising"}, "absent must be one of zero, missing. Got 'mising'; did you mean"),
        ({"index_base": 2}, "index_base must be one of auto, 0, 1. Got '2'"),
        ({"index_base": True}, "index_base must be one of auto, 0, 1. Got 'True'"),
        ({"split_queries": "merge"}, "split_queries must be one of error, group. Got 'merge'"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_an_option_that_does_not_exist_is_refused(options, message):
    with pytest.raises(ParameterError, match=message.replace(".", "\\.")):
        parse_letor(b"1 qid:1 1:5\n", **options)


def test_text_must_be_bytes():
    assert parse_letor(bytearray(b"1 qid:1 1:5\n")).n_documents == 1
    with pytest.raises(ParameterError, match=r"text must be bytes\. Got str"):
        parse_letor("1 qid:1 1:5\n")


def test_a_text_without_features_has_width_0():
    data = agrees_with_naive(b"1 qid:1\n0 qid:1 # b\n", document_ids=True)
    assert data.features.shape == (2, 0)


def test_comments_are_document_ids():
    text = "1 qid:1 1:5 # GX-1 \t\n0 qid:1 1:2\n2 qid:1 1:1#docid = é #2\r\n".encode()
    data = agrees_with_naive(text, document_ids=True)
    assert data.document_ids.tolist() == ["GX-1", "", "docid = é #2"]
    assert data.document_ids.dtype == object


def test_a_comment_that_is_not_utf8_is_refused_only_where_it_is_wanted():
    text = b"1 qid:1 1:5 # ab\xff\n"
    fails_at(text, 1, 17, "UTF-8", document_ids=True)
    assert parse_letor(text).n_documents == 1


def test_query_ids_are_integers_if_all_are():
    data = parse_letor(b"1 qid:01 1:5\n1 qid:1 1:5\n0 qid:-7 1:3\n0 qid:9223372036854775807 1:1\n")
    assert data.query_ids.tolist() == [1, -7, 9223372036854775807]
    assert data.query_ids.dtype == np.int64
    assert data.group.tolist() == [2, 1, 1]


@pytest.mark.parametrize("other", ["a", "1.0", "+5", "9223372036854775808", "é", "1\0", "٣", "-"])
def test_query_ids_are_strings_if_any_is_no_integer(other):
    data = agrees_with_naive(f"1 qid:01 1:5\n1 qid:1 1:5\n0 qid:{other} 1:3\n".encode())
    assert data.query_ids.tolist() == ["01", "1", other]
    assert data.query_ids.dtype == object


def test_a_query_id_that_is_not_utf8_is_refused():
    fails_at(b"1 qid:1 1:5\n1 qid:a\xffb 1:x\n", 2, 8, "UTF-8")


def test_an_empty_query_id_is_refused():
    fails_at(b"1 qid: 1:5\n", 1, 3, "query id", "'qid:'")
    fails_at(b"1 qid:#5\n", 1, 3, "query id")


def test_a_split_query_is_refused_with_its_lines():
    text = b"# first\n1 qid:a 1:5\n1 qid:b 1:5\n\n1 qid:c 1:2\n1 qid:b 1:5\n0 qid:a 1:1\n"
    with pytest.raises(
        DataError, match=r"some\.txt: .* query b from line 3 on and again from line 6"
    ):
        parse_letor(text, path="some.txt")


@pytest.mark.parametrize("chunk_bytes", [16, 40, 1 << 20])
def test_split_queries_are_brought_together_on_request(chunk_bytes, monkeypatch):
    monkeypatch.setattr(letor_reader, "CHUNK_BYTES", chunk_bytes)
    lines = [b"%d qid:%d 1:%d 3:7 # d%d\n" % (i % 3, (i * 7) % 5, i, i) for i in range(40)]
    data = agrees_with_naive(b"".join(lines), split_queries="group", document_ids=True)
    assert data.query_ids.tolist() == [0, 2, 4, 1, 3]
    assert data.features[:3, 0].tolist() == [0, 5, 10]
    assert data.document_ids[:3].tolist() == ["d0", "d5", "d10"]


def test_a_line_without_query_id_is_refused():
    fails_at(b"1 1:5\n", 1, 3, "qid:", "'1:5'", "group=")
    fails_at(b"1\n", 1, 2, "qid:", "the end of the line")
    fails_at(b"1 qid:1 1:5\n\n1 1:5\n", 3, 3, "qid:")


def test_group_gives_the_queries_of_lines_without_query_ids():
    data = agrees_with_naive(b"1 1:5\n2 1:6\n0 1:7\n", group=[1, 2])
    assert data.offsets.tolist() == [0, 1, 3]
    assert data.query_ids.tolist() == [0, 1]
    fails_at(b"1 1:5\n2 qid:1 1:6\n", 2, 3, "qid:", "group=", group=[1, 1])
    with pytest.raises(
        DataError, match=r"group sizes must add up to the number of rows, 3\. Got 2"
    ):
        parse_letor(b"1 1:5\n2 1:6\n0 1:7\n", group=[1, 1])


def write(path, content):
    path.write_bytes(content)
    return path


def test_group_may_be_a_file_of_sizes(tmp_path):
    path = write(tmp_path / "train.txt", b"1 1:5\n2 1:6\n0 1:7\n")
    sizes = write(tmp_path / "sizes", b"1\n\n 2 \r\n")
    assert read_letor(path, group=sizes).offsets.tolist() == [0, 1, 3]
    assert read_letor(path, group=str(sizes)).offsets.tolist() == [0, 1, 3]
    write(sizes, b"1\nx2\n")
    with pytest.raises(ParseError, match=r"sizes:2:1: a query size must be .* Got 'x2'"):
        read_letor(path, group=sizes)
    write(sizes, b"1\n 0\n")
    with pytest.raises(ParseError, match=r"sizes:2:2: a query size must be .* Got '0'"):
        read_letor(path, group=sizes)
    write(sizes, b"1\n1\n")
    with pytest.raises(DataError, match=r"sizes: group sizes must add up .* 3. Got 2"):
        read_letor(path, group=sizes)


def test_a_missing_file_of_sizes_is_refused_before_the_data_are_read(tmp_path):
    path = write(tmp_path / "train.txt", b"this is no LETOR text\n")
    with pytest.raises(DataError, match=r"none: there is no such file"):
        read_letor(path, group=tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("t.txt", "t.txt.query"),
        ("t.txt.gz", "t.txt.gz.query"),
        ("t.gz", "t.query"),
        ("t.zst", "t.query"),
    ],
)
def test_a_query_file_beside_the_data_is_used(tmp_path, name, sizes):
    path = write(tmp_path / name, b"1 1:5\n2 1:6\n0 1:7\n")
    write(tmp_path / sizes, b"2\n1\n")
    assert read_letor(path).offsets.tolist() == [0, 2, 3]
    write(path, b"1 1:5\n2 qid:4 1:6\n0 1:7\n")
    with pytest.raises(ParseError, match=r":2:3: no line may have a qid:"):
        read_letor(path)
    write(path, b"1 qid:3 1:5\n2 qid:4 1:6\n0 qid:4 1:7\n")
    assert read_letor(path).query_ids.tolist() == [3, 4]


def test_gzip_and_zstd_are_known_by_their_bytes(tmp_path):
    text = b"1 qid:1 1:5\n2 qid:1 1:6\n"
    for compress in (gzip.compress, zstd.compress):
        for content in (compress(text), compress(text[:12]) + compress(text[12:])):
            path = write(tmp_path / "plain.txt", content)
            assert read_letor(path).features.tolist() == [[5], [6]]
    assert read_letor(write(tmp_path / "not.gz", text)).n_documents == 2


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
@pytest.mark.parametrize("keep", [0.1, 0.5, 0.99])
def test_a_truncated_compressed_file_is_refused(tmp_path, compress, keep):
    rng = np.random.default_rng(0)
    text = b"".join(b"1 qid:1 1:%.9f\n" % value for value in rng.random(2000))
    content = compress(text)
    path = write(tmp_path / "data", content[: int(keep * len(content))])
    with pytest.raises(DataError, match=r"data: the compressed file ends too early"):
        read_letor(path)


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
def test_a_damaged_compressed_file_is_refused(tmp_path, compress):
    rng = np.random.default_rng(0)
    content = bytearray(compress(b"".join(b"1 qid:1 1:%.9f\n" % x for x in rng.random(2000))))
    content[len(content) // 2] ^= 0x55
    path = write(tmp_path / "data", content)
    with pytest.raises(DataError, match=r"data: the compressed file is damaged|data:\d+:\d+:"):
        read_letor(path)


def test_a_missing_file_a_directory_and_an_empty_file_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"none\.txt: there is no such file"):
        read_letor(tmp_path / "none.txt")
    with pytest.raises(DataError, match="is a directory"):
        read_letor(tmp_path)
    for content in (b"", b"\n\n", b"# only a comment", b"\xef\xbb\xbf", gzip.compress(b"")):
        path = write(tmp_path / "empty.txt", content)
        with pytest.raises(DataError, match=r"empty\.txt: must have at least one line"):
            read_letor(path)


def test_an_error_in_a_file_names_the_file(tmp_path):
    path = write(tmp_path / "a.txt", b"1 qid:1 1:5\n1 qid:1 1:x\n")
    with pytest.raises(ParseError) as caught:
        read_letor(path)
    assert caught.value.path == str(path)
    assert (caught.value.line, caught.value.column) == (2, 11)


def test_a_matrix_past_all_memory_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(rows, "physical_memory", lambda: 4_000_000)
    dense = b" ".join(b"%d:1" % index for index in range(1, 401))
    many = (b"1 qid:1 " + dense + b"\n") * 2600
    with pytest.raises(
        DataError, match=r"some\.txt: .*Got 2600 rows and 400 features, 0\.00416 GB"
    ):
        parse_letor(many, path="some.txt")
    monkeypatch.setattr(letor_reader, "CHUNK_BYTES", 10_000)
    with pytest.raises(DataError, match=r"rows and 400 features"):
        parse_letor(many)


def test_a_line_longer_than_a_buffer_is_read(monkeypatch):
    monkeypatch.setattr(letor_reader, "CHUNK_BYTES", 50)
    text = b"1 qid:1 " + b" ".join(b"%d:%d" % (i, i) for i in range(1, 500)) + b"\n"
    data = agrees_with_naive(
        b"0 qid:0 1:1\n" + text + b"0 qid:2 2:1\n" + text.replace(b":1", b":3")
    )
    assert data.features[1].tolist() == list(range(1, 500))


def test_a_file_without_line_ends_is_refused(monkeypatch):
    monkeypatch.setattr(letor_reader, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(streams, "_LONGEST_LINE", 10_000)
    with pytest.raises(DataError, match="not a file of lines of text"):
        parse_letor(b"\x00" * 50_000)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_text_cut_at_any_of_many_places_reads_the_same(n_jobs, monkeypatch):
    options = {"document_ids": True, "split_queries": "group"}
    expected = NaiveParser(**options).parse(ODD_TEXT)
    for chunk_bytes in range(3, len(ODD_TEXT) + 2, 1 if n_jobs == 1 else 7):
        monkeypatch.setattr(letor_reader, "CHUNK_BYTES", chunk_bytes)
        assert_same(parse_letor(ODD_TEXT, n_jobs=n_jobs, **options), expected)


def test_many_chunks_give_the_same_bits_on_1_2_and_4_threads(monkeypatch):
    rng = np.random.default_rng(3)
    lines = []
    for row in range(3000):
        width = 20 + row // 100 + 40 * (row > 2000)
        indices = np.sort(rng.choice(width, 12, replace=False)) + (row < 2500)
        pairs = (f"{i}:{value:.7g}" for i, value in zip(indices, rng.normal(size=12), strict=True))
        lines.append(f"{rng.integers(5)} qid:{row // 37} {' '.join(pairs)}\n")
    text = "".join(lines).encode()
    expected = NaiveParser().parse(text)
    for chunk_bytes in (1000, 5000, 1 << 21):
        monkeypatch.setattr(letor_reader, "CHUNK_BYTES", chunk_bytes)
        for n_jobs in (1, 2, 4):
            assert_same(parse_letor(text, n_jobs=n_jobs), expected)


def test_many_wide_rows_are_cut_back_to_the_exact_width(monkeypatch):
    monkeypatch.setattr(rows, "_SMALL", 100)
    monkeypatch.setattr(letor_reader, "CHUNK_BYTES", 200)
    text = b"".join(b"1 qid:1 1:%d %d:7\n" % (row, 2 + row // 3) for row in range(300))
    agrees_with_naive(text)
    agrees_with_naive(text + b"1 qid:1 0:5\n")


@pytest.mark.parametrize("n_jobs", [1, 4])
def test_the_first_error_of_the_text_is_raised_from_many_chunks(n_jobs, monkeypatch):
    monkeypatch.setattr(letor_reader, "CHUNK_BYTES", 100)
    lines = [b"1 qid:1 1:1 2:2\n"] * 200
    for bad in (150, 70, 71):
        lines[bad] = b"1 qid:1 1:1 2:x%d\n" % bad
    fails_at(b"".join(lines), 71, 15, "'x70'", n_jobs=n_jobs)


def test_each_kernel_has_one_signature():
    for options in ({}, {"document_ids": True, "absent": "missing"}, {"n_features": 50}):
        parse_letor(ODD_TEXT, split_queries="group", **options)
    assert len(letor_text.count_rows.signatures) == 1
    # Into a matrix, and into cells.
    assert len(letor_text.parse_chunk.signatures) <= 2
    for kernel in (rows.widen_rows, rows.narrow_rows, rows.permute_rows):
        assert len(kernel.signatures) <= 1


@pytest.mark.parametrize(
    "name",
    [
        "mq2008/S1.txt.gz",
        "ohsumed/S3.txt.gz",
        "mslr-sample/vali.txt.gz",
        "lightgbm-rank/rank.test.gz",
    ],
)
def test_real_data_are_read_as_the_naive_parser_reads_them(name, tmp_path):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with gzip.open(path) as file:
        text = b"".join(line for _, line in zip(range(300), file, strict=False))
    options = {"document_ids": True}
    if b"qid:" not in text:
        options["group"] = [100, 200]
    agrees_with_naive(text, **options)
    assert read_letor(path).n_documents > 700
