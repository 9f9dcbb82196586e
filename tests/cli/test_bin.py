"""`rankgrove bin`, and what takes the files it writes."""

from __future__ import annotations

from cli.samples import fails
from rankgrove import BinnedData, read_data, write_data

QUICK = ["--n-estimators", "3"]


def test_a_model_of_bins_is_that_of_the_data(cli, trained, tmp_path):
    made = cli("bin", trained / "train.txt", "-o", "train.bins", "--valid", trained / "vali.txt")
    assert made.exit_code == 0, made.stderr
    assert made.stdout.startswith("Wrote train.bins: ")
    assert "Wrote vali.bins: " in made.stdout
    assert BinnedData.load("train.bins").n_queries == read_data(trained / "train.txt").n_queries
    valid = ["--valid", trained / "vali.txt", "--early-stopping-rounds", "2"]
    assert cli("train", trained / "train.txt", *valid, *QUICK, "-o", "a.safetensors").exit_code == 0
    done = cli("train", "train.bins", *valid, *QUICK, "-o", "b.safetensors")
    assert done.exit_code == 0, done.stderr
    assert "training needs about " in done.stderr
    cli("train", "train.bins", "--valid", "vali.bins", *valid[2:], *QUICK, "-o", "c.safetensors")
    wanted = (tmp_path / "a.safetensors").read_bytes()
    assert (tmp_path / "b.safetensors").read_bytes() == wanted
    assert (tmp_path / "c.safetensors").read_bytes() == wanted


def test_a_pattern_trains_on_all_its_files(cli, trained, tmp_path):
    data = read_data(trained / "train.txt")
    half = data.n_queries // 2
    for number, queries in enumerate((range(half), range(half, data.n_queries))):
        write_data(data.take_queries(list(queries)), tmp_path / f"part-{number}.parquet")
    write_data(data, tmp_path / "whole.parquet")
    assert cli("train", "whole.parquet", *QUICK, "-o", "a.safetensors").exit_code == 0
    done = cli("train", "part-*.parquet", *QUICK, "-o", "b.safetensors")
    assert done.exit_code == 0, done.stderr
    uri = f"file://{tmp_path}/part-*.parquet"
    assert cli("train", uri, *QUICK, "-o", "c.safetensors").exit_code == 0
    wanted = (tmp_path / "a.safetensors").read_bytes()
    assert (tmp_path / "b.safetensors").read_bytes() == wanted
    assert (tmp_path / "c.safetensors").read_bytes() == wanted


def test_cv_and_tune_take_bins(cli, cli_json, trained):
    sizes = cli_json("bin", trained / "train.txt", "-o", "train.bins", "--max-bins", "40")["train"]
    assert sizes["features"] == 16
    found = cli_json("cv", "train.bins", *QUICK, "--folds", "2", "--max-bins", "40", "-m", "err")
    assert found["documents"] == sizes["documents"]
    tuned = cli("tune", "train.bins", "--trials", "2", "--n-estimators", "2", "--max-bins", "40",
                "--valid", trained / "vali.txt", "-o", "best.json")  # fmt: skip
    assert tuned.exit_code == 0, tuned.stderr


def test_what_does_not_fit_bins_is_refused(cli, trained):
    cli("bin", trained / "train.txt", "-o", "train.bins", "--max-bins", "40")
    out = ["-o", "model.safetensors"]
    fails(cli("train", "train.bins", *out), 2, "--max-bins must be 40, as the data were binned")
    fails(cli("train", "train.bins", "--label", "x", *out), 2, "--label must be left out with")
    fails(cli("inspect", "train.bins"), 1, "Got binned data, which train, tune and cv take")
    fails(cli("train", "none.bins", *out), 1, "none.bins: there is no such file")
    fails(cli("bin", trained / "train.txt", "-o", trained / "train.txt"), 2, "--out must not be")
