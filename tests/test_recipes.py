"""What docs/recipes.md says of adding a part, followed in a copy of the package and tried."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r'^```(python|diff) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)

# The kernels run as plain Python: nothing has to be compiled for the copy.
PLAIN = {"NUMBA_DISABLE_JIT": "1"}

TRIED = {
    "A metric family": """
import numpy as np
from rankgrove import Dataset, combine_two, evaluate, parse_metric
from rankgrove.objectives.registry import make_objective
data = Dataset.from_arrays(np.zeros((5, 1)), [2, 0, 1, 0, 3], group=[3, 2])
scores = np.array([1.0, 2.0, 3.0, 1.0, 0.0])
metric = parse_metric("Steep@2(ties=best)")
assert str(metric) == "steep@2(ties=best)" and parse_metric(str(metric)) == metric
value = evaluate(data, scores, metric)[str(metric)]
wanted = ((1 / 1 + 0 / 4) / (2 / 1 + 1 / 4) + (0 / 1 + 3 / 4) / 3) / 2
assert abs(value - wanted) < 1e-12, (value, wanted)
deltas = metric.swap_deltas([1, 0, 2])
assert abs(deltas[0, 2] - (2 - 1) * (1 - 0) / (2 + 1 / 4)) < 1e-12, deltas
for name in ("lambdamart", "yetiloss", "stochasticrank"):
    forces = np.empty((2, 5))
    objective = make_objective(name, metric="steep")
    objective.prepare(data, 1).compute(scores, 0, forces[0], forces[1])
    assert forces[0].any() and np.isfinite(forces).all(), name
combined = combine_two(data, scores, -scores, metric="steep")
assert combined.value > value
""",
    "An objective": """
import numpy as np
from rankgrove import Ranker, check_objective
from rankgrove.boosting.parameters import Parameters
from rankgrove.objectives.registry import make_objective
assert str(check_objective("pseudohuber")) == "forces and curvatures are as they should be"
assert make_objective("pseudohuber", width=2.0).width == 2.0
assert Ranker("pseudohuber", width=3.0).parameters().make_objective().width == 3.0
try:
    Parameters(objective="pseudohuber", width=0)
except ValueError as error:
    assert str(error).startswith("width must be a finite number above 0"), error
else:
    raise AssertionError("a width of 0 must be refused")
""",
    "An option of training": """
from typer.testing import CliRunner
from rankgrove import MARTRegressor, Ranker
from rankgrove.boosting.parameters import Parameters
assert "cautious" in Ranker().get_params()
assert Ranker(max_leaves=7, cautious=True).parameters().resolve().trees.min_samples_leaf == 50
assert Ranker(max_leaves=7).parameters().resolve().trees.min_samples_leaf == 20
assert MARTRegressor().get_params()["cautious"] is False
assert Parameters(cautious=True).resolve().as_json()["cautious"] is True
assert Parameters.from_json(Parameters(cautious=True).as_json()).cautious
try:
    Parameters(cautious="very")
except ValueError as error:
    assert str(error) == "cautious must be True or False. Got 'very'.", error
else:
    raise AssertionError("a word must be refused")
from rankgrove.cli.main import app
refused = CliRunner().invoke(app, ["train", "x", "-o", "m", "--cautious", "very"])
assert "--cautious must be true or false. Got 'very'." in refused.output, refused.output
""",
}
# What the command line shows of the new part by itself.
SHOWN = {
    "A metric family": (["metrics"], "steep"),
    "An objective": (["objectives", "pseudohuber"], "--width"),
    "An option of training": (["train", "--help"], "--cautious"),
}
GENERATED = {
    "An objective": {"page": "| `width` |", "stub": '  width: float | Literal["auto"] = "auto",\n'},
    "An option of training": {
        "page": "| `cautious` | True or False | false | Larger leaves, for data with few queries.",
        "stub": "  cautious: bool = False,\n",
    },
}
MOST_FILES = {"A metric family": 3, "An objective": 2, "An option of training": 1}


def recipes():
    """The blocks of each recipe: kind, file and text."""
    page = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    return {text.partition(":")[0]: BLOCK.findall(text) for text in sections}


def follow(package, blocks):
    """Write the new files, and add to others what stands behind its context."""
    for kind, name, text in blocks:
        path = package / name
        if kind == "python":
            assert not path.exists()
            path.write_text(text, encoding="utf-8")
            continue
        lines = text.splitlines()
        context = "".join(line[1:] + "\n" for line in lines if line.startswith(" "))
        added = "".join(line[1:] + "\n" for line in lines if line.startswith("+"))
        assert lines == sorted(lines, key=lambda line: line.startswith("+")), name
        before = path.read_text(encoding="utf-8")
        assert before.count(context) == 1, f"{name} must have these lines once:\n{context}"
        path.write_text(before.replace(context, context + added), encoding="utf-8")


@pytest.mark.parametrize("recipe", TRIED)
def test_following_a_recipe_adds_the_part_everywhere(recipe, tmp_path):
    blocks = recipes()[recipe]
    assert len({name for _, name, _ in blocks}) <= MOST_FILES[recipe]
    package = tmp_path / "src" / "rankgrove"
    shutil.copytree(
        ROOT / "src/rankgrove", package, ignore=shutil.ignore_patterns("__pycache__", "*.nb?")
    )
    follow(package, blocks)
    environment = {**os.environ, **PLAIN, "PYTHONPATH": str(package.parent), "COLUMNS": "200"}

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *arguments], env=environment, cwd=tmp_path, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    tried = run("-c", TRIED[recipe])
    assert tried.returncode == 0, tried.stderr
    arguments, shown = SHOWN[recipe]
    listed = run("-m", "rankgrove", *arguments)
    assert listed.returncode == 0, listed.stderr
    assert shown in listed.stdout
    # What is generated from the fields has it, too.
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    (tmp_path / "docs").mkdir()
    generated = run("tools/generate.py")
    assert generated.returncode == 0, generated.stderr
    page = (tmp_path / "docs" / "parameters.md").read_text(encoding="utf-8")
    stub = (package / "estimators" / "signatures.pyi").read_text(encoding="utf-8")
    for text, line in GENERATED.get(recipe, {}).items():
        assert line in {"page": page, "stub": stub}[text]


def test_every_recipe_of_the_page_is_tried():
    assert set(recipes()) == set(TRIED)
