"""What options of training come to on the real data sets: docs/options.md and docs/leaves.md.

Every model stops early by a part of its training queries and is judged by the validation part of
its fold. Fits are kept in a file, from which an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import commit, limit_threads, table
from benchmarks.peers import Difference, Floats, paired_difference
from benchmarks.real_data import add_data_option, read_sets
from benchmarks.study import (
    STOP_SHARE,
    Job,
    Outcome,
    Store,
    Study,
    Variant,
    fit_all,
    is_default,
    jobs_of,
    mean_difference,
    measured_by,
    other_seeds,
    reading_text,
)

COMMAND = "python -m benchmarks.options"
DOCS = Path(__file__).parents[1] / "docs"
PICTURE = DOCS / "images" / "leaves.svg"
N_FOLDS, MOST_TREES, RATE, PATIENCE = 5, 500, 0.05, 50
SIGNIFICANT = 0.05

NEWTON = "newton"
OTHER_LEAVES = ("newton_cross_leaf", "mean")
OBJECTIVES: dict[str, dict[str, Any]] = {
    "lambdamart": {"objective": "lambdamart", "metric": "ndcg@10"},
    "rankmart": {"objective": "rankmart"},
    "yetirank": {"objective": "yetirank"},
    "yetiloss": {"objective": "yetiloss"},
}
BASES: dict[str, dict[str, Any]] = {
    f"{objective}, {grower}": {"objective": objective, "grower": grower}
    for objective, grower in (
        ("lambdamart", "leafwise"),
        ("yetirank", "leafwise"),
        ("yetirank", "oblivious"),
        ("queryrmse", "oblivious"),
    )
}
TOGETHER = "together"


def option(factor: str, **values: Any) -> Variant:
    return Variant(factor, ", ".join(f"{name}={value!r}" for name, value in values.items()), values)


def variants_of(base: Mapping[str, Any]) -> list[Variant]:
    """What is tried around a base model."""
    leafwise = base["grower"] == "leafwise"
    size, sizes = ("max_leaves", (15, 31)) if leafwise else ("max_depth", (5, 6))
    catboost = {"bootstrap": 1.0, "bootstrap_by": "document", "split_noise": 1.0}
    return [
        *other_seeds(100, 200),
        *(
            option("bootstrap", bootstrap=temperature, bootstrap_by=by)
            for by in ("query", "document")
            for temperature in (0.5, 1.0)
        ),
        *(
            option("subsample", subsample=0.8, sampling=sampling)
            for sampling in ("query", "document", "variance", "variance_query")
        ),
        *(option("split_noise", split_noise=noise) for noise in (0.5, 1.0, 2.0)),
        *(option("l2", l2=l2) for l2 in (0.0, 20.0)),
        *(option("l2", l2_documents=float(number)) for number in (20, 50, 100, 200, 400)),
        *(option("leaf_steps", leaf_steps=steps) for steps in (2, 4)),
        option("colsample", colsample=0.8),
        *(option(size, **{size: value}) for value in sizes),
        # The numbers that CatBoost has unless told, and the same with more l2.
        *(option(TOGETHER, **catboost, l2_documents=number) for number in (3.0, 100.0)),
    ]


class Runner:
    """Fits variants of base models in a pool, and makes studies of what the store then has."""

    def __init__(
        self, store: Store, folds: Mapping[str, int], seeds: Sequence[int], most: int,
        run: Callable[[Iterable[Job], Store], None],
    ) -> None:  # fmt: skip
        self.store, self.folds, self.seeds, self.most, self.run = store, folds, seeds, most, run
        self.common = {
            "n_estimators": most, "learning_rate": RATE, "early_stopping_rounds": PATIENCE,
        }  # fmt: skip

    def studies(
        self, bases: Mapping[str, Mapping[str, Any]], variants: Mapping[str, Sequence[Variant]]
    ) -> dict[str, Study]:
        """A study of each base model with its variants."""
        full = {title: {**self.common, **base} for title, base in bases.items()}
        jobs = [
            job
            for title, base in full.items()
            for variant in (Variant("the", "defaults"), *variants[title])
            if variant.factor == "the" or not is_default(variant, base)
            for runs in jobs_of(base, variant, self.folds, self.seeds).values()
            for of_seed in runs
            for job in of_seed
        ]
        self.run(jobs, self.store)
        return {
            title: Study(self.folds, variants[title], self.seeds, self.store, base, quiet=True)
            for title, base in full.items()
        }

    def how(self) -> str:
        """What all pages say of the fits."""
        return (
            f"Models have at most {self.most} trees at a rate of {RATE} and stop when "
            f"NDCG@10 has not improved for {PATIENCE} trees on {100 * STOP_SHARE:.0f} % of the "
            f"training queries, which are drawn by the seed and not trained on. All else "
            f"is at the defaults. What counts is NDCG@10 on the validation queries of each of "
            f"{max(self.folds.values())} folds, mean over {len(self.seeds)} seeds; no fold's "
            f"test part is read. But what one fold validates on is the test part of another, "
            f"and mslr-sample and lightgbm-rank are cut into folds anew, with the queries that "
            f"benchmarks/quality.py tests on. So what is chosen by this page has seen those "
            f"queries, and a test on the same data sets would flatter it.\n\n"
            f"The standard errors are those over queries. That another training set, or another "
            f"seed, would have given another model comes on top: the lines where only the seed "
            f"differs show how much of it is the seed's."
        )


def best_alone(study: Study) -> Variant | None:
    """The best value of each option together, of those that gain more than a standard error."""
    best: dict[str, tuple[float, Variant]] = {}
    for variant, outcome in zip(study.variants, study.outcomes, strict=True):
        if outcome is study.default or variant.first_seed or variant.factor == TOGETHER:
            continue
        difference = study.overall(outcome)
        if difference.mean > max(difference.error, best.get(variant.factor, (0.0,))[0]):
            best[variant.factor] = difference.mean, variant
    if len(best) < 2:
        return None
    values: dict[str, Any] = {}
    for _, variant in best.values():
        values |= variant.values
    return option(TOGETHER, **values)


def study_options(runner: Runner, every: int = 1) -> dict[str, Study]:
    """Each option alone, a few together, and last what was best alone together."""
    variants = {title: variants_of(base)[::every] for title, base in BASES.items()}
    for title, study in runner.studies(BASES, variants).items():
        together = best_alone(study)
        variants[title] += [] if together is None else [together]
    return runner.studies(BASES, variants)


def _label(variant: Variant) -> str:
    """The whole of a variant in one line."""
    if variant.first_seed:
        return f"`{variant.factor}` {variant.title}"
    return f"{TOGETHER}: `{variant.title}`" if variant.factor == TOGETHER else f"`{variant.title}`"


def _summary(studies: Mapping[str, Study]) -> str:
    """Each option by base model: the mean over the data sets."""
    cells: dict[str, dict[str, str]] = {}
    for title, study in studies.items():
        for variant, outcome in zip(study.variants, study.outcomes, strict=True):
            same = outcome is study.default
            text = "(default)" if same else str(study.overall(outcome))
            cells.setdefault(_label(variant), {})[title] = text
    rows = [(name, *(found.get(title, "") for title in studies)) for name, found in cells.items()]
    return table(("option", *studies), rows)


def options_reading(studies: Mapping[str, Study]) -> str:
    """What stands out for each base model, and what does so in more than one."""
    parts, gains, losses = [], dict[str, list[str]](), dict[str, list[str]]()
    for title, study in studies.items():
        reading = study.read()
        text = reading_text(reading, "the base model", _label)
        parts.append(f"### {title}\n\n{text}")
        for side, found in ((gains, reading.better), (losses, reading.worse)):
            for variant, difference in found:
                if abs(difference.mean) > reading.noise:
                    side.setdefault(_label(variant), []).append(title)

    def several(found: Mapping[str, Sequence[str]]) -> str:
        lines = [f"{name} ({len(of)})" for name, of in found.items() if len(of) > 1]
        return "; ".join(lines) or "none"

    return (
        f"By more than two standard errors, by more than other seeds move, and for more than one "
        f"of the {len(studies)} base models, better: {several(gains)}. Worse: {several(losses)}. "
        f"The number of base models is in brackets.\n\n" + "\n\n".join(parts)
    )


def options_page(studies: Mapping[str, Study], runner: Runner, command: str) -> str:
    figures = []
    for title, study in studies.items():
        rows = [("all defaults", study.default)]
        rows += [
            (_label(variant), outcome)
            for variant, outcome in zip(study.variants, study.outcomes, strict=True)
            if outcome is not study.default
        ]
        figures.append(f"### {title}: each data set\n\n{study.table_of(rows)}")
    return (
        "# What makes a model better on small data\n\n"
        f"Each option is tried alone around {len(studies)} base models, then a few together. "
        f"{runner.how()}\n\n"
        "The line of the defaults has NDCG@10; the others have the difference to it with its "
        "standard error, from the differences query by query. The last column weighs all data "
        "sets equally. Where the best values alone are put together, these are the best of each "
        "option that gained more than a standard error: they were chosen by the same queries, so "
        "the gain is flattered.\n\n"
        f"{measured_by(command, runner.store.version)}\n\n"
        f"## What it says\n\n{options_reading(studies)}\n\n"
        f"## The figures\n\n### Mean of the data sets\n\n{_summary(studies)}\n\n"
        + "\n\n".join(figures)
        + "\n"
    )


MEAN, ALL = "mean of the sets", "all objectives"
# By objective, leaf and data set: the difference to `newton`.
Effects = dict[str, dict[str, dict[str, Difference]]]


def study_leaves(runner: Runner) -> dict[str, Study]:
    """Each pairwise objective with each value of `leaf`."""
    leaves = [Variant("leaf", leaf, {"leaf": leaf}) for leaf in OTHER_LEAVES]
    return runner.studies(
        OBJECTIVES, {title: [*other_seeds(100, 200), *leaves] for title in OBJECTIVES}
    )


def _outcome(study: Study, title: str) -> Mapping[str, Outcome]:
    titles = [variant.title for variant in study.variants]
    return study.default if title == NEWTON else study.outcomes[titles.index(title)]


def _mean_values(studies: Iterable[Study], title: str, name: str) -> Floats:
    mean: Floats = np.mean([_outcome(study, title)[name].values for study in studies], axis=0)
    return mean


def effects_of(studies: Mapping[str, Study]) -> Effects:
    """Also for all objectives, by the mean of each query over them; other seeds count as leaves."""
    groups = {title: [study] for title, study in studies.items()}
    groups[ALL] = list(studies.values())
    effects: Effects = {}
    for title, group in groups.items():
        effects[title] = {}
        for other in (variant.title for variant in group[0].variants):
            pairs = {
                name: (_mean_values(group, other, name), _mean_values(group, NEWTON, name))
                for name in group[0].folds
            }
            found = {name: paired_difference(*pair) for name, pair in pairs.items()}
            effects[title][other] = {**found, MEAN: mean_difference(pairs.values())}
    return effects


def _p(difference: Difference) -> str:
    return "< 0.001" if difference.p_value < 0.001 else f"{difference.p_value:.3f}"


def _between(difference: Difference) -> str:
    return f"{difference.low:+.4f} to {difference.high:+.4f}"


def _noise(found: Mapping[str, Mapping[str, Difference]]) -> float:
    """What other seeds alone move."""
    return max(abs(by[MEAN].mean) for name, by in found.items() if name not in OTHER_LEAVES)


def leaf_answer(effects: Effects, leaf: str) -> str:
    """Whether a leaf is told from `newton`: by p and by what other seeds alone move."""
    of_all = effects[ALL]
    whole = of_all[leaf][MEAN]
    noise = _noise(of_all)
    told = whole.p_value < SIGNIFICANT and abs(whole.mean) > noise
    if told:
        start = f"`{leaf}` is {'better' if whole.mean > 0 else 'worse'} than `{NEWTON}`"
        end = ""
    else:
        start = f"These data can't tell `{leaf}` from `{NEWTON}`"
        end = " That is not to say that they are equal: all in the interval may be true."
    singles = {title: found[leaf] for title, found in effects.items() if title != ALL}
    strict = SIGNIFICANT / (len(singles) * len(OTHER_LEAVES))
    apart = [
        f"{title} ({found[MEAN].mean:+.4f}, p {_p(found[MEAN])})"
        for title, found in singles.items()
        if found[MEAN].p_value < strict and abs(found[MEAN].mean) > _noise(effects[title])
    ]
    looks = [by for found in singles.values() for name, by in found.items() if name != MEAN]
    outside = [by.mean > 0 for by in looks if by.p_value < SIGNIFICANT]
    return (
        f"{start}: over all objectives and data sets the difference in NDCG@10 is "
        f"{whole.mean:+.4f}, 95 % interval {_between(whole)}, p {_p(whole)}; other seeds "
        f"alone move it by up to {noise:.4f}.{end} Single objectives with p below "
        f"{SIGNIFICANT} / {len(singles) * len(OTHER_LEAVES)}, as there are so many of them, and "
        f"more than their seeds move: {', '.join(apart) or 'none'}. Of {len(looks)} pairs of an "
        f"objective and a data set, p is below {SIGNIFICANT} in {len(outside)} "
        f"({sum(outside)} better, {len(outside) - sum(outside)} worse); "
        f"{SIGNIFICANT * len(looks):.1f} can be expected by chance."
    )


def _trees(studies: Iterable[Study], leaf: str) -> list[int]:
    return [n for study in studies for out in _outcome(study, leaf).values() for n in out.n_trees]


def _table_of_leaves(study: Study | None, found: Mapping[str, Mapping[str, Difference]]) -> str:
    """Data sets by leaves; of all objectives together there is no study."""
    header = ["data set"] + ([] if study is None else [f"{NEWTON}: NDCG@10", "trees"])
    for leaf in OTHER_LEAVES:
        header += [f"{leaf} less {NEWTON}", "95 % interval", "p"]
        header += [] if study is None else ["trees"]
    rows = []
    for name in found[OTHER_LEAVES[0]]:
        cells = [name]
        for leaf in (NEWTON, *OTHER_LEAVES):
            if leaf != NEWTON:
                by = found[leaf][name]
                cells += [f"{by.mean:+.4f}", _between(by), _p(by)]
            if study is not None:
                outcome = _outcome(study, leaf)
                chosen = list(outcome.values()) if name == MEAN else [outcome[name]]
                means = [float(np.nanmean(out.values)) for out in chosen]
                trees = np.mean([np.mean(out.n_trees) for out in chosen])
                cells += [f"{np.mean(means):.4f}"] if leaf == NEWTON else []
                cells.append(f"{trees:.0f}")
        rows.append(cells)
    return table(header, rows)


def leaves_page(studies: Mapping[str, Study], runner: Runner, command: str) -> str:
    effects = effects_of(studies)
    trees = []
    for leaf in (NEWTON, *OTHER_LEAVES):
        counts = np.array(_trees(studies.values(), leaf))
        full = np.mean(counts + PATIENCE > runner.most)
        trees.append(
            f"`{leaf}` keeps {counts.mean():.0f} trees in the mean (median "
            f"{np.median(counts):.0f}), and {100 * full:.0f} % of its models were not stopped "
            f"before the last tree"
        )
    tables = [
        f"### {title}\n\n{_table_of_leaves(studies.get(title), found)}"
        for title, found in effects.items()
    ]
    seeds = [name for name in effects[ALL] if name not in OTHER_LEAVES]
    rows = [
        (title, *(f"{found[name][MEAN].mean:+.4f}, {_between(found[name][MEAN])}"
                  for name in seeds))
        for title, found in effects.items()
    ]  # fmt: skip
    return (
        "# Does the exact Newton step matter?\n\n"
        "The Newton step of a leaf divides the sum of forces by the sum of curvatures. A pair "
        "whose documents share the leaf has no curvature, as both move alike, but `newton` "
        "counts it, as LambdaMART usually does; `newton_cross_leaf` does not. Tunys "
        "(LambdaMART Demystified, 2015), who derived it, writes that the significance is unknown "
        "to him. `mean` is the mean force, without curvatures. For all three, splits are chosen "
        "by the same rule and regularisation is the default: `l2`, or `l2_documents` times the "
        "mean of what is divided by, is added to the sum.\n\n"
        f"{runner.how()}\n\n"
        "The p-values are of paired t-tests over queries and are not adjusted; the mean of the "
        "sets weighs all data sets equally (Welch). For all objectives together, the values of a "
        "query are averaged over the objectives first.\n\n"
        f"{measured_by(command, runner.store.version)}\n\n"
        "## What it says\n\n"
        + "\n\n".join(leaf_answer(effects, leaf) for leaf in OTHER_LEAVES)
        + f"\n\n{'; '.join(trees)}.\n\n"
        "![Differences in NDCG@10 to newton, with 95 % intervals](images/leaves.svg)\n\n"
        "## The figures\n\n"
        + "\n\n".join(tables)
        + f"\n\n### Other seeds alone\n\nThe mean of the sets, `{NEWTON}` at other seeds less "
        f"`{NEWTON}`.\n\n{table(('objective', *seeds), rows)}\n"
    )


class Chart:
    """Differences with their intervals, one line a data set, in the place of one objective."""

    width, label, line = 250.0, 105.0, 26.0

    def __init__(self, left: float, top: float, reach: float, step: float) -> None:
        self.left, self.top, self.reach, self.step = left, top, reach, step

    def at(self, value: float) -> float:
        return self.left + self.label + self.width * (value + self.reach) / (2 * self.reach)

    def draw(self, title: str, found: Mapping[str, Mapping[str, Difference]]) -> list[str]:
        names = list(found[OTHER_LEAVES[0]])
        bottom = self.top + self.line * len(names)
        lines = [
            f'<text x="{self.at(0):.1f}" y="{self.top - 8:.1f}" text-anchor="middle" '
            f'font-weight="bold">{title}</text>'
        ]
        most = int(self.reach / self.step + 1e-9)
        for number in range(-most, most + 1):
            x, colour = self.at(number * self.step), "#ddd" if number else "#444"
            text = f"{number * self.step:+.3g}" if number else "0"
            lines.append(
                f'<path d="M{x:.1f} {self.top:.1f}V{bottom:.1f}" stroke="{colour}"/>'
                f'<text x="{x:.1f}" y="{bottom + 15:.1f}" text-anchor="middle">{text}</text>'
            )
        for row, name in enumerate(names):
            y = self.top + self.line * (row + 0.5)
            weight = ' font-weight="bold"' if name == MEAN else ""
            lines.append(
                f'<text x="{self.left + self.label - 8:.1f}" y="{y + 4:.1f}" text-anchor="end"'
                f"{weight}>{name}</text>"
            )
            for leaf, shift in zip(OTHER_LEAVES, (-5.0, 5.0), strict=True):
                by = found[leaf][name]
                lines.append(_mark(leaf, self.at(by.mean), y + shift, self.at(by.low),
                                   self.at(by.high)))  # fmt: skip
        return lines


def _mark(leaf: str, x: float, y: float, low: float, high: float) -> str:
    """A point with its interval; a circle or a square, so that colour alone tells nothing."""
    first = leaf == OTHER_LEAVES[0]
    colour = "#2e7d32" if first else "#c2571a"
    shape = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
        if first
        else f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" fill="{colour}"/>'
    )
    return f'<path d="M{low:.1f} {y:.1f}H{high:.1f}" stroke="{colour}" stroke-width="2"/>{shape}'


def draw_leaves(effects: Effects) -> str:
    """The differences to `newton` by objective and data set, as SVG on a ground of its own."""
    ends = [
        abs(end)
        for found in effects.values()
        for leaf in OTHER_LEAVES
        for by in found[leaf].values()
        for end in (by.low, by.high)
    ]
    reach = 1.05 * max(*ends, 1e-4)
    step = next(
        digit * 10.0**power
        for power in range(-5, 2)
        for digit in (1, 2, 5)
        if 4 * digit * 10.0**power >= reach
    )
    n_names = len(effects[ALL][OTHER_LEAVES[0]])
    high = Chart.line * n_names + 58
    n_lines = -(-len(effects) // 2)
    height = 70 + high * n_lines
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 {height:.0f}" '
        'font-family="sans-serif" font-size="12" role="img" aria-label="Differences in NDCG@10 '
        'of two values of leaf to newton, by objective and data set">',
        f'<rect width="780" height="{height:.0f}" fill="#fff"/>',
        f'<g fill="#222"><text x="20" y="24">NDCG@10 less that of leaf={NEWTON}, with 95 % '
        "intervals; right of 0 is better</text>",
    ]
    for place, leaf in enumerate(OTHER_LEAVES):
        x = 500 + 160 * place
        lines += [_mark(leaf, x, 20, x - 12, x + 12), f'<text x="{x + 18}" y="24">{leaf}</text>']
    for place, (title, found) in enumerate(effects.items()):
        chart = Chart(15 + 380 * (place % 2), 68 + high * (place // 2), reach, step)
        lines += chart.draw(title, found)
    return "\n".join([*lines, "</g>", "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_option(parser)
    parser.add_argument("--pages", choices=("options", "leaves", "both"), default="both")
    parser.add_argument("--seeds", type=int, help="2 by default, 1 with --quick")
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--results", type=Path, help="where fits are kept, to go on from")
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    arguments = parser.parse_args()
    limit_threads()
    results, version = arguments.results, commit()
    if results is None and not arguments.quick:
        results = Path(tempfile.gettempdir()) / "rankgrove-options.jsonl"
    if results is not None:
        print(f"fits are kept in {results}", flush=True)
        if results.exists() and version.endswith("-dirty"):
            print("the tree has changes: kept fits may be of other code", file=sys.stderr)
    folds = dict.fromkeys(read_sets(arguments.data), 1 if arguments.quick else N_FOLDS)

    def run(jobs: Iterable[Job], store: Store) -> None:
        fit_all(jobs, store, arguments.data, arguments.workers)

    store, most = Store(results, version), 30 if arguments.quick else MOST_TREES
    seeds = range(arguments.seeds or (1 if arguments.quick else 2))
    runner = Runner(store, folds, seeds, most, run)
    command = f"{COMMAND} --seeds {arguments.seeds}" if arguments.seeds else COMMAND
    pages, pictures = {}, {}
    if arguments.pages != "leaves":
        studies = study_options(runner, 7 if arguments.quick else 1)
        pages[DOCS / "options.md"] = options_page(studies, runner, command)
    if arguments.pages != "options":
        studies = study_leaves(runner)
        pages[DOCS / "leaves.md"] = leaves_page(studies, runner, command)
        pictures[PICTURE] = draw_leaves(effects_of(studies))
    for path, text in pages.items() if arguments.quick else (pages | pictures).items():
        if arguments.quick:
            print(text)
        else:
            path.write_text(text, encoding="utf-8")
    print(f"{store.seconds:.0f} s of CPU time in fits", flush=True)


if __name__ == "__main__":
    main()
