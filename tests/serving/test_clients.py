"""The clients of `examples/clients` against a service that runs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from serving.samples import documents_of, running

CLIENTS = Path(__file__).parents[2] / "examples" / "clients"
TOKEN = "a-token"
PROGRAMS = {"rank.py": sys.executable, "rank.mjs": "node", "Rank.java": "java"}


@pytest.fixture(scope="module")
def address(model_file):
    with running({"web": model_file}, {"token": TOKEN}) as address:
        yield address


def call(name, address, request, token=TOKEN):
    program = shutil.which(PROGRAMS[name])
    if program is None:
        pytest.skip(f"{PROGRAMS[name]} is not installed")
    return subprocess.run(
        [program, str(CLIENTS / name), address], input=json.dumps(request), text=True,
        capture_output=True, check=False, timeout=120,
        env={**os.environ, "RANKGROVE_TOKEN": token},
    )  # fmt: skip


def ranked(name, text):
    """Rank, id and score of each document, as a client printed them."""
    if name == "Rank.java":
        return [(d["rank"], d["id"], d["score"]) for d in json.loads(text)["documents"]]
    lines = [line.split() for line in text.splitlines()]
    return [(int(rank), identity, float(score)) for rank, identity, score in lines]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_client_ranks_documents(name, address, model, query):
    request = {"documents": documents_of(query, model.feature_names), "top": 5}
    done = call(name, address, request)
    assert done.returncode == 0, done.stderr
    scores = model.predict(query)
    order = sorted(range(len(query)), key=lambda row: -scores[row])[:5]
    wanted = [(rank, f"d{row}", scores[row]) for rank, row in enumerate(order, start=1)]
    assert ranked(name, done.stdout) == wanted


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_client_shows_why_it_was_refused(name, address):
    done = call(name, address, {"documents": [{"features": {"pagerank": 1}}]})
    assert done.returncode != 0
    assert "422" in done.stderr
    assert "pagerank" in done.stderr
    assert "401" in call(name, address, {"documents": []}, token="wrong").stderr
