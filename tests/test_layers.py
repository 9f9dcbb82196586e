"""The layout, kept by a test: who may import whom, and what a kernel may call.

Everything here reads source text only, so it also sees imports inside functions and those for
type checking.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path

import pytest

import rankgrove

SOURCE = Path(rankgrove.__file__).parent

# A part of the package may import from the rows above its own, and from itself.
ROWS = (
    ("errors", "rules", "writing", "_jit", "_version", "pictures"),
    ("data",),
    ("metrics", "trees"),
    ("objectives",),
    ("boosting", "model"),
    ("training",),
    ("estimators",),
    ("neural",),
    ("testing",),
    ("experiments", "distributed", "export", "importing", "serving"),
    ("report", "card", "mlflow"),
    ("cli",),
)
ROW_OF = {part: number for number, row in enumerate(ROWS) for part in row}

# Beyond that. "" is the package itself, its __init__: the public names. None may import all.
ALSO_IMPORTS: dict[str, set[str] | None] = {
    "": None,
    "cli": None,
    "_jit": {"errors"},
    "rules": {"errors"},
    "writing": {"errors"},
    "pictures": {"errors", "writing"},
    "__main__": {"cli"},
}
# What a part may not import though its row stands below.
NEVER_IMPORTS = {("objectives", "trees")}
# What only these may import, whatever the rows say.
ONLY_FOR = {
    "cli": {"__main__", "cli"}, "numba": {"_jit"}, "torch": {"neural"},
    "lightgbm": {"export", "testing"}, "xgboost": {"export", "testing"}, "catboost": {"testing"},
    "dask": {"distributed"}, "pyspark": {"distributed"}, "matplotlib": {"pictures"},
    "mlflow": {"mlflow"}, "starlette": {"serving"}, "uvicorn": {"serving"}, "msgspec": {"serving"},
    "prometheus_client": {"serving"},
}  # fmt: skip

# Compilers of Numba, which belong behind the one decorator `kernel`, and the modes that make
# results depend on threads or on the machine.
COMPILERS = {"njit", "jit", "vectorize", "guvectorize", "cfunc", "generated_jit", "jitclass"}
FORBIDDEN_MODES = {"parallel", "fastmath"}

# What marks a function as a kernel.
MARKS = ("kernel", "inline_kernel")

# What a kernel may call by a bare name besides kernels: what compiles to an instruction or two.
INTRINSICS = {
    "prefetch", "prefetch_to_second", "cycles", "atomic_load", "atomic_store", "atomic_add",
    "pause", "give_way",
    "local_floats", "empty", "reinterpret", "flattened", "choose_bytes", "bits_of", "float_of",
    "sum_lanes", "add_lanes", "subtract_lanes", "next_above",
}  # fmt: skip
KERNEL_LIBRARIES = {"numpy", "math"}


def part_of(module: str) -> str:
    """The part of the package that a module belongs to: "data" of "rankgrove.data.queries"."""
    return ".".join(module.split(".")[1:2])


def imports_of(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that is imported, wherever in the file."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            if base == "rankgrove":
                # `from rankgrove import data` names a part, `from rankgrove import Ranker` none.
                for alias in node.names:
                    known = alias.name in ROW_OF
                    yield node.lineno, f"rankgrove.{alias.name}" if known else "rankgrove"
            else:
                yield node.lineno, base
        elif isinstance(node, ast.Call) and called_name(node) in ("import_module", "__import__"):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield node.lineno, argument.value


def called_name(call: ast.Call) -> str | None:
    """The last name of what is called: `f` of `f()` and of `m.f()`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else None


def layer_violations(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    importer = part_of(module)
    if importer not in ROW_OF and importer not in ALSO_IMPORTS:
        yield f"{module}: {importer!r} has no row in the layout"
        return
    for line, name in imports_of(tree, module, is_package):
        root = name.split(".")[0]
        target = part_of(name) if root == "rankgrove" else root
        if importer not in ONLY_FOR.get(target, {importer}):
            yield f"{module}:{line}: {target} is not for {importer or 'the package'} to import"
        elif root == "rankgrove" and not may_import(importer, target):
            yield f"{module}:{line}: {importer} must not import {target or 'the package itself'}"


def may_import(importer: str, target: str) -> bool:
    if (importer, target) in NEVER_IMPORTS:
        return False
    also = ALSO_IMPORTS.get(importer, set())
    if target == importer or also is None or target in also:
        return True
    if importer not in ROW_OF or target not in ROW_OF:
        return False
    return ROW_OF[target] < ROW_OF[importer]


def compiler_violations(tree: ast.AST, module: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword):
            if node.arg in FORBIDDEN_MODES and ast.unparse(node.value) == "True":
                yield f"{module}:{node.value.lineno}: {node.arg}=True is never used"
        elif isinstance(node, ast.Name | ast.Attribute) and part_of(module) != "_jit":
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in COMPILERS:
                yield f"{module}:{node.lineno}: {name} is for _jit only; use its kernel"


def is_kernel(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(
        (isinstance(d, ast.Name) and d.id in MARKS)
        or (isinstance(d, ast.Attribute) and d.attr in MARKS)
        for d in decorators
    )


def imported_kernels(tree: ast.AST) -> set[str]:
    """The kernels of other files of the package that are imported under their own names."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rankgrove."):
            path = SOURCE.joinpath(*node.module.split(".")[1:]).with_suffix(".py")
            if path.exists():
                other = ast.parse(path.read_text(encoding="utf-8"))
                kernels = {inner.name for inner in ast.walk(other) if is_kernel(inner)}
                found |= {a.name for a in node.names if a.asname is None and a.name in kernels}
    return found


def kernel_violations(tree: ast.AST, module: str) -> Iterator[str]:
    kernels = [node for node in ast.walk(tree) if is_kernel(node)]
    origin: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            base = "" if isinstance(node, ast.Import) else f"{'.' * node.level}{node.module or ''}"
            for alias in node.names:
                origin[alias.asname or alias.name.split(".")[0]] = base or alias.name
    allowed = {kernel.name for kernel in kernels} | imported_kernels(tree)
    allowed |= set(vars(builtins)) | INTRINSICS
    for kernel in kernels:
        for call in (node for node in ast.walk(kernel) if isinstance(node, ast.Call)):
            root = call.func
            while isinstance(root, ast.Attribute):
                root = root.value
            if not isinstance(root, ast.Name) or call in kernel.decorator_list:
                continue
            library = origin.get(root.id, "").split(".")[0] in KERNEL_LIBRARIES
            if isinstance(call.func, ast.Name):
                fine = library or root.id in allowed
            else:
                fine = library or root.id not in origin  # a method of a local array
            if not fine:
                name = ast.unparse(call.func)
                yield f"{module}:{call.lineno}: kernel {kernel.name} calls {name}, no kernel here"


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    tree = ast.parse(source)
    return [
        *layer_violations(tree, module, is_package),
        *compiler_violations(tree, module),
        *kernel_violations(tree, module),
    ]


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", source_files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_layout_is_kept_by(path):
    parts = ["rankgrove", *path.relative_to(SOURCE).with_suffix("").parts]
    is_package = parts[-1] == "__init__"
    module = ".".join(parts[:-1] if is_package else parts)
    assert violations(path.read_text(encoding="utf-8"), module, is_package=is_package) == []


def test_the_files_are_found():
    names = {path.relative_to(SOURCE).as_posix() for path in source_files()}
    assert {"__init__.py", "_jit/threads.py", "errors.py", "data/dataset.py"} <= names


KERNEL = "from rankgrove._jit import kernel\nimport numpy as np\nimport math\n"


@pytest.mark.parametrize(
    ("module", "source", "problem"),
    [
        ("rankgrove.data.x", "import rankgrove.metrics.base", "data must not import metrics"),
        ("rankgrove.data.x", "from rankgrove.metrics import base", "data must not import metrics"),
        ("rankgrove.data.x", "from rankgrove import metrics", "data must not import metrics"),
        ("rankgrove.data.x", "from ..metrics import base", "data must not import metrics"),
        ("rankgrove.data.x", "from .. import metrics", "data must not import metrics"),
        ("rankgrove.data.x", "def f():\n    from rankgrove.model import m", "x:2: data must not"),
        (
            "rankgrove.data.x",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import rankgrove.boosting",
            "x:3: data must not import boosting",
        ),
        ("rankgrove.data.x", "import importlib as i\ni.import_module('rankgrove.trees')", "x:2:"),
        ("rankgrove.data.x", "from rankgrove import Dataset", "must not import the package itself"),
        (
            "rankgrove.metrics.x",
            "import rankgrove.trees.histogram",
            "metrics must not import trees",
        ),
        ("rankgrove.trees.x", "import rankgrove.metrics.base", "trees must not import metrics"),
        ("rankgrove.objectives.x", "import rankgrove.trees", "objectives must not import trees"),
        ("rankgrove.boosting.x", "import rankgrove.model", "boosting must not import model"),
        ("rankgrove.estimators", "import rankgrove.neural", "estimators must not import neural"),
        ("rankgrove.experiments.x", "import rankgrove.report", "experiments must not import rep"),
        ("rankgrove.errors", "import rankgrove._jit", "errors must not import _jit"),
        ("rankgrove._jit", "import rankgrove.data.queries", "_jit must not import data"),
        ("rankgrove.errors", "import rankgrove.new.thing", "errors must not import new"),
        ("rankgrove.new.thing", "import math", "'new' has no row in the layout"),
        ("rankgrove.report.x", "import rankgrove.cli.main", "cli is not for report to import"),
        ("rankgrove", "import rankgrove.cli.main", "cli is not for the package to import"),
        ("rankgrove.__main__", "import rankgrove.data", "__main__ must not import data"),
        ("rankgrove.trees.x", "import numba", "numba is not for trees to import"),
        (
            "rankgrove.trees.x",
            "def f():\n    from numba.core import types",
            "x:2: numba is not for",
        ),
        ("rankgrove", "import numba", "numba is not for the package to import"),
        ("rankgrove.cli.x", "import numba", "numba is not for cli to import"),
        ("rankgrove.cli.x", "def f():\n    import torch", "x:2: torch is not for cli to import"),
        ("rankgrove.trees.x", "@njit\ndef f(): pass", "x:1: njit is for _jit only"),
        ("rankgrove.trees.x", "@nb.njit(cache=True)\ndef f(): pass", "njit is for _jit only"),
        ("rankgrove.trees.x", "f = nb.jit(g)", "jit is for _jit only"),
        ("rankgrove.trees.x", "f = nb.vectorize(g)", "vectorize is for _jit only"),
        ("rankgrove.trees.x", "@kernel(parallel=True)\ndef f(): pass", "parallel=True is never"),
        ("rankgrove._jit", "k = numba.njit(\n  fastmath=True)", "_jit:2: fastmath=True is never"),
        (
            "rankgrove.trees.x",
            KERNEL + "from rankgrove.trees.y import g\n@kernel\ndef f(a):\n    return g(a)",
            "x:7: kernel f calls g, no kernel here",
        ),
        (
            "rankgrove.trees.x",
            KERNEL + "from rankgrove.trees import y\n@kernel\ndef f(a):\n    return y.g(a)",
            "kernel f calls y.g",
        ),
        (
            "rankgrove.trees.x",
            KERNEL + "from .y import g as h\n@kernel\ndef f(a):\n    return h(a)",
            "kernel f calls h",
        ),
        (
            "rankgrove.trees.x",
            KERNEL + "def g(a): return a\n@kernel\ndef f(a):\n    return g(a)",
            "kernel f calls g",
        ),
        ("rankgrove.trees.x", KERNEL + "@kernel\ndef f(g):\n    return g(1)", "kernel f calls g"),
        (
            "rankgrove.trees.x",
            "from rankgrove import _jit\n@_jit.kernel\ndef f(a):\n    return _jit.run_chunks(a, 1)",
            "kernel f calls _jit.run_chunks",
        ),
        (
            "rankgrove.trees.x",
            "from scipy import special\n@kernel()\ndef f(a):\n    return special.expit(a)",
            "kernel f calls special.expit",
        ),
    ],
)
def test_the_checker_finds(module, source, problem):
    found = violations(source, module, is_package=module == "rankgrove")
    assert any(problem in violation for violation in found), found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("rankgrove.metrics.x", "import rankgrove.data.dataset, rankgrove.errors, rankgrove._jit"),
        ("rankgrove.metrics.x", "from rankgrove.metrics.y import z\nfrom . import y"),
        (
            "rankgrove.objectives.x",
            "from rankgrove.metrics import ties\nimport rankgrove.data",
        ),
        ("rankgrove.model.export.x", "from ...trees import predict\nfrom ..files import save"),
        ("rankgrove._jit", "import numba\nfrom rankgrove.errors import DataError\nnumba.njit(f)"),
        ("rankgrove.cli.x", "import rankgrove.report\nfrom rankgrove import __version__"),
        ("rankgrove.__main__", "from rankgrove.cli.main import run"),
        ("rankgrove", "from rankgrove.estimators import Ranker\nfrom .experiments import compare"),
        ("rankgrove.trees.x", "@kernel(fastmath={'nsz'})\ndef f(): pass"),
        ("rankgrove.trees.x", "run(parallel=False)"),
        (
            "rankgrove.trees.x",
            KERNEL
            + "from rankgrove._jit import prefetch\nfrom math import log\n"
            + "@kernel\ndef g(a):\n    return a.sum() + len(a)\n"
            + "@kernel\ndef f(a):\n    b = np.zeros(3)\n    prefetch(a, 3)\n"
            + "    return g(a) + math.exp(b.mean()) + log(2.0) + np.float32(int(a[0]))",
        ),
        (
            "rankgrove.trees.x",
            KERNEL + "from rankgrove.trees.y import g\ndef f(a):\n    return g(a)",
        ),
    ],
)
def test_the_checker_lets_pass(module, source):
    assert violations(source, module, is_package=module == "rankgrove") == []


# Sums of whole numbers, the only ones that may be taken in any order.
WHOLE_SUMS = {
    "boosting/loop.py": ["cycles"],
    "boosting/sampling.py": ["top"],
    "trees/binning.py": ["isnan"],
    "trees/exchange.py": ["block_bins"],
    "trees/grower.py": ["packed", "packed[rows]", "block_bins", "n_bins"],
    "trees/leaves.py": ["sums.reshape", "totals", "count", "bits"],
    "trees/joint_leaves.py": ["sums"],
    "trees/partition.py": ["sizes"],
    "trees/sparse.py": ["counts"],
    "trees/sparse_encoding.py": ["counts"],
}


def test_training_adds_up_floats_by_exact_sums_only():
    for part in ("boosting", "trees", "training"):
        for path in sorted((SOURCE / part).glob("*.py")):
            name = f"{part}/{path.name}"
            calls = [
                node.func
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            ]
            ordered = {"mean", "average", "nansum", "nanmean", "dot", "einsum"}
            assert not [call.attr for call in calls if call.attr in ordered], name
            # `peers.sum` adds up whole numbers, and NumPy's sum is `array.sum()`.
            sums = [ast.unparse(call.value) for call in calls if call.attr == "sum"]
            others = [
                text
                for text in sums
                if not text.endswith("peers")
                and not any(word in text for word in WHOLE_SUMS.get(name, []))
            ]
            assert not others, f"{name}: is {others} a sum of floats? Take exact_sums."
