"""The model behind the golden file of format 1, by hand, with what it scores.

The file was made once by `python tests/model/golden.py`; a new format gets a new file beside it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.trees.ensemble import Ensemble, Tree

FILE = Path(__file__).parents[1] / "golden" / "model-v1.safetensors"
NAN = float("nan")

# Leaf values are multiples of 1/16, so the sums are exact.
ROWS = [
    ([1.0, 49.0, 0.5], 0.3125),
    ([1.5, 33.0, 0.5], 0.3125),
    ([2.0, 33.0, -3.0], 1.5625),
    ([2.0, 7.0, 0.5], -1.6875),
    ([NAN, 7.0, NAN], -0.9375),
    ([0.0, 1234.0, 0.25], 1.0625),
    ([9.0, NAN, float("inf")], -1.6875),
]


def golden_model():
    """By hand: f1 <= 1.5 (missing right), language in {49, 7}, age <= 0.25 (missing left)."""
    two_splits = Tree(
        feature=np.array([0, 1], np.int32),
        threshold=np.array([1.5, 0.0], np.float32),
        missing_left=np.array([0, 1], np.uint8),
        left=np.array([~0, ~1], np.int32),
        right=np.array([1, ~2], np.int32),
        category_set=np.array([-1, 0], np.int32),
        gain=np.array([8.5, 2.25]),
        value=np.array([0.5, -1.5, 1.0]),
        count=np.array([60, 30, 10]),
        category_sets=np.array([[0b101, 0, 0, 0, 0, 0, 0, 0]], np.uint32),
    )
    one_split = Tree(
        feature=np.array([2], np.int32),
        threshold=np.array([0.25], np.float32),
        missing_left=np.array([1], np.uint8),
        left=np.array([~1], np.int32),
        right=np.array([~0], np.int32),
        category_set=np.array([-1], np.int32),
        gain=np.array([1.0]),
        value=np.array([-0.25, 0.5]),
        count=np.array([55, 45]),
        category_sets=np.empty((0, 8), np.uint32),
    )
    stump = Tree(
        feature=np.empty(0, np.int32),
        threshold=np.empty(0, np.float32),
        missing_left=np.empty(0, np.uint8),
        left=np.empty(0, np.int32),
        right=np.empty(0, np.int32),
        category_set=np.empty(0, np.int32),
        gain=np.empty(0),
        value=np.array([0.0625]),
        count=np.array([100]),
        category_sets=np.empty((0, 8), np.uint32),
    )
    return Model(
        Ensemble.from_trees([two_splits, one_split, stump]),
        Schema(("f1", "language", "âge"), {1: (49.0, 33.0, 7.0)}),
        {"objective": "lambdamart", "learning_rate": 0.1, "gains": [0, 1, 3], "metric": None},
        {"vali": {"ndcg@10": [0.25, 0.5, NAN]}},
        version="0.1.0",
    )


if __name__ == "__main__":
    golden_model().save(FILE)
