"""What commands share: `--json`, how a data file is to be read, how options are added."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from rankgrove.errors import DataError

if TYPE_CHECKING:
    from rankgrove.data.dataset import Dataset
    from rankgrove.metrics.base import Metric


def option(
    metavar: str | None, help: str, *names: str, panel: str | None = None, **rules: Any
) -> Any:
    """An option: what stands for its value, what it is, and its names unless that of the argument.

    A flag has no value, and must be named.
    """
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **rules)


def argument(metavar: str, help: str) -> Any:
    """What is given without the name of an option."""
    return typer.Argument(metavar=metavar, help=help)


Json = Annotated[bool, option(None, "Print one JSON document.", "--json")]
Metrics = Annotated[
    list[str] | None,
    option(
        "LIST",
        "Metrics with commas between, as listed by 'rankgrove metrics'. By default "
        "ndcg@10,map,mrr,err.",
        "--metrics",
        "-m",
    ),
]
Categorical = Annotated[
    str | None, option("NAMES", "Features that are categories, with commas between.")
]
Preset = Annotated[
    str | None, option("TOOL", "Policies of lightgbm, xgboost, catboost, trec_eval or sklearn.")
]
PerQuery = Annotated[
    Path | None, option("FILE", "Also write the value of each query, as CSV or TSV.")
]
DataFile = Annotated[Path, argument("DATA", "A data file of any format.")]
TrainFile = Annotated[Path, argument("TRAIN", "A data file of any format.")]

_table = partial(option, panel="How CSV, TSV and Parquet files are read")
_letor = partial(option, panel="How LETOR files are read (all other names)")
_any = partial(option, panel="How any file is read")


def _numbers(what: str) -> Any:
    return _any(
        "NAME",
        f"{what}: a table's column; for LETOR text a file with one number per line, or a suffix as "
        f".init of the file beside it.",
    )


@dataclass(frozen=True)
class Reading:
    """How a data file is to be read; None leaves it to the reader."""

    label: Annotated[str | None, _table("NAME", "Column of labels; 'label' by default.")] = None
    qid: Annotated[str | None, _table("NAME", "Column of query ids; 'qid' by default.")] = None
    document_id: Annotated[str | None, _table("NAME", "Column of document ids.")] = None
    features: Annotated[
        str | None, _table("NAMES", "Feature columns, with commas between; by default all others.")
    ] = None
    more_labels: Annotated[
        str | None, _table("NAMES", "Columns of further labels, for metrics as 'ndcg of clicks'.")
    ] = None
    index_base: Annotated[str | None, _letor("auto|0|1", "Number of the first feature.")] = None
    absent: Annotated[str | None, _letor("zero|missing", "What an absent feature is.")] = None
    n_features: Annotated[int | None, _letor("N", "Number of features.")] = None
    weight: Annotated[str | None, _numbers("Query weights")] = None
    base_score: Annotated[str | None, _numbers("Base scores, what an earlier model gave")] = None
    document_weight: Annotated[
        str | None, _numbers("Document weights, by which the cost of each counts")
    ] = None
    document_ids: Annotated[
        bool | None,
        _any(
            None,
            "Take document ids: LETOR's comments, or a table's column 'document_id'.",
            "--document-ids",
        ),
    ] = None
    group: Annotated[
        Path | None,
        _any("FILE", "Number of documents of each query, one per line; where there is no qid."),
    ] = None
    split_queries: Annotated[
        str | None, _any("error|group", "What to do if the rows of a query are not together.")
    ] = None
    n_jobs: Annotated[int | None, _any("N", "Threads; all CPUs by default.")] = None

    def with_ids(self, metrics: Iterable[Metric], *, needed: bool = False) -> Reading:
        """The same, with document ids where a metric breaks ties by them, or if they are needed."""
        from rankgrove.metrics.sums import parts_of  # noqa: PLC0415 (--help is quick without it)

        parts = [part for metric in metrics for part, _ in parts_of(metric)]
        needed = needed or any(part.ties == "document_id" for part in parts)
        return replace(self, document_ids=True) if needed else self

    @property
    def feature_list(self) -> list[str] | None:
        """The names of the features, where they are given."""
        return names_in(self.features)

    def read(self, path: Path, **changes: Any) -> Dataset:
        """The data of a file, read with these options and changes."""
        from rankgrove.data.files import read_data  # noqa: PLC0415 (--help is quick without it)

        if is_model_file(path):
            raise DataError(
                f"{path}: must be a data file. Got a model: see it with 'rankgrove inspect'."
            )
        if path.suffix == ".bins":
            raise DataError(
                f"{path}: must be a data file with features. Got binned data, which train, tune "
                f"and cv take."
            )
        return read_data(path, **self.chosen | changes)

    @property
    def chosen(self) -> dict[str, Any]:
        """The options that are given, as the functions that read take them."""
        options = {name: value for name, value in asdict(self).items() if value is not None}
        if self.features is not None:
            options["features"] = self.feature_list
        if self.more_labels is not None:
            options["more_labels"] = names_in(self.more_labels)
        if self.index_base is not None and self.index_base.isdecimal():
            options["index_base"] = int(self.index_base)
        return options


def names_in(text: str | None) -> list[str] | None:
    """Names with commas between, where they are given."""
    return None if text is None else [name.strip() for name in text.split(",")]


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
        defaults = {name: vars(kind).get(name, inspect.Parameter.empty) for name in options}
        return add_options(command, argument, options, lambda values: kind(**values), defaults)

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
