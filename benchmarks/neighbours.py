"""The study of YetiLoss, docs/neighbours.md: neighbours or all pairs, and in how many rankings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.common import table
from benchmarks.differences import Difference
from benchmarks.runner import Runner, label, option
from benchmarks.study import Study, Variant, measured_by, other_seeds

METRICS = ("ndcg@10", "map(relevant>=1)", "mrr(relevant>=1)", "err")
BASES: dict[str, dict[str, Any]] = {
    f"{metric}, {grower}": {"objective": "yetiloss", "grower": grower, "metric": metric}
    for grower in ("oblivious", "leafwise")
    for metric in METRICS
}
# What Lyzhin et al. call YetiLoss, the number of neighbours that they find to be a good choice,
# and all pairs in as many rankings.
PUBLISHED = option("neighbours", neighbours=1)
VARIANTS = [
    *other_seeds(100),
    PUBLISHED,
    option("neighbours", neighbours=2),
    option("neighbours", permutations=10),
]


def study_neighbours(runner: Runner) -> dict[str, Study]:
    """YetiLoss for each metric on each kind of trees, with other pairs than the default's."""
    return runner.studies(BASES, dict.fromkeys(BASES, VARIANTS))


def _found(study: Study, variant: Variant) -> Difference:
    return study.overall(study.outcomes[VARIANTS.index(variant)])


def neighbours_answer(studies: Mapping[str, Study]) -> str:
    """Where the published form is worse or better than the default, by two standard errors."""
    found = {title: _found(study, PUBLISHED) for title, study in studies.items()}
    noise = max(abs(_found(study, VARIANTS[0]).mean) for study in studies.values())
    sides = {
        "worse": [title for title, by in found.items() if by.mean < -2 * by.error],
        "better": [title for title, by in found.items() if by.mean > 2 * by.error],
    }
    told = "; ".join(
        f"{side}: {', '.join(f'{title} ({found[title]})' for title in titles) or 'none'}"
        for side, titles in sides.items()
    )
    return (
        f"Pairs of neighbours in ten rankings, YetiLoss as published, against the default of all "
        f"pairs in three, by more than two standard errors: {told}. Below at all: "
        f"{sum(by.mean < 0 for by in found.values())} of {len(found)}. Other seeds alone "
        f"move the mean over the data sets by up to {noise:.4f}."
    )


def neighbours_page(studies: Mapping[str, Study], runner: Runner, command: str) -> str:
    rows = [
        [title, *(str(_found(study, variant)) for variant in VARIANTS)]
        for title, study in studies.items()
    ]
    titles = [label(variant) for variant in VARIANTS]
    figures = []
    for title, study in studies.items():
        lines = [("all pairs, 3 rankings", study.default)]
        lines += list(zip(titles, study.outcomes, strict=True))
        figures.append(f"### {title}: each data set\n\n{study.table_of(lines)}")
    return (
        "# YetiLoss: neighbours or all pairs\n\n"
        "Lyzhin et al. weigh pairs of neighbours in rankings with noise and find no stable "
        "dependence on how many neighbours count, on data sets of thousands of queries. Those "
        "here are smaller, and by them all pairs are the default. "
        f"{runner.how('the metric that the model is trained for')}\n\n"
        "The line of the default has the metric; the others have the difference to it with its "
        "standard error, from the differences query by query. The last column weighs all data "
        "sets equally.\n\n"
        f"{measured_by(command, runner.store.version)}\n\n"
        f"## What it says\n\n{neighbours_answer(studies)}\n\n"
        f"## The figures\n\n### Less the default, mean of the data sets\n\n"
        f"{table(('metric and trees', *titles), rows)}\n\n" + "\n\n".join(figures) + "\n"
    )
