"""The statement for PostgreSQL, run by PostgreSQL: a server of its own, on a socket."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from export.ensembles import ANY, combined_models, random_documents, random_model
from rankgrove.export.format import Exportable
from rankgrove.export.sql import SQL, quoted

OPTIONS = SQL.checked_options({"dialect": "postgres"})


def find_programs():
    """Where PostgreSQL's programs are, newest first."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@pytest.fixture(scope="module")
def run_statement():
    """Runs statements and gives the lines that they print."""
    programs = find_programs()
    if programs is None or shutil.which("psql") is None:
        pytest.skip("PostgreSQL is not installed")
    # It does not run as root.
    as_user = {"user": "postgres"} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if as_user:
            shutil.chown(folder, "postgres")
        place = f"{folder}/data"
        common = {"stdout": subprocess.DEVNULL, "cwd": folder, **as_user}
        make = [programs / "initdb", "-D", place, "-A", "trust", "-U", "test"]
        subprocess.run(make, check=True, **common)
        settings = f"-k {folder} -c listen_addresses='' -c fsync=off"
        start = [programs / "pg_ctl", "-D", place, "-l", f"{folder}/log", "-w"]
        subprocess.run([*start, "-o", settings, "start"], check=True, **common)

        def run(text):
            command = ["psql", "-h", folder, "-U", "test", "-q", "-A", "-t", "-X", "postgres"]
            command += ["-v", "ON_ERROR_STOP=1"]
            done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr[-500:]
            return done.stdout.splitlines()

        yield run
        stop = [programs / "pg_ctl", "-D", place, "-m", "fast", "stop"]
        subprocess.run(stop, check=True, **common)


def scores_there(run_statement, model, documents):
    columns = ", ".join(f"{quoted(name)} DOUBLE PRECISION" for name in model.feature_names)
    lines = [
        ",".join("" if np.isnan(value) else repr(float(value)) for value in row)
        for row in documents
    ]
    filled = "\n".join(lines).replace("inf", "Infinity")
    statement = SQL.write(Exportable.of(model), OPTIONS).decode()
    text = f"CREATE TEMP TABLE documents ({columns});\n"
    text += f"COPY documents FROM STDIN WITH (FORMAT csv);\n{filled}\n\\.\n{statement}"
    return np.array([float(line.rpartition("|")[2]) for line in run_statement(text)])


@pytest.mark.long
def test_postgresql_gives_the_same_bits(run_statement):
    for seed in range(100):
        model = random_model(seed, ANY)
        documents = random_documents(seed, model, 40)
        there = scores_there(run_statement, model, documents)
        np.testing.assert_array_equal(there, model.predict(documents), f"seed {seed}")


@pytest.mark.long
def test_postgresql_nests_combined_models(run_statement):
    for seed in range(20):
        for model in combined_models(seed):
            documents = random_documents(seed, model.parts[0], 40)
            there = scores_there(run_statement, model, documents)
            np.testing.assert_array_equal(there, model.predict(documents), f"seed {seed}")
