"""Tests the lowest and the highest versions that pyproject.toml allows, on the Pythons at hand.

    python tools/versions.py          # the lowest on the oldest Python, the highest on the newest
    python tools/versions.py --all    # both on each Python

Each runs the tests of kernels, trees and metrics in a virtual environment of its own. The versions
are found by uv, from the bounds of pyproject.toml: the lowest of a package is the first within them
that has a wheel for that Python. Names of tests after `--` run instead.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TESTS = ["tests/jit", "tests/trees", "tests/metrics"]
TEST_TOOLS = ("pytest", "pytest-xdist", "hypothesis")
RESOLUTIONS = {"lowest": "lowest-direct", "highest": "highest"}
SHOWN = ("numpy", "numba", "llvmlite", "scipy", "scikit-learn", "typer")


def supported_pythons() -> list[str]:
    """The versions of Python that pyproject.toml names, the oldest first."""
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    found = [match[1] for text in PROJECT["classifiers"] if (match := pattern.fullmatch(text))]
    return sorted(found, key=lambda version: int(version.split(".")[1]))


def find_python(version: str) -> str | None:
    """An interpreter of this version: on the path, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [shutil.which(f"python{version}"), *pyenv.glob(f"{version}.*/bin/python")]
    for candidate in filter(None, candidates):
        probe = [str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(probe, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return str(candidate)
    return None


def find_uv() -> str:
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    uv = shutil.which("uv", path=search)
    if uv is None:
        raise SystemExit("uv must be installed. Got none: python -m pip install uv.")
    return uv


def test_tools() -> list[str]:
    """What runs the tests, in the versions that the extra `test` has."""
    pins = PROJECT["optional-dependencies"]["test"]
    return [pin for pin in pins if pin.split("==")[0] in TEST_TOOLS]


def run_tests(python: str, which: str, tests: list[str]) -> bool:
    """Whether the tests pass with the lowest or the highest versions under an interpreter."""
    uv, certificates = find_uv(), os.environ.get("PIP_CERT")
    environment = {**os.environ}
    environment.pop("VIRTUAL_ENV", None)
    environment.pop("PYTHONPATH", None)
    if certificates:
        environment.setdefault("SSL_CERT_FILE", certificates)
    with tempfile.TemporaryDirectory(prefix="rankgrove-versions-") as folder:
        place = Path(folder, "venv")
        subprocess.run(
            [uv, "venv", "-q", "--python", python, str(place)], check=True, env=environment
        )
        install = [
            uv, "pip", "install", "-q", "--python", str(place), "--only-binary", ":all:",
            "--resolution", RESOLUTIONS[which], "-r", "pyproject.toml", *test_tools(),
        ]  # fmt: skip
        subprocess.run(install, check=True, env=environment, cwd=ROOT)
        inside = str(place / "bin" / "python")
        (packages,) = place.glob("lib/python*/site-packages")
        # As an editable installation has it, but without a build, which would compile kernels.
        (packages / "rankgrove.pth").write_text(str(ROOT / "src"), encoding="utf-8")
        show = [uv, "pip", "list", "--python", str(place), "--format", "freeze"]
        listed = subprocess.run(show, check=True, env=environment, capture_output=True, text=True)
        versions = dict(line.split("==") for line in listed.stdout.split())
        print(f"\n== {which} on {python}:", *(f"{name} {versions[name]}" for name in SHOWN))
        sys.stdout.flush()
        environment["NUMBA_CACHE_DIR"] = str(Path(folder, "cache"))
        command = [inside, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *tests]
        return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="both on each Python")
    parser.add_argument("--python", action="append", help="only on this version, as 3.12")
    parser.add_argument("--only", choices=RESOLUTIONS, help="only the lowest, or the highest")
    parser.add_argument("tests", nargs="*", help="instead of those of kernels, trees and metrics")
    options = parser.parse_args()
    wanted = options.python or supported_pythons()
    pythons = [python for version in wanted if (python := find_python(version))]
    absent = [version for version in wanted if find_python(version) is None]
    if not pythons:
        raise SystemExit(f"one of Python {', '.join(wanted)} must be installed. Got none.")
    if options.all or options.python:
        runs = [(python, which) for python in pythons for which in RESOLUTIONS]
    else:
        runs = [(pythons[0], "lowest"), (pythons[-1], "highest")]
    failed = [
        f"{which} on {python}"
        for python, which in runs
        if which == (options.only or which) and not run_tests(python, which, options.tests or TESTS)
    ]
    for version in absent:
        print(f"NOT TESTED: Python {version}, which is not installed")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
