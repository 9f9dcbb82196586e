"""Models made of models: the trees of several in one, or trees on the scores of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.data.dataset import default_feature_names
from rankgrove.errors import DataError, ParameterError
from rankgrove.metrics.base import Floats
from rankgrove.model.files import (
    AGAIN,
    COMBINED_FORMAT,
    from_json,
    history_from_json,
    history_to_json,
    is_combined_file,
    is_network_file,
    read_arrays,
    refuse,
    refusing,
    schema_from_json,
    schema_to_json,
    to_json,
    write_arrays,
)
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.trees.ensemble import Ensemble

# The parts of a file: models by number, and the one on top.
_PART, _TOP = "part_{}", "top"
_ARRAYS = frozenset(Ensemble.from_trees([]).arrays())


def common_schema(models: Sequence[Model]) -> Schema:
    """The schema of models that take the same features, categories and base scores.

    Default names, f1 to fN, go with any. Models that differ are refused.
    """
    default = default_feature_names(models[0].n_features)
    named = [model.schema for model in models if model.feature_names != default]
    schema = named[0] if named else models[0].schema
    for number, model in enumerate(models, start=1):
        own = model.schema
        if own.feature_names not in (schema.feature_names, default):
            what = "features"
        elif own.categories != schema.categories:
            what = "categories"
        elif own.needs_base_scores != schema.needs_base_scores:
            what = "need of base scores"
        else:
            continue
        raise DataError(
            f"models must have the same {what} to be combined into one. Got model {number} with "
            f"others than those before: combine their scores instead."
        )
    return schema


def weigh_models(models: Sequence[Model], weights: Sequence[float] | Floats) -> Model:
    """One model whose score is the weighted sum of the scores of several.

    It has all trees of those with a weight, each leaf times the weight of its model. Its scores
    are the weighted sum but for rounding, as terms are added tree by tree. Models on top of base
    scores must have weights that add up to 1.

    >>> from rankgrove import Ranker, make_web_search
    >>> data = make_web_search(20, 16, mean_documents=8)
    >>> a, b = (Ranker(n_estimators=n, min_samples_leaf=2).fit(data).model_ for n in (2, 3))
    >>> both = weigh_models([a, b], [0.25, 0.75])
    >>> both.n_trees
    5
    >>> np.allclose(both.predict(data), 0.25 * a.predict(data) + 0.75 * b.predict(data))
    True
    """
    schema = common_schema(models)
    shares = [float(weight) for weight in weights]
    if len(shares) != len(models) or not np.isfinite(shares).all():
        raise ParameterError(f"weights must be a finite number a model, {len(models)}. Got others.")
    if schema.needs_base_scores and abs(sum(shares) - 1.0) > 1e-9:
        raise ParameterError(
            f"weights of models on top of base scores must add up to 1. Got {sum(shares)}."
        )
    trees = []
    for model, share in zip(models, shares, strict=True):
        if share != 0.0:
            ensemble = model.ensemble
            used = (ensemble.tree(number) for number in range(ensemble.n_trees))
            trees += [replace(tree, value=tree.value * share) for tree in used]
    made = [
        {"trees": model.n_trees, "weight": share}
        for model, share in zip(models, shares, strict=True)
    ]
    return Model(_without_repeated_sets(trees), schema, {"combined": made}, {})


def _without_repeated_sets(trees: list[Any]) -> Ensemble:
    """The ensemble of trees of which each has the sets of categories of all trees of its model."""
    own = []
    for tree in trees:
        used, place = np.unique(tree.category_set[tree.category_set >= 0], return_inverse=True)
        numbers = tree.category_set.copy()
        numbers[numbers >= 0] = place
        own.append(replace(tree, category_set=numbers, category_sets=tree.category_sets[used]))
    return Ensemble.from_trees(own)


@dataclass(frozen=True, eq=False)
class CombinedModel:
    """A model of trees on top of the scores of other models; it scores as one model.

    Attributes
    ----------
    parts
        The models, all of the same features.
    top
        The model whose features are their scores.

    >>> from rankgrove import Ranker, combine, make_web_search
    >>> data = make_web_search(60, 16, mean_documents=8)
    >>> a, b = (Ranker(n_estimators=n).fit(data).model_ for n in (2, 3))
    >>> combine(data, {"a": a, "b": b}, method="lambdamart", parameters={"n_estimators": 2}).model
    <CombinedModel: 2 trees on the scores of 2 models, 16 features>
    """

    parts: tuple[Model, ...]
    top: Model

    def __post_init__(self) -> None:
        if len(self.parts) != self.top.n_features or self.top.schema.needs_base_scores:
            raise DataError(
                f"the top of a combined model must take the scores of its {len(self.parts)} parts. "
                f"Got {self.top!r}."
            )
        common_schema(self.parts)

    @property
    def schema(self) -> Schema:
        return common_schema(self.parts)

    @property
    def n_features(self) -> int:
        return self.schema.n_features

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.schema.feature_names

    @property
    def n_trees(self) -> int:
        """The trees on top."""
        return self.top.n_trees

    def predict(
        self,
        data: Any,
        *,
        n_trees: int | None = None,
        base_scores: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Floats:
        """The score of each document; as `Model.predict`, `n_trees` being those on top."""
        scores = [part.predict(data, base_scores=base_scores, n_jobs=n_jobs) for part in self.parts]
        features = np.column_stack(scores).astype(np.float32)
        return self.top.predict(features, n_trees=n_trees, n_jobs=n_jobs)

    def save(self, path: str | PathLike[str]) -> None:
        """Write one file with all models in it; it appears whole or not at all."""
        models = {_PART.format(number): part for number, part in enumerate(self.parts)}
        models[_TOP] = self.top
        metadata = {"rankgrove_version": self.top.version}
        arrays: dict[str, NDArray[Any]] = {}
        for name, model in models.items():
            metadata |= {
                f"{name}.schema": schema_to_json(model.schema),
                f"{name}.parameters": to_json(model.parameters),
                f"{name}.history": history_to_json(model.history),
                f"{name}.rankgrove_version": model.version,
            }
            arrays |= {f"{name}.{key}": part for key, part in model.ensemble.arrays().items()}
        write_arrays(COMBINED_FORMAT, metadata, arrays, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> CombinedModel:
        """The model of a file that `save` wrote; anything else is a `ModelFileError`."""
        with refusing(path):
            metadata, arrays = read_arrays(COMBINED_FORMAT, path)
            count = len({name.partition(".")[0] for name in arrays}) - 1
            names = [*(_PART.format(number) for number in range(count)), _TOP]
            if count < 1 or arrays.keys() != {f"{name}.{key}" for name in names for key in _ARRAYS}:
                refuse(f"must hold the arrays of models from part_0 on, and of top. {AGAIN}")
            models = [_read_part(name, metadata, arrays) for name in names]
            return cls(tuple(models[:-1]), models[-1])

    def __repr__(self) -> str:
        return (
            f"<CombinedModel: {self.top.n_trees} trees on the scores of {len(self.parts)} models, "
            f"{self.n_features} features>"
        )


def _read_part(name: str, metadata: dict[str, str], arrays: dict[str, Any]) -> Model:
    return Model(
        Ensemble(**{key: arrays[f"{name}.{key}"] for key in _ARRAYS}),
        schema_from_json(metadata, f"{name}.schema"),
        from_json(metadata, f"{name}.parameters"),
        history_from_json(metadata, f"{name}.history"),
        metadata.get(f"{name}.rankgrove_version", "unknown"),
    )


def load_any_model(path: str | PathLike[str]) -> Any:
    """The model of a file: trees, a combined one, or a network; all score in the same way."""
    if is_network_file(path):
        from rankgrove.neural.model import NetworkModel  # noqa: PLC0415 (PyTorch, if needed)

        return NetworkModel.load(path)
    return CombinedModel.load(path) if is_combined_file(path) else Model.load(path)
