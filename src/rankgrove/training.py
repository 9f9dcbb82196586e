"""Training from data to a model: the loop with its progress, checkpoints and going on from one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

from rankgrove.boosting.loop import Callback, Training
from rankgrove.boosting.parameters import Parameters
from rankgrove.boosting.progress import Progress
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, ParameterError, whole_number
from rankgrove.model.model import Model
from rankgrove.model.schema import Schema

# What may differ when training goes on from a checkpoint.
_FREE_ON_RESUME = {"n_estimators", "early_stopping_rounds"}

# The parameters of a saved model also say which data it was trained on.
_FINGERPRINT = "data_fingerprint"


def train_trees(
    train: Dataset,
    valid: Mapping[str, Dataset],
    parameters: Parameters,
    *,
    callbacks: Iterable[Callback] = (),
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: int = 50,
    resume: str | PathLike[str] | Model | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
) -> Training:
    """Run a training to its end, or to Ctrl-C; see `Ranker.fit` for what each argument means."""
    if not isinstance(callbacks, Iterable):
        raise ParameterError(f"callbacks must be a list of functions. Got {callbacks!r}.")
    if checkpoint is not None:
        callbacks = [*callbacks, _Checkpoint(checkpoint, checkpoint_every)]
    earlier = Model.load(resume) if isinstance(resume, (str, PathLike)) else resume
    if earlier is not None:
        _check_resumable(earlier, train, valid, parameters)
        if parameters.shrink_rate:
            raise ParameterError(
                "training with shrink_rate must run in one go: shrunken trees do not give back the "
                "bits of the scores. Got a model to go on from."
            )
    training = Training(
        train, valid, parameters, earlier=None if earlier is None else earlier.ensemble,
        history=None if earlier is None else earlier.history, n_jobs=n_jobs,
    )  # fmt: skip
    if earlier is not None:
        _check_same_data(earlier, training)
    with Progress() if verbose else nullcontext() as progress:
        training.run([*callbacks, *([progress] if progress is not None else [])])
    return training


def make_model(training: Training, n_trees: int | None = None) -> Model:
    """The model of the first trees of a run; by default of those that it keeps."""
    n_trees = training.kept_trees() if n_trees is None else n_trees
    categories = {
        feature: tuple(float(value) for value in values)
        for feature, values in training.bins.categories.items()
    }
    schema = Schema(
        training.train.feature_names, categories, training.train.base_scores is not None
    )
    parameters = {**training.parameters.as_json(), _FINGERPRINT: training.fingerprint}
    return Model(training.ensemble_of(n_trees), schema, parameters, training.history)


def _check_resumable(
    earlier: Any, train: Dataset, valid: Mapping[str, Dataset], parameters: Parameters
) -> None:
    """Refuse to go on from a model of other parameters, features or validation sets."""
    if not isinstance(earlier, Model):
        raise ParameterError(f"resume must be a file or a Model. Got {type(earlier).__name__}.")
    for name, value in parameters.as_json().items():
        if name not in _FREE_ON_RESUME and earlier.parameters.get(name) != value:
            raise ParameterError(
                f"training must go on with the parameters of the checkpoint. Got "
                f"{name}={value!r} in place of {earlier.parameters.get(name)!r}."
            )
    if parameters.n_estimators < earlier.n_trees:
        raise ParameterError(
            f"n_estimators must be at least the {earlier.n_trees} trees of the checkpoint. Got "
            f"{parameters.n_estimators}."
        )
    if earlier.feature_names != train.feature_names:
        raise DataError("training must go on with the data of the checkpoint. Got other features.")
    if list(earlier.history) != list(valid):
        raise DataError(
            f"training must go on with the validation sets of the checkpoint, "
            f"{list(earlier.history)}. Got {list(valid)}."
        )
    lengths = {len(values) for curves in earlier.history.values() for values in curves.values()}
    if lengths - {earlier.n_trees}:
        raise DataError(
            "training must go on from a checkpoint. Got a model that early stopping has cut: its "
            "history is longer than its trees."
        )


def _check_same_data(earlier: Model, training: Training) -> None:
    """Refuse to go on from a model of other data."""
    if earlier.parameters.get(_FINGERPRINT) != training.fingerprint:
        raise DataError(
            "training must go on with the data of the checkpoint. Got other training data."
        )
    if earlier.n_trees and not training.validation_is_that_of_last_tree():
        raise DataError(
            "training must go on with the data of the checkpoint. Got other validation data: "
            "the checkpoint has other values of the metrics."
        )


class _Checkpoint:
    """Writes the model so far every so many trees."""

    def __init__(self, path: str | PathLike[str], every: int) -> None:
        whole_number("checkpoint_every", every, 1)
        folder = Path(path).absolute().parent
        if not folder.is_dir():
            raise ParameterError(f"checkpoint must be in a folder that exists. Got {folder}.")
        self._path, self._every = path, every

    def __call__(self, training: Training) -> None:
        if len(training.trees) % self._every == 0:
            make_model(training, len(training.trees)).save(self._path)
