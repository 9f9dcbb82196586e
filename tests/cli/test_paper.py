"""`rankgrove paper`: the list of sets, tables in every form, and going on after any interrupt."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest

from cli.samples import fails, interrupt, make_parts
from rankgrove import write_letor
from rankgrove.data.benchmarks import BENCHMARKS

SMALL = ("--trials", "1+1", "--trees", "3", "--n-jobs", "1")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sets") / "tiny"
    directory.mkdir()
    for name, part in make_parts().items():
        write_letor(part, directory / f"{name}.txt")
    return directory


def test_list_has_every_set_with_its_sizes_and_source(cli, cli_json):
    shown = cli("paper", "--list").stdout
    for one in BENCHMARKS.values():
        assert one.name in shown
        assert one.source in shown
    assert "723,412 / 235,259 / 241,521" in shown
    assert cli_json("paper", "--list")["web10k"]["features"] == 136


def test_table_shows_ours_beside_the_papers_and_says_the_budget(cli, tiny):
    result = cli("paper", tiny, *SMALL, "--algorithms", "queryrmse,yetirank", "--metrics", "MAP")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "Table 2: Comparison of learning-to-rank algorithms. MAP"
    assert lines[1].split()[:4] == ["MAP", "tiny", "paper:", "Web10K"]
    assert [line.split()[0] for line in lines[2:4]] == ["QueryRMSE", "YetiRank"]
    assert lines[2].split()[2:] == ["62.11", "63.51", "86.06", "88.40", "78.11", "88.59"]
    assert "1 random and 1 Bayesian trials (tpe) per cell, up to 3 trees" in result.stdout
    assert "2 of 2: tiny, fold 1, YetiRank, MAP" in result.stderr
    markdown = cli(
        "paper", tiny, *SMALL, "--algorithms", "queryrmse,yetirank", "--metrics", "MAP",
        "--format", "markdown",
    )  # fmt: skip
    assert "| QueryRMSE | " in markdown.stdout
    latex = cli("paper", tiny, *SMALL, "--algorithms", "queryrmse", "--format", "latex",
                "--metrics", "MAP")  # fmt: skip
    assert r"\bottomrule" in latex.stdout


def test_quick_is_a_small_budget_that_options_change(cli_json, tiny):
    found = cli_json("paper", tiny, "--quick", "--trials", "1", "--trees", "2", "--metrics", "MAP",
                     "--algorithms", "queryrmse", "--seed", "3")  # fmt: skip
    assert found["budget"] == {
        "n_random": 1, "n_bayesian": 0, "max_trees": 2, "patience": 30, "seed": 3,
        "sampler": "tpe",
    }  # fmt: skip
    assert found["sets"] == [{"name": "tiny", "benchmark": None, "folds": [1]}]
    assert "seconds" not in found["cells"][0]


@pytest.mark.parametrize(
    ("args", "code", "problem"),
    [
        ([], 2, "DIR must be given, or --list"),
        (["nowhere"], 1, "must be a directory with a data set. Got nothing"),
        (["."], 1, "must hold Fold1 to Fold5, S1 to S5, or files named train, vali and test"),
        ([".", "--table", "26"], 2, "table must be one of 1, 2, 3, figure1"),
        ([".", "--format", "html"], 2, "--format must be one of table, markdown, latex, json"),
        ([".", "--empty", "none"], 2, "--empty must be one of paper, skip, zero, one"),
        ([".", "--folds", "one"], 2, "--folds must be numbers with commas between"),
        ([".", "--trials", "few"], 2, "trials must be a number, 1 or more"),
        ([".", "--sampler", "random"], 2, "sampler must be one of tpe, gp"),
        ([".", "--set", "web10"], 2, "did you mean 'web10k'"),
        ([".", ".", "--set", "web10k"], 2, "--set must be used with one DIR"),
        ([".", "--algorithms", "yeti"], 2, "algorithm must be one of lambdamart-leafwise"),
        ([".", "--metrics", "tau"], 2, "metric must be one of NDCG@1"),
    ],
)
def test_wrong_calls_are_refused_in_one_line(cli, args, code, problem):
    fails(cli("paper", *args), code, problem)


def test_table_1_runs_nothing_and_needs_no_data(cli, tiny, tmp_path):
    alone = cli("paper", "--table", "1")
    assert alone.exit_code == 0
    assert "paper: Istella-S" in alone.stdout
    kept = tmp_path / "kept"
    with_data = cli("paper", tiny, "--table", "1", "-o", kept)
    assert "tiny" in with_data.stdout
    assert not kept.exists()


def test_folds_and_trees_that_cannot_be_are_refused(cli, tiny):
    fails(cli("paper", tiny, "--folds", "2"), 2, "folds must be out of 1. Got 2")
    fails(cli("paper", tiny, "--trees", "0"), 2, "max_trees must be a whole number, 1 or more")


def test_a_set_with_one_fold_has_it_beside_sets_with_several(cli, cli_json, tiny, tmp_path):
    several = tmp_path / "several"
    for number in (1, 2, 3):
        (several / f"Fold{number}").mkdir(parents=True)
        for path in tiny.iterdir():
            (several / f"Fold{number}" / path.name).write_bytes(path.read_bytes())
    chosen = ["paper", several, tiny, *SMALL, "--algorithms", "queryrmse", "--metrics", "MAP"]
    found = cli_json(*chosen, "--folds", "1,3")
    assert [one["folds"] for one in found["sets"]] == [[1, 3], [1]]
    fails(cli(*chosen, "--folds", "4"), 2, "Got 4")
    fails(cli(*chosen, "--folds", "2"), 2, "folds must be out of 1. Got 2")


def test_peers_that_are_not_installed_are_left_out(cli, tiny, monkeypatch):
    monkeypatch.setattr("rankgrove.testing.peers.installed", lambda _: False)
    result = cli("paper", tiny, *SMALL, "--peers", "--algorithms", "queryrmse", "--metrics", "MAP")
    assert result.exit_code == 0
    assert "warning: CatBoost is not installed: it is left out." in result.stderr
    assert "peer" not in result.stdout.splitlines()[1]


def killed(directory, args, is_reached):
    """Kill the command at a moment; whether it was still running then."""
    with subprocess.Popen(
        [sys.executable, "-m", "rankgrove", *map(str, args)], cwd=directory,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 120
        while not is_reached() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.kill()
    return process.returncode == -signal.SIGKILL


def command(tiny, out):
    """A call with four cells, which two tables share."""
    return ["paper", tiny, "--table", "2,24", *SMALL, "--algorithms", "queryrmse,yetiloss",
            "--metrics", "MAP,ERR", "--json", "--out", out]  # fmt: skip


def cells_in(out):
    return len(list((out / "cells").glob("*.json")))


def test_run_that_is_killed_ends_as_one_that_is_not(process, tiny, tmp_path):
    whole = process(*command(tiny, tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    out = tmp_path / "killed"
    assert killed(tmp_path, command(tiny, out), (out / "studies.db").exists)
    assert killed(tmp_path, command(tiny, out), lambda: cells_in(out) >= 2)
    assert 2 <= cells_in(out) < 4
    again = process(*command(tiny, out))
    assert again.returncode == 0, again.stderr
    assert again.stdout == whole.stdout


@pytest.mark.long
def test_run_that_is_killed_at_many_moments_ends_as_one_that_is_not(process, tiny, tmp_path):
    whole = process(*command(tiny, tmp_path / "whole"))
    moments = random.Random(0)
    for run in range(6):
        out = tmp_path / f"killed{run}"
        for _ in range(4):
            end = moments.uniform(0, 2)
            begun = []

            def is_reached(out=out, end=end, begun=begun):
                # Imports take most of the time, and nothing can be lost before results are kept.
                if not begun and (out / "cells").exists():
                    begun.append(time.monotonic())
                return bool(begun) and time.monotonic() - begun[0] > end

            killed(tmp_path, command(tiny, out), is_reached)
        again = process(*command(tiny, out))
        assert again.returncode == 0, again.stderr
        assert again.stdout == whole.stdout


def test_interrupt_keeps_what_is_done_and_says_how_to_go_on(tiny, tmp_path):
    cells = tmp_path / "out" / "cells"
    code, said = interrupt(
        ["paper", str(tiny), "--trials", "3+3", "--trees", "200", "-o", "out"],
        tmp_path,
        lambda: any(cells.glob("*.json")) if cells.exists() else False,
    )
    assert code == 130
    assert "of 21 cells, which are in out: the same command goes on from there." in said
