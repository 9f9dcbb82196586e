"""The model that docs/serving.md asks, and the commands of that page."""

import re
from pathlib import Path

import numpy as np

from rankgrove import Dataset, Ranker

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
NAMES = ("bm25", "clicks", "age_days")


def train_shop():
    """A model of three features, the same bits on every machine."""
    rows = np.arange(240)
    features = np.column_stack([rows * 37 % 101 / 8, rows * 53 % 67, rows * 11 % 29])
    features[rows % 10 == 0, 1] = np.nan
    labels = (features[:, 0] > 6).astype(int) + (np.nan_to_num(features[:, 1]) > 40)
    data = Dataset.from_arrays(features, labels, qid=rows // 8, feature_names=NAMES)
    return Ranker(n_estimators=10, max_leaves=8, min_samples_leaf=5).fit(data).model_


def commands():
    """Each command with curl on the page, and the answer that stands below it, if one does."""
    blocks = re.findall(r"^```\n(\$ curl .*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    for block in blocks:
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            lines = part.splitlines()
            # A command goes on until its quotes are closed.
            ends = range(1, len(lines) + 1)
            length = next(n for n in ends if "\n".join(lines[:n]).count("'") % 2 == 0)
            yield "\n".join(lines[:length]), "\n".join(lines[length:])
