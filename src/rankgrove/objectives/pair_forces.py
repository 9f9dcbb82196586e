"""The pairwise objective on one data set: which queries go through which loop of pairs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, run_queries
from rankgrove._jit.elementary import LANES, NOISES
from rankgrove._jit.hashing import iteration_key
from rankgrove.data.documents import Documents
from rankgrove.metrics.forms import DISTANCE, SIGN, Form
from rankgrove.objectives.anchors import Anchors
from rankgrove.objectives.base import Floats, ForcesOfPairs, Push, chunks_of
from rankgrove.objectives.label_pairs import LabelOrder, push_by_label, sum_pair_costs
from rankgrove.objectives.leaf_pairs import (
    LONGEST_KEPT,
    MOST_KEPT,
    Between,
    Kept,
    LeafSums,
    Leaves,
    sum_kept,
)
from rankgrove.objectives.neighbours import Distances, Draws
from rankgrove.objectives.pairs import push_queries

if TYPE_CHECKING:
    from rankgrove.objectives.pairwise import Pairwise

# The most pairs of a query in a ranking where a sample may count: some 30 ms of work, and more than
# there are among 4,096 documents.
MOST_PAIRS = 1 << 23

# Some 0.5 ms of work at the default truncation: far more than the hand-out of a chunk costs.
_CHUNK_DOCUMENTS = 1 << 13

# Some 0.2 ms of work: as long as it takes to hand out the chunks and to wait for them. To draw a
# document's place in a ranking takes as long as so many pairs.
_FEW_PAIRS, _PAIRS_FOR_A_PLACE = 100_000, 8


class PairForces(ForcesOfPairs):
    """The loops of pairs. `compute` keeps nothing unless told, so threads may share it.

    Attributes
    ----------
    n_pairs
        How many pairs the loops go over for one ranking of each query, or for all that share one.
    """

    def __init__(
        self,
        objective: Pairwise,
        form: Form,
        data: Documents,
        tie_order: NDArray[np.int64],
        n_jobs: int | None,
        seed: int,
    ) -> None:
        sizes, longest = data.group, int(data.group.max(initial=1))
        self._offsets = as_input(data.offsets, np.int64)
        self._weights = as_input(data.query_weights, np.float64)
        # Discounts by rank, and of DISTANCE those by distance, each with zeros behind.
        discounts = np.zeros((len(form.discounts) // longest, longest + LANES))
        discounts[:, :longest] = form.discounts.reshape(-1, longest)
        self._kind = (form.kind, as_input(discounts.ravel(), np.float64))
        self._how = (float(objective.sigma), bool(objective.normalise))
        self._tie_order = as_input(tie_order, np.int64)
        weighed = data.document_weights
        self._document_weights = None if weighed is None else as_input(weighed, np.float64)
        self._noise = (
            NOISES[objective.noise], float(objective.noise_scale), int(objective.n_rankings),
            bool(objective.noise_in_margin),
        )  # fmt: skip
        self._numbers = as_input(data.shard.numbers, np.int64)
        # (An objective that may leave pairs out goes by rank even where it leaves none out.)
        goes_by_label = objective.takes_all_ranks and form.kind != DISTANCE
        by_label = goes_by_label & (sizes - 1 <= form.depth)
        self.n_pairs = 0
        self._kept: Kept | None = None
        self._prepare_rows(objective, form, sizes, ~by_label)
        self._prepare_labels(objective, form, by_label)
        steps = objective.n_rankings * (self.n_pairs + _PAIRS_FOR_A_PLACE * data.n_documents)
        few_documents = data.n_documents if steps <= _FEW_PAIRS else 0
        self._bounds = chunks_of(data, _CHUNK_DOCUMENTS, few_documents)
        self._n_jobs, self._seed = n_jobs, seed

    def _prepare_rows(
        self, objective: Pairwise, form: Form, sizes: NDArray[np.int64], by_rank: NDArray[np.bool_]
    ) -> None:
        """What `push_queries` takes for the queries that go by rank, if there are any."""
        self._rows: tuple[Any, ...] | None = None
        self._neighbours: Distances | None = None
        if not by_rank.any():
            return
        longest = int(sizes.max())
        nearest, furthest = objective.distances(longest)
        takes_all = nearest == 1 and furthest >= longest - 1
        self._ranks_by_score = takes_all and not objective.is_random
        bounded = not (objective.has_all_neighbours or self._ranks_by_score)
        self._neighbours = Distances(nearest, furthest) if bounded else None
        self._depth = form.depth
        self._anchors = None
        if objective.truncation_anchors == "ideal":
            self._anchors = Anchors.make(form.values, self._offsets, form.depth)
        scales = np.where(by_rank, form.scales, np.nan)
        self._rows = (
            as_input(form.values, np.float64), self._offsets, as_input(scales, np.float64),
        )  # fmt: skip
        pairs = np.minimum(sizes, form.depth) * np.minimum(sizes, furthest)
        self.n_pairs += int(pairs[by_rank].sum())

    def _prepare_labels(self, objective: Pairwise, form: Form, by_label: NDArray[np.bool_]) -> None:
        """What `push_by_label` takes for the queries that go by label, if there are any."""
        self._labels: tuple[Any, ...] | None = None
        if not by_label.any():
            return
        order = LabelOrder.make(form.values, self._offsets, self._tie_order)
        pairs = np.where(by_label, order.count_pairs(self._offsets), 0)
        shares = np.ones(len(pairs))
        if objective.neighbours == "sample" and (pairs > MOST_PAIRS).any():
            shares = np.minimum(1.0, MOST_PAIRS / np.maximum(pairs, 1))
            warnings.warn(
                f"{(shares < 1).sum()} of {len(shares)} queries have more than {MOST_PAIRS:,} "
                f"pairs of different labels: {100 * shares.min():.2g} % of them, or more, are "
                f"drawn for each tree and count for all. With neighbours=all every pair is taken.",
                stacklevel=4,
            )
        # Pairs that all weigh the same do not ask for a ranking, but a sample is drawn.
        ranks = form.kind != SIGN or objective.noise_in_margin
        self._draws_by_label = (objective.is_random and ranks) or bool((shares < 1).any())
        scales = np.where(by_label, form.scales, np.nan)
        self._labels = (
            *order, self._tie_order, self._offsets, as_input(scales, np.float64),
            as_input(shares, np.float64),
        )  # fmt: skip
        self.n_pairs += int((pairs * shares).sum())

    @property
    def _chunks(self) -> Sequence[int]:
        return self._bounds

    def keep_pairs(self) -> None:
        if self._rows is None or self._neighbours is None:
            return
        nearest, furthest = self._neighbours
        pairs_a_document = (furthest - nearest + 1) * self._noise[2]
        longest = int(np.diff(self._offsets).max(initial=0))
        if pairs_a_document <= MOST_KEPT and longest <= LONGEST_KEPT:
            self._kept = Kept.make(self._offsets, pairs_a_document)

    def sum_between(self, scores: Floats, iteration: int, sums: LeafSums) -> None:
        kept = self._kept
        if kept is None:
            super().sum_between(scores, iteration, sums)
            return

        def add(first: int, last: int) -> None:
            with sums.between() as between:
                sum_kept(kept, self._offsets, sums.leaves, first, last, between)

        run_queries(add, self._bounds, self._n_jobs)

    def _pusher(
        self, scores: Floats, iteration: int, leaves: Leaves, forces: Floats, curvatures: Floats
    ) -> Push:
        draws = Draws(*self._noise, iteration_key(self._seed, iteration), self._numbers)
        # What is pushed across leaves only is not what is kept.
        kept = None if len(leaves) else self._kept

        def push(first: int, last: int, between: Between | None) -> None:
            inputs = (self._document_weights, leaves, between)
            if self._rows is not None:
                push_queries(
                    scores, *self._rows, self._weights, first, last, *self._kind, self._depth,
                    *self._how, None if self._ranks_by_score else draws, self._neighbours,
                    self._anchors, self._tie_order, *inputs, kept, forces, curvatures,
                )  # fmt: skip
            if self._labels is not None:
                push_by_label(
                    scores, *self._labels, self._weights, first, last, *self._kind, *self._how,
                    draws if self._draws_by_label else None, *inputs, forces, curvatures,
                )  # fmt: skip

        return push


class PlainForces(PairForces):
    """Every pair with different labels counts the same, wherever its documents stand."""

    def cost(self, scores: Floats) -> Floats | None:
        own, out = as_input(scores, np.float64), np.empty(len(self._weights))

        def add(first: int, last: int) -> None:
            # (A worker may have no query.)
            if self._labels is not None:
                values, order = self._labels[:2]
                sum_pair_costs(own, values, order, self._offsets, first, last, self._how[0], out)

        run_queries(add, self._bounds, self._n_jobs)
        return np.asarray(out * self._weights)
