"""The boosting loop: forces, a tree that follows them, new scores, again."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import resolve_n_jobs
from rankgrove.boosting.binned import Binned, SharedBins, categorical_features
from rankgrove.boosting.features import monotone_signs
from rankgrove.boosting.history import History, Validation
from rankgrove.boosting.parameters import Parameters
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
)
from rankgrove.data.dataset import Dataset
from rankgrove.data.preferences import Preferences
from rankgrove.errors import DataError, ParameterError
from rankgrove.objectives.preferences import prepare_preferences
from rankgrove.trees.binning import with_category_codes
from rankgrove.trees.ensemble import Ensemble, Tree
from rankgrove.trees.grower import Grower, GrownTree
from rankgrove.trees.leaves import add_to_scores, leaf_values, to_tree, walk
from rankgrove.trees.predict import Scorer
from rankgrove.trees.quantise import quantise

Floats = NDArray[np.float64]

# Called after each tree; training stops if one returns True.
Callback = Callable[["Training"], "bool | None"]


@dataclass
class Phases:
    """Where the time goes, by name, in seconds."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


class Training:
    """A training run: the data as trees see them, the scores so far and the trees.

    Attributes
    ----------
    base_trees, trees
        The trees of the model that it goes on from, and its own so far.
    validation
        What validation measured after each of them.
    plan
        What the parameters come to on these data.
    bins
        How features are cut.
    phases
        Where the time went.
    interrupted
        Whether Ctrl-C ended it.
    """

    def __init__(
        self,
        train: Dataset,
        valid: Mapping[str, Dataset],
        parameters: Parameters,
        *,
        earlier: Ensemble | None = None,
        n_base_trees: int = 0,
        history: History | None = None,
        preferences: Preferences | None = None,
        shared_bins: SharedBins | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.parameters = parameters
        self.plan = parameters.resolve(train.n_documents, has_preferences=preferences is not None)
        self.train, self.valid = train, dict(valid)
        self.n_jobs = resolve_n_jobs(n_jobs)
        self.phases = Phases()
        self.interrupted = False
        self._check_sets()
        p = parameters
        signs = monotone_signs(p.monotone, train.feature_names)
        if np.any(signs[categorical_features(train, p)]):
            raise ParameterError("monotone features must not be categorical. Got one that is both.")
        with self.phases.measured("forces"):
            objective = self.plan.objective
            if preferences is not None:
                if p.leaf == "newton_cross_leaf":
                    raise ParameterError(
                        "leaf must be newton or mean to train from preferences. Got "
                        "'newton_cross_leaf'."
                    )
                self._forces = prepare_preferences(objective, train, preferences, n_jobs)
            else:
                self._forces = objective.prepare(train, n_jobs, p.random_state)
            based = n_base_trees > 0 or train.base_scores is not None
            self._start_score = 0.0 if based else objective.start_score(train)
        with self.phases.measured("bin"):
            make = Binned.make if shared_bins is None else shared_bins.get
            binned = make(train, self.valid, p, n_jobs)
            self.bins, self.matrix, self._matrices = binned.bins, binned.matrix, binned.matrices
        self._grower = Grower(self.matrix, self.bins, self.plan.trees, signs=signs, n_jobs=n_jobs)
        self._preferences = preferences
        # Whether an iteration sees other than the one before at the same scores.
        self._draws = (
            min(p.subsample, p.colsample) < 1 or max(self.plan.bootstrap, self.plan.split_noise) > 0
            or p.temperature is not None or objective.is_random
        )  # fmt: skip
        self._is_still = False
        trees = [] if earlier is None else earlier.trees()
        self.base_trees, self.trees = trees[:n_base_trees], trees[n_base_trees:]
        self.scores = self._scores_of(train)
        self._valid_scores = {
            name: self.scores if data is train else self._scores_of(data)
            for name, data in self.valid.items()
        }
        self.validation = Validation(
            self.valid, list(self.plan.metrics), p.early_stopping_rounds, history, n_jobs
        )

    def _check_sets(self) -> None:
        p, train = self.parameters, self.train
        if p.early_stopping_rounds is not None and not self.valid:
            raise ParameterError(
                "early_stopping_rounds must have a validation set to watch. Got none: "
                "pass valid=, or early_stopping_rounds=None."
            )
        for name, data in self.valid.items():
            if data.n_features != train.n_features:
                raise DataError(
                    f"validation set {name!r} must have the {train.n_features} features of the "
                    f"training data. Got {data.n_features}."
                )
            if data.feature_names != train.feature_names:
                other = next(
                    pair
                    for pair in zip(train.feature_names, data.feature_names, strict=True)
                    if pair[0] != pair[1]
                )
                raise DataError(
                    f"validation set {name!r} must have the features of the training data in "
                    f"the same order. Got {other[1]!r} in place of {other[0]!r}."
                )
            if (data.base_scores is None) != (train.base_scores is None):
                raise DataError(
                    f"validation set {name!r} and the training data must both have base scores, "
                    f"or neither. Got them in one only."
                )

    def _scores_of(self, data: Dataset) -> Floats:
        base = np.zeros(data.n_documents) if data.base_scores is None else data.base_scores.copy()
        trees = [*self.base_trees, *self.trees]
        if not trees:
            return base
        # Values are added tree by tree, in the same order as in the run that grew them.
        return Scorer(Ensemble.from_trees(trees)).score(
            with_category_codes(data.features, self.bins.categories), base=base, n_jobs=self.n_jobs
        )

    @property
    def ensemble(self) -> Ensemble:
        """The trees so far."""
        return self.ensemble_of(len(self.trees))

    def ensemble_of(self, n_trees: int) -> Ensemble:
        """The base model's trees and the first of its own, as they were after so many of them."""
        trees = self.trees[:n_trees]
        keep = self._keep
        if keep == 1:
            return Ensemble.from_trees([*self.base_trees, *trees])
        # Each later iteration has shrunk a tree once more.
        n_later = [*[len(trees)] * len(self.base_trees), *range(len(trees) - 1, -1, -1)]
        return Ensemble.from_trees(
            [
                replace(tree, value=tree.value * keep**later)
                for tree, later in zip([*self.base_trees, *trees], n_later, strict=True)
            ]
        )

    @property
    def _keep(self) -> float:
        """The share of the model that an iteration leaves before it adds its tree."""
        return 1.0 - self.parameters.learning_rate * self.parameters.shrink_rate

    @property
    def cycles(self) -> dict[str, int]:
        """Processor cycles of all threads for the parts of growing: divide, sum and scan."""
        spent = self._grower.cycles.sum(axis=0).tolist()
        return dict(zip(("divide", "sum", "scan"), spent, strict=False))

    @property
    def history(self) -> History:
        return self.validation.history

    @cached_property
    def fingerprint(self) -> int:
        """A number that differs, as good as always, for other training data."""
        data, bins = self.train, self.bins
        number = zlib.crc32("\n".join(data.feature_names).encode())
        # Codes alone would be the same for other values in the same order.
        arrays = (
            data.labels, data.offsets, data.weights, data.base_scores, bins.edges,
            *(np.array(values, np.float32) for values in bins.categories.values()),
            self.matrix.codes,
        )  # fmt: skip
        if self._preferences is not None:
            arrays = (*arrays, *self._preferences.arrays)
        for array in arrays:
            part = np.empty(0) if array is None else np.ascontiguousarray(array)
            number = zlib.crc32(str(part.shape).encode(), number)
            number = zlib.crc32(part.reshape(-1).view(np.uint8).data, number)
        return number

    def run(self, callbacks: Sequence[Callback] = ()) -> None:
        """Add trees until there are enough, validation or a callback says stop, or Ctrl-C."""
        n_trees, forces = len(self.trees), np.empty((2, self.train.n_documents))
        try:
            while n_trees < self.plan.n_estimators and not self._is_done:
                tree = self._add_tree(n_trees, forces[0], forces[1])
                with self.phases.measured("validation"):
                    self.validation.measure(self._valid_scores)
                self.trees.append(tree)
                n_trees += 1
                answers = [callback(self) for callback in callbacks]
                if any(answers):
                    break
        except KeyboardInterrupt:
            self.interrupted = True
            self._forget_measured_past(len(self.trees))

    @property
    def _is_done(self) -> bool:
        """Whether validation says stop, or nothing is left to split."""
        found_nothing = bool(self.trees) and self.trees[-1].n_leaves == 1
        # The next tree would see the same as one that found nothing in all of the data; or nothing
        # is pushed at all, as where labels are equal in every query.
        stuck = found_nothing and (not self._draws or self._is_still)
        return stuck or self.validation.should_stop

    def validation_is_that_of_last_tree(self) -> bool:
        """Whether validation would measure now what it has measured last: it has the same data."""
        return self.validation.agrees(self._valid_scores)

    def _forget_measured_past(self, n_trees: int) -> None:
        for curves in self.history.values():
            for values in curves.values():
                del values[n_trees:]

    def kept_trees(self) -> int:
        """How many of the trees the model keeps: up to the best one if training stops early."""
        if self.parameters.early_stopping_rounds is None or not self.validation.watched:
            return len(self.trees)
        return self.validation.best

    def _add_tree(self, iteration: int, forces: Floats, curvatures: Floats) -> Tree:
        p, measured = self.parameters, self.phases.measured
        start = self._start_score if iteration == 0 else 0.0
        with measured("forces"):
            scores = self.scores if start == 0 else self.scores + start
            self._forces.compute(scores, iteration, forces, curvatures)
            self._is_still = iteration == 0 and not forces.any()
            if p.temperature is not None:
                scale = math.sqrt(2 / (p.learning_rate * p.temperature))
                add_normal_noise(forces, scale, p.random_state, iteration, self.n_jobs)
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
            packed, units = quantise(drawn, by, seed, self.n_jobs)
        with measured("grow"):
            noise = self._split_noise(drawn, by, sample.rows, iteration)
            n_documents = self.plan.l2_documents
            average = _average_of(by, sample.rows) if n_documents else 1.0
            grown = self._grower.grow(
                packed, units, sample.rows, allowed, n_documents * average, average, noise
            )
        with measured("update"):
            unit = units[0] / units[1]
            step = self._leaf_values(grown, sample, scores, iteration, (forces, curvatures), unit)
            values = p.learning_rate * step + start
            self._update(grown, sample, values)
            return to_tree(grown, self.matrix, self.bins, values)

    def _leaf_values(
        self,
        grown: GrownTree,
        sample: Sample,
        scores: Floats,
        iteration: int,
        pushes: tuple[Floats, Floats],
        unit: float,
    ) -> Floats:
        """The values of the leaves of a tree at these scores, after one step or several."""
        p = self.parameters
        forces, curvatures = pushes
        start, values = scores, np.zeros(grown.n_leaves)
        for step in range(p.leaf_steps):
            if step:
                scores = start.copy()
                self._add_values(grown, sample, values, scores)
                self._forces.compute(scores, iteration, forces, curvatures)
                if sample.weights is not None:
                    forces *= sample.weights
                    curvatures *= sample.weights
            by = curvatures
            if p.leaf == "mean":
                by = self._ones(sample.weights)
            elif p.leaf == "newton_cross_leaf":
                leaves = np.zeros(len(scores))
                self._add_values(grown, sample, np.arange(float(grown.n_leaves)), leaves)
                by = self._forces.cross_leaf_curvatures(scores, iteration, leaves.astype(np.int32))
                by = by if sample.weights is None else by * sample.weights
            last = leaf_values(
                grown, sample.rows, forces, by,
                l2=self.plan.trees.l2 + self.plan.l2_documents * _average_of(by, sample.rows),
                least=self.plan.trees.min_child_weight, unit=unit, n_jobs=self.n_jobs,
            )  # fmt: skip
            values = values + last
        return values

    def _sample(self, iteration: int, forces: Floats, curvatures: Floats) -> Sample:
        """What the tree is grown on, and what each document counts."""
        p, offsets = self.parameters, self.train.offsets
        how = (p.subsample, p.random_state, iteration)
        if p.subsample == 1:
            return Sample(np.arange(self.train.n_documents, dtype=np.int32), None)
        if p.sampling == "query":
            return sample_queries(offsets, *how)
        if p.sampling == "document":
            return sample_documents(self.train.n_documents, *how)
        if p.sampling == "gradient":
            return sample_gradients(forces, *how)
        total = float(curvatures.sum())
        step = float(np.abs(forces).sum()) / total if total > 0 else 0.0
        sizes = np.hypot(forces, step * curvatures)
        return sample_by_variance(sizes, offsets if p.sampling == "variance_query" else None, *how)

    def _bootstrapped(self, iteration: int, forces: Floats, by: Floats) -> tuple[Floats, Floats]:
        """What splits are chosen by. The values of leaves are those of all documents alike."""
        p, temperature = self.parameters, self.plan.bootstrap
        if temperature == 0:
            return forces, by
        offsets = self.train.offsets if p.bootstrap_by == "query" else None
        how = (temperature, p.random_state, iteration, self.n_jobs)
        weights = bootstrap_weights(offsets, self.train.n_documents, *how)
        return forces * weights, by * weights

    def _split_noise(
        self, forces: Floats, curvatures: Floats, rows: NDArray[np.int32], iteration: int
    ) -> tuple[float, int]:
        """The scale of the noise in roots of gains, and what it is drawn by."""
        p, scale = self.parameters, self.plan.split_noise
        if scale == 0:
            return 0.0, 0
        total = float(curvatures[rows].sum())
        by_chance = float((forces[rows] ** 2).sum()) / total if total > 0 else 0.0
        fade = 1 / (1 + math.exp(min(p.learning_rate * iteration, 700.0)) / len(rows))
        return scale * fade * math.sqrt(by_chance), split_seed(p.random_state, iteration)

    def _ones(self, weights: Floats | None) -> Floats:
        return np.ones(self.train.n_documents) if weights is None else weights

    def _update(self, grown: GrownTree, sample: Sample, values: Floats) -> None:
        self._shrink(self.train, self.scores)
        self._add_values(grown, sample, values, self.scores)
        for name, matrix in self._matrices.items():
            self._shrink(self.valid[name], self._valid_scores[name])
            walk(grown, matrix, values, self._valid_scores[name], self.n_jobs)

    def _shrink(self, data: Dataset, scores: Floats) -> None:
        """Shrink what trees have added to the scores; base scores stay."""
        if self._keep == 1:
            return
        base = 0.0 if data.base_scores is None else data.base_scores
        scores -= base
        scores *= self._keep
        scores += base

    def _add_values(self, grown: GrownTree, sample: Sample, values: Floats, scores: Floats) -> None:
        """Add to scores of the training documents the values of their leaves."""
        if len(sample.rows) == self.train.n_documents:
            add_to_scores(grown, sample.rows, values, scores, self.n_jobs)
        else:
            walk(grown, self.matrix, values, scores, self.n_jobs)


def _average_of(curvatures: Floats, rows: NDArray[np.int32]) -> float:
    """The average curvature of some documents, 0 if there are none."""
    if len(rows) == 0:
        return 0.0
    own = curvatures if len(rows) == len(curvatures) else curvatures[rows]
    return float(own.sum()) / len(rows)
