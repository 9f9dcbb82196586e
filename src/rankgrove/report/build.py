"""A report: all that a page needs to show which queries changed and why, as plain values."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from rankgrove._version import __version__
from rankgrove.data.dataset import Dataset
from rankgrove.data.describe import describe
from rankgrove.data.streams import check_writable, open_for_writing
from rankgrove.errors import DataError, refusal, whole_number
from rankgrove.experiments.checks import check_dataset
from rankgrove.experiments.compare.compare import compare
from rankgrove.experiments.compare.slices import Slices
from rankgrove.metrics.base import Metric
from rankgrove.metrics.evaluate import DEFAULT_METRICS
from rankgrove.metrics.spec import parse_metrics
from rankgrove.report.material import Candidate, Material, as_candidates
from rankgrove.report.queries import make_queries
from rankgrove.report.texts import Texts, document_titles, query_texts
from rankgrove.report.tops import ideal_ranks, make_shares, make_tops, shown_rows
from rankgrove.report.verdicts import make_verdicts

FORMAT, VERSION = "rankgrove-report", 1

__all__ = ["Candidate", "Report", "make_report"]


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What `make_report` gives: the contents of a page, and the page itself.

    Shows itself in a notebook. The same data, candidates and parameters give the same contents, bit
    for bit.

    Attributes
    ----------
    contents
        Plain values for JSON, by section; docs/report.md says what each has.
    """

    contents: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The contents: plain values for JSON, not a copy."""
        return self.contents

    def to_json(self) -> str:
        """The contents as one JSON document, in ASCII."""
        return json.dumps(self.contents, allow_nan=False, separators=(",", ":"))

    def to_html(self) -> str:
        """The page: one HTML document, which loads nothing from elsewhere."""
        from rankgrove.report.page import make_page  # noqa: PLC0415 (`--json` needs no page)

        return make_page(self.contents)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file, which appears whole or not at all."""
        check_writable(path)
        page = self.to_html().encode()
        with open_for_writing(path) as stream:
            stream.write(page)

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html(), quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts" title="Rankgrove report" '
            f'style="width:100%;height:900px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        names = ", ".join(one["name"] for one in self.contents["candidates"])
        return f"<Report: {names} on {len(self.contents['queries']['id'])} queries>"


def make_report(
    data: Dataset,
    candidates: Mapping[str, Any],
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    baseline: str | None = None,
    slices: Slices | None = None,
    top: int = 10,
    names: Texts | None = None,
    titles: Texts | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
) -> Report:
    """Which queries changed from one candidate to the other, what moved in them, and why."""
    check_dataset("data", data)
    whole_number("top", top, 1)
    whole_number("seed", seed, 0, 2**64 - 1)
    chosen = tuple(parse_metrics(metrics))
    texts, document_texts = query_texts(data, names), document_titles(data, titles)
    found = as_candidates(data, candidates, None, None, n_jobs)
    comparison = compare(
        data, {name: one.scores for name, one in found.items()}, list(chosen), baseline=baseline,
        slices=slices, seed=seed, n_jobs=n_jobs,
    )  # fmt: skip
    material = Material(data, found, chosen, comparison, top, seed, n_jobs)
    ideal = ideal_ranks(material)
    rows = shown_rows(material, ideal)
    contents = {
        "format": FORMAT,
        "version": VERSION,
        "made": {"rankgrove": __version__, "command": None, "files": [], "seed": seed},
        "candidates": [_described(name, one) for name, one in found.items()],
        "baseline": None if baseline is None else material.names.index(baseline),
        "absent": {},
        "comparison": comparison.to_dict(pairs=True),
        "verdicts": make_verdicts(material),
        "queries": make_queries(material, texts),
        "tops": make_tops(material, rows, ideal, document_texts),
        "shares": make_shares(material, rows, np.arange(data.n_queries)),
        "data": describe(data, n_jobs).to_dict(),
        "left_out": [],
    }
    return Report(contents)


def _described(name: str, candidate: Candidate) -> dict[str, Any]:
    """A candidate for the head of the page."""
    model = candidate.model
    return {
        "name": name,
        "kind": candidate.kind,
        "model": None if model is None else model.noun,
        "trees": None if model is None else model.n_trees or None,
        "features": None if model is None else model.n_features,
        "objective": None if model is None else model.parameters.get("objective"),
    }
