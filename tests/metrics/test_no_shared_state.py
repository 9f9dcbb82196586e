"""No evaluation leaves anything behind in the process that another one could see."""

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from rankgrove import evaluate, parse_metric
from rankgrove.metrics.spec import PRESETS

SPECS = [
    "ndcg@10",
    "ndcg@10(gain=linear)",
    "ndcg@10(gain=[0, 1, 1, 1, 9])",
    "ndcg@10(gain=[0, 0, 0, 0, 1])",
    "err",
    "err(r/4)",
    "map",
    "map(relevant>=3)",
]
ROUNDS = 25


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    group = rng.integers(1, 60, size=300)
    labels = rng.integers(0, 5, size=group.sum())
    scores = np.round(rng.normal(size=group.sum()), 1)
    return labels, scores, group


def values(data, specs, **options):
    labels, scores, group = data
    result = evaluate(labels, scores, specs, group=group, **options)
    return [row.values.tobytes() for row in result.results.values()]


def alone(data):
    """The bits of each metric, evaluated by itself."""
    return {spec: values(data, spec, n_jobs=1)[0] for spec in SPECS}


def test_different_gain_tables_one_after_the_other_do_not_influence_one_another(data):
    expected = alone(data)
    assert len(set(expected.values())) == len(SPECS)
    for spec in [*SPECS, *reversed(SPECS), *SPECS]:
        assert values(data, spec) == [expected[spec]]


def test_different_gain_tables_in_one_call_do_not_influence_one_another(data):
    expected = alone(data)
    assert values(data, SPECS) == list(expected.values())
    assert values(data, SPECS[::-1]) == list(expected.values())[::-1]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_different_gain_tables_in_two_threads_do_not_influence_one_another(data, n_jobs):
    expected = alone(data)
    together = Barrier(2)

    def repeat(spec):
        together.wait()
        return [values(data, spec, n_jobs=n_jobs)[0] for _ in range(ROUNDS)]

    with ThreadPoolExecutor(2) as threads:
        for pair in zip(SPECS, SPECS[1:] + SPECS[:1], strict=True):
            for spec, repeated in zip(pair, threads.map(repeat, pair), strict=True):
                assert repeated == [expected[spec]] * ROUNDS


def test_one_metric_value_may_be_used_by_two_threads_on_different_data(data):
    labels, scores, group = data
    other = labels[::-1].copy(), scores, group
    metric = parse_metric("ndcg@10(gain=[0, 1, 1, 1, 9])")
    expected = [values(data, metric), values(other, metric)]
    together = Barrier(2)

    def repeat(which):
        together.wait()
        return [values((data, other)[which], metric) for _ in range(ROUNDS)]

    with ThreadPoolExecutor(2) as threads:
        for which, repeated in enumerate(threads.map(repeat, (0, 1))):
            assert repeated == [expected[which]] * ROUNDS


def test_presets_are_not_changed_by_their_use(data):
    before = copy.deepcopy(PRESETS)
    for preset in PRESETS:
        parse_metric("ndcg@3(empty=skip, gain=linear)", preset=preset)
    assert before == PRESETS


def test_inputs_are_not_changed(data):
    before = copy.deepcopy(data)
    values(data, SPECS)
    for array, old in zip(data, before, strict=True):
        assert array.tobytes() == old.tobytes()
