"""The model of docs/cost-of-workers.md, from constants that are easy to add up."""

import pytest
from benchmarks.cost_of_workers import (
    WIRE_LATENCY,
    Constants,
    count_in_threads,
    fit_line,
    memory_of,
    pays_from,
    seconds_per_tree,
)
from benchmarks.worker_bytes import Growing, bytes_of, tree_calls

GROWING = Growing(cells=34_816, narrow_bytes=180_000, n_blocks=9, leaves=64, depth=6)
CONSTANTS = Constants(
    rate=1e-6, fixed={1: 0.01, 4: 0.02, 64: 0.03}, beside={4: (3e-6, 0.05)},
    per_call={2: 1e-4, 4: 2e-4}, per_byte={2: 1e-9, 4: 2e-9}, growing=GROWING,
)  # fmt: skip


def test_a_worker_pays_for_rows_calls_and_bytes():
    sent = bytes_of(tree_calls(GROWING, 4), 4) / 4
    assert CONSTANTS.compute(4, 1000) == pytest.approx(0.02 + 0.001)
    assert CONSTANTS.compute_beside(4, 1000) == pytest.approx(0.05 + 0.003)
    # Two calls for the units, twelve of levels, one of leaves, one of values.
    assert CONSTANTS.talk(4) == pytest.approx(16 * 2e-4 + sent * 2e-9)
    assert CONSTANTS.wire(4, 8) == pytest.approx(16 * WIRE_LATENCY + sent / 1e9)
    assert CONSTANTS.talk(1) == 0.0


def test_constants_are_those_of_a_line_through_points():
    line = [{"rows": rows, "processor": 0.02 + 3e-6 * rows} for rows in (1000, 5000, 90_000)]
    assert fit_line(line) == pytest.approx((3e-6, 0.02))
    # An error of a tenth counts as much at few rows as at many.
    for number in (0, 2):
        off = [dict(point) for point in line]
        off[number]["processor"] *= 1.1
        rate, fixed = fit_line(off)
        errors = [(fixed + rate * each["rows"]) / each["processor"] - 1 for each in off]
        assert max(map(abs, errors)) < 0.09


def test_many_workers_pay_for_every_step_of_a_call():
    sent = bytes_of(tree_calls(GROWING, 64), 64) / 64
    assert CONSTANTS.talk(64) == pytest.approx(16 * 6 * 1e-4 + sent * 1e-9)
    assert CONSTANTS.wire(64, 8) == pytest.approx(16 * 6 * WIRE_LATENCY + sent / 1e9)


def test_workers_pay_from_where_they_are_twice_as_fast():
    documents = pays_from(CONSTANTS, 4, threads=2)
    faster = [
        seconds_per_tree(CONSTANTS, 1, n, 2) / seconds_per_tree(CONSTANTS, 4, n, 2)
        for n in (documents / 1.2, documents)
    ]
    assert faster[0] < 2 <= faster[1]


def test_memory_is_that_of_rows_and_histograms():
    histograms = 65 * 9 * 32_768
    assert memory_of(1000, 136, floats=True) == 1000 * (544 + 288 + 72) + histograms
    assert memory_of(1000, 136, floats=False) == 1000 * (288 + 72) + histograms


def test_workers_in_threads_send_the_bytes_of_their_calls():
    sent, calls = count_in_threads(3, {"objective": "yetirank", "max_depth": 2})
    assert sent == bytes_of(calls, 3) > 0
    assert [name for name, _ in calls].count("scatter") == 2
