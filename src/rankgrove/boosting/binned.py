"""The data as trees see them: bins and codes, which several training runs may share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rankgrove.boosting.features import feature_numbers
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError
from rankgrove.trees.binning import BinnedMatrix, Bins, encode
from rankgrove.trees.summary import Summary, count_categories, most_frequent


@dataclass(frozen=True, eq=False)
class Binned:
    """Training data and validation sets in bins.

    Attributes
    ----------
    bins
        How features are cut.
    matrix
        The codes of the training data.
    matrices
        Those of each validation set; none for one that is the training data itself.
    """

    bins: Bins
    matrix: BinnedMatrix
    matrices: dict[str, BinnedMatrix]

    @classmethod
    def make(
        cls,
        train: Dataset,
        valid: Mapping[str, Dataset],
        parameters: Parameters,
        n_jobs: int | None = None,
    ) -> Binned:
        """Bin the data as these parameters have it."""
        categorical = _with_categories(train, categorical_features(train, parameters))
        bins = Bins.fit(
            train.features, parameters.max_bins, categorical=categorical,
            seed=parameters.random_state, n_jobs=n_jobs, shard=train.shard,
        )  # fmt: skip
        matrices = {
            name: encode(data.features, bins, n_jobs)
            for name, data in valid.items()
            if data is not train
        }
        return cls(bins, encode(train.features, bins, n_jobs, by_feature=True), matrices)


class SharedBins:
    """Keeps the bins of one training run for the next one on the same data.

    Runs give the same bits with and without it. The next run takes what is kept if it has the
    very same data sets, and parameters of the same `max_bins`, `categorical` and `random_state`,
    by which rows are drawn for quantiles; otherwise it bins anew, and that is then kept instead.

    >>> from rankgrove import make_web_search
    >>> data, shared = make_web_search(10, 16), SharedBins()
    >>> first = shared.get(data, {}, Parameters(learning_rate=0.1))
    >>> shared.get(data, {}, Parameters(learning_rate=0.5)) is first
    True
    >>> shared.get(data, {}, Parameters(max_bins=63)) is first
    False
    """

    def __init__(self) -> None:
        self._data: list[Dataset] = []
        self._rest: object = None
        self._kept: Binned | None = None

    def get(
        self,
        train: Dataset,
        valid: Mapping[str, Dataset],
        parameters: Parameters,
        n_jobs: int | None = None,
    ) -> Binned:
        """The data in bins, those of the last call if they are the same."""
        p = parameters
        data = [train, *valid.values()]
        categorical = tuple(sorted(categorical_features(train, p)))
        rest = (list(valid), p.max_bins, categorical, p.random_state)
        same = list(map(id, data)) == list(map(id, self._data)) and rest == self._rest
        if self._kept is None or not same:
            # The old ones go before the new ones are made: there need not be room for both.
            self._kept = None
            self._kept = Binned.make(train, valid, p, n_jobs)
            self._data, self._rest = data, rest
        return self._kept


def categorical_features(train: Dataset, parameters: Parameters) -> list[int]:
    """The numbers of the features that the parameters take as categories."""
    chosen = () if parameters.categorical is None else parameters.categorical
    return feature_numbers("categorical", chosen, train.feature_names)


def categories_of(train: Dataset, parameters: Parameters) -> dict[int, tuple[float, ...]]:
    """The categories that bins of these data would have."""
    chosen = sorted(_with_categories(train, categorical_features(train, parameters)))
    counts = {feature: count_categories(train.features[:, feature]) for feature in chosen}
    summary = Summary(train.features[:0], np.zeros(train.n_features, dtype=np.bool_), counts)
    counts = summary.of_all(train.shard.peers).categories
    return {feature: most_frequent(counts[feature], parameters.max_bins) for feature in chosen}


def _with_categories(train: Dataset, categorical: list[int]) -> list[int]:
    """Those of the categorical features that have a category: where all is missing none can be."""
    seen = np.zeros(len(categorical), dtype=np.int64)
    for place, feature in enumerate(categorical):
        values = train.features[:, feature]
        if np.isinf(values).any():
            raise DataError(
                f"categories must be finite. Got infinity in feature "
                f"{train.feature_names[feature]!r}: make it a category of its own, or NaN."
            )
        seen[place] = not np.isnan(values).all()
    train.shard.peers.sum(seen)
    return [feature for place, feature in enumerate(categorical) if seen[place]]
