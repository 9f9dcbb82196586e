"""Adding up over several growers, each of which has some of the rows, so that all grow one tree.

Every grower decides from the same sums, so all take the same steps. Sums are of whole numbers:
the tree is that of one grower with all rows, to the bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel
from rankgrove._jit.peers import Peers
from rankgrove.trees.team import PENDING_COUNT, PENDING_SLOT, PENDING_TOTAL


@kernel
def _copy_cells(histograms, slots, block_bins, message, back):
    """Copy what is used of histograms to a message, or back."""
    cell = 0
    for slot in slots:
        for block in range(len(block_bins)):
            flat = histograms[slot, block].reshape(4096)
            for start, end in ((0, block_bins[block] * 16), (4080, 4096)):
                for i in range(start, end):
                    if back:
                        flat[i] = message[cell]
                    else:
                        message[cell] = flat[i]
                    cell += 1


def add_up(
    peers: Peers,
    pending: NDArray[np.int64],
    histograms: NDArray[np.int64],
    block_bins: NDArray[np.int64],
) -> None:
    """Add up over all growers the pending counts, totals and histograms, in one message."""
    own = pending[:, PENDING_SLOT]
    slots = as_input(own[own >= 0], np.int64)
    sums = pending[:, [PENDING_COUNT, PENDING_TOTAL]]
    n_cells = len(slots) * int((16 * block_bins + 16).sum())
    message = np.empty(n_cells + sums.size, dtype=np.int64)
    _copy_cells(histograms, slots, block_bins, message, False)
    message[n_cells:] = sums.reshape(-1)
    peers.sum(message)
    _copy_cells(histograms, slots, block_bins, message, True)
    pending[:, [PENDING_COUNT, PENDING_TOTAL]] = message[n_cells:].reshape(sums.shape)
