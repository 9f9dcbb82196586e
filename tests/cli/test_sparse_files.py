"""Commands say and write the same of data that stay sparse and of their dense form."""

import numpy as np
import pytest

from data.sparse_samples import make_data, make_dense
from rankgrove import write_letor
from rankgrove.data import sparse_features

COMMANDS = [
    ("inspect", "data.txt", "--json"),
    ("train", "data.txt", "--valid", "data.txt", "--n-estimators", "3", "--random-state", "0",
     "-o", "model.safetensors"),
    ("score", "model.safetensors", "data.txt", "-o", "scores.txt"),
    ("evaluate", "model.safetensors", "data.txt"),
    ("evaluate", "data.txt", "--column", "1"),
    ("explain", "model.safetensors", "data.txt", "--query", "3", "--document", "1"),
    ("explain", "model.safetensors", "data.txt", "--query", "3", "--why", "1", "2"),
    ("explain", "model.safetensors", "data.txt", "--metric", "ndcg@5"),
    ("compare", "model.safetensors", "scores.txt", "data.txt", "--slice", "length"),
    ("cv", "data.txt", "--folds", "2", "--n-estimators", "2", "--random-state", "0"),
    ("convert", "data.txt", "data.csv"),
    ("convert", "data.csv", "back.txt"),
    ("bin", "data.txt", "-o", "data.bins"),
]  # fmt: skip
WRITTEN = ("model.safetensors", "scores.txt", "data.csv", "back.txt", "data.bins")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    dense = make_dense()
    dense[np.isinf(dense)] = 5.0
    path = tmp_path_factory.mktemp("sparse") / "data.txt"
    write_letor(make_data(dense, sparse=False), path)
    return path.read_bytes()


def test_commands_do_the_same(cli, text, tmp_path, monkeypatch):
    results = []
    for least in (64, 1 << 30):
        monkeypatch.setattr(sparse_features, "LEAST_FEATURES", least)
        (tmp_path / "data.txt").write_bytes(text)
        pages = []
        for command in COMMANDS:
            result = cli(*command)
            assert result.exit_code == 0, (command, result.stderr)
            # Training tells how long it took.
            pages += [] if command[0] in ("train", "cv", "bin") else [result.stdout]
        results.append((pages, [(tmp_path / name).read_bytes() for name in WRITTEN]))
    assert results[0][0] == results[1][0]
    for name, one, other in zip(WRITTEN, results[0][1], results[1][1], strict=True):
        assert one == other, name
