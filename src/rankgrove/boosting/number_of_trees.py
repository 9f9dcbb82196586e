"""How many trees a model has when nobody says so and no validation set can tell."""

from __future__ import annotations

# Trees times learning rate is the first number times queries to the power of the second. Fitted on
# synthetic data of 20 to 1,500 queries and checked on real data: docs/number-of-trees.md.
LEARNED_AT_ONE_QUERY, LEARNED_BY_QUERIES = 1.0, 0.35

# Fewer are no ensemble, and more than this takes longer than anyone expects who has said nothing.
_FEWEST, _MOST = 10, 2000


def default_n_estimators(n_queries: int, learning_rate: float) -> int:
    """The number of trees for so many training queries, at this rate.

    >>> default_n_estimators(300, 0.1), default_n_estimators(300, 0.05)
    (74, 147)
    """
    learned = LEARNED_AT_ONE_QUERY * max(n_queries, 1) ** LEARNED_BY_QUERIES
    return min(max(round(learned / learning_rate), _FEWEST), _MOST)
