"""What a peer gives the documents of a matrix by a model in one of its files.

The peer runs in a process of its own: some of them end the process that reads a damaged file.

    python -m rankgrove.testing.peer_scores TOOL MODEL MATRIX.npy SCORES.npy ROUNDS CATEGORICAL
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.errors import DataError
from rankgrove.testing.peers import PEERS, import_peer

_LONGEST = 600


def score_by_peer(
    tool: str,
    content: bytes,
    matrix: NDArray[np.float32],
    n_rounds: int | None = None,
    categorical: Sequence[int] = (),
) -> tuple[str, NDArray[np.float64]]:
    """The version of a peer, and its scores, before any link function, of rows of float32.

    Parameters
    ----------
    tool, content
        Which, and a model as its file holds it.
    matrix, categorical
        The features, categories as the whole numbers that the peer knows them by; and which
        features these are.
    n_rounds
        Use the first rounds only.
    """
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        model = place / ("model.ubj" if not _is_text(content) else "model.json")
        model.write_bytes(content)
        np.save(place / "matrix.npy", matrix)
        arguments = [
            tool, str(model), str(place / "matrix.npy"), str(place / "scores.npy"),
            json.dumps(n_rounds), json.dumps(list(categorical)),
        ]  # fmt: skip
        command = [sys.executable, "-m", "rankgrove.testing.peer_scores", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_LONGEST
        )
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise DataError(
                f"{PEERS[tool].title} must be able to score by its own model. Got: {last[:200]}"
            )
        return done.stdout.strip().splitlines()[-1], np.load(place / "scores.npy")


def _is_text(content: bytes) -> bool:
    return content[:2].strip() in (b"{", b'{"', b"tr")


def _scores(
    tool: str, path: str, matrix: NDArray[np.float32], n_rounds: int | None, categorical: list[int]
) -> Any:
    peer = import_peer(tool)
    if tool == "lightgbm":
        booster = peer.Booster(model_file=path)
        # (A forest has the mean of its trees, but their sum as what it calls the raw score.)
        trees = n_rounds or booster.current_iteration()
        scores = booster.predict(matrix, raw_score=True, num_iteration=trees, num_threads=1)
        is_mean = "\naverage_output\n" in Path(path).read_text(encoding="utf-8")
        return scores / trees if is_mean else scores
    if tool == "xgboost":
        booster = peer.Booster(model_file=path)
        types = ["c" if f in categorical else "float" for f in range(matrix.shape[1])]
        data = peer.DMatrix(matrix, feature_types=types, enable_categorical=True, nthread=1)
        return booster.predict(
            data, output_margin=True, iteration_range=(0, n_rounds or 0), validate_features=False
        )
    model = peer.CatBoost().load_model(path, format="json")
    return model.predict(
        matrix, prediction_type="RawFormulaVal", ntree_end=n_rounds or 0, thread_count=1
    )


if __name__ == "__main__":
    name, *paths, rounds, chosen = sys.argv[1:]
    found = _scores(name, paths[0], np.load(paths[1]), json.loads(rounds), json.loads(chosen))
    np.save(paths[2], np.asarray(found, np.float64))
    print(import_peer(name).__version__)
