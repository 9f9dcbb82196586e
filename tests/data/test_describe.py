"""What describe finds, held to a naive count of the same things."""

import json
import math

import numpy as np
import pytest

from rankgrove import Dataset
from rankgrove._jit import as_input
from rankgrove.data import describe as module
from rankgrove.data.describe import Description, describe
from rankgrove.data.synthetic import make_web_search
from rankgrove.errors import ParameterError


def naive_key(row):
    """Equal for rows that count as equal: NaN equals NaN, -0.0 equals 0.0."""
    return tuple("nan" if math.isnan(value) else value for value in row.tolist())


def naive_duplicates(data):
    """Duplicates and contradictions from their definition, row against every earlier row."""
    keys = [naive_key(row) for row in data.features]
    queries, labels = data.qid.tolist(), data.labels.tolist()
    duplicates = contradictions = 0
    for row, key in enumerate(keys):
        equal = [other for other in range(row) if keys[other] == key]
        duplicates += bool(equal)
        contradictions += any(
            queries[other] == queries[row] and labels[other] != labels[row] for other in equal
        )
    return duplicates, contradictions


def awkward(seed, n_queries=40, n_features=3):
    """Few distinct values, so rows repeat; with NaN of two bit patterns, -0.0 and infinities."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, n_queries)
    odd_nan = np.array([0xFFC00001], dtype=np.uint32).view(np.float32)[0]
    values = np.array([0.0, -0.0, 1.5, np.nan, odd_nan, np.inf, -np.inf], dtype=np.float32)
    return Dataset.from_arrays(
        values[rng.integers(0, len(values), (sizes.sum(), n_features))],
        rng.integers(0, 3, sizes.sum()),
        group=sizes,
    )


def with_rows(features, labels=None, **settings):
    labels = [0] * len(features) if labels is None else labels
    return Dataset.from_arrays(features, labels, **(settings or {"group": [len(features)]}))


def test_sizes_are_counted():
    found = describe(make_web_search(30, 20))
    data = make_web_search(30, 20)
    assert (found.documents, found.queries, found.features) == (data.n_documents, 30, 20)


def test_grades_are_counted_from_the_lowest():
    found = describe(with_rows([[1.0]] * 5, [2, 0, -1, 0, 2]))
    assert found.grades == {-1.0: 1, 0.0: 2, 2.0: 2}
    assert list(found.grades) == [-1.0, 0.0, 2.0]
    assert found.distinct_labels == 3


def test_up_to_32_labels_are_grades():
    assert len(describe(with_rows([[1.0]] * 32, np.arange(32))).grades) == 32


def test_more_labels_are_summed_up_by_quantiles():
    found = describe(with_rows([[1.0]] * 101, np.arange(101)))
    assert found.grades is None
    assert found.distinct_labels == 101
    expected = {0.0: 0.0, 0.1: 10.0, 0.25: 25.0, 0.5: 50.0, 0.75: 75.0, 0.9: 90.0, 1.0: 100.0}
    assert found.label_quantiles == expected
    assert "101 different labels, too many to list; their quantiles:" in str(found)
    assert found.to_dict()["grades"] is None


def test_lengths_and_their_histogram():
    sizes = [1, 1, 2, 3, 4, 7, 8, 40]
    lengths = describe(with_rows([[1.0]] * sum(sizes), group=sizes)).lengths
    assert (lengths.min, lengths.max) == (1, 40)
    assert lengths.median == np.median(sizes)
    assert lengths.mean == np.mean(sizes)
    assert lengths.p90 == np.quantile(sizes, 0.9)
    assert lengths.histogram == (
        (1, 1, 2), (2, 3, 2), (4, 7, 2), (8, 15, 1), (16, 31, 0), (32, 63, 1)
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 4, 1023, 1024])
def test_a_length_falls_in_the_bin_that_holds_it(size):
    ((low, high, count),) = describe(with_rows([[1.0]] * size)).lengths.histogram
    assert low <= size <= high < 2 * low
    assert count == 1


def test_queries_without_something_to_rank_are_counted():
    labels = [0, 0, 0, 1, 1, 1, 0, -1, 0, 2]
    found = describe(with_rows([[1.0]] * 10, labels, group=[2, 1, 2, 1, 2, 2]))
    assert found.queries_without_relevant == 3
    assert found.queries_with_one_document == 2
    assert found.queries_with_equal_labels == 4


def test_missing_values_are_listed_from_the_most():
    nan = np.nan
    features = [[1.0, nan, nan], [1.0, 2.0, nan], [1.0, nan, nan], [nan, 5.0, 6.0]]
    found = describe(with_rows(features, feature_names=["a", "b", "c"], group=[4]))
    assert list(found.missing_features.items()) == [("c", 3), ("b", 2), ("a", 1)]
    assert found.missing_share == 0.5


def test_constant_features_have_one_value_everywhere():
    nan, inf = np.nan, np.inf
    features = [
        [3.0, nan, inf, 0.0, 1.0, nan, inf],
        [3.0, nan, inf, -0.0, 1.0, 1.0, 1.0],
        [3.0, nan, inf, 0.0, 2.0, 1.0, 1.0],
    ]
    names = ["same", "never", "endless", "zero", "varies", "gap", "mixed"]
    found = describe(with_rows(features, feature_names=names, group=[3]))
    assert found.constant_features == ("same", "never", "endless", "zero")


@pytest.mark.parametrize("rows", [1, 4095, 4096, 4097, 9000])
def test_feature_summaries_agree_with_numpy(rows):
    rng = np.random.default_rng(rows)
    values = rng.normal(size=(rows, 5)).astype(np.float32)
    values[rng.random((rows, 5)) < 0.2] = 0.0
    values[rng.random((rows, 5)) < 0.2] = np.nan
    values[rng.random((rows, 5)) < 0.1] = np.inf
    values[rng.random((rows, 5)) < 0.1] = -np.inf
    values[:, 4] = 7.0
    for summary, column in zip(describe(with_rows(values)).per_feature, values.T, strict=True):
        finite = column[np.isfinite(column)].astype(np.float64)
        assert summary.missing == np.isnan(column).sum()
        assert summary.infinite == np.isinf(column).sum()
        assert summary.zeros == (column == 0).sum()
        if len(finite):
            assert summary.min == finite.min()
            assert summary.max == finite.max()
            assert summary.mean == pytest.approx(finite.mean(), rel=1e-12, abs=1e-12)


def test_feature_without_finite_values_has_no_extremes():
    found = describe(with_rows([[np.nan, np.inf, 1.0]] * 2))
    assert [(f.min, f.max, f.mean) for f in found.per_feature] == [
        (None, None, None), (None, None, None), (1.0, 1.0, 1.0)
    ]  # fmt: skip


def test_extremes_are_never_minus_zero():
    (summary,) = describe(with_rows([[-0.0], [0.0]])).per_feature
    for value in (summary.min, summary.max, summary.mean):
        assert math.copysign(1.0, value) == 1.0


def test_duplicates_are_found_over_the_whole_data():
    features = [[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [1.0, 2.0], [2.0, 1.0]]
    found = describe(with_rows(features, [0, 0, 1, 1, 0], group=[2, 3]))
    assert (found.duplicates, found.contradictions) == (2, 0)


def test_nan_equals_nan_and_zero_equals_minus_zero():
    other_nan = np.array([0x7FC00123], dtype=np.uint32).view(np.float32)[0]
    features = np.array([[np.nan, 0.0], [other_nan, -0.0], [np.nan, 1.0]], dtype=np.float32)
    assert describe(with_rows(features)).duplicates == 1


def test_only_equal_documents_of_one_query_contradict():
    same = [[1.0]] * 4
    assert describe(with_rows(same, [0, 1, 0, 1], group=[1, 1, 1, 1])).contradictions == 0
    assert describe(with_rows(same, [0, 0, 1, 0], group=[4])).contradictions == 2
    assert describe(with_rows(same, [0, 1, 1, 1], group=[2, 2])).contradictions == 1


@pytest.mark.parametrize("seed", range(8))
def test_duplicates_and_contradictions_agree_with_the_naive_count(seed):
    data = awkward(seed, n_features=1 + seed % 3)
    found = describe(data)
    assert (found.duplicates, found.contradictions) == naive_duplicates(data)
    assert found.duplicates > found.contradictions > 0


@pytest.mark.parametrize("n_hashes", [1, 2, 7])
def test_rows_whose_hashes_collide_are_still_told_apart(n_hashes):
    data = awkward(3)
    hashes = (np.arange(data.n_documents) % n_hashes).astype(np.uint64)
    keys = [naive_key(row) for row in data.features]
    # Equal rows always have equal hashes; give them the hash of the first.
    hashes = np.array([hashes[keys.index(key)] for key in keys], dtype=np.uint64)
    features = as_input(data.features, np.float32)
    found = module._find_duplicates(features, hashes, data.labels, data.group)
    assert found == naive_duplicates(data)


def test_close_rows_have_different_hashes():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(1, 20)).astype(np.float32)
    rows = np.repeat(base, 20 * 32, axis=0)
    bits = rows.view(np.uint32)
    for place in range(20 * 32):
        bits[place, place // 32] ^= np.uint32(1 << (place % 32))
    rows = rows[np.isfinite(rows).all(axis=1)]
    _, _, hashes = module._summarise(as_input(rows, np.float32), ("f",) * 20, 1)
    assert len(np.unique(hashes)) == len(rows)


def test_thread_count_does_not_change_a_bit():
    data = make_web_search(200, 20, seed=2)
    assert describe(data, n_jobs=1) == describe(data, n_jobs=2) == describe(data, n_jobs=4)


def test_bad_thread_count_is_refused():
    with pytest.raises(ParameterError, match="n_jobs must be a positive integer"):
        describe(awkward(0), n_jobs=0)


def test_views_and_strided_features_compile_nothing_new():
    describe(awkward(0))
    describe(awkward(1).take_queries([2, 3, 4]))
    wide = np.zeros((4, 6), dtype=np.float32)
    strided = Dataset(
        features=wide[:, ::2],
        labels=np.zeros(4, dtype=np.float32),
        offsets=np.array([0, 4]),
        query_ids=np.array([1]),
    )
    assert describe(strided).duplicates == 3
    for kernel in (module.summarise_rows, module.find_leaders):
        assert len(kernel.signatures) == 1


def test_data_without_features_are_described():
    found = describe(with_rows(np.empty((3, 0)), [0, 1, 1]))
    assert (found.duplicates, found.contradictions) == (2, 2)
    assert found.missing_share == 0.0
    assert found.per_feature == ()
    assert "0 features" in str(found)


def test_dict_is_plain_json_without_nan():
    found = describe(with_rows([[np.nan, np.inf, 1.0]] * 3, [0, 1, 0.5], group=[1, 2]))
    plain = found.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["grades"] == {"0": 1, "0.5": 1, "1": 1}
    assert plain["label_quantiles"]["1.0"] == 1.0
    assert plain["lengths"]["histogram"] == [
        {"from": 1, "to": 1, "queries": 1},
        {"from": 2, "to": 3, "queries": 1},
    ]
    assert plain["missing_features"] == {"f1": 3}
    assert plain["constant_features"] == ["f1", "f2", "f3"]
    assert plain["per_feature"][1] == {
        "name": "f2", "missing": 0, "infinite": 3, "zeros": 0, "min": None, "max": None,
        "mean": None, "levels": None,
    }  # fmt: skip


def test_text_says_it_all_in_plain_lines():
    nan = np.nan
    data = with_rows(
        [[1.0, 0.0, nan], [1.0, 2.5, nan], [1.0, 0.0, nan], [1.0, 1.0, 4.0]],
        [0, 1, 1, 0],
        group=[3, 1],
        feature_names=["same", "length", "clicks"],
    )
    assert str(describe(data)).splitlines() == [
        "4 documents, 2 queries, 3 features",
        "",
        "label   documents",
        "    0           2   50.0 %",
        "    1           2   50.0 %",
        "",
        "documents of a query: min 1, median 2, mean 2.0, p90 2.8, max 3",
        "      1 to 1              1  ########################################",
        "      2 to 3              1  ########################################",
        "queries without a relevant document: 1 (50.0 %)",
        "queries with one document: 1 (50.0 %)",
        "queries with all labels equal: 1 (50.0 %)",
        "",
        "missing values: 25.0 % of all, in 1 features",
        "constant features: same",
        "repeated documents: 1, of which 1 contradict the label of an equal one of their query",
        "",
        "feature         min        mean         max     zero  missing",
        "same              1           1           1    0.0 %    0.0 %",
        "length            0       0.875         2.5   50.0 %    0.0 %",
        "clicks            4           4           4    0.0 %   75.0 %",
    ]


def test_description_cannot_be_changed():
    found = describe(awkward(0))
    assert isinstance(found, Description)
    with pytest.raises(AttributeError):
        found.documents = 3
