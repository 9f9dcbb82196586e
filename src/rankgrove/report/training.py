"""The section `training`: how the models came about, step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankgrove.data.dataset import Dataset
from rankgrove.experiments.compare.gap import generalisation_gap
from rankgrove.experiments.tables import plain, plain_dict
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.model.by_label import force_totals, labels_by_rank
from rankgrove.model.model import Model, prefix_scores
from rankgrove.report.forces import no_forces
from rankgrove.report.material import Candidate, Material, digits_for, every_nth, plain_numbers

# Points of a curve, and numbers of trees at which labels are counted by rank.
_POINTS = 50
_STAGES = 8
# Documents of the queries whose labels are counted after each of these numbers of trees.
_COUNTED = 100_000
# Numbers of trees at which forces are added up, and documents whose forces these are.
_TOTALS = 20
_PUSHED = 20_000
_SIGNIFICANT = 5


def make_training(material: Material) -> dict[str, Any]:
    """The history of each model, and curves on the data that are there."""
    curves: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for name, candidate in material.candidates.items():
        if not isinstance(candidate.model, Model) or candidate.data is None:
            continue
        found = _curves(material, candidate, candidate.model, rows, name)
        if found:
            curves[name] = found
    return {
        "candidates": [_history(candidate) for candidate in material.candidates.values()],
        "curves": curves,
        "gap": rows,
        "labels_by_rank": _labels_by_rank(material),
        "force_totals": _force_totals(material),
    }


def _history(candidate: Candidate) -> dict[str, Any] | None:
    """What validation said after each step of training; None without a model."""
    model = candidate.model
    if model is None:
        return None
    return {
        "unit": "tree" if isinstance(model, Model) or model.n_trees else "epoch",
        "kept": model.n_kept_steps,
        "history": {
            part: {metric: [plain(value) for value in values] for metric, values in curves.items()}
            for part, curves in model.history.items()
        },
    }


def _curves(
    material: Material, candidate: Candidate, model: Model, rows: list[dict[str, Any]], name: str
) -> dict[str, Any]:
    """The means of each metric after some numbers of trees, on each part of the data.

    The rows of the generalisation gap are added to those given.
    """
    points = _numbers_of_trees(model.n_trees, _POINTS)
    metrics = [str(metric) for metric in material.metrics]
    found: dict[str, Any] = {metric: {"n_trees": points} for metric in metrics}
    if candidate.train is not None and candidate.data is not None:
        every = max(1, math.ceil(model.n_trees / _POINTS))
        gap = generalisation_gap(
            {name: model}, candidate.train, candidate.data, list(material.metrics), every=every,
            n_jobs=material.n_jobs,
        )  # fmt: skip
        rows += [plain_dict(row) for row in gap.rows]
        for metric, curve in gap.curves[name].items():
            found[metric] = {"n_trees": curve.n_trees, "train": curve.train, "test": curve.test}
    if candidate.valid is not None:
        for metric, means in _means(material, model, candidate.valid, points).items():
            found[metric]["valid"] = means
        if candidate.train is None and candidate.data is not None:
            for metric, means in _means(material, model, candidate.data, points).items():
                found[metric]["test"] = means
    return {} if candidate.train is None and candidate.valid is None else found


def _means(
    material: Material, model: Model, data: Dataset, points: Sequence[int]
) -> dict[str, list[float]]:
    """The mean of each metric by the first so many trees."""
    tables = [
        measure_dataset(data, scores, list(material.metrics), n_jobs=material.n_jobs)
        for scores in prefix_scores(model, data, points, material.n_jobs)
    ]
    return {str(metric): [table[str(metric)] for table in tables] for metric in material.metrics}


def _numbers_of_trees(n_trees: int, most: int) -> list[int]:
    step = max(1, math.ceil(n_trees / most))
    return [*range(0, n_trees, step), n_trees]


def _labels_by_rank(material: Material) -> dict[str, Any] | None:
    """Which labels stand at the first ranks after some numbers of trees; None without grades."""
    if material.grades is None or not material.tree_models:
        return None
    n_queries = max(1, material.n_queries * _COUNTED // material.data.n_documents)
    queries = every_nth(np.arange(material.n_queries), n_queries)
    found = {}
    for name, model in material.tree_models.items():
        data = material.candidates[name].data
        if data is not None:
            found[name] = labels_by_rank(
                model, data.take_queries(queries), _numbers_of_trees(model.n_trees, _STAGES),
                top=2 * material.top, n_jobs=material.n_jobs,
            ).to_dict()  # fmt: skip
    return {"queries": len(queries), "candidates": found}


def _force_totals(material: Material) -> dict[str, Any] | None:
    """The sums of forces on the documents of each label through training; None without grades."""
    if material.grades is None:
        return None
    found: dict[str, Any] = {}
    for name, model in material.tree_models.items():
        candidate = material.candidates[name]
        part = candidate.train or candidate.data
        if part is None or no_forces(model):
            continue
        n_queries = max(1, part.n_queries * _PUSHED // part.n_documents)
        queries = every_nth(np.arange(part.n_queries), n_queries)
        totals = force_totals(
            model, part.take_queries(queries), _numbers_of_trees(model.n_trees, _TOTALS),
            n_jobs=material.n_jobs,
        )  # fmt: skip
        found[name] = {
            "part": "data" if candidate.train is None else "train",
            "queries": len(queries),
            **_rounded(totals.to_dict()),
        }
    return found


def _rounded(totals: dict[str, Any]) -> dict[str, Any]:
    for side in ("up", "down"):
        sums = np.array(totals[side])
        digits = digits_for(sums, _SIGNIFICANT)
        totals[side] = [plain_numbers(row, digits) for row in sums]
    return totals
