"""Training from data to a model: the loop with its progress, checkpoints and going on from one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.boosting.loop import Callback, Training
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.data.preferences import Preferences
from rankgrove.errors import DataError, ParameterError, whole_number
from rankgrove.model.base import load
from rankgrove.model.model import N_BASE_TREES, Model
from rankgrove.model.schema import Schema
from rankgrove.training.progress import Progress

# A model to add trees to, its file, or any function from features to scores.
BaseModel = Model | str | PathLike[str] | Callable[[Any], Any]

# What may differ when training goes on from a checkpoint.
_FREE_ON_RESUME = {"n_estimators", "early_stopping_rounds"}

# Where the notes of a model say which data it was trained on.
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
    base_model: BaseModel | None = None,
    preferences: Preferences | None = None,
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
        if base_model is not None:
            raise ParameterError("base_model must be left out where training goes on. Got both.")
    base = None
    if base_model is not None:
        base, train, valid = _with_base(base_model, train, valid)
    n_base_trees = base.n_trees if base else earlier.n_base_trees if earlier else 0
    before = base or earlier
    training = Training(
        train, valid, parameters, earlier=None if before is None else before.ensemble,
        n_base_trees=n_base_trees, history=None if earlier is None else earlier.history,
        preferences=preferences, n_jobs=n_jobs,
    )  # fmt: skip
    if base is not None:
        _check_categories(base, training)
    if earlier is not None:
        _check_same_data(earlier, training)
    with Progress() if verbose else nullcontext() as progress:
        training.run([*callbacks, *([progress] if progress is not None else [])])
    return training


def make_model(training: Training, n_trees: int | None = None) -> Model:
    """The model of the first trees of a run; by default of those that it keeps."""
    n_trees = training.kept_trees() if n_trees is None else n_trees
    train = training.train
    schema = Schema(train.feature_names, training.bins.categories, train.base_scores is not None)
    notes = {_FINGERPRINT: training.fingerprint}
    if training.base_trees:
        notes[N_BASE_TREES] = len(training.base_trees)
    return Model(
        training.ensemble_of(n_trees), schema, training.parameters.as_json(), training.history,
        notes=notes,
    )  # fmt: skip


def no_split_text(parameters: Parameters, n_rows: int, reason: str) -> str:
    """What a face warns of when no tree has a split; `reason` is what its data must have."""
    options = parameters.resolve(n_rows).trees
    return (
        f"training found nothing to split by, so that all {n_rows} rows have the same score. Give "
        f"{reason}, or a smaller min_samples_leaf, which is {options.min_samples_leaf}, or "
        f"min_child_weight, which is {options.min_child_weight:g}."
    )


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
    if parameters.n_estimators < earlier.n_own_trees:
        raise ParameterError(
            f"n_estimators must be at least the {earlier.n_own_trees} trees of the checkpoint. Got "
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
    if lengths - {earlier.n_own_trees}:
        raise DataError(
            "training must go on from a checkpoint. Got a model that early stopping has cut: its "
            "history is longer than its trees."
        )


def _with_base(
    base_model: BaseModel,
    train: Dataset,
    valid: Mapping[str, Dataset],
) -> tuple[Model | None, Dataset, dict[str, Dataset]]:
    """The model to add trees to; or none, and the data with the scores of a function."""
    base = load(base_model) if isinstance(base_model, (str, PathLike)) else base_model
    if isinstance(base, Model):
        if base.feature_names != train.feature_names:
            pairs = zip(train.feature_names, base.feature_names, strict=False)
            other = next((pair for pair in pairs if pair[0] != pair[1]), None)
            got = (
                f"{base.n_features}" if other is None else f"{other[1]!r} in place of {other[0]!r}"
            )
            raise DataError(
                f"the base model must have the {train.n_features} features of the training data in "
                f"the same order. Got {got}."
            )
        if base.schema.needs_base_scores and train.base_scores is None:
            raise DataError(
                "the training data must have base scores, as those of the base model had. Got none."
            )
        return base, train, dict(valid)
    # Whatever can predict is a function from features to scores.
    base = getattr(base, "predict", base)
    if not callable(base):
        raise ParameterError(
            f"base_model must be a model, its file or a function of features. Got "
            f"{type(base).__name__}."
        )
    return None, _scored(base, train), {name: _scored(base, data) for name, data in valid.items()}


def _scored(base: Callable[[Any], Any], data: Dataset) -> Dataset:
    """The data with what a function gives for their features as base scores."""
    if data.base_scores is not None:
        raise DataError("base scores must come from the data or from base_model. Got both.")
    return replace(data, base_scores=scores_by(base, data))


def scores_by(base: Callable[[Any], Any], data: Dataset) -> NDArray[np.float64]:
    """What a function gives for the features of data: one finite score a document."""
    given = base(data.features)
    try:
        scores = np.asarray(given, dtype=np.float64)
        got = f"an array of shape {scores.shape}"
    except (TypeError, ValueError):
        scores, got = np.empty(0), type(given).__name__
    if scores.shape != (data.n_documents,) or not np.isfinite(scores).all():
        raise DataError(
            f"base_model must give one finite score for each of {data.n_documents} documents. Got "
            f"{got}."
        )
    return scores


def _check_categories(base: Model, training: Training) -> None:
    """Refuse a base model that codes categories in another way than its new trees."""
    if base.schema.categories != Schema(base.feature_names, training.bins.categories).categories:
        raise DataError(
            "the base model must have the categorical features of the training data, with the same "
            "categories. Got others."
        )


def _check_same_data(earlier: Model, training: Training) -> None:
    """Refuse to go on from a model of other data."""
    if earlier.notes.get(_FINGERPRINT) != training.fingerprint:
        raise DataError(
            "training must go on with the data of the checkpoint. Got other training data."
        )
    if earlier.n_own_trees and not training.validation_is_that_of_last_tree():
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
