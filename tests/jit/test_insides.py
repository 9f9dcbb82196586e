"""A Numba that lacks a name it does not document: slower, and right."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numba
import pytest

from rankgrove._jit import insides

# Puts modules of Numba that lack names where imports look for them. Numba itself keeps its own.
HIDE = """
import importlib, json, sys, types
import numba
numba.njit(lambda: 0)()  # (Numba imports more of itself for the first function)
hidden, train = json.loads(sys.argv[1])
for module, name, attribute in hidden:
    real = importlib.import_module(module)
    seen = types.ModuleType(module)
    vars(seen).update(vars(real))
    value = vars(seen).pop(name)
    if attribute:
        others = {each: None for each in dir(value) if each[:2] != "__" and each != attribute}
        setattr(seen, name, type(name, (), others))
    sys.modules[module] = seen
"""
# A kernel that calls kernels; what is measured and trained, to the bit; the names that are missing.
RUN = """
import hashlib, tempfile
from rankgrove._jit import insides
from rankgrove._jit.elementary import log2_1p
found = [float(log2_1p(2.5)).hex()]
if train:
    from rankgrove import Ranker, evaluate
    found.append(evaluate([2, 0, 1, 0], [4, 3, 2, 1], ["ndcg"], group=[4])["ndcg"].hex())
    features = [[(7 * row + 3 * column) % 11 for column in range(3)] for row in range(60)]
    labels = [row % 3 for row in range(60)]
    options = {"n_estimators": 2, "min_samples_leaf": 5, "n_jobs": 2}
    ranker = Ranker("lambdamart", **options).fit(features, labels, group=[20, 20, 20])
    with tempfile.TemporaryDirectory() as folder:
        ranker.save(folder + "/model")
        found.append(hashlib.sha256(open(folder + "/model", "rb").read()).hexdigest())
missing = [name for name in insides.NAMES if insides.find(name) is None]
print(json.dumps([found, missing]))
"""


def run(folder, hidden, *, train=False):
    """What a process gives that does not see these names."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(insides.__file__)))
    # (What is compiled with the names hidden need not be fast, and is compiled faster so.)
    environment = {"NUMBA_CACHE_DIR": str(folder), "NUMBA_OPT": "0"} if hidden else {}
    done = subprocess.run(
        [sys.executable, "-c", HIDE + RUN, json.dumps([hidden, train])],
        env={**os.environ, **environment, "PYTHONPATH": source},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def expected():
    found, missing = run(None, [], train=True)
    assert missing == []
    return found


@pytest.mark.parametrize("name", insides.NAMES)
def test_a_kernel_gives_the_same_without_a_name_of_numba(tmp_path, expected, name):
    module, _ = insides.NAMES[name]
    found, missing = run(tmp_path, [(module, name, None)])
    assert missing == [name]
    assert found == expected[:1]


def test_a_metric_and_a_model_are_the_same_without_any_of_the_names(tmp_path, expected):
    hidden = [(module, name, None) for name, (module, _) in insides.NAMES.items()]
    found, missing = run(tmp_path, hidden, train=True)
    assert missing == list(insides.NAMES)
    assert found == expected
    # What could not be kept safely was not kept.
    assert list(tmp_path.rglob("*.nb*")) == []


@pytest.mark.parametrize(
    ("name", "attribute"),
    [(name, attribute) for name, (_, needed) in insides.NAMES.items() for attribute in needed],
)
def test_a_name_without_what_is_needed_of_it_is_not_used(monkeypatch, name, attribute):
    module, needed = insides.NAMES[name]
    found = insides.find(name)
    assert found is not None
    stand_in = type(name, (), {each: None for each in needed if each != attribute})
    seen = type(sys)(module)
    setattr(seen, name, stand_in)
    monkeypatch.setitem(sys.modules, module, seen)
    assert insides.find(name) is None


def test_options_that_numba_does_not_know_are_left_out(monkeypatch):
    options = {"nogil": True, "no_cfunc_wrapper": True, "forceinline": False}
    assert insides.known_options(options) == options
    monkeypatch.setattr(numba.core.cpu, "CPUTargetOptions", type("CPUTargetOptions", (), {}))
    assert insides.known_options(options) == {"nogil": True}
