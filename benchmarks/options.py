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
from benchmarks.differences import Floats, mean_difference
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
    other_seeds,
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


def variants_of(base: Mapping[str, Any]) -> list[Variant]:
    """What is tried around a base model."""
    leafwise = base["grower"] == "leafwise"
    size, sizes = ("max_leaves", (15, 31)) if leafwise else ("max_depth", (5, 6))
    return [
        *other_seeds(100, 200),
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
            for variant, difference in found:
                if abs(difference.mean) > reading.noise:
                    side.setdefault(label(variant), []).append(title)

    def several(found: Mapping[str, Sequence[str]]) -> str:
        lines = [f"{name} ({len(of)})" for name, of in found.items() if len(of) > 1]
        return "; ".join(lines) or "none"

    return (
        f"By more than two standard errors, by more than other seeds move, and for more than one "
        f"of the {len(studies)} base models, better: {several(gains)}. Worse: {several(losses)}. "
        f"The number of base models is in brackets.\n\n" + "\n\n".join(parts)
    )


def _over_seeds(study: Study) -> dict[str, Floats]:
    """The values of the base model by data set, also of the lines where only the seed differs."""
    runs = [study.default]
    runs += [
        outcome
        for variant, outcome in zip(study.variants, study.outcomes, strict=True)
        if variant.first_seed
    ]
    return {name: np.mean([run[name].values for run in runs], axis=0) for name in study.folds}


def compare_bases(studies: Mapping[str, Study]) -> str:
    """The base models themselves, over all seeds, and how far each is from the first."""
    values = {title: _over_seeds(study) for title, study in studies.items()}
    first = next(iter(values.values()))
    rows = []
    for title, own in values.items():
        means = [float(np.nanmean(of_set)) for of_set in own.values()]
        cells = [title, *(f"{mean:.4f}" for mean in means), f"{np.mean(means):.4f}", ""]
        if own is not first:
            difference = mean_difference((own[name], first[name]) for name in own)
            cells[-1] = f"{difference}, p {difference.p_value:.3f}"
        rows.append(cells)
    return table(("base model", *first, "mean of the sets", "less the first"), rows)


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
        "standard error, from the differences query by query. The last column weighs all data "
        "sets equally. Where the best values alone are put together, these are the best of each "
        "option that gained more than a standard error: they were chosen by the same queries, so "
        "the gain is flattered.\n\n"
        f"{measured_by(command, runner.store.version)}\n\n"
        f"## What it says\n\n{options_reading(studies)}\n\n"
        f"## The figures\n\n### The base models, also at the other seeds\n\n"
        f"{compare_bases(studies)}\n\n"
        f"### Mean of the data sets\n\n{_summary(studies)}\n\n" + "\n\n".join(figures) + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_option(parser)
    parser.add_argument("--pages", nargs="+", choices=PAGES, default=PAGES)
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
    if "options" in arguments.pages:
        studies = study_options(runner, 7 if arguments.quick else 1)
        pages[DOCS / "options.md"] = options_page(studies, runner, command)
    if "neighbours" in arguments.pages:
        studies = study_neighbours(runner)
        pages[DOCS / "neighbours.md"] = neighbours_page(studies, runner, command)
    if "leaves" in arguments.pages:
        studies = study_leaves(runner)
        pages[DOCS / "leaves.md"] = leaves_page(studies, runner, command)
        pictures[DOCS / "images" / "leaves.svg"] = draw_leaves(effects_of(studies))
    for path, text in pages.items() if arguments.quick else (pages | pictures).items():
        if arguments.quick:
            print(text)
        else:
            write_page(path, text)
    print(f"{store.seconds:.0f} s of CPU time in fits", flush=True)


if __name__ == "__main__":
    main()
