# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""Each kind of picture of `rankgrove plot`, from files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrove.cli.candidates import Inputs, ScoreFiles, name_sources
from rankgrove.cli.explain import rank_query
from rankgrove.cli.files import model_and_data, read_with_features_of, sort_files
from rankgrove.cli.models import load_model, read_for_model
from rankgrove.cli.options import Reading, names_in
from rankgrove.errors import DataError, parameter, refusal, unknown_name

if TYPE_CHECKING:
    from rankgrove.cli.plot import Choices
    from rankgrove.data.dataset import Dataset
    from rankgrove.model.base import ScoringModel
    from rankgrove.pictures.display import Display

_METRIC = "ndcg@10"

Files = list[str]


def _learning_curves(
    files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading
) -> Display:
    from rankgrove.experiments.displays.curves import plot_learning_curves

    sources = name_sources(files)
    if others := [name for name, source in sources.items() if not source.is_model]:
        raise DataError(f"{others[0]}: must be a model file. Got something else.")
    runs = {name: load_model(source.path) for name, source in sources.items() if source.path}
    return plot_learning_curves(runs, choices.metric)


def _shrinkage(files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading) -> Display:
    from rankgrove.experiments.displays.curves import plot_shrinkage

    train = reading.read(Path(files[0]))
    valid: Any = None
    if len(files) > 1:
        valid = read_with_features_of(train, Path(files[0]), Path(files[1]), reading)
    return plot_shrinkage(
        train, valid, choices.numbers("rates", (1.0, 0.5, 0.1, 0.01)),
        objective=choices.objective or "lambdamart", n_estimators=choices.trees or 100,
        eval_metric=choices.metric or _METRIC, n_jobs=reading.n_jobs, random_state=0,
    )  # fmt: skip


def _inputs(files: Files, reading: Reading, scoring: ScoreFiles) -> Inputs:
    candidates, data = sort_files(files, reading, "a candidate")
    return Inputs(data, reading.with_ids([], needed=scoring.run), name_sources(candidates))


def _compared(files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading) -> Any:
    from rankgrove.experiments.compare.compare import compare

    inputs = _inputs(files, reading, scoring)
    if choices.baseline is not None and choices.baseline not in inputs.sources:
        raise unknown_name(parameter("baseline"), choices.baseline, inputs.sources)
    return compare(
        inputs.data, inputs.scores(scoring), choices.metric or _METRIC, baseline=choices.baseline,
        slices=inputs.slices(choices.slices or ["length"]), n_jobs=reading.n_jobs,
    )  # fmt: skip


def _comparison(kind: str) -> Callable[..., Display]:
    def draw(files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading) -> Display:
        display: Display = _compared(files, choices, scoring, reading).plot(kind=kind)
        return display

    return draw


def _slices(files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading) -> Display:
    display: Display = _compared(files, choices, scoring, reading).plot_slices()
    return display


def _front(files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading) -> Display:
    from rankgrove.experiments.displays.front import plot_front
    from rankgrove.metrics.spec import split_arguments

    inputs = _inputs(files, reading, scoring)
    metrics = split_arguments(choices.metric or f"{_METRIC},map")
    return plot_front(inputs.scores(scoring), inputs.data, metrics)


def _ranking(files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading) -> Display:
    from rankgrove.experiments.displays.rankings import plot_ranking

    inputs = _inputs(files, reading, scoring)
    query = _query_of(choices)
    return plot_ranking(
        inputs.data, inputs.scores(scoring), query, metric=choices.metric or _METRIC,
        top=choices.top or 10,
    )  # fmt: skip


def _scores_by_label(
    files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading
) -> Display:
    from rankgrove.experiments.displays.rankings import plot_scores_by_label

    inputs = _inputs(files, reading, scoring)
    [scores] = inputs.scores(scoring).values()
    return plot_scores_by_label(inputs.data, scores)


def _model_and_data(files: Files, reading: Reading) -> tuple[ScoringModel, Dataset]:
    model_path, data_path = model_and_data(Path(files[0]), Path(files[1]))
    model = load_model(model_path)
    return model, read_for_model(model, data_path, reading, with_labels=True)


def _importance(files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading) -> Display:
    from rankgrove.experiments.displays.features import plot_importance

    top = choices.top or 20
    if len(files) == 1:
        if choices.metric is not None:
            raise refusal("metric", "be used with DATA, on which it is measured", got="no DATA")
        return plot_importance(load_model(Path(files[0])), top=top)
    model, data = _model_and_data(files, reading)
    metric = choices.metric or _METRIC
    return plot_importance(
        model.permutation_importance(data, metric, n_jobs=reading.n_jobs), top=top
    )


def _dependence(files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading) -> Display:
    from rankgrove.experiments.displays.features import plot_dependence

    if not choices.feature:
        raise refusal("feature", "be given to be drawn", got="none")
    return plot_dependence(*_model_and_data(files, reading), choices.feature)


def _why(files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading) -> Display:
    model_path, data_path = model_and_data(Path(files[0]), Path(files[1]))
    query = _query_of(choices)
    model = load_model(model_path)
    ranked = rank_query(model, data_path, query, reading)
    rows = [ranked.row(parameter("ranks"), rank) for rank in choices.ranks or (1, 2)]
    return model.why(ranked.data, *rows).plot()


def _weights(files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading) -> Display:
    from rankgrove.experiments.optimality import is_local_maximum

    # The picture needs no test of many directions, so one is enough.
    model, data = _model_and_data(files, reading)
    found = is_local_maximum(
        model, data, choices.metric or _METRIC, delta=0.5, p0=0.5, n_jobs=reading.n_jobs
    )
    return found.plot(choices.number or 6)


def _pair_loss(files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading) -> Display:
    from rankgrove.experiments.displays.losses import plot_pair_loss

    return plot_pair_loss(choices.numbers("sigmas", (0.5, 1.0, 2.0)))


def _relative(files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading) -> Display:
    from rankgrove.experiments.displays.paper import plot_relative

    return plot_relative(*files)


def _train_test(files: Files, choices: Choices, scoring: ScoreFiles, reading: Reading) -> Display:
    from rankgrove.experiments.displays.paper import plot_train_test

    return plot_train_test(*files, tables=names_in(choices.table) or ["22"])


def _query_of(choices: Choices) -> str:
    if choices.query is None:
        raise refusal("query", "be given, as one query is drawn", got="none")
    return choices.query


DRAWN: dict[str, Callable[[Files, Choices, ScoreFiles, Reading], Display]] = {
    "learning-curves": _learning_curves,
    "shrinkage": _shrinkage,
    "scatter": _comparison("scatter"),
    "change": _comparison("change"),
    "distribution": _comparison("distribution"),
    "slices": _slices,
    "front": _front,
    "ranking": _ranking,
    "scores-by-label": _scores_by_label,
    "importance": _importance,
    "dependence": _dependence,
    "why": _why,
    "weights": _weights,
    "pair-loss": _pair_loss,
    "paper-relative": _relative,
    "train-test": _train_test,
}
