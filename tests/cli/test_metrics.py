"""`rankgrove metrics`: the registry, whole."""

from __future__ import annotations

import pytest

from rankgrove.cli.metrics import EMPTY_POLICIES, TIE_POLICIES
from rankgrove.metrics.base import EMPTY
from rankgrove.metrics.spec import METRICS, PRESETS
from rankgrove.metrics.ties import TIES


def test_every_metric_is_listed_with_its_formula(cli):
    page = cli("metrics").stdout
    assert all(name in page and metric.formula in page for name, metric in METRICS.items())
    assert all(preset in page for preset in PRESETS)


def test_every_policy_is_explained():
    assert tuple(TIE_POLICIES) == TIES
    assert tuple(EMPTY_POLICIES) == EMPTY


def test_json_has_the_parameters_and_their_defaults(cli_json):
    got = cli_json("metrics")
    metrics = {metric["name"]: metric for metric in got["metrics"]}
    assert list(metrics) == list(METRICS)
    assert metrics["rbp"]["parameters"] == {
        "k": None, "ties": "worst", "empty": "skip", "relevant": None, "p": 0.8,
    }  # fmt: skip
    assert "k" not in metrics["tau"]["parameters"]
    assert got["presets"] == PRESETS


@pytest.mark.parametrize("name", [*METRICS, *(f"{name}@5(ties=best)" for name in METRICS)])
def test_one_metric_is_shown_whole(cli, name):
    metric = METRICS[name.partition("@")[0]]
    page = cli("metrics", name).stdout
    for text in (metric.title, metric.formula, metric.reference, metric.expected_ties):
        assert text in page


def test_alias_finds_its_metric(cli_json):
    assert [metric["name"] for metric in cli_json("metrics", "AP")["metrics"]] == ["map"]


def test_what_a_preset_makes_of_a_metric_is_shown(cli):
    assert "@32, ties=stable, empty=one" in cli("metrics", "ndcg").stdout


@pytest.mark.parametrize("args", [[], *([name] for name in METRICS)])
def test_page_fits_into_80_columns(cli, monkeypatch, args):
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, cli("metrics", *args).stdout.splitlines())) <= 80
