"""Other versions of the programs that a file is for, each installed into a folder of its own.

A version runs in a process that sees nothing but its folder and the standard library, so that it
cannot be mistaken for the one that is installed beside Rankgrove.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from export.agreement import assert_agrees, documents_held, with_numbered_leaves
from export.ensembles import ANY, WHOLE, random_documents, random_model
from export.scorer_runs import run
from rankgrove.export.format import Exportable
from rankgrove.export.lightgbm_text import LIGHTGBM
from rankgrove.export.onnx_graph import ONNX
from rankgrove.export.xgboost_json import XGBOOST

pytestmark = pytest.mark.long

SEEDS = range(20)
MOST_SECONDS_TO_INSTALL = 900

# Each defines `score`, by the name of a file, of one array of documents.
WITH_ONNXRUNTIME = """\
import onnxruntime as consumer

settings = consumer.SessionOptions()
settings.intra_op_num_threads = settings.inter_op_num_threads = 1

def score(name, features):
    session = consumer.InferenceSession(name, settings, providers=["CPUExecutionProvider"])
    return session.run(["score"], {"features": features})[0]
"""
WITH_LIGHTGBM = """\
import lightgbm as consumer

def score(name, features):
    return consumer.Booster(model_file=name).predict(features, raw_score=True, num_threads=1)
"""
# XGBoost refuses infinities wherever they are; documents that have them are not compared.
WITH_XGBOOST = """\
import xgboost as consumer

def score(name, features):
    booster = consumer.Booster({"nthread": 1})
    with open(name, "rb") as file:
        booster.load_model(bytearray(file.read()))
    matrix = consumer.DMatrix(
        np.where(np.isinf(features), np.float32(np.nan), features),
        feature_names=booster.feature_names, feature_types=booster.feature_types,
        enable_categorical=True, nthread=1,
    )
    return booster.predict(matrix, output_margin=True)
"""
# What Triton's FIL computes with. Its own `__version__` is not the one that PyPI has.
WITH_NVFOREST = """\
import importlib.metadata
import types
import nvforest

consumer = types.SimpleNamespace(__version__=importlib.metadata.version("nvforest-cu12"))

def score(name, features):
    forest = nvforest.load_model(
        name, model_type="lightgbm", device="cpu", precision="double"
    )
    return forest.predict(features.astype(np.float64))
"""
PYTHON_MAIN = """\
import sys
import numpy as np
{score}
assert consumer.__version__ == sys.argv[1], consumer.__version__
features = np.fromfile("features", np.float32).reshape([int(size) for size in sys.argv[2:]])
scores = [np.ravel(score(f"m{{n}}", documents)) for n, documents in enumerate(features)]
np.float64(scores).tofile("scores")
"""
NODE_MAIN = """\
const { readFileSync, writeFileSync } = require("node:fs");
const [name, version, ...sizes] = process.argv.slice(2);
const [models, documents, width] = sizes.map(Number);
const installed = JSON.parse(readFileSync(`${process.env.NODE_PATH}/${name}/package.json`));
if (installed.version !== version) throw new Error(installed.version);
const ort = require(name);
const features = new Float32Array(Uint8Array.from(readFileSync("features")).buffer);
const scores = new Float64Array(models * documents);
const oneThread = { intraOpNumThreads: 1, interOpNumThreads: 1 };

async function main() {
  if (name === "onnxruntime-web") ort.env.wasm.numThreads = 1;
  for (let model = 0; model < models; model++) {
    const content = Uint8Array.from(readFileSync(`m${model}`));
    const session = await ort.InferenceSession.create(content, oneThread);
    const size = documents * width;
    const some = features.slice(model * size, (model + 1) * size);
    const tensor = new ort.Tensor("float32", some, [documents, width]);
    scores.set((await session.run({ features: tensor })).score.data, model * documents);
  }
  writeFileSync("scores", new Uint8Array(scores.buffer));
}
main().catch((error) => { console.error(error); process.exit(1); });
"""


@pytest.fixture
def folder():
    """A folder that is gone after the test: some versions need hundreds of megabytes."""
    with tempfile.TemporaryDirectory(prefix="rankgrove-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def install(command, **variables):
    """Install something, or skip the test with what the installer said last."""
    try:
        done = subprocess.run(
            command, env=os.environ | variables, capture_output=True, text=True, check=False,
            timeout=MOST_SECONDS_TO_INSTALL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip(f"{command[-1]} was not installed in {MOST_SECONDS_TO_INSTALL} seconds")
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no reason was given"]
        pytest.skip(f"{command[-1]} cannot be installed: {said[-1]}")


def python_package(folder, requirement, score, *others):
    """A package of PyPI and what it needs: how its scores of files are got."""
    pytest.importorskip("pip")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install(
        [*pip, "--only-binary", ":all:", "--target", str(folder / "site"), *others, requirement]
    )
    (folder / "main.py").write_text(PYTHON_MAIN.format(score=score))
    # Without -S the packages beside Rankgrove would stand in for those that a version lacks.
    command = [sys.executable, "-S", str(folder / "main.py"), requirement.partition("==")[2]]
    return command, {"PYTHONPATH": str(folder / "site")}


def node_package(folder, name, version):
    """A package of npm: how its scores of files are got."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not on the path")
    npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
    install([*npm, f"{name}@{version}"], ONNXRUNTIME_NODE_INSTALL_CUDA="skip")
    (folder / "main.cjs").write_text(NODE_MAIN)
    command = ["node", str(folder / "main.cjs"), name, version]
    return command, {"NODE_PATH": str(folder / "node_modules")}


def scores_of(package, folder, contents, features):
    """The scores of a package by the contents of files, models x documents."""
    command, variables = package
    for number, content in enumerate(contents):
        (folder / f"m{number}").write_bytes(content)
    (folder / "features").write_bytes(features.astype("<f4").tobytes())
    run([*command, *map(str, features.shape)], folder, variables)
    return np.frombuffer((folder / "scores").read_bytes(), "<f8").reshape(features.shape[:2])


def hold(package, written, models, is_compared=None, **options):
    """Hold a package to what the format states, on these models.

    `is_compared`, of a model and documents, says which the package is known to score as the format.
    """
    chosen = written.checked_options(options)
    features = np.stack([random_documents(n, model) for n, model in enumerate(models)])
    contents = [written.write(Exportable.of(model), chosen) for model in models]
    with tempfile.TemporaryDirectory() as files:
        scores = scores_of(package, Path(files), contents, features)
    compared = 0
    for number, model in enumerate(models):
        inside = documents_held(written, model, features[number], **options)
        if is_compared is not None:
            inside = inside & is_compared(model, features[number])
        here = model.predict(features[number])[inside]
        there = scores[number][inside]
        assert_agrees(written, model, there, here, f"model {number}", **options)
        compared += len(here)
    assert compared > 10 * len(models)


@pytest.mark.parametrize(
    ("version", "operators"), [("1.19.2", [3]), ("1.23.2", [3, 5]), ("1.26.0", [3, 5])]
)
def test_onnxruntime_gives_the_float32_of_the_score_or_the_same_bits(version, operators, folder):
    pytest.importorskip("onnx")
    package = python_package(folder, f"onnxruntime=={version}", WITH_ONNXRUNTIME)
    for operator in operators:
        hold(package, ONNX, [random_model(seed, ANY) for seed in SEEDS], operator=operator)


@pytest.mark.parametrize("name", ["onnxruntime-node", "onnxruntime-web"])
def test_onnxruntime_of_npm_gives_the_float32_of_the_score_or_the_same_bits(name, folder):
    pytest.importorskip("onnx")
    package = node_package(folder, name, "1.30.0")
    for operator in (3, 5):
        hold(package, ONNX, [random_model(seed, ANY) for seed in SEEDS], operator=operator)


@pytest.mark.parametrize(
    ("version", "others"),
    [
        # Of the time before NumPy 2.
        ("3.3.5", ["numpy==1.26.4", "scipy==1.11.4", "scikit-learn==1.3.2"]),
        ("4.0.0", ["numpy==1.26.4", "scipy==1.11.4"]),
        ("4.6.0", []),
    ],
)
def test_lightgbm_gives_the_same_bits(version, others, folder):
    package = python_package(folder, f"lightgbm=={version}", WITH_LIGHTGBM, *others)
    hold(package, LIGHTGBM, [random_model(seed, WHOLE) for seed in SEEDS])


def is_right_in_nvforest(model, features):
    """Not +inf, which it finds larger than a threshold of +inf, and no negative category."""
    categories = features[:, list(model.schema.categories)]
    return ~(features == np.inf).any(axis=1) & ~(categories < 0).any(axis=1)


def test_nvforest_gives_the_same_bits_on_the_cpu(folder):
    # 3.4 GB, most of them for the GPU.
    package = python_package(folder, "nvforest-cu12==26.10.0", WITH_NVFOREST)
    models = [random_model(seed, WHOLE) for seed in SEEDS]
    hold(package, LIGHTGBM, models, is_compared=is_right_in_nvforest)


@pytest.mark.parametrize("version", ["2.1.4", "3.0.5"])
def test_xgboost_gives_the_same_leaves_and_sums_within_the_bound(version, folder):
    package = python_package(folder, f"xgboost-cpu=={version}", WITH_XGBOOST)
    hold(package, XGBOOST, [random_model(seed, WHOLE) for seed in SEEDS])
    # One tree each; the number of a leaf is exact in float32, so that the bound is below a half.
    trees = [random_model(seed, WHOLE, leaves=[1 + seed * 2]) for seed in SEEDS]
    hold(package, XGBOOST, [with_numbered_leaves(model) for model in trees])
