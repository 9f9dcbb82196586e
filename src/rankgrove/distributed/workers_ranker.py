"""What the rankers that train on workers share, on any engine."""

from __future__ import annotations

import warnings
from typing import Any, Self

from rankgrove.distributed.following import FollowedRun
from rankgrove.errors import refusal
from rankgrove.estimators.ranker import Ranker
from rankgrove.metrics.base import Metric
from rankgrove.metrics.spec import parse_metric
from rankgrove.training.trees import no_split_text


class WorkersRanker(Ranker):
    """A Ranker that trains on workers, to the bits of one machine."""

    def to_local(self) -> Ranker:
        """A plain `Ranker` with the same parameters and the same model."""
        names = set(Ranker._get_param_names()) & set(self._get_param_names())
        ranker = Ranker(**{name: getattr(self, name) for name in names})
        if hasattr(self, "model_"):
            ranker._keep(self.model_)
        return ranker

    def parameters(self) -> Any:
        """The checked parameters of training; several members are refused."""
        has_recipe = "members" in self._get_param_names()
        if has_recipe and not self.recipe().plan(has_valid=True).is_single:
            rule = "be left out on workers: train members one by one, then combine them"
            raise refusal("members", rule, got="several")
        return super().parameters()

    def _keep_run(self, run: FollowedRun) -> Self:
        """Become fitted with the model of a run; Ctrl-C goes on to the caller."""
        self._keep(run.make_model())
        if run.interrupted:
            raise KeyboardInterrupt
        if not run.has_learned:
            self._warn(run)
        return self

    def _warn(self, run: Any) -> None:
        reason = "labels that differ within queries and features that differ"
        n_rows = run.sizes[""].n_documents
        warnings.warn(no_split_text(run.parameters, n_rows, reason), stacklevel=4)

    def _metrics(self, metrics: Any) -> list[Metric]:
        """Metrics as asked for; by default those of the parameters."""
        if metrics is None:
            return list(self.parameters().metrics())
        several = [metrics] if isinstance(metrics, (str, Metric)) else list(metrics)
        return [parse_metric(each) if isinstance(each, str) else each for each in several]
