# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove combine`: the best weights of several rankers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrove.cli.console import make_table, show, show_json
from rankgrove.cli.files import check_outputs, name_files, read_labels, sort_files
from rankgrove.cli.models import load_model, read_for_model
from rankgrove.cli.options import Json, Reading, is_model_file, takes_reading
from rankgrove.errors import parameter, refusal, unknown_name

if TYPE_CHECKING:
    from rankgrove.data.dataset import Dataset
    from rankgrove.experiments.combine.combine import Combination, CombinedRankers
    from rankgrove.model.combined import CombinedModel
    from rankgrove.model.model import Model


@takes_reading
def combine(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C ...] DATA",
            help="Models, or files of scores, one a line in the order of the data; then the data, "
            "judged documents.",
        ),
    ],
    metric: Annotated[
        str, typer.Option("--metric", "-m", metavar="NAME", help="What to maximise.")
    ] = "ndcg@10",
    method: Annotated[
        str,
        typer.Option(
            metavar="sweep|linear|lambdamart",
            help="Weights, found exactly one after the other; weights of any sign, by a linear "
            "LambdaRank; or trees on the scores.",
        ),
    ] = "sweep",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Save the rankers, all models, as one."),
    ] = None,
    curve: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Of two rankers, the metric by weight: .csv, .tsv or .svg."
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Take each ranker at most so many times.")
    ] = 10,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Of the order of rankers, or of the training.")
    ] = 0,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Combine rankers: the weights that maximise a metric.

    Of two rankers the best weight of all is found, not that of a grid.

    rankgrove combine a.safetensors b.safetensors vali.txt -o both.safetensors

    rankgrove combine bm25.txt clicks.txt vali.txt -m map --curve map.svg
    """
    names, data = sort_files(files, reading, "two or more rankers", 2)
    rankers = [Path(name) for name in names]
    _check(rankers, method, out, curve, data)
    from rankgrove.experiments.combine import combine as combining
    from rankgrove.metrics.spec import parse_metric

    chosen = parse_metric(metric)
    judged, given = _read(data, rankers, reading, chosen.ties == "document_id")
    if out is not None:
        combining.check_models(list(given.values()), method)
    found: Combination | CombinedRankers
    weights: dict[str, float] | None
    model: Model | CombinedModel | None
    if len(given) == 2 and method == "sweep":
        first, second = given.values()
        found = combining.combine_two(judged, first, second, chosen, n_jobs=reading.n_jobs)
        values = dict(zip(given, (found.first_value, found.second_value), strict=True))
        weights = dict(zip(given, (found.alpha, 1.0 - found.alpha), strict=True))
        model = None if out is None else found.to_model()
    else:
        found = combining.combine(
            judged, given, chosen, method=method, rounds=rounds, seed=seed,  # type: ignore[arg-type]
            n_jobs=reading.n_jobs,
        )  # fmt: skip
        values, weights, model = found.values, found.weights, found.model
    if out is not None and model is not None:
        model.save(out)
    interval = getattr(found, "interval", None)
    if curve is not None:
        found.curve.save(curve)  # type: ignore[union-attr]
    if json:
        show_json(
            {
                "data": str(data),
                "metric": str(chosen),
                "method": method,
                "rankers": [
                    {
                        "name": name,
                        "value": value,
                        "weight": None if weights is None else weights[name],
                    }
                    for name, value in values.items()
                ],
                "value": found.value,
                "interval": None if interval is None else list(interval),
                "out": None if out is None else str(out),
                "curve": None if curve is None else str(curve),
            }
        )
        return
    _show(str(chosen), values, weights, found.value, interval)
    for path in (out, curve):
        if path is not None:
            show(f"Wrote {path}")


def _show(
    metric: str,
    values: dict[str, float],
    weights: dict[str, float] | None,
    value: float,
    interval: tuple[float, float] | None,
) -> None:
    numeric = [metric, "weight"] if weights else [metric]
    table = make_table("ranker", *numeric, right=numeric)
    for name, own in values.items():
        table.add_row(name, f"{own:.4f}", *([f"{weights[name]:.6g}"] if weights else []))
    table.add_row("combined", f"{value:.4f}", *([""] if weights else []))
    show(table, "")
    if interval is not None and interval[0] < interval[1]:
        span = f"from {interval[0]:.10g} to {interval[1]:.10g}"
        show(f"Any weight of {next(iter(values))} {span} gives the same.")
    show("This is the best on these data: measure it on others.")


def _check(
    rankers: list[Path], method: str, out: Path | None, curve: Path | None, data: Path
) -> None:
    """Refuse at once what would fail after the work."""
    from rankgrove.experiments.combine.combine import METHODS

    if method not in METHODS:
        raise unknown_name(parameter("method"), method, METHODS)
    if curve is not None and (len(rankers) > 2 or method != "sweep"):
        raise refusal(
            "curve",
            f"be used with two rankers and {parameter('method', 'sweep')}",
            got=f"{len(rankers)} rankers and {method}",
        )
    if curve is not None and curve.suffix.lower() not in (".csv", ".tsv", ".svg"):
        raise refusal("curve", "be a file .csv, .tsv or .svg", str(curve))
    check_outputs([data, *rankers], {"out": out, "curve": curve})
    if out is not None:
        for path in rankers:
            if path.exists() and not is_model_file(path):
                got = f"'{path}', a file of scores"
                raise refusal("out", "be used with models only", got=got)


def _read(
    path: Path, rankers: list[Path], reading: Reading, with_ids: bool
) -> tuple[Dataset, dict[str, Any]]:
    """The data, and the rankers by name: models, or scores."""
    from rankgrove.cli.scores import scores_from_lines

    changes: dict[str, Any] = {"document_ids": True} if with_ids else {}
    models = {ranker: load_model(ranker) for ranker in rankers if is_model_file(ranker)}
    if models:
        first = next(iter(models.values()))
        data = read_for_model(first, path, reading, with_labels=True, **changes)
    else:
        data = read_labels(path, reading, **changes)
    return data, {
        name: models[ranker] if ranker in models else scores_from_lines(ranker, data.n_documents)
        for name, ranker in name_files("ranker", rankers).items()
    }
