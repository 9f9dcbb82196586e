# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove explain`: what a model rests on, and why documents stand where they do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankgrove.cli.console import count, heading, make_table, percent, show, show_json
from rankgrove.cli.files import model_and_data
from rankgrove.cli.models import ModelPath, lacks_labels, load_model, read_for_model
from rankgrove.cli.options import Json, Reading, argument, option, takes_reading
from rankgrove.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.table import Table

    from rankgrove.data.dataset import Dataset
    from rankgrove.model.base import ScoringModel
    from rankgrove.model.model import Model

# The contributions of a network take some milliseconds per document: so many tell their mean.
_MOST_EXPLAINED = 2000


@takes_reading
def explain(
    model: ModelPath,
    data: Annotated[Path | None, argument("[DATA]", "Judged documents.")] = None,
    query: Annotated[str | None, option("QID", "Rank the documents of this query of DATA.")] = None,
    document: Annotated[
        int | None, option("RANK", "What adds up to the score of the document there.")
    ] = None,
    why: Annotated[
        tuple[int, int] | None, option("RANK RANK", "Why the first stands above the second.")
    ] = None,
    tree: Annotated[int | None, option("N", "Show this tree, from 0.")] = None,
    metric: Annotated[
        str | None, option("METRIC", "What features are worth to this; ndcg@10 by default.")
    ] = None,
    top: Annotated[int, option("K", "How many documents or features to show.", min=1)] = 20,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Show what a model rests on, or why documents stand where they do.

    rankgrove explain model.safetensors (the features that the trees use)

    rankgrove explain model.safetensors --tree 0

    rankgrove explain model.safetensors test.txt (what each feature is worth on this data)

    rankgrove explain model.safetensors test.txt --query 7 --why 1 2
    """
    _check_call(data, query, {"--document": document, "--why": why}, tree, metric)
    if data is not None:
        model, data = model_and_data(model, data)
    trained = load_model(model)
    if data is None:
        of_trees = _as_trees(trained, "--tree" if tree is not None else None)
        if tree is not None:
            _explain_tree(of_trees, tree, json)
        else:
            _explain_use(of_trees, top, json)
        return
    if query is None:
        documents = read_for_model(trained, data, reading, with_labels=True)
        _explain_worth(trained, documents, metric or "ndcg@10", top, json, reading)
        return
    ranked = rank_query(trained, data, query, reading)
    if why is not None:
        _explain_pair(trained, ranked, why, top, json)
    elif document is not None:
        _explain_document(trained, ranked, document, top, json)
    else:
        _explain_query(ranked, top, json)


def _check_call(
    data: Path | None,
    query: str | None,
    of_query: dict[str, Any],
    tree: int | None,
    metric: str | None,
) -> None:
    asked = [name for name, value in of_query.items() if value is not None]
    if asked and query is None:
        rule = "must be used with DATA and --query, whose ranking it is about"
        raise ParameterError(f"{asked[0]} {rule}. Got no --query.")
    if query is not None and data is None:
        raise ParameterError("--query must be used with DATA, to which it belongs. Got no DATA.")
    if len(asked) > 1:
        raise ParameterError(f"only one of {' and '.join(asked)} must be given. Got both.")
    if tree is not None and data is not None:
        raise ParameterError("--tree must be used without DATA. Got both.")
    if metric is not None and (data is None or query is not None):
        raise ParameterError("--metric must be used with DATA and without --query.")


def _as_trees(model: ScoringModel, asked: str | None) -> Model:
    """The model, if it is one of trees; any other is explained on data only."""
    from rankgrove.model.model import Model

    if isinstance(model, Model):
        return model
    if asked is not None:
        raise ParameterError(f"{asked} must be used with a model of trees. Got {model.noun}.")
    raise ParameterError(
        f"DATA must be given for {model.noun}, whose features are worth what they do to documents. "
        f"Got no DATA: name judged documents after the model."
    )


@dataclass(frozen=True)
class RankedQuery:
    """The documents of one query; rank r of them is row `order[r - 1]` of its own rows.

    `first` is the row at which the query starts in its file.
    """

    qid: str
    first: int
    data: Dataset
    scores: NDArray[np.float64]
    order: list[int]
    has_labels: bool

    def row(self, asked: str, rank: int) -> int:
        """The row of a rank, from 1."""
        if not 1 <= rank <= len(self.order):
            raise ParameterError(
                f"{asked} must be a rank of query {self.qid}, 1 to {len(self.order)}. Got {rank}."
            )
        return self.order[rank - 1]

    def described(self, rank: int) -> dict[str, Any]:
        """A document, for JSON."""
        row = self.order[rank - 1]
        found: dict[str, Any] = {"rank": rank, "row": self.first + row}
        if self.data.document_ids is not None:
            found["document_id"] = str(self.data.document_ids[row])
        if self.has_labels:
            found["label"] = float(self.data.labels[row])
        return found | {"score": float(self.scores[row])}


def rank_query(model: ScoringModel, path: Path, query: str, reading: Reading) -> RankedQuery:
    """One query of a file as the model ranks it; of equal scores, the earlier row first."""
    import numpy as np

    from rankgrove.data.queries import unknown_query

    data = read_for_model(model, path, reading)
    names = [str(name) for name in data.query_ids.tolist()]
    if query not in names:
        raise unknown_query(f"{path}: --query", query, names)
    at = names.index(query)
    part = data.take_queries([at])
    scores = model.predict(part, n_jobs=reading.n_jobs)
    order = np.argsort(-scores, kind="stable").tolist()
    has_labels = not lacks_labels(path, reading)
    return RankedQuery(query, int(data.offsets[at]), part, scores, order, has_labels)


def _explain_tree(model: Model, number: int, json: bool) -> None:
    if not 0 <= number < model.n_trees:
        have = f"from 0 to {model.n_trees - 1}" if model.n_trees else "of a model that has trees"
        raise ParameterError(f"--tree must be {have}. Got {number}.")
    if json:
        show_json({"tree": number, "root": model.tree_as_dict(number)})
    else:
        show(model.describe_tree(number))


def feature_use(model: Model) -> list[dict[str, Any]]:
    """The features that the trees split by, the largest sum of gains first."""
    gains, splits = model.importance("gain"), model.importance("split").astype(int).tolist()
    total = float(gains.sum())
    used = [
        {"feature": name, "gain": gain, "share": gain / total if total else 0.0, "splits": number}
        for name, gain, number in zip(model.feature_names, gains.tolist(), splits, strict=True)
        if number
    ]
    return sorted(used, key=lambda entry: -entry["gain"])


def use_table(used: list[dict[str, Any]], top: int) -> Table:
    rows = (
        [use["feature"], f"{use['gain']:,.1f}", percent(use["share"], 1), f"{use['splits']:,}"]
        for use in used[:top]
    )
    return make_table("feature", "gain", "share", "splits", rows=rows, numeric=1)


def _explain_use(model: Model, top: int, json: bool) -> None:
    used = feature_use(model)
    if json:
        show_json({"trees": model.n_trees, "features": model.n_features, "used": used[:top]})
        return
    trees, features = count(model.n_trees, "tree"), count(model.n_features, "feature")
    show(f"{trees} use {len(used):,} of {features}.")
    if used:
        show("", use_table(used, top))
        _show_rest(len(used), top)


def _explain_worth(
    model: ScoringModel, data: Dataset, metric: str, top: int, json: bool, reading: Reading
) -> None:
    from rankgrove.model.model import Model

    found = model.permutation_importance(data, metric, n_jobs=reading.n_jobs)
    figures = {"drop": found.mean, "std": found.std}
    used = model.used_features().tolist()
    if isinstance(model, Model):
        names = [entry["feature"] for entry in feature_use(model)]
        used = [model.feature_names.index(name) for name in names]
    elif model.adds_up:
        some = data.features[:: -(-data.n_documents // _MOST_EXPLAINED)]
        # What a feature adds does not depend on where a score starts.
        figures["adds"] = model.importance(data=some, base_scores=0.0, n_jobs=reading.n_jobs)
    order = sorted(used, key=lambda feature: -found.mean[feature])
    entries = [
        {"feature": model.feature_names[feature]}
        | {name: float(values[feature]) for name, values in figures.items()}
        for feature in order[:top]
    ]
    if json:
        show_json({"metric": str(found.metric), "value": found.baseline, "drops": entries})
        return
    more = "; and what it adds to scores, or takes, on average" if "adds" in figures else ""
    drop = "Its drop when a feature is shuffled"
    show(f"{found.metric} is {found.baseline:.4f}. {drop}{more}:", "")
    rows = ([e["feature"], *(f"{e[name]:.4f}" for name in figures)] for e in entries)
    show(make_table("feature", *figures, rows=rows, numeric=1))
    _show_rest(len(order), top)


def _explain_query(ranked: RankedQuery, top: int, json: bool) -> None:
    shown = [ranked.described(rank) for rank in range(1, len(ranked.order) + 1)][:top]
    if json:
        show_json({"query": ranked.qid, "documents": len(ranked.order), "ranking": shown})
        return
    rows = ([_cell(name, value) for name, value in entry.items()] for entry in shown)
    table = make_table(*shown[0], rows=rows, numeric=shown[0].keys() - {"document_id"})
    show(heading(f"query {ranked.qid}, {count(len(ranked.order), 'document')}"), "", table)
    _show_rest(len(ranked.order), top, "document")


def _explain_document(
    model: ScoringModel, ranked: RankedQuery, rank: int, top: int, json: bool
) -> None:
    from rankgrove.data.levels import value_of
    from rankgrove.model.explain import value_text

    row = ranked.row("--document", rank)
    parts = model.contributions(ranked.data, n_jobs=1)[row].tolist()
    data = ranked.data
    values = [value_of(data.levels, f, v) for f, v in enumerate(data.features[row].tolist())]
    entries = [
        {"feature": name, "value": value, "contribution": part}
        for name, value, part in zip(model.feature_names, values, parts[:-1], strict=True)
        if part
    ]
    entries.sort(key=lambda entry: -abs(entry["contribution"]))
    document = ranked.described(rank)
    if json:
        found = {"query": ranked.qid, "document": document, "expected": parts[-1]}
        show_json(found | {"contributions": entries[:top]})
        return
    table = make_table("feature", "value", "adds", "total", numeric=1)
    total = parts[-1]
    start = "expected" if model.describe()["kind"] == "model" else "of a median document"
    start = f"base score and {start}" if model.schema.needs_base_scores else start
    table.add_row(f"({start})", "", "", f"{total:+.4f}")
    for entry in entries[:top]:
        total += entry["contribution"]
        adds = f"{entry['contribution']:+.4f}"
        table.add_row(entry["feature"], value_text(entry["value"]), adds, f"{total:+.4f}")
    if rest := entries[top:]:
        adds = sum(entry["contribution"] for entry in rest)
        table.add_row(f"({len(rest)} more)", "", f"{adds:+.4f}", f"{total + adds:+.4f}")
    show(heading(f"query {ranked.qid}, {_named(document)}"), "", table)


def _explain_pair(
    model: ScoringModel, ranked: RankedQuery, ranks: tuple[int, int], top: int, json: bool
) -> None:
    from rankgrove.model.explain import value_text

    rows = [ranked.row("--why", rank) for rank in ranks]
    found = model.why(ranked.data, *rows)
    documents = [ranked.described(rank) for rank in ranks]
    if json:
        differences = [difference._asdict() for difference in found.differences[:top]]
        pair = {"query": ranked.qid, "a": documents[0], "b": documents[1]}
        gap = found.score_a - found.score_b
        show_json({**pair, "difference": gap, "differences": differences})
        return
    how = "stands above" if found.score_a > found.score_b else "does not stand above"
    how = "is tied with" if found.score_a == found.score_b else how
    show(f"In query {ranked.qid}, a, {_named(documents[0])},", f"{how} b, {_named(documents[1])}.")
    if not found.differences:
        show("", "No feature tells them apart.")
        return
    table = make_table("feature", "in a", "in b", "a - b", "total", numeric=1)
    for row in found.differences[:top]:
        values = (value_text(row.value_a), value_text(row.value_b))
        table.add_row(row.feature, *values, f"{row.difference:+.4f}", f"{row.total:+.4f}")
    if rest := found.differences[top:]:
        left = sum(row.difference for row in rest)
        table.add_row(f"({len(rest)} more)", "", "", f"{left:+.4f}", f"{rest[-1].total:+.4f}")
    show("", table)


def _named(document: dict[str, Any]) -> str:
    name = f" ({document['document_id']})" if document.get("document_id") else ""
    label = f" and label {document['label']:g}" if "label" in document else ""
    return f"rank {document['rank']}{name} with score {document['score']:.4f}{label}"


def _cell(name: str, value: Any) -> str:
    if name == "score":
        return f"{value:.4f}"
    return f"{value:g}" if name == "label" else str(value)


def _show_rest(number: int, top: int, what: str = "feature") -> None:
    if number > top:
        show("", f"{number - top:,} more {what}s: see them with --top {number}.")
