"""The experiments of Lyzhin et al. 2022 as a plan: algorithms, metrics, tables, budgets.

"Which Tricks are Important for Learning to Rank?" tunes every algorithm for every metric, 20
trials at random and 80 by Bayesian optimisation, each of up to 1,000 trees, and takes parameters
and number of trees by the metric on validation. What is run here is what a table shows: a row is
an algorithm, perhaps with one thing changed, a cell is a row tuned for one metric on one fold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from rankgrove.errors import ParameterError, refusal, unknown_name, whole_number
from rankgrove.experiments.checks import check_one_of
from rankgrove.experiments.tune.tune import Sampler, check_sampler
from rankgrove.metrics.spec import parse_metric
from rankgrove.testing.peers import PEERS

Empty = Literal["paper", "skip", "zero", "one"]
EMPTY: tuple[str, ...] = get_args(Empty)
Kind = Literal["values", "relative", "gap", "sizes"]

METRICS = ("NDCG@10", "MRR", "MAP", "ERR")
ALL_METRICS = ("NDCG@1", "NDCG@5", *METRICS)


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of the paper in our words.

    Attributes
    ----------
    name, title
        On the command line, and in the tables.
    objective, fixed
        What it is in our words: an objective, and parameters that are not searched.
    metrics
        Those it is run for.
    paper
        The row of the paper that it is compared with, if it has another title.
    """

    name: str
    title: str
    objective: str
    fixed: Mapping[str, Any]
    metrics: tuple[str, ...] = ALL_METRICS
    paper: str | None = None


# With LightGBM's pairs and scaling, whatever our defaults are.
_LIGHTGBM = {"grower": "leafwise", "truncation": 30, "normalise": True}
_OBLIVIOUS = {"grower": "oblivious"}
# As first published: every pair, no scaling by query.
_PUBLISHED = {**_OBLIVIOUS, "truncation": None, "normalise": False}
_NEAREST = {**_OBLIVIOUS, "neighbours": 1, "permutations": 10}

ALGORITHMS: dict[str, Algorithm] = {
    one.name: one
    for one in (
        Algorithm("lambdamart-leafwise", "Leaf-wise LambdaMART", "lambdamart", _LIGHTGBM,
                  ("NDCG@1", "NDCG@5", "NDCG@10"), "LightGBM"),
        Algorithm("queryrmse", "QueryRMSE", "queryrmse", _OBLIVIOUS),
        Algorithm("lambdamart", "LambdaMART", "lambdamart", _PUBLISHED),
        Algorithm("stochasticrank", "StochasticRank", "stochasticrank", _OBLIVIOUS),
        Algorithm("yetirank", "YetiRank", "yetirank", _OBLIVIOUS),
        Algorithm("yetiloss", "YetiLoss", "yetiloss", _NEAREST),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A row of a table: an algorithm, with these parameters changed.

    >>> Row("Gaussian", "yetiloss", {"noise": "gaussian"}).key
    'yetiloss,noise=gaussian'
    """

    title: str
    algorithm: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return ",".join([self.algorithm, *(f"{k}={v}" for k, v in self.changes.items())])


class Table(NamedTuple):
    """What a table of the paper shows: rows and metrics, as `values`, `relative` losses or `gap`.

    Table 1 has the `sizes` of data sets, and nothing to run.
    """

    name: str
    rows: tuple[Row, ...]
    metrics: tuple[str, ...]
    kind: Kind = "values"

    @property
    def title(self) -> str:
        return f"Figure {self.name[-1]}" if self.name.startswith("figure") else f"Table {self.name}"

    @property
    def compares_algorithms(self) -> bool:
        """Whether its rows are algorithms, which peers have too, and not variants of one."""
        return not any(row.changes for row in self.rows)


def _smoothing(algorithm: str) -> tuple[Row, ...]:
    return (
        Row("Logistic", algorithm),
        Row("Gaussian", algorithm, {"noise": "gaussian"}),
        Row("No smoothing", algorithm, {"noise": "none", "permutations": 1}),
    )


_BY_ALGORITHM = tuple(Row(one.title, one.name) for one in ALGORITHMS.values())
# Section 4.3: documents of a pair are exactly so many ranks apart.
_NEIGHBOURS = (
    Row("1", "yetiloss"),
    *(Row(str(n), "yetiloss", {"neighbours_exactly": n}) for n in (2, 3)),
    Row("all", "yetiloss", {"neighbours": "all"}),
)
# The paper has no 3 for these.
_FEWER = tuple(row for row in _NEIGHBOURS if row.title != "3")


def _tables() -> dict[str, Table]:
    found = [
        Table("1", (), (), "sizes"),
        Table("2", _BY_ALGORITHM, METRICS),
        Table("3", _smoothing("yetiloss"), ("NDCG@10", "MRR", "MAP")),
        Table("figure1", _NEIGHBOURS, METRICS, "relative"),
    ]
    for number, metric in enumerate(ALL_METRICS):
        rows = _FEWER if metric in ("NDCG@1", "NDCG@5") else _NEIGHBOURS
        found.append(Table(str(4 + number), rows, (metric,)))
    for number, metric in enumerate(ALL_METRICS):
        found.append(Table(str(10 + 2 * number), _smoothing("yetirank"), (metric,)))
        found.append(Table(str(11 + 2 * number), _smoothing("yetiloss"), (metric,)))
    compared = tuple(row for row in _BY_ALGORITHM if row.algorithm != "queryrmse")
    for number, metric in enumerate(METRICS):
        found.append(Table(str(22 + number), compared, (metric,), "gap"))
    return {table.name: table for table in found}


TABLES: dict[str, Table] = _tables()


def parse_tables(text: str) -> list[Table]:
    """The tables of a list such as `2,3,figure1,4-9`.

    >>> [table.name for table in parse_tables("2, figure 1, 4-6")]
    ['2', 'figure1', '4', '5', '6']
    """
    names: list[str] = []
    for part in text.lower().replace(" ", "").split(","):
        name = re.sub(r"^(table|tables)", "", part)
        name = re.sub(r"^(fig\.?|f)(?=\d)", "figure", name)
        match = re.fullmatch(r"(\d+)(?:-|to|\.\.)(\d+)", name)
        if match and int(match[1]) <= int(match[2]) <= 1000:
            names += [str(number) for number in range(int(match[1]), int(match[2]) + 1)]
        elif name:
            names.append(name)
    if not names:
        raise refusal("table", "name at least one table, as 2 or 4-9", got="none")
    for name in names:
        check_one_of("table", name, TABLES)
    return [TABLES[name] for name in dict.fromkeys(names)]


def convert_labels(
    metric: str, labels: NDArray[np.float32], top_grade: float
) -> NDArray[np.float32]:
    """The labels that a metric is trained and measured by: the conversion of section 4.1.

    MRR and MAP know two kinds of documents, of label 0 and above. ERR takes chances: labels divided
    by the highest grade, 4 in all data of the paper.

    >>> labels = np.array([0, 1, 4], dtype=np.float32)
    >>> convert_labels("MAP", labels, 4).tolist(), convert_labels("ERR", labels, 4).tolist()
    ([0.0, 1.0, 1.0], [0.0, 0.25, 1.0])
    """
    if metric in ("MRR", "MAP"):
        return (labels > 0).astype(labels.dtype)
    return labels / labels.dtype.type(top_grade) if metric == "ERR" else labels


def metric_name(metric: str, empty: Empty = "paper") -> str:
    """A metric of the paper in our words, for labels that are converted.

    Ties are resolved against the model.

    The paper does not say what a query without a relevant document counts. Its table 22 does: in 15
    of 30 cells "train" less "gap" misses the value of table 2 by an amount that is the same for all
    algorithms on a data set, its share of such queries. So they count 1 in the NDCG of table 2, as
    in CatBoost. By the formulas they count 0 in MRR and ERR, and in CatBoost in MAP, too; no figure
    of the paper confirms these three.

    >>> metric_name("NDCG@10"), metric_name("ERR"), metric_name("MAP", "skip")
    ('ndcg@10(empty=one)', 'err(r/1, empty=zero)', 'map(relevant>=1)')
    """
    check_one_of("empty", empty, EMPTY)
    check_one_of("a metric of the paper", metric, ALL_METRICS)
    family = metric.partition("@")[0]
    policy = ("one" if family == "NDCG" else "zero") if empty == "paper" else empty
    arguments = {"MRR": ["relevant>=1"], "MAP": ["relevant>=1"], "ERR": ["r/1"]}
    told = [*arguments.get(family, []), f"empty={policy}"]
    return str(parse_metric(f"{metric.lower()}({', '.join(told)})"))


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much is spent on a cell.

    Attributes
    ----------
    n_random, n_bayesian, sampler
        Trials drawn at random, then by Bayesian optimisation: `tpe`, or `gp` as in the paper.
    max_trees
        The most trees of a trial; as many are kept as are best on validation.
    patience
        A trial ends when so many trees brought nothing; None grows them all, as the paper does.
    seed
        Of the trials and of every training.
    """

    n_random: int = 20
    n_bayesian: int = 80
    max_trees: int = 1000
    patience: int | None = None
    seed: int = 0
    sampler: Sampler = "tpe"

    def __post_init__(self) -> None:
        whole_number("n_random", self.n_random, 1)
        whole_number("n_bayesian", self.n_bayesian, 0)
        whole_number("max_trees", self.max_trees, 1)
        whole_number("patience", self.patience, 1, none=True)
        whole_number("seed", self.seed, 0)
        check_sampler(self.sampler)

    @property
    def rounds(self) -> int:
        """Early stopping that never stops still keeps the trees up to the best."""
        return self.max_trees if self.patience is None else min(self.patience, self.max_trees)

    def __str__(self) -> str:
        stop = "" if self.patience is None else f", stopped when {self.patience} bring nothing"
        return (
            f"{self.n_random} random and {self.n_bayesian} Bayesian trials ({self.sampler}) per "
            f"cell, up to {self.max_trees:,} trees{stop}, seed {self.seed}"
        )


FULL = Budget()
QUICK = Budget(n_random=4, n_bayesian=4, max_trees=200, patience=30)


def parse_trials(text: str) -> tuple[int, int]:
    """Random and Bayesian trials from `20+80`, or from their sum, a fifth of it at random.

    >>> parse_trials("4+4"), parse_trials("100"), parse_trials("1")
    ((4, 4), (20, 80), (1, 0))
    """
    match = re.fullmatch(r"\s*(\d+)\s*(?:\+\s*(\d+)\s*)?", text)
    if match is None or int(match[1]) < 1:
        raise ParameterError(
            f"trials must be a number, 1 or more, or two as 20+80, random and Bayesian. "
            f"Got {text!r}."
        )
    if match[2] is not None:
        return int(match[1]), int(match[2])
    n_random = max(1, round(int(match[1]) / 5))
    return n_random, int(match[1]) - n_random


class Cell(NamedTuple):
    """One entry of a table on one fold: a row tuned for a metric, by one tool."""

    row: Row
    metric: str
    tool: str = "rankgrove"

    @property
    def key(self) -> str:
        return f"{self.tool},{self.row.key},{self.metric}"

    @property
    def title(self) -> str:
        """What it is called while it is computed.

        >>> Cell(Row("Gaussian", "yetiloss", {"noise": "gaussian"}), "MAP").title
        'YetiLoss, noise gaussian, MAP'
        """
        tool = f"{PEERS[self.tool].title}'s " if self.tool in PEERS else ""
        changes = [f"{name} {value}" for name, value in self.row.changes.items()]
        return ", ".join([tool + ALGORITHMS[self.row.algorithm].title, *changes, self.metric])


# Who else has the algorithm.
PEER_OF = {**dict.fromkeys(ALGORITHMS, "catboost"), "lambdamart-leafwise": "lightgbm"}


def cells_of(
    tables: Iterable[Table],
    algorithms: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    peers: Iterable[str] = (),
) -> list[Cell]:
    """What has to be run for these tables, each cell once.

    Parameters
    ----------
    tables
        Of TABLES.
    algorithms, metrics
        Only these; None for all.
    peers
        Which of `catboost` and `lightgbm` are run, too, where a table compares algorithms.
    """
    chosen = _chosen("algorithm", algorithms, ALGORITHMS)
    wanted = _chosen("metric", metrics, ALL_METRICS)
    known = set(peers)
    cells: dict[str, Cell] = {}
    for table in tables:
        for metric in table.metrics:
            for row in table.rows:
                has = metric in ALGORITHMS[row.algorithm].metrics
                if row.algorithm not in chosen or metric not in wanted or not has:
                    continue
                found = [Cell(row, metric)]
                tool = PEER_OF[row.algorithm]
                # CatBoost's StochasticRank has no MAP.
                lacks = row.algorithm == "stochasticrank" and metric == "MAP"
                if tool in known and table.compares_algorithms and not lacks:
                    found.append(Cell(row, metric, tool))
                for cell in found:
                    cells.setdefault(cell.key, cell)
    if not cells:
        raise ParameterError(
            "algorithms and metrics must leave something of the tables to run. Got nothing."
        )
    return list(cells.values())


def _chosen(what: str, given: Sequence[str] | None, known: Iterable[str]) -> set[str]:
    """The names that are asked for, in any case."""
    names = {name.lower(): name for name in known}
    if given is None:
        return set(names.values())
    for name in given:
        if name.lower() not in names:
            raise unknown_name(what, name, list(names.values()))
    return {names[name.lower()] for name in given}
