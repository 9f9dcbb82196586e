"""Mixtures against their members: is `mix="auto"` below its best member anywhere?

Each kind of model alone, all of them averaged in equal parts, and the mixture whose weights are
found on folds of the training data, on ten problems in which an objective is made to fail
(benchmarks/mix_problems.py), and with --data on the real data sets, too. Fits are kept in a file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import limit_threads, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)

from benchmarks.differences import (  # noqa: E402
    SIGNIFICANT,
    Difference,
    Floats,
    below,
    drawn_difference,
)
from benchmarks.kept_fits import Record, Results, Sets, compute, source  # noqa: E402
from benchmarks.mix_problems import PROBLEMS  # noqa: E402
from benchmarks.peers import METRIC, ndcg_of_queries  # noqa: E402
from benchmarks.quality_draws import draw_queries  # noqa: E402
from benchmarks.quality_fits import PATIENCE, fingerprint  # noqa: E402
from benchmarks.real_data import Split, add_data_option, as_five_folds, read_sets  # noqa: E402
from rankgrove.estimators.ranker import Ranker  # noqa: E402
from rankgrove.experiments.compare.significance import holm  # noqa: E402

COMMAND = "python -m benchmarks.mix"
PACKAGES = ("numpy", "numba", "scipy", "torch")
RESULTS = Path(tempfile.gettempdir()) / "quality-results" / "mix.jsonl"
# What `mix="auto"` chooses from.
KINDS = ("yetirank", "lambdamart", "queryrmse", "lambdarank")
EQUAL, AUTO = "equal mix", "mix=auto"
MIXES = {**{kind: kind for kind in KINDS}, EQUAL: ", ".join(KINDS), AUTO: "auto"}
N_DRAWS = 3


class Task(NamedTuple):
    """One fit; `mark` tells the results of these data and this code from others."""

    candidate: str
    set_name: str
    fold: int
    mark: str


def fit(splits: Sequence[Split], task: Task) -> Record:
    """Train, and measure every test query: a line of the results."""
    train, vali, test = splits[task.fold].with_vali()
    given: dict[str, Any] = {
        "mix": MIXES[task.candidate], "members": 1, "eval_metric": METRIC, "n_jobs": 1,
        "early_stopping_rounds": PATIENCE, "random_state": task.fold,
    }  # fmt: skip
    start = time.process_time()
    ranker = Ranker(**given).fit(train, valid=vali)
    seconds = round(time.process_time() - start, 3)
    values = ndcg_of_queries(test, np.asarray(ranker.predict(test)))
    shares = dict.fromkeys(KINDS, 0.0)
    for member in ranker.model_.notes["members"]:
        shares[member["objective"]] += member["share"]
    return {**task._asdict(), "seconds": seconds, "shares": shares,
            "values": [None if np.isnan(value) else float(value) for value in values]}  # fmt: skip


def tasks_of(sets: Sets, code: str) -> list[Task]:
    """All fits: problem by problem."""
    found = []
    for name, splits in sets.items():
        told = json.dumps([fingerprint(splits), code, PATIENCE])
        mark = hashlib.sha1(told.encode()).hexdigest()[:12]
        found += [Task(candidate, name, fold, mark)
                  for candidate in MIXES for fold in range(len(splits))]  # fmt: skip
    return found


class Outcome(NamedTuple):
    """What came out on one problem: values by draw and query, and the shares of 'auto'."""

    values: Mapping[str, Floats]
    shares: Mapping[str, float]

    def mean(self, candidate: str) -> float:
        return float(np.nanmean(self.values[candidate]))

    @property
    def best_member(self) -> str:
        return max(KINDS, key=self.mean)

    @property
    def failure(self) -> float:
        """How far the worst kind is below the best."""
        return max(map(self.mean, KINDS)) - min(map(self.mean, KINDS))

    def less(self, other: str) -> Difference:
        """The mixture that was chosen less another candidate."""
        return drawn_difference([(self.values[AUTO], self.values[other])])


def outcome_of(tasks: Sequence[Task], found: Mapping[Task, Record], n_draws: int) -> Outcome:
    """From all fits of a problem; draws are the outer part of the number of a fold."""
    values: dict[str, Floats] = {}
    for candidate in MIXES:
        own = [found[task]["values"] for task in tasks if task.candidate == candidate]
        n_folds = len(own) // n_draws
        parts = [np.array(each, dtype=float) for each in own]
        values[candidate] = np.array([
            np.concatenate(parts[draw * n_folds : (draw + 1) * n_folds]) for draw in range(n_draws)
        ])  # fmt: skip
    chosen = [found[task]["shares"] for task in tasks if task.candidate == AUTO]
    shares = {kind: float(np.mean([each[kind] for each in chosen])) for kind in KINDS}
    return Outcome(values, shares)


def verdict(outcomes: Mapping[str, Outcome]) -> str:
    """Whether the mixture is below its best member beyond Holm anywhere."""
    found = {name: each.less(each.best_member) for name, each in outcomes.items()}
    adjusted = holm([below(each) for each in found.values()])
    under = [f"{name} ({found[name]})" for name, p in zip(found, adjusted, strict=True)
             if p < SIGNIFICANT]  # fmt: skip
    two = [f"{name} ({each})" for name, each in found.items() if each.mean < -2 * each.error]
    failures = [each.failure for each in outcomes.values()]
    equal = [each.mean(EQUAL) - each.mean(each.best_member) for each in outcomes.values()]
    return (
        f"`{AUTO}` is below its best member, the best by the test queries themselves, on "
        f"{sum(each.mean < 0 for each in found.values())} of {len(found)}; by more than two "
        f"standard errors: {', '.join(two) or 'none'}; beyond Holm's method for so many tests: "
        f"{', '.join(under) or 'none'}. The least of its differences is "
        f"{min(each.mean for each in found.values()):+.4f}, that of the equal mix "
        f"{min(equal):+.4f}; in the mean of all, auto is "
        f"{np.mean([each.mean for each in found.values()]):+.4f} to its best member, the equal mix "
        f"{np.mean(equal):+.4f}. The worst member is {min(failures):.4f} to {max(failures):.4f} "
        f"below the best."
    )


def body_of(outcomes: Mapping[str, Outcome], n_draws: int) -> str:
    rows = []
    for name, each in outcomes.items():
        best = each.best_member
        cells = [name]
        for candidate in MIXES:
            cell = f"{each.mean(candidate):.4f}"
            cells.append(f"**{cell}**" if candidate == best else cell)
        cells.append(", ".join(f"{kind} {share:.0%}" for kind, share in each.shares.items()))
        rows.append([*cells, str(each.less(best)), str(each.less(EQUAL))])
    header = ("", *MIXES, "weights of auto", "auto less its best member", "auto less equal mix")
    about = "\n".join(
        f"- {name}: {problem.title}" for name, problem in PROBLEMS.items() if name in outcomes
    )
    return (
        f"Test NDCG@10. One model of each kind at our defaults, stopped by NDCG@10 on validation "
        f"queries after {PATIENCE} trees without a better value; {n_draws} draws of training "
        f"queries, the same test queries for all. The error of a difference has the variance over "
        f"queries and that over draws. Bold is the best member.\n\n{about}\n\n"
        f"{verdict(outcomes)}\n\n{table(header, rows)}"
    )


def problem_sets(folder: Path | None, quick: bool) -> tuple[dict[str, list[Split]], int]:
    """The problems, and the real sets if there is a folder: by draw and, of real sets, fold."""
    n_draws = 2 if quick else N_DRAWS
    names = list(PROBLEMS)[:2] if quick else list(PROBLEMS)
    found = {name: PROBLEMS[name].splits(n_draws) for name in names}
    for name, splits in ({} if folder is None or quick else read_sets(folder)).items():
        parts = [split.with_vali() for split in as_five_folds(splits)]
        found[name] = [Split(draw_queries(train, draw), vali, test)
                       for draw in range(n_draws) for train, vali, test in parts]  # fmt: skip
    return found, n_draws


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_option(parser)
    parser.add_argument("--results", type=Path, default=RESULTS, help="where fits are kept")
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    arguments = parser.parse_args()
    if "mix" not in Ranker().get_params():
        raise SystemExit("this Rankgrove has no `mix`: nothing to measure.")
    sets, n_draws = problem_sets(arguments.data, arguments.quick)
    results = Results(None if arguments.quick else arguments.results, Task)
    tasks = tasks_of(sets, source())
    failed = compute(tasks, sets, results, arguments.workers, fit)
    outcomes = {}
    for name in sets:
        own = [task for task in tasks if task.set_name == name]
        if all(task in results.found for task in own):
            outcomes[name] = outcome_of(own, results.found, n_draws)
    body = body_of(outcomes, n_draws) + "".join(f"\n\nFailed: {line}" for line in failed)
    if arguments.quick:
        print(body)
    else:
        report("mix", "Mixtures against their members", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()
