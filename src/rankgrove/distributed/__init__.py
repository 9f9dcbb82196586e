"""Training on many machines: workers that have the queries between them grow one model.

`DaskRanker` trains on a Dask cluster, `SparkRanker` in a barrier stage of Spark; only they need
these packages, and are imported on first use. `listen` and `connect` bring workers together over
TCP, however they were started.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankgrove.distributed.addresses import Listener, listen
from rankgrove.distributed.failures import (
    DisconnectedError,
    LostStepError,
    NoConnectionError,
    NoPortError,
    StoppedError,
    StrangeBytesError,
    WorkerFailedError,
    WorkerLostError,
    WorkersError,
    WrongLengthError,
    WrongTokenError,
    WrongVersionError,
)
from rankgrove.distributed.joining import connect
from rankgrove.distributed.mesh import Traffic
from rankgrove.distributed.sockets import SocketPeers, new_token
from rankgrove.errors import need_extra

if TYPE_CHECKING:
    from rankgrove.distributed.dask_ranker import DaskRanker
    from rankgrove.distributed.spark_ranker import SparkRanker

__all__ = [
    "DaskRanker",
    "DisconnectedError",
    "Listener",
    "LostStepError",
    "NoConnectionError",
    "NoPortError",
    "SocketPeers",
    "SparkRanker",
    "StoppedError",
    "StrangeBytesError",
    "Traffic",
    "WorkerFailedError",
    "WorkerLostError",
    "WorkersError",
    "WrongLengthError",
    "WrongTokenError",
    "WrongVersionError",
    "connect",
    "listen",
    "new_token",
]


_PACKAGES = {"dask": ("dask", "distributed", "cloudpickle"), "spark": ("pyspark", "pyarrow")}


def __getattr__(name: str) -> Any:
    if name == "DaskRanker":
        return load_dask("dask_ranker").DaskRanker
    if name == "SparkRanker":
        return _load("spark_ranker", "spark", "training on Spark").SparkRanker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_dask(module: str = "dask_run") -> Any:
    """A module that needs Dask, which may not be installed."""
    return _load(module, "dask", "training on a Dask cluster")


def _load(module: str, extra: str, purpose: str) -> Any:
    try:
        return import_module(f"{__name__}.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES[extra]:
            raise
        raise need_extra(_PACKAGES[extra][0], extra, purpose) from error
