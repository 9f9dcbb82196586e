"""The data as trees see them: bins and codes, which several training runs may share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset, with_features
from rankgrove.data.documents import Documents, feature_numbers
from rankgrove.data.levels import features_by
from rankgrove.data.memory import available_memory
from rankgrove.data.sparse_features import SparseFeatures
from rankgrove.errors import DataError, parameter, refusal
from rankgrove.trees.binned_data import BinnedData
from rankgrove.trees.binning import BinnedMatrix, Bins, encode, padded_width
from rankgrove.trees.pairs import share_codes
from rankgrove.trees.sparse_encoding import encode_sparse
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
        train: Documents,
        valid: Mapping[str, Documents],
        parameters: Parameters,
        n_jobs: int | None = None,
    ) -> Binned:
        """Bin the data as these parameters have it; binned data must have been binned so."""
        peers = train.shard.peers
        if isinstance(train, BinnedData):
            _check_cutting(train, parameters)
            bins, matrix = train.bins, train.matrix
            if not train.in_file:
                # (Codes in a file may be more than there is memory for.)
                matrix = matrix.with_sparse(bins, peers, n_jobs)
        else:
            data = with_features(train, "training")
            categorical = _with_categories(data, categorical_features(train, parameters))
            bins = Bins.fit(
                data.features, parameters.max_bins, categorical=categorical,
                seed=parameters.random_state, n_jobs=n_jobs, shard=train.shard,
            )  # fmt: skip
            if isinstance(data.features, SparseFeatures):
                matrix = encode_sparse(data.features, bins, peers, n_jobs)
            else:
                by_feature = keeps_columns(parameters, train)
                matrix = encode(data.features, bins, n_jobs, by_feature=by_feature)
                matrix = matrix.with_sparse(bins, peers, n_jobs)
        if not len(matrix.by_feature) and keeps_columns(parameters, train, matrix):
            matrix = matrix.with_columns(n_jobs)
        matrix = share_codes(matrix, bins, n_jobs)
        matrices = {
            name: _matrix_of(name, data, bins, train, n_jobs)
            for name, data in valid.items()
            if data is not train
        }
        return cls(bins, matrix, matrices)


class SharedBins:
    """Keeps the bins of one training run for the next one on the same data.

    Runs give the same bits with and without it. The next run takes what is kept if it has the
    very same data sets, and parameters of the same `max_bins`, `categorical` and `random_state`,
    by which rows are drawn for quantiles; otherwise it bins anew, and that is then kept instead.
    With a `seed`, rows are drawn by that one whatever the runs have: members share their bins.

    >>> from rankgrove import make_web_search
    >>> data, shared = make_web_search(10, 16), SharedBins()
    >>> first = shared.get(data, {}, Parameters(learning_rate=0.1))
    >>> shared.get(data, {}, Parameters(learning_rate=0.5)) is first
    True
    >>> shared.get(data, {}, Parameters(max_bins=63)) is first
    False
    """

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed
        self._data: list[Documents] = []
        self._rest: object = None
        self._kept: Binned | None = None

    def get(
        self,
        train: Documents,
        valid: Mapping[str, Documents],
        parameters: Parameters,
        n_jobs: int | None = None,
    ) -> Binned:
        """The data in bins, those of the last call if they are the same."""
        p = parameters
        if self._seed is not None:
            p = replace(p, random_state=self._seed)
        data = [train, *valid.values()]
        categorical = tuple(sorted(categorical_features(train, p)))
        rest = (list(valid), p.max_bins, categorical, p.random_state, p.layout)
        same = list(map(id, data)) == list(map(id, self._data)) and rest == self._rest
        if self._kept is None or not same:
            # The old ones go before the new ones are made: there need not be room for both.
            self._kept = None
            self._kept = Binned.make(train, valid, p, n_jobs)
            self._data, self._rest = data, rest
        return self._kept


def categorical_features(train: Documents, parameters: Parameters) -> list[int]:
    """The numbers of the features that the parameters, or their levels, say are categories."""
    chosen = () if parameters.categorical is None else parameters.categorical
    named = feature_numbers("categorical", chosen, train.feature_names)
    return list(dict.fromkeys([*named, *train.levels]))


def categories_of(train: Documents, parameters: Parameters) -> dict[int, tuple[float, ...]]:
    """The categories that bins of these data would have."""
    if isinstance(train, BinnedData):
        return train.bins.categories
    data = with_features(train, "training")
    chosen = sorted(_with_categories(data, categorical_features(train, parameters)))
    counts = {feature: count_categories(data.features[:, feature]) for feature in chosen}
    summary = Summary(data.features[:0], np.zeros(train.n_features, dtype=np.bool_), counts)
    counts = summary.of_all(train.shard.peers).categories
    return {feature: most_frequent(counts[feature], parameters.max_bins) for feature in chosen}


def keeps_columns(
    parameters: Parameters, train: Documents, matrix: BinnedMatrix | None = None
) -> bool:
    """Whether codes are to stand feature by feature, too, which is faster and takes as much again.

    By itself where both copies fit into half of the memory. The matrix may keep some codes only.
    """
    if parameters.layout != "auto":
        return parameters.layout == "both"
    width = padded_width(train.n_features) if matrix is None else matrix.codes.shape[1]
    once = train.n_documents * width
    there = once if isinstance(train, BinnedData) else 0
    return 2 * once <= (available_memory() + there) / 2


def _check_cutting(train: BinnedData, parameters: Parameters) -> None:
    """Refuse parameters that would have cut features in another way."""
    cutting = train.cutting
    had = [train.feature_names[feature] for feature in cutting.categorical]
    numbers = sorted(categorical_features(train, parameters))
    pairs = {
        "max_bins": (cutting.max_bins, parameters.max_bins),
        "categorical": (had, [train.feature_names[feature] for feature in numbers]),
    }
    for name, (value, got) in pairs.items():
        if value != got:
            rule = f"be {value}, as the data were binned with"
            raise refusal(name, rule, got, advice="pass that, or bin the files anew")


def _matrix_of(
    name: str, data: Documents, bins: Bins, train: Documents, n_jobs: int | None
) -> BinnedMatrix:
    """The codes of a validation set, its categories by the levels of the training data."""
    if not isinstance(data, BinnedData):
        features = with_features(data, "validation").features
        try:
            features = features_by(features, data.levels, train.levels, train.feature_names)
        except DataError as error:
            raise DataError(f"validation set {name!r}: {error}") from None
        if isinstance(features, SparseFeatures):
            return encode_sparse(features, bins, n_jobs=n_jobs)
        return encode(features, bins, n_jobs)
    if not bins.same_as(data.bins) or data.levels != train.levels:
        raise DataError(
            f"validation set {name!r} must be binned as the training data. Got other bins: bin it "
            f"with {parameter('like')}, or give its file as it is."
        )
    return data.matrix


def refuse_infinite(values: NDArray[np.float32], name: str) -> None:
    """Refuse infinity among the values of a categorical feature."""
    if np.isinf(values).any():
        raise DataError(
            f"categories must be finite. Got infinity in feature {name!r}: make it a category of "
            f"its own, or NaN."
        )


def _with_categories(train: Dataset, categorical: list[int]) -> list[int]:
    """Those of the categorical features that have a category: where all is missing none can be."""
    seen = np.zeros(len(categorical), dtype=np.int64)
    for place, feature in enumerate(categorical):
        values = train.features[:, feature]
        refuse_infinite(values, train.feature_names[feature])
        seen[place] = not np.isnan(values).all()
    train.shard.peers.sum(seen)
    return [feature for place, feature in enumerate(categorical) if seen[place]]
