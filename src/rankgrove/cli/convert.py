# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove convert`: from one file format to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankgrove.cli.console import count, show, show_json, warn
from rankgrove.cli.files import categories_option, sizes_of
from rankgrove.cli.options import (
    Categorical,
    Json,
    Reading,
    argument,
    names_in,
    option,
    takes_reading,
)
from rankgrove.errors import parameter, refusal

if TYPE_CHECKING:
    from rankgrove.data.dataset import Dataset


@takes_reading
def convert(
    source: Annotated[Path, argument("IN", "The file to read.")],
    target: Annotated[
        Path,
        argument(
            "OUT", "The file to write: .csv, .tsv or .parquet, else LETOR; .gz and .zst compress."
        ),
    ],
    out_index_base: Annotated[
        int | None, option("0|1", "Number of the first feature in a LETOR file OUT.")
    ] = None,
    out_absent: Annotated[
        str | None, option("zero|missing", "Which values a LETOR file OUT leaves out.")
    ] = None,
    categorical: Categorical = None,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Write a data file in another format, chosen by the name of OUT.

    rankgrove convert train.txt train.parquet

    rankgrove convert train.csv train.txt.gz --label grade --qid query
    """
    from rankgrove.data.files import format_of, losses, write_data

    options: dict[str, Any] = {"index_base": out_index_base, "absent": out_absent}
    given = {name: value for name, value in options.items() if value is not None}
    if given and format_of(target) != "letor":
        named = " and ".join(parameter(f"out_{name}") for name in given)
        raise refusal(named, "be used with a LETOR file OUT", str(target))
    data = reading.read(source, **categories_option(source, names_in(categorical)))
    write_data(data, target, n_jobs=reading.n_jobs, **given)
    lost = losses(data, target)
    for loss in lost:
        warn(loss)
    size = target.stat().st_size
    if json:
        show_json(
            {
                "source": source,
                "target": target,
                "format": format_of(target),
                **sizes_of(data),
                "features": data.n_features,
                "document_ids": data.document_ids is not None,
                "bytes": size,
                "warnings": lost,
            }
        )
        return
    show(
        f"Wrote {target}: {count(data.n_documents, 'document')}, "
        f"{count(data.n_queries, 'query', 'queries')}, {count(data.n_features, 'feature')}, "
        f"{count(size, 'byte')}."
    )
    if format_of(target) != "letor" and (roles := _role_options(data)):
        show(f"Not all its columns are features: read it with {' '.join(roles)}")


def _role_options(data: Dataset) -> list[str]:
    """The options that read back what a table holds besides labels, queries and features."""
    parts = {
        "--weight weight": data.weights,
        "--document-weight document_weight": data.document_weights,
        "--base-score base_score": data.base_scores,
        "--document-ids": data.document_ids,
    }
    options = [option for option, part in parts.items() if part is not None]
    return options + ([f"--more-labels {','.join(data.more_labels)}"] if data.more_labels else [])
