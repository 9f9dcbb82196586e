"""A report: all that a page needs to show which queries changed and why, as plain values."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from rankgrove._version import __version__
from rankgrove.data.dataset import Dataset
from rankgrove.data.describe import describe
from rankgrove.data.streams import check_writable
from rankgrove.errors import RankgroveError, whole_number
from rankgrove.experiments.checks import check_dataset
from rankgrove.experiments.compare.compare import compare
from rankgrove.experiments.compare.slices import Slices
from rankgrove.metrics.base import Metric
from rankgrove.metrics.evaluate import DEFAULT_METRICS
from rankgrove.metrics.spec import parse_metrics
from rankgrove.model.base import ScoringModel
from rankgrove.model.forces import training_objective
from rankgrove.model.model import Model
from rankgrove.report.absent import absent_sections
from rankgrove.report.features import make_features
from rankgrove.report.forces import make_forces
from rankgrove.report.groups import make_slices
from rankgrove.report.limits import choose_queries, fit, note, parse_size
from rankgrove.report.looks import make_looks
from rankgrove.report.material import Candidate, Material, as_candidates
from rankgrove.report.page import make_page, write_page
from rankgrove.report.queries import make_queries
from rankgrove.report.ranks import make_by_rank, make_labels
from rankgrove.report.reasons import MOST_BY_NETWORK, explained, make_reasons
from rankgrove.report.texts import Texts, document_titles, query_texts
from rankgrove.report.tops import MOST_SCORES, ideal_ranks, make_shares, make_tops, shown_rows
from rankgrove.report.training import make_training
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
        return make_page(self.contents)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file, which appears whole or not at all."""
        check_writable(path)
        write_page(self.contents, path)

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
    why: int | str = 1000,
    forces: int = 5,
    train: Dataset | None = None,
    valid: Dataset | None = None,
    names: Texts | None = None,
    titles: Texts | None = None,
    max_size: int | str = "20MB",
    seed: int = 0,
    n_jobs: int | None = None,
    made: Mapping[str, Any] | None = None,
) -> Report:
    """Which queries changed from one candidate to another, what moved in them, and why.

    Parameters
    ----------
    data
        Judged documents.
    candidates
        By name: a model of any kind or the path of its file, a fitted `Ranker`, scores, one per
        document, anything with `predict`, a function from features to scores, or a `Candidate`. One
        alone is enough; of several, any two are compared.
    metrics, baseline, slices
        As for `compare`. The first metric decides which queries changed most.
    top
        How many ranks are shown.
    why
        Of how many queries reasons are given, document by document; "all" for every one.
    forces
        Of how many queries forces are shown through training.
    train, valid
        What the models were trained on and validated by: adds learning curves, and the forces are
        then those of training.
    names
        The text of each query: by query id, or one per query.
    titles
        The title of each document: by document id, or one per document.
    max_size
        How large the page may be: bytes, or a text as "20MB". What does not fit is left out in a
        fixed order, and the page says so.
    seed
        Of the shuffles that show what a feature is worth.
    n_jobs
        Threads; the report has the same bits for any number.
    made
        What the page says of its making: "command", and "files", each with name and checksum.

    Examples
    --------
    >>> from rankgrove import Ranker, make_report, make_web_search
    >>> train, test = make_web_search(60, 16, mean_documents=8).split(0.5, 0.5)
    >>> rankers = {f"{n} trees": Ranker(n_estimators=n).fit(train) for n in (2, 6)}
    >>> report = make_report(test, rankers, "ndcg@10", baseline="2 trees", train=train)
    >>> report
    <Report: 2 trees, 6 trees on 30 queries>
    >>> [pair["a"] for pair in report.to_dict()["verdicts"]["ndcg@10"]]
    ['2 trees', '6 trees']
    """
    for part, given in {"data": data, "train": train, "valid": valid}.items():
        if part == "data" or given is not None:
            check_dataset(part, given)
    whole_number("top", top, 1)
    if why != "all":
        whole_number("why", why, 0, also="'all'")
    whole_number("forces", forces, 0)
    whole_number("seed", seed, 0, 2**64 - 1)
    most_bytes = parse_size(max_size)
    chosen = tuple(parse_metrics(metrics))
    texts, document_texts = query_texts(data, names), document_titles(data, titles)
    found = as_candidates(data, candidates, train, valid, n_jobs)
    comparison = compare(
        data, {name: one.scores for name, one in found.items()}, list(chosen), baseline=baseline,
        slices=slices, seed=seed, n_jobs=n_jobs,
    )  # fmt: skip
    material = Material(data, found, chosen, comparison, top, seed, n_jobs)
    contents = {
        "format": FORMAT,
        "version": VERSION,
        "made": {"rankgrove": __version__, "command": None, "files": [], "seed": seed}
        | dict(made or {}),
        "candidates": [_described(name, one) for name, one in found.items()],
        "baseline": None if baseline is None else material.names.index(baseline),
        "absent": {},
        "left_out": [],
        **_comparing_sections(material, texts),
    }
    _add_documents(contents, material, document_texts, None if why == "all" else int(why))
    _add_models(contents, material, forces)
    fit(contents, material.change, most_bytes)
    return Report(contents)


def _comparing_sections(material: Material, texts: list[str] | None) -> dict[str, Any]:
    """What the values of queries and the data themselves say."""
    description = describe(material.data, material.n_jobs)
    return {
        "comparison": material.comparison.to_dict(pairs=True),
        "verdicts": make_verdicts(material),
        "slices": make_slices(material),
        "queries": make_queries(material, texts),
        "by_rank": make_by_rank(material),
        "labels": make_labels(material),
        "data": description.to_dict(),
        "looks": make_looks(material, description),
    }


def _add_documents(
    contents: dict[str, Any], material: Material, titles: list[str] | None, why: int | None
) -> None:
    """Add the shown documents, and what they are worth and why they stand where they do."""
    ideal = ideal_ranks(material)
    rows = shown_rows(material, ideal)
    contents["tops"] = make_tops(material, rows, ideal, titles)
    if contents["tops"]["score"] is None:
        rule = f"scores only where at most {MOST_SCORES:,} documents are shown"
        note(contents, "scores", 0, len(rows), rule)
    chosen, rule = choose_queries(material.change, why)
    contents["shares"] = make_shares(material, rows, chosen)
    candidates = explained(material)
    if len(candidates) and not all(isinstance(one.model, Model) for one in candidates.values()):
        most = max(1, MOST_BY_NETWORK * material.n_queries // len(rows))
        if len(chosen) > most:
            chosen, rule = choose_queries(material.change, most)
            rule += ", as networks are slow to explain"
    can_explain = bool(candidates) and len(chosen) > 0
    contents["why"] = make_reasons(material, rows, chosen) if can_explain else None
    for name in ("shares", "why"):
        section = contents[name]
        if section is not None and len(section["queries"]) < material.n_queries:
            said = rule if name == "why" else choose_queries(material.change, why)[1]
            note(contents, name, len(section["queries"]), material.n_queries, said)


def _add_models(contents: dict[str, Any], material: Material, n_forces: int) -> None:
    """Add what models rest on and how they were trained, and say what is absent and why."""
    contents["features"] = make_features(material) if material.models else None
    contents["training"] = make_training(material) if material.models else None
    contents["forces"] = make_forces(material, n_forces) or None if n_forces else None
    contents["absent"] = absent_sections(contents, material)


def _described(name: str, candidate: Candidate) -> dict[str, Any]:
    """A candidate for the head of the page."""
    model = candidate.model
    return {
        "name": name,
        "kind": candidate.kind,
        "model": None if model is None else model.noun,
        "trees": None if model is None else model.n_trees or None,
        "features": None if model is None else model.n_features,
        "objective": None if model is None else _objective(model),
    }


def _objective(model: ScoringModel) -> str | None:
    """What a model was trained by, where it says so."""
    try:
        return training_objective(model).name
    except RankgroveError:
        return None
