"""Quality on real data: Rankgrove's recipe, its models and those of LightGBM, XGBoost and CatBoost.

One table: single models in two treatments, averages of as many seeds, refits and mixtures, each
with its time; benchmarks/quality_hypotheses.py has what is asked of it. Fits are kept in a file:
an interrupted run goes on where it was. With `--defaults`, Rankgrove against itself: each parameter
is varied alone around its default, and docs/defaults.md is written.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.common import limit_threads, report, write_page

limit_threads()

from benchmarks import quality_draws as draws  # noqa: E402 (the thread limits must be set before)
from benchmarks import quality_objectives, quality_table  # noqa: E402
from benchmarks.kept_fits import Results, Sets, compute, source  # noqa: E402
from benchmarks.quality_fits import N_TREES, fingerprint  # noqa: E402
from benchmarks.quality_hypotheses import N_AVERAGED, PEERS  # noqa: E402
from benchmarks.real_data import Split, add_data_option, as_five_folds, read_sets  # noqa: E402
from benchmarks.study import (  # noqa: E402
    MOST_TREES,
    PAGE,
    VARIANTS,
    defaults_page,
    study_defaults,
    synthetic_split,
)

COMMAND = "python -m benchmarks.quality"
PACKAGES = ("numpy", "numba", "scipy", "torch", "lightgbm", "xgboost-cpu", "catboost")
RESULTS = Path(tempfile.gettempdir()) / "quality-results" / "fits.jsonl"
QUICK_TREES, QUICK_SEEDS, QUICK_DRAWS = 20, 3, 2


def frame_of(sets: Sets, n_draws: int, code: str, most: int = N_TREES) -> draws.Frame:
    folds = {name: len(splits) for name, splits in sets.items()}
    data = {name: fingerprint(splits) for name, splits in sets.items()}
    return draws.Frame(folds, data, range(n_draws), code, most)


def fit_missing(
    wanted: Sequence[draws.Wanted], frame: draws.Frame, sets: Sets, results: Results, workers: int
) -> list[str]:
    """Fit all that is wanted in its order; what failed."""
    failed: list[str] = []
    # Refits need the stops of what stands before them.
    for _, group in itertools.groupby(wanted, key=lambda each: each.kind):
        tasks = [task for each in group for task in draws.tasks_of(each, frame, results.found)]
        failed += compute(list(dict.fromkeys(tasks)), sets, results, workers, draws.fit)
    return failed


def main_defaults(arguments: argparse.Namespace, sets: Mapping[str, Sequence[Split]]) -> None:
    sets = {**sets, "synthetic": [synthetic_split(60 if arguments.quick else 500)]}
    if arguments.quick:
        sets = {name: splits[:2] for name, splits in sets.items()}
    variants = VARIANTS[1::4] if arguments.quick else VARIANTS
    study = study_defaults(sets, variants, 30 if arguments.quick else MOST_TREES, range(2))
    page = defaults_page(study, f"{COMMAND} --defaults")
    if arguments.quick:
        print(page)
    else:
        write_page(PAGE, page)


def main_refits(
    arguments: argparse.Namespace, folds: Sets, frame: draws.Frame, results: Results
) -> None:
    """What a last fit to all labels does for a peer: a section of its own."""
    rows = quality_table.refit_rows(arguments.refits)
    members = {
        draws.Wanted(each.candidate, each.kind, range(each.n_seeds))
        for row in rows
        for each in row.members
    }
    # What stops comes before what asks for the stop.
    wanted = sorted(members, key=lambda each: (each.kind == draws.AGAIN, each.candidate))
    if not arguments.written:
        fit_missing(wanted, frame, folds, results, arguments.workers)
    tasks = [task for each in wanted for task in draws.tasks_of(each, frame, results.found)]
    seconds = sum(results.found[task]["seconds"] for task in tasks)
    body = quality_table.refits_body(arguments.refits, folds, frame, results.found, seconds)
    if arguments.quick:
        print(body)
        return
    command = f'{COMMAND} --refits "{arguments.refits}"'
    command += f" --draws {arguments.draws}" * (arguments.draws != draws.N_DRAWS)
    report("quality-refits", "A peer fitted again to all labels", command, PACKAGES, body)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_option(parser)
    parser.add_argument("--sets", help="only these data sets, separated by commas")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where fits are kept")
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="fit only candidates whose names begin so"
    )
    parser.add_argument(
        "--seeds", type=int, default=N_AVERAGED, help="fit only so many seeds of an average"
    )
    parser.add_argument("--without-refits", action="store_true", help="fit what stops early only")
    parser.add_argument("--written", action="store_true", help="fit nothing, use the results")
    parser.add_argument(
        "--code", help="take our kept fits of this code; by default that of this checkout"
    )
    parser.add_argument(
        "--refits", choices=PEERS, help="the averages of one peer, fitted again to all labels"
    )
    parser.add_argument("--draws", type=int, default=draws.N_DRAWS, help="of training queries")
    parser.add_argument("--defaults", action="store_true", help="the study of our defaults")
    parser.add_argument(
        "--objectives", action="store_true",
        help="all objectives and losses; benchmarks/quality_objectives.py has the options",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    return parser.parse_args()


def main() -> None:
    if "--objectives" in sys.argv:
        quality_objectives.main()
        return
    arguments = parse()
    sets: Mapping[str, Sequence[Split]] = read_sets(arguments.data)
    if arguments.sets:
        sets = {name: sets[name] for name in arguments.sets.split(",")}
    if arguments.defaults:
        main_defaults(arguments, sets)
        return
    n_folds, n_seeds = (1, QUICK_SEEDS) if arguments.quick else (5, arguments.seeds)
    folds = {name: as_five_folds(splits)[:n_folds] for name, splits in sets.items()}
    code = arguments.code or source()
    n_draws, most = (QUICK_DRAWS, QUICK_TREES) if arguments.quick else (arguments.draws, N_TREES)
    frame = frame_of(folds, n_draws, code, most)
    results = Results(None if arguments.quick else arguments.results, draws.Task)
    if arguments.refits:
        main_refits(arguments, folds, frame, results)
        return
    wanted = [
        each._replace(seeds=[seed for seed in each.seeds if seed < n_seeds])
        for each in draws.order_of_fits(draws.has_recipe())
        if each.candidate.startswith(tuple(arguments.only))
        and not (arguments.without_refits and each.kind == draws.AGAIN)
    ]
    failed = (
        [] if arguments.written else fit_missing(wanted, frame, folds, results, arguments.workers)
    )
    body = quality_table.body_of(folds, frame, results.found, draws.has_recipe())
    body += "".join(f"\n\nFailed: {line}" for line in failed)
    if arguments.quick:
        print(body)
    else:
        report("quality", "Quality on real data", COMMAND, PACKAGES, body)


if __name__ == "__main__":
    main()
