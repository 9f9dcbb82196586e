"""A Dataset with every part and every odd float, and what it is to be the same."""

from __future__ import annotations

import numpy as np

from rankgrove.data.dataset import Dataset

ALL_ROLES = {name: name for name in ("weight", "base_score", "document_id", "document_weight")}


def assert_identical(got, expected):
    for name in ("features", "labels", "offsets", "query_ids", "weights", "base_scores",
                 "document_ids", "document_weights"):  # fmt: skip
        left, right = getattr(got, name), getattr(expected, name)
        if right is None:
            assert left is None, name
            continue
        assert left.dtype == right.dtype, name
        if left.dtype.kind == "f":
            left, right = (x.view(f"u{x.dtype.itemsize}") for x in (left, right))
        np.testing.assert_array_equal(left, right, err_msg=name)
    assert got.feature_names == expected.feature_names
    assert got.features.flags.c_contiguous


def full_dataset(query_ids="integers", n_queries=40, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 8, n_queries)
    n = int(sizes.sum())
    features = rng.integers(0, 2**32, (n, 5), dtype=np.uint32).view(np.float32).copy()
    features[np.isnan(features)] = np.nan
    features[0] = [np.nan, np.inf, -np.inf, -0.0, 1e-45]
    ids = np.arange(n_queries) * 7 - 3
    if query_ids == "strings":
        ids = np.array([f"q, {number}é" for number in ids])
    return Dataset.from_arrays(
        features,
        rng.integers(0, 5, n),
        qid=np.repeat(ids, sizes),
        weights=rng.random(n_queries) + 0.1,
        base_scores=rng.normal(size=n) / 3,
        document_ids=np.array([f'd"{number:04d}' for number in range(n)]),
        document_weights=rng.random(n) * 2,
        feature_names=["a", "b b", "c,c", 'd"d', "é"],
    )
