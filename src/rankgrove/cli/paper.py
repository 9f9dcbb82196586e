# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove paper`: the experiments of Lyzhin et al. 2022 on data of one's own or public ones."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankgrove.cli.console import count, heading, make_table, show, show_json, warn
from rankgrove.cli.interrupts import interrupted
from rankgrove.cli.options import Json, argument, option, takes
from rankgrove.errors import ParameterError, parameter, refusal, unknown_name

if TYPE_CHECKING:
    from rankgrove.experiments.paper.cells import Budget, Table
    from rankgrove.experiments.paper.runs import Plan, Progress, Records, Source
    from rankgrove.experiments.paper.tables import Figures, Grid

_FORMATS = ("table", "markdown", "latex", "json")


@dataclass(frozen=True)
class Call:
    """Which experiments to run, on what, and how to show them."""

    directories: Annotated[
        list[Path] | None,
        argument(
            "DIR...",
            "Data sets: Fold1 to Fold5, S1 to S5, or train, vali and test, as LETOR text.",
        ),
    ] = None
    list_: Annotated[
        bool, option(None, "Show the public data sets and how to get them.", "--list")
    ] = False
    table: Annotated[
        str,
        option(
            "LIST",
            "Tables of the paper: 1, 2, 3, figure1, 4-9, 10-21, 22-25; with commas between.",
            "--table",
            "-t",
        ),
    ] = "2"
    quick: Annotated[
        bool, option(None, "A small budget: 4+4 trials of up to 200 trees.", "--quick")
    ] = False
    trials: Annotated[
        str | None,
        option("N|N+N", "Trials per cell, or random and Bayesian ones; 20+80 by default."),
    ] = None
    sampler: Annotated[
        str,
        option("tpe|gp", "What draws Bayesian trials; gp, as in the paper, needs PyTorch."),
    ] = "tpe"
    trees: Annotated[int | None, option("N", "The most trees of a trial; 1000 by default.")] = None
    folds: Annotated[
        str | None,
        option("LIST", "Only these folds of those that a set has, as 1 or 1,2; else all."),
    ] = None
    algorithms: Annotated[str | None, option("LIST", "Only these, as yetirank,yetiloss.")] = None
    metrics: Annotated[str | None, option("LIST", "Only these, as NDCG@10,MAP.")] = None
    peers: Annotated[
        bool, option(None, "Run CatBoost and LightGBM, too, if they are installed.", "--peers")
    ] = False
    set_name: Annotated[
        str | None, option("NAME", "Which public set DIR is; see --list.", "--set")
    ] = None
    empty: Annotated[
        str,
        option(
            "paper|skip|zero|one",
            "What a query without a relevant document counts; paper is 1 in NDCG, else 0.",
        ),
    ] = "paper"
    seed: Annotated[int, option("N", "Of all that is random.")] = 0
    out: Annotated[Path, option("DIR", "Where results are kept, to go on from.", "--out", "-o")] = (
        Path("rankgrove-paper")
    )
    format_: Annotated[str, option("|".join(_FORMATS), "How tables are shown.", "--format")] = (
        "table"
    )
    n_jobs: Annotated[int | None, option("N", "Threads; all CPUs by default.")] = None
    json: Json = False


@takes("call", Call)
def paper(*, call: Call) -> None:
    """Run the experiments of "Which Tricks are Important for Learning to Rank?".

    Every algorithm is tuned for every metric on every fold, and our table is shown beside the
    paper's. Stopped at any moment, the same command goes on where it was.

    rankgrove paper MSLR-WEB10K --table 2 --folds 1

    rankgrove paper mq2008 --quick --peers --format markdown
    """
    shape = "json" if call.json else call.format_
    if shape not in _FORMATS:
        raise unknown_name(parameter("format_"), shape, _FORMATS)
    if call.list_:
        _show_list(shape)
        return
    from rankgrove.data.benchmarks import find_benchmark
    from rankgrove.experiments.paper.cells import EMPTY, cells_of, parse_tables
    from rankgrove.experiments.paper.runs import Plan, Source, figures_of

    if call.empty not in EMPTY:
        raise unknown_name(parameter("empty"), call.empty, EMPTY)
    tables = parse_tables(call.table)
    places, to_run = call.directories or [], [one for one in tables if one.kind != "sizes"]
    if to_run and not places:
        raise ParameterError(f"DIR must be given, or {parameter('list_')}. Got neither.")
    if call.set_name is not None and len(places) > 1:
        raise refusal("set_name", "be used with one DIR", got="several")
    known = None if call.set_name is None else find_benchmark(call.set_name)
    numbers = None if call.folds is None else _numbers(call.folds)
    chosen = _names(call.algorithms), _names(call.metrics), _peers() if call.peers else ()
    cells = cells_of(to_run, *chosen) if to_run else []
    budget = _budget(call)
    sources = _with_folds([Source.open(place, known) for place in places], numbers)
    plan = Plan(sources, tuple(cells), call.out, budget, call.empty, call.n_jobs)  # type: ignore[arg-type]
    records = _run(plan) if cells else {}
    _show(tables, plan, records, figures_of(plan, records), shape)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [n.strip() for n in text.split(",") if n.strip()]


def _numbers(text: str) -> list[int]:
    names = _names(text) or []
    if not all(name.isascii() and name.isdigit() for name in names):
        raise refusal("folds", "be numbers with commas between, as 1,2", text)
    return [int(name) for name in names]


def _with_folds(sources: list[Source], numbers: list[int] | None) -> tuple[Source, ...]:
    """The data sets with folds of these numbers; each must be in one set, and a set have one."""
    from rankgrove.data.benchmarks import choose_folds

    if numbers is None:
        return tuple(sources)
    choose_folds([fold for source in sources for fold in source.folds], numbers)
    return tuple(
        replace(
            source,
            folds=tuple(fold for fold in source.folds if fold.number in numbers)
            or tuple(choose_folds(source.folds, numbers)),
        )
        for source in sources
    )


def _budget(call: Call) -> Budget:
    from rankgrove.experiments.paper.cells import FULL, QUICK, parse_trials

    changes: dict[str, Any] = {"seed": call.seed, "sampler": call.sampler}
    if call.trials is not None:
        changes |= zip(("n_random", "n_bayesian"), parse_trials(call.trials), strict=True)
    if call.trees is not None:
        changes["max_trees"] = call.trees
    return replace(QUICK if call.quick else FULL, **changes)


def _peers() -> list[str]:
    """Those that are installed."""
    from rankgrove.experiments.paper.cells import PEER_OF
    from rankgrove.testing.peers import PEERS, installed

    tools = sorted(set(PEER_OF.values()))
    for tool in tools:
        if not installed(tool):
            warn(
                f"{PEERS[tool].title} is not installed: it is left out. "
                f"Install it with: pip install {PEERS[tool].package}"
            )
    return [tool for tool in tools if installed(tool)]


def _run(plan: Plan) -> Records:
    from rankgrove.experiments.paper.runs import run_plan

    done = 0

    def tell(progress: Progress) -> None:
        nonlocal done
        done = progress.done
        line(progress)

    with _progress() as line:
        try:
            return run_plan(plan, tell, warn)
        except KeyboardInterrupt:
            pass
    cells = f"{done:,} of {count(plan.total, 'cell')}, which are in {plan.out}"
    raise interrupted(f"after {cells}: the same command goes on from there.")


@contextmanager
def _progress() -> Iterator[Any]:
    """Shows how a run is going on stderr: a line per cell, and on a terminal what is under way."""
    from rich.console import Console

    # A line has words of its own in square brackets, and numbers that need no colour.
    console = Console(file=sys.stderr, markup=False, highlight=False, soft_wrap=True)

    def tell(progress: Progress) -> None:
        of = f"{progress.done:,} of {progress.total:,}"
        record = progress.record
        if record is None:
            if status is not None:
                status.update(f"{of} cells done; {progress.what}")
        else:
            console.print(
                f"{of}: {progress.what}: {100 * record['test']:.2f}, "
                f"{count(record['trees'], 'tree')}, {record['seconds']:,.1f} s of CPU"
            )

    if not console.is_terminal:
        status = None
        yield tell
        return
    with console.status("reading") as status:
        yield tell


def _show(
    chosen: Sequence[Table], plan: Plan, records: Records, figures: Figures, shape: str
) -> None:
    from rankgrove.experiments.paper import tables
    from rankgrove.experiments.paper.runs import sizes_of

    sets = {source.name: source.paper_name for source in plan.sources}
    grids = [grid for one in chosen for grid in tables.make_grids(one, plan.cells, figures, sets)]
    if any(one.kind == "sizes" for one in chosen):
        sizes = sizes_of(plan.sources, plan.budget.seed, plan.n_jobs)
        grids.insert(0, tables.size_grid(sizes))
    pairs = tables.against_peers(plan.cells, figures, list(sets))
    notes = [*_notes(plan, grids), *([tables.say_peers(pairs)] if pairs else [])]
    if shape == "json":
        show_json(
            {
                "budget": asdict(plan.budget),
                "empty": plan.empty,
                "sets": [_describe(source) for source in plan.sources],
                "tables": [tables.to_json(grid) for grid in grids],
                "peers": pairs,
                "cells": [_describe_cell(key, record) for key, record in records.items()],
            }
        )
    elif shape == "table":
        for grid in grids:
            _show_grid(grid)
        show(*notes)
    else:
        to_text = tables.to_markdown if shape == "markdown" else tables.to_latex
        texts = [to_text(grid) for grid in grids]
        shown = "\n".join(f"% {note}" for note in notes) if shape == "latex" else " ".join(notes)
        show("\n\n".join([*texts, shown]))


def _show_grid(grid: Grid) -> None:
    """The table, on a terminal in as many pieces as its width asks for."""
    from rankgrove.experiments.paper.tables import plain_rows

    header, rows = plain_rows(grid)
    show(heading(grid.title))
    for chosen in _pieces([[*header], *rows]):
        cells = ([row[at] for at in chosen] for row in rows)
        show(make_table(*(header[at] for at in chosen), rows=cells, numeric=1), "")


def _pieces(lines: Sequence[Sequence[str]]) -> list[list[int]]:
    """Which columns to show at a time; the first one, of names, each time."""
    widths = [max(map(len, column)) + 2 for column in zip(*lines, strict=True)]
    most = shutil.get_terminal_size().columns if sys.stdout.isatty() else sum(widths)
    pieces: list[list[int]] = []
    for at in range(1, len(widths)):
        if not pieces or sum(widths[column] for column in pieces[-1]) + widths[at] > most:
            pieces.append([0])
        pieces[-1].append(at)
    return pieces


def _notes(plan: Plan, grids: Sequence[Grid]) -> list[str]:
    """What one has to know to read the tables."""
    if not plan.cells:
        return ["The first rows are the data that were read."] if plan.sources else []
    kinds = {grid.table.kind for grid in grids}
    folds = ", ".join(
        f"{source.name} {'fold' if len(source.folds) == 1 else 'folds'} "
        f"{', '.join(str(fold.number) for fold in source.folds)}"
        for source in plan.sources
    )
    counted = {
        "paper": "1 in NDCG, as the paper's figures imply, and 0 in the others",
        "skip": "not at all, unlike in the NDCG of the paper, where they are 1",
    }.get(plan.empty, plan.empty)
    notes = [
        f"Our tables: {plan.budget}. The paper's: 20 random and 80 Bayesian trials, up to 1,000 "
        f"trees.",
        f"Metrics times 100, means over all test queries of {folds}; ties are resolved against the "
        f"model, and queries without a relevant document count {counted}.",
    ]
    if "values" in kinds:
        notes.append(
            "Marked are the best on a data set and what is not significantly below it (paired "
            "one-tailed t-test over queries, p < 0.05)."
        )
    if any(cell.row.algorithm == "lambdamart-leafwise" for cell in plan.cells):
        notes.append("Beside leaf-wise LambdaMART stands the paper's LightGBM.")
    if "relative" in kinds:
        notes.append(
            "Percent by which 100 - M is above that of one neighbour; the paper's are computed "
            "from its tables 6 to 9."
        )
    if "gap" in kinds:
        notes.append("The gap is train less test.")
    return notes


def _describe(source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "benchmark": source.benchmark.name if source.benchmark else None,
        "folds": [fold.number for fold in source.folds],
    }


def _describe_cell(key: tuple[str, int, str], record: dict[str, Any]) -> dict[str, Any]:
    """A cell without the values of its queries, and without its time, which no two runs share."""
    left_out = {"values", "seconds", "mark"}
    kept = {name: value for name, value in record.items() if name not in left_out}
    return {"set": key[0], "fold": key[1], **kept}


def _show_list(shape: str) -> None:
    """The public sets: what is in them, where they are, what to check."""
    from rankgrove.data.benchmarks import BENCHMARKS

    if shape == "json":
        show_json({name: asdict(one) for name, one in BENCHMARKS.items()})
        return
    names = ("set", "in the paper", "features", "grades", "folds", "queries", "documents")
    table = make_table(*names, numeric=2)
    for one in BENCHMARKS.values():
        in_paper = one.title if one.top_grade == 4 else "-"
        sizes = (" / ".join(f"{n:,}" for n in numbers) for numbers in (one.queries, one.documents))
        grades = f"0-{one.top_grade}"
        table.add_row(one.name, in_paper, str(one.features), grades, str(one.folds), *sizes)
    show(table, "", "Sizes are of train / vali / test, of the first of several folds, or of all.")
    for one in BENCHMARKS.values():
        show("", heading(one.name), f"  from    {one.source}", f"  get it  {one.steps}")
        show(f"  files   {one.files}")
        if one.remark:
            show(f"  note    {one.remark}")
    show(
        "",
        "Read what was downloaded with 'rankgrove inspect', and compare its sizes with the table; "
        "'rankgrove paper' does so, and warns.",
    )
