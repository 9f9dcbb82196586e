# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove combine`: the best weights of several rankers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankgrove.cli.console import make_table, show, show_json
from rankgrove.cli.files import check_outputs, name_files, read_labels, sort_files
from rankgrove.cli.models import load_model, read_for_model
from rankgrove.cli.options import (
    Json,
    Reading,
    argument,
    is_model_file,
    option,
    takes,
    takes_reading,
)
from rankgrove.errors import parameter, refusal, unknown_name

if TYPE_CHECKING:
    from rankgrove.data.dataset import Dataset


@dataclass(frozen=True)
class Job:
    """What is to be combined, how, and where what is found goes."""

    files: Annotated[
        list[str],
        argument(
            "A B [C ...] DATA",
            "Models, or files of scores, one per line in the order of the data; then the data, "
            "judged documents.",
        ),
    ]
    metric: Annotated[str, option("NAME", "What to maximise.", "--metric", "-m")] = "ndcg@10"
    method: Annotated[
        str,
        option(
            "sweep|linear|lambdamart",
            "Weights, found exactly one after the other; weights of any sign, by a linear "
            "LambdaRank; or trees on the scores.",
        ),
    ] = "sweep"
    out: Annotated[
        Path | None, option("FILE", "Save the rankers, all models, as one.", "--out", "-o")
    ] = None
    curve: Annotated[
        Path | None, option("FILE", "Of two rankers, the metric by weight: .csv, .tsv or .svg.")
    ] = None
    rounds: Annotated[int, option("N", "Take each ranker at most so many times.", min=1)] = 10
    seed: Annotated[int, option("N", "Of the order of rankers, or of the training.", min=0)] = 0
    json: Json = False


@takes_reading
@takes("job", Job)
def combine(*, job: Job, reading: Reading) -> None:
    """Combine rankers: the weights that maximise a metric.

    Of two rankers the best weight of all is found, not that of a grid.

    rankgrove combine a.safetensors b.safetensors vali.txt -o both.safetensors

    rankgrove combine bm25.txt clicks.txt vali.txt -m map --curve map.svg
    """
    names, data = sort_files(job.files, reading, "two or more rankers", 2)
    paths = [Path(name) for name in names]
    _check(job, paths, data)
    from rankgrove.experiments.combine import combine as combining
    from rankgrove.metrics.spec import parse_metric

    metric, n_jobs = parse_metric(job.metric), reading.n_jobs
    judged, rankers = _read(data, paths, reading.with_ids([metric]))
    if job.out is not None:
        combining.check_models(list(rankers.values()), job.method)
    found: Any
    if len(rankers) == 2 and job.method == "sweep":
        first, second = rankers.values()
        found = combining.combine_two(judged, first, second, metric, n_jobs=n_jobs)
        values = dict(zip(rankers, (found.first_value, found.second_value), strict=True))
        weights = dict(zip(rankers, (found.alpha, 1.0 - found.alpha), strict=True))
        model = None if job.out is None else found.to_model()
    else:
        found = combining.combine(
            judged, rankers, metric, method=job.method, rounds=job.rounds, seed=job.seed,  # type: ignore[arg-type]
            n_jobs=n_jobs,
        )  # fmt: skip
        values, weights, model = found.values, found.weights, found.model
    interval = getattr(found, "interval", None)
    if job.out is not None and model is not None:
        model.save(job.out)
    if job.curve is not None:
        found.curve.save(job.curve)
    if job.json:
        described = [
            {"name": name, "value": value, "weight": weights[name] if weights else None}
            for name, value in values.items()
        ]
        call = {"data": data, "metric": str(metric), "method": job.method}
        outcome = {"rankers": described, "value": found.value, "interval": interval}
        show_json({**call, **outcome, "out": job.out, "curve": job.curve})
        return
    _show(str(metric), values, weights, found.value, interval)
    for path in (job.out, job.curve):
        if path is not None:
            show(f"Wrote {path}")


def _show(
    metric: str,
    values: dict[str, float],
    weights: dict[str, float] | None,
    value: float,
    interval: tuple[float, float] | None,
) -> None:
    rows = [
        [name, f"{alone:.4f}", *([f"{weights[name]:.6g}"] if weights else [])]
        for name, alone in values.items()
    ]
    rows.append(["combined", f"{value:.4f}", *([""] if weights else [])])
    columns = ["ranker", metric, *(["weight"] if weights else [])]
    show(make_table(*columns, rows=rows, numeric=1), "")
    if interval is not None and interval[0] < interval[1]:
        span = f"from {interval[0]:.10g} to {interval[1]:.10g}"
        show(f"Any weight of {next(iter(values))} {span} gives the same.")
    show("This is the best on these data: measure it on others.")


def _check(job: Job, rankers: list[Path], data: Path) -> None:
    """Refuse at once what would fail after the work."""
    from rankgrove.experiments.combine.combine import METHODS

    method, curve = job.method, job.curve
    if method not in METHODS:
        raise unknown_name(parameter("method"), method, METHODS)
    if curve is not None and (len(rankers) > 2 or method != "sweep"):
        rule = f"be used with two rankers and {parameter('method', 'sweep')}"
        raise refusal("curve", rule, got=f"{len(rankers)} rankers and {method}")
    if curve is not None and curve.suffix.lower() not in (".csv", ".tsv", ".svg"):
        raise refusal("curve", "be a file .csv, .tsv or .svg", str(curve))
    check_outputs([data, *rankers], {"out": job.out, "curve": curve})
    scores = [path for path in rankers if path.exists() and not is_model_file(path)]
    if job.out is not None and scores:
        raise refusal("out", "be used with models only", got=f"'{scores[0]}', a file of scores")


def _read(path: Path, rankers: list[Path], reading: Reading) -> tuple[Dataset, dict[str, Any]]:
    """The data, and the rankers by name: models, or scores."""
    from rankgrove.cli.scores import scores_from_lines

    models = {ranker: load_model(ranker) for ranker in rankers if is_model_file(ranker)}
    if models:
        data = read_for_model(next(iter(models.values())), path, reading, with_labels=True)
    else:
        data = read_labels(path, reading)
    return data, {
        name: models[ranker] if ranker in models else scores_from_lines(ranker, data.n_documents)
        for name, ranker in name_files("ranker", rankers).items()
    }
