"""`rankgrove import`: a file in, a model out, and both compared; and `inspect --card`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from cli.samples import fails
from importing.samples import GROUP, lightgbm_booster, make_data, xgboost_booster
from rankgrove import Dataset, load, write_letor

for library in ("lightgbm", "xgboost"):
    pytest.importorskip(library)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "lightgbm.txt"
    lightgbm_booster().save_model(path)
    return path


@pytest.fixture
def test_file(tmp_path):
    features, labels = make_data(9, missing=0)
    path = tmp_path / "test.txt"
    write_letor(Dataset.from_arrays(features, labels, group=GROUP), path)
    return path


def test_a_model_is_imported_checked_and_scores(cli, source, test_file):
    result = cli("import", source, "-o", "model.safetensors", "--check", test_file)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Wrote model.safetensors: 8 trees, ")
    assert lines[0].endswith("from LightGBM (v4, lambdarank).")
    assert "queries in another order" in lines[2]
    assert lines[3].split()[:6] == ["LightGBM", "4.7.0", "600", "all", "0", "0"]
    assert "0 of 40" in lines[3]
    assert cli("score", "model.safetensors", test_file).exit_code == 0
    assert cli("explain", "model.safetensors", test_file, "--query", "1").exit_code == 0
    shown = cli("inspect", "model.safetensors").stdout
    assert "It was trained by LightGBM (v4, lambdarank) and imported from a file" in shown
    assert "All parameters are the defaults" not in shown


def test_without_data_the_documents_come_from_the_model(cli_json, source):
    found = cli_json("import", source, "-o", "model.safetensors")
    assert found["kind"] == "lightgbm"
    assert found["check"]["same"] == found["check"]["documents"] == 2000
    assert load("model.safetensors").notes["imported"]["sha256"] == found["sha256"]
    assert cli_json("import", source, "-o", "model.safetensors", "--no-check")["check"] is None


def test_early_stopping_is_told(cli, tmp_path):
    booster = xgboost_booster()
    booster.set_attr(best_iteration="3")
    booster.save_model(tmp_path / "model.json")
    result = cli("import", tmp_path / "model.json", "-o", "model.safetensors", "--no-check")
    assert "--n-rounds 4 does the same" in result.stdout
    again = cli(
        "import", tmp_path / "model.json", "-o", "model.safetensors", "--no-check", "--n-rounds", 4
    )
    assert "stopped early" not in again.stdout


def test_a_library_that_is_not_there_is_said(cli, source, test_file, monkeypatch):
    monkeypatch.setattr("rankgrove.testing.peers.installed", lambda tool: False)
    result = cli("import", source, "-o", "model.safetensors")
    assert "Not checked: LightGBM is not installed (pip install lightgbm)." in result.stdout
    asked = cli("import", source, "-o", "other.safetensors", "--check", test_file)
    fails(asked, 1, "--check needs the package 'lightgbm'")


def test_a_model_that_scores_otherwise_is_not_written(cli, source, monkeypatch, tmp_path):
    from rankgrove.importing import check

    right = check.score_by_peer

    def wrong(*args):
        version, scores = right(*args)
        return version, scores + 1e-9

    monkeypatch.setattr(check, "score_by_peer", wrong)
    result = cli("import", source, "-o", "model.safetensors")
    fails(result, 1, "must score as LightGBM 4.7.0 does", "nothing was written")
    assert not (tmp_path / "model.safetensors").exists()


def test_what_is_wrong_is_one_line(cli, source, test_file):
    fails(cli("import", test_file, "-o", "m.safetensors"), 1, "Got another kind of file")
    fails(cli("import", "none.txt", "-o", "m.safetensors"), 1, "there is no such file")
    fails(cli("import", source, "-o", source), 2, "must not be a file that is read")
    fails(cli("import", source, "-o", "m.gz"), 2, "must not end in .gz")
    unknown = cli("import", source, "-o", "m.safetensors", "--from", "lightgmb")
    fails(unknown, 2, "did you mean 'lightgbm'")


def front_matter(text):
    yaml = pytest.importorskip("yaml")
    start, matter, rest = text.split("---\n", 2)
    assert start == ""
    return yaml.safe_load(matter), rest


def test_a_card_has_front_matter_and_sections(cli, trained):
    text = cli("inspect", trained / "model.safetensors", "--card").stdout
    matter, rest = front_matter(text)
    assert matter["library_name"] == "rankgrove"
    assert "license" not in matter
    result = matter["model-index"][0]["results"][0]
    assert result["dataset"]["name"] == "vali"
    finals = load(trained / "model.safetensors").final_metrics()["vali"]
    measured = {entry["type"]: entry["value"] for entry in result["metrics"]}
    assert measured == pytest.approx(finals, abs=1e-6)
    headings = [line for line in rest.splitlines() if line.startswith("#")]
    assert headings[:2] == ["# model", "## Data"]
    assert headings[2:] == ["## Training", "## Evaluation", "## Use", "# pip install \"rankgrove\"",
                            "## Limits"]  # fmt: skip
    assert "`learning_rate`" in rest
    assert text == cli("inspect", trained / "model.safetensors", "--card").stdout


def test_the_python_of_a_card_runs(cli, source, tmp_path):
    cli("import", source, "-o", "model.safetensors", "--no-check")
    result = cli("inspect", "model.safetensors", "--card", "-o", "README.md")
    assert result.stdout == "Wrote README.md: fill in the license and what the data were.\n"
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    names = {}
    exec(code, names)
    assert np.isfinite(names["scores"]).all()
    assert "trained by LightGBM" in text


def test_a_file_to_write_asks_for_a_card(cli, trained):
    result = cli("inspect", trained / "model.safetensors", "-o", "README.md")
    fails(result, 2, "--out must be given with --card")
    fails(cli("inspect", trained / "train.txt", "--card"), 1, "must be a model file")


def test_json_of_an_import_is_one_document(cli, source):
    result = cli("import", source, "-o", "model.safetensors", "--no-check", "--json")
    assert json.loads(result.stdout)["trees"] == 8


def test_the_commands_of_the_page_run(cli, tmp_path):
    import lightgbm

    from rankgrove import Ranker, make_web_search

    data = make_web_search(20, 20, mean_documents=10, seed=3)
    write_letor(data, tmp_path / "test.txt")
    settings = {"objective": "lambdarank", "min_data_in_leaf": 5, "verbosity": -1, "num_threads": 1}
    train = lightgbm.Dataset(np.asarray(data.features), data.labels, group=data.group)
    lightgbm.train(settings, train, 8).save_model(tmp_path / "lightgbm.txt")
    Ranker(n_estimators=2).fit(data).save(tmp_path / "other.safetensors")
    page = (Path(__file__).parents[2] / "docs" / "import.md").read_text(encoding="utf-8")
    commands = re.findall(r"(?m)^\$ rankgrove (.*)$", page)
    assert len(commands) >= 3
    for command in commands:
        result = cli(*command.split())
        assert result.exit_code == 0, result.stderr
        if command.startswith("import"):
            assert result.stdout in page
