"""Models whose score is the average of members: one ensemble of all their trees, and networks.

A member's scores are divided by their spread on the training documents, centred in each query, and
weighed by its share. Its centre is left out: a constant per query changes no ranking. So trees of
all members are trees of one ensemble, each leaf times the factor of its member, and whatever takes
a model of trees takes this one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit.exact import exact_sums
from rankgrove.data.documents import Documents
from rankgrove.data.sparse_features import Features
from rankgrove.errors import ParameterError
from rankgrove.model.base import MEMBERS, Floats, ScoringModel
from rankgrove.model.combined import CombinedModel, common_schema
from rankgrove.model.files import History
from rankgrove.model.model import Model
from rankgrove.trees.ensemble import Ensemble


@dataclass(frozen=True)
class Member:
    """A model that is part of an average.

    Attributes
    ----------
    model
        The model, of trees or a network.
    kind
        What it was trained by.
    factor
        What its scores are multiplied by: its share by their spread.
    share
        How much it counts, of all planned members together 1.
    """

    model: ScoringModel
    kind: str
    factor: float
    share: float

    @property
    def note(self) -> dict[str, Any]:
        """What the notes of the average say of it."""
        size = {"trees": self.model.n_trees} if isinstance(self.model, Model) else {}
        return {"objective": self.kind, "share": self.share, "factor": self.factor,
                "seed": self.model.parameters.get("random_state", 0),
                "steps": self.model.n_kept_steps, **size}  # fmt: skip


def scaled_member(model: ScoringModel, factor: float) -> ScoringModel:
    """A model of trees with each leaf times a factor; a network as it is."""
    if not isinstance(model, Model):
        return model
    ensemble = model.ensemble
    return replace(model, ensemble=replace(ensemble, value=ensemble.value * factor))


def average_members(
    members: Sequence[Member],
    parameters: dict[str, Any],
    history: History,
    notes: dict[str, Any],
) -> Model | CombinedModel:
    """The model of members, whose trees have their factor in them already.

    All of trees, it is one `Model`; otherwise a `CombinedModel` of that one, if there are trees,
    and the networks.
    """
    of_trees = [member for member in members if isinstance(member.model, Model)]
    networks = [member for member in members if not isinstance(member.model, Model)]
    notes = notes | {MEMBERS: [member.note for member in (*of_trees, *networks)]}
    if not networks:
        return Model(_joined(of_trees), _schema(of_trees), parameters, history, notes=notes)
    parts: list[ScoringModel] = []
    if of_trees:
        parts.append(Model(_joined(of_trees), _schema(of_trees), parameters, {}))
    weights = [1.0] * len(parts) + [member.factor for member in networks]
    parts += [member.model for member in networks]
    return CombinedModel(
        tuple(parts), weights=tuple(weights), parameters=parameters, history=history, notes=notes
    )


def _schema(members: Sequence[Member]) -> Any:
    return common_schema([member.model for member in members])


def _joined(members: Sequence[Member]) -> Ensemble:
    ensembles = [member.model.ensemble for member in members]  # type: ignore[attr-defined]
    return Ensemble.from_trees([tree for one in ensembles for tree in one.trees()])


def members_of(model: ScoringModel) -> list[Member]:
    """The members of an average, as `average_members` was given them."""
    notes = model.notes.get(MEMBERS)
    if not notes:
        raise ParameterError(
            f"members must be asked of a model that was trained with several. Got {model!r}: "
            f"train with members=5, or a mix."
        )
    trees = model if isinstance(model, Model) else _tree_part(model)
    networks = list(model.parts[1 if trees else 0 :]) if isinstance(model, CombinedModel) else []
    found, first = [], 0
    for note in notes:
        own: Any
        if "trees" in note and trees is not None:
            last = first + int(note["trees"])
            own = Model(
                trees.ensemble.between(first, last), trees.schema,
                model.parameters | {"random_state": note["seed"]}, {}, model.version,
            )  # fmt: skip
            first = last
        else:
            own = networks.pop(0)
        found.append(Member(own, note["objective"], note["factor"], note["share"]))
    return found


def _tree_part(model: Any) -> Model | None:
    first = model.parts[0]
    return first if isinstance(first, Model) else None


def spread_over_members(
    model: ScoringModel, data: Any, features: Features, n_jobs: int | None
) -> Floats:
    """How far members differ on each document: see `ScoringModel.spread`."""
    members = members_of(model)
    offsets = data.offsets if isinstance(data, Documents) else np.array([0, len(features)])
    if len(features) == 0:
        return np.zeros(0)
    shares = np.array([member.share for member in members])
    scores = np.stack([
        centred(own / share, offsets)
        for own, share in zip(_scores(members, features, n_jobs), shares, strict=True)
    ])  # fmt: skip
    shares = shares / shares.sum()
    deviation: Floats = np.sqrt(shares @ (scores - shares @ scores) ** 2)
    return deviation


def _scores(members: Sequence[Member], features: Features, n_jobs: int | None) -> Iterator[Floats]:
    """What each member adds to the score of the average."""
    for member in members:
        own = member.model._score(features, None, None, n_jobs)
        yield own if isinstance(member.model, Model) else member.factor * own


def centred(scores: Floats, offsets: NDArray[np.int64]) -> Floats:
    """Scores less the mean of their query.

    >>> centred(np.array([1.0, 3.0, 7.0]), np.array([0, 2, 3])).tolist()
    [-1.0, 1.0, 0.0]
    >>> centred(np.array([0.1] * 3), np.array([0, 3])).tolist()
    [0.0, 0.0, 0.0]
    """
    sizes = np.diff(offsets)
    query = np.repeat(np.arange(len(sizes)), sizes)
    # From the first one of the query: so equal scores are 0 exactly, and not by a last bit.
    rest = scores - scores[offsets[:-1]][query]
    # (It adds in the order of the rows, on any processor.)
    return rest - (np.bincount(query, weights=rest) / sizes)[query]


def spread_of(scores: Floats, offsets: NDArray[np.int64]) -> float:
    """The standard deviation of scores that are centred in each query.

    >>> spread_of(np.array([1.0, 3.0, 7.0, 9.0]), np.array([0, 2, 4]))
    1.0
    """
    (total,) = exact_sums([centred(scores, offsets) ** 2])
    return math.sqrt(total / len(scores))


def standardised(scores: Floats, offsets: NDArray[np.int64]) -> Floats:
    """Scores centred in each query, by their spread; 0 where all are equal in every query."""
    spread = spread_of(scores, offsets)
    return centred(scores, offsets) / spread if spread > 0 else np.zeros(len(scores))
