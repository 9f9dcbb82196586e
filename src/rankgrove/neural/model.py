"""The model of a network: what training gives, scoring uses and a file keeps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from rankgrove._version import __version__
from rankgrove.data.sparse_features import Features
from rankgrove.errors import refusal
from rankgrove.model.base import Floats, ScoringModel
from rankgrove.model.files import NETWORK, Arrays, History, read_file, refusing
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.neural.files import network_from_file, network_to_file
from rankgrove.neural.gradients import integrated_gradients
from rankgrove.neural.networks import score_chunks
from rankgrove.neural.transform import Transform
from rankgrove.training.network_parameters import FORCES_OF

# Where the notes of a model say how many epochs it was trained for.
N_EPOCHS = "n_epochs"


@dataclass(frozen=True, eq=False, repr=False)
class NetworkModel(ScoringModel):
    """A trained network with its transform, schema, parameters and history.

    What it takes as data, and the attributes that are not here, are those of `ScoringModel`.

    Its contributions are integrated gradients, whose formula is in `rankgrove.neural.gradients`:
    the last column has the score of the median document, which has the median of each feature in
    the training data and nothing missing, and a row adds up to the score within
    `gradients.TOLERANCE` of its size. Trees below the network bring their own, which are added.

    Attributes
    ----------
    module
        The network, on the CPU.
    transform
        What is done to features before.
    is_own
        Whether the network is a module of the user's own, which a file does not describe.
    base
        The trees that the network was trained on top of, which are part of it, or None.
    """

    _format: ClassVar[str] = NETWORK

    module: nn.Module
    transform: Transform
    schema: Schema
    parameters: dict[str, Any]
    history: History
    is_own: bool = False
    base: Model | None = None
    version: str = __version__
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._keep_plain_values()

    @property
    def n_weights(self) -> int:
        """The number of weights that training sets."""
        return sum(weights.numel() for weights in self.module.parameters())

    @property
    def n_epochs(self) -> int:
        """The epochs of training that the network keeps."""
        return self._noted_number(N_EPOCHS)

    n_kept_steps = n_epochs

    def describe(self) -> dict[str, Any]:
        """What is worth knowing of it, as plain values."""
        return super().describe() | {
            "weights": self.n_weights,
            "epochs": self.n_epochs,
            "inputs": self.transform.n_inputs,
            "base_trees": 0 if self.base is None else self.base.n_trees,
        }

    def _forces_name(self, objective: Any) -> str:
        return FORCES_OF.get(objective, str(objective))

    def _score(
        self, features: Features, base: Floats | None, n_trees: int | None, n_jobs: int | None
    ) -> Floats:
        if n_trees is not None:
            raise refusal("n_trees", "be left out for a network", n_trees)
        start = self._start(features, base, n_jobs)
        scores = score_chunks(
            self.module,
            len(features),
            lambda rows: self.transform.apply(features[rows], 1),
            # A module of the user's own may keep things that threads must not share.
            1 if self.is_own else n_jobs,
        )
        return scores if start is None else scores + start

    # As a function of features it is a base model for trees.
    __call__ = ScoringModel.predict

    def weights_and_scorer(
        self, data: Any, *, base_scores: ArrayLike | None = None
    ) -> tuple[Floats, Callable[[Floats], Floats]]:
        """All weights as one vector, and the function from such a vector to the scores of data.

        Scores are computed in float64, so that small steps of the weights show. For tests of
        whether training has found a maximum (Burges 2010, section 4.2).
        """
        features, base = self._inputs(data, base_scores)
        start = self._start(features, base, None)
        module = copy.deepcopy(self.module).double()
        inputs = torch.from_numpy(self.transform.apply(features).astype(np.float64))
        weights = nn.utils.parameters_to_vector(module.parameters()).detach().numpy().copy()

        def scores_of(vector: Floats) -> Floats:
            given = np.asarray(vector, dtype=np.float64)
            if given.shape != weights.shape:
                raise refusal(
                    "weights", f"be a vector of {len(weights)}", got=f"shape {given.shape}"
                )
            nn.utils.vector_to_parameters(torch.tensor(given), module.parameters())
            scores = score_chunks(module, len(features), lambda rows: inputs[rows], 1)
            return scores if start is None else scores + start

        return weights, scores_of

    def _start(self, features: Features, base: Floats | None, n_jobs: int | None) -> Floats | None:
        """What the network adds to, one value per document, or None for 0."""
        if self.base is None:
            return base
        return self.base.predict(features, base_scores=base, n_jobs=n_jobs)

    def _contributions(self, features: Features, base: Floats | None, n_jobs: int | None) -> Floats:
        parts = integrated_gradients(
            self.module, self.transform, features, 1 if self.is_own else n_jobs
        )
        if self.base is not None:
            parts += self.base.contributions(features, base_scores=base, n_jobs=n_jobs)
        elif base is not None:
            parts[:, -1] += base
        return parts

    def _to_file(self) -> tuple[dict[str, str], Arrays]:
        return network_to_file(self)

    @classmethod
    def _from_file(cls, metadata: dict[str, str], arrays: Arrays, module: Any = None) -> Self:
        return cls(**network_from_file(metadata, arrays, module))

    @classmethod
    def load(cls, path: str | PathLike[str], module: Any = None) -> Self:
        """The model of a file that `save` wrote; anything else is a `ModelFileError`.

        A file runs no code. A network that was trained from a module of one's own must be given
        that `module` again, or the function that makes it: the file has its weights only.
        """
        with refusing(path):
            return cls._from_file(*read_file(path, cls._format), module)

    def __repr__(self) -> str:
        base = f", on {self.base.n_trees} trees" if self.base is not None else ""
        needs = ", needs base scores" if self.schema.needs_base_scores else ""
        return (
            f"<NetworkModel: {self.n_weights} weights, {self.n_features} features{base}{needs}, "
            f"by Rankgrove {self.version}>"
        )
