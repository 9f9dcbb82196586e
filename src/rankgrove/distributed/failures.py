"""What goes wrong between workers, each cause an error of its own."""

from __future__ import annotations

from rankgrove.errors import RankgroveError


class WorkersError(RankgroveError):
    """Base of every error between workers.

    Attributes
    ----------
    rank, address
        The worker that it is about, where there is one.
    """

    def __init__(
        self, message: str = "", rank: int | None = None, address: str | None = None
    ) -> None:
        super().__init__(message)
        self.rank = rank
        self.address = address


class WorkerLostError(WorkersError):
    """A worker is gone: its process has ended, or its machine or the network is down."""


class WorkerFailedError(WorkersError):
    """Another worker has told of an error of its own, which ends the work of all."""


class LostStepError(WorkersError):
    """Another worker is at another call, or at another operation, than this one."""


class WrongLengthError(WorkersError):
    """Another worker has sent more or fewer numbers than this one has."""


class StrangeBytesError(WorkersError):
    """What came over a connection is no message of a worker."""


class StoppedError(WorkersError):
    """Waiting for other workers was ended from outside."""


class DisconnectedError(WorkersError):
    """The connections are closed: by `close`, or by an earlier failure."""


class NoPortError(WorkersError):
    """Every port that was allowed is taken, or may not be opened."""


class NoConnectionError(WorkersError):
    """Workers have not come together in time."""


class WrongTokenError(WorkersError):
    """The other side has another token, or none."""


class WrongVersionError(WorkersError):
    """The other side speaks another version of the protocol."""


def worker_at(rank: int, address: str) -> str:
    """A worker for a message.

    >>> worker_at(2, "10.0.0.7:41233")
    'worker 2 at 10.0.0.7:41233'
    """
    return f"worker {rank} at {address}"


def lost(rank: int, address: str, reason: str) -> WorkerLostError:
    """The error of a worker that is gone.

    >>> print(lost(2, "10.0.0.7:41233", "it has closed the connection"))
    worker 2 at 10.0.0.7:41233 is gone: it has closed the connection.
    """
    return WorkerLostError(f"{worker_at(rank, address)} is gone: {reason}.", rank, address)
