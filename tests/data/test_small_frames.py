"""Small frames read without Narwhals: the bits that it gives, and nothing that it would refuse."""

from __future__ import annotations

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rankgrove.data.frames import as_narwhals
from rankgrove.data.matrix import _from_table, features_of
from rankgrove.data.small_frames import features_of_small_frame
from rankgrove.errors import DataError

BIG = 2**60 + 2**36 + 1  # rounds up to float32, but down if it goes by way of float64
NAMES = ("wide", "narrow", "whole", "byte")
VALUES = {
    "wide": np.array([0.1, -np.inf, np.nan, 3e-46]),
    "url": np.array(["a", "b", "c", "d"]),
    "byte": np.array([0, 1, 255, 7], dtype=np.uint8),
    "narrow": np.array([0.1, np.inf, np.nan, -0.0], dtype=np.float32),
    "whole": np.array([BIG, -BIG, 16777217, 0]),
}
MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def by_narwhals(frame, names=NAMES):
    return _from_table(as_narwhals(frame), names, {})


def same_bits(a, b):
    return a.dtype == b.dtype == np.float32 and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("order", [NAMES, NAMES[::-1]])
def test_small_frames_have_the_bits_that_narwhals_gives(maker, order):
    frame = MAKERS[maker](VALUES)
    small = features_of_small_frame(frame, order)
    assert small.flags.c_contiguous
    assert same_bits(small, by_narwhals(frame, order))
    assert same_bits(small, features_of(frame, order))
    exact = MAKERS[maker]({name: VALUES[name] for name in order})
    assert same_bits(small, features_of_small_frame(exact, order))


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"a": [1.5, None], "b": [BIG, None], "c": [None, 3]}),
        pa.table({"a": [1.5, None], "b": [BIG, None], "c": pa.array([None, 3], pa.int8())}),
        pd.DataFrame({"a": [1.5, np.nan], "b": [True, False], "c": [1, 2]}),
        pd.DataFrame({"a": np.array([1.5, 2], np.float16), "b": [np.inf, 1], "c": [BIG, 2]}),
        pa.table(
            {name: pa.chunked_array([[1.0], [2.0]]) for name in "abc"},
        ),
    ],
)
def test_missing_values_and_chunks_have_the_bits_that_narwhals_gives(frame):
    assert same_bits(features_of_small_frame(frame, "abc"), by_narwhals(frame, "abc"))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}),
        pd.DataFrame({"a": [1.0, 2.0]}),
        pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "a"]),
        pd.DataFrame({"a": [1.0], "b": pd.array([None], dtype="Int64")}),
        pd.DataFrame({"a": [1.0], "b": [None]}, dtype=object),
        pd.DataFrame({"a": [1.0], "b": [1e39]}),
        pd.DataFrame({"a": [1.0], "b": [1j]}),
        pl.DataFrame({"a": [1.0], "b": ["x"]}),
        pl.DataFrame({"a": [1.0], "b": [decimal.Decimal("1.5")]}),
        pl.DataFrame({"a": [1.0], "b": [True]}),
        pl.DataFrame({"a": [1.0], "b": [-1e39]}),
        pl.LazyFrame({"a": [1.0], "b": [2.0]}),
        pl.DataFrame({"a": [], "b": []}),
        pa.table({"a": [1.0], "b": pa.array(["x"]).dictionary_encode()}),
        pa.table([[1.0], [2.0], [3.0]], names=["a", "b", "a"]),
        pa.table({"a": [1.0], "b": [1e39]}),
        pd.DataFrame({"a": np.zeros(1025), "b": np.zeros(1025)}),
        [[1.0, 2.0]],
        None,
    ],
)
def test_what_is_not_plain_numbers_of_few_rows_is_left_to_narwhals(frame):
    assert features_of_small_frame(frame, ("a", "b")) is None


@pytest.mark.parametrize("maker", MAKERS)
def test_a_value_past_float32_is_refused_by_its_column(maker):
    frame = MAKERS[maker]({"a": [1.0, 2.0], "b": [1.0, 1e39]})
    with pytest.raises(DataError, match=r"column 'b' must fit into float32 .* at row 1"):
        features_of(frame, ("a", "b"))
