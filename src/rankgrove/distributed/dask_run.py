"""Training and measuring on a Dask cluster, as estimators and the command line ask for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike
from typing import Any

import cloudpickle
from dask.distributed import Client, LocalCluster

from rankgrove._jit import resolve_n_jobs
from rankgrove.boosting.parameters import Parameters
from rankgrove.distributed.dask_client import Cluster, Source, as_client, run_attempts
from rankgrove.distributed.dask_worker import IgnoreInterrupts
from rankgrove.distributed.following import FollowedRun
from rankgrove.distributed.requests import Following, check_reading, named_sets
from rankgrove.distributed.restarts import WorkersGoneError
from rankgrove.distributed.tasks import Evaluation
from rankgrove.errors import refusal, whole_number
from rankgrove.metrics.base import Metric

_LOCAL = "local:"

# How files and frames are read.
_READING = (
    "label", "qid", "weight", "base_score", "document_weight", "features", "header", "format",
    "index_base", "absent", "n_features", "feature_names", "split_queries",
)  # fmt: skip


@contextmanager
def connected(client: Client | str | None) -> Iterator[Cluster]:
    """The cluster of a client, of an address, or of so many processes here: "local:4"."""
    if isinstance(client, str) and client.startswith(_LOCAL):
        n_workers = client.removeprefix(_LOCAL)
        if not n_workers.isdecimal() or int(n_workers) < 1:
            raise refusal(
                "the address of processes here", "be like 'local:4', with their number", client
            )
        n_threads = max(1, resolve_n_jobs(None) // int(n_workers))
        with (
            LocalCluster(
                n_workers=int(n_workers), threads_per_worker=n_threads, processes=True,
                dashboard_address=":0", memory_limit=0, silence_logs=logging.ERROR,
            ) as local,
            Client(local, set_as_default=False) as own,
        ):  # fmt: skip
            own.register_plugin(IgnoreInterrupts())
            yield Cluster(own)
        return
    cluster = Cluster(as_client(client))
    try:
        yield cluster
    finally:
        if isinstance(client, str):
            cluster.client.close()


def follow_training(
    parameters: Parameters,
    train: Any,
    *,
    valid: Any = None,
    client: Client | str | None = None,
    max_restarts: int = 3,
    ports: str | None = None,
    n_jobs: int | None = None,
    reading: Mapping[str, Any] | None = None,
    **request: Any,
) -> FollowedRun:
    """The run of workers that train; the arguments are those of `DaskRanker.fit` and `Following`.

    After Ctrl-C it is interrupted, and has the trees so far.
    """
    options = check_reading(reading or {}, _READING)
    valid_sets = named_sets(valid, is_frame)
    following = Following(
        parameters, valid_sets, cloudpickle.dumps, max_restarts=max_restarts, **request
    )
    with following, connected(client) as cluster:
        with suppress(WorkersGoneError):
            cluster.check(cluster.some_workers())
        sources = {"": _source(cluster, "X", train, options)}
        for name, data in valid_sets.items():
            sources[name] = _source(cluster, "valid", data, options)
        run_attempts(
            cluster, sources, following.make_task, options, told=following.told,
            progress=following.words, max_restarts=max_restarts,
            options={"ports": ports, "n_jobs": n_jobs},
        )  # fmt: skip
    return following.finished()


def evaluate_on(
    data: Any,
    model: Any,
    metrics: list[Metric],
    *,
    client: Client | str | None,
    max_restarts: int,
    ports: str | None,
    n_jobs: int | None,
    reading: Mapping[str, Any],
) -> dict[str, float]:
    """The means of metrics; the arguments are those of `DaskRanker.evaluate`."""
    options = check_reading(reading, _READING)
    whole_number("max_restarts", max_restarts, 0)
    with connected(client) as cluster:
        values: dict[str, float] = run_attempts(
            cluster, {"": _source(cluster, "X", data, options)},
            lambda: Evaluation(model, metrics), options,
            told=lambda _: False, progress=lambda: "while data were measured",
            max_restarts=max_restarts, options={"ports": ports, "n_jobs": n_jobs},
        )  # fmt: skip
    return values


def is_frame(data: Any) -> bool:
    return hasattr(type(data), "map_partitions") and hasattr(type(data), "to_delayed")


def _source(cluster: Cluster, name: str, data: Any, reading: Mapping[str, Any]) -> Source:
    if is_frame(data):
        return cluster.hold_frame(data)
    patterns = [data] if isinstance(data, (str, PathLike)) else data
    if (
        not isinstance(patterns, (list, tuple))
        or not patterns
        or not all(isinstance(each, (str, PathLike)) for each in patterns)
    ):
        raise refusal(
            name, "be paths of data files, or a Dask data frame", got=type(data).__name__,
            advice="data in the memory of one machine are for Ranker",
        )  # fmt: skip
    return cluster.list_files(patterns, reading)
