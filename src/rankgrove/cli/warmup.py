# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove warmup`: compile every kernel ahead, so that no later command waits for it."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from rankgrove.cli.console import count, say, show, show_json, warn
from rankgrove.cli.options import Json

Native = Annotated[
    bool,
    typer.Option(
        "--native",
        help="Compile all for this very processor, and use that from now on in place of what came "
        "with the package.",
    ),
]


def warmup(native: Native = False, json: Json = False) -> None:
    """Compile everything ahead, on all processors, so that no later command waits for it.

    What came compiled with the package is taken from there. What is compiled is kept on disk, until
    Rankgrove, Numba or the machine changes.
    """
    from rankgrove._jit import available_cpus
    from rankgrove._jit.building import fill_cache
    from rankgrove._jit.caching import note_native
    from rankgrove._jit.signatures import read_list

    listed = read_list()
    say(f"looking for {count(len(listed), 'kernel')}, compiling on {available_cpus()} processors")
    start = time.perf_counter()
    answers = fill_cache(listed, native=native)
    seconds = time.perf_counter() - start
    folders = sorted({each.folder for each in answers if each.folder is not None})
    numbers = {
        origin: sum(each.origin == origin for each in answers)
        for origin in ("compiler", "cache", "package")
    }
    if not folders and numbers["package"] < len(answers):
        warn("nothing can be kept: set NUMBA_CACHE_DIR to a folder that can be written")
    mark = note_native() if native else None
    if json:
        kernels = {"compiled": numbers["compiler"], "in_cache": numbers["cache"]}
        kernels["in_package"] = numbers["package"]
        show_json({"seconds": seconds, **kernels, "cache_directories": folders, "mark": mark})
        return
    show(
        f"{count(numbers['compiler'], 'kernel')} compiled in {seconds:.1f} s, "
        f"{numbers['cache']:,} found in the cache, {numbers['package']:,} came with the package"
    )
    show(*(f"  {folder}" for folder in folders))
    if mark is not None:
        show(f"from now on used in place of those of the package, as {mark} says")
