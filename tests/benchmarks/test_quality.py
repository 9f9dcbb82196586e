"""What the comparison with other libraries says, without the real data."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.real_data import Split

from benchmarks import quality
from rankgrove import make_web_search


def test_all_sets_weigh_the_same_in_the_mean_of_what_ours_is_above_each_peer():
    rng = np.random.default_rng(0)
    base = [rng.random(n_queries) for n_queries in (30, 300)]
    above = {quality.OURS: (0.2, 0.0), quality.YETIRANK: (-0.1, -0.3)}
    values = [
        {name: of_set + above.get(name, (0.0, 0.0))[place] + rng.normal(0, 1e-9, len(of_set))
         for name in (quality.OURS, quality.YETIRANK, *quality.THEIRS)}
        for place, of_set in enumerate(base)
    ]  # fmt: skip
    rows = [line for line in quality.overall(values, 2).splitlines() if line.startswith("| rank")]
    assert len(rows) == 2 * len(quality.THEIRS)
    means = [row.split("|")[3].strip() for row in rows]
    assert means == ["+0.1000"] * 3 + ["-0.2000"] * 3


def test_what_comes_in_one_piece_is_also_cut_into_five_folds(monkeypatch):
    cuts = []

    def compare(splits, n_trees, seeds):
        cuts.append(len(splits))
        values = np.linspace(0, 1, 7)
        names = (quality.OURS, quality.YETIRANK, *quality.THEIRS)
        return {name: values + place / 10 for place, name in enumerate(names)}

    monkeypatch.setattr(quality, "compare_tools", compare)
    split = Split(*make_web_search(20, 16, mean_documents=8).split(0.6, 0.2, 0.2))
    text = quality.run_quality({"folds": [split] * 5, "piece": [split]}, 3, [0])
    assert cuts == [5, 1, 5]
    assert "### piece, cut into five folds" in text
    assert "The mean of the 2 data sets" in text


@pytest.mark.parametrize("name", [quality.OURS, quality.YETIRANK])
def test_trees_of_both_of_ours_are_of_the_size_of_the_others(name):
    data = make_web_search(40, 16, mean_documents=60)
    split = Split(data, None, data)
    tool = quality.make_tool(name, split, quality.Settings(max_leaves=quality.N_LEAVES))
    tool.grow(2)
    sizes = [len(tree.value) for tree in tool.training.trees]
    assert all(16 < size <= 2**quality.DEPTH for size in sizes)
