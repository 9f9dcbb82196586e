"""Training trees: a run from data, maybe from a checkpoint or a base model, to a model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from rankgrove.boosting.binned import SharedBins
from rankgrove.boosting.loop import Boosting, base_scores_of
from rankgrove.boosting.memory import MEMORY_ADVICE, training_memory
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.documents import Documents
from rankgrove.data.memory import available_memory, check_memory
from rankgrove.data.preferences import Preferences
from rankgrove.errors import refusal
from rankgrove.metrics.cascade import MRR
from rankgrove.metrics.spec import parse_metric
from rankgrove.model.base import PLAN
from rankgrove.model.model import N_BASE_TREES, Model
from rankgrove.model.schema import Schema
from rankgrove.objectives.base import Objective
from rankgrove.objectives.pairwise import LambdaMART, Pairwise
from rankgrove.training.base import apply_base, check_categories
from rankgrove.training.checkpoints import (
    DATA_CHECKSUM,
    check_resumable,
    check_same_bins,
    check_same_validation,
    data_checksum,
    load_checkpoint,
    score_with,
)
from rankgrove.training.constraints import Constraints, Multipliers, check_reachable, with_train
from rankgrove.training.measures import Measures, MetricMeasures
from rankgrove.training.run import Run
from rankgrove.training.trainer import TREES
from rankgrove.training.validation import History, Validation, check_sets
from rankgrove.trees.binned_data import BinnedData

# Where a model notes whether it meets its constraints.
CONSTRAINTS = "constraints"


class TreeTrainer(Boosting):
    """Boosting as a run has it: a step is a tree."""

    unit = TREES

    # Not a cached property: its lock, one for all objects, would have workers in threads wait for
    # each other.
    _checksum: int | None = None

    @property
    def data_checksum(self) -> int:
        """A number that differs, as good as always, for other training data."""
        if self._checksum is None:
            self._checksum = data_checksum(self.train, self.preferences, self.n_jobs)
        return self._checksum

    _multipliers: Multipliers | None = None

    def start_constraints(self, validation: Validation) -> None:
        """Take up what the steps so far have come to under the constraints, if there are any."""
        if validation.constraints is None:
            return
        bounds = list(validation.constraints.bounds.values())
        self._multipliers = Multipliers(bounds, self.most_steps)
        for step in range(1, self.n_steps + 1):
            self._multipliers.see(validation.constraints.values_at(validation.history, step))
        self.weigh(self._multipliers.weights)

    def keep(self, validation: Any = None) -> None:
        """Count the last tree in; constraints then weigh the next one."""
        super().keep(validation)
        if self._multipliers is not None:
            self._multipliers.see(validation.constraints.values_at(validation.history, 0))
            self.weigh(self._multipliers.weights)

    def make_model(self, n_steps: int, history: History) -> Model:
        """The model of the base model's trees and the first of its own."""
        train = self.train
        schema = Schema.of_training(train, self.bins.categories)
        notes: dict[str, Any] = {DATA_CHECKSUM: self.data_checksum, PLAN: self.plan.as_json()}
        if self.base_trees:
            notes[N_BASE_TREES] = len(self.base_trees)
        bounds = self.parameters.bounds
        if bounds and n_steps:
            problem = Constraints(bounds).problem(history, n_steps)
            notes[CONSTRAINTS] = problem or "met on all sets"
        parameters = self.parameters.as_json()
        return Model(self.ensemble_of(n_steps), schema, parameters, history, notes=notes)


def warn_of_few_pairs(objective: Objective) -> None:
    """Say that LambdaMART without noise learns little by a metric that one document decides."""
    if not isinstance(objective, LambdaMART) or objective.is_random:
        return
    metric = parse_metric(objective.metric)
    if isinstance(metric, MRR):
        warnings.warn(
            f"lambdamart with {metric} counts few pairs, those with the first relevant document of "
            f"a query or above it, and learns little from them: use yetiloss with this metric, "
            f"which smooths it, or lambdamart with ndcg@10.",
            stacklevel=3,
        )


def start_trees(
    train: Documents,
    valid: Mapping[str, Documents],
    parameters: Parameters,
    *,
    resume: Any = None,
    base_model: Any = None,
    preferences: Preferences | None = None,
    measures: Measures | None = None,
    offset: float = 0.0,
    shared_bins: SharedBins | None = None,
    n_jobs: int | None = None,
) -> Run:
    """A run that has grown no tree yet; what cannot be done is refused before data are binned.

    Parameters
    ----------
    resume, base_model, preferences
        As for `Ranker.fit`.
    measures
        What validation measures; by default the metrics of the parameters.
    offset
        What all scores are higher by than labels and base scores say.
    shared_bins
        Keeps the bins of one run for the next.
    """
    earlier = load_checkpoint(resume)
    if earlier is not None and base_model is not None:
        raise refusal("base_model", "be left out where training goes on", got="both")
    base, train, sets = apply_base(base_model, train, valid)
    check_sets(train, sets, parameters)
    warn_of_few_pairs(parameters.make_objective())
    if base is not None:
        check_categories(base, train, parameters)
    constraints = None
    if bounds := parameters.bounds:
        if preferences is not None:
            raise refusal("constraints", "be left out with preferences", got="both")
        check_reachable(train, bounds, n_jobs)
        constraints, sets = Constraints(bounds), with_train(train, sets)
    if earlier is not None:
        check_resumable(earlier, train, sets, parameters, data_checksum(train, preferences, n_jobs))
    validation = Validation(
        sets, measures or MetricMeasures(parameters.metrics()), parameters.early_stopping_rounds,
        None if earlier is None else earlier.history, n_jobs, constraints,
    )  # fmt: skip
    if earlier is not None:
        check_same_validation(earlier, sets, validation, n_jobs)
    if isinstance(train, BinnedData):
        needed = training_memory(train, sets, parameters)
        check_memory(needed, available_memory(), MEMORY_ADVICE)
    before = base or earlier
    trainer = TreeTrainer(
        train, sets, parameters, earlier=None if before is None else before.ensemble,
        n_base_trees=base.n_trees if base else earlier.n_base_trees if earlier else 0,
        start_scores=base_scores_of if before is None
        else lambda data: score_with(before, data, n_jobs),
        offset=offset, preferences=preferences, shared_bins=shared_bins, n_jobs=n_jobs,
    )  # fmt: skip
    if earlier is not None:
        check_same_bins(earlier, trainer)
    trainer.start_constraints(validation)
    return Run(trainer, validation)


def no_split_text(parameters: Parameters, n_rows: int, reason: str) -> str:
    """What an estimator warns of when no tree has a split; `reason` is what its data must have."""
    options, objective = parameters.resolve(n_rows).trees, parameters.make_objective()
    text = (
        f"training found nothing to split by, so that all {n_rows} rows have the same score. Give "
        f"{reason}, or a smaller min_samples_leaf, which is {options.min_samples_leaf}, or "
        f"min_child_weight, which is {options.min_child_weight:g}."
    )
    if isinstance(objective, Pairwise) and not (
        objective.is_random or objective.has_all_neighbours
    ):
        text += (
            " Without noise, equal scores stand in the tie order of the metric, in which near "
            "ranks may have no pair of different labels: give noise, neighbours=all or a metric "
            "with ties=stable."
        )
    return text
