"""What is compiled while data are read is what training needs."""

import sys
import threading

import pytest

from rankgrove.boosting.parameters import Parameters
from rankgrove.distributed.warming import WarmUp, train_a_little


@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"objective": "lambdamart", "grower": "leafwise"},
        {"objective": "yetiloss", "grower": "oblivious", "leaf": "newton_cross_leaf"},
        {"categorical": ["name"], "monotone": {"other": 1}},
        {"subsample": 0.5, "sampling": "variance", "temperature": 1e4, "bootstrap": 1.0},
    ],
)
def test_a_few_rows_can_be_trained_on_with_any_options(options, n_workers):
    train_a_little(Parameters(**options), n_workers)


def test_waiting_for_what_is_compiled_can_be_stopped(monkeypatch):
    going_on = threading.Event()
    monkeypatch.setattr(
        sys.modules["rankgrove.distributed.warming"],
        "train_a_little",
        lambda *_: going_on.wait(60),
    )

    def stop():
        raise KeyboardInterrupt

    warm_up = WarmUp(Parameters(), 1)
    with pytest.raises(KeyboardInterrupt):
        warm_up.wait(stop)
    going_on.set()
    warm_up.wait(lambda: None)


def test_a_function_of_the_user_is_not_called():
    called = []
    WarmUp(Parameters(objective=lambda *_: called.append(1)), 1).wait(lambda: None)
    assert called == []
