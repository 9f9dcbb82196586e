"""Compilers and interpreters, where they are installed: they run a generated scorer to check it."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.format import ExportError, Options, Rows

_VERSION = re.compile(r"\d+(\.\d+)+")
# A compiler or interpreter that has not ended by then hangs.
_MOST_SECONDS = 600

_NODE_RUNNER = """\
import { readFileSync, writeFileSync } from "node:fs";
import { featureNames, score } from "./scorer.mjs";
const bytes = readFileSync("features");
const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
const base = readFileSync("base");
const starts = new DataView(base.buffer, base.byteOffset, base.length);
const width = featureNames.length;
const count = Number(process.argv[2]);
const scores = new DataView(new ArrayBuffer(8 * count));
for (let row = 0; row < count; row++) {
  const first = 4 * row * width;
  const document = Array.from({ length: width }, (_, i) => view.getFloat32(first + 4 * i, true));
  const start = base.length ? [starts.getFloat64(8 * row, true)] : [];
  scores.setFloat64(8 * row, score(document, ...start), true);
}
writeFileSync("scores", new Uint8Array(scores.buffer));
"""

_JAVA_RUNNER = """\
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Paths;

public final class $nameCheck {
    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[0]);
        ByteBuffer features = read("features");
        ByteBuffer scores = ByteBuffer.allocate(8 * count).order(ByteOrder.LITTLE_ENDIAN);
        $base_buffer
        float[] document = new float[$name.N_FEATURES];
        for (int row = 0; row < count; row++) {
            for (int i = 0; i < document.length; i++) {
                document[i] = features.getFloat();
            }
            scores.putDouble($name.score(document$base));
        }
        Files.write(Paths.get("scores"), scores.array());
    }

    private static ByteBuffer read(String name) throws Exception {
        return ByteBuffer.wrap(Files.readAllBytes(Paths.get(name))).order(ByteOrder.LITTLE_ENDIAN);
    }
}
"""


def program_version(name: str, needs: str | None = None) -> Callable[[], str | None]:
    """What finds the version of a program on the path: None if it, or another, is not there."""

    def found() -> str | None:
        if shutil.which(name) is None or (needs is not None and shutil.which(needs) is None):
            return None
        try:
            answer = run([name, "--version"], Path.cwd())
        except ExportError:
            return None
        version = _VERSION.search(answer)
        return version[0] if version else ""

    return found


def run(command: list[str], folder: Path) -> str:
    """What a program prints; one that fails is an error with the last of what it said."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False,
            timeout=_MOST_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExportError(f"{command[0]} must run to check the file. Got {error}.") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        raise ExportError(f"{command[0]} must take what was written. Got {said!r}.")
    return done.stdout


def score_by_c(content: bytes, rows: Rows, _: Options) -> NDArray[np.float64]:
    """The scores of a scorer in C, compiled by gcc into a library that is loaded."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "scorer.c").write_bytes(content)
        run(["gcc", "-std=c99", "-O1", "-shared", "-fPIC", "-o", "scorer.so", "scorer.c"], folder)
        function = ctypes.CDLL(str(folder / "scorer.so")).rankgrove_score
        function.restype = ctypes.c_double
        step = rows.features.strides[0]
        first = rows.features.ctypes.data
        scores = np.empty(len(rows.features))
        for row in range(len(scores)):
            document = ctypes.c_void_p(first + row * step)
            if rows.base is None:
                scores[row] = function(document)
            else:
                scores[row] = function(document, ctypes.c_double(rows.base[row]))
    return scores


def score_by_node(content: bytes, rows: Rows, _: Options) -> NDArray[np.float64]:
    """The scores of a scorer in JavaScript, run by Node."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "scorer.mjs").write_bytes(content)
        (folder / "run.mjs").write_text(_NODE_RUNNER, encoding="ascii")
        _write_rows(rows, folder)
        run(["node", "run.mjs", str(len(rows.features))], folder)
        return _read_scores(folder)


def score_by_java(content: bytes, rows: Rows, options: Options) -> NDArray[np.float64]:
    """The scores of a scorer in Java, compiled by javac and run by java."""
    needs_base = rows.base is not None
    class_name = options["name"]
    runner = _JAVA_RUNNER.replace("$name", class_name)
    runner = runner.replace("$base_buffer", 'ByteBuffer base = read("base");' if needs_base else "")
    runner = runner.replace("$base", ", base.getDouble()" if needs_base else "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / f"{class_name}.java").write_bytes(content)
        (folder / f"{class_name}Check.java").write_text(runner, encoding="ascii")
        _write_rows(rows, folder)
        run(["javac", f"{class_name}.java", f"{class_name}Check.java"], folder)
        run(["java", "-cp", ".", f"{class_name}Check", str(len(rows.features))], folder)
        return _read_scores(folder)


def _write_rows(rows: Rows, folder: Path) -> None:
    (folder / "features").write_bytes(rows.features.astype("<f4").tobytes())
    base = b"" if rows.base is None else rows.base.astype("<f8").tobytes()
    (folder / "base").write_bytes(base)


def _read_scores(folder: Path) -> NDArray[np.float64]:
    return np.frombuffer((folder / "scores").read_bytes(), "<f8").astype(np.float64)
