# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove bin`: data files to codes of one byte, which training takes as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from rankgrove.cli.console import count, say, show, show_json
from rankgrove.cli.files import as_written, check_outputs, sizes_of
from rankgrove.cli.options import (
    Categorical,
    Json,
    Reading,
    argument,
    names_in,
    option,
    takes_reading,
)


@takes_reading
def bin(
    files: Annotated[
        list[Path],
        argument(
            "FILES", "Data files of one format, patterns as 'train/*.parquet', or URIs of Parquet."
        ),
    ],
    out: Annotated[Path, option("BINS", "The file to write, as train.bins.", "--out", "-o")],
    valid: Annotated[
        list[Path] | None,
        option("FILE", "Also bin this data, with the same bins, to a file .bins beside BINS."),
    ] = None,
    like: Annotated[
        Path | None, option("FILE", "Take the bins of this .bins file, that of training.")
    ] = None,
    max_bins: Annotated[int, option("N", "How finely a feature is cut, 2 to 255.")] = 255,
    categorical: Categorical = None,
    random_state: Annotated[int, option("N", "Seed of the rows that quantiles are of.")] = 0,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Bin data that may be larger than memory, for train, tune and cv.

    rankgrove bin 'train/*.parquet' -o train.bins

    rankgrove train train.bins --valid vali.txt -o model.safetensors
    """
    from rankgrove.boosting.bin_files import bin_files

    sets = {path: out.with_name(f"{path.name.partition('.')[0]}.bins") for path in valid or []}
    outputs = {"out": out, **{f"{path}, binned,": place for path, place in sets.items()}}
    check_outputs([*files, *sets, like], outputs)
    chosen = names_in(categorical)
    cut: dict[str, Any] = {"max_bins": max_bins, "categorical": chosen}
    options = reading.chosen
    data = bin_files(
        [as_written(file) for file in files], **cut, random_state=random_state, like=like, out=out,
        **options,
    )  # fmt: skip
    made = {out: data}
    for path, place in sets.items():
        made[place] = bin_files(as_written(path), like=data, out=place, **options)
    if json:
        described = [
            {"file": path, **sizes_of(part), "features": part.n_features,
             "bytes": path.stat().st_size}
            for path, part in made.items()
        ]  # fmt: skip
        show_json({"train": described[0], "valid": described[1:]})
        return
    for path, part in made.items():
        show(
            f"Wrote {path}: {count(part.n_documents, 'document')}, "
            f"{count(part.n_queries, 'query', 'queries')}, {count(part.n_features, 'feature')}, "
            f"{count(path.stat().st_size, 'byte')}."
        )
    if chosen is not None or max_bins != 255:
        say("train with the same --max-bins and --categorical.")
