"""Training on many machines: workers that have the queries between them grow one model.

`DaskRanker` trains on a Dask cluster; it alone needs Dask, and is imported on first use. `listen`
and `connect` bring workers together over TCP, however they were started.
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

__all__ = [
    "DaskRanker",
    "DisconnectedError",
    "Listener",
    "LostStepError",
    "NoConnectionError",
    "NoPortError",
    "SocketPeers",
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


def __getattr__(name: str) -> Any:
    if name != "DaskRanker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load_dask("dask_ranker").DaskRanker


def load_dask(module: str = "dask_run") -> Any:
    """A module that needs Dask, which may not be installed."""
    try:
        return import_module(f"{__name__}.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("dask", "distributed", "cloudpickle"):
            raise
        raise need_extra("dask", "dask", "training on a Dask cluster") from error
