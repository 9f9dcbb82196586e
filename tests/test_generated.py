"""What is made from the rules of parameters: it is up to date, and one field is all it takes."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = runpy.run_path(str(ROOT / "tools" / "generate.py"))["GENERATED"]

# What a new option of training takes: this, in boosting/parameters.py, and nothing else.
FIELD = '    patience: int = option(3, "How long `l2` waits.", panel=TREES, least=1)\n'
USES = """
import re
from typer.testing import CliRunner
from rankgrove import MARTRegressor, Ranker
from rankgrove.boosting.parameters import Parameters
from rankgrove.cli.main import app
from rankgrove.errors import ParameterError

page = CliRunner().invoke(app, ["train", "--help"]).stdout
assert re.search(r"--patience +N +How long --l2 waits. By default 3.", page), page
assert Ranker(patience=5).parameters().patience == 5
assert MARTRegressor().get_params()["patience"] == 3
assert Parameters(patience=4).resolve().as_json()["patience"] == 4
assert Parameters.from_json(Parameters(patience=4).as_json()).patience == 4
try:
    Parameters(patience=0)
except ParameterError as error:
    assert str(error) == "patience must be a whole number, 1 or more. Got 0."
else:
    raise AssertionError("0 is taken")
result = CliRunner().invoke(app, ["train", "x", "-o", "m", "--patience", "0"])
assert "--patience must be a whole number, 1 or more. Got 0." in result.output, result.output
"""


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_generated_file_is_up_to_date(path):
    assert path.read_text(encoding="utf-8") == GENERATED[path](), "run: python tools/generate.py"


def test_an_option_of_training_is_one_field(tmp_path):
    for part in ("src", "tools"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "docs").mkdir()
    module = tmp_path / "src" / "rankgrove" / "boosting" / "parameters.py"
    text, place = module.read_text(encoding="utf-8"), "    max_bins: int = option("
    assert text.count(place) == 1
    module.write_text(text.replace(place, FIELD + place), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "COLUMNS": "200"}

    def run(*args):
        subprocess.run([sys.executable, *args], check=True, env=environment, cwd=tmp_path)

    run("-c", USES)
    run("tools/generate.py")
    page = (tmp_path / "docs" / "parameters.md").read_text(encoding="utf-8")
    assert "| `patience` | a whole number, 1 or more | 3 | How long `l2` waits. |" in page
    stub = tmp_path / "src" / "rankgrove" / "estimators" / "signatures.pyi"
    assert stub.read_text(encoding="utf-8").count("        patience: int = 3,\n") == 3


SNIPPET = """
from rankgrove import LambdaRank, MARTClassifier, MARTRegressor, Ranker, RankNet

Ranker("lambdamart", learning_rate=0.1, max_leaves="auto", n_jobs=1)
RankNet(hidden=(8,), verbose=True)
LambdaRank(metric="map")
MARTRegressor(l2=1)
MARTClassifier(balanced=True)
"""
WRONG = {
    "Ranker(learning_rat=0.1)": 'Unexpected keyword argument "learning_rat" for "Ranker"',
    "Ranker(grower='leafwis')": 'Argument "grower" to "Ranker" has incompatible type',
    "RankNet(n_estimators=3)": 'Unexpected keyword argument "n_estimators" for "RankNet"',
    "LambdaRank(hidden=3)": 'Argument "hidden" to "LambdaRank" has incompatible type "int"',
    "MARTRegressor(metric='ndcg')": 'Unexpected keyword argument "metric" for "MARTRegressor"',
    "MARTClassifier(balanced=1)": 'Argument "balanced" to "MARTClassifier" has incompatible type',
}


def test_type_checkers_see_the_parameters_of_estimators(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "snippet.py").write_text(SNIPPET + "\n".join(WRONG), encoding="utf-8")
    # Whatever else estimators import is not looked at: this is about their own keywords.
    package = ROOT / "src" / "rankgrove"
    looked_at = [package / "__init__.py", package / "neural" / "estimators.py",
                 *(package / "estimators" / f"{name}.py" for name in ("ranker", "mart")),
                 package / "estimators" / "signatures.pyi"]  # fmt: skip
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=skip", "--config-file=",
         "--no-incremental", "snippet.py", *map(str, looked_at)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
    )  # fmt: skip
    found = [
        line
        for line in result.stdout.splitlines()
        if line.startswith("snippet.py") and " error: " in line
    ]
    assert len(found) == len(WRONG), result.stdout
    n_right = len(SNIPPET.splitlines())
    for number, (line, problem) in enumerate(zip(found, WRONG.values(), strict=True), n_right + 1):
        assert line.startswith(f"snippet.py:{number}: error: {problem}"), line
