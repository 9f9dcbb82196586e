"""What tests of workers share: data, clusters, certificates, and machines with a cable."""

import os
import shutil
import subprocess
from itertools import pairwise

import pyarrow.parquet
import pytest

from rankgrove import Ranker, make_web_search, read_data, write_data
from socket_workers import run_command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Training data in one file and in several, whose borders cut queries, and a validation set."""
    place = tmp_path_factory.mktemp("data")
    data, valid = make_web_search(40, 16), make_web_search(20, 16, seed=1)
    for name in ("all.parquet", "all.csv", "all.txt"):
        write_data(data, place / name)
    write_data(valid, place / "valid.parquet")
    table = pyarrow.parquet.read_table(place / "all.parquet")
    bounds = [0, 50, 51, 52, 200, data.n_documents]
    (place / "parts").mkdir()
    for number, (first, end) in enumerate(pairwise(bounds)):
        rows = table.slice(first, end - first)
        pyarrow.parquet.write_table(rows, place / f"parts/{number}.parquet", row_group_size=70)
    for suffix in ("txt", "csv"):
        lines = (place / f"all.{suffix}").read_text().splitlines(keepends=True)
        header = lines[:1] if suffix == "csv" else []
        lines = lines[len(header) :]
        for number, (first, end) in enumerate(pairwise(bounds)):
            text = "".join([*header, *lines[first:end]])
            (place / f"parts/{number}.{suffix}").write_text(text)
    return place


@pytest.fixture(scope="module")
def wanted(folder):
    """The model file of one process."""
    from dask_clusters import PARAMETERS, file_of

    ranker = Ranker(**PARAMETERS).fit(
        read_data(folder / "all.parquet"), valid=read_data(folder / "valid.parquet")
    )
    return file_of(ranker, folder / "one")


@pytest.fixture(scope="module")
def clusters():
    """The cluster of three workers, made on first need, and anew where one does not come back."""
    started = []
    yield started
    for cluster in started:
        cluster.close()


@pytest.fixture
def whole_client(clusters):
    """A client of three workers that are all there."""
    from dask.distributed import Client

    from dask_clusters import start_cluster

    for _ in range(2):
        if not clusters:
            clusters.append(start_cluster(3))
        with Client(clusters[-1]) as client:
            try:
                client.wait_for_workers(3, timeout=30)
            except TimeoutError:
                clusters.pop().close()
                continue
            yield client
            return
    pytest.fail("three workers must start")


@pytest.fixture
def certificate(tmp_path):
    """A certificate of 127.0.0.1 and its key, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl to make a certificate")
    paths = [tmp_path / name for name in ("key.pem", "certificate.pem")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=worker", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(paths[0]), "-out", str(paths[1])],
        check=True, capture_output=True,
    )  # fmt: skip
    both = tmp_path / "both.pem"
    both.write_text("".join(path.read_text() for path in paths))
    return str(both)


@pytest.fixture
def hosts():
    """Two machines with a cable between them, as network namespaces."""
    if shutil.which("ip") is None:
        pytest.skip("needs the program ip (Debian: iproute2)")
    names = [f"rankgrove-{os.getpid()}-{side}" for side in "ab"]
    cables = [f"rg{os.getpid() % 10**8}{side}" for side in "ab"]
    if run_command("ip", "netns", "add", names[0]).returncode:
        pytest.skip("needs root, for network namespaces")
    run_command("ip", "netns", "add", names[1])
    try:
        steps = [["ip", "link", "add", cables[0], "type", "veth", "peer", "name", cables[1]]]
        for i in (0, 1):
            inside = ["ip", "-n", names[i]]
            steps += [
                ["ip", "link", "set", cables[i], "netns", names[i]],
                [*inside, "addr", "add", f"10.77.0.{i + 1}/24", "dev", cables[i]],
                [*inside, "link", "set", cables[i], "up"],
                [*inside, "link", "set", "lo", "up"],
            ]
        for step in steps:
            done = run_command(*step)
            if done.returncode:
                pytest.skip(f"needs network namespaces with veth: {done.stderr.strip()}")
        yield names, cables
    finally:
        for name in names:
            run_command("ip", "netns", "del", name)
