"""What happens to training on Dask if workers, their network or the client fail."""

import logging
import os
import signal
import subprocess
import sys
import threading

import pytest

pytest.importorskip("dask.distributed")

import dask
from dask.distributed import Client

from dask_clusters import (
    TREE,
    assert_nothing_is_left,
    file_of,
    fit,
    plant_bomb,
    start_cluster,
)
from rankgrove.distributed import WorkerFailedError, WorkerLostError, dask_client
from socket_workers import run_command

# Long enough for a busy machine; only a hang gets there.
LIMIT = 300

# A client that tells of each tree, and at the end writes the model file.
CLIENT = """
import sys
from pathlib import Path
from dask.distributed import Client
from rankgrove.distributed import DaskRanker

def slow_down():
    import time
    from rankgrove.distributed import tasks

    function = tasks._check_same
    tasks._check_same = lambda *arguments: (time.sleep(0.5), function(*arguments))

if __name__ == "__main__":
    address, folder, n_trees, out = sys.argv[1:]
    with Client(address) as client:
        client.wait_for_workers(2)
        client.run(slow_down)
        ranker = DaskRanker(n_estimators=int(n_trees), early_stopping_rounds=5)
        ranker.fit(
            Path(folder) / "parts/*.parquet", valid=Path(folder) / "valid.parquet", client=client,
            callbacks=[lambda run: print("tree", run.n_steps, flush=True)],
        )
        ranker.save(out)
"""


def start_client(address, folder, n_trees, out, prefix=()):
    script = out.parent / "client.py"
    script.write_text(CLIENT)
    return subprocess.Popen(
        [*prefix, sys.executable, script, address, folder, str(n_trees), out],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def processes():
    """Processes that are ended, whatever they are doing."""
    started = []
    yield started
    for process in started:
        process.kill()
        process.wait(LIMIT)
        if process.stdout is not None:
            process.stdout.close()


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


@pytest.mark.parametrize("max_restarts", [3, 0])
def test_a_stopped_worker_is_named_and_others_go_on(
    max_restarts, folder, wanted, whole_client, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(dask_client, "_SILENCE", 10.0)
    victim = sorted(whole_client.nthreads())[1]
    pid = whole_client.run(os.getpid, workers=[victim])[victim]
    whole_client.run(plant_bomb, TREE, 3, stop, workers=[victim])
    try:
        with caplog.at_level(logging.WARNING, "rankgrove.distributed"):
            if max_restarts == 0:
                with pytest.raises(WorkerLostError, match=victim):
                    fit(folder, whole_client, max_restarts=0)
            else:
                ranker = fit(folder, whole_client)
                assert file_of(ranker, tmp_path / "model") == wanted
                assert [line for line in caplog.messages if victim in line and "restart" in line]
    finally:
        os.kill(pid, signal.SIGCONT)
    # It finds its connections closed, and is as good as new.
    assert file_of(fit(folder, whole_client), tmp_path / "again") == wanted
    assert_nothing_is_left(whole_client)


def fail_to_allocate():
    raise MemoryError("Unable to allocate 7 EiB")


def test_a_worker_without_memory_is_one_error_with_its_name(folder, whole_client):
    victim = sorted(whole_client.nthreads())[2]
    whole_client.run(plant_bomb, TREE, 2, fail_to_allocate, workers=[victim])
    with pytest.raises(WorkerFailedError, match=rf"{victim} has failed: MemoryError: Unable"):
        fit(folder, whole_client)
    assert_nothing_is_left(whole_client)


def take_all_memory():
    import time

    taken = []
    while True:  # until the nanny ends the process
        taken.append(b"x" * (1 << 26))
        time.sleep(0.02)


@pytest.mark.parametrize("max_restarts", [3, 0])
def test_others_go_on_when_a_worker_is_ended_for_its_memory(max_restarts, folder, wanted, tmp_path):
    with start_cluster(2, memory_limit="900MB") as cluster, Client(cluster) as client:
        victim = sorted(client.nthreads())[1]
        client.run(plant_bomb, TREE, 3, take_all_memory, workers=[victim])
        if max_restarts:
            assert file_of(fit(folder, client), tmp_path / "model") == wanted
        else:
            with pytest.raises(WorkerLostError, match=victim) as caught:
                fit(folder, client, max_restarts=0)
            assert "memory" in str(caught.value)


def test_a_client_that_is_killed_leaves_workers_to_the_next_one(
    folder, wanted, processes, tmp_path, monkeypatch
):
    # What a client has held is free half a minute after its end; here sooner.
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__LOCKS__LEASE_TIMEOUT", "5s")
    intervals = {"distributed.scheduler.locks.lease-validation-interval": "1s"}
    with (
        dask.config.set(intervals),
        start_cluster(2) as cluster,
        Client(cluster) as client,
    ):
        address = cluster.scheduler_address
        process = start_client(address, folder, 1_000_000, tmp_path / "never")
        processes.append(process)
        timer = threading.Timer(LIMIT, process.kill)
        timer.start()
        assert any(line == "tree 3\n" for line in process.stdout)
        timer.cancel()
        process.kill()
        assert process.wait(LIMIT) == -signal.SIGKILL
        assert file_of(fit(folder, client), tmp_path / "model") == wanted
        assert_nothing_is_left(client)


def test_others_go_on_when_the_cable_of_a_worker_is_cut(folder, wanted, hosts, processes, tmp_path):
    names, cables = hosts
    here, there = (("ip", "netns", "exec", name) for name in names)
    dask = [sys.executable, "-m", "dask"]
    address = "tcp://10.77.0.1:8786"
    options = ["--nthreads", "1", "--no-dashboard", "--memory-limit", "0"]
    commands = [
        [*here, *dask, "scheduler", "--host", "10.77.0.1", "--port", "8786", "--no-dashboard"],
        [*here, *dask, "worker", address, *options, "--host", "10.77.0.1", "--no-nanny"],
        [*there, *dask, "worker", address, *options, "--host", "10.77.0.2", "--no-nanny"],
    ]
    for command in commands:
        processes.append(subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ))  # fmt: skip
    process = start_client(address, folder, 6, tmp_path / "model", prefix=here)
    processes.append(process)
    timer = threading.Timer(LIMIT, process.kill)
    timer.start()
    assert any(line == "tree 2\n" for line in process.stdout)
    assert run_command("ip", "-n", names[1], "link", "set", cables[1], "down").returncode == 0
    process.stdout.read()
    assert process.wait(LIMIT) == 0
    timer.cancel()
    assert (tmp_path / "model").read_bytes() == wanted
