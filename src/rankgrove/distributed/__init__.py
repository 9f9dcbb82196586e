"""Training on many machines: workers that have the queries between them grow one model.

`listen` and `connect` bring workers together over TCP; nothing here knows how they
were started.
"""

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

__all__ = [
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
