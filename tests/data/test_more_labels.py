"""Further labels of data: from arrays, frames and tables, and back."""

import numpy as np
import pandas as pd
import pytest

from rankgrove import Dataset, from_frame, read_data, read_table, to_frame, write_data, write_table
from rankgrove.data.files import losses
from rankgrove.errors import DataError, ParameterError
from rankgrove.training.checkpoints import data_checksum

FRAME = pd.DataFrame(
    {
        "label": [1, 0, 2, 0],
        "qid": ["a", "a", "b", "b"],
        "clicks": [3, 0, 1, 5],
        "bm25": [1.0, 2.0, 3.0, 4.0],
        "sales": [0.5, 0.0, 0.25, 1.0],
    }
)
NAMES = ["clicks", "sales"]


def labels_of(data):
    return {name: values.tolist() for name, values in data.more_labels.items()}


def test_columns_of_further_labels_are_no_features():
    data = from_frame(FRAME, more_labels=NAMES)
    assert data.feature_names == ("bm25",)
    assert labels_of(data) == {"clicks": [3, 0, 1, 5], "sales": [0.5, 0, 0.25, 1]}
    assert all(values.dtype == np.float32 for values in data.more_labels.values())
    with pytest.raises(ValueError, match="read-only"):
        data.more_labels["clicks"][0] = 1


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "csv.gz"])
def test_tables_bring_back_further_labels_bit_for_bit(tmp_path, suffix):
    data = from_frame(FRAME, more_labels=NAMES)
    path = tmp_path / f"data.{suffix}"
    write_table(data, path)
    for again in (read_table(path, more_labels=NAMES), read_data(path, more_labels=NAMES)):
        assert labels_of(again) == labels_of(data)
        assert again.feature_names == data.feature_names
    assert list(to_frame(data).columns) == ["label", "qid", "clicks", "sales", "bm25"]


def test_further_labels_follow_their_rows():
    rows = {"qid": [1, 2, 1], "more_labels": {"clicks": [1, 2, 3]}}
    data = Dataset.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 0], split_queries="group", **rows)
    assert labels_of(data) == {"clicks": [1, 3, 2]}
    assert labels_of(data.take_queries([1])) == {"clicks": [2]}
    assert data.with_label("clicks").labels.tolist() == [1, 3, 2]


def test_a_checkpoint_tells_other_further_labels_apart():
    data = from_frame(FRAME, more_labels=NAMES)
    other = from_frame(FRAME.assign(clicks=[3, 0, 1, 4]), more_labels=NAMES)
    none = from_frame(FRAME, features=["bm25"])
    numbers = {data_checksum(each, None, 1) for each in (data, other, none)}
    assert len(numbers) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"more_labels": ["clikcs"]}, "did you mean 'clicks'"),
        ({"more_labels": ["clicks", "clicks"]}, "must differ from each other"),
        ({"more_labels": ["label"]}, "play no other role"),
        ({"more_labels": "clicks"}, "be a list of columns"),
        ({"more_labels": ["clicks"], "features": ["clicks", "bm25"]}, "must not hold"),
    ],
)
def test_columns_that_cannot_be_further_labels_are_refused(options, words):
    with pytest.raises((DataError, ParameterError)) as caught:
        from_frame(FRAME, **options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"clicks": [1]}, "one entry per document, 2"),
        ({"clicks": [1, np.nan]}, "every label of 'clicks' must be finite"),
        ({"a, b": [1, 2]}, "without commas"),
        ({"": [1, 2]}, "without commas"),
        ({3: [1, 2]}, "without commas"),
    ],
)
def test_further_labels_that_break_a_rule_are_refused(labels, words):
    with pytest.raises(DataError) as caught:
        Dataset.from_arrays([[1.0], [2.0]], [0, 1], group=[2], more_labels=labels)
    assert words in str(caught.value)


def test_letor_text_has_one_label(tmp_path):
    path = tmp_path / "data.txt"
    data = from_frame(FRAME, more_labels=NAMES)
    assert "LETOR has one label: the others (clicks, sales) are not written." in losses(data, path)
    write_data(data, path)
    with pytest.raises(ParameterError, match=r"more_labels=.* must be used with a table"):
        read_data(path, more_labels=NAMES)
