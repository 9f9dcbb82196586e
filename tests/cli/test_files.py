"""Which reader a name means, and the small text files around data."""

from __future__ import annotations

import numpy as np
import pytest

from rankgrove.data.dataset import Dataset
from rankgrove.data.files import format_of, losses, read_data, read_numbers, write_data
from rankgrove.errors import DataError, ParameterError, ParseError


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train.txt", "letor"), ("train", "letor"), ("train.txt.gz", "letor"), (".csv", "letor"),
        ("a.csv", "csv"), ("a.CSV", "csv"), ("a.csv.gz", "csv"), ("a.tsv.ZST", "tsv"),
        ("a.parquet", "parquet"), ("a.csv.txt", "letor"), ("dir.csv/a", "letor"), ("a.gz", "letor"),
    ],
)  # fmt: skip
def test_name_says_the_format(name, expected):
    assert format_of(name) == expected


@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
def test_option_of_the_other_format_is_refused(tmp_path, name):
    option = "label" if name == "a.txt" else "absent"
    with pytest.raises(ParameterError, match=f"^{option}= must be used with"):
        read_data(tmp_path / name, **{option: "x"})
    data = Dataset.from_arrays([[1.0]], [1], group=[1])
    with pytest.raises(ParameterError, match=f"^{option}= must be used with"):
        write_data(data, tmp_path / name, **{option: "x"})


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.parquet"])
def test_document_ids_are_left_out_on_request(tmp_path, name):
    data = Dataset.from_arrays([[1.0]], [1], group=[1], document_ids=["d"])
    path = tmp_path / name
    write_data(data, path)
    assert read_data(path, document_ids=True).document_ids.tolist() == ["d"]
    write_data(data, path, document_ids=False)
    assert read_data(path).n_features == 1


def test_sizes_of_queries_may_be_a_path(tmp_path):
    (tmp_path / "a.csv").write_text("label,f\n1,1\n0,2\n0,3\n")
    (tmp_path / "a.group").write_text("1\n2\n")
    data = read_data(tmp_path / "a.csv", group=tmp_path / "a.group")
    np.testing.assert_array_equal(data.offsets, [0, 1, 3])


NUMBERS = {"weight": "weights", "base_score": "base_scores", "document_weight": "document_weights"}


@pytest.mark.parametrize(("option", "field"), NUMBERS.items())
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_what_letor_text_has_no_place_for_comes_from_files_beside_it(tmp_path, option, field, name):
    data = Dataset.from_arrays(np.eye(3), [1, 0, 2], qid=[7, 8, 7], split_queries="group")
    path = tmp_path / name
    write_data(data, path)
    (tmp_path / "a.txt.side").write_text("0.5\n0.5\n4\n")
    for place in (".side", tmp_path / "a.txt.side"):
        read = read_data(path, **{option: place})
        assert getattr(read, field).tolist() == ([0.5, 4] if field == "weights" else [0.5, 0.5, 4])
    with pytest.raises(DataError, match=f"^{option} must name a file beside .*a.txt"):
        read_data(path, **{option: ".other"})


def test_numbers_beside_letor_text_follow_the_order_of_its_lines(tmp_path):
    (tmp_path / "a.txt").write_text("0 qid:7 1:1\n0 qid:8 1:1\n0 qid:7 1:1\n")
    (tmp_path / "a.txt.init").write_text("1\n2\n3\n")
    read = read_data(tmp_path / "a.txt", base_score=".init", split_queries="group")
    assert read.base_scores.tolist() == [1, 3, 2]
    (tmp_path / "a.txt.init").write_text("1\n2\n")
    with pytest.raises(DataError, match="base_scores must have one entry per document, 3"):
        read_data(tmp_path / "a.txt", base_score=".init", split_queries="group")


def test_tables_lose_nothing_and_letor_names_what_it_loses():
    data = Dataset.from_arrays(
        np.ones((2, 5)), [1, 0], group=[2], weights=[2.0], base_scores=[1.0, 2.0],
        document_weights=[1.0, 2.0], feature_names=list("abcde"),
    )  # fmt: skip
    assert losses(data, "a.csv") == losses(data, "a.parquet") == []
    assert len(losses(data, "a.txt")) == 4
    assert "a, b, c, ..." in losses(data, "a.txt")[3]
    assert losses(Dataset.from_arrays([[1.0]], [1], group=[1]), "a.txt") == []


def test_numbers_are_read_exactly(tmp_path):
    numbers = np.concatenate([np.random.default_rng(0).normal(size=200_000), [np.inf, -np.inf, 0]])
    path = tmp_path / "numbers"
    path.write_text("\n".join(map(repr, numbers.tolist())))
    np.testing.assert_array_equal(read_numbers(path, "a score"), numbers)


def test_place_of_a_bad_number_counts_all_lines(tmp_path):
    path = tmp_path / "numbers"
    path.write_text("# first\n" + "1.5\n" * 300_000 + "x\n")
    with pytest.raises(ParseError, match="each line must be a score") as caught:
        read_numbers(path, "a score")
    assert caught.value.line == 300_002


def test_file_without_a_number_is_refused(tmp_path):
    path = tmp_path / "numbers"
    path.write_text("# nothing\n\n")
    with pytest.raises(DataError, match="no number at all"):
        read_numbers(path, "a score")
