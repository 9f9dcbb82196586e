# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove quickstart`: a data set, a model trained on it, and what rankings are worth."""

from __future__ import annotations

import json as json_text
import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rankgrove.cli.console import count, files_table, heading, make_table, show, show_json
from rankgrove.cli.explain import feature_use, use_table
from rankgrove.cli.files import sizes_of, write_text
from rankgrove.cli.options import Json, argument, option
from rankgrove.errors import DataError, ParameterError
from rankgrove.training.progress import clock_time

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from rankgrove.data.dataset import Dataset
    from rankgrove.metrics.evaluate import Evaluation
    from rankgrove.model.model import Model

# As many features as LETOR 4.0, and fewer documents per query than web search has, so that the
# files are small: 16 MB of text in all.
_FEATURES = 46
_MEAN_DOCUMENTS = 40.0
_SHARES = {"train": 0.6, "vali": 0.2, "test": 0.2}
_SEED = 0

_MARKER = "quickstart.json"
_MADE_BY = "rankgrove quickstart"

# Stop when so many trees in a row brought nothing.
_ROUNDS = 30
_FEATURES_SHOWN = 5


def quickstart(
    directory: Annotated[
        Path | None, argument("[DIR]", "Where the files go; rankgrove-quickstart by default.")
    ] = None,
    queries: Annotated[int, option("N", "How many queries to make, 10 or more.", min=10)] = 1000,
    json: Json = False,
) -> None:
    """Start here: make a small data set, train a model on it and measure it.

    The same number of queries gives the same files, byte for byte.
    """

    def tell(*text: RenderableType) -> None:
        if not json:
            show(*text)

    place = directory or Path("rankgrove-quickstart")
    _claim_directory(place, queries)
    parts = _make_parts(queries)
    files = _write_files(parts, place)
    tell(heading("the data"), files_table({name: files[name] for name in parts}, parts, {}), "")
    start = time.perf_counter()
    model = _train(parts, Path(files["model"]))
    seconds = time.perf_counter() - start
    done = f"Trained {count(model.n_trees, 'tree')} in {clock_time(seconds)}"
    tell(f"{done}, watching vali:", files["model"], "")
    feature = _best_feature(parts["train"])
    results = _measure(parts["test"], feature, model)
    name = parts["test"].feature_names[feature]
    tell(heading("rankings of test"), _results_table(results, name), "")
    used = feature_use(model)
    tell(heading("what the model rests on"), use_table(used, _FEATURES_SHOWN), "")
    page = _write_report(parts, feature, model, place / "report.html")
    if page is not None:
        files["report"] = str(page)
        tell(heading("which queries the model ranks better than that feature, and why"))
        tell(f"Open this page in a browser: {page}", "")
    following = _next_commands(files, parts["test"], feature)
    tell(heading("what to run next"), *(f"  {command}" for command in following))
    if json:
        show_json(
            {
                "files": files,
                "parts": {name: sizes_of(part) for name, part in parts.items()},
                "model": {"trees": model.n_trees, "seconds": seconds},
                "feature": {"number": feature + 1, "name": name},
                "results": {name: result.to_dict() for name, result in results.items()},
                "importance": used,
                "next": following,
            }
        )


def _next_commands(files: dict[str, str], test: Dataset, feature: int) -> list[str]:
    query = str(test.query_ids[0])
    own = str(Path(files["model"]).with_name("mine.safetensors"))
    page = str(Path(files["model"]).with_name("mine.html"))
    commands = [
        ["inspect", files["train"]],
        ["inspect", files["model"]],
        ["explain", files["model"], files["test"], "--query", query, "--why", "1", "2"],
        ["evaluate", files["model"], files["test"]],
        ["evaluate", files["test"], "--column", str(feature + 1)],
        ["evaluate", files["best"], files["test"]],
        ["report", files["test"], f"column:{feature + 1}", files["model"], "-o", page],
        [
            "train", files["train"], "--valid", files["vali"], "--max-leaves", "15",
            "--early-stopping-rounds", str(_ROUNDS), "-o", own,
        ],
    ]  # fmt: skip
    return [shlex.join(["rankgrove", *command]) for command in commands]


def _claim_directory(out: Path, queries: int) -> None:
    """Make the directory, unless it holds something that is not from an earlier quickstart.

    The marker is written first, so that an interrupted quickstart can be run again.
    """
    if out.exists() and not out.is_dir():
        raise ParameterError(f"DIR must be a directory. Got the file '{out}': name another.")
    if out.is_dir() and any(out.iterdir()) and not _is_ours(out / _MARKER):
        raise ParameterError(
            f"DIR must be a new or empty directory, or that of an earlier quickstart. "
            f"Got '{out}', which holds other files: name another."
        )
    out.mkdir(parents=True, exist_ok=True)
    made = {"made_by": _MADE_BY, "queries": queries, "features": _FEATURES, "seed": _SEED}
    write_text(out / _MARKER, json_text.dumps(made, indent=2) + "\n")


def _is_ours(marker: Path) -> bool:
    try:
        made = json_text.loads(marker.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(made, dict) and made.get("made_by") == _MADE_BY


def _make_parts(queries: int) -> dict[str, Dataset]:
    """Train, vali and test, with the best possible scores as their base scores."""
    from rankgrove.data.synthetic import make_web_search

    data, best = make_web_search(
        queries, _FEATURES, mean_documents=_MEAN_DOCUMENTS, seed=_SEED, best_scores=True
    )
    parts = replace(data, base_scores=best).split(*_SHARES.values(), seed=_SEED)
    return dict(zip(_SHARES, parts, strict=True))


def _write_files(parts: dict[str, Dataset], out: Path) -> dict[str, str]:
    import numpy as np

    from rankgrove.cli.scores import score_lines
    from rankgrove.data.files import write_data

    files = {name: str(out / f"{name}.txt") for name in parts}
    for name, part in parts.items():
        write_data(part, files[name])
    files |= {"best": str(out / "best.txt"), "model": str(out / "model.safetensors")}
    remark = "# The best possible scores of the documents of test.txt\n"
    best = np.asarray(parts["test"].base_scores)
    write_text(Path(files["best"]), "".join([remark, *score_lines(best)]))
    return files


def _best_feature(train: Dataset) -> int:
    """The feature that ranks the training documents best when taken as the score."""
    from rankgrove.cli.scores import feature_scores
    from rankgrove.metrics.evaluate import evaluate

    means = [
        evaluate(train, feature_scores(train, column), "ndcg@10")["ndcg@10"]
        for column in range(train.n_features)
    ]
    return max(range(train.n_features), key=means.__getitem__)


def _train(parts: dict[str, Dataset], path: Path) -> Model:
    """The model, trained on train until vali says stop, and written to its file."""
    from rankgrove.boosting.parameters import Parameters
    from rankgrove.training.trees import start_trees

    # The base scores here are the best possible ones: nothing to train on top of.
    train, vali = (replace(parts[name], base_scores=None) for name in ("train", "vali"))
    parameters = Parameters(early_stopping_rounds=_ROUNDS)
    run = start_trees(train, {"vali": vali}, parameters).run(verbose=True)
    if run.interrupted:
        raise KeyboardInterrupt
    model: Model = run.make_model()
    model.save(path)
    return model


def _measure(test: Dataset, feature: int, model: Model) -> dict[str, Evaluation]:
    """What a random order, one feature, the model and the best possible scores are worth."""
    import numpy as np

    from rankgrove.cli.scores import feature_scores
    from rankgrove.metrics.evaluate import evaluate

    rankings = {
        "random": np.random.default_rng(_SEED).random(test.n_documents),
        "feature": feature_scores(test, feature),
        "model": model.predict(test),
        "best": np.asarray(test.base_scores),
    }
    return {name: evaluate(test, scores) for name, scores in rankings.items()}


def _write_report(parts: dict[str, Dataset], feature: int, model: Model, path: Path) -> Path | None:
    """The page that sets the model against the feature; None for too few queries to compare."""
    from rankgrove.cli.scores import feature_scores
    from rankgrove.report.build import Candidate, make_report

    train, test = (replace(parts[name], base_scores=None) for name in ("train", "test"))
    name = test.feature_names[feature]
    column = Candidate(feature_scores(test, feature), "column")
    try:
        report = make_report(
            test, {name: column, "model": model}, baseline=name, slices=["length", "relevant"],
            train=train,
        )  # fmt: skip
    except DataError:
        path.unlink(missing_ok=True)  # (of an earlier quickstart, of more queries)
        return None
    report.save(path)
    return path


def _results_table(results: dict[str, Evaluation], feature: str) -> Table:
    rankings = {
        "random": "random order",
        "feature": f"{feature}, the best feature on train",
        "model": "the model",
        "best": "best possible scores",
    }
    metrics = list(results["model"])
    rows = (
        [text, *(f"{results[ranking][metric]:.4f}" for metric in metrics)]
        for ranking, text in rankings.items()
    )
    return make_table("ranked by", *metrics, rows=rows, numeric=1)
