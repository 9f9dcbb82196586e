"""Models made of models: weighted sums of several, or trees on the scores of several.

A file of a combined model has the metadata and tensors of each model in it, as in a file of its
own, under the names `part_0.`, `part_1.`, … and `top.` for trees on scores. And:

    part_0.format  of each part that is no model of trees
    weights        JSON: {"weights": one number per part}, where there is no top
    parameters, history, notes
                   JSON, as in a file of trees, of a weighted sum that was trained as one

A file with any of these has format_version 2, one without them 1; one of models whose schema has
levels has 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from rankgrove._version import __version__
from rankgrove.data.dataset import default_feature_names
from rankgrove.data.sparse_features import Features
from rankgrove.errors import DataError, ParameterError, refusal
from rankgrove.model.base import Floats, ScoringModel, model_class
from rankgrove.model.files import (
    AGAIN,
    COMBINED,
    NETWORK,
    TREES,
    Arrays,
    History,
    are_numbers,
    describe,
    from_json,
    named_under,
    refuse,
    taken_from,
    to_json,
    training_of,
)
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.trees.ensemble import Ensemble

# The parts of a file: models by number, and the one on top.
_PART, _TOP = "part_{}", "top"
_OF_TRAINING = ("parameters", "history", "notes")


def common_schema(models: Sequence[ScoringModel]) -> Schema:
    """The schema of models that take the same features and base scores; trees, categories too.

    Default names, f1 to fN, go with any. Models that differ are refused.
    """
    default = default_feature_names(models[0].n_features)
    named = [model.schema for model in models if model.feature_names != default]
    # A network takes a category as the number that it is.
    of_trees = [model.schema for model in models if isinstance(model, Model)]
    schema = replace(
        named[0] if named else models[0].schema,
        categories=of_trees[0].categories if of_trees else {},
        levels=of_trees[0].levels if of_trees else {},
    )
    for number, model in enumerate(models, start=1):
        if model.feature_names not in (schema.feature_names, default):
            difference = "features"
        elif isinstance(model, Model) and model.schema.named_categories != schema.named_categories:
            difference = "categories"
        elif model.schema.needs_base_scores != schema.needs_base_scores:
            difference = "need of base scores"
        else:
            continue
        raise DataError(
            f"models must have the same {difference} to be combined into one. Got model {number} "
            f"with others than those before: combine their scores instead."
        )
    return schema


def weigh_models(
    models: Sequence[ScoringModel], weights: Sequence[float] | Floats
) -> Model | CombinedModel:
    """One model whose score is the weighted sum of the scores of several.

    Of models of trees it is one as well, with all their trees, each leaf times the weight of its
    model: its scores are the weighted sum but for rounding, as terms are added tree by tree. With
    a network it is a `CombinedModel`. Models without weight are left out. Models on top of base
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
    shares = _checked_weights(weights, len(models), schema)
    pairs = list(zip(models, shares, strict=True))
    parts = [part for pair in pairs for part in _weighed_parts(*pair)]
    if not all(isinstance(model, Model) for model, _ in parts):
        chosen, weights = zip(*parts, strict=True)
        return CombinedModel(chosen, weights=weights)
    trees = [
        replace(tree, value=tree.value * share)
        for model, share in parts
        for tree in model.ensemble.trees()
    ]
    origins = [{"trees": model.n_trees, "weight": share} for model, share in pairs]
    return Model(Ensemble.from_trees(trees), schema, {}, {}, notes={"combined": origins})


def _weighed_parts(model: ScoringModel, share: float) -> list[tuple[Any, float]]:
    """What a model with a weight is a weighted sum of: itself, or its parts if it is one."""
    if share == 0.0:
        return []
    if isinstance(model, CombinedModel) and model.weights is not None:
        pairs = zip(model.parts, model.weights, strict=True)
        return [(part, share * weight) for part, weight in pairs]
    return [(model, share)]


@dataclass(frozen=True, eq=False, repr=False)
class CombinedModel(ScoringModel):
    """Several models that score as one: the weighted sum of their scores, or trees on them.

    The `n_trees` of `predict` are those on top. Trees on scores do not add up what their parts do,
    so that they have no contributions; those of a weighted sum are the weighted sum of its parts'.

    Attributes
    ----------
    parts
        The models, trees or networks, all of the same features.
    top
        The model of trees whose features are their scores; None for a weighted sum.
    weights
        Of a weighted sum, one per part; None for trees on scores.
    version
        Of the Rankgrove that made it.
    schema
        That which all parts share.
    parameters, history, notes
        Those of the trees on top; of a weighted sum, those that it is given.

    >>> from rankgrove import Ranker, combine, make_web_search
    >>> data = make_web_search(60, 16, mean_documents=8)
    >>> a, b = (Ranker(n_estimators=n).fit(data).model_ for n in (2, 3))
    >>> combine(data, {"a": a, "b": b}, method="lambdamart", parameters={"n_estimators": 2}).model
    <CombinedModel: 2 trees on the scores of 2 models, 16 features>
    >>> CombinedModel((a, b), weights=(0.25, 0.75))
    <CombinedModel: the weighted sum of 2 models, 16 features>
    """

    _format: ClassVar[str] = COMBINED

    parts: tuple[ScoringModel, ...]
    top: Model | None = None
    weights: tuple[float, ...] | None = None
    version: str = __version__
    parameters: dict[str, Any] = field(default_factory=dict)
    history: History = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        if not self.parts or not all(part._format in (TREES, NETWORK) for part in self.parts):
            raise DataError(
                "the parts of a combined model must be models of trees or networks. Got others: "
                "combine their scores instead."
            )
        if (self.top is None) == (self.weights is None):
            raise DataError("a combined model must have weights or a top. Got both or neither.")
        object.__setattr__(self, "schema", common_schema(self.parts))
        if self.top is not None:
            for name in ("parameters", "history", "notes"):
                object.__setattr__(self, name, getattr(self.top, name))
        self._keep_plain_values()
        if self.top is not None and (
            len(self.parts) != self.top.n_features or self.top.schema.needs_base_scores
        ):
            raise DataError(
                f"the top of a combined model must take the scores of its {len(self.parts)} parts. "
                f"Got {self.top!r}."
            )
        if self.weights is not None:
            shares = _checked_weights(self.weights, len(self.parts), self.schema)
            object.__setattr__(self, "weights", tuple(shares))

    @property
    def n_trees(self) -> int:
        """The trees on top."""
        return 0 if self.top is None else self.top.n_trees

    @property
    def n_kept_steps(self) -> int:
        return self.n_members if self.top is None else self.top.n_kept_steps

    def describe(self) -> dict[str, Any]:
        """What is worth knowing of it, as plain values; of each part, too."""
        return super().describe() | {
            "trees": self.n_trees,
            "weights": None if self.weights is None else list(self.weights),
            "parts": [part.describe() for part in self.parts],
        }

    def _score(
        self, features: Features, base: Floats | None, n_trees: int | None, n_jobs: int | None
    ) -> Floats:
        if self.top is None and n_trees is not None:
            raise refusal("n_trees", "be left out for a weighted sum of models", n_trees)
        scores = [part._score(features, base, None, n_jobs) for part in self.parts]
        if self.top is None:
            return self._weigh(scores)
        return self.top._score(np.column_stack(scores).astype(np.float32), None, n_trees, n_jobs)

    @property
    def adds_up(self) -> bool:
        return self.top is None

    def _contributions(self, features: Features, base: Floats | None, n_jobs: int | None) -> Floats:
        if self.top is not None:
            raise ParameterError(
                "contributions must be asked of a model that adds up. Got trees on the scores of "
                "other models: ask `top`, whose features are those scores, and each of `parts`."
            )
        return self._weigh([part._contributions(features, base, n_jobs) for part in self.parts])

    def _weigh(self, values: Sequence[Floats]) -> Floats:
        """The weighted sum of what each part gives, in the order of the parts."""
        pairs = zip(self.weights or (), values, strict=True)
        total: Floats = sum(weight * value for weight, value in pairs)  # type: ignore[assignment]
        return total

    def used_features(self) -> Any:
        return np.unique(np.concatenate([part.used_features() for part in self.parts]))

    @property
    def _file_version(self) -> int:
        if self.schema.levels:
            return 3
        of_trees = all(part._format == TREES for part in self.parts)
        return 1 if of_trees and self.weights is None else 2

    def _to_file(self) -> tuple[dict[str, str], Arrays]:
        models: dict[str, ScoringModel]
        models = {_PART.format(number): part for number, part in enumerate(self.parts)}
        metadata, arrays = {"rankgrove_version": self.version}, Arrays()
        if self.top is not None:
            models[_TOP] = self.top
        else:
            metadata["weights"] = to_json({"weights": self.weights})
            if self.notes:
                trained = describe(self)
                metadata |= {name: trained[name] for name in _OF_TRAINING}
        for name, model in models.items():
            if getattr(model, "is_own", False):
                raise ParameterError(
                    "the networks of a combined model must be of layers that Rankgrove builds to "
                    "be saved. Got a module of one's own, which a file cannot describe."
                )
            entries, tensors = model._to_file()
            if model._format != TREES:
                entries["format"] = model._format
            metadata |= named_under(name, entries)
            arrays |= named_under(name, tensors)
        return metadata, arrays

    @classmethod
    def _from_file(cls, metadata: dict[str, str], arrays: Arrays) -> Self:
        weights = None
        names = {name.partition(".")[0] for name in arrays}
        if "weights" in metadata:
            weights = from_json(metadata, "weights").get("weights")
            if not are_numbers(weights):
                refuse(f"must have weights that are numbers. Got others. {AGAIN}")
        n_parts = len(names - {_TOP})
        wanted = [_PART.format(number) for number in range(n_parts)]
        wanted += [_TOP] if weights is None else []
        if n_parts < 1 or names != set(wanted):
            refuse(f"must hold the arrays of models from part_0 on, and of top. {AGAIN}")
        models = [_read_part(name, metadata, arrays) for name in wanted]
        version = metadata.get("rankgrove_version", "unknown")
        if weights is not None:
            trained = training_of(metadata) if "notes" in metadata else {}
            return cls(tuple(models), None, tuple(weights), version, **trained)
        if not isinstance(models[-1], Model):
            refuse(f"must have trees on top. Got another model. {AGAIN}")
        return cls(tuple(models[:-1]), models[-1], None, version)

    def __repr__(self) -> str:
        n_parts = len(self.parts)
        score = "the weighted sum" if self.top is None else f"{self.n_trees} trees on the scores"
        return f"<CombinedModel: {score} of {n_parts} models, {self.n_features} features>"


def _checked_weights(weights: Any, n_models: int, schema: Schema) -> list[float]:
    shares = [float(weight) for weight in weights]
    if len(shares) != n_models or not np.isfinite(shares).all():
        raise ParameterError(f"weights must be a finite number a model, {n_models}. Got others.")
    if schema.needs_base_scores and abs(sum(shares) - 1.0) > 1e-9:
        raise refusal("weights of models on top of base scores", "add up to 1", sum(shares))
    return shares


def _read_part(name: str, metadata: dict[str, str], arrays: Arrays) -> ScoringModel:
    entries = taken_from(name, metadata)
    format_name = entries.get("format", TREES)
    if format_name not in (TREES, NETWORK):
        refuse(f"must be made of trees and networks. Got {format_name[:40]!r} as {name}. {AGAIN}")
    model: ScoringModel = model_class(format_name)._from_file(entries, taken_from(name, arrays))
    return model
