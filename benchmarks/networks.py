"""RankNet and LambdaRank on the real data sets, and how their defaults were chosen.

It writes docs/networks.md. Fits are kept in a file, from which an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import commit, limit_threads, machine, table, write_page

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

from benchmarks.differences import (  # noqa: E402
    MEAN,
    SIGNIFICANT,
    Difference,
    differences_of_sets,
)
from benchmarks.peers import METRIC, ndcg_of_queries  # noqa: E402
from benchmarks.real_data import add_data_option, as_five_folds, read_sets  # noqa: E402
from benchmarks.study import (  # noqa: E402
    STOP_SHARE,
    Fitted,
    Job,
    Jobs,
    Outcome,
    Store,
    Study,
    Variant,
    fit_all,
    in_one_list,
    jobs_of,
    other_seeds,
)
from rankgrove.boosting.parameters import Parameters  # noqa: E402
from rankgrove.data.dataset import Dataset  # noqa: E402
from rankgrove.estimators.ranker import Ranker  # noqa: E402
from rankgrove.neural import LambdaRank, RankNet  # noqa: E402
from rankgrove.training.network_parameters import NetworkParameters  # noqa: E402

COMMAND = "python -m benchmarks.networks"
PACKAGES = ("numpy", "numba", "scipy", "torch")
PAGE = Path(__file__).parents[1] / "docs" / "networks.md"
N_FOLDS, PATIENCE, PATIENCE_OF_TREES = 5, 10, 50

TREES = "trees"
MODELS: dict[str, dict[str, Any]] = {
    "linear RankNet": {"objective": "ranknet", "hidden": (), "dropout": 0.0},
    "linear LambdaRank": {"objective": "lambdarank", "hidden": (), "dropout": 0.0},
    "RankNet": {"objective": "ranknet"},
    "LambdaRank": {"objective": "lambdarank"},
    TREES: {"objective": "auto"},
}
COMPARED = (
    ("LambdaRank", "RankNet"),
    ("linear LambdaRank", "linear RankNet"),
    ("RankNet", "linear RankNet"),
    ("LambdaRank", "linear LambdaRank"),
    (TREES, "LambdaRank"),
)

# What stood as the defaults before this study.
FIRST: dict[str, Any] = {
    "objective": "lambdarank", "hidden": (64, 32), "dropout": 0.0, "transform": "quantile",
    "learning_rate": 0.003, "weight_decay": 0.0, "batch_queries": 16, "max_epochs": 50,
    "early_stopping_rounds": PATIENCE,
}  # fmt: skip


def _one(name: str, *values: Any) -> list[Variant]:
    return [Variant(name, f"{name}={value!r}", {name: value}) for value in values]


def _together(**values: Any) -> Variant:
    title = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return Variant("together", title, values)


ALONE = [
    *other_seeds(100),
    *_one("hidden", (), (32,), (128, 64)),
    *_one("learning_rate", 0.0003, 0.001, 0.01),
    *_one("batch_queries", 4, 64),
    *_one("dropout", 0.2, 0.5),
    *_one("weight_decay", 1.0),
    *_one("transform", "log1p", "standard"),
    _together(max_epochs=200, early_stopping_rounds=20),
]


TOGETHER = [
    _together(dropout=0.2, hidden=(32,)),
    _together(dropout=0.2, hidden=(128, 64)),
    _together(dropout=0.5, hidden=(128, 64)),
]
# What became the default.
CHOSEN = next(variant for variant in ALONE if variant.values == {"dropout": 0.2})
_CHOOSABLE = ("hidden", "dropout", "transform", "learning_rate", "weight_decay", "batch_queries",
              "max_epochs")  # fmt: skip


class NetworkJob(Job):
    """One fit of a network or of trees; `judge` in its values is the part that it is judged by."""

    def key(self, version: str) -> str:
        """The same text for the same fit by the same code, whatever the defaults are."""
        return json.dumps(
            {"parameters": {**_settled(self.values), "judge": self.values["judge"]},
             "set": self.name, "fold": self.fold, "seed": self.seed, "commit": version},
            sort_keys=True,
        )  # fmt: skip


def _settled(values: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in values.items() if name != "judge"}
    if values["objective"] in ("ranknet", "lambdarank"):
        return NetworkParameters(**given).as_json()
    return Parameters(**given).as_json()


def _make(values: Mapping[str, Any], seed: int) -> Any:
    given = {name: value for name, value in values.items() if name != "judge"}
    kinds: dict[str, Any] = {"ranknet": RankNet, "lambdarank": LambdaRank}
    if values["objective"] in kinds:
        return kinds[given.pop("objective")](**given, random_state=seed, n_jobs=1)
    return Ranker(**given, random_state=seed, n_jobs=1)


# The three parts of each fold of each data set, in a process of the pool.
_parts: dict[str, list[tuple[Dataset, Dataset, Dataset]]] = {}


def _read_parts(folder: Path) -> None:
    for name, splits in read_sets(folder).items():
        _parts[name] = [split.with_vali() for split in as_five_folds(splits)]


def _timed(job: Job) -> tuple[Fitted, float]:
    """A fit, and the seconds that it kept a CPU busy.

    Judged by the test part, it stops by the validation part. Judged by the validation part, it
    stops by a part of the training queries, and never sees the test part.
    """
    start = time.process_time()
    train, watched, judge = _parts[job.name][job.fold]
    if job.values["judge"] == "vali":
        judge = watched
        train, watched = train.split(1 - STOP_SHARE, STOP_SHARE, seed=job.seed)
    ranker = _make(job.values, job.seed).fit(train, valid=watched)
    values = ndcg_of_queries(judge, np.asarray(ranker.predict(judge)))
    return Fitted(values, ranker.best_iteration_), time.process_time() - start


def network_jobs(
    base: Mapping[str, Any], variant: Variant, folds: Mapping[str, int], seeds: Iterable[int]
) -> Jobs:
    """As `jobs_of`, for networks."""
    return {
        name: [[NetworkJob(*job) for job in of_seed] for of_seed in runs]
        for name, runs in jobs_of(base, variant, folds, seeds).items()
    }


class NetworkStudy(Study):
    """Every variant of the first defaults, judged by the validation parts."""

    def __init__(
        self, folds: Mapping[str, int], variants: Sequence[Variant], seeds: Sequence[int],
        store: Store, base: Mapping[str, Any],
    ) -> None:  # fmt: skip
        super().__init__(folds, variants, seeds, store, _judged_by_vali(base), quiet=True)

    def is_default(self, variant: Variant) -> bool:
        return False

    def jobs_of(self, variant: Variant) -> Jobs:
        return network_jobs(self.base, variant, self.folds, self.seeds)


def _judged_by_vali(base: Mapping[str, Any]) -> dict[str, Any]:
    return {**base, "eval_metric": METRIC, "judge": "vali"}


def jobs_of_study(
    base: Mapping[str, Any], variants: Sequence[Variant], folds: Mapping[str, int],
    seeds: Sequence[int],
) -> list[Job]:  # fmt: skip
    """All fits of a study."""
    return [
        job
        for variant in (Variant("the", "defaults"), *variants)
        for job in in_one_list(network_jobs(_judged_by_vali(base), variant, folds, seeds))
    ]


def jobs_of_test(title: str, folds: Mapping[str, int], seeds: Iterable[int]) -> Jobs:
    """The fits of a model that are judged by the test parts."""
    rounds = PATIENCE_OF_TREES if title == TREES else PATIENCE
    base = {"eval_metric": METRIC, "early_stopping_rounds": rounds, "judge": "test"}
    return network_jobs({**base, **MODELS[title]}, Variant("the", "model"), folds, seeds)


Results = dict[str, dict[str, Outcome]]


def results_of(store: Store, folds: Mapping[str, int], seeds: Sequence[int]) -> Results:
    """By model and data set."""
    return {
        title: {
            name: Outcome([[store(job) for job in of_seed] for of_seed in runs])
            for name, runs in jobs_of_test(title, folds, seeds).items()
        }
        for title in MODELS
    }


def difference_of(results: Results, ours: str, theirs: str) -> dict[str, Difference]:
    """By data set, and in the mean of them."""
    return differences_of_sets(
        *({name: outcome.values for name, outcome in results[title].items()}
          for title in (ours, theirs))
    )  # fmt: skip


def answer(ours: str, theirs: str, found: Mapping[str, Difference]) -> str:
    """What can be said of one model against another."""
    whole = found[MEAN]
    verdict = "these data can't tell the two apart"
    if whole.p_value < SIGNIFICANT:
        verdict = f"{ours} is {'better' if whole.mean > 0 else 'worse'}"
    apart = [
        f"{name} ({by.mean:+.4f}, {by.p})"
        for name, by in found.items()
        if name != MEAN and by.p_value < SIGNIFICANT
    ]
    return (
        f"- **{ours} against {theirs}**: {verdict}; in the mean of the sets {whole.mean:+.4f}, "
        f"95 % interval {whole.interval}, {whole.p}. Single sets with p "
        f"below {SIGNIFICANT}: {', '.join(apart) or 'none'}."
    )


def results_table(results: Results) -> str:
    names = list(next(iter(results.values())))
    rows = []
    for title, outcomes in results.items():
        means = [float(np.nanmean(outcomes[name].values)) for name in names]
        rounds = np.mean([np.mean(outcomes[name].n_trees) for name in names])
        unit = "trees" if title == TREES else "epochs"
        rows.append((title, *(f"{mean:.4f}" for mean in [*means, np.mean(means)]),
                     f"{rounds:.0f} {unit}"))  # fmt: skip
    return table(("model", *names, MEAN, "kept"), rows)


def differences_table(results: Results) -> str:
    rows = []
    for ours, theirs in COMPARED:
        found = difference_of(results, ours, theirs)
        rows.append((f"{ours} less {theirs}", *(f"{by}, {by.p}" for by in found.values())))
    return table(("", *next(iter(results.values())), MEAN), rows)


def study_table(study: NetworkStudy) -> str:
    """One line a variant: the difference to the first values, and what was kept."""

    def kept(outcome: Mapping[str, Outcome]) -> str:
        return f"{np.mean([np.mean(out.n_trees) for out in outcome.values()]):.0f}"

    first = [f"{np.nanmean(out.values):.4f}" for out in study.default.values()]
    mean = np.mean([np.nanmean(out.values) for out in study.default.values()])
    rows = [["the first values", *first, f"{mean:.4f}", kept(study.default)]]
    for variant, outcome in zip(study.variants, study.outcomes, strict=True):
        name = f"other seeds, {variant.title}" if variant.first_seed else f"`{variant.title}`"
        rows.append([*study.row(name, outcome), kept(outcome)])
    return table(("what differs", *study.folds, MEAN, "epochs"), rows)


def defaults_section(study: NetworkStudy, of_ranknet: NetworkStudy) -> str:
    first = ", ".join(f"`{name}={value!r}`" for name, value in FIRST.items() if name in _CHOOSABLE)
    gained = study.overall(study.outcomes[study.variants.index(CHOSEN)])
    also = of_ranknet.overall(of_ranknet.outcomes[0])
    like = [
        study.overall(outcome).mean > 0
        for variant, outcome in zip(study.variants, study.outcomes, strict=True)
        if variant is not CHOSEN and CHOSEN.values.keys() <= variant.values.keys()
    ]
    noise = max(abs(study.overall(outcome).mean)
                for variant, outcome in zip(study.variants, study.outcomes, strict=True)
                if variant.first_seed)  # fmt: skip
    return (
        f"## How the defaults were chosen\n\n"
        f"LambdaRank was varied around its first values, {first}: one parameter at a time, then "
        f"a few together. Networks were trained on "
        f"{100 * (1 - STOP_SHARE):.0f} % of the training queries of each fold, stopped by the "
        f"others after {PATIENCE} epochs without a better NDCG@10, and judged by the validation "
        f"part; test parts were not looked at. {len(study.seeds)} seeds; differences to the first "
        f"values with their standard errors over queries. Other seeds alone move the mean of the "
        f"sets by {noise:.4f}.\n\n"
        f"Chosen: `{CHOSEN.title}`, {gained} for LambdaRank and {also} for RankNet, and "
        f"{sum(like)} of {len(like)} other variants with the same parameter gain. The evidence is "
        f"weak, as that for any of the other values is: these stay.\n\n{study_table(study)}\n"
    )


def networks_page(
    results: Results, study: NetworkStudy, of_ranknet: NetworkStudy, seeds: Sequence[int],
    version: str,
) -> str:  # fmt: skip
    answers = [
        answer(ours, theirs, difference_of(results, ours, theirs)) for ours, theirs in COMPARED
    ]
    return (
        "# Networks on real data\n\n"
        "[RankNet and LambdaRank](neural.md) at their defaults, linear (`hidden=()`) and with "
        "hidden layers, LambdaRank for NDCG@10. Trees are those of `Ranker()`, for orientation. "
        f"Each of {N_FOLDS} folds is trained on its training part, stopped by NDCG@10 on its "
        f"validation part after {PATIENCE} epochs or {PATIENCE_OF_TREES} trees without a better "
        f"value, and judged by NDCG@10 on its test part; {len(seeds)} seeds, over which the "
        "values of a query are averaged. p-values are of paired t-tests over queries, not "
        "adjusted for their number; the mean of the sets weighs all sets equally (Welch). "
        "Standard errors are over queries: that another training set would have given another "
        "model comes on top. The test part of one fold is the validation part of another, by "
        "which the defaults of networks were chosen (below), and those of trees too.\n\n"
        f"Command: `{COMMAND}`, commit {version}.\n\nMachine: {machine(PACKAGES)}.\n\n"
        "## What it says\n\n" + "\n".join(answers) + "\n\n"
        f"## The figures\n\n{results_table(results)}\n\n{differences_table(results)}\n\n"
        f"{defaults_section(study, of_ranknet)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_option(parser)
    parser.add_argument("--results", type=Path, help="where fits are kept, to go on later")
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    arguments = parser.parse_args()
    names = list(read_sets(arguments.data))
    folds = dict.fromkeys(names, 1 if arguments.quick else N_FOLDS)
    seeds, variants = range(3), [*ALONE, *TOGETHER]
    if arguments.quick:
        seeds, variants = range(1), [*ALONE[:2], CHOSEN]
    tried = seeds[:2]
    ranknet = {**FIRST, "objective": "ranknet"}
    store = Store(arguments.results, commit())
    jobs = [*jobs_of_study(FIRST, variants, folds, tried),
            *jobs_of_study(ranknet, [CHOSEN], folds, tried)]  # fmt: skip
    for title in MODELS:
        jobs += in_one_list(jobs_of_test(title, folds, seeds))
    fit_all(jobs, store, arguments.data, arguments.workers, _read_parts, _timed)
    study = NetworkStudy(folds, variants, tried, store, FIRST)
    of_ranknet = NetworkStudy(folds, [CHOSEN], tried, store, ranknet)
    page = networks_page(results_of(store, folds, seeds), study, of_ranknet, seeds, store.version)
    if arguments.quick:
        print(page)
    else:
        write_page(PAGE, page)


if __name__ == "__main__":
    main()
