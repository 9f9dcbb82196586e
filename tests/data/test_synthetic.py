"""The made web search data: its bits, its kinds of features, and the ranking that is best."""

import hashlib
import math
from itertools import pairwise

import numpy as np
import pytest

from rankgrove import Dataset
from rankgrove.data import synthetic
from rankgrove.data.synthetic import GRADE_SHARES, make_web_search
from rankgrove.errors import ParameterError

MASK = 2**64 - 1


def ndcg_at_10(labels, scores, offsets):
    """The mean over queries with a relevant document, gain 2^label - 1, ties by position."""
    values = []
    for start, end in pairwise(offsets):
        gains = 2.0 ** labels[start:end] - 1.0
        if gains.max() == 0.0:
            continue
        discounts = 1.0 / np.log2(2.0 + np.arange(min(10, end - start)))
        ranked = gains[np.argsort(-scores[start:end], kind="stable")]
        ideal = np.sort(gains)[::-1]
        size = len(discounts)
        values.append((ranked[:size] @ discounts) / (ideal[:size] @ discounts))
    return float(np.mean(values))


def naive_mix(bits):
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def naive_draw(key, place):
    return naive_mix((key + 0x9E3779B97F4A7C15 * (place + 1)) & MASK)


def naive_uniform(bits):
    return ((bits >> 11) + 0.5) / 2**53


def naive_normal(bits):
    lanes = [(bits >> shift) & 0xFFFF for shift in (0, 16, 32, 48)]
    return (sum(lanes) - 131070.0) * (math.sqrt(3.0) / 65536.0)


def naive_value(kind, bits, factor, missing):
    u = naive_uniform(bits)
    if kind == "score":
        return 3.0 + 0.5 * factor + 0.8660254037844386 * naive_normal(bits)
    if kind == "count":
        scale = 1.0 + 0.25 * factor
        return float(int(4.0 * scale * scale * (1.0 / math.sqrt(u) - 1.0)))
    if kind == "tail":
        return 20.0 / math.sqrt(u)
    if kind == "level":
        return float(int(6.0 * u * math.sqrt(u)))
    if kind == "sparse":
        return 1.0 / math.sqrt(1.0 - (u - 0.93) / 0.07) if u - 0.93 > 0.0 else 0.0
    if kind == "missing":
        gone = naive_uniform(naive_mix(bits)) < missing
        return math.nan if gone else 10.0 + 3.0 * naive_normal(bits)
    return 0.5 + 1.5 * u


def naive_document(names, seed, query, document, missing):
    """One row from the definition, in Python's own integers and floats."""
    query_key = naive_draw(naive_draw(naive_mix(seed), 1), query)
    key = naive_draw(query_key, (1 << 45) + document)
    factor = naive_normal(naive_draw(key, 1 << 40))
    row = np.empty(len(names), dtype=np.float32)
    for column, name in enumerate(names):
        if name.startswith("copy_"):
            source = float(row[names.index(name.split("_of_")[1])])
            row[column] = source * (1.0 + 0.25 * naive_normal(naive_draw(key, column)))
            continue
        noise = name.startswith("noise_")
        kind = name.removeprefix("noise_").split("_")[0]
        bits = naive_draw(query_key if kind == "query" else key, column)
        row[column] = naive_value(kind, bits, 0.0 if noise else factor, missing)
        if column == 13:
            row[0] = float(row[0]) * float(row[8])
    return row


def naive_signal(x):
    """The signal of many rows, from the definition."""
    x = x.astype(np.float64)
    length = 4.0 * (40.0 / (x[:, 2] + 20.0) - 0.75)
    score = x[:, 4] - 3.0
    first, second = (x[:, 12] - 10.0) / 3.0, (x[:, 13] - 10.0) / 3.0
    clicks = np.maximum(x[:, 10], 1.0)
    signal = 0.45 * (x[:, 0] / x[:, 8] - 3.0) + x[:, 1] / (x[:, 1] + 4.0) - 0.35
    signal += 1.2 / (1.0 + 4.0 * length**2) - 0.6
    signal += np.where(np.isnan(first), -0.2, 0.9 / (1.0 + 2.0 * first**2) - 0.5)
    signal += np.where(x[:, 7] % 2 == 1, 0.4, -0.25)
    signal += np.where(x[:, 10] > 0, 1.6 * (1.0 - 0.5 / clicks), 0.0)
    signal += np.where((x[:, 3] > 28.284271) == (score > 0), 0.6, -0.6)
    signal += 1.6 * (x[:, 5] / (x[:, 5] + 4.0) - 0.35) * score
    signal += np.where(x[:, 9] > 1.0, 0.22, -0.3) * (x[:, 6] - 2.0)
    signal += np.where(x[:, 11] > 0, np.where(x[:, 6] >= 2, 1.4, -1.0), 0.0)
    signal += np.nan_to_num(np.where(x[:, 8] > 1.25, 0.5, -0.5) * second)
    return signal / 1.3


@pytest.fixture(scope="module")
def made():
    return make_web_search(1500, 34, seed=3, best_scores=True)


def columns(data, prefix):
    chosen = [i for i, name in enumerate(data.feature_names) if name.startswith(prefix)]
    assert chosen
    return data.features[:, chosen]


@pytest.mark.parametrize("seed", [*range(8), 2**63 - 1, 2**63, 2**64 - 1])
def test_every_value_follows_the_definition_exactly(seed):
    data = make_web_search(4, 34, mean_documents=5.0, missing=0.4, seed=seed)
    for query in range(data.n_queries):
        for document, row in enumerate(range(data.offsets[query], data.offsets[query + 1])):
            expected = naive_document(data.feature_names, seed, query, document, 0.4)
            np.testing.assert_array_equal(data.features[row], expected)


def test_a_small_data_set_has_the_pinned_checksum():
    data, best = make_web_search(20, 30, mean_documents=12.0, seed=42, best_scores=True)
    digest = hashlib.sha256()
    for array, kind in (
        (data.features, "<f4"),
        (data.labels, "<f4"),
        (data.offsets, "<i8"),
        (best, "<f8"),
    ):
        digest.update(array.astype(kind).tobytes())
    assert digest.hexdigest() == "1a84a428822763590f612932c489df8aa672222297b8fd595473de97925ffaa7"


def test_best_scores_are_a_function_of_the_visible_features(made):
    data, best = made
    np.testing.assert_allclose(best, naive_signal(data.features), rtol=0, atol=1e-12)


def test_exponential_agrees_with_the_library():
    for x in np.linspace(-6.0, 6.0, 241):
        assert synthetic.exponential(x) == pytest.approx(math.exp(x), rel=1e-13)


def test_same_seed_gives_the_same_bits_on_any_number_of_threads():
    one, best_one = make_web_search(200, 20, seed=9, best_scores=True, n_jobs=1)
    for n_jobs in (2, 4):
        other, best_other = make_web_search(200, 20, seed=9, best_scores=True, n_jobs=n_jobs)
        assert one.features.tobytes() == other.features.tobytes()
        assert one.labels.tobytes() == other.labels.tobytes()
        assert one.offsets.tobytes() == other.offsets.tobytes()
        assert best_one.tobytes() == best_other.tobytes()


def test_another_seed_gives_other_data():
    one, other = make_web_search(5, 16, seed=0), make_web_search(5, 16, seed=1)
    assert one.features.tobytes() != other.features.tobytes()


def test_first_queries_do_not_depend_on_how_many_follow():
    few, many = make_web_search(30, 20, seed=1), make_web_search(60, 20, seed=1)
    head = many.take_queries(np.arange(30))
    assert few.features.tobytes() == head.features.tobytes()
    assert few.labels.tobytes() == head.labels.tobytes()


def test_first_features_do_not_depend_on_how_many_follow():
    few, many = make_web_search(10, 16), make_web_search(10, 40)
    np.testing.assert_array_equal(few.features, many.features[:, :16])
    np.testing.assert_array_equal(few.labels, many.labels)
    assert few.feature_names == many.feature_names[:16]


def test_default_call_gives_a_dataset_alone():
    assert isinstance(make_web_search(3, 16), Dataset)


def test_lengths_are_log_normal_with_the_mean_asked_for():
    lengths = make_web_search(4000, 16, seed=5).group
    assert lengths.mean() == pytest.approx(120.0, rel=0.04)
    assert lengths.min() < 5
    assert lengths.max() > 5 * lengths.mean()
    usual = np.log(lengths[lengths > 12])
    assert usual.std() == pytest.approx(0.6, abs=0.06)


@pytest.mark.parametrize("mean", [1.0, 1.5, 8, np.float32(30.0)])
def test_lengths_keep_other_means_too(mean):
    lengths = make_web_search(3000, 16, mean_documents=mean).group
    assert lengths.min() == 1
    assert lengths.mean() == pytest.approx(float(mean), rel=0.06)


@pytest.mark.parametrize(
    "settings",
    [{}, {"n_features": 16}, {"noise": 0.3}, {"noise": 3.0}, {"missing": 0.0}, {"missing": 1.0}],
)
def test_grades_have_the_shares_of_mslr(settings):
    data = make_web_search(1500, **{"n_features": 24, "seed": 8, **settings})
    shares = np.bincount(data.labels.astype(int), minlength=5) / data.n_documents
    np.testing.assert_allclose(shares, GRADE_SHARES, rtol=0, atol=0.02)


def test_best_ranking_is_perfect_without_noise():
    data, best = make_web_search(300, 16, noise=0.0, best_scores=True)
    assert ndcg_at_10(data.labels, best, data.offsets) == 1.0


def test_best_ranking_leads_the_weak_and_the_random_one(made):
    data, best = made
    top = ndcg_at_10(data.labels, best, data.offsets)
    bm25 = ndcg_at_10(data.labels, data.features[:, 0], data.offsets)
    random = ndcg_at_10(data.labels, np.random.default_rng(0).random(len(best)), data.offsets)
    assert 0.6 < top < 0.75
    assert random + 0.05 < bm25 < top - 0.2
    assert 0.15 < random < 0.3


def test_every_departure_from_the_best_scores_costs(made):
    data, best = made
    top = ndcg_at_10(data.labels, best, data.offsets)
    rng = np.random.default_rng(1)
    for share in (0.2, 0.5, 1.0):
        moved = best + share * rng.standard_normal(len(best))
        assert ndcg_at_10(data.labels, moved, data.offsets) < top
    for column in range(14):
        x = np.nan_to_num(data.features[:, column].astype(np.float64), nan=10.0)
        for sign in (-0.2, 0.2):
            tilted = best + sign * x / (x.std() + 1e-9)
            assert ndcg_at_10(data.labels, tilted, data.offsets) < top + 1e-3


def test_more_noise_makes_the_best_ranking_worse():
    tops = []
    for noise in (0.3, 1.0, 3.0):
        data, best = make_web_search(500, 16, noise=noise, best_scores=True)
        tops.append(ndcg_at_10(data.labels, best, data.offsets))
    assert tops[0] > tops[1] + 0.1 > tops[2] + 0.2


def test_queries_differ_in_richness_and_some_have_nothing_relevant(made):
    data, _ = made
    relevant = np.add.reduceat(data.labels > 0, data.offsets[:-1]) / data.group
    long = data.group > 50
    assert relevant[long].std() > 0.15
    assert 0.005 < np.mean(relevant == 0) < 0.05


def test_queries_differ_in_difficulty(made):
    data, best = made
    agreement = [
        np.corrcoef(best[start:end], data.labels[start:end])[0, 1]
        for start, end in pairwise(data.offsets)
        if end - start > 80 and np.ptp(data.labels[start:end]) > 0
    ]
    low, high = np.quantile(agreement, [0.1, 0.9])
    assert high - low > 0.25


def test_linear_model_misses_the_interactions(made):
    data, best = made
    x = np.nan_to_num(data.features[:, :14].astype(np.float64), nan=10.0)
    x = np.column_stack([np.minimum(x, np.quantile(x, 0.99, axis=0)), np.ones(len(x))])
    fitted = x @ np.linalg.lstsq(x, data.labels.astype(np.float64), rcond=None)[0]
    linear = ndcg_at_10(data.labels, fitted, data.offsets)
    assert linear < ndcg_at_10(data.labels, best, data.offsets) - 0.15


def test_count_features_are_whole_and_heavy_tailed(made):
    counts = columns(made[0], "count")
    np.testing.assert_array_equal(counts, np.floor(counts))
    assert np.all(counts.max(axis=0) > 100 * np.median(counts, axis=0))


def test_tail_features_are_continuous_and_heavy_tailed(made):
    tails = columns(made[0], "tail")
    assert np.all(tails.max(axis=0) > 100 * np.median(tails, axis=0))
    assert len(np.unique(tails[:1000, 0])) > 990


def test_level_features_have_six_values(made):
    for level in columns(made[0], "level").T:
        assert np.unique(level).tolist() == [0, 1, 2, 3, 4, 5]


def test_sparse_features_are_mostly_zero(made):
    assert np.all((columns(made[0], "sparse") == 0).mean(axis=0) > 0.9)


def test_missing_features_have_the_share_of_nan_asked_for():
    data = make_web_search(300, 34, missing=0.15)
    shares = np.isnan(columns(data, "missing")).mean(axis=0)
    np.testing.assert_allclose(shares, 0.15, atol=0.01)
    others = [i for i, name in enumerate(data.feature_names) if "missing" not in name]
    assert not np.isnan(data.features[:, others]).any()


def test_query_features_are_constant_in_a_query_and_differ_between(made):
    data, _ = made
    for values in columns(data, "query").T:
        first = values[data.offsets[:-1]]
        np.testing.assert_array_equal(values, np.repeat(first, data.group))
        assert len(np.unique(first)) > 0.99 * data.n_queries


def test_copies_follow_their_source_with_noise(made):
    data, _ = made
    for i, name in enumerate(data.feature_names):
        if not name.startswith("copy_"):
            continue
        source = data.features[:, data.feature_names.index(name.split("_of_")[1])]
        copy = data.features[:, i]
        np.testing.assert_array_equal(np.isnan(copy), np.isnan(source))
        known = np.isfinite(source) & (source != 0)
        ratio = copy[known] / source[known]
        assert ratio.mean() == pytest.approx(1.0, abs=0.01)
        assert ratio.std() == pytest.approx(0.25, abs=0.01)


def test_noise_features_say_nothing_about_the_label(made):
    data, _ = made
    for values in columns(data, "noise").T:
        known = np.isfinite(values)
        ranks = np.argsort(np.argsort(values[known]))
        assert abs(np.corrcoef(ranks, data.labels[known])[0, 1]) < 0.03


def test_feature_names_differ_and_number_the_columns():
    names = make_web_search(1, 200).feature_names
    assert len(set(names)) == 200
    for i, name in enumerate(names):
        assert str(i + 1) in name.split("_")


def test_kernel_has_one_signature():
    make_web_search(np.int64(3), np.int32(16), mean_documents=2, noise=1, missing=0, seed=1)
    assert len(synthetic.fill_queries.signatures) == 1
    assert len(synthetic.draw_lengths.signatures) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_queries": 0}, "n_queries must be an integer, 1 or more. Got 0."),
        ({"n_queries": 2.5}, "n_queries must be an integer, 1 or more. Got 2.5."),
        ({"n_queries": True}, "n_queries must be an integer, 1 or more. Got True."),
        ({"n_features": 15}, "n_features must be an integer, 16 or more. Got 15."),
        ({"mean_documents": 0.5}, "mean_documents must be a number, 1 or more. Got 0.5."),
        ({"mean_documents": math.inf}, "mean_documents must be a number, 1 or more. Got inf."),
        ({"mean_documents": math.nan}, "mean_documents must be a number, 1 or more. Got nan."),
        ({"mean_documents": "9"}, "mean_documents must be a number, 1 or more. Got '9'."),
        ({"noise": -1}, "noise must be a number, 0 or more. Got -1."),
        ({"noise": None}, "noise must be a number, 0 or more. Got None."),
        ({"missing": 1.5}, "missing must be a number, from 0 to 1. Got 1.5."),
        ({"missing": False}, "missing must be a number, from 0 to 1. Got False."),
        ({"seed": -1}, f"seed must be an integer, from 0 to {2**64 - 1}. Got -1."),
        ({"seed": 2**64}, f"seed must be an integer, from 0 to {2**64 - 1}. Got {2**64}."),
        ({"seed": 1.0}, f"seed must be an integer, from 0 to {2**64 - 1}. Got 1.0."),
        ({"n_jobs": 0}, "n_jobs must be a positive integer"),
    ],
)
def test_bad_parameters_are_refused_with_rule_and_value(settings, message):
    with pytest.raises(ParameterError) as caught:
        make_web_search(**settings)
    assert str(caught.value).startswith(message)
