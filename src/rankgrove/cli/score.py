# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove score`: what a model gives the documents of a data file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from rankgrove.cli.console import count, show, show_json
from rankgrove.cli.files import check_outputs, model_and_data, sizes_of
from rankgrove.cli.models import ModelPath, load_model, read_for_model
from rankgrove.cli.options import Json, Reading, argument, option, takes_reading
from rankgrove.errors import ParameterError


@takes_reading
def score(
    model: ModelPath,
    data: Annotated[Path, argument("DATA", "What to score; a table needs no column of labels.")],
    out: Annotated[
        Path | None,
        option(
            "FILE",
            "The file to write: .csv or .tsv with query ids, else one score per line; .gz and .zst "
            "compress. By default one per line to stdout.",
            "--out",
            "-o",
        ),
    ] = None,
    n_trees: Annotated[int | None, option("N", "Use the first trees only.")] = None,
    run: Annotated[
        bool, option(None, "Write a TREC run; the data must have document ids.", "--run")
    ] = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Score documents with a model, in the order of the data.

    rankgrove score model.safetensors test.txt -o scores.txt
    """
    from rankgrove.cli.scores import run_lines, score_lines, score_rows
    from rankgrove.data.files import format_of
    from rankgrove.data.streams import open_for_writing

    model, data = model_and_data(model, data)
    kind = "letor" if out is None else format_of(out)
    if kind == "parquet" or (run and kind != "letor"):
        raise ParameterError(
            f"--out must be a text file{' of another name than .csv or .tsv' if run else ''}. "
            f"Got '{out}'."
        )
    check_outputs([model, data], {"out": out}, compressed=True)
    trained = load_model(model)
    documents = read_for_model(trained, data, reading.with_ids([], needed=run))
    scores = trained.predict(documents, n_trees=n_trees, n_jobs=reading.n_jobs)
    if run:
        lines = run_lines(documents, scores)
    elif kind == "letor":
        lines = score_lines(scores)
    else:
        lines = score_rows(documents, scores, "," if kind == "csv" else "\t")
    if out is not None:
        with open_for_writing(out) as stream:
            stream.writelines(part.encode() for part in lines)
    if json:
        trees = trained.n_trees if n_trees is None else n_trees
        result = {"scores": scores.tolist()} if out is None else {"out": out}
        show_json({"model": model, "data": data, **sizes_of(documents), "trees": trees, **result})
    elif out is None:
        sys.stdout.writelines(lines)
    else:
        show(f"Wrote {out}: {count(documents.n_documents, 'score')}.")
