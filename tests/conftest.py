"""What all tests share."""

from __future__ import annotations


def pytest_collection_modifyitems(config, items):
    """Leave out what is marked long, unless -m asks for it."""
    if "long" in config.getoption("markexpr"):
        return
    long = [item for item in items if "long" in item.keywords]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if "long" not in item.keywords]
