"""docs/coming-from.md: every name on it exists, in the other library and here."""

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rankgrove import Dataset, Ranker, parse_metric
from rankgrove.cli.main import app
from rankgrove.objectives.registry import OBJECTIVES
from rankgrove.testing.peers import PEERS, peer_settings

PAGE = (Path(__file__).parents[1] / "docs" / "coming-from.md").read_text(encoding="utf-8")
TOOLS = list(PEERS)
# What its loss, its data or its fit takes, and no signature lists.
ALSO_KNOWN = {
    "lightgbm": {"init_model", "group", "init_score"},
    "xgboost": {"qid", "base_margin"},
    "catboost": {"baseline", "group_id", "group_weight", "pairs", "mode", "num_estimations"},
}


def section(tool):
    return PAGE.split(f"\n## {PEERS[tool].title}\n")[1].split("\n## ")[0]


def rows(tool, table):
    """The cells of a table of a library: 0 has parameters, 1 objectives, 2 metrics."""
    found = re.findall(r"(?:^\|.*\n)+", section(tool), re.M)[table]
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in found.splitlines()[2:]]  # fmt: skip


def code(cell):
    return re.findall(r"`([^`]+)`", cell)


def known_parameters(tool):
    library = pytest.importorskip(tool)
    if tool == "lightgbm":
        from lightgbm.basic import _ConfigAliases

        return set(_ConfigAliases._get_all_param_aliases()) | ALSO_KNOWN[tool]
    if tool == "catboost":
        return (
            set(inspect.signature(library.CatBoostClassifier.__init__).parameters)
            | ALSO_KNOWN[tool]
        )
    data = library.DMatrix(np.zeros((4, 1)), [0, 1, 0, 1], group=[2, 2])
    settings = peer_settings(tool, {"objective": "lambdamart"}, n_jobs=1)
    names = set(ALSO_KNOWN[tool])

    def collect(values):
        for name, value in values.items():
            names.add(name)
            if isinstance(value, dict):
                collect(value)

    collect(json.loads(library.train(settings, data, 1).save_config()))
    return names | set(inspect.signature(library.XGBModel.__init__).parameters)


@pytest.mark.parametrize("tool", TOOLS)
def test_its_parameters_are_known_to_the_library(tool):
    known = known_parameters(tool)
    named = {name for row in rows(tool, 0) for name in code(row[0])}
    assert named - known == set()


@pytest.mark.parametrize("tool", TOOLS)
def test_our_parameters_are_known_to_us(tool):
    known = set(Ranker._get_param_names()) | set(inspect.signature(Ranker.fit).parameters)
    named = {code(row[1])[0].split("=")[0] for row in rows(tool, 0)}
    assert named - known == set()


@pytest.mark.parametrize("tool", TOOLS)
def test_the_page_has_all_that_the_benchmarks_translate(tool):
    pairs = {(name, code(row[1])[0]) for row in rows(tool, 0) for name in code(row[0])}
    assert {(theirs, ours) for ours, theirs in PEERS[tool].parameters.items()} <= pairs
    losses = {(code(row[0])[0].split(":mode")[0], code(row[1])[0]) for row in rows(tool, 1)}
    expected = {(theirs, ours.split()[0]) for ours, theirs in PEERS[tool].losses.items()}
    assert losses == expected


@pytest.mark.parametrize("tool", TOOLS)
def test_our_objectives_and_metrics_exist(tool):
    assert {code(row[1])[0] for row in rows(tool, 1)} <= set(OBJECTIVES)
    for _, ours in rows(tool, 2):
        assert isinstance(str(eval(code(ours)[0], {"parse_metric": parse_metric})), str)


def help_of(command):
    """What `--help` says."""
    return CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output


def test_what_ranklib_becomes_exists():
    text = PAGE.split("\n## RankLib\n")[1]
    options = set(re.findall(r"(--[a-z][a-z0-9-]+)", text))
    shown = "".join(map(help_of, ("train", "evaluate", "compare")))
    assert {option for option in options if option not in shown} == set()
    for name in re.findall(r"\| `([a-z]+(?:@10)?)` \|$", text, re.M):
        parse_metric(name)
    parse_metric("err((2^r-1)/2^4)")
    assert hasattr(Dataset, "split")
