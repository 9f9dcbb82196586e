"""Which features a model rests on: by what its trees say, and by what their loss costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankgrove.errors import unknown_name
from rankgrove.metrics.base import Metric
from rankgrove.trees.ensemble import Ensemble

KINDS = ("gain", "split")

_SHOWN = 20


@dataclass(frozen=True, eq=False)
class PermutationImportance:
    """What each feature is worth to a metric. Prints as a table, the largest drop first.

    Attributes
    ----------
    metric
        What was measured.
    baseline
        Its mean with all features in place.
    feature_names
        One per feature.
    mean, std
        One per feature: the drop of the metric when the feature's values are shuffled, its mean
        and standard deviation over the repeats. Exactly 0 where no tree uses the feature, NaN where
        it was not tried.
    """

    metric: Metric
    baseline: float
    feature_names: tuple[str, ...]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]

    def __str__(self) -> str:
        tried = np.flatnonzero(~np.isnan(self.mean))
        order = tried[np.argsort(-self.mean[tried], kind="stable")[:_SHOWN]]
        width = max([len("feature"), *(len(self.feature_names[i]) for i in order)])
        lines = [
            f"{self.metric} {self.baseline:.4f}; its drop when a feature is shuffled:",
            f"{'feature':<{width}}     drop      std",
        ]
        for i in order:
            lines.append(
                f"{self.feature_names[i]:<{width}}  {self.mean[i]:7.4f}  {self.std[i]:7.4f}"
            )
        if len(tried) > _SHOWN:
            lines.append(f"... and {len(tried) - _SHOWN} more features")
        return "\n".join(lines)


def tree_importance(ensemble: Ensemble, n_features: int, kind: str) -> NDArray[np.float64]:
    """The sum of the gains, or the number, of the splits by each feature.

    >>> tree_importance(Ensemble.from_trees([]), 2, "split").tolist()
    [0.0, 0.0]
    """
    if kind not in KINDS:
        raise unknown_name("kind of importance", str(kind), (*KINDS, "contribution"))
    gains = ensemble.gain if kind == "gain" else None
    sums = np.bincount(ensemble.feature, weights=gains, minlength=n_features)
    return sums.astype(np.float64)


def shuffled_drops(
    features: NDArray[np.float32],
    used: NDArray[np.int64],
    measure: Callable[[NDArray[np.float32]], float],
    repeats: int,
    seed: int,
) -> tuple[float, NDArray[np.float64]]:
    """The measure of the features as they are, and its drop by feature and repeat.

    Each shuffle is drawn from (seed, feature, repeat) alone, so a feature's figures do not
    depend on which others the trees use.
    """
    baseline = measure(features)
    drops = np.zeros((features.shape[1], repeats))
    shuffled = features.copy()
    for feature in used.tolist():
        for repeat in range(repeats):
            order = np.random.default_rng([seed, feature, repeat]).permutation(len(features))
            shuffled[:, feature] = features[order, feature]
            drops[feature, repeat] = baseline - measure(shuffled)
        shuffled[:, feature] = features[:, feature]
    return baseline, drops
