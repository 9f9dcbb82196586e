"""Starting again after workers were lost, on any engine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from rankgrove.distributed.failures import WorkerLostError, WorkersError
from rankgrove.errors import parameter

_logger = logging.getLogger("rankgrove.distributed")


class WorkersGoneError(WorkersError):
    """Workers have left while they were needed."""

    def __init__(self, addresses: Sequence[str]) -> None:
        super().__init__(f"worker {', '.join(addresses)}", None, addresses[0])
        self.addresses = addresses


def run_again(
    attempt: Callable[[], Any],
    *,
    max_restarts: int,
    progress: Callable[[], str],
    count_workers: Callable[[], int],
    advice: str,
) -> Any:
    """What an attempt of workers gives; one that workers are lost in is followed by another.

    Parameters
    ----------
    attempt
        Raises `WorkersGoneError` if workers are lost.
    progress
        How far it is, for messages: "after tree 8".
    count_workers
        Called before another attempt: how many workers there are now.
    advice
        Where to look for what has ended a worker.
    """
    for restart in range(max_restarts + 1):
        try:
            return attempt()
        except WorkersGoneError as gone:
            words = f"{gone} is gone {progress()}"
            if restart == max_restarts:
                more = f" after {max_restarts} restarts" if max_restarts else ""
                raise WorkerLostError(
                    f"{words}{more}: {advice}; with a larger {parameter('max_restarts')} training "
                    f"goes on without it.",
                    None, gone.address,
                ) from None  # fmt: skip
            n_workers = count_workers()
            _logger.warning(
                "%s. Going on with %d %s (restart %d of %d).", words, n_workers,
                "worker" if n_workers == 1 else "workers", restart + 1, max_restarts,
            )  # fmt: skip
    return None
