"""Training and measuring on a Dask cluster, as estimators and the command line ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from typing import Any

import cloudpickle
from dask.distributed import Client, LocalCluster

from rankgrove._jit import resolve_n_jobs
from rankgrove.boosting.parameters import Parameters
from rankgrove.distributed.dask_client import (
    Cluster,
    Source,
    WorkersGoneError,
    as_client,
    run_attempts,
)
from rankgrove.distributed.dask_worker import Evaluation, IgnoreInterrupts, Training
from rankgrove.distributed.following import FollowedRun, Start, Step
from rankgrove.errors import ParameterError, refusal, unknown_name, whole_number
from rankgrove.estimators.base import Estimator
from rankgrove.metrics.base import Metric
from rankgrove.model.base import load
from rankgrove.model.model import Model
from rankgrove.training.base import BaseModel
from rankgrove.training.checkpoints import gather_callbacks, load_checkpoint
from rankgrove.training.progress import Progress
from rankgrove.training.run import Callback

_LOCAL = "local:"

# What `Ranker.fit` takes and workers cannot have, each with the reason.
_NOT_HERE = {
    "preferences": "pairs of rows, which are on other workers",
    "eval_set": "arrays, which are on one machine",
    "sample_weight": "an array, which is on one machine; name a column by weight=",
    "base_scores": "an array, which is on one machine; name a column by base_score=",
    "document_weights": "an array, which is on one machine; name a column by document_weight=",
    "group": "the sizes of the queries of one file; give the data query ids",
    "document_ids": "ids that workers do not keep",
    "document_id": "ids that workers do not keep",
}
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
            raise refusal("client", "be like 'local:4', with the number of processes", client)
        n_threads = max(1, resolve_n_jobs(None) // int(n_workers))
        with (
            LocalCluster(
                n_workers=int(n_workers), threads_per_worker=n_threads, processes=True,
                dashboard_address=":0", memory_limit=0,
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
    callbacks: Iterable[Callback] = (),
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: int = 50,
    resume: str | PathLike[str] | Model | None = None,
    base_model: BaseModel | None = None,
    ports: str | None = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    reading: Mapping[str, Any] | None = None,
) -> FollowedRun:
    """The run of workers that train; the arguments are those of `DaskRanker.fit`.

    After Ctrl-C it is interrupted, and has the trees so far.
    """
    options = _check_options(reading or {})
    whole_number("max_restarts", max_restarts, 0)
    called = gather_callbacks(callbacks, checkpoint, checkpoint_every)
    earlier, base = load_checkpoint(resume), _load_base(base_model)
    if earlier is not None and base is not None:
        raise refusal("base_model", "be left out where training goes on", got="both")
    _check_pickles(objective=parameters.objective, metric=parameters.metric, base_model=base)
    _check_sets(valid, parameters)
    progress = _Following(parameters, called, earlier, base, verbose)
    try:
        with connected(client) as cluster:
            with suppress(WorkersGoneError):
                cluster.check(cluster.some_workers())
            sources = {"": _source(cluster, "X", train)}
            for name, data in _named_sets(valid).items():
                sources[name] = _source(cluster, "valid", data)
            run_attempts(
                cluster, sources, progress.make_task, options, told=progress.told,
                progress=progress.words, max_restarts=max_restarts,
                options={"ports": ports, "n_jobs": n_jobs},
            )  # fmt: skip
    except KeyboardInterrupt:
        if progress.run is None or progress.run.n_steps == 0:
            raise
        progress.run.interrupted = True
    finally:
        progress.close()
    return progress.finished()


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
    options = _check_options(reading)
    whole_number("max_restarts", max_restarts, 0)
    with connected(client) as cluster:
        values: dict[str, float] = run_attempts(
            cluster, {"": _source(cluster, "X", data)}, lambda: Evaluation(model, metrics), options,
            told=lambda _: False, progress=lambda: "while data were measured",
            max_restarts=max_restarts, options={"ports": ports, "n_jobs": n_jobs},
        )  # fmt: skip
    return values


class _Following:
    """What is known of a run so far; what each new attempt goes on from."""

    def __init__(
        self,
        parameters: Parameters,
        callbacks: Sequence[Callback],
        resume: Model | None,
        base_model: Any,
        verbose: bool,
    ) -> None:
        self.run: FollowedRun | None = None
        self._parameters, self._resume, self._base_model = parameters, resume, base_model
        self._progress = Progress() if verbose else None
        self._callbacks = list(callbacks)
        if self._progress is not None:
            self._callbacks.append(self._progress.__enter__())

    def make_task(self) -> Training:
        """Training from the trees so far; all over where scores cannot be had back from trees."""
        resume = self._resume
        if self.run is not None and self.run.n_steps > 0 and not self._parameters.shrink_rate:
            resume = self.run.checkpoint()
        return Training(self._parameters, resume, self._base_model)

    def told(self, news: Start | Step) -> bool:
        """Take what the first worker tells; whether to stop."""
        if isinstance(news, Start):
            if self.run is None:
                self.run = FollowedRun(news, self._parameters)
            return False
        return self.run is not None and self.run.take(news, self._callbacks)

    def words(self) -> str:
        n_steps = 0 if self.run is None else self.run.n_steps
        return f"after tree {n_steps}" if n_steps else "before the first tree"

    def close(self) -> None:
        if self._progress is not None:
            self._progress.__exit__()

    def finished(self) -> FollowedRun:
        if self.run is None:
            raise ParameterError("workers must tell of a run. Got an end without a start.")
        return self.run


def _check_options(reading: Mapping[str, Any]) -> dict[str, Any]:
    """The options of reading; what cannot be done over workers is refused, and why."""
    options = {name: value for name, value in reading.items() if value is not None}
    for name in options:
        if name in _NOT_HERE:
            raise refusal(name, f"be left out over workers: it is {_NOT_HERE[name]}", got="it")
        if name not in _READING:
            raise unknown_name("an option of reading", name, _READING)
    return options


def _check_pickles(**values: Any) -> None:
    """Refuse functions that cannot be sent to workers, before anything is read."""
    for name, value in values.items():
        try:
            cloudpickle.dumps(value)
        except Exception as error:
            raise refusal(
                name, "be something that can be sent to workers", got=f"{error}"
            ) from None


def _load_base(base_model: Any) -> Any:
    if isinstance(base_model, Estimator):
        return base_model._fitted()
    return load(base_model) if isinstance(base_model, (str, PathLike)) else base_model


def _check_sets(valid: Any, parameters: Parameters) -> None:
    if parameters.early_stopping_rounds is not None and not _named_sets(valid):
        raise refusal(
            "early_stopping_rounds", "have a validation set to watch", got="none",
            advice="give fit a validation set, or early_stopping_rounds=None",
        )  # fmt: skip


def _named_sets(valid: Any) -> dict[str, Any]:
    """Validation sets by name, as `Ranker.fit` names them."""
    if valid is None:
        return {}
    if isinstance(valid, Mapping):
        if "" in valid:
            raise refusal("valid", "have names that are not empty", got="one")
        return dict(valid)
    frames = list(valid) if isinstance(valid, (list, tuple)) else []
    if len(frames) > 1 and all(is_frame(each) for each in frames):
        return {f"valid_{number}": each for number, each in enumerate(frames, start=1)}
    return {"valid": frames[0] if len(frames) == 1 and is_frame(frames[0]) else valid}


def is_frame(data: Any) -> bool:
    return hasattr(type(data), "map_partitions") and hasattr(type(data), "to_delayed")


def _source(cluster: Cluster, name: str, data: Any) -> Source:
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
    return cluster.list_files(patterns)
