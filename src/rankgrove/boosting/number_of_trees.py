"""How many trees a model has when nobody says so."""

from __future__ import annotations

# Trees times learning rate, where no validation set can tell. Fitted on synthetic data of 20 to
# 4,000 queries, whose number makes hardly a difference, and checked on real data:
# docs/number-of-trees.md.
LEARNED = 10.0

# Where validation ends training, that should come first: so many trees, or trees times rate.
_MOST_TREES, _MOST_LEARNED = 500, 50.0


def default_n_estimators(learning_rate: float, *, stops_early: bool = False) -> int:
    """The number of trees at this rate, at most, with or without early stopping.

    >>> default_n_estimators(0.1), default_n_estimators(0.03)
    (100, 333)
    >>> default_n_estimators(0.1, stops_early=True), default_n_estimators(0.01, stops_early=True)
    (500, 5000)
    """
    if stops_early:
        return max(_MOST_TREES, round(_MOST_LEARNED / learning_rate))
    return max(1, round(LEARNED / learning_rate))
