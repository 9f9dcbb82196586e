"""Whether an imported model scores as the library that it came from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.dataset import Dataset
from rankgrove.data.matrix import features_of
from rankgrove.errors import DataError
from rankgrove.importing.foreign import IMPORTED, ForeignModel
from rankgrove.importing.importer import Source, content_of, name_of, read_foreign
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.model.files import refusing
from rankgrove.model.model import Model
from rankgrove.testing.peer_scores import score_by_peer
from rankgrove.testing.peers import PEERS
from rankgrove.trees.ensemble import NO_SET

METRIC = "ndcg@10"

# By how much one addition may round, of a sum of 1, in the library that adds least exactly.
_ROUNDING = {"lightgbm": 0.0, "xgboost": 2.0**-24, "catboost": 2.0**-53}
_MADE_DOCUMENTS = 2000


@dataclass(frozen=True)
class ImportCheck:
    """The scores of a model beside those of the library that it came from. Prints as a table.

    Attributes
    ----------
    library
        Its name and version.
    documents, same
        How many were scored, and how many have the same bits of the score.
    difference, bound
        The largest difference of two scores, and the most that rounding explains.
    queries, reordered
        How many there are, and how many are ranked in another order; 0 for documents that were
        made from the thresholds of the model.
    metric_here, metric_there
        NDCG@10 by either, where the documents have labels.
    """

    library: str
    documents: int
    same: int
    difference: float
    bound: float
    queries: int = 0
    reordered: int = 0
    metric_here: float | None = None
    metric_there: float | None = None

    @property
    def passed(self) -> bool:
        """Whether no score differs by more than rounding explains."""
        return self.difference <= self.bound

    def rows(self) -> dict[str, str]:
        """What a table shows, by the names of its columns."""
        found = {
            "checked by": self.library,
            "documents": f"{self.documents:,}",
            "same bits": "all" if self.same == self.documents else f"{self.same:,}",
            "largest difference": f"{self.difference:.2g}" if self.difference else "0",
            "allowed": f"{self.bound:.2g}" if self.bound else "0",
        }
        if self.queries:
            found["queries in another order"] = f"{self.reordered:,} of {self.queries:,}"
        if self.metric_here is not None:
            found[f"{METRIC} here / there"] = f"{self.metric_here:.4f} / {self.metric_there:.4f}"
        return found

    def __str__(self) -> str:
        cells = self.rows()
        widths = [max(len(name), len(value)) for name, value in cells.items()]
        lines = [list(cells), list(cells.values())]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )


def check_import(model: Model, source: Source, data: Any = None) -> ImportCheck:
    """Score documents by an imported model and by the library that it came from.

    Parameters
    ----------
    model, source
        What `import_model` gave, and what it was given.
    data
        A Dataset, or anything that `predict` takes; by default documents that are made from the
        thresholds of the model: each, its neighbours, missing values, every category.
    """
    origin = model.notes.get(IMPORTED)
    if not isinstance(origin, dict) or origin.get("kind") not in PEERS:
        raise DataError("a model must be an imported one to be checked. Got another one.")
    kind = str(origin["kind"])
    with refusing(name_of(source)):
        content = content_of(source)
        foreign = read_foreign(content, kind)
    documents: Any = make_documents(model) if data is None else data
    features = np.asarray(features_of(documents, model.feature_names, model.schema.levels))
    version, theirs = score_by_peer(
        kind, content, _as_peer(model, foreign, features), origin.get("rounds"),
        sorted(foreign.category_values),
    )  # fmt: skip
    ours = model.predict(documents)
    gaps = np.abs(ours - theirs)
    return ImportCheck(
        f"{PEERS[kind].title} {version}", len(ours), int(np.sum(ours == theirs)),
        float(gaps.max(initial=0.0)), score_bound(model), *_by_query(data, ours, theirs),
    )  # fmt: skip


def score_bound(model: Model) -> float:
    """The most that the score of an imported model may differ from the library's by rounding."""
    origin = model.notes[IMPORTED]
    unit = 2.0**-53 if origin.get("averaged") else _ROUNDING[origin["kind"]]
    trees = model.ensemble
    largest = [np.abs(trees.value[trees.leaves_of(t)]).max() for t in range(model.n_trees)]
    return float(unit * (model.n_trees + 2) * sum(largest))


def make_documents(model: Model) -> Dataset:
    """Documents that stand on the thresholds of a model and beside them, the same every time."""
    trees, categories = model.ensemble, model.schema.categories
    draw = np.random.default_rng(0)
    documents = np.empty((_MADE_DOCUMENTS, model.n_features), np.float32)
    for feature in range(model.n_features):
        if feature in categories:
            pool = np.array(categories[feature], np.float32)
        else:
            chosen = (trees.feature == feature) & (trees.category_set == NO_SET)
            on = np.unique(np.append(trees.threshold[chosen], np.float32(0)))
            with np.errstate(over="ignore"):
                sides = [np.nextafter(on, np.float32(side)) for side in (-np.inf, np.inf)]
            pool = np.concatenate([on, *sides])
            pool = pool[np.isfinite(pool)]
        documents[:, feature] = draw.choice(np.append(pool, np.float32(np.nan)), _MADE_DOCUMENTS)
    data = Dataset.from_arrays(
        documents, np.zeros(_MADE_DOCUMENTS), group=[_MADE_DOCUMENTS],
        feature_names=model.feature_names,
    )  # fmt: skip
    return replace(data, levels=model.schema.levels)


def _as_peer(
    model: Model, foreign: ForeignModel, features: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The features with the whole numbers by which the library knows categories of a frame."""
    found = features.copy()
    for feature, values in foreign.category_values.items():
        if values is None or feature not in model.schema.categories:
            continue
        known = model.schema.named_categories[feature]
        numbers = [values.index(value) for value in known]
        column = np.full(len(found), np.nan, np.float32)
        for value, number in zip(model.schema.categories[feature], numbers, strict=True):
            column[features[:, feature] == np.float32(value)] = number
        found[:, feature] = column
    return found


def _by_query(data: Any, ours: Any, theirs: Any) -> tuple[int, int, float | None, float | None]:
    """The queries, those in another order, and the metric by either."""
    if not isinstance(data, Dataset):
        return 0, 0, None, None
    bounds = zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True)
    reordered = 0
    for first, last in bounds:
        here, there = (np.argsort(-s[first:last], kind="stable") for s in (ours, theirs))
        reordered += not np.array_equal(here, there)
    values = [measure_dataset(data, scores, METRIC)[METRIC] for scores in (ours, theirs)]
    return data.n_queries, reordered, values[0], values[1]
