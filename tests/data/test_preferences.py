"""Preferences: from rows and from files, and what is refused with its line."""

import gzip

import numpy as np
import pytest

from rankgrove.data.dataset import Dataset
from rankgrove.data.preferences import Preferences, read_preferences
from rankgrove.errors import DataError


def make_data(document_ids=None):
    """Queries a, b and 7 of 3, 2 and 4 documents."""
    return Dataset.from_arrays(
        np.zeros((9, 1)), [0] * 9, qid=["a"] * 3 + ["b"] * 2 + ["7"] * 4, document_ids=document_ids
    )


# The same id may be that of documents of two queries.
IDS = ["x", "y", "z", "x", "y", "d1", "d2", "1", "2"]


@pytest.fixture
def read(tmp_path):
    """Reads a text as preferences."""

    def read(text, document_ids=None, name="pairs.txt"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_preferences(path, make_data(document_ids))

    return read


def as_tuples(preferences):
    columns = (preferences.better, preferences.worse, preferences.probability)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_pairs_of_rows_have_probability_one_unless_they_say_another():
    got = Preferences.from_rows(make_data(), [(0, 1), [2, 0, 0.75], (5, 8, 0), (8, 6, 1)])
    assert as_tuples(got) == [(0, 1, 1.0), (2, 0, 0.75), (5, 8, 0.0), (8, 6, 1.0)]
    assert len(got) == 4


def test_pairs_may_have_a_weight_after_the_probability(read):
    got = Preferences.from_rows(make_data(), [(0, 1, 0.5, 2.5), (2, 0), (5, 8, 1, 0)])
    assert got.weight.tolist() == [2.5, 1.0, 0.0]
    assert got.take(np.array([2, 0])).weight.tolist() == [0.0, 2.5]
    read_back = read("a 1 2 0.5 2.5\na 3 1\n7 1 4 1 0\n")
    assert as_tuples(read_back) == as_tuples(got)
    assert read_back.weight.tolist() == got.weight.tolist()
    with pytest.raises(DataError, match=r"line 2: weight must be a number. Got 'much'"):
        read("a 1 2\na 1 2 1 much\n")
    for weight in (-1, float("nan"), float("inf")):
        with pytest.raises(DataError, match=r"finite weight, 0 or more. Got .* in number 0"):
            Preferences.from_rows(make_data(), [(0, 1, 1.0, weight)])


def test_pairs_are_put_by_query_and_stay_as_given_within_it():
    pairs = [(8, 5), (4, 3), (1, 0), (5, 8, 0.25), (0, 1), (3, 4)]
    got = Preferences.from_rows(make_data(), pairs)
    assert as_tuples(got) == [
        (1, 0, 1.0), (0, 1, 1.0), (4, 3, 1.0), (3, 4, 1.0), (8, 5, 1.0), (5, 8, 0.25),
    ]  # fmt: skip


def test_pairs_may_repeat_and_come_from_arrays_and_generators():
    pairs = np.array([[0, 1], [0, 1], [1, 0]])
    for given in (pairs, (tuple(pair) for pair in pairs), pairs.astype(np.uint8)):
        assert as_tuples(Preferences.from_rows(make_data(), given)) == [
            (0, 1, 1.0), (0, 1, 1.0), (1, 0, 1.0),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "at least one pair. Got none"),
        ([(0, 1), (0,)], r"Got \(0,\) as number 1"),
        ([(0, 1, 1.0, 2, 3)], r"Got \(0, 1, 1.0, 2, 3\) as number 0"),
        ([(0, 1), (0, 9)], "rows from 0 to 8. Got 9 in number 1"),
        ([(-1, 1)], "Got -1 in number 0"),
        ([(0, 1), (1.0, 2)], "Got 1.0 in number 1"),
        ([("0", 1)], "Got '0' in number 0"),
        ([(True, 2)], "Got True in number 0"),
        ([(0, None)], "Got None in number 0"),
        ([(0, 1), (2, 2)], "Got one twice in number 1"),
        ([(0, 1), (2, 3)], "Got two queries in number 1"),
        ([(3, 2)], "Got two queries in number 0"),
        ([(0, 1), (0, 1, 1.5)], "probability from 0 to 1. Got .* in number 1"),
        ([(0, 1, -1e-9)], "probability from 0 to 1. Got .* in number 0"),
        ([(0, 1, float("nan"))], "probability from 0 to 1. Got .* in number 0"),
        ([(0, 1, None)], "with or without a probability and a weight. Got .* as number 0"),
    ],
)
def test_bad_pairs_of_rows_are_refused_with_their_number(pairs, message):
    with pytest.raises(DataError, match=message):
        Preferences.from_rows(make_data(), pairs)


@pytest.mark.parametrize(
    "pairs", [[(0, 1), (0, 1, "much")], [(0, 1, [0.5, 0.5])], [3, 4], 7], ids=str
)
def test_pairs_of_other_types_are_refused_as_data(pairs):
    with pytest.raises(DataError):
        Preferences.from_rows(make_data(), pairs)


def test_documents_without_ids_go_by_their_place_in_the_query(read):
    assert as_tuples(read("a 1 3\nb 2 1 0.25\n7 4 1 1e-1\na 2 1")) == [
        (0, 2, 1.0), (1, 0, 1.0), (4, 3, 0.25), (8, 5, 0.1),
    ]  # fmt: skip


def test_documents_with_ids_go_by_them_within_their_query(read):
    assert as_tuples(read("a x z\nb x y 0.5\n7 2 d1\n7 1 2\n", IDS)) == [
        (0, 2, 1.0), (3, 4, 0.5), (8, 5, 1.0), (7, 8, 1.0),
    ]  # fmt: skip


def test_ids_and_query_ids_that_are_numbers_are_found_by_their_text(tmp_path):
    data = Dataset.from_arrays(
        np.zeros((4, 1)), [0] * 4, qid=[10, 10, 20, 20], document_ids=[5, 6, 5, 6]
    )
    path = tmp_path / "pairs"
    path.write_text("20 6 5\n10 5 6\n")
    assert as_tuples(read_preferences(path, data)) == [(0, 1, 1.0), (3, 2, 1.0)]


def test_comments_empty_lines_and_any_white_space_are_left_out(read):
    text = "# all\n\n a\t1   3 # good\n   \n#7 1 2\nb 2 1 0.5#no blank\r\n"
    assert as_tuples(read(text)) == [(0, 2, 1.0), (4, 3, 0.5)]


def test_text_of_any_script_is_read(tmp_path):
    data = Dataset.from_arrays(np.zeros((2, 1)), [0, 0], qid=["é", "é"], document_ids=["ß", "日"])
    path = tmp_path / "pairs"
    path.write_text("é 日 ß\n", encoding="utf-8")
    assert as_tuples(read_preferences(path, data)) == [(1, 0, 1.0)]


def test_compressed_file_is_read(read):
    text = "a 1 3\nb 2 1 0.25\n"
    assert as_tuples(read(gzip.compress(text.encode()), name="p.txt.gz")) == as_tuples(read(text))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a 1 4", "line 3: document must be a number from 1 to 3, .* query a. Got '4'"),
        ("a 0 1", "line 3: document must be .* Got '0'"),
        ("b 1 -1", "line 3: document must be a number from 1 to 2.* Got '-1'"),
        ("b 1.0 2", "line 3: document must be .* Got '1.0'"),
        ("b x 2", "line 3: document must be .* Got 'x'"),
        ("c 1 2", "line 3: query must be one of the data. Got 'c'"),
        ("qid:a 1 2", "line 3: query must be one of the data. Got 'qid:a'"),
        ("a 1 2 often", "line 3: probability must be a number. Got 'often'"),
        ("a 1", "line 3: must be 'qid better worse .*Got 2 words"),
        ("a 1 2 0.5 1 1", "line 3: must be 'qid better worse .*Got 6 words"),
        ("a 2 2", "Got one twice in line 3 of .*pairs.txt"),
        ("a 1 2 1.25", "probability from 0 to 1. Got .* in line 3 of .*pairs.txt"),
        ("a 1 2 -0.5", "probability from 0 to 1. Got .* in line 3 of .*pairs.txt"),
        ("a 1 2 nan", "probability from 0 to 1. Got .* in line 3 of .*pairs.txt"),
        ("a 1 2 inf", "probability from 0 to 1. Got .* in line 3 of .*pairs.txt"),
    ],
)
def test_bad_line_is_refused_with_file_and_number(read, line, message):
    with pytest.raises(DataError, match=message) as error:
        read(f"# comment\nb 1 2\n{line}\na 1 2\n")
    assert "pairs.txt" in str(error.value)


@pytest.mark.parametrize("value", ["1.25", "-0.5", "nan"])
def test_bad_probability_is_shown(read, value):
    with pytest.raises(DataError, match=f"Got {value}"):
        read(f"a 1 2 {value}\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a x q", "line 2: document must be one of query a, by its id. Got 'q'"),
        ("b z x", "line 2: document must be one of query b, by its id. Got 'z'"),
        ("a 1 2", "line 2: document must be one of query a, by its id. Got '1'"),
        ("b x x", "Got one twice in line 2"),
    ],
)
def test_bad_document_id_is_refused_with_its_line(read, line, message):
    with pytest.raises(DataError, match=message):
        read(f"a x y\n{line}\n", IDS)


def test_number_of_many_digits_is_refused_as_data(read):
    with pytest.raises(DataError, match="line 1"):
        read(f"a {'1' * 5000} 2\n")


@pytest.mark.parametrize("text", ["", "\n\n", "# only this\n"])
def test_file_without_pairs_is_refused(read, text):
    with pytest.raises(DataError, match=r"at least one pair. Got none"):
        read(text)


def test_file_without_pairs_is_named(read):
    with pytest.raises(DataError, match=r"pairs.txt"):
        read("")


def test_bytes_that_are_no_text_are_refused_and_named(read):
    with pytest.raises(DataError, match=r"pairs.txt, line 2: must be text in UTF-8"):
        read(b"a 1 2\na 1 \xff\n")


def test_absent_file_is_refused_and_named(tmp_path):
    with pytest.raises(DataError, match=r"absent.txt: there is no such file"):
        read_preferences(tmp_path / "absent.txt", make_data())


def test_document_id_that_two_documents_of_a_query_have_is_refused(read):
    with pytest.raises(DataError):
        read("a x y\n", ["x", "x", "y", "x", "y", "d1", "d2", "1", "2"])
