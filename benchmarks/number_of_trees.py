"""How many trees to train without a validation set: docs/number-of-trees.md.

A rule is fitted on synthetic data of many sizes, and checked on the real data sets. Fits are kept
in a file, from which an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import commit, limit_threads, table, write_page
from benchmarks.differences import Floats, mean_difference
from benchmarks.peers import METRIC
from benchmarks.real_data import Split, add_data_option, as_five_folds, read_sets
from benchmarks.study import Fitted, Job, Store, fit_all, measured_by
from rankgrove.boosting.number_of_trees import LEARNED, default_n_estimators
from rankgrove.data.synthetic import make_web_search
from rankgrove.estimators.ranker import Ranker
from rankgrove.metrics.evaluate import evaluate

COMMAND = "python -m benchmarks.number_of_trees"
PAGE = Path(__file__).parents[1] / "docs" / "number-of-trees.md"
N_HELD_OUT, N_FEATURES, MOST_QUERIES, N_LARGE = 300, 46, 1500, 4000
# Runs, their noise and the seed that draws them. The last is about what web search data have.
DRAWS: tuple[tuple[int, tuple[float, ...], int], ...] = ((48, (0.5, 1, 2), 15), (24, (4,), 16))
# Trees times learning rate, at the end of each run on synthetic data.
MOST_LEARNED = 50.0
MOST_TREES, PATIENCE, RATE = 500, 50, 0.1
# On real data a model is measured by query at these numbers of trees, each 7 % more than the last.
COUNTS = np.unique(np.round(np.geomspace(5, MOST_TREES, 70)).astype(int)).tolist()
MODELS: dict[str, dict[str, Any]] = {
    "yetirank, oblivious": {"objective": "yetirank", "grower": "oblivious"},
    "lambdamart, leafwise": {
        "objective": "lambdamart", "grower": "leafwise", "truncation": 30,
        "metric": "ndcg(ties=stable)",
    },
}  # fmt: skip
SIZES = {"yetirank, oblivious": ("max_depth", (6, 6, 4, 8)),
         "lambdamart, leafwise": ("max_leaves", (31, 31, 15, 63))}  # fmt: skip


class Case(NamedTuple):
    """One run on synthetic data."""

    model: str
    n_queries: int
    mean_documents: int
    noise: float
    rate: float
    size: int
    seed: int

    def job(self) -> Job:
        values = {
            **MODELS[self.model], SIZES[self.model][0]: self.size, "learning_rate": self.rate,
            "n_estimators": round(MOST_LEARNED / self.rate), "eval_metric": METRIC,
        }  # fmt: skip
        name = f"synthetic {self.n_queries} {self.mean_documents} {self.noise}"
        return Job(values, name, 0, self.seed)


def draw_cases(n_cases: int, most_queries: int, noises: Sequence[float], seed: int) -> list[Case]:
    """Cases of all sizes, evenly in the logarithm of the number of queries."""
    rng = np.random.default_rng(seed)
    cases = []
    for number in range(n_cases):
        model = list(MODELS)[number % 2]
        n_queries = round(float(np.exp(rng.uniform(np.log(20), np.log(most_queries)))))
        cases.append(
            Case(
                model, n_queries, int(rng.choice([10, 20, 40])), float(rng.choice(noises)),
                float(rng.choice([0.03, 0.1, 0.1, 0.3])), int(rng.choice(SIZES[model][1])), number,
            )
        )  # fmt: skip
    return cases


def large_cases() -> list[Case]:
    """A few runs on more queries than the others have."""
    return [
        Case(model, N_LARGE, 20, noise, RATE, SIZES[model][1][0], number)
        for number, noise in enumerate((1.0, 4.0))
        for model in MODELS
    ]


_splits: dict[str, list[Split]] = {}


def _read(folder: Path) -> None:
    _splits.update(
        {name: as_five_folds(splits) for name, splits in read_sets(folder).items()}
        if folder is not None
        else {}
    )


def _fit(job: Job) -> tuple[Fitted, float]:
    start = time.process_time()
    run = _fit_synthetic if job.name.startswith("synthetic") else _fit_real
    return run(job), time.process_time() - start


def _fit_synthetic(job: Job) -> Fitted:
    """The mean NDCG@10 of held-out queries after each tree."""
    _, n_queries, mean_documents, noise = job.name.split()
    n_train = int(n_queries)
    share = n_train / (n_train + N_HELD_OUT)
    data = make_web_search(
        n_train + N_HELD_OUT, N_FEATURES, mean_documents=float(mean_documents), noise=float(noise),
        seed=job.seed, n_jobs=1,
    )  # fmt: skip
    train, held_out = data.split(share, 1 - share)
    ranker = Ranker(**job.values, random_state=job.seed, n_jobs=1).fit(train, valid=held_out)
    return Fitted(np.array(ranker.history_["valid"][METRIC]), ranker.best_iteration_)


def _fit_real(job: Job) -> Fitted:
    """NDCG@10 of the test queries at each of COUNTS, and last with early stopping."""
    train, vali, test = _splits[job.name][job.fold].with_vali()
    ranker = Ranker(**job.values, random_state=job.seed, n_jobs=1).fit(train, valid=vali)
    stopped = early_stop(ranker.history_["valid"][METRIC])
    rows = []
    for n_trees in (*COUNTS, stopped):
        scores = np.asarray(ranker.predict(test, n_trees=min(n_trees, ranker.best_iteration_)))
        rows.append(evaluate(test, scores, METRIC, n_jobs=1).per_query(METRIC))
    return Fitted(np.concatenate(rows), stopped)


def early_stop(curve: Sequence[float]) -> int:
    """The trees that early stopping keeps."""
    best = 0
    for number, value in enumerate(curve):
        if value > curve[best]:
            best = number
        elif number - best >= PATIENCE:
            break
    return best + 1


def smooth(curve: Floats) -> Floats:
    """The mean over the numbers of trees from 15 % less to 15 % more."""
    sums = np.concatenate([[0.0], np.cumsum(curve)])
    numbers = np.arange(1, len(curve) + 1)
    low = np.maximum(np.floor(numbers * 0.85).astype(int), 1)
    high = np.minimum(np.ceil(numbers * 1.15).astype(int), len(curve))
    return np.asarray((sums[high] - sums[low - 1]) / (high - low + 1))


Rule = Callable[[Case], float]


class Curves:
    """The smoothed curves of all cases."""

    def __init__(self, curves: Sequence[tuple[Case, Floats]]) -> None:
        self.curves = curves

    @classmethod
    def of(cls, cases: Sequence[Case], store: Store) -> Curves:
        return cls([(case, smooth(store(case.job()).values)) for case in cases])

    def where(self, keep: Callable[[Case], bool]) -> Curves:
        return Curves([(case, curve) for case, curve in self.curves if keep(case)])

    def regret(self, rule: Rule) -> float:
        """By how much cases fall short of their best number of trees, in the mean."""
        losses = []
        for case, curve in self.curves:
            n_trees = min(max(round(rule(case)), 1), len(curve))
            losses.append(curve.max() - curve[n_trees - 1])
        return float(np.mean(losses))

    def fit(self, size_of: Callable[[Case], float], powers: Sequence[float]) -> tuple[float, ...]:
        """The least regret of a rule a size^b / rate, and its a and b."""
        return min(
            (self.regret(scaled(factor, power, size_of)), factor, power)
            for power in powers
            for factor in np.geomspace(0.05, 50, 80).tolist()
        )


def scaled(factor: float, power: float, size_of: Callable[[Case], float]) -> Rule:
    return lambda case: factor * size_of(case) ** power / case.rate


def of_queries(case: Case) -> float:
    return float(case.n_queries)


def of_documents(case: Case) -> float:
    return float(case.n_queries * case.mean_documents)


def is_noisy(case: Case) -> bool:
    """Whether the labels follow the features as little as in the real data sets."""
    return case.noise >= 2


def synthetic_table(curves: Curves) -> str:
    """What rules without a size fall short, by model and noise."""
    groups: dict[str, Curves] = {}
    for model in MODELS:
        own = curves.where(partial(_is_of, model))
        groups[f"{model}, noise 0.5 and 1"] = own.where(lambda case: not is_noisy(case))
        groups[f"{model}, noise 2 and 4"] = own.where(is_noisy)
    groups |= {
        "below 200 queries": curves.where(lambda case: case.n_queries < 200),
        "from 200 queries": curves.where(lambda case: case.n_queries >= 200),
    }
    rules: dict[str, Rule] = {
        **{f"{n} / rate": scaled(n, 0.0, of_queries) for n in (3, 5, 8, 10, 15, 20, 30, 50)},
        "100": lambda _: 100,
        "500": lambda _: 500,
    }
    rows = [
        [name, *(f"{group.regret(rule):.4f}" for group in groups.values())]
        for name, rule in rules.items()
    ]
    head = [f"{name} ({len(group.curves)})" for name, group in groups.items()]
    return table(("trees", *head), rows)


def _is_of(model: str, case: Case) -> bool:
    return case.model == model


def fitted_table(curves: Curves) -> str:
    """What the best rules of three forms fall short on noisy data."""
    powers = np.arange(0.0, 0.61, 0.05).round(2).tolist()
    groups = {"both models": curves.where(is_noisy)}
    groups |= {model: groups["both models"].where(partial(_is_of, model)) for model in MODELS}
    rows = []
    for name, group in groups.items():
        constant = group.fit(of_queries, [0.0])
        rows.append([name, len(group.curves), f"{constant[1]:.1f} / rate: {constant[0]:.4f}"])
        for word, size_of in (("queries", of_queries), ("documents", of_documents)):
            regret, factor, power = group.fit(size_of, powers)
            rows[-1].append(f"{factor:.2g} {word}^{power:g} / rate: {regret:.4f}")
        rows[-1].append(f"{group.regret(scaled(LEARNED, 0.0, of_queries)):.4f}")
    return table(
        ("runs with noise 2 and 4", "number", "rate", "queries", "documents", "`auto`"), rows
    )


def real_jobs(sets: Mapping[str, Sequence[Split]], model: str, seeds: Sequence[int]) -> list[Job]:
    values = {
        **MODELS[model], "n_estimators": MOST_TREES, "learning_rate": RATE, "eval_metric": METRIC,
    }  # fmt: skip
    return [
        Job(values, name, fold, seed)
        for name, splits in sets.items()
        for seed in seeds
        for fold in range(len(splits))
    ]


def real_values(
    sets: Mapping[str, Sequence[Split]], model: str, seeds: Sequence[int], store: Store
) -> dict[str, dict[str, Floats]]:
    """For each way to choose the number of trees, NDCG@10 by query of each data set."""
    found: dict[str, dict[str, list[Floats]]] = {}
    for job in real_jobs(sets, model, seeds):
        rows = store(job).values.reshape(len(COUNTS) + 1, -1)
        auto = default_n_estimators(RATE)
        ways = {
            "auto": rows[int(np.abs(np.array(COUNTS) - auto).argmin())],
            "500": rows[COUNTS.index(500)],
            "100": rows[int(np.abs(np.array(COUNTS) - 100).argmin())],
            "early stopping": rows[-1],
        }
        for way, values in ways.items():
            found.setdefault(way, {}).setdefault(job.name, []).append(values)
    return {
        way: {
            name: np.concatenate(runs).reshape(len(seeds), -1).mean(axis=0)
            for name, runs in of_sets.items()
        }
        for way, of_sets in found.items()
    }


def real_table(values: Mapping[str, Mapping[str, Floats]]) -> str:
    first = values["auto"]
    rows = []
    for way, of_sets in values.items():
        means = [float(np.nanmean(own)) for own in of_sets.values()]
        cells = [way, *(f"{mean:.4f}" for mean in means), f"{np.mean(means):.4f}", ""]
        if of_sets is not first:
            gain = mean_difference((first[name], of_sets[name]) for name in first)
            cells[-1] = f"{gain}, p {gain.p_value:.3f}"
        rows.append(cells)
    return table(("trees", *first, "mean of the sets", "`auto` less it"), rows)


def page(
    curves: Curves, sets: Mapping[str, Sequence[Split]], seeds: Sequence[int], store: Store,
    command: str,
) -> str:  # fmt: skip
    tables = "\n\n".join(
        f"### {model}\n\n{real_table(real_values(sets, model, seeds, store))}" for model in MODELS
    )
    return (
        "# How many trees\n\n"
        "With a validation set, early stopping finds the number of trees. Without one, "
        '`n_estimators="auto"` takes a rule:\n\n'
        f"    n_estimators = {LEARNED:g} / learning_rate\n\n"
        f"which is {default_n_estimators(RATE)} trees at the default rate of {RATE}. With early "
        f"stopping `auto` is an upper bound that should not be reached: "
        f"{default_n_estimators(RATE, stops_early=True)} trees, or more at rates below {RATE}.\n\n"
        f"{measured_by(command, commit())}\n\n"
        "## On synthetic data: where the rule comes from\n\n"
        f"{len(curves.curves)} runs on `make_web_search`. All but {len(large_cases())} are drawn "
        f"at random: 20 to {MOST_QUERIES:,} training queries, 10, 20 or 40 documents in the mean, "
        "noise 0.5 to 4, learning rates 0.03, 0.1 and 0.3, trees of three sizes, the default "
        f"model and leaf-wise LambdaMART; the others have {N_LARGE:,} queries. Each trains until "
        f"trees times rate is {MOST_LEARNED:g}, and {N_HELD_OUT} other queries give NDCG@10 after "
        "each tree, smoothed over 15 % fewer to 15 % more trees. The tables have what a rule falls "
        "short of the best number of trees of each run, in the mean; the number of runs is in "
        f"brackets.\n\n{synthetic_table(curves)}\n\n"
        "The best number of trees depends on how noisy the labels are, which nobody knows before "
        "training, and at each noise on trees times rate. Where a rule may also follow the number "
        "of queries or documents, the fitted power is 0 or nearly so. Noise 2 and 4 give an "
        "NDCG@10 as that of the real data. There too many trees cost the default model as much as "
        f"too few; `auto` is a round number between what it wants and what both models want "
        "together. LambdaMART alone would like more trees on these data, and far more on cleaner "
        "ones, which a validation set shows.\n\n"
        f"{fitted_table(curves)}\n\n"
        "## On real data: whether it holds\n\n"
        f"NDCG@10 on the test queries of five folds, mean over {len(seeds)} "
        f"seed{'s' * (len(seeds) > 1)}, at a rate of {RATE}; every model sees the training part "
        f"of its fold only. Early stopping watches NDCG@10 on the validation part, with a patience "
        f"of {PATIENCE} trees and {MOST_TREES} trees at most. None of these data had a part in "
        "the fits above; but that 100 trees do better than 500 on them was known, and some of "
        "these results were seen, before the fits were rounded to 10. "
        "The last column has the mean difference over the data sets with its standard "
        "error over queries, and the p-value of Welch's test. Models are measured at "
        f"{len(COUNTS)} numbers of trees from {COUNTS[0]} to {COUNTS[-1]}, and `auto` is the "
        f"nearest of them.\n\n{tables}\n"
    )


def main() -> None:
    limit_threads()
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_option(parser)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    parser.add_argument("--fits", type=Path, help="a file that keeps fits")
    options = parser.parse_args()
    path = options.fits or Path(tempfile.gettempdir()) / "rankgrove-number-of-trees.jsonl"
    store = Store(None if options.quick else path, commit())
    cases = [
        case
        for n_cases, noises, seed in DRAWS
        for case in draw_cases(2 if options.quick else n_cases, MOST_QUERIES, noises, seed)
    ]
    cases += [] if options.quick else large_cases()
    sets = {name: as_five_folds(splits) for name, splits in read_sets(options.data).items()}
    if options.quick:
        sets = {name: splits[:1] for name, splits in sets.items()}
    seeds = range(options.seeds)
    jobs = [case.job() for case in cases]
    jobs += [job for model in MODELS for job in real_jobs(sets, model, seeds)]
    fit_all(jobs, store, options.data, options.workers, _read, _fit)
    text = page(Curves.of(cases, store), sets, seeds, store, COMMAND)
    print(text)
    if not options.quick:
        write_page(PAGE, text)


if __name__ == "__main__":
    main()
