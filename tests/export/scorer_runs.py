"""Many generated scorers at once: compiled together, and run in one process per language.

Each function takes the texts of scorers of the same number of features, the documents of each
(models x documents x features) and their base scores, and gives the scores (models x documents).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

C_NAMES = (
    "ROOT", "FEATURE", "THRESHOLD", "MISSING_LEFT", "LEFT", "RIGHT", "VALUE", "CATEGORY_SET",
    "CATEGORY_SETS", "CATEGORICAL", "FIRST_CATEGORY", "CATEGORY", "sum_of_trees",
    "rankgrove_score", "rankgrove_n_features", "rankgrove_feature_names",
)  # fmt: skip

JAVA_MAIN = """\
import java.nio.*;
import java.nio.file.*;

public class Main {
    public static void main(String[] arguments) throws Exception {
        int models = Integer.parseInt(arguments[0]), documents = Integer.parseInt(arguments[1]);
        int width = Integer.parseInt(arguments[2]);
        ByteBuffer features = read("features"), bases = read("bases");
        ByteBuffer scores = ByteBuffer.allocate(8 * models * documents);
        scores.order(ByteOrder.LITTLE_ENDIAN);
        for (int model = 0; model < models; model++) {
            java.lang.reflect.Method score = null;
            for (java.lang.reflect.Method method : Class.forName("M" + model).getMethods()) {
                score = method.getName().equals("score") ? method : score;
            }
            for (int document = 0; document < documents; document++) {
                float[] values = new float[width];
                for (int i = 0; i < width; i++) {
                    values[i] = features.getFloat();
                }
                double base = bases.getDouble();
                Object result = score.getParameterCount() == 1
                    ? score.invoke(null, values) : score.invoke(null, values, base);
                scores.putDouble((Double) result);
            }
        }
        Files.write(Paths.get("scores"), scores.array());
    }

    static ByteBuffer read(String name) throws Exception {
        return ByteBuffer.wrap(Files.readAllBytes(Paths.get(name))).order(ByteOrder.LITTLE_ENDIAN);
    }
}
"""

NODE_MAIN = """\
import { readFileSync, writeFileSync } from "node:fs";
const [models, documents, width] = process.argv.slice(2).map(Number);
const copy = (name) => Uint8Array.from(readFileSync(name)).buffer;
const features = new Float32Array(copy("features"));
const bases = new Float64Array(copy("bases"));
const scores = new Float64Array(models * documents);
for (let model = 0; model < models; model++) {
  const { score } = await import(`./m${model}.mjs`);
  for (let document = 0; document < documents; document++) {
    const place = model * documents + document;
    const values = features.subarray(place * width, (place + 1) * width);
    scores[place] = score(values, bases[place]);
  }
}
writeFileSync("scores", new Uint8Array(scores.buffer));
"""


def run(command: list[str], folder: Path, variables: dict[str, str] | None = None) -> None:
    """Run a command in a folder, with these environment variables besides those of this process."""
    environment = os.environ | (variables or {})
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[:3000]


def score_with_c(texts: list[str], features: np.ndarray, bases: np.ndarray, folder: Path):
    """All files in one: each with its own names for what it defines."""
    main = []
    for number, text in enumerate(texts):
        (folder / f"m{number}.c").write_text(text)
        main += [f"#define {name} {name}_{number}" for name in C_NAMES]
        main.append(f'#include "m{number}.c"')
        arguments = "x, base" if "float *features, double base" in text else "x"
        main.append(
            f"static double call_{number}(const float *x, double base)"
            f"{{ (void)base; return rankgrove_score({arguments}); }}"
        )
        main += [f"#undef {name}" for name in C_NAMES]
    calls = ", ".join(f"call_{number}" for number in range(len(texts)))
    main.append(f"static double (*const calls[])(const float *, double) = {{{calls}}};")
    main.append(
        "void score_all(int models, int documents, int width, const float *x, const double *base,"
        " double *out) { for (int i = 0; i < models * documents; i++)"
        " out[i] = calls[i / documents](x + i * width, base[i]); }"
    )
    (folder / "main.c").write_text("\n".join(main))
    options = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", "-O1"]
    run(["gcc", *options, "-shared", "-fPIC", "-o", "main.so", "main.c"], folder)
    scores = np.empty(bases.shape)
    features, bases = np.ascontiguousarray(features), np.ascontiguousarray(bases)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (features, bases, scores)]
    ctypes.CDLL(str(folder / "main.so")).score_all(*features.shape, *pointers)
    return scores


def score_with_java(texts: list[str], features: np.ndarray, bases: np.ndarray, folder: Path):
    """Texts of classes M0, M1, …"""
    for number, text in enumerate(texts):
        (folder / f"M{number}.java").write_text(text)
    (folder / "Main.java").write_text(JAVA_MAIN)
    files = sorted(path.name for path in folder.glob("*.java"))
    run(["javac", "-proc:none", "-Xlint:all", "-Werror", "-g:none", *files], folder)
    return _scores_of(["java", "-Xshare:auto", "Main"], features, bases, folder)


def score_with_node(texts: list[str], features: np.ndarray, bases: np.ndarray, folder: Path):
    for number, text in enumerate(texts):
        (folder / f"m{number}.mjs").write_text(text)
    (folder / "main.mjs").write_text(NODE_MAIN)
    return _scores_of(["node", "main.mjs"], features, bases, folder)


def _scores_of(command: list[str], features: np.ndarray, bases: np.ndarray, folder: Path):
    (folder / "features").write_bytes(features.astype("<f4").tobytes())
    (folder / "bases").write_bytes(bases.astype("<f8").tobytes())
    run([*command, *map(str, features.shape)], folder)
    return np.frombuffer((folder / "scores").read_bytes(), "<f8").reshape(bases.shape)


def score_with_python(texts: list[str], features: np.ndarray, bases: np.ndarray, folder: Path):
    """In this process, and without anything but the standard library."""
    scores = np.empty(bases.shape)
    for number, text in enumerate(texts):
        module: dict[str, object] = {}
        exec(compile(text, f"m{number}.py", "exec"), module)
        takes_base = module["score"].__code__.co_argcount == 2
        for row, document in enumerate(features[number].tolist()):
            base = (float(bases[number, row]),) if takes_base else ()
            scores[number, row] = module["score"](document, *base)
    return scores


def imports_only_the_standard_library(text: str) -> bool:
    lines = [line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))]
    return bool(lines) and set(lines) <= set(sys.stdlib_module_names)
