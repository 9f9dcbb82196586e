# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""Candidates of a comparison as the command line has them, and the data as they need it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from rankgrove.cli.console import warn
from rankgrove.cli.files import COLUMN, read_labels
from rankgrove.cli.models import load_model, read_for_model, table_columns
from rankgrove.cli.options import Reading, is_model_file, option
from rankgrove.errors import DataError, ParameterError, parameter, refusal, unknown_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rankgrove.data.dataset import Dataset

    Scores = NDArray[np.float64]


class Source(NamedTuple):
    """Where a candidate comes from: a file, or a feature."""

    path: Path | None
    column: str | None = None

    @property
    def is_model(self) -> bool:
        return self.path is not None and is_model_file(self.path)

    @property
    def can_score(self) -> bool:
        """Whether it has scores for any data; a file of scores has not."""
        return self.path is None or self.is_model


def name_sources(candidates: Sequence[str]) -> dict[str, Source]:
    """The candidates by name: NAME= where it is given, else the file's name or the column's."""
    found: dict[str, Source] = {}
    files = [Path(text).name for text in candidates]
    for text in candidates:
        name, sign, rest = text.partition("=")
        # A file may have the sign in its name, and a column too.
        named = sign and name and not Path(text).exists() and not text.startswith(COLUMN)
        place = rest if named else text
        if place.startswith(COLUMN):
            source = Source(None, place.removeprefix(COLUMN))
            default = source.column or ""
        else:
            source = Source(Path(place))
            # Of files with the same name in several directories, the path tells them apart.
            default = Path(place).name if files.count(Path(place).name) == 1 else place
            if not Path(place).exists():
                raise DataError(f"{place}: there is no such file. Check the path.")
        key = name if named else default
        if key in found:
            raise ParameterError(
                f"candidates must have different names. Got {key!r} twice: give NAME=FILE."
            )
        found[key] = source
    return found


def able_to_score(sources: dict[str, Source]) -> dict[str, Source]:
    """The candidates that can score other data; a file of scores cannot."""
    able = {name: source for name, source in sources.items() if source.can_score}
    if not able:
        rule = "be used with a model or a column, which can score it"
        raise refusal("train", rule, got="files of scores only")
    for name in sources.keys() - able.keys():
        warn(f"{name} is a file of scores, so it has no generalisation gap.")
    return able


_scores_option = partial(option, panel="How files of scores are read")


@dataclass(frozen=True)
class ScoreFiles:
    """How files of scores are to be read: one per line, unless told."""

    score_column: Annotated[
        str | None, _scores_option("NAME", "They are CSV or TSV files: take this column.")
    ] = None
    run: Annotated[
        bool, _scores_option(None, "They are TREC runs, matched by document ids.", "--run")
    ] = False

    def check(self) -> None:
        if self.score_column is not None and self.run:
            raise ParameterError(
                f"only one of {parameter('score_column')} and {parameter('run')} must be given. "
                f"Got both."
            )

    @property
    def is_asked_for(self) -> bool:
        return self.run or self.score_column is not None

    def read(self, path: Path, data: Dataset) -> Scores:
        from rankgrove.cli import scores

        if self.run:
            return scores.scores_from_run(path, data)
        if self.score_column is not None:
            return scores.scores_from_table(path, self.score_column, data.n_documents)
        return scores.scores_from_lines(path, data.n_documents)


@dataclass(frozen=True)
class Inputs:
    """A data file as the candidates need it: read once for all that need the same of it."""

    path: Path
    reading: Reading
    sources: dict[str, Source]

    @cached_property
    def models(self) -> dict[str, Any]:
        return {
            name: load_model(source.path)
            for name, source in self.sources.items()
            if source.path is not None and source.is_model
        }

    @cached_property
    def for_models(self) -> dict[str, Dataset]:
        """The data with the features of each model."""
        read: dict[Any, Dataset] = {}
        found = {}
        for name, model in self.models.items():
            # A table goes by the names of features, LETOR text by their number.
            features = model.feature_names if table_columns(self.path) else model.n_features
            levels = tuple(model.schema.levels_by_name.items())
            key = features, model.schema.needs_base_scores, levels
            if key not in read:
                read[key] = read_for_model(model, self.path, self.reading, with_labels=True)
            found[name] = read[key]
        return found

    @cached_property
    def for_columns(self) -> Dataset:
        """The data with all columns that are candidates."""
        columns = [s.column for s in self.sources.values() if s.column is not None]
        known = table_columns(self.path)
        if known and set(columns) <= set(known):
            return self.reading.read(self.path, features=list(dict.fromkeys(columns)))
        if not known and self.for_models:
            return next(iter(self.for_models.values()))
        return self.reading.read(self.path)

    @cached_property
    def data(self) -> Dataset:
        """Labels and queries, with whatever features."""
        if self.for_models:
            return next(iter(self.for_models.values()))
        if any(source.path is None for source in self.sources.values()):
            return self.for_columns
        return read_labels(self.path, self.reading)

    def scores(self, scoring: ScoreFiles) -> dict[str, Scores]:
        """The scores of each candidate; files are read and checked before models score."""
        from rankgrove.cli.scores import scores_from_feature

        found: dict[str, Scores] = {}
        for name, source in self.sources.items():
            if source.path is not None and not source.is_model:
                found[name] = scoring.read(source.path, self.data)
        for name, source in self.sources.items():
            if source.column is not None:
                found[name] = scores_from_feature(self.for_columns, source.column)
        for name, model in self.models.items():
            found[name] = model.predict(self.for_models[name], n_jobs=self.reading.n_jobs)
        return {name: found[name] for name in self.sources}

    def slices(self, specs: Iterable[str]) -> dict[str, Any] | None:
        """What to slice by; a table's columns are read for it, text or numbers."""
        found: dict[str, Any] = {}
        for spec in specs:
            column = spec.removeprefix(COLUMN)
            if column == spec:
                found[spec] = spec
            elif column in (known := table_columns(self.path)):
                # Read as document ids: any text, and in the order of the documents.
                part = self.reading.read(self.path, features=[], document_id=column)
                found[column] = part.document_ids
            elif known:
                raise unknown_name(f"the column of {parameter('slices')}", column, known)
            else:
                names = self.data.feature_names
                numbered = column not in names and column.isdecimal() and column != "0"
                if numbered and int(column) <= len(names):
                    found[column] = COLUMN + names[int(column) - 1]
                else:
                    found[column] = spec
        return found or None
