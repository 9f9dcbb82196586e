"""What commands share: `--json`, how a data file is to be read, how options are added."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from rankgrove.errors import DataError

if TYPE_CHECKING:
    from rankgrove.data.dataset import Dataset

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics",
        "-m",
        metavar="LIST",
        help="Metrics with commas between, as listed by 'rankgrove metrics'. "
        "By default ndcg@10,map,mrr,err.",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="TOOL", help="Policies of lightgbm, xgboost, catboost, trec_eval or sklearn."
    ),
]

PerQuery = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write the value of each query, as CSV or TSV."),
]

_TABLES = "How CSV, TSV and Parquet files are read"
_LETOR = "How LETOR files are read (all other names)"
_ANY = "How any file is read"


def _column(help: str) -> Any:
    return typer.Option(metavar="NAME", help=help, rich_help_panel=_TABLES)


def _numbers(what: str) -> Any:
    return typer.Option(
        metavar="NAME",
        help=f"{what}: a table's column; for LETOR text a file with one number per line, or a "
        f"suffix as .init of the file beside it.",
        rich_help_panel=_ANY,
    )


@dataclass(frozen=True)
class Reading:
    """How a data file is to be read; None leaves it to the reader."""

    label: Annotated[str | None, _column("Column of labels; 'label' by default.")] = None
    qid: Annotated[str | None, _column("Column of query ids; 'qid' by default.")] = None
    document_id: Annotated[str | None, _column("Column of document ids.")] = None
    features: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Feature columns, with commas between; by default all others.",
            rich_help_panel=_TABLES,
        ),
    ] = None
    index_base: Annotated[
        str | None,
        typer.Option(
            metavar="auto|0|1", help="Number of the first feature.", rich_help_panel=_LETOR
        ),
    ] = None
    absent: Annotated[
        str | None,
        typer.Option(
            metavar="zero|missing", help="What an absent feature is.", rich_help_panel=_LETOR
        ),
    ] = None
    n_features: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of features.", rich_help_panel=_LETOR),
    ] = None
    weight: Annotated[str | None, _numbers("Query weights")] = None
    base_score: Annotated[str | None, _numbers("Base scores, what an earlier model gave")] = None
    document_weight: Annotated[
        str | None, _numbers("Document weights, by which the cost of each counts")
    ] = None
    document_ids: Annotated[
        bool | None,
        typer.Option(
            "--document-ids",
            help="Take document ids: LETOR's comments, or a table's column 'document_id'.",
            rich_help_panel=_ANY,
        ),
    ] = None
    group: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Number of documents of each query, one a line; where there is no qid.",
            rich_help_panel=_ANY,
        ),
    ] = None
    split_queries: Annotated[
        str | None,
        typer.Option(
            metavar="error|group",
            help="What to do if the rows of a query are not together.",
            rich_help_panel=_ANY,
        ),
    ] = None
    n_jobs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Threads; all CPUs by default.", rich_help_panel=_ANY),
    ] = None

    def read(self, path: Path, **changes: Any) -> Dataset:
        """The data of a file, read with these options and changes."""
        from rankgrove.data.files import read_data  # noqa: PLC0415 (--help is quick without it)

        if is_model_file(path):
            raise DataError(
                f"{path}: must be a data file. Got a model: see it with 'rankgrove inspect'."
            )
        options = {name: value for name, value in asdict(self).items() if value is not None}
        if self.features is not None:
            options["features"] = [name.strip() for name in self.features.split(",")]
        if self.index_base is not None and self.index_base.isdecimal():
            options["index_base"] = int(self.index_base)
        return read_data(path, **options | changes)


def is_model_file(path: Path) -> bool:
    """Whether a file starts as safetensors do: the length of a header, and the header, JSON."""
    # Only regular files: what is read from a pipe is gone.
    if not path.is_file():
        return False
    try:
        with open(path, "rb") as file:
            start = file.read(9)
    except OSError:
        return False  # whoever reads it says why it cannot be read
    # The first 8 characters of a text would be a far longer header.
    return len(start) == 9 and int.from_bytes(start[:8], "little") < 1 << 32 and start[8:] == b"{"


def takes(argument: str, kind: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that are the fields of a dataclass, which it takes as one."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        options = get_type_hints(kind, include_extras=True)
        return add_options(command, argument, options, lambda values: kind(**values), vars(kind))

    return add


takes_reading = takes("reading", Reading)


def add_options(
    command: Callable[..., None],
    argument: str,
    options: Mapping[str, Any],
    gather: Callable[[dict[str, Any]], Any],
    defaults: Mapping[str, Any] | None = None,
) -> Callable[..., None]:
    """Give a command options, by name and annotation, which it takes as one argument.

    Their defaults are None unless told.
    """
    hints = get_type_hints(command, include_extras=True)
    hints = {name: hint for name, hint in hints.items() if name != argument} | dict(options)

    @functools.wraps(command)
    def wrapper(**arguments: Any) -> None:
        values = {name: arguments.pop(name) for name in options}
        command(**arguments, **{argument: gather(values)})

    parameters = inspect.signature(command).parameters.values()
    own = [p.replace(annotation=hints.get(p.name)) for p in parameters if p.name != argument]
    keyword = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter(name, keyword, default=(defaults or {}).get(name), annotation=hint)
        for name, hint in options.items()
    ]
    wrapper.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    wrapper.__annotations__ = hints
    return wrapper
