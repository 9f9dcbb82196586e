"""Distilled models: NDCG@10 of teacher, student and one model of labels, and their time to score.

The teacher is the average of three LambdaMART, three YetiRank and three LambdaRank networks; the
student is fitted to its scores of the training documents, whose labels it does not see. Its
defaults were chosen by its error on validation parts, of first folds of real sets (`--choices`).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import THREADS, KeptLines, limit_threads, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

from benchmarks.differences import MEAN, differences_of_sets  # noqa: E402
from benchmarks.real_data import Split, add_data_option, as_five_folds, read_sets  # noqa: E402
from rankgrove import Ranker, distil, load, make_web_search  # noqa: E402
from rankgrove.experiments.distil.distil import size_of  # noqa: E402
from rankgrove.experiments.distil.speed import measure_speed  # noqa: E402
from rankgrove.metrics.evaluate import measure_dataset  # noqa: E402
from rankgrove.model.base import ScoringModel  # noqa: E402

COMMAND = "python -m benchmarks.distil"
PACKAGES = ("numpy", "numba", "torch")
METRIC = "ndcg@10"
PATIENCE = 50
MIX = "lambdamart, yetirank, lambdarank"
SYNTHETIC, N_QUERIES = "synthetic", 1500
# What defaults were chosen from: leaves, learning rate, documents made of each.
CHOICES = ((31, 0.1, 0), (31, 0.1, 4), (63, 0.1, 4), (31, 0.2, 4), (63, 0.2, 4))
NAMES = ("teacher", "student", "small", "single")
# Of a student with as many trees as a single model: as many leaves, and the rate that it needs.
SMALL = {"max_leaves": 63, "learning_rate": 0.3}
_FIELDS = ("set", "fold", "values", "microseconds", "sizes", "explained", "agreement")


class Job(NamedTuple):
    """One split of one data set."""

    name: str
    fold: int
    split: Split


def make_jobs(folder: Path | None, quick: bool) -> list[Job]:
    """All splits, small sets first; a quick run has one of synthetic data alone."""
    sets = {} if quick else {n: as_five_folds(s) for n, s in read_sets(folder).items()}
    data = make_web_search(60, 16) if quick else make_web_search(N_QUERIES)
    sets[SYNTHETIC] = [Split(*data.split(0.6, 0.2, 0.2))]
    return [Job(n, fold, split) for n, splits in sets.items() for fold, split in enumerate(splits)]


def fitted(job: Job, name: str, kept: Path | None, **parameters: Any) -> ScoringModel:
    """A model of the training part, stopped on the validation part; from a file if it is kept."""
    path = None if kept is None else kept / f"{job.name}-{job.fold}-{name}.safetensors"
    if path is not None and path.exists():
        return load(path)
    ranker = Ranker(early_stopping_rounds=PATIENCE, n_jobs=THREADS, **parameters)
    model: ScoringModel = ranker.fit(job.split.train, valid=job.split.vali).model_
    if path is not None:
        model.save(path)
    return model


def run_job(job: Job, kept: Path | None, quick: bool) -> dict[str, Any]:
    """The values of the test queries under each model, and how long each takes."""
    train, vali, test = job.split
    few: dict[str, Any] = {"n_estimators": 20} if quick else {}
    teacher = fitted(job, "teacher", kept, members=3, mix=MIX, **few)
    single = fitted(job, "single", kept, **few)
    found = distil(teacher, train, valid=vali, parameters=few, n_jobs=THREADS)
    few = {**SMALL, "n_estimators": size_of(single)["trees"]}
    small = distil(teacher, train, valid=vali, parameters=few, n_jobs=THREADS).model
    models = dict(zip(NAMES, (teacher, found.model, small, single), strict=True))
    values = {
        name: measure_dataset(test, model.predict(test, n_jobs=THREADS), METRIC).per_query(METRIC)
        for name, model in models.items()
    }
    return {
        "set": job.name,
        "fold": job.fold,
        "values": {name: own.tolist() for name, own in values.items()},
        "microseconds": measure_speed(models, test),
        "sizes": {name: size_of(model) for name, model in models.items()},
        "explained": found.explained,
        "agreement": found.agreement,
    }


def quality_table(records: list[dict[str, Any]]) -> str:
    """NDCG@10 by set, and differences with their standard errors over queries."""
    sets = list(dict.fromkeys(record["set"] for record in records))
    values: dict[str, dict[str, Any]] = {
        name: {
            each: np.concatenate([r["values"][name] for r in records if r["set"] == each])
            for each in sets
        }
        for name in NAMES
    }
    pairs = [("student", "teacher"), ("small", "teacher"), ("student", "single"),
             ("small", "single")]  # fmt: skip
    found = [differences_of_sets(values[one], values[other]) for one, other in pairs]
    rows = []
    for each in (*sets, MEAN):
        means = [
            np.mean([np.nanmean(own[one]) for one in (sets if each == MEAN else [each])])
            for own in values.values()
        ]
        cells = [f"{one[each]}, {one[each].p}" for one in found]
        rows.append((each, *(f"{mean:.4f}" for mean in means), *cells))
    return table(("data", *NAMES, *(f"{one} - {other}" for one, other in pairs)), rows)


def cost_table(records: list[dict[str, Any]]) -> str:
    """Time to score and sizes by set, means over folds."""
    rows = []
    for each in dict.fromkeys(record["set"] for record in records):
        own = [record for record in records if record["set"] == each]
        times = [np.mean([r["microseconds"][name] for r in own]) for name in NAMES]
        sizes = [
            f"{np.mean([r['sizes'][name]['trees'] for r in own]):,.0f} / "
            f"{np.mean([r['sizes'][name]['leaves'] for r in own]):,.0f}"
            for name in NAMES
        ]
        shares = [f"{np.mean([r[name] for r in own]):.3f}" for name in ("explained", "agreement")]
        rows.append((each, *(f"{time:.2f}" for time in times), *sizes, *shares))
    times_of, sizes_of = (
        [f"{name}, {unit}" for name in NAMES] for unit in ("µs", "trees / leaves")
    )
    return table(("data", *times_of, *sizes_of, "variance explained", "tau"), rows)


def choices_table(jobs: list[Job], kept: Path | None) -> str:
    """The student's squared error on the validation part of each first fold, by its parameters."""
    rows = []
    for job in (job for job in jobs if job.fold == 0 and job.name != SYNTHETIC):
        teacher = fitted(job, "teacher", kept, members=3, mix=MIX)
        for leaves, rate, made in CHOICES:
            options = {"max_leaves": leaves, "learning_rate": rate, "n_estimators": 300}
            student = distil(
                teacher, job.split.train, valid=job.split.vali, parameters=options, made=made,
                metrics=METRIC, n_jobs=THREADS,
            ).model  # fmt: skip
            ((errors,),) = (list(each.values()) for each in student.history.values())
            best = [f"{min(errors[:n]):.4f}" for n in (100, 200, 300)]
            rows.append((job.name, leaves, rate, made, *best))
    after = ("100 trees", "200 trees", "300 trees")
    return table(("data", "leaves", "learning rate", "made of each", *after), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_option(parser)
    parser.add_argument("--keep", type=Path, help="a folder of models and results to go on from")
    parser.add_argument(
        "--choices", action="store_true", help="print what the defaults were chosen by"
    )
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    parser.add_argument("--dry", action="store_true", help="print only")
    arguments = parser.parse_args()
    kept = arguments.keep
    jobs = make_jobs(arguments.data, arguments.quick)
    if arguments.choices:
        print(choices_table(jobs, kept))
        return
    lines = KeptLines(None if kept is None else kept / "distil.jsonl", _FIELDS)
    records = list(lines.records)
    done = {(record["set"], record["fold"]) for record in records}
    for job in jobs:
        if (job.name, job.fold) not in done:
            records.append(run_job(job, kept, arguments.quick))
            lines.add(records[-1])
    body = "\n\n".join(
        [
            "Teacher: three LambdaMART, three YetiRank and three LambdaRank networks, averaged, "
            f"each stopped on the validation part (patience {PATIENCE}). Student: `distil` with "
            "its defaults, fitted to the teacher's scores of the training documents and of made "
            "ones; it sees no label. Small: a student with as many trees as the single model, of "
            f"{SMALL['max_leaves']} leaves, at a rate of {SMALL['learning_rate']}. Single: one "
            "model of default parameters, trained by labels and stopped as the teacher. "
            "The real sets in five folds, 1,500 synthetic queries in one split; values of test "
            "queries, differences with their standard error over queries and p-value. The "
            "student's defaults were chosen by its squared error on validation parts, of the "
            "first folds of four real sets (`--choices`).",
            f"NDCG@10.\n\n{quality_table(records)}",
            "Time to score, µs a document, one query at a time on one thread, in turns; sizes; "
            f"and how close the student comes on validation parts.\n\n{cost_table(records)}",
        ]
    )
    if arguments.quick or arguments.dry:
        print(body)
    else:
        report("distil", "Distilled models", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()
