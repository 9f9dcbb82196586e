"""Data as trees see them: a Dataset whose features are codes. They may be larger than memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.checksum import checksum_of_array
from rankgrove.data.documents import Documents, Rows
from rankgrove.data.levels import Levels
from rankgrove.data.shard import Shard
from rankgrove.errors import DataError
from rankgrove.trees.binning import BinnedMatrix, Bins

# Tells the checksum of a choice of rows apart from others.
_CHOSEN = 0x726F7773


class Cutting(NamedTuple):
    """How features were cut: what training must be told, too.

    Attributes
    ----------
    max_bins, categorical
        As the parameters of training; features by number, rising.
    random_state
        What the rows were drawn by that quantiles are found from.
    """

    max_bins: int
    categorical: tuple[int, ...]
    random_state: int


@dataclass(frozen=True, eq=False)
class BinnedData(Documents):
    """Judged documents of many queries with codes of one byte in place of features. Immutable.

    Make them with `bin_files`, `load` them from a file that `save` or `rankgrove bin` wrote.
    Training takes them as it takes a Dataset, and gives the same bits.

    Attributes
    ----------
    matrix, bins, cutting
        The codes, how features are cut, and by which parameters.
    checksum
        That of the features that there were.
    in_file
        Whether the codes are in a file, and in memory only as far as the system has room.

    The others are those of `Dataset`; there are no document ids.
    """

    matrix: BinnedMatrix
    bins: Bins
    cutting: Cutting
    checksum: int
    labels: NDArray[np.float32]
    offsets: NDArray[np.int64]
    query_ids: NDArray[Any]
    weights: NDArray[np.float64] | None = None
    base_scores: NDArray[np.float64] | None = None
    feature_names: tuple[str, ...] = ()
    document_weights: NDArray[np.float64] | None = None
    document_ids: NDArray[Any] | None = None
    shard: Shard = None  # type: ignore[assignment]
    in_file: bool = False
    levels: dict[int, Levels] = field(default_factory=dict)
    more_labels: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_rows, n_features = self.matrix.n_rows, len(self.bins.n_bins)
        if len(self.labels) != n_rows:
            raise DataError(f"labels must be one per row, {n_rows}. Got {len(self.labels)}.")
        self._check(n_rows, n_features)

    @property
    def codes_bytes(self) -> int:
        """The memory that the codes take, once."""
        return self.matrix.codes.size

    def features_checksum(self, n_jobs: int | None = None) -> int:
        return self.checksum

    def _take(self, rows: Rows, **fields: Any) -> BinnedData:
        by_feature = self.matrix.by_feature
        turned = by_feature[:, rows] if len(by_feature) else None
        numbers = np.arange(self.n_documents)[rows]
        chosen = checksum_of_array(numbers, np.arange(len(numbers)), _CHOSEN)
        return replace(
            self,
            matrix=BinnedMatrix.of(self.matrix.codes[rows], self.bins, turned),
            in_file=self.in_file and isinstance(rows, slice),
            checksum=(self.checksum + chosen) % (1 << 64),
            **fields,
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file, by custom `.bins`, which appears whole or not at all."""
        from rankgrove.trees.bins_file import save  # noqa: PLC0415 (it imports this module)

        save(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> BinnedData:
        """The data of a file that `save` or `rankgrove bin` wrote; the codes stay in the file.

        They are memory-mapped: the system reads them when they are needed, and may forget them.
        """
        from rankgrove.trees.bins_file import load  # noqa: PLC0415 (it imports this module)

        return load(path)

    def __repr__(self) -> str:
        return (
            f"<BinnedData: {self.n_documents} documents, {self.n_queries} queries, "
            f"{self.n_features} features>"
        )
