"""Training under constraints: maximise one metric while others do not fall below their bounds.

The epsilon-constraint form of several metrics, by dual ascent: the forces of each tree are those of
the objective, with weight 1, and of each constrained metric, with a multiplier L >= 0, all divided
by the sum of the weights. A model of few trees is below any bound b worth having. So after tree t
of T the metric m_t on the training data is compared with a target that rises to b in the first half
of the run, and the multiplier goes up where it is below and down where it is above:

    target = m_1 + (b - m_1) * min(1, 2 t / T)
    L <- max(0, L + rho * clip((target - m_t) / |b|))

The rate rho is 40 / T at least. It grows by a factor of e^(10 / T) with each tree that is below and
shrinks with each that is above, so that runs of any length come as far. What is kept is the best
step, by what validation watches, of those that meet all bounds themselves. Multipliers follow from
the values on the training data alone, which the history has: so a run that goes on from a
checkpoint has the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit.elementary import exponential
from rankgrove.boosting.bounds import Bounds
from rankgrove.data.documents import Documents
from rankgrove.errors import DataError, refusal
from rankgrove.metrics.custom import Custom
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.metrics.sums import OfLabel

if TYPE_CHECKING:
    from rankgrove.training.validation import History

# What the training data are called among the sets that are measured.
TRAIN = "train"

# The least rate of multipliers in the time of a run, the logarithm of its growth in that time, the
# most that a distance from the target counts, relative to the bound, and the most that rate and
# multiplier may be. Chosen on the first eight problems of tests/training/test_constraints.py with
# 24 and 100 trees: bounds at 50, 80 and 90 % of the way to what training for that metric alone
# reaches were all met.
_RATE, _GROWTH, _CLIP, _MOST = 40.0, 10.0, 0.2, 1000.0

# The share of the trees in which targets rise to the bounds.
_RISE = 0.5


class Multipliers:
    """What the forces of each constrained metric are multiplied by, tree by tree.

    >>> multipliers = Multipliers([0.5], n_trees=20)
    >>> multipliers.see([0.4])
    >>> [round(weight, 4) for weight in multipliers.weights]
    [0.9381, 0.0619]
    >>> multipliers.see([0.6])
    >>> multipliers.weights
    [1.0, 0.0]
    """

    def __init__(self, bounds: Sequence[float], n_trees: int) -> None:
        self._bounds, self._n_trees = list(bounds), n_trees
        self._values = [0.0] * len(bounds)
        self._least_rate = _RATE / n_trees
        self._growth = float(exponential(_GROWTH / n_trees))
        self._rates = [self._least_rate] * len(bounds)
        self._first: list[float] = []
        self._n_seen = 0

    def see(self, values: list[float]) -> None:
        """Take in what the metrics are worth on the training data after one more tree."""
        self._n_seen += 1
        self._first = self._first or values
        risen = min(1.0, self._n_seen / (_RISE * self._n_trees))
        for place, (bound, value) in enumerate(zip(self._bounds, values, strict=True)):
            first = min(bound, self._first[place])
            short = (first + (bound - first) * risen - value) / (abs(bound) or 1.0)
            rate = self._rates[place] * (self._growth if short > 0 else 1 / self._growth)
            self._rates[place] = min(max(self._least_rate, rate), _MOST)
            step = self._rates[place] * min(max(short, -_CLIP), _CLIP)
            self._values[place] = min(max(0.0, self._values[place] + step), _MOST)

    @property
    def weights(self) -> list[float]:
        """The share of the objective's own forces, then of those of each constrained metric."""
        total = 1.0 + sum(self._values)
        return [1.0 / total, *(value / total for value in self._values)]


class Constraints:
    """The bounds of a run, and what history says of them."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = {str(metric): bound for metric, bound in bounds.items()}

    def values_at(self, history: History, step: int, set_name: str = TRAIN) -> list[float]:
        """What the constrained metrics are worth on a set after so many steps; 0 for the last."""
        return [history[set_name][name][step - 1] for name in self.bounds]

    def meets(self, history: History, set_name: str) -> NDArray[np.bool_]:
        """For each step, whether all bounds are met on a set."""
        rows = [np.array(history[set_name][name]) >= b for name, b in self.bounds.items()]
        return np.asarray(np.all(rows, axis=0))

    def may_keep(self, history: History) -> NDArray[np.bool_]:
        """For each step, whether it may be the one that is kept.

        Those that meet the bounds on all sets; if there is none, on the training data; if there is
        none either, those that fall short of them the least.
        """
        on_all = np.asarray(np.all([self.meets(history, name) for name in history], axis=0))
        if on_all.any():
            return on_all
        on_train = self.meets(history, TRAIN)
        if on_train.any():
            return on_train
        short = sum(
            np.maximum(0.0, bound - np.array(history[TRAIN][name])) / (abs(bound) or 1.0)
            for name, bound in self.bounds.items()
        )
        return np.asarray(short == np.min(short))

    def problem(self, history: History, step: int) -> str:
        """What a run says whose model, of so many steps, does not meet a bound; "" if it does."""
        places = []
        for set_name in [TRAIN, *(name for name in history if name != TRAIN)]:
            values = self.values_at(history, step, set_name)
            missed = [
                f"{name} >= {bound:g} ({value:.4f})"
                for (name, bound), value in zip(self.bounds.items(), values, strict=True)
                if value < bound
            ]
            if missed:
                where = "the training data" if set_name == TRAIN else f"the set {set_name!r}"
                places.append(f"{' and '.join(missed)} on {where}")
        if not places:
            return ""
        return (
            f"no tree of this run meets all constraints: the model that is kept misses "
            f"{'; '.join(places)}. Lower the bound, or train more or larger trees."
        )


def check_reachable(train: Documents, bounds: Bounds, n_jobs: int | None) -> None:
    """Refuse a bound that the best possible ranking of the training data does not meet."""
    for metric, bound in bounds.items():
        plain = metric.metric if isinstance(metric, OfLabel) else metric
        labels = (
            train.with_label(metric.label).labels if isinstance(metric, OfLabel) else train.labels
        )
        try:
            best = measure_dataset(train, labels, metric, n_jobs)[str(metric)]
        except DataError as error:
            raise DataError(f"constraints: {error}") from None
        # (What a function of the user's own makes of the best ranking, nobody knows.)
        if bound > best and not isinstance(plain, Custom):
            raise refusal(
                f"the bound of {metric} in constraints",
                f"be at most {best:.6g}, that of the best possible ranking of the training data",
                bound, advice="lower it",
            )  # fmt: skip


def with_train(train: Documents, sets: Mapping[str, Documents]) -> dict[str, Documents]:
    """The sets that are measured, with the training data as the last one."""
    if sets.get(TRAIN, train) is not train:
        raise refusal(
            f"a validation set under {TRAIN!r}", "be the training data where there are constraints",
            got="others", advice="give it another name",
        )  # fmt: skip
    return {**sets, TRAIN: train}
