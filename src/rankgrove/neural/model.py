"""The model of a network: what training gives, scoring uses and a file keeps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from rankgrove._version import __version__
from rankgrove.data.matrix import base_of, features_of
from rankgrove.errors import ParameterError
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema
from rankgrove.neural.files import read_network, write_network
from rankgrove.neural.networks import score_chunks
from rankgrove.neural.transform import Transform

Floats = NDArray[np.float64]

# Where the parameters of a model note how many epochs it was trained for.
N_EPOCHS = "n_epochs"


@dataclass(frozen=True, eq=False, repr=False)
class NetworkModel:
    """A trained network with its transform, schema, parameters and history.

    It takes the data that a `Model` of trees takes, and has its methods for scoring and for files.

    Attributes
    ----------
    module
        The network, on the CPU.
    transform
        What is done to features before.
    schema
        The features it takes.
    parameters
        As given to training: JSON values.
    history
        For each validation set, for each metric, its value after each epoch.
    is_own
        Whether the network is a module of the user's own, which a file does not describe.
    base
        The trees that the network was trained on top of, which are part of it, or None.
    version
        Of the Rankgrove that trained the model.
    """

    module: nn.Module
    transform: Transform
    schema: Schema
    parameters: dict[str, Any]
    history: dict[str, dict[str, list[float]]]
    is_own: bool = False
    base: Model | None = None
    version: str = __version__

    @property
    def n_features(self) -> int:
        return self.schema.n_features

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.schema.feature_names

    @property
    def n_weights(self) -> int:
        """The number of weights that training sets."""
        return sum(weights.numel() for weights in self.module.parameters())

    @property
    def n_epochs(self) -> int:
        """The epochs of training that the network keeps."""
        return int(self.parameters.get(N_EPOCHS, 0))

    def predict(
        self,
        data: Any,
        *,
        n_trees: int | None = None,
        base_scores: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Floats:
        """The score of each document; higher is better.

        Parameters
        ----------
        data
            What to score, as for `Model.predict`.
        n_trees
            Must be None, as a network has no trees.
        base_scores
            What to start from, as for `Model.predict`.
        n_jobs
            Threads; the scores have the same bits for any number.
        """
        if n_trees is not None:
            raise ParameterError(f"n_trees must be left out for a network. Got {n_trees!r}.")
        features = features_of(data, self.feature_names)
        start = self._start(data, base_scores, len(features), n_jobs)
        scores = score_chunks(
            self.module,
            len(features),
            lambda rows: self.transform.apply(features[rows], 1),
            # A module of the user's own may keep things that threads must not share.
            1 if self.is_own else n_jobs,
        )
        return scores if start is None else scores + start

    # As a function of features it is a base model for trees.
    __call__ = predict

    def weights_and_scorer(
        self, data: Any, *, base_scores: ArrayLike | None = None
    ) -> tuple[Floats, Callable[[Floats], Floats]]:
        """All weights as one vector, and the function from such a vector to the scores of data.

        Scores are computed in float64, so that small steps of the weights show. For tests of
        whether training has found a maximum (Burges 2010, section 4.2).
        """
        features = features_of(data, self.feature_names)
        start = self._start(data, base_scores, len(features), None)
        module = copy.deepcopy(self.module).double()
        inputs = torch.from_numpy(self.transform.apply(features).astype(np.float64))
        weights = nn.utils.parameters_to_vector(module.parameters()).detach().numpy().copy()

        def scores_of(vector: Floats) -> Floats:
            given = np.asarray(vector, dtype=np.float64)
            if given.shape != weights.shape:
                raise ParameterError(
                    f"weights must be a vector of {len(weights)}. Got shape {given.shape}."
                )
            nn.utils.vector_to_parameters(torch.tensor(given), module.parameters())
            scores = score_chunks(module, len(features), lambda rows: inputs[rows], 1)
            return scores if start is None else scores + start

        return weights, scores_of

    def _start(
        self, data: Any, base_scores: ArrayLike | None, n_rows: int, n_jobs: int | None
    ) -> Floats | None:
        """What the network adds to, one a document, or None for 0."""
        if self.base is not None:
            return self.base.predict(data, base_scores=base_scores, n_jobs=n_jobs)
        return base_of(data, base_scores, n_rows, needed=self.schema.needs_base_scores)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a model file, best named `.safetensors`; it appears whole or not at all."""
        write_network(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], module: Any = None) -> NetworkModel:
        """The model of a file that `save` wrote; anything else is a `ModelFileError`.

        A file runs no code. A network that was trained from a module of one's own must be given
        that `module` again, or the function that makes it: the file has its weights only.
        """
        return cls(**read_network(path, module))

    def __repr__(self) -> str:
        base = f", on {self.base.n_trees} trees" if self.base is not None else ""
        needs = ", needs base scores" if self.schema.needs_base_scores else ""
        return (
            f"<NetworkModel: {self.n_weights} weights, {self.n_features} features{base}{needs}, "
            f"by Rankgrove {self.version}>"
        )
