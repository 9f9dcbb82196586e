"""What is made from the rules of parameters is up to date, and type checkers see it."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = runpy.run_path(str(ROOT / "tools" / "generate.py"))["GENERATED"]


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_generated_file_is_up_to_date(path):
    assert path.read_text(encoding="utf-8") == GENERATED[path](), "run: python tools/generate.py"


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
