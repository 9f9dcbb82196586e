"""Checkpoints: writing the model so far, and what must be the same to go on from one.

Everything is checked before the data are binned. Only a file of Rankgrove 0.1, which notes a number
made from bins, is compared with them once they are there.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.boosting.loop import Boosting
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.checksum import checksum_of_array
from rankgrove.data.documents import Documents
from rankgrove.data.preferences import Preferences
from rankgrove.errors import DataError, ParameterError, refusal, whole_number
from rankgrove.model.base import PLAN
from rankgrove.model.model import Model
from rankgrove.training.trainer import MEMBERS, Unit
from rankgrove.training.validation import Validation

if TYPE_CHECKING:
    from rankgrove.training.run import Run

# What may differ when training goes on.
_FREE_ON_RESUME = {"n_estimators", "early_stopping_rounds", "layout"}

# Where a model notes what data it was trained on; and where it did when that was made from bins.
DATA_CHECKSUM, _OF_BINS = "data_checksum", "data_fingerprint"

_OTHER_DATA = "training must go on with the data of the checkpoint. Got other"


class Checkpoint:
    """A callback that writes the model so far every so many steps."""

    def __init__(self, path: str | PathLike[str], every: int) -> None:
        whole_number("checkpoint_every", every, 1)
        folder = Path(path).absolute().parent
        if not folder.is_dir():
            raise refusal("checkpoint", "be in a folder that exists", got=str(folder))
        self._path, self._every = path, every

    def __call__(self, run: Run) -> None:
        # A member takes as long as other runs: each is written.
        if run.unit is MEMBERS or run.n_steps % self._every == 0:
            run.make_model(run.n_steps).save(self._path)


def gather_callbacks(
    callbacks: Any, checkpoint: str | PathLike[str] | None = None, checkpoint_every: int = 50
) -> list[Any]:
    """The callbacks of a run with the one that writes checkpoints; what is none is refused."""
    if not isinstance(callbacks, Iterable):
        raise refusal("callbacks", "be a list of functions", callbacks)
    return [*callbacks, *([] if checkpoint is None else [Checkpoint(checkpoint, checkpoint_every)])]


def check_can_resume(unit: Unit, **files: Any) -> None:
    """Refuse the files of checkpoints where training cannot go on from one."""
    for name, path in files.items():
        if path is not None and not unit.can_resume:
            raise refusal(name, "be left out for a network", str(path))


def load_checkpoint(resume: Any) -> Model | None:
    """The model to go on from, if there is one."""
    earlier = Model.load(resume) if isinstance(resume, (str, PathLike)) else resume
    if earlier is not None and not isinstance(earlier, Model):
        raise refusal("resume", "be a file or a Model", got=type(earlier).__name__)
    return earlier


def check_resumable(
    earlier: Model,
    train: Documents,
    valid: Mapping[str, Documents],
    parameters: Parameters,
    checksum: int,
) -> None:
    """Refuse to go on from a model of other parameters, data or validation sets."""
    # A parameter that a checkpoint of an earlier version does not know has had its default.
    had = type(parameters)().as_json() | earlier.parameters
    for name, value in parameters.as_json().items():
        if name not in _FREE_ON_RESUME and had[name] != value:
            raise ParameterError(
                f"training must go on with the parameters of the checkpoint. Got "
                f"{name}={value!r} in place of {had[name]!r}."
            )
    n_trees = parameters.resolve().n_estimators
    n_had = earlier.notes.get(PLAN, {}).get("n_estimators", n_trees)
    if parameters.bounds and n_had != n_trees:
        raise refusal(
            "n_estimators",
            f"be the {n_had} of the checkpoint with constraints, whose weights go by it", n_trees,
        )  # fmt: skip
    if parameters.shrink_rate:
        raise ParameterError(
            "training with shrink_rate must run in one go: shrunken trees do not give back the "
            "bits of the scores. Got a model to go on from."
        )
    n_own = earlier.n_own_trees
    if n_trees < n_own:
        raise refusal("n_estimators", f"be at least the {n_own} trees of the checkpoint", n_trees)
    if earlier.feature_names != train.feature_names:
        raise DataError(f"{_OTHER_DATA} features.")
    if earlier.schema.needs_base_scores != (train.base_scores is not None) or (
        earlier.notes.get(DATA_CHECKSUM, checksum) != checksum
    ):
        raise DataError(f"{_OTHER_DATA} training data.")
    if list(earlier.history) != list(valid):
        raise DataError(
            f"training must go on with the validation sets of the checkpoint, "
            f"{list(earlier.history)}. Got {list(valid)}."
        )
    lengths = {len(values) for curves in earlier.history.values() for values in curves.values()}
    if lengths - {n_own}:
        raise DataError(
            "training must go on from a checkpoint. Got a model that early stopping has cut: its "
            "history is longer than its trees."
        )


def check_same_validation(
    earlier: Model, valid: Mapping[str, Documents], validation: Validation, n_jobs: int | None
) -> None:
    """Refuse validation sets that a checkpoint would not have had its last values on."""
    if earlier.n_own_trees == 0:
        return
    scores = {name: score_with(earlier, data, n_jobs) for name, data in valid.items()}
    if not validation.agrees(scores):
        raise DataError(
            f"{_OTHER_DATA} validation data: the checkpoint has other values of the metrics."
        )


def score_with(model: Model, data: Documents, n_jobs: int | None) -> NDArray[np.float64]:
    """What a model adds to the base scores of data, if they have any: where training goes on."""
    return model.predict(data, base_scores=data.base_scores, n_jobs=n_jobs)


def data_checksum(train: Documents, preferences: Preferences | None, n_jobs: int | None) -> int:
    """A number that differs, as good as always, for other training data of all workers."""
    shard, rows = train.shard, train.shard.row_numbers
    by_row = (train.labels, train.base_scores, train.document_weights)
    by_query = (train.group, train.weights)
    arrays = [*((array, rows) for array in by_row), *((array, shard.numbers) for array in by_query)]
    arrays += [(labels, rows) for labels in train.more_labels.values()]
    total = train.features_checksum(n_jobs)
    for tag, (array, numbers) in enumerate(arrays):
        if array is not None:
            total += checksum_of_array(array, numbers, tag)
    summed = np.array([total % (1 << 64)], dtype=np.uint64).view(np.int64)
    shard.peers.sum(summed)
    same = (summed, np.array([shard.n_queries, shard.n_documents]))
    return _checksum(list(same), train, preferences)


def check_same_bins(earlier: Model, trainer: Boosting) -> None:
    """Refuse other training data than those of a file that notes a number made from bins."""
    if DATA_CHECKSUM in earlier.notes:
        return
    train, bins = trainer.train, trainer.bins
    categories = (np.array(values, np.float32) for values in bins.categories.values())
    # Codes alone would be the same for other values in the same order.
    arrays = [*_arrays_of(train), bins.edges, *categories, trainer.matrix.all_codes(bins)]
    if earlier.notes.get(_OF_BINS) != _checksum(arrays, train, trainer.preferences):
        raise DataError(f"{_OTHER_DATA} training data.")


def _arrays_of(train: Documents) -> list[Any]:
    return [train.labels, train.offsets, train.weights, train.base_scores]


def _checksum(arrays: list[Any], train: Documents, preferences: Preferences | None) -> int:
    number = zlib.crc32("\n".join(train.feature_names).encode())
    if train.levels:
        number = zlib.crc32(repr(train.levels).encode(errors="backslashreplace"), number)
    if preferences is not None:
        arrays = [*arrays, *preferences.arrays]
    for array in arrays:
        present = np.empty(0) if array is None else array
        number = zlib.crc32(str(present.shape).encode(), number)
        number = zlib.crc32(_bytes_of(present), number)
    return number


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
