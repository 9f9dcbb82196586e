"""Objectives: seconds an iteration of each of them against CatBoost's loss of the same kind.

Both grow oblivious trees of depth 6 on the same 710,000 documents and take turns. The forces alone
and Rankgrove's leaf-wise trees of 63 leaves stand beside. With `--leaves`, what `leaf="joint"`
costs.
"""

from __future__ import annotations

import argparse
import gc
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from benchmarks.common import THREADS, limit_threads, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

from benchmarks.peers import CatBoost, Rankgrove, Settings, make_rows  # noqa: E402
from rankgrove.boosting.loop import Boosting  # noqa: E402
from rankgrove.boosting.parameters import Parameters  # noqa: E402
from rankgrove.data.dataset import Dataset  # noqa: E402

COMMAND = "python -m benchmarks.objectives"
LEAVES_COMMAND = f"{COMMAND} --leaves"
PACKAGES = ("numpy", "numba", "catboost")
N_FEATURES, N_ROWS, N_ROUNDS = 136, 710_000, 5
N_QUICK_ROWS, N_QUICK_ROUNDS, N_COMPILE_ROWS = 20_000, 2, 2000
DEPTH, LEAVES, BINS, LEARNING_RATE = 6, 63, 254, 0.1
TREES_A_ROUND, WARM_UP_TREES = 5, 2
RELEVANT = 2  # the least label that is relevant where labels are 0 and 1
MANY = 1 << 20  # more trees, rounds or iterations than there will be

# The exact swap deltas, as they are; CatBoost's `norm=false` says the same.
_PLAIN = {"objective": "lambdamart", "truncation": None, "normalise": False}


class Turns(NamedTuple):
    """In how many of the rounds CatBoost takes part, and its timed iterations in each of them."""

    rounds: int
    iterations: int


ALWAYS = Turns(MANY, TREES_A_ROUND)
# For what takes CatBoost seconds, or most of a minute, an iteration.
SELDOM, ONCE = Turns(2, 2), Turns(1, 2)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """An objective, CatBoost's loss of the same kind, and what is claimed of the two.

    Attributes
    ----------
    ours
        Parameters of Rankgrove.
    theirs
        CatBoost's loss; empty if it has none.
    binary
        Whether labels are 0 and 1.
    turns
        When CatBoost takes part.
    claim
        By how many times Rankgrove is to be faster.
    """

    ours: Mapping[str, Any]
    theirs: str = ""
    binary: bool = False
    turns: Turns = ALWAYS
    claim: str = ""

    def __str__(self) -> str:
        own = [f"{name} {value}" for name, value in self.ours.items() if name != "objective"]
        return ", ".join([self.ours["objective"], *own])


PAIRS = (
    Pair(ours={"objective": "yetirank"}, theirs="YetiRank", claim=">= 5"),
    Pair(ours={"objective": "yetirank", "leaf": "joint"}),
    Pair(ours={"objective": "yetirank", "leaf": "joint", "leaf_noise": "new"}),
    Pair(ours={"objective": "yetirank", "leaf_noise": "new"}),
    Pair(
        ours={"objective": "yetiloss", "metric": "map(relevant>=1)", "neighbours": 1},
        theirs="YetiRank:mode=MAP",
        binary=True,
    ),
    Pair(ours={"objective": "yetiloss", "metric": "map(relevant>=1)"}, binary=True),
    Pair(ours={"objective": "yetiloss", "metric": "ndcg@10"}),
    Pair(
        ours={**_PLAIN, "metric": "map(relevant>=1)"},
        theirs="LambdaMart:metric=MAP;norm=false",
        binary=True,
        claim=">= 10",
        turns=SELDOM,
    ),
    Pair(
        ours={**_PLAIN, "metric": "mrr(relevant>=1)"},
        theirs="LambdaMart:metric=MRR;norm=false",
        binary=True,
        turns=SELDOM,
    ),
    Pair(ours={**_PLAIN, "metric": "err"}),
    Pair(
        ours={**_PLAIN, "metric": "ndcg(gain=linear)"},
        theirs="LambdaMart:metric=NDCG;norm=false",
        turns=SELDOM,
    ),
    Pair(
        ours={**_PLAIN, "metric": "ndcg@10(gain=linear)"},
        theirs="LambdaMart:metric=NDCG;top=10;norm=false",
        turns=SELDOM,
    ),
    Pair(
        ours={"objective": "stochasticrank", "metric": "ndcg(gain=linear)"},
        theirs="StochasticRank:metric=NDCG",
        claim=">= 40",
        turns=ONCE,
    ),
    Pair(ours={"objective": "queryrmse"}, theirs="QueryRMSE"),
    Pair(ours={"objective": "softmax"}, theirs="QuerySoftMax"),
    Pair(ours={"objective": "regression"}, theirs="RMSE"),
    Pair(ours={"objective": "logistic"}, theirs="Logloss", binary=True),
    Pair(ours={"objective": "rankmart"}),
    Pair(ours={"objective": "xendcg"}),
    Pair(ours={"objective": "listnet"}),
)


# Objectives whose leaves are also given their values at once: pairs of near ranks, then all pairs.
JOINT: tuple[dict[str, Any], ...] = (
    {"objective": "yetirank"},
    {"objective": "yetiloss", "metric": "ndcg@10", "neighbours": 1},
    {"objective": "lambdamart"},
    {"objective": "yetiloss", "metric": "ndcg@10"},
    {"objective": "rankmart"},
)
MOST_FOR_JOINT = 1.10


class Ours(Rankgrove):
    """An objective of Rankgrove, with the seconds a tree of its forces alone, by round."""

    def __init__(self, data: Dataset, parameters: Parameters) -> None:
        self.training = Boosting(data, {}, parameters, n_jobs=THREADS)
        self.forces: list[float] = []

    def grow(self, n_trees: int) -> float:
        seconds, before = self.training.phases.seconds, len(self.training.trees)
        forces = seconds["forces"]
        a_tree = super().grow(n_trees)
        if len(self.training.trees) - before < n_trees:
            raise RuntimeError(f"{self.training.parameters.objective} found nothing to split by.")
        self.forces.append((seconds["forces"] - forces) / n_trees)
        return a_tree


def oblivious(pair: Pair) -> Parameters:
    """Trees as CatBoost grows them."""
    return Parameters(
        n_estimators=MANY, learning_rate=LEARNING_RATE, grower="oblivious", max_depth=DEPTH,
        max_bins=BINS, min_samples_leaf=1, min_child_weight=0.0, l2=0.0, l2_documents=3.0,
        bootstrap=0.0, split_noise=1.0, **pair.ours,
    )  # fmt: skip


def leafwise(pair: Pair) -> Parameters:
    """Trees as Rankgrove grows them unless told."""
    return replace(
        oblivious(pair), grower="leafwise", max_depth=None, max_leaves=LEAVES, min_samples_leaf=20
    )


def catboost(pool: Any, loss: str) -> CatBoost:
    """CatBoost with all documents in each tree, and without its metrics, which take time too."""
    tool = CatBoost(pool, Settings(max_leaves=1 << DEPTH, learning_rate=LEARNING_RATE), loss)
    tool.settings |= {"bootstrap_type": "No", "metric_period": MANY}
    return tool


def with_two_labels(data: Dataset) -> Dataset:
    """The same documents, relevant (1) or not (0)."""
    return replace(data, labels=(data.labels >= RELEVANT).astype(data.labels.dtype))


class Seconds(NamedTuple):
    """Medians of seconds an iteration; CatBoost's of so many iterations, None if it has none."""

    ours: float
    forces: float
    leafwise: float
    theirs: float | None
    iterations: int


def time_pair(pair: Pair, data: Dataset, pool: Any, rounds: int) -> Seconds:
    """Let both take turns; a first round of ours, before the clock, warms up."""
    ours, leaves = Ours(data, oblivious(pair)), Ours(data, leafwise(pair))
    ours.grow(WARM_UP_TREES)
    leaves.grow(WARM_UP_TREES)
    ours.forces.clear()
    theirs = catboost(pool, pair.theirs) if pair.theirs else None
    times: dict[str, list[float]] = {"ours": [], "leafwise": [], "theirs": []}
    for turn in range(rounds):
        gc.collect()
        times["ours"].append(ours.grow(TREES_A_ROUND))
        times["leafwise"].append(leaves.grow(TREES_A_ROUND))
        if theirs is not None and turn < pair.turns.rounds:
            times["theirs"].append(theirs.grow(pair.turns.iterations))
    return Seconds(
        ours=statistics.median(times["ours"]),
        forces=statistics.median(ours.forces),
        leafwise=statistics.median(times["leafwise"]),
        theirs=statistics.median(times["theirs"]) if theirs is not None else None,
        iterations=pair.turns.iterations * len(times["theirs"]),
    )


def compile_kernels() -> None:
    """Grow a few trees of every objective, so that no clock counts compiling."""
    data = make_rows(N_COMPILE_ROWS, N_FEATURES, seed=2)
    two = with_two_labels(data)
    for pair in PAIRS:
        for parameters in (oblivious(pair), leafwise(pair)):
            Ours(two if pair.binary else data, parameters).grow(WARM_UP_TREES)


def row(pair: Pair, seconds: Seconds) -> list[str]:
    """A line of the table."""
    theirs, ratio = "", ""
    if seconds.theirs is not None:
        theirs, ratio = f"{seconds.theirs:.3f}", f"{seconds.theirs / seconds.ours:.1f}"
    return [
        str(pair), f"{seconds.ours:.4f}", f"{seconds.forces:.4f}", f"{seconds.leafwise:.4f}",
        f"`{pair.theirs}`" if pair.theirs else "none", theirs, str(seconds.iterations or ""),
        ratio, pair.claim,
    ]  # fmt: skip


def measure(rows: int, rounds: int) -> str:
    """The table of all objectives, and what it was measured with."""
    compile_kernels()
    data = make_rows(rows, N_FEATURES, seed=0)
    sets = {False: data, True: with_two_labels(data)}
    pools = {binary: CatBoost.convert(labelled) for binary, labelled in sets.items()}
    lines = [
        row(pair, time_pair(pair, sets[pair.binary], pools[pair.binary], rounds)) for pair in PAIRS
    ]
    header = ("objective", "ours, s", "forces alone, s", f"ours, {LEAVES} leaves leaf-wise, s",
              "CatBoost's loss", "CatBoost, s", "its iterations", "CatBoost / ours",
              "claim")  # fmt: skip
    share = np.mean(sets[True].labels > 0)
    return (
        f"Seconds an iteration on {data.n_documents:,} documents in {data.n_queries:,} queries, "
        f"{N_FEATURES} features of `make_web_search`, {THREADS} threads, learning rate "
        f"{LEARNING_RATE}; oblivious trees of depth {DEPTH}, {BINS} bins (CatBoost: {BINS} "
        f"borders), no sampling. Medians of {rounds} alternating rounds of {TREES_A_ROUND} trees, "
        f"after {WARM_UP_TREES} trees of ours that compile and touch everything; CatBoost starts "
        f"anew in each round, its clock after its first iteration, and does not compute its "
        f"metrics. Its LambdaMart takes long: {SELDOM.iterations} timed iterations in each of the "
        f"first {SELDOM.rounds} rounds. StochasticRank takes longer: "
        f"{ONCE.iterations} timed iterations in the first round only. The losses of MAP and "
        f"Logloss get labels 0 and 1 in both libraries: a label of {RELEVANT} or more "
        f"is relevant, {100 * share:.0f} % of the documents. StochasticRank draws once an "
        f"iteration, YetiRank ranks 10 times, in both. `forces alone` is the part of `ours` that "
        f"the objective takes; the leaf-wise trees have at least 20 documents a leaf.\n\n"
        f"{table(header, lines)}"
    )


def measure_leaves(rows: int, rounds: int) -> str:
    """The table of what `leaf="joint"` costs."""
    data, lines = make_rows(rows, N_FEATURES, seed=0), []
    for options in JOINT:
        for shape in (oblivious, leafwise):
            tools = {
                leaf: Ours(data, shape(Pair(ours={**options, "leaf": leaf})))
                for leaf in ("newton", "joint")
            }
            for tool in tools.values():
                tool.grow(WARM_UP_TREES)
            turns = [[tool.grow(TREES_A_ROUND) for tool in tools.values()] for _ in range(rounds)]
            ratio = statistics.median(joint / newton for newton, joint in turns)
            medians = (statistics.median(times) for times in zip(*turns, strict=True))
            lines.append([
                str(Pair(ours=options)), shape.__name__, *(f"{each:.4f}" for each in medians),
                f"{ratio:.3f}", "yes" if ratio <= MOST_FOR_JOINT else "no",
            ])  # fmt: skip
            print(*lines[-1], flush=True)
    header = ("objective", "trees", "newton, s", "joint, s", "joint / newton",
              f"at most {MOST_FOR_JOINT:.2f}")  # fmt: skip
    return (
        f"Seconds a tree on {data.n_documents:,} documents, {N_FEATURES} features, {THREADS} "
        f"threads; trees as in the table of objectives. Medians of {rounds} rounds of "
        f"{TREES_A_ROUND} trees, in turns, and of their ratios. Of near ranks the pairs are kept "
        f"from the forces on; where all pairs count, they are gone through once more when the "
        f"leaves are known.\n\n{table(header, lines)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parser.add_argument("--rounds", type=int, default=N_ROUNDS, help=f"of {TREES_A_ROUND} trees")
    parser.add_argument("--leaves", action="store_true", help="what values of leaves cost")
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    arguments = parser.parse_args()
    run = measure_leaves if arguments.leaves else measure
    if arguments.quick:
        print(run(N_QUICK_ROWS, N_QUICK_ROUNDS))
        return
    body = run(arguments.rows, arguments.rounds)
    if arguments.leaves:
        report("joint", "Values of all leaves at once", LEAVES_COMMAND, PACKAGES[:2], body)
    else:
        report("objectives", "Objectives", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()
