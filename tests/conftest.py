"""What all tests share."""

from __future__ import annotations

ON_DEMAND = ("long", "spark", "wheel")


def pytest_collection_modifyitems(config, items):
    """Leave out what is marked long, spark or wheel, unless -m asks for it."""
    asked = config.getoption("markexpr")
    unasked = [mark for mark in ON_DEMAND if mark not in asked]
    left_out = [item for item in items if any(map(item.get_closest_marker, unasked))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
