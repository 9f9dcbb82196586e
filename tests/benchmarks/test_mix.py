"""Mixtures against their members: the problems are what they say, and so is the verdict."""

from __future__ import annotations

import re

import numpy as np
import pytest
from benchmarks.mix import AUTO, EQUAL, KINDS, MIXES, Outcome, Task, body_of, outcome_of, verdict
from benchmarks.mix_problems import LONG_SHARE, N_TEST, N_VALI, PROBLEMS

N_DRAWS = 2


@pytest.fixture(scope="module")
def splits():
    return {name: problem.splits(N_DRAWS) for name, problem in PROBLEMS.items()}


def test_there_are_ten_problems_whose_draws_share_the_test_and_no_training_query(splits):
    assert len(splits) == 10
    for name, (first, second) in splits.items():
        assert first.test.n_queries == N_TEST
        np.testing.assert_array_equal(first.test.labels, second.test.labels)
        queries = [set(part.query_ids.tolist()) for split in (first, second) for part in split[:2]]
        queries.append(set(first.test.query_ids.tolist()))
        assert sum(map(len, queries)) == len(set().union(*queries)), name
        assert first.vali.n_queries == N_VALI


def test_a_problem_is_the_same_again_and_spoils_what_it_says(splits):
    for name, problem in PROBLEMS.items():
        again = problem.splits(N_DRAWS)[1].train
        np.testing.assert_array_equal(again.labels, splits[name][1].train.labels)
        np.testing.assert_array_equal(again.features, splits[name][1].train.features)
        # Labels to learn from may lie; those of the test are grades, or 0 and 1.
        assert set(np.unique(splits[name][0].test.labels)) <= {0, 1, 2, 3, 4}
    long = splits["one long query"][0].train
    assert LONG_SHARE <= long.group.max() / long.n_documents < LONG_SHARE + 0.1
    for split in splits["one relevant"]:
        for part in split:
            assert (np.add.reduceat(part.labels, part.offsets[:-1]) == 1).all()
    assert (splits["wild labels"][0].train.labels == 12).mean() == pytest.approx(0.02, abs=0.01)
    scaled = splits["scaled grades"][0].train.labels
    assert 4 < scaled.max() <= 32
    assert splits["useless features"][0].train.n_features == 136
    missing = np.isnan(splits["mostly missing"][0].train.features)
    assert missing.any(axis=0).sum() >= 2
    assert missing[:, missing.any(axis=0)].mean() == pytest.approx(0.95, abs=0.02)


def made_up(of_auto, noise=0.01):
    """One member is good, the others are not, and the mixture is so much above the good one."""
    rng = np.random.default_rng(0)
    base = rng.normal(0.5, 0.1, (1, 200))
    levels = {**dict.fromkeys(MIXES, -0.2), KINDS[2]: 0.0, EQUAL: -0.1, AUTO: of_auto}
    values = {name: base + level + rng.normal(0, noise, (3, 200)) for name, level in levels.items()}
    return Outcome(values, dict.fromkeys(KINDS, 0.25))


@pytest.mark.parametrize(("of_auto", "word"), [(0.05, "none"), (0.0, "none"), (-0.05, "second")])
def test_the_mixture_is_called_below_only_where_noise_does_not_explain_it(of_auto, word):
    text = verdict({"first": made_up(0.02), "second": made_up(of_auto)})
    assert text.partition("many tests: ")[2].startswith(word)
    said = [float(number) for number in re.findall(r"equal mix ([-+]\d\.\d+)", text)]
    assert said == pytest.approx([-0.1, -0.1], abs=0.005)  # the least, and the mean
    assert "The worst member is 0.1999 to 0.1999 below the best." in text


def test_the_table_marks_the_best_member_and_has_the_weights():
    body = body_of({"linear": made_up(0.0)}, 3)
    (row,) = [line for line in body.splitlines() if line.startswith("| linear")]
    assert [cell.startswith("**") for cell in row.split(" | ")[1:5]] == [False, False, True, False]
    assert "queryrmse 25%" in row
    assert "- linear: grades are a weighted sum" in body


def test_values_are_by_draw_with_its_folds_one_after_the_other():
    tasks = [Task(name, "web", fold, "") for name in MIXES for fold in range(4)]
    found = {
        task: {"values": [task.fold, None], "shares": dict.fromkeys(KINDS, task.fold / 6)}
        for task in tasks
    }
    outcome = outcome_of(tasks, found, n_draws=2)
    np.testing.assert_array_equal(outcome.values[AUTO][:, ::2], [[0, 1], [2, 3]])
    assert outcome.shares == dict.fromkeys(KINDS, pytest.approx(0.25))
