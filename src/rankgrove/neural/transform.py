"""What is done to features before a network sees them: fitted on the training data, kept with it.

For every kind, a missing value becomes the median of the feature in the training data, and a
feature that has missing values there gets a further column, 1 where it is missing and 0 elsewhere.
An infinite value becomes the largest or the least finite one. Then

    quantile   the share of training values below, from 0 to 1, those that are equal by half
    log1p      sign(x) log(1 + |x|)
    standard   x
    None       x, and nothing further

and last, but for None, the mean is taken away and the rest divided by the standard deviation. A
constant feature becomes 0.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import run_chunks
from rankgrove.data.sparse_features import Features
from rankgrove.errors import DataError

Matrix = NDArray[np.float32]
Floats = NDArray[np.float64]

# Shares between so many quantiles are interpolated.
_KNOTS = 257
# The quantiles are those of this many rows at most, evenly spaced.
_SAMPLE = 200_000
_CHUNK_ROWS = 1 << 14


@dataclass(frozen=True, eq=False)
class Transform:
    """A fitted transform; see the module.

    Attributes
    ----------
    kind
        `quantile`, `log1p`, `standard` or None.
    medians, least, largest
        One per feature: what stands for missing and infinite values.
    means, scales
        One per feature, after the kind's own function.
    indicated
        The numbers of features with missing values in the training data.
    knots, shares
        Of `quantile`: one row per feature, values that rise strictly and their shares; the last is
        repeated to fill a row.

    >>> features = np.array([[0.0, 5.0], [1.0, np.nan], [3.0, 5.0]], dtype=np.float32)
    >>> Transform.fit("standard", features).apply(features).astype(float).round(2).tolist()
    [[-1.07, 0.0, 0.0], [-0.27, 0.0, 1.0], [1.34, 0.0, 0.0]]
    """

    kind: str | None
    medians: Floats
    least: Floats
    largest: Floats
    means: Floats
    scales: Floats
    indicated: NDArray[np.int64]
    knots: Floats
    shares: Floats

    @classmethod
    def fit(cls, kind: str | None, features: Features, n_jobs: int | None = None) -> Transform:
        """The transform of a kind that these features, the training data, ask for."""
        features = np.asarray(features)
        n_rows, n_features = features.shape
        step = max(1, -(-n_rows // _SAMPLE))
        numbers = np.zeros((5, n_features))
        knots, shares = np.zeros((2, n_features, _KNOTS if kind == "quantile" else 0))
        missing = np.zeros(n_features, dtype=bool)

        def fit_feature(feature: int) -> None:
            column = features[:, feature].astype(np.float64)
            missing[feature] = np.isnan(column).any()
            finite = column[np.isfinite(column)]
            if not len(finite):
                finite = np.zeros(1)
            median, least, largest = np.median(finite), finite.min(), finite.max()
            filled = _filled(column, median, least, largest)
            if kind == "quantile":
                knots[feature], shares[feature] = _quantiles(filled[::step])
            values = _curved(kind, filled, knots[feature], shares[feature])
            mean, scale = values.mean(), values.std()
            # What only rounding makes differ is constant.
            flat = scale <= 1e-12 * max(1.0, abs(mean))
            numbers[:, feature] = median, least, largest, mean, 1.0 if flat else scale

        run_chunks(fit_feature, n_features, n_jobs)
        medians, least, largest, means, scales = numbers
        if kind is None:
            means, scales = np.zeros(n_features), np.ones(n_features)
        return cls(
            kind, medians, least, largest, means, scales, np.flatnonzero(missing), knots, shares
        )

    @property
    def n_features(self) -> int:
        return len(self.medians)

    @property
    def n_inputs(self) -> int:
        """The columns that the network sees."""
        return self.n_features + len(self.indicated)

    def apply(self, features: Features, n_jobs: int | None = None) -> Matrix:
        """The inputs of the network, one row per document."""
        features = np.asarray(features)
        n_rows, n_features = features.shape
        out = np.empty((n_rows, self.n_inputs), dtype=np.float32)

        def apply_rows(chunk: int) -> None:
            rows = slice(chunk * _CHUNK_ROWS, min((chunk + 1) * _CHUNK_ROWS, n_rows))
            out[rows, n_features:] = np.isnan(features[rows][:, self.indicated])
            for feature in range(n_features):
                out[rows, feature] = self._column(features[rows, feature], feature)

        run_chunks(apply_rows, -(-n_rows // _CHUNK_ROWS), n_jobs)
        return out

    def median_inputs(self) -> Floats:
        """The inputs of a document that has the median of each feature, and nothing missing."""
        unknown = np.full((1, self.n_features), np.nan, dtype=np.float32)
        inputs: Floats = self.apply(unknown, 1)[0].astype(np.float64)
        inputs[self.n_features :] = 0.0
        return inputs

    def _column(self, column: Matrix, feature: int) -> Floats:
        stand_ins = self.medians[feature], self.least[feature], self.largest[feature]
        filled = _filled(column.astype(np.float64), *stand_ins)
        values = _curved(self.kind, filled, self.knots[feature], self.shares[feature])
        return np.asarray((values - self.means[feature]) / self.scales[feature])

    def arrays(self) -> dict[str, NDArray[np.float64] | NDArray[np.int64]]:
        """All but the kind, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)[1:]}

    def check(self) -> None:
        """Refuse arrays that do not fit each other, as of a file."""
        n = len(self.medians)
        width = _KNOTS if self.kind == "quantile" else 0
        one_each = (self.medians, self.least, self.largest, self.means, self.scales)
        fine = (
            all(part.shape == (n,) and part.dtype == np.float64 for part in one_each)
            and all(part.shape == (n, width) for part in (self.knots, self.shares))
            and self.indicated.ndim == 1
            and self.indicated.dtype == np.int64
            and all(0 <= feature < n for feature in self.indicated)
            and bool(np.all(self.scales > 0))
        )
        if not fine:
            raise DataError("the transform must have one entry per feature. Got others.")


def _filled(column: Floats, median: float, least: float, largest: float) -> Floats:
    if np.isfinite(column).all():
        return column
    return np.nan_to_num(column, nan=median, neginf=least, posinf=largest)


def _curved(kind: str | None, column: Floats, knots: Floats, shares: Floats) -> Floats:
    """The kind's own function of a feature without missing and infinite values."""
    if kind == "quantile":
        return np.interp(column, knots, shares)
    if kind == "log1p":
        return np.asarray(np.sign(column) * np.log1p(np.abs(column)))
    return column


def _quantiles(values: Floats) -> tuple[Floats, Floats]:
    """Values of a feature and the share of all that is below each, equal ones by half."""
    ordered = np.sort(values)
    at = np.unique(np.linspace(0, len(ordered) - 1, _KNOTS).round().astype(np.int64))
    knots = np.unique(ordered[at])
    below = np.searchsorted(ordered, knots, side="left")
    upto = np.searchsorted(ordered, knots, side="right")
    shares = (below + upto) / (2 * len(ordered))
    fill = (0, _KNOTS - len(knots))
    return np.pad(knots, fill, mode="edge"), np.pad(shares, fill, mode="edge")
