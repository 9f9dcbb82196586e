# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove report`: one page that shows which queries changed, what moved in them, and why."""

from __future__ import annotations

import hashlib
import shlex
import sys
import webbrowser
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankgrove.cli.candidates import Inputs, ScoreFiles, Source, name_sources
from rankgrove.cli.console import PROGRAM, say, warn
from rankgrove.cli.evaluate import choose_metrics
from rankgrove.cli.files import check_outputs, sort_files
from rankgrove.cli.options import (
    Metrics,
    Preset,
    Reading,
    argument,
    names_in,
    option,
    takes,
    takes_reading,
)
from rankgrove.errors import DataError, ParseError, parameter, refusal, unknown_name

if TYPE_CHECKING:
    from rankgrove.report.material import Candidate

_PAGE = Path("report.html")

_shown = partial(option, panel="What is shown")
_more = partial(option, panel="What else is known")


@dataclass(frozen=True)
class Shown:
    """What is shown, and how much of it."""

    slices: Annotated[
        list[str] | None,
        _shown(
            "LIST",
            "Groups of queries, with commas between: length (documents), labels (the highest), "
            "relevant (how many are), column:NAME.",
        ),
    ] = None
    top: Annotated[int, _shown("K", "Ranks of each query.", min=1)] = 10
    why: Annotated[str, _shown("N|all", "Queries whose documents are explained.")] = "1000"
    forces: Annotated[
        int, _shown("N", "Queries whose forces are shown through training.", min=0)
    ] = 5
    max_size: Annotated[
        str, _shown("SIZE", "The page must not be larger; it says what was left out.")
    ] = "20MB"


@dataclass(frozen=True)
class Known:
    """Other files about the data and the models."""

    names: Annotated[
        Path | None, _more("FILE", "Texts of queries: lines of a query id, a tab and its text.")
    ] = None
    titles: Annotated[
        Path | None, _more("FILE", "Titles: lines of a document id, a tab and its title.")
    ] = None
    train: Annotated[
        Path | None, _more("TRAIN", "What the models were trained on: learning curves and forces.")
    ] = None
    valid: Annotated[
        Path | None, _more("VALID", "What they were validated by: one more learning curve.")
    ] = None


@takes_reading
@takes("scoring", ScoreFiles)
@takes("known", Known)
@takes("shown", Shown)
def report(
    files: Annotated[
        list[str],
        argument(
            "DATA [NAME=]CANDIDATE...",
            "The data, with labels; then model files, files of scores (one per line in the order "
            "of the data), and column:NAME for a feature of DATA, named after their files unless "
            "NAME= is given.",
        ),
    ],
    out: Annotated[
        Path | None, option("PAGE", "The file to write; report.html by default.", "--out", "-o")
    ] = None,
    baseline: Annotated[
        str | None, option("NAME", "What the others are compared with at first.")
    ] = None,
    metrics: Metrics = None,
    preset: Preset = None,
    seed: Annotated[int, option("N", "Of shuffles that show what a feature is worth.", min=0)] = 0,
    open: Annotated[bool, option(None, "Open the page in a browser.", "--open")] = False,
    json: Annotated[
        bool, option(None, "Print the data of the page as one JSON document.", "--json")
    ] = False,
    *,
    shown: Shown,
    known: Known,
    scoring: ScoreFiles,
    reading: Reading,
) -> None:
    """Show in one page which queries changed, what moved in them, and why.

    The page is one file that needs no network and no server.

    rankgrove report test.txt old.safetensors new.safetensors --baseline old.safetensors

    rankgrove report test.txt new.safetensors --train train.txt -o new.html --open

    rankgrove report test.csv bm25=column:bm25 new.safetensors --slices length,column:intent
    """
    from rankgrove.report.build import make_report

    scoring.check()
    if json and open and out is None:
        raise refusal("open", f"be used without {parameter('json')}, which writes no page", True)
    chosen = choose_metrics(metrics or [], preset)
    candidates, data = sort_files(files, reading, "a candidate")
    sources = name_sources(candidates)
    if baseline is not None and baseline not in sources:
        raise unknown_name(parameter("baseline"), baseline, sources)
    page = None if json and out is None else out or _PAGE
    read = [data, *vars(known).values(), *(source.path for source in sources.values())]
    check_outputs(read, {"out": page})
    names, titles = _read_texts(known.names, "names"), _read_texts(known.titles, "titles")
    reading = reading.with_ids(chosen, needed=scoring.run or known.titles is not None)
    inputs = Inputs(data, reading, sources)
    made = make_report(
        inputs.data, _candidates(inputs, scoring, known), chosen, baseline=baseline,
        slices=inputs.slices(_in_list(shown.slices)), top=shown.top, why=_number_or_all(shown.why),
        forces=shown.forces, max_size=shown.max_size, seed=seed, n_jobs=reading.n_jobs,
        made={"command": _command(), "files": [_named(path) for path in read if path]},
        names=names, titles=titles,
    )  # fmt: skip
    if page is not None:
        made.save(page)
        say(f"wrote the report to {page}")
    if json:
        sys.stdout.write(made.to_json() + "\n")
    if open and page is not None:
        webbrowser.open(page.resolve().as_uri())


def _candidates(inputs: Inputs, scoring: ScoreFiles, known: Known) -> dict[str, Candidate]:
    """The candidates with their scores, and models with the data that they need."""
    from rankgrove.report.material import Candidate

    models = {name: source for name, source in inputs.sources.items() if source.is_model}
    parts = {"train": known.train, "valid": known.valid}
    if any(parts.values()) and not models:
        given = next(name for name, path in parts.items() if path)
        raise refusal(given, "be used with a model", got="none among the candidates")
    learned = {
        part: Inputs(path, inputs.reading, models).for_models if path else {}
        for part, path in parts.items()
    }
    found = {}
    for name, scores in inputs.scores(scoring).items():
        if name in models:
            others = {part: data.get(name) for part, data in learned.items()}
            found[name] = Candidate(
                scores, "model", inputs.models[name], inputs.for_models[name], **others
            )
        else:
            found[name] = Candidate(scores, _kind(inputs.sources[name]))
    return found


def _kind(source: Source) -> Any:
    return "column" if source.path is None else "scores"


def _number_or_all(text: str) -> int | str:
    if text != "all" and not text.isdecimal():
        raise refusal("why", "be a whole number, 0 or more, or 'all'", text)
    return text if text == "all" else int(text)


def _in_list(lists: Iterable[str] | None) -> list[str]:
    return [name for text in lists or [] for name in names_in(text) or [] if name]


def _read_texts(path: Path | None, name: str) -> dict[str, str] | None:
    """Texts by id: what stands before and after the first tab of each line."""
    from rankgrove.data.files import read_lines

    if path is None:
        return None
    texts: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        try:
            key, tab, text = line.decode().rstrip("\r\n").partition("\t")
        except UnicodeDecodeError as error:
            raise ParseError(f"must be UTF-8. Got {error.reason}.", str(path), number, 1) from None
        if not tab and key:
            problem = f"each line of {name} must be an id, a tab and a text. Got {key[:60]!r}."
            raise ParseError(problem, str(path), number, 1)
        if tab and texts.setdefault(key, text) != text:
            warn(f"{path}: line {number}: {key[:60]!r} has a text already, which is kept.")
    if not texts:
        raise DataError(f"{path}: must have an id, a tab and a text in each line. Got no line.")
    return texts


def _command() -> str | None:
    """The command as it was typed, where this process was started by it."""
    return shlex.join([PROGRAM, *sys.argv[1:]]) if sys.argv[1:2] == ["report"] else None


def _named(path: Path) -> dict[str, str]:
    """A file by name and checksum."""
    with path.open("rb") as file:
        return {"name": path.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
