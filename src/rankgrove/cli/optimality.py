# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove optimality`: whether a model is at a local maximum of a metric."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from rankgrove.cli.console import show, show_json
from rankgrove.cli.files import check_outputs, model_and_data
from rankgrove.cli.models import ModelPath, load_model, read_for_model
from rankgrove.cli.options import Json, Reading, argument, option, takes_reading
from rankgrove.errors import refusal

# What of the outcome has the same name in JSON.
_FIGURES = ("share_rising", "share_bound", "largest_rise", "delta", "p0", "step", "seed")


@takes_reading
def optimality(
    model: ModelPath,
    data: Annotated[Path, argument("DATA", "Judged documents, those that it was trained on.")],
    metric: Annotated[str, option("NAME", "What may rise.", "--metric", "-m")] = "ndcg@10",
    delta: Annotated[float, option("SHARE", "One minus the confidence.")] = 0.01,
    p0: Annotated[float, option("SHARE", "The share of rising directions to rule out.")] = 0.01,
    step: Annotated[
        float, option("X", "How far leaves move, in spreads of their tree's leaves.")
    ] = 0.3,
    seed: Annotated[int, option("N", "Which directions.", min=0)] = 0,
    plot: Annotated[
        Path | None,
        option("FILE", "The metric along the direction in which it did best: .svg, .csv or .tsv."),
    ] = None,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Test whether a model is at a local maximum of a metric.

    The values of its leaves are moved a little in random directions, log(delta) / log(1 - p0) of
    them; at a maximum the metric rises in none.

    rankgrove optimality model.safetensors train.txt -m ndcg@10 --plot ndcg.svg
    """
    from rankgrove.experiments.optimality import is_local_maximum
    from rankgrove.metrics.spec import parse_metric

    model, data = model_and_data(model, data)
    if plot is not None and plot.suffix.lower() not in (".csv", ".tsv", ".svg"):
        raise refusal("plot", "be a file .svg, .csv or .tsv", str(plot))
    check_outputs([model, data], {"plot": plot})
    trained = load_model(model)
    chosen = parse_metric(metric)
    judged = read_for_model(trained, data, reading.with_ids([chosen]), with_labels=True)
    found = is_local_maximum(
        trained, judged, chosen, delta=delta, p0=p0, step=step, seed=seed, n_jobs=reading.n_jobs,
        progress=_show_progress if sys.stderr.isatty() else None,
    )  # fmt: skip
    best = int(found.values.argmax())
    if plot is not None:
        found.along(best).save(plot)
    if json:
        show_json(
            {
                "model": model,
                "data": data,
                "metric": str(found.metric),
                "value": found.value,
                "local_maximum": found.is_local_maximum,
                "directions": found.n_directions,
                "rising": found.n_rising,
                **{name: getattr(found, name) for name in _FIGURES},
                "plot": plot,
            }
        )
        return
    show(str(found))
    if plot is not None:
        show(f"Wrote {plot}: {found.metric} along direction {best}, in which it did best.")


def _show_progress(done: int, total: int) -> None:
    end = "\r\x1b[K" if done == total else ""
    sys.stderr.write(f"\r{done} of {total} directions{end}")
    sys.stderr.flush()
