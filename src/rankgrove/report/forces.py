"""The section `forces`: what pushed the documents of a few queries, tree by tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankgrove.data.dataset import Dataset
from rankgrove.errors import RankgroveError
from rankgrove.metrics.base import Floats
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.model.forces import forces_over_trees, training_objective
from rankgrove.model.model import Model
from rankgrove.report.material import Integers, Material, digits_for, every_nth, plain_numbers

# Numbers of trees at which documents and forces are shown.
FRAMES = 30
# A ranking of more documents is no picture.
MOST_DOCUMENTS = 100
# Beside the objective of the model: pairs that all count the same, and pairs that count by NDCG.
_BESIDE = ("rankmart", "lambdamart")
_SIGNIFICANT = 4


def no_forces(model: Model) -> str | None:
    """Why a model has no forces to show: in one sentence; None if it has some."""
    try:
        training_objective(model)
    except RankgroveError:
        return "The model does not say by which objective it was trained."
    return None if model.n_trees else "The model has no trees."


def make_forces(material: Material, n_queries: int) -> list[dict[str, Any]]:
    """For each model of trees and each of a few queries, scores and forces through training.

    The queries are those of training where they are given, evenly spread, and else those of the
    report that changed most. An objective that draws noise is shown by one draw.
    """
    found = []
    for number, (name, candidate) in enumerate(material.candidates.items()):
        model, part = candidate.model, candidate.train or candidate.data
        if not isinstance(model, Model) or part is None or no_forces(model):
            continue
        chosen = _choose(material, part, n_queries, of_train=candidate.train is not None)
        if len(chosen):
            frames = _films(material, model, part.take_queries(chosen))
            for at, query in enumerate(chosen.tolist()):
                found.append(
                    {
                        "candidate": number,
                        "name": name,
                        "part": "data" if candidate.train is None else "train",
                        "number": query if candidate.train is None else None,
                        **frames[at],
                    }
                )
    return found


def _choose(material: Material, part: Dataset, n_queries: int, *, of_train: bool) -> Integers:
    """Queries of several labels and not too many documents, rising."""
    starts = part.offsets[:-1]
    lowest, highest = (edge.reduceat(part.labels, starts) for edge in (np.minimum, np.maximum))
    fit = np.flatnonzero((lowest < highest) & (part.group <= MOST_DOCUMENTS))
    if of_train:
        return every_nth(fit, n_queries)
    by_change = np.argsort(-material.change[fit], kind="stable")
    return np.sort(fit[by_change[:n_queries]])


def _films(material: Material, model: Model, part: Dataset) -> list[dict[str, Any]]:
    """One film for each query of the part."""
    trees = np.unique(np.rint(np.linspace(0, model.n_trees, FRAMES)).astype(np.int64)).tolist()
    own = training_objective(model)
    objectives: dict[str, Any] = {own.name: None}
    objectives |= {name: name for name in _BESIDE if name != own.name}
    forces: dict[str, Floats] = {}
    scores: Floats = np.empty(0)
    for name, objective in objectives.items():
        fields = list(forces_over_trees(model, part, trees, objective, n_jobs=material.n_jobs))
        forces[name] = np.array([field.forces for field in fields])
        if objective is None:
            scores = np.array([field.scores for field in fields])
    metric = material.metrics[0]
    values = np.array([measure_dataset(part, row, metric).per_query(str(metric)) for row in scores])
    films = []
    for query in range(part.n_queries):
        rows = slice(int(part.offsets[query]), int(part.offsets[query + 1]))
        films.append(
            {
                "query": str(part.query_ids[query]),
                "labels": part.labels[rows].astype(float).tolist(),
                "ids": _ids(part, rows),
                "trees": trees,
                "metric": str(metric),
                "values": plain_numbers(values[:, query], 6),
                "scores": _rounded(scores[:, rows]),
                "objective": own.name,
                "is_random": own.is_random,
                "forces": {name: _rounded(found[:, rows]) for name, found in forces.items()},
            }
        )
    return films


def _ids(part: Dataset, rows: slice) -> list[str] | None:
    return None if part.document_ids is None else [str(one) for one in part.document_ids[rows]]


def _rounded(rows: Floats) -> list[list[float | None]]:
    digits = digits_for(rows, _SIGNIFICANT)
    return [plain_numbers(row, digits) for row in rows]
