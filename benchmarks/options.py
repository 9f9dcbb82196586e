"""What options come to on the real data sets: docs/options.md, leaves.md and neighbours.md.

Every model stops early by a part of its training queries and is judged by the validation part of
its fold. Fits are kept in a file, from which an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import commit, limit_threads, table, write_page
from benchmarks.leaves import draw_leaves, effects_of, leaves_page, study_leaves
from benchmarks.neighbours import neighbours_page, study_neighbours
from benchmarks.real_data import add_data_option, read_sets
from benchmarks.runner import MOST_TREES, N_FOLDS, TOGETHER, Runner, label, option
from benchmarks.study import (
    Job,
    Store,
    Study,
    Variant,
    fit_all,
    measured_by,
    reading_text,
)

COMMAND = "python -m benchmarks.options"
DOCS = Path(__file__).parents[1] / "docs"

BASES: dict[str, dict[str, Any]] = {
    f"{objective}, {grower}": {"objective": objective, "grower": grower}
    for objective, grower in (
        ("lambdamart", "leafwise"),
        ("yetirank", "leafwise"),
        ("yetirank", "oblivious"),
        ("lambdamart", "oblivious"),
    )
}
PAGES = ("options", "leaves", "neighbours")
# Of the page of options: base and variants have the same.
N_SEEDS = 5


def variants_of(base: Mapping[str, Any]) -> list[Variant]:
    """What is tried around a base model."""
    leafwise = base["grower"] == "leafwise"
    size, sizes = ("max_leaves", (15, 31)) if leafwise else ("max_depth", (5, 6))
    return [
        *(option("bootstrap", bootstrap=temperature) for temperature in (0.0, 1.0)),
        option("bootstrap", bootstrap=1.0, bootstrap_by="query"),
        *(
            option("subsample", subsample=0.8, sampling=sampling)
            for sampling in ("variance", "variance_query")
        ),
        *(option("split_noise", split_noise=noise) for noise in (0.0, 0.5, 1.0, 2.0)),
        *(option("l2", l2_documents=float(number)) for number in (5, 20, 50)),
        *(option("min_samples_leaf", min_samples_leaf=fewest) for fewest in (1, 5, 20)),
        *(option("leaf_steps", leaf_steps=steps) for steps in (2, 4)),
        option("colsample", colsample=0.8),
        *(option(size, **{size: value}) for value in sizes),
        # What CatBoost draws unless told; nothing; and also the other numbers of leaf-wise trees.
        option(TOGETHER, bootstrap=1.0, split_noise=1.0),
        option(TOGETHER, bootstrap=0.0, split_noise=0.0),
        option(TOGETHER, bootstrap=0.0, split_noise=0.0, min_samples_leaf=20, l2_documents=50.0),
    ]


def best_alone(study: Study) -> Variant | None:
    """The best value of each option together, of those that gain more than a standard error."""
    best: dict[str, tuple[float, Variant]] = {}
    for variant, outcome in zip(study.variants, study.outcomes, strict=True):
        if outcome is study.default or variant.factor == TOGETHER:
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


def study_options(
    runner: Runner, every: int = 1, bases: Iterable[str] = BASES, only: Iterable[str] = ()
) -> dict[str, Study]:
    """Each option alone, a few together, and last what was best alone together.

    `only` are titles of the variants that are tried, where not all are.
    """
    chosen, wanted = {title: BASES[title] for title in bases}, set(only)
    variants = {
        title: [each for each in variants_of(base) if not wanted or each.title in wanted][::every]
        for title, base in chosen.items()
    }
    if wanted:
        return runner.studies(chosen, variants)
    for title, study in runner.studies(chosen, variants).items():
        together = best_alone(study)
        variants[title] += [] if together is None else [together]
    return runner.studies(chosen, variants)


def _summary(studies: Mapping[str, Study]) -> str:
    """Each option by base model: the mean over the data sets."""
    cells: dict[str, dict[str, str]] = {}
    for title, study in studies.items():
        for variant, outcome in zip(study.variants, study.outcomes, strict=True):
            same = outcome is study.default
            text = "(default)" if same else str(study.overall(outcome))
            cells.setdefault(label(variant), {})[title] = text
    rows = [(name, *(found.get(title, "") for title in studies)) for name, found in cells.items()]
    return table(("option", *studies), rows)


def options_reading(studies: Mapping[str, Study]) -> str:
    """What stands out for each base model, and what does so in more than one."""
    parts, gains, losses = [], dict[str, list[str]](), dict[str, list[str]]()
    for title, study in studies.items():
        reading = study.read()
        text = reading_text(reading, "the base model", label)
        parts.append(f"### {title}\n\n{text}")
        for side, found in ((gains, reading.better), (losses, reading.worse)):
            for variant, _ in found:
                side.setdefault(label(variant), []).append(title)

    def several(found: Mapping[str, Sequence[str]]) -> str:
        lines = [f"{name} ({len(of)})" for name, of in found.items() if len(of) > 1]
        return "; ".join(lines) or "none"

    return (
        f"By more than two standard errors, and for more than one of the {len(studies)} base "
        f"models, better: {several(gains)}. Worse: {several(losses)}. "
        f"The number of base models is in brackets.\n\n" + "\n\n".join(parts)
    )


def compare_bases(studies: Mapping[str, Study]) -> str:
    """The base models themselves, and how far each is from the first."""
    first = next(iter(studies.values()))
    rows = []
    for title, study in studies.items():
        means = [float(np.nanmean(out.values)) for out in study.default.values()]
        cells = [title, *(f"{mean:.4f}" for mean in means), f"{np.mean(means):.4f}", ""]
        if study is not first:
            difference = study.less(study.default, first.default)
            cells[-1] = f"{difference}, p {difference.p_value:.3f}"
        rows.append(cells)
    return table(("base model", *first.folds, "mean of the sets", "less the first"), rows)


def options_page(studies: Mapping[str, Study], runner: Runner, command: str) -> str:
    figures = []
    for title, study in studies.items():
        rows = [("all defaults", study.default)]
        rows += [
            (label(variant), outcome)
            for variant, outcome in zip(study.variants, study.outcomes, strict=True)
            if outcome is not study.default
        ]
        figures.append(f"### {title}: each data set\n\n{study.table_of(rows)}")
    return (
        "# What makes a model better on small data\n\n"
        f"Each option is tried alone around {len(studies)} base models, then a few together. "
        f"{runner.how()}\n\n"
        "The line of the defaults has NDCG@10; the others have the difference to it with its "
        "standard error. The last column weighs all data "
        "sets equally. Where the best values alone are put together, these are the best of each "
        "option that gained more than a standard error: they were chosen by the same queries, so "
        "the gain is flattered.\n\n"
        f"{measured_by(command, runner.store.version)}\n\n"
        f"## What it says\n\n{options_reading(studies)}\n\n"
        f"## The figures\n\n### The base models\n\n"
        f"{compare_bases(studies)}\n\n"
        f"### Mean of the data sets\n\n{_summary(studies)}\n\n" + "\n\n".join(figures) + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_option(parser)
    parser.add_argument("--pages", nargs="+", choices=PAGES, default=PAGES)
    parser.add_argument(
        "--seeds", type=int, help="5 for the page of options, 2 for the others, 2 with --quick"
    )
    parser.add_argument(
        "--bases",
        nargs="+",
        choices=[*BASES],
        default=[*BASES],
        help="base models of the page of options; if not all, it is printed only",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="VARIANT",
        help="variants of that page, as bootstrap=1.0; it is printed only",
    )
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
    n_seeds = arguments.seeds or 2
    runner = Runner(store, folds, range(n_seeds), most, run)
    command = f"{COMMAND} --seeds {arguments.seeds}" if arguments.seeds else COMMAND
    pages, pictures = {}, {}
    part = bool(arguments.only) or len(arguments.bases) < len(BASES)
    if "options" in arguments.pages:
        n_seeds = arguments.seeds or (2 if arguments.quick else N_SEEDS)
        drawn = Runner(store, folds, range(n_seeds), most, run, over_seeds=True)
        every = 7 if arguments.quick else 1
        studies = study_options(drawn, every, arguments.bases, arguments.only)
        pages[DOCS / "options.md"] = options_page(studies, drawn, command)
    if "neighbours" in arguments.pages:
        studies = study_neighbours(runner)
        pages[DOCS / "neighbours.md"] = neighbours_page(studies, runner, command)
    if "leaves" in arguments.pages:
        studies = study_leaves(runner)
        pages[DOCS / "leaves.md"] = leaves_page(studies, runner, command)
        pictures[DOCS / "images" / "leaves.svg"] = draw_leaves(effects_of(studies))
    printed = arguments.quick or part
    for path, text in pages.items() if printed else (pages | pictures).items():
        if printed:
            print(text)
        else:
            write_page(path, text)
    print(f"{store.seconds:.0f} s of CPU time in fits", flush=True)


if __name__ == "__main__":
    main()
