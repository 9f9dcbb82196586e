# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove forces`: what an objective pushes documents by, at the scores of a model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankgrove.cli.console import count, heading, make_table, show, show_json
from rankgrove.cli.files import check_outputs, model_and_data, write_text
from rankgrove.cli.models import load_model, read_for_model
from rankgrove.cli.options import Json, Reading, argument, names_in, option, takes_reading
from rankgrove.errors import ParameterError, parameter, refusal, unknown_name

if TYPE_CHECKING:
    from rankgrove.data.dataset import Dataset
    from rankgrove.model.base import ScoringModel
    from rankgrove.model.forces import ForceField
    from rankgrove.pictures.display import Display

_EXAMPLES = ("burges",)


@takes_reading
def forces(
    model: Annotated[Path | None, argument("[MODEL]", "A model file, from 'train'.")] = None,
    data: Annotated[Path | None, argument("[DATA]", "Judged documents.")] = None,
    query: Annotated[str | None, option("QID", "Show the ranked list of this query.")] = None,
    tree: Annotated[
        int | None,
        option("N", "The forces that this tree was fitted to, from 0; by default after the last."),
    ] = None,
    objective: Annotated[
        str | None,
        option(
            "NAME,...", "Of these objectives in place of the one that the model was trained by."
        ),
    ] = None,
    top: Annotated[int, option("K", "How many documents or queries to show.", min=1)] = 20,
    example: Annotated[
        str | None, option("burges", "Show figure 1 of Burges (2010), without a model or data.")
    ] = None,
    out: Annotated[Path | None, option("FILE", "Also draw it, as .svg.", "--out", "-o")] = None,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Show what an objective pushes documents by: up or down, and how hard.

    rankgrove forces model.safetensors train.txt (sums by label, and the queries pushed hardest)

    rankgrove forces model.safetensors train.txt --query 7 --tree 0 -o forces.svg

    rankgrove forces model.safetensors train.txt --query 7 --objective rankmart,lambdamart

    rankgrove forces --example burges
    """
    _check_call(model, data, example, {"query": query, "tree": tree})
    if out is not None and out.suffix.lower() != ".svg":
        raise refusal("out", "be a file .svg", str(out))
    if model is None or data is None:
        check_outputs([], {"out": out})
        _show_example(names_in(objective), out, json)
        return
    model, data = model_and_data(model, data)
    check_outputs([model, data], {"out": out})
    trained = load_model(model)
    documents = read_for_model(trained, data, reading, with_labels=True)
    rows = None if query is None else _rows_of(data, documents, query)
    names: Sequence[str | None] = names_in(objective) or [None]
    fields = [trained.forces(documents, tree, name, n_jobs=reading.n_jobs) for name in names]
    files = {"model": model, "data": data, "tree": fields[0].tree, "picture": out}
    if rows is None:
        picture = None if out is None else _totals_picture(trained, documents, names, reading)
        _show_all(fields, top, files, json)
    else:
        fields = [field.of_query(query) for field in fields]
        picture = None if out is None else _picture(fields, documents, top)
        _show_query(fields, rows, top, files, json)
    _write(out, picture, json)


def _check_call(
    model: Path | None, data: Path | None, example: str | None, of_data: dict[str, Any]
) -> None:
    if example is None:
        if model is None or data is None:
            raise ParameterError(
                "MODEL and DATA must be given. Got no "
                f"{'MODEL' if model is None else 'DATA'}: name both, or try --example burges."
            )
        return
    if example not in _EXAMPLES:
        raise unknown_name("--example", example, _EXAMPLES)
    given = ["MODEL"] if model is not None else []
    given += [f"--{name}" for name, value in of_data.items() if value is not None]
    if given:
        raise ParameterError(f"--example must be used without {given[0]}. Got both.")


def _rows_of(path: Path, data: Dataset, query: str) -> range:
    """The rows of a query in its file."""
    from rankgrove.data.queries import unknown_query

    names = [str(name) for name in data.query_ids.tolist()]
    if query not in names:
        raise unknown_query(f"{path}: --query", query, names)
    at = names.index(query)
    return range(int(data.offsets[at]), int(data.offsets[at + 1]))


def _ranking(
    fields: Sequence[ForceField], rows: Sequence[int] | None, top: int
) -> list[dict[str, Any]]:
    """The first documents of one query, for JSON; all fields are of it."""
    first = fields[0]
    shown = []
    for at in first.rows_by_rank()[:top].tolist():
        entry: dict[str, Any] = {"rank": int(first.ranks[at])}
        if rows is not None:
            entry["row"] = rows[at]
        if first.document_ids is not None:
            entry["document_id"] = str(first.document_ids[at])
        entry |= {"label": float(first.labels[at]), "score": float(first.scores[at])}
        for name in ("forces", "curvatures"):
            entry[name] = {f.objective.name: float(getattr(f, name)[at]) for f in fields}
        shown.append(entry)
    return shown


def _table(ranking: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Any:
    """The ranked list: of one objective force and curvature, of several the forces."""
    places = [name for name in ("rank", "row", "document_id") if name in ranking[0]]
    columns = [*places, "label", "score"]
    columns += names if len(names) > 1 else ["force", "curvature"]
    table = make_table(*columns, numeric=set(columns) - {"document_id"})
    for entry in ranking:
        cells = [str(entry[name]) for name in places]
        cells += [f"{entry['label']:g}", f"{entry['score']:.4f}"]
        cells += [_arrow(entry["forces"][name]) for name in names]
        cells += [f"{entry['curvatures'][names[0]]:.4f}"] if len(names) == 1 else []
        table.add_row(*cells)
    return table


def _arrow(force: float) -> str:
    """A force with the sign of its direction: what colour alone would not say."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    up, down = "\u2191\u2193" if encoding.startswith("utf") else "^v"
    return f"{up if force > 0 else down if force < 0 else ' '} {force:+.4f}"


def _show_query(
    fields: Sequence[ForceField],
    rows: Sequence[int],
    top: int,
    files: Mapping[str, Any],
    json: bool,
) -> None:
    first, names = fields[0], [field.objective.name for field in fields]
    ranking = _ranking(fields, rows, top)
    query = str(first.query_ids[0])
    if json:
        found = {**files, "query": query, "documents": first.n_documents, "objectives": names}
        show_json(found | {"ranking": ranking})
        return
    title = f"query {query}, {count(first.n_documents, 'document')}"
    show(heading(f"{title}: {_pushed(fields)}"), "", _table(ranking, names))
    if not any(field.forces.any() for field in fields):
        show("", "Nothing is pushed here: no pair of documents has labels that differ.")
    if first.n_documents > top:
        rest = count(first.n_documents - top, "more document")
        show("", f"{rest}: see them with --top {first.n_documents}.")


def _pushed(fields: Sequence[ForceField]) -> str:
    """Whose forces, and when."""
    names = " and ".join(
        f"{field.objective.name}{' (one draw)' if field.objective.is_random else ''}"
        for field in fields
    )
    tree = fields[0].tree
    return (
        f"forces of {names}" if tree is None else f"forces of {names} after {count(tree, 'tree')}"
    )


def _show_all(fields: Sequence[ForceField], top: int, files: Mapping[str, Any], json: bool) -> None:
    """The sums of forces by label, and the queries that are pushed hardest, for each objective."""
    found = {field.objective.name: _summary(field, top) for field in fields}
    if json:
        show_json({**files, "objectives": found})
        return
    for at, field in enumerate(fields):
        summary = found[field.objective.name]
        size = (
            f"{count(field.n_documents, 'document')}, {count(field.n_queries, 'query', 'queries')}"
        )
        labels = make_table(
            "label", "documents", "up", "down",
            rows=([f"{e['label']:g}", f"{e['documents']:,}", f"{e['up']:.4f}", f"{e['down']:.4f}"]
                  for e in summary["labels"]),
            numeric=0,
        )  # fmt: skip
        queries = make_table(
            "query", "documents", "sum of |force|",
            rows=([e["query"], f"{e['documents']:,}", f"{e['force']:.4f}"]
                  for e in summary["queries"]),
            numeric=1,
        )  # fmt: skip
        blank = [""] if at else []
        show(*blank, heading(f"{size}: {_pushed([field])}"), "", labels, "")
        show("The queries that are pushed hardest; see one with --query:", "", queries)


def _summary(field: ForceField, top: int) -> dict[str, Any]:
    import numpy as np

    from rankgrove.model.by_label import ForceTotals

    totals = ForceTotals.of([field])
    columns = (totals.labels, totals.documents.tolist(), totals.up[0], totals.down[0])
    sums = np.add.reduceat(np.abs(field.forces), field.offsets[:-1])
    hardest = np.argsort(-sums, kind="stable")[:top].tolist()
    sizes = np.diff(field.offsets)
    return {
        "labels": [
            {"label": label, "documents": number, "up": float(up), "down": float(down)}
            for label, number, up, down in zip(*columns, strict=True)
        ],
        "queries": [
            {"query": str(field.query_ids[q]), "documents": int(sizes[q]), "force": float(sums[q])}
            for q in hardest
        ],
    }


def _show_example(names: list[str] | None, out: Path | None, json: bool) -> None:
    """Figure 1 of Burges: both orders, with the forces of RankNet and of LambdaRank."""
    from rankgrove.experiments.burges import OBJECTIVES, burges_example
    from rankgrove.model.forces import forces_at

    chosen = list(OBJECTIVES) if names is None else names
    orders = burges_example()
    fields = [[forces_at(order.data, order.scores, name) for name in chosen] for order in orders]
    chosen = [field.objective.name for field in fields[0]]
    rankings = [_ranking(part, None, part[0].n_documents) for part in fields]
    if json:
        shown = [
            {"name": order.name, "relevant": list(order.relevant),
             "wrong_pairs": order.wrong_pairs, "ndcg": order.ndcg, "ranking": ranking}
            for order, ranking in zip(orders, rankings, strict=True)
        ]  # fmt: skip
        show_json({"example": "burges", "objectives": chosen, "picture": out, "orders": shown})
    else:
        for at, (order, ranking) in enumerate(zip(orders, rankings, strict=True)):
            blank = [""] if at else []
            ranks = " and ".join(map(str, order.relevant))
            title = f"{order.name}, relevant at {ranks}: {order.summary}"
            show(*blank, heading(title), "", _table(ranking, chosen))
            hardest = [(_hardest(ranking, name), name) for name in chosen]
            says = ", ".join(f"rank {rank} by {name}" for rank, name in hardest)
            show("", f"Pushed up hardest: {says}.")
    _write(out, None if out is None else _example_picture(chosen), json)


def _hardest(ranking: Sequence[Mapping[str, Any]], name: str) -> int:
    """The rank of the document that is pushed up hardest."""
    forces = [entry["forces"][name] for entry in ranking]
    return forces.index(max(forces)) + 1


def _totals_picture(
    model: ScoringModel, data: Dataset, names: Sequence[str | None], reading: Reading
) -> Display:
    """The sums of forces by label through training."""
    from rankgrove.experiments.displays.forces import plot_force_totals
    from rankgrove.model.model import Model

    if not isinstance(model, Model):
        rule = f"be used with {parameter('query')} for {model.noun}, which has no trees to follow"
        raise refusal("out", rule, got="none")
    return plot_force_totals(model, data, objective=names[0], n_jobs=reading.n_jobs)


def _example_picture(names: Sequence[str]) -> Display:
    from rankgrove.experiments.displays.forces import plot_burges

    return plot_burges(names)


def _picture(fields: Sequence[ForceField], data: Dataset, top: int) -> Display:
    from rankgrove.experiments.displays.forces import ForcesDisplay

    return ForcesDisplay([fields], grades=data.labels.tolist(), top=top)


def _write(out: Path | None, picture: Display | None, json: bool) -> None:
    if out is None or picture is None:
        return
    write_text(out, picture.to_svg())
    if not json:
        show("", f"Wrote {out}.")
