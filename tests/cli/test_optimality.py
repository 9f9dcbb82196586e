"""`rankgrove optimality`: what it says and draws, and what it refuses."""

from __future__ import annotations

import pytest

from cli.samples import fails
from rankgrove import Model, is_local_maximum, read_data

FEW = ("--delta", "0.1", "--p0", "0.1")


@pytest.fixture
def call(trained):
    return ("optimality", trained / "model.safetensors", trained / "train.txt")


def test_json_has_what_the_library_finds(cli_json, trained, call):
    got = cli_json(*call, *FEW, "-m", "map", "--step", "0.2", "--seed", "3")
    model, data = Model.load(trained / "model.safetensors"), read_data(trained / "train.txt")
    found = is_local_maximum(model, data, "map", delta=0.1, p0=0.1, step=0.2, seed=3)
    assert got["directions"] == found.n_directions == 22
    assert (got["value"], got["rising"]) == (found.value, found.n_rising)
    assert (got["share_rising"], got["largest_rise"]) == (found.share_rising, found.largest_rise)
    assert got["share_bound"] == found.share_bound
    assert got["local_maximum"] == found.is_local_maximum


def test_verdict_is_a_sentence_and_the_plot_is_written(cli, call):
    result = cli(*call, *FEW, "--plot", "p.svg")
    first, last = result.stdout.splitlines()
    assert "of 22 random directions" in first
    assert "With confidence 90 %" in first
    assert last.startswith("Wrote p.svg: ndcg@10 along direction ")
    assert result.stderr == ""
    with open("p.svg") as file:
        assert file.read().startswith("<svg")
    assert cli(*call, *FEW, "--plot", "p.csv").exit_code == 0
    with open("p.csv") as file:
        assert file.readline() == "step,ndcg@10\n"


def test_calls_that_make_no_sense_are_refused(cli, trained, call):
    fails(cli(*call, "--delta", "0"), 2, "--delta must be a number between 0 and 1. Got 0.0")
    fails(cli(*call, "--p0", "1.5"), 2, "--p0 must be a number between 0 and 1")
    fails(cli(*call, "--step", "0"), 2, "--step must be a number above 0")
    fails(cli(*call, "--plot", "p.png"), 2, "--plot must be a file .svg")
    fails(cli(*call, "--plot", "no/p.svg"), 1, "no/p.svg: cannot be written")
    fails(cli(*call, "-m", "ncdg"), 2, "did you mean 'ndcg'?")
    fails(cli("optimality", "absent", call[2]), 1, "absent: there is no such file")
