"""The script that compares the scores of two commits."""

from __future__ import annotations

import numpy as np
from benchmarks.bits import compare, configurations, digest, run


def test_every_objective_and_grower_is_among_the_configurations():
    names = list(configurations())
    assert len(names) >= 40
    for text in ("oblivious", "leafwise", "depthwise", "preferences", "base model", "resumed",
                 "tuned", "regressor", "classifier", "ranknet", "lambdarank"):  # fmt: skip
        assert any(text in name for name in names), text


def test_digest_tells_the_last_bit_of_a_score():
    scores = np.array([1.0, 2.0])
    assert digest(scores) == digest(scores.copy())
    assert digest(scores) != digest(np.nextafter(scores, 3.0))


def test_a_configuration_has_one_digest_on_any_number_of_threads():
    one, two = (run("all defaults", n_jobs) for n_jobs in (1, 2))
    assert one == two
    assert not any("Error" in value for value in one.values())


def test_a_difference_and_a_missing_configuration_are_reported(capsys):
    assert compare({"a": "1"}, {"a": "1", "c": "3"})
    assert not compare({"a": "1", "b": "2"}, {"a": "2"})
    said = capsys.readouterr().out
    assert "DIFFERENT: 1, was 2" in said
    assert "2 configurations, 0 the same, 2 not" in said
