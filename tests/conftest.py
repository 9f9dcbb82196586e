"""What all tests share."""

from __future__ import annotations

import pytest

ON_DEMAND = ("long", "spark", "wheel")


def pytest_collection_modifyitems(config, items):
    """Leave out what is marked long, spark or wheel, unless -m asks for it."""
    asked = config.getoption("markexpr")
    unasked = [mark for mark in ON_DEMAND if mark not in asked]
    left_out = [item for item in items if any(map(item.get_closest_marker, unasked))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True, scope="session")
def _threads_help_with_the_smallest_trees():
    """Trees of tests are small: one thread would grow them, and what several do go unseen."""
    from rankgrove.trees import grower

    patch = pytest.MonkeyPatch()
    patch.setattr(grower, "WORK_A_THREAD", 1)
    yield
    patch.undo()
