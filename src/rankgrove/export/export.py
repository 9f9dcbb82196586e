"""Export: a model as a file for another program, which is written once it has been checked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankgrove.data.dataset import Dataset
from rankgrove.data.matrix import base_of, features_of
from rankgrove.data.streams import check_writable, format_and_compression, open_for_writing
from rankgrove.errors import ParameterError, refusal
from rankgrove.export.check import Check, check_content, check_table
from rankgrove.export.format import Exportable, ExportError, Format, Rows
from rankgrove.export.formats import find_format
from rankgrove.export.made_documents import make_documents
from rankgrove.model.base import ScoringModel


@dataclass(frozen=True)
class Export:
    """What was written, and how it was checked. Print it to see both.

    Attributes
    ----------
    path
        The file.
    format
        Its format.
    options
        Those of the format, all of them.
    n_trees, n_leaves, n_bytes
        How much was written.
    checksum
        Of the model that it was made of.
    checks
        One per consumer that scored with the file; none if it was not checked.
    notes
        What else there is to know about this model in this format.
    """

    path: str
    format: Format
    options: dict[str, Any]
    n_trees: int
    n_leaves: int
    n_bytes: int
    checksum: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...]

    @property
    def summary(self) -> str:
        """What was written, in a line."""
        return (
            f"Wrote {self.path}: {_count(self.n_trees, 'tree')}, {_count(self.n_leaves, 'leaf')}, "
            f"{_count(self.n_bytes, 'byte')}. {self.format.headline(self.options)}."
        )

    @property
    def remarks(self) -> list[str]:
        """What is exact, what is rounded, what was left out of the check, and the notes."""
        left_out = {
            f"{_count(number, 'document')} not compared: {reason}."
            for check in self.checks
            for reason, number in check.left_out.items()
        }
        agreement = self.format.agreement(self.options)
        unchecked = "other versions" if self.checks else "anything"
        return [
            f"Exact: {agreement.exact}. Rounded: {agreement.rounds}. Not checked: {unchecked}.",
            *sorted(left_out),
            *self.notes,
        ]

    def describe(self) -> dict[str, Any]:
        """Its fields as plain values."""
        return {
            "path": self.path,
            "format": self.format.name,
            "options": self.options,
            "trees": self.n_trees,
            "leaves": self.n_leaves,
            "bytes": self.n_bytes,
            "checksum": self.checksum,
            "checks": [check.describe() for check in self.checks],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [self.summary]
        if self.checks:
            header, rows = check_table(self.checks)
            cells = [header, *rows]
            widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
            lines += [
                "  ".join(
                    cell.rjust(width) if column else cell.ljust(width)
                    for column, (cell, width) in enumerate(zip(row, widths, strict=True))
                )
                for row in cells
            ]
        return "\n".join([*lines, *self.remarks])


def export_model(
    model: Any,
    path: str | os.PathLike[str],
    to: str | None = None,
    check: Any = None,
    n_trees: int | None = None,
    **options: Any,
) -> Export:
    """Write a model as a file that another program scores with, and check that it does.

    The file is scored with before it is written: by the program that it is for, where that can be
    imported, and by the written rules of that program otherwise; the answer says which. If scores
    differ by more than the format states, that is an `ExportError`, and nothing is written. So is a
    model that the format cannot hold. The same model gives the same bytes.

    Parameters
    ----------
    model
        A model of trees, or several combined into one; or an estimator that was fitted.
    path
        The file to write.
    to
        The format, one of `EXPORT_FORMATS`; by default the one that the name of the file means.
    check
        Data to check with: a Dataset, or anything that `predict` takes. By default documents made
        of the model's own thresholds and categories; False for no check.
    n_trees
        Export the first trees only; of trees on the scores of models, the first of these.
    options
        Those of the format, as `EXPORT_FORMATS[to].options` has them.

    Examples
    --------
    >>> import tempfile
    >>> from rankgrove import Ranker, export_model, make_web_search
    >>> model = Ranker(n_estimators=5).fit(make_web_search(20, 16, mean_documents=8)).model_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export = export_model(model, f"{folder}/model.sql")
    >>> export.format.name, export.checks[0].n_same == export.checks[0].n_documents
    ('sql', True)
    """
    if not isinstance(model, ScoringModel):
        trained = getattr(model, "model_", None)
        if not isinstance(trained, ScoringModel):
            raise ParameterError(f"model must be a model. Got {type(model).__name__}.")
        model = trained
    chosen = find_format(to, path)
    chosen_options = chosen.checked_options(options)
    if format_and_compression(path)[1] is not None:
        raise refusal("path", "not end in .gz or .zst, as nothing is compressed", os.fspath(path))
    check_writable(path)
    source = Exportable.of(model, n_trees)
    if not source.n_trees:
        raise ExportError("a model must have trees to be exported. Got none.")
    if not chosen.takes_base_scores:
        source.refuse_base_scores(chosen.name)
    rows, data = _rows_to_check(source, check)
    content = chosen.write(source, chosen_options)
    checks: list[Check] = []
    if rows is not None:
        checks = check_content(chosen, source, content, chosen_options, rows, data)
    with open_for_writing(path) as stream:
        stream.write(content)
    return Export(
        path=os.fspath(path),
        format=chosen,
        options=chosen_options,
        n_trees=source.n_trees,
        n_leaves=source.n_leaves,
        n_bytes=len(content),
        checksum=source.checksum,
        checks=tuple(checks),
        notes=(*_notes_on_levels(source), *chosen.notes(source, chosen_options)),
    )


def _rows_to_check(source: Exportable, check: Any) -> tuple[Rows | None, Dataset | None]:
    """The documents to check with, and the data that they are of, if any."""
    if check is False:
        return None, None
    if check is None:
        return make_documents(source), None
    schema = source.as_model().schema
    features = features_of(check, schema.feature_names, schema.levels)
    base = base_of(check, None, len(features), needed=schema.needs_base_scores)
    dense = np.ascontiguousarray(np.asarray(features), dtype=np.float32)
    return Rows(dense, base, schema.feature_names), check if isinstance(check, Dataset) else None


def _notes_on_levels(source: Exportable) -> list[str]:
    """How features of categories that are no numbers are to be given."""
    schema = source.as_model().schema
    return [
        f"Feature {name!r} is given as the number of its category: "
        + ", ".join(f"{number} is {level!r}" for number, level in enumerate(levels[:3]))
        + (f", … up to {len(levels) - 1}." if len(levels) > 3 else ".")
        for name, levels in schema.levels_by_name.items()
    ]


def _count(number: int, noun: str) -> str:
    plural = {"leaf": "leaves"}.get(noun, f"{noun}s")
    return f"{number:,} {noun if number == 1 else plural}"
