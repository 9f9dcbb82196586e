"""The report that most tests look at; leave it as it is."""

from __future__ import annotations

import pytest

from rankgrove import make_report
from report.samples import METRICS, make_parts, train_models


@pytest.fixture(scope="session")
def parts():
    return make_parts()


@pytest.fixture(scope="session")
def models(parts):
    return train_models(parts)


@pytest.fixture(scope="session")
def contents(parts, models):
    report = make_report(
        parts["test"], models, METRICS, baseline="old", slices=["length", "relevant"], top=5,
        train=parts["train"], valid=parts["vali"], forces=2,
    )  # fmt: skip
    return report.to_dict()
