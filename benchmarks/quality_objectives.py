"""Quality of every objective on real data, by its own metric, against the losses of its peers.

All get at most 500 trees at rate 0.05 and stop by their own metric on validation, and by NDCG@10
beside it. Fits are kept in a file of JSON lines: an interrupted run goes on where it was, and only
what is missing is computed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.common import limit_threads, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

from benchmarks import quality_fits as fits  # noqa: E402
from benchmarks.differences import (  # noqa: E402
    Difference,
    Floats,
    above,
    below,
    mean_difference,
    paired_difference,
)
from benchmarks.kept_fits import Results, Sets, compute, source  # noqa: E402
from benchmarks.quality_fits import METRICS, Candidate, Task, our_name  # noqa: E402
from benchmarks.quality_hypotheses import CLAIMED  # noqa: E402
from benchmarks.real_data import Split, add_data_option, as_five_folds, read_sets  # noqa: E402
from rankgrove.experiments.compare.significance import holm  # noqa: E402

COMMAND = "python -m benchmarks.quality --objectives all"
LEVEL = 0.05
SEEDS = (0, 1, 2)
RESULTS = Path("quality_objectives.jsonl")
QUICK = (
    "rankgrove queryrmse, leafwise", "rankgrove yetiloss MAP, leafwise",
    f"rankgrove {fits.NEAR} MAP, leafwise", f"rankgrove {fits.NO_NOISE} MAP, leafwise",
    "rankgrove lambdamart NDCG@10, leafwise", "rankgrove queryrmse, oblivious",
    "lightgbm lambdarank", "xgboost rank:map", "catboost QueryRMSE",
)  # fmt: skip


def choose(names: Iterable[str] | None) -> list[Candidate]:
    """The candidates of these keys or tools; all of them for None."""
    if names is None:
        return list(fits.CANDIDATES.values())
    wanted = set(names)
    if unknown := wanted - set(fits.CANDIDATES) - set(fits.PACKAGES):
        raise SystemExit(f"names must be candidates or libraries. Got {sorted(unknown)}.")
    return [one for one in fits.CANDIDATES.values() if one.key in wanted or one.tool in wanted]


def tasks_of(
    candidates: Sequence[Candidate], sets: Sets, seeds: Sequence[int], n_trees: int
) -> list[Task]:
    """All fits: seed by seed, what is slow last; what draws nothing has the first seed only."""
    data = {name: fits.fingerprint(splits) for name, splits in sets.items()}
    code = source()
    return [
        Task(one.key, name, fold, seed, n_trees, fits.mark_of(one, n_trees, data[name], code))
        for seed in seeds
        for one in sorted(candidates, key=lambda one: one.when)
        if one.random or seed == seeds[0]
        for name, splits in sets.items()
        for fold in range(len(splits))
    ]


class Figures:
    """The values of all queries, and what can be said of them."""

    def __init__(self, tasks: Sequence[Task], results: Results, sets: Iterable[str]) -> None:
        self.sets = list(sets)
        # By candidate and seed: a seed counts where all of its folds and sets are there.
        wanted: dict[str, dict[int, list[Task]]] = {key: {} for key in fits.CANDIDATES}
        for task in tasks:
            wanted[task.candidate].setdefault(task.seed, []).append(task)
        wanted = {key: seeds for key, seeds in wanted.items() if seeds}
        whole = {
            key: [own for own in seeds.values() if all(task in results.found for task in own)]
            for key, seeds in wanted.items()
        }
        complete = {key: [task for own in seeds for task in own] for key, seeds in whole.items()}
        complete = {key: own for key, own in complete.items() if own}
        self.keys = list(complete)
        self.missing = [key for key in wanted if key not in complete]
        self.fewer_seeds = {
            key: len(whole[key]) for key in complete if len(whole[key]) < len(wanted[key])
        }
        self.values, self.at_ndcg = (
            {(key, name, metric): self._mean_over_seeds(own, results, name, metric, place)
             for key, own in complete.items() for name in self.sets for metric in METRICS}
            for place in (-1, 0)
        )  # fmt: skip
        found = {key: [results.found[task] for task in own] for key, own in complete.items()}
        self.seconds = {key: sum(one["seconds"] for one in own) for key, own in found.items()}
        self.trees = {
            key: [np.mean([list(one["trees"].values())[place] for one in own]) for place in (-1, 0)]
            for key, own in found.items()
        }

    @staticmethod
    def _mean_over_seeds(
        tasks: list[Task], results: Results, name: str, metric: str, place: int
    ) -> Floats:
        """At the last stop, a candidate's own, or at the first, that of NDCG@10."""
        by_seed: dict[int, list[Floats]] = {}
        for task in sorted(task for task in tasks if task.set_name == name):
            at_stop = list(results.found[task]["values"].values())[place]
            values = np.array(at_stop[metric], dtype=float)
            by_seed.setdefault(task.seed, []).append(values)
        mean: Floats = np.mean([np.concatenate(folds) for folds in by_seed.values()], axis=0)
        return mean

    def mean(self, key: str, metric: str, name: str | None = None) -> float:
        """On one set, or the mean over the sets."""
        names = self.sets if name is None else [name]
        return float(np.mean([np.nanmean(self.values[key, each, metric]) for each in names]))

    def mean_at_ndcg(self, key: str, metric: str) -> float:
        """The mean over the sets of models that NDCG@10 stopped."""
        return float(np.mean([np.nanmean(self.at_ndcg[key, each, metric]) for each in self.sets]))

    def best(self, keys: Iterable[str], metric: str, name: str | None = None) -> str:
        return max(keys, key=lambda key: self.mean(key, metric, name))

    def less(self, one: str, other: str, metric: str, name: str) -> Difference:
        return paired_difference(self.values[one, name, metric], self.values[other, name, metric])

    def less_overall(self, one: str, other: str, metric: str) -> Difference:
        """The mean over the sets of the differences."""
        return mean_difference(
            (self.values[one, name, metric], self.values[other, name, metric]) for name in self.sets
        )

    def table_of(self, metric: str) -> str:
        best = {name: self.best(self.keys, metric, name) for name in (*self.sets, None)}
        rows = []
        for key in self.keys:
            cells = [f"`{key}`"]
            for name in (*self.sets, None):
                cell = f"{self.mean(key, metric, name):.4f}"
                if key == best[name]:
                    cell = f"**{cell}**"
                elif name and below(self.less(key, best[name], metric, name)) > LEVEL:
                    cell += " °"
                cells.append(cell)
            rows.append([*cells, f"{self.mean_at_ndcg(key, metric):.4f}"])
        header = ("candidate", *self.sets, "mean of the sets", "mean, NDCG@10 stop")
        return f"### {metric}\n\n{table(header, rows)}"


def shown(difference: Difference) -> str:
    return f"{difference} ({difference.p_value:.3f})"


# A table, and the sentences that follow from it.
Said = tuple[str, str]


def say_twins(figures: Figures) -> Said:
    rows, looks = [], dict[str, Difference]()
    for ours, theirs, metric in fits.TWINS:
        if ours not in figures.keys or theirs not in figures.keys:
            continue
        each = {name: figures.less(ours, theirs, metric, name) for name in figures.sets}
        overall = figures.less_overall(ours, theirs, metric)
        rows.append([f"`{ours}`", f"`{theirs}`", metric, *map(shown, each.values()),
                     shown(overall)])  # fmt: skip
        looks |= {f"`{ours}` against `{theirs}` on {name}": d for name, d in each.items()}
    if not rows:
        return "Nothing to compare.", "No pair of twins was run."
    header = ("ours", "theirs", "by", *figures.sets, "mean of the sets")
    sure: dict[str, list[str]] = {}
    for word, side in (("Below", below), ("Above", above)):
        adjusted = holm([side(d) for d in looks.values()])
        sure[word] = [f"{title}: {d}, p {p:.3f}" for (title, d), p in
                      zip(looks.items(), adjusted, strict=True) if p < LEVEL]  # fmt: skip
    reading = (
        f"Of {len(looks)} comparisons of twins, ours is below in {len(sure['Below'])} and above in "
        f"{len(sure['Above'])}, by one-tailed p-values that are adjusted for so many looks (Holm). "
        f"The claim that no mean is below {'fails' if sure['Below'] else 'holds'}; the others "
        f"these data cannot tell apart."
    )
    lines = [f"- {word}: {line}" for word, found in sure.items() for line in found]
    return table(header, rows), "\n".join([reading, "", *lines])


def say_best(figures: Figures) -> Said:
    """The best of each side; nothing is said of metrics that one draw of queries moves too far."""
    sides = {True: [key for key in figures.keys if fits.CANDIDATES[key].ours]}
    sides[False] = [key for key in figures.keys if key not in sides[True]]
    if not sides[True] or not sides[False]:
        return "Nothing to compare.", ""
    rows, said = [], []
    for metric in METRICS:
        ours, theirs = (figures.best(sides[side], metric) for side in (True, False))
        difference = figures.less_overall(ours, theirs, metric)
        rows.append([metric, f"`{ours}`", f"{figures.mean(ours, metric):.4f}", f"`{theirs}`",
                     f"{figures.mean(theirs, metric):.4f}", shown(difference)])  # fmt: skip
        if metric in CLAIMED:
            said.append(f"{metric} {shown(difference)}")
    header = ("metric", "best of ours", "mean", "best of theirs", "mean", "difference")
    reading = (
        f"The best of our {len(sides[True])} candidates less the best of their "
        f"{len(sides[False])} in the mean over the sets: {', '.join(said)}. Both are the best of "
        "many on the test queries, so both are flattered, more so where there are more."
    )
    return table(header, rows), reading


def say_smoothing(figures: Figures) -> Said:
    rows, found = [], dict[str, Difference]()
    for grower in (fits.LEAFWISE, fits.OBLIVIOUS):
        for metric in METRICS:
            plain = f"rankgrove {our_name(fits.NO_NOISE, metric, grower)}"
            yeti = f"rankgrove {our_name(fits.NEAR, metric, grower)}"
            if not {yeti, plain} <= set(figures.keys):
                continue
            each = [figures.less(yeti, plain, metric, name) for name in figures.sets]
            overall = figures.less_overall(yeti, plain, metric)
            rows.append([metric, grower, *map(shown, each), shown(overall)])
            found[f"{metric}, {grower}"] = overall
    adjusted = holm([overall.p_value for overall in found.values()])
    lines = []
    for (title, overall), p_value in zip(found.items(), adjusted, strict=True):
        if title.startswith(CLAIMED):
            word = "helps" if overall.mean > 0 else "harms"
            word = word if p_value < LEVEL else "is not told from none"
            lines.append(f"- {title}: smoothing {word} ({overall}, p {p_value:.3f} after Holm).")
    header = ("metric", "trees", *figures.sets, "mean of the sets")
    return table(header, rows), "\n".join(lines)


def say_order(figures: Figures) -> str:
    """QueryRMSE among ours, and who leads on MAP."""
    lines = []
    for grower in (fits.LEAFWISE, fits.OBLIVIOUS):
        ours = [key for key in figures.keys if key.startswith("rankgrove") and grower in key]
        simple = f"rankgrove {our_name('queryrmse', None, grower)}"
        if simple not in ours:
            continue
        ranks = []
        for metric in METRICS:
            own = figures.mean(simple, metric)
            ranks.append(f"{metric} {1 + sum(figures.mean(key, metric) > own for key in ours)}")
        lines.append(f"- `{simple}` has rank {', '.join(ranks)} of {len(ours)} of ours.")
        rivals = ["lightgbm lambdarank"]
        rivals += [f"rankgrove {our_name(name, METRICS[0], grower)}"
                   for name in ("lambdamart", "stochasticrank", "yetiloss")]  # fmt: skip
        for rival in rivals:
            if rival in figures.keys:
                wins = sum(figures.less(simple, rival, METRICS[0], name).mean > 0
                           for name in figures.sets)  # fmt: skip
                lines.append(f"- `{simple}` is above `{rival}` in NDCG@10 on {wins} of "
                             f"{len(figures.sets)} sets.")  # fmt: skip
        leader = figures.best(ours, "MAP")
        others = [key for key in ours if " yetiloss" not in key]
        yeti = f"rankgrove {our_name('yetiloss', 'MAP', grower)}"
        if yeti in ours and others:
            rival = figures.best(others, "MAP")
            difference = figures.less_overall(yeti, rival, "MAP")
            lines.append(f"- On MAP, `{leader}` leads ours with {grower} trees. `{yeti}` "
                         f"{'leads' if leader == yeti else 'does not lead'}: {shown(difference)} "
                         f"to the best that is not YetiLoss, `{rival}`.")  # fmt: skip
    return "\n".join(lines)


def protocol(figures: Figures, seeds: Sequence[int], n_trees: int, n_folds: int) -> str:
    return (
        f"At most {n_trees} trees, rate {fits.LEARNING_RATE}, one thread a fit, {n_folds} folds, "
        f"seeds {', '.join(map(str, seeds))}; what draws nothing was run with the first seed only. "
        f"Leaf-wise trees of {fits.N_LEAVES} leaves (Rankgrove, LightGBM, XGBoost) or oblivious "
        f"ones of depth {fits.DEPTH} (Rankgrove, CatBoost); all else at each library's defaults. "
        f"A fit tracks two of Rankgrove's metrics on the validation queries, NDCG@10 (gain 2^r - "
        f"1, worst order of ties, queries without a relevant document skipped) and the one that "
        f"its loss is for, and goes on until neither has improved for {fits.PATIENCE} trees: the "
        f"metrics are handed to LightGBM, XGBoost and CatBoost as a function. All figures are of "
        f"the trees up to the best by a candidate's own metric, NDCG@10 where its loss is for "
        f"none; the last column of a table has those up to the best by NDCG@10 for all. The "
        f"metrics see the grades even where the loss is trained on other labels. As in Lyzhin et "
        f"al. 2022, a label above 0 is relevant for MAP and MRR, and ERR has the label divided by "
        f"the largest grade of the set (4 in the paper's); MAP, MRR and ERR have no cut-off. "
        f"Losses of other libraries get these labels for these metrics, others the grades; "
        f"CatBoost's losses of NDCG get the cut-off and gain of the metric (`top=10` and "
        f"`dcg_type=Exp` or `type=Exp`). Unlike the paper, nothing is tuned.\n\n"
        f"A figure is the mean over the test queries of all folds, of the mean over seeds. Bold is "
        f"the best of a column; ° is not significantly worse than it (paired one-tailed t-test "
        f"over queries, p > {LEVEL}). A difference has its standard error over queries and, in "
        f"brackets, its two-tailed p-value; that another training set or seed would give "
        f"another model comes on top, and but where Holm is named no p-value is adjusted for the "
        f"number of looks, so that nothing follows from it. Nor does anything from MRR and ERR, "
        f"which one draw of training queries moves by more than what divides candidates. In all "
        f"{sum(figures.seconds.values()) / 3600:.1f} hours of CPU."
    )


def body_of(figures: Figures, seeds: Sequence[int], n_trees: int, n_folds: int) -> str:
    twins, best, smoothing = say_twins(figures), say_best(figures), say_smoothing(figures)
    parts = [protocol(figures, seeds, n_trees, n_folds)]
    if figures.missing:
        parts.append(f"Without figures: {', '.join(f'`{key}`' for key in figures.missing)}.")
    if figures.fewer_seeds:
        fewer = ", ".join(f"`{key}` ({n})" for key, n in figures.fewer_seeds.items())
        parts.append(f"With fewer seeds, their number in brackets: {fewer}.")
    parts += [
        f"### What it says\n\n{twins[1]}\n\n{best[1]}\n\nThe order of Lyzhin et al.:\n\n"
        f"{smoothing[1]}\n{say_order(figures)}",
        *(figures.table_of(metric) for metric in METRICS),
        f"### Twins: ours less theirs\n\n{twins[0]}",
        f"### Best of ours and of theirs\n\n{best[0]}",
        f"### Smoothing: YetiLoss of neighbours less the same without noise\n\n{smoothing[0]}",
        "### Trees kept and time\n\n"
        + table(("candidate", "trees, own stop", "trees, NDCG@10 stop", "CPU, s"),
                [(f"`{key}`", *(f"{n:.0f}" for n in figures.trees[key]),
                  f"{figures.seconds[key]:.0f}") for key in figures.keys]),
    ]  # fmt: skip
    return "\n\n".join(parts)


def run(
    sets: Mapping[str, Sequence[Split]], seeds: Sequence[int] = SEEDS,
    names: Iterable[str] | None = None, results_path: Path = RESULTS, n_workers: int = 2, *,
    n_trees: int = fits.N_TREES, n_folds: int = 5, fitting: bool = True,
) -> str:  # fmt: skip
    """Compute what is missing, unless `fitting` is false, and write up what there is."""
    folds = {name: as_five_folds(splits)[:n_folds] for name, splits in sets.items()}
    candidates, results = choose(names), Results(Path(results_path), Task)
    tasks = tasks_of(candidates, folds, seeds, n_trees)
    failed = compute(tasks, folds, results, n_workers, fits.fit) if fitting else []
    figures = Figures(tasks, results, folds)
    if not figures.keys:
        raise SystemExit(f"no candidate has all of its fits in {results_path}.")
    body = body_of(figures, seeds, n_trees, n_folds)
    return body + "".join(f"\n\nFailed: {line}" for line in failed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_option(parser)
    parser.add_argument("--sets", help="only these data sets, separated by commas")
    parser.add_argument(
        "--objectives", nargs="+", default=["all"], help="`all`, or some candidates or libraries"
    )
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--written", action="store_true", help="fit nothing, use the results")
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    arguments = parser.parse_args()
    sets: Mapping[str, Sequence[Split]] = read_sets(arguments.data)
    if arguments.sets:
        sets = {name: sets[name] for name in arguments.sets.split(",")}
    names = None if arguments.objectives == ["all"] else arguments.objectives
    seeds = tuple(range(arguments.seeds))
    if arguments.quick:
        print(run(sets, seeds[:1], names or QUICK, arguments.results, arguments.workers,
                  n_trees=20, n_folds=2, fitting=not arguments.written))  # fmt: skip
        return
    body = run(sets, seeds, names, arguments.results, arguments.workers,
               fitting=not arguments.written)  # fmt: skip
    versions = ("numpy", "scipy", *fits.PACKAGES.values())
    command = COMMAND if seeds == SEEDS else f"{COMMAND} --seeds {len(seeds)}"
    report("quality-objectives", "Quality of every objective", command, versions, body)


if __name__ == "__main__":
    main()
