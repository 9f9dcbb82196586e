"""Clusters of Dask, the data that their workers train on, and what makes a worker fail."""

from __future__ import annotations

import logging
import os
import signal
import sys

import cloudpickle
from dask.distributed import LocalCluster

from rankgrove.distributed import DaskRanker

# Workers cannot import the tests: what they are to run is sent to them.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

PARAMETERS = {"n_estimators": 6, "early_stopping_rounds": 5}

# What is called after each tree, and when a set is read.
TREE, READING = "_check_same", "_read_set"


def start_cluster(n_workers, **options):
    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0",
        silence_logs=logging.ERROR, **{"memory_limit": 0, **options},
    )  # fmt: skip


def file_of(ranker, path):
    ranker.save(path)
    return path.read_bytes()


def fit(folder, client, pattern="parts/*.parquet", **more):
    options = {**PARAMETERS, **more.pop("parameters", {})}
    return DaskRanker(**options).fit(
        folder / pattern, valid=folder / "valid.parquet", client=client, **more
    )


def assert_nothing_is_left(client):
    """No open port, no message, and no task that runs or waits."""

    def count_ports():
        from rankgrove.distributed import dask_mesh, dask_worker

        return len(dask_worker._ports) + len(dask_mesh._inboxes)

    assert set(client.run(count_ports).values()) == {0}
    assert not any(client.processing().values())


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def plant_bomb(place, number, bomb=kill):
    """Have something happen in a worker when it comes to a place for the nth time."""
    from rankgrove.distributed import dask_worker, tasks

    module = tasks if hasattr(tasks, place) else dask_worker
    function, calls = getattr(module, place), []

    def explode_in_time(*arguments, **options):
        calls.append(1)
        if len(calls) == number:
            bomb()
        return function(*arguments, **options)

    setattr(module, place, explode_in_time)
