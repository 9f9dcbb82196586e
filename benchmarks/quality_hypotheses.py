"""What the comparison with other libraries asks, written down before it is run.

One family of hypotheses: each says that two rows of the table do not differ in a metric, in the
mean of the data sets. Holm's method is over the whole family; a member that could not be tested
counts as one with a p-value of 1, so that leaving fits out can never help another.

The protocol: the four sets in five folds each; of each fold 5 draws of 90 % of its training
queries, with seeds of their own; the validation part stops, the test part is measured. The value of
a query is its mean over draws (and over seeds, of single models). The variance of a mean difference
on one set is that over queries, s^2 / n of the paired differences, plus that over draws, s^2 / 5 of
the five mean differences. The mean of the sets weighs all the same; degrees of freedom are by
Satterthwaite; tests are two-sided.
"""

from __future__ import annotations

from typing import NamedTuple

RECIPE = "rankgrove, effort high"
PEERS = ("catboost YetiRank", "catboost QueryRMSE", "lightgbm lambdarank", "xgboost topk",
         "xgboost mean")  # fmt: skip
TREATMENTS = ("common", "own defaults")
# The recipe has so many models; an average of a peer's gets as many.
N_AVERAGED = 9
CLAIMED = ("NDCG@10", "MAP")


def single(peer: str, treatment: str) -> str:
    """What the table calls one model of a peer."""
    return f"{peer}, {treatment}"


def averaged(peer: str, number: int) -> str:
    """What the table calls the average of so many models of a peer, each at its own stop."""
    return f"{peer}, {number} averaged"


class Hypothesis(NamedTuple):
    """That the two are the same in this metric; the target is what ours is meant to be above."""

    ours: str
    theirs: str
    metric: str
    target: float


SINGLE_TARGETS = {"NDCG@10": 0.010, "MAP": 0.005}
AVERAGED_TARGET = 0.005

FAMILY = (
    *(Hypothesis(RECIPE, single(peer, treatment), metric, SINGLE_TARGETS[metric])
      for metric in CLAIMED for treatment in TREATMENTS for peer in PEERS),
    *(Hypothesis(RECIPE, averaged(peer, N_AVERAGED), "NDCG@10", AVERAGED_TARGET)
      for peer in PEERS),
)  # fmt: skip

# What was known when the family was written, and from which queries.
CHOICES = (
    "That the recipe mixes trees of several objectives with LambdaRank networks, three models of "
    "each kind, and ends with a fit to all labelled data, was chosen in a study that looked at the "
    "test parts of these same four sets, in about 70 cells. Which of the kinds count, how much and "
    "with how many trees, the recipe itself finds on folds of the data that it is given.",
    "`l2_documents`, bootstrap, split noise and all pairs instead of neighbours, our defaults, "
    "were chosen by the validation parts of these sets (docs/options.md, docs/neighbours.md), and "
    "the validation part of one fold is the test part of another; so were the dropout of networks "
    "(docs/networks.md) and the `l2` of leaf-wise LambdaMART (docs/defaults.md).",
    "Nothing of the peers was chosen by these sets: their settings are their own defaults, or the "
    "common ones.",
    "So a gain here is flattered by as much as these choices fit these queries. Only sets that "
    "nobody has looked at can say by how much.",
)
