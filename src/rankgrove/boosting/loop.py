"""What one tree takes: forces, a tree that follows them, new scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import resolve_n_jobs
from rankgrove._jit.elementary import exponential
from rankgrove._jit.exact import Scale, exact_sums, scales_of
from rankgrove.boosting.binned import Binned, SharedBins, categorical_features
from rankgrove.boosting.features import monotone_signs
from rankgrove.boosting.parameters import Parameters
from rankgrove.boosting.phases import Phases
from rankgrove.boosting.sampling import (
    Sample,
    add_normal_noise,
    bootstrap_weights,
    rounding_seed,
    sample_by_variance,
    sample_documents,
    sample_features,
    sample_gradients,
    sample_queries,
    split_seed,
    variance_sizes,
)
from rankgrove.data.documents import Documents
from rankgrove.data.preferences import Preferences
from rankgrove.errors import ParameterError
from rankgrove.objectives.base import Forces, Objective
from rankgrove.objectives.leaf_pairs import LeafSums, unit_of_sums
from rankgrove.objectives.preferences import prepare_preferences
from rankgrove.objectives.summed import SummedForces, by_metric
from rankgrove.trees.ensemble import Ensemble, Tree
from rankgrove.trees.grower import Grower, GrownTree
from rankgrove.trees.joint_leaves import laplacian
from rankgrove.trees.leaves import add_to_scores, leaf_values, leaves_of_rows, to_tree, walk
from rankgrove.trees.quantise import quantise

Floats = NDArray[np.float64]

# Forces for the values of leaves that are drawn anew are those of an iteration that never comes.
_DRAWN_ANEW = 1 << 40

# What documents are worth before the first tree.
StartScores = Callable[[Documents], Floats]


def base_scores_of(data: Documents) -> Floats:
    """The base scores of data, or 0: an array of its own."""
    return np.zeros(data.n_documents) if data.base_scores is None else data.base_scores.copy()


class Boosting:
    """The data as trees see them, the scores so far and the trees; `step` grows one more.

    Parameters
    ----------
    earlier, n_base_trees
        Trees to go on from, and how many of them, the first ones, are those of a base model.
    start_scores
        What the documents of a data set are worth with them.
    offset
        What all scores are to be higher by; the first tree has it. Labels are without it.

    Attributes
    ----------
    base_trees, trees
        The trees of a base model, and its own so far.
    scores
        What the training documents are worth with all of them.
    plan
        What the parameters come to on these data.
    bins
        How features are cut.
    phases
        Where the time went.
    """

    def __init__(
        self,
        train: Documents,
        valid: Mapping[str, Documents],
        parameters: Parameters,
        *,
        earlier: Ensemble | None = None,
        n_base_trees: int = 0,
        start_scores: StartScores = base_scores_of,
        offset: float = 0.0,
        preferences: Preferences | None = None,
        shared_bins: SharedBins | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.parameters = p = parameters
        self.plan = p.resolve(train.shard.n_documents, has_preferences=preferences is not None)
        self.train, self.valid = train, dict(valid)
        self.n_jobs = resolve_n_jobs(n_jobs)
        self.phases = Phases()
        self.preferences, self._offset = preferences, offset
        signs = monotone_signs(p.monotone, train.feature_names)
        if np.any(signs[categorical_features(train, p)]):
            raise ParameterError("monotone features must not be categorical. Got one that is both.")
        with self.phases.measured("forces"):
            objective = self.plan.objective
            self._forces = self._prepare_forces(objective)
            if p.leaf == "joint":
                self._forces.keep_pairs()
            based = n_base_trees > 0 or train.base_scores is not None
            self._start_score = 0.0 if based else objective.start_score(train)
        with self.phases.measured("bin"):
            make = Binned.make if shared_bins is None else shared_bins.get
            binned = make(train, self.valid, p, n_jobs)
            self.bins, self.matrix, self._matrices = binned.bins, binned.matrix, binned.matrices
        peers = train.shard.peers
        self._grower = Grower(
            self.matrix, self.bins, self.plan.trees, signs=signs, n_jobs=n_jobs,
            peers=peers if peers.size > 1 else None,
        )  # fmt: skip
        # Whether trees at the same scores may differ.
        self._draws = (
            min(p.subsample, p.colsample) < 1 or max(self.plan.bootstrap, self.plan.split_noise) > 0
            or p.temperature is not None or objective.is_random or bool(p.bounds)
        )  # fmt: skip
        self._is_still = False
        trees = [] if earlier is None else earlier.trees()
        self.base_trees, self.trees = trees[:n_base_trees], trees[n_base_trees:]
        self.scores = start_scores(train)
        self._valid_scores = {
            name: self.scores if data is train else start_scores(data) + offset
            for name, data in self.valid.items()
        }
        self._pushes = np.empty((2, train.n_documents))
        self._grown: Tree | None = None

    def _prepare_forces(self, objective: Objective) -> Forces:
        if self.preferences is not None:
            return prepare_preferences(objective, self.train, self.preferences, self.n_jobs)
        how = (self.train, self.n_jobs, self.parameters.random_state)
        bounds = self.parameters.bounds
        if not bounds:
            return objective.prepare(*how)
        several = [objective, *(by_metric(objective, metric) for metric in bounds)]
        return SummedForces([each.prepare(*how) for each in several], [1.0, *[0.0] * len(bounds)])

    def weigh(self, weights: Sequence[float]) -> None:
        """Have the next tree count the objective, and each constrained metric, by these weights."""
        if isinstance(self._forces, SummedForces):
            self._forces.weights = list(weights)

    @property
    def n_steps(self) -> int:
        """How many trees there are, besides those of a base model."""
        return len(self.trees)

    @property
    def most_steps(self) -> int:
        """How many there are to be, at most."""
        return self.plan.n_estimators

    def step(self) -> None:
        """Grow the next tree and add it to all scores; `keep` adds it to the trees."""
        self._grown = self._grow_tree(self.n_steps)

    def keep(self, validation: object = None) -> None:
        """Count the last tree in."""
        if self._grown is not None:
            self.trees.append(self._grown)

    def finish(self) -> None:
        """Nothing is under way between steps."""

    def undo(self) -> None:
        """Forget a tree that was not kept. The scores may have it: they are of no use any more."""
        self._grown = None

    def valid_scores(self) -> Mapping[str, Floats]:
        """The scores of each validation set with the last tree."""
        return self._valid_scores

    @property
    def is_stuck(self) -> bool:
        """Whether nothing is left to split."""
        found_nothing = bool(self.trees) and self.trees[-1].n_leaves == 1
        # The next tree would see the same as one that found nothing in all of the data; or nothing
        # is pushed at all, as where labels are equal in every query.
        return found_nothing and (not self._draws or self._is_still)

    def has_learned(self, n_steps: int) -> bool:
        """Whether a tree of the model after so many has a split."""
        return any(tree.n_leaves > 1 for tree in [*self.base_trees, *self.trees[:n_steps]])

    @property
    def ensemble(self) -> Ensemble:
        """The trees so far."""
        return self.ensemble_of(self.n_steps)

    def ensemble_of(self, n_trees: int) -> Ensemble:
        """The base model's trees and the first of its own, as they were after so many of them."""
        trees, keep = [*self.base_trees, *self.trees[:n_trees]], self._keep
        if keep != 1:
            # Each later iteration has shrunk a tree once more.
            n_base, n_own = len(self.base_trees), len(trees) - len(self.base_trees)
            n_later = [*[n_own] * n_base, *range(n_own - 1, -1, -1)]
            trees = [
                replace(tree, value=tree.value * keep**later)
                for tree, later in zip(trees, n_later, strict=True)
            ]
        if self._offset != 0 and trees:
            trees[0] = replace(trees[0], value=trees[0].value + self._offset)
        return Ensemble.from_trees(trees)

    @property
    def _keep(self) -> float:
        """The share of the model that an iteration leaves before it adds its tree."""
        return 1.0 - self.parameters.learning_rate * self.parameters.shrink_rate

    @property
    def cycles(self) -> dict[str, int]:
        """Processor cycles of all threads for the parts of growing: divide, sum and scan."""
        spent = self._grower.cycles.sum(axis=0).tolist()
        return dict(zip(("divide", "sum", "scan"), spent, strict=False))

    def _grow_tree(self, iteration: int) -> Tree:
        p, measured = self.parameters, self.phases.measured
        forces, curvatures = self._pushes
        start = self._start_score if iteration == 0 else 0.0
        shard = self.train.shard
        with measured("forces"):
            scores = self.scores if start == 0 else self.scores + start
            self._forces.compute(scores, iteration, forces, curvatures)
            if iteration == 0:
                self._is_still = not shard.any(bool(forces.any()))
            if p.temperature is not None:
                scale = math.sqrt(2 / (p.learning_rate * p.temperature))
                add_normal_noise(forces, shard, scale, p.random_state, iteration, self.n_jobs)
        with measured("sample"):
            sample = self._sample(iteration, forces, curvatures)
            allowed = sample_features(self.train.n_features, p.colsample, p.random_state, iteration)
            if sample.weights is not None:
                forces *= sample.weights
                curvatures *= sample.weights
            by = curvatures if p.split_gain == "newton" else self._ones(sample.weights)
            drawn, by = self._bootstrapped(iteration, forces, by)
        with measured("quantise"):
            seed = rounding_seed(p.random_state, iteration)
            # The scales for the values of leaves too, where they are known: workers talk once.
            are_known = p.leaf in ("newton", "joint") and p.leaf_noise == "same"
            columns = [drawn, by] + ([forces, curvatures] if are_known else [])
            scales = scales_of(columns, shard.n_documents, self.n_jobs, shard.peers)
            quantised = quantise(
                drawn, by, seed, self.n_jobs, offsets=shard.offsets, places=shard.places,
                n_all=shard.n_documents, peers=shard.peers, scales=scales[:2],
            )  # fmt: skip
        with measured("grow"):
            average, noise = self._average_and_noise(
                drawn, by, quantised.curvature, sample.rows, iteration
            )
            grown = self._grower.grow(
                quantised.packed, quantised.units, sample.rows, allowed,
                self.plan.l2_documents * average, average, noise,
            )  # fmt: skip
        with measured("update"):
            unit = quantised.units[0] / quantised.units[1]
            step = self._leaf_values(grown, sample, scores, iteration, unit, scales[2:] or None)
            values = p.learning_rate * step + start
            self._update(grown, sample, values)
            return to_tree(grown, self.bins, values)

    def _leaf_values(
        self,
        grown: GrownTree,
        sample: Sample,
        scores: Floats,
        iteration: int,
        unit: float,
        scales: list[Scale] | None,
    ) -> Floats:
        """The values of the leaves of a tree at these scores, after one step or several.

        The forces and curvatures of the first step are there already, and so may be their scales,
        unless they are to be drawn anew.
        """
        p, shard = self.parameters, self.train.shard
        forces, curvatures = self._pushes
        start, values = scores, np.zeros(grown.n_leaves)
        if p.leaf_noise == "new":
            iteration += _DRAWN_ANEW
        for step in range(p.leaf_steps):
            if step or p.leaf_noise == "new":
                scores = start.copy()
                self._add_values(grown, sample, values, scores)
                self._forces.compute(scores, iteration, forces, curvatures)
                if sample.weights is not None:
                    forces *= sample.weights
                    curvatures *= sample.weights
                scales = None
            by, matrix = curvatures, None
            if p.leaf == "mean":
                by = self._ones(sample.weights)
            elif p.leaf == "newton_cross_leaf":
                leaves = self._leaves(grown, sample)
                by = self._forces.cross_leaf_curvatures(scores, iteration, leaves)
                by = by if sample.weights is None else by * sample.weights
            elif p.leaf == "joint":
                if scales is None:
                    columns = [forces, by]
                    scales = scales_of(columns, shard.n_documents, self.n_jobs, shard.peers)
                matrix = self._matrix_of_leaves(grown, sample, scores, iteration, scales[1])
            last = leaf_values(
                grown, sample.rows, forces, by,
                l2=self.plan.trees.l2, l2_documents=self.plan.l2_documents,
                least=self.plan.trees.min_child_weight, unit=unit,
                n_all=shard.n_documents, n_jobs=self.n_jobs, peers=shard.peers, scales=scales,
                matrix=matrix,
            )  # fmt: skip
            values = values + last
        return values

    def _leaves(self, grown: GrownTree, sample: Sample) -> NDArray[np.int32]:
        """The leaf of each training document."""
        if self.parameters.subsample == 1:
            return leaves_of_rows(grown, sample.rows, self.n_jobs)
        leaves = np.zeros(self.train.n_documents)
        walk(grown, self.matrix, np.arange(float(grown.n_leaves)), leaves, self.n_jobs)
        return leaves.astype(np.int32)

    def _matrix_of_leaves(
        self, grown: GrownTree, sample: Sample, scores: Floats, iteration: int, scale: Scale
    ) -> Floats:
        """The curvatures of pairs across leaves; `scale` is that of those of documents."""
        shard, n_leaves, starts = self.train.shard, grown.n_leaves, self.train.offsets[:-1]
        counts = np.ones(len(starts))
        if self.parameters.subsample < 1:
            # Of the documents of a query all count, or none.
            is_drawn = np.zeros(self.train.n_documents)
            is_drawn[sample.rows] = 1.0
            counts = is_drawn[starts]
        if sample.weights is not None:
            counts = counts * sample.weights[starts]
        unit = unit_of_sums(scale.ratio / scale.inverse, shard.n_documents)
        sums = LeafSums(self._leaves(grown, sample), n_leaves, counts, unit)
        self._forces.sum_between(scores, iteration, sums)
        whole = sums.whole()
        shard.peers.sum(whole)
        return laplacian(whole, unit)

    def _sample(self, iteration: int, forces: Floats, curvatures: Floats) -> Sample:
        """What the tree is grown on, and what each document counts."""
        p, shard = self.parameters, self.train.shard
        how = (p.subsample, p.random_state, iteration)
        if p.subsample == 1:
            return Sample(np.arange(self.train.n_documents, dtype=np.int32), None)
        if p.sampling == "query":
            return sample_queries(shard, *how)
        if p.sampling == "document":
            return sample_documents(shard, *how)
        if p.sampling == "gradient":
            return sample_gradients(forces, shard, *how)
        by_query = p.sampling == "variance_query"
        sizes = variance_sizes(forces, curvatures, shard)
        return sample_by_variance(sizes, shard, by_query, *how)

    def _bootstrapped(self, iteration: int, forces: Floats, by: Floats) -> tuple[Floats, Floats]:
        """What splits are chosen by. The values of leaves are those of all documents alike."""
        p, temperature = self.parameters, self.plan.bootstrap
        if temperature == 0:
            return forces, by
        how = (temperature, p.random_state, iteration, self.n_jobs)
        weights = bootstrap_weights(self.train.shard, p.bootstrap_by == "query", *how)
        return forces * weights, by * weights

    def _average_and_noise(
        self,
        forces: Floats,
        curvatures: Floats,
        curvature: float,
        rows: NDArray[np.int32],
        iteration: int,
    ) -> tuple[float, tuple[float, int]]:
        """The average curvature of a document, and the noise in roots of gains.

        The average is 1 where regularisation does not count by it; of the noise, its scale and what
        it is drawn by. `curvature` is the sum over all documents.
        """
        p, scale, shard = self.parameters, self.plan.split_noise, self.train.shard
        if scale == 0 and not self.plan.l2_documents:
            return 1.0, (0.0, 0)
        n_rows, squares = shard.n_documents, forces
        if p.subsample < 1:
            n_rows = shard.count(len(rows))
            (curvature,) = exact_sums([curvatures[rows]], shard.n_documents, 1, shard.peers)
            squares = forces[rows]
        average = curvature / max(n_rows, 1) if self.plan.l2_documents else 1.0
        if scale == 0:
            return average, (0.0, 0)
        (square,) = exact_sums([squares * squares], shard.n_documents, self.n_jobs, shard.peers)
        by_chance = square / curvature if curvature > 0 else 0.0
        fade = 1 / (1 + exponential(p.learning_rate * iteration) / n_rows)
        seed = split_seed(p.random_state, iteration)
        return average, (scale * fade * math.sqrt(by_chance), seed)

    def _ones(self, weights: Floats | None) -> Floats:
        return np.ones(self.train.n_documents) if weights is None else weights

    def _update(self, grown: GrownTree, sample: Sample, values: Floats) -> None:
        self._shrink(self.train, self.scores, 0.0)
        self._add_values(grown, sample, values, self.scores)
        for name, matrix in self._matrices.items():
            self._shrink(self.valid[name], self._valid_scores[name], self._offset)
            walk(grown, matrix, values, self._valid_scores[name], self.n_jobs)

    def _shrink(self, data: Documents, scores: Floats, offset: float) -> None:
        """Shrink what trees have added to the scores; base scores and offset stay."""
        if self._keep == 1:
            return
        base = offset if data.base_scores is None else data.base_scores + offset
        scores -= base
        scores *= self._keep
        scores += base

    def _add_values(self, grown: GrownTree, sample: Sample, values: Floats, scores: Floats) -> None:
        """Add to scores of the training documents the values of their leaves."""
        if self.parameters.subsample == 1:
            add_to_scores(grown, sample.rows, values, scores, self.n_jobs)
        else:
            walk(grown, self.matrix, values, scores, self.n_jobs)
