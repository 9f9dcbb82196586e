"""`model_card`: a model described for those who find it on a hub, in the form of Hugging Face."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from rankgrove.importing.foreign import IMPORTED
from rankgrove.model.base import PLAN, ScoringModel
from rankgrove.testing.peers import PEERS

_FILE = "model.safetensors"
_FEATURES_SHOWN = 100
_LEVELS_SHOWN = 8
_TASK = "learning-to-rank"


def model_card(model: ScoringModel, name: str = "model", file: str = _FILE) -> str:
    """A model as Markdown with the front matter that Hugging Face reads.

    It says what the model is, which features it takes, how it was trained, what it measured in
    training, how to load it and what it cannot do. The same model gives the same text. The
    license is yours to fill in, and so is what the data were.

    Parameters
    ----------
    model
        Trees, a network or several of them combined.
    name, file
        What the model is called, and the name of its file beside the card.

    Examples
    --------
    >>> from rankgrove.model.model import Model
    >>> from rankgrove.model.schema import Schema
    >>> from rankgrove.trees.ensemble import Ensemble
    >>> card = model_card(Model(Ensemble.from_trees([]), Schema(("bm25",)), {}, {}))
    >>> print(card.splitlines()[1])
    library_name: rankgrove
    """
    parts = [
        _front_matter(model, name),
        f"# {name}\n\n{_what_it_is(model)}",
        f"## Data\n\n{_data(model)}",
        f"## Training\n\n{_training(model)}",
        f"## Evaluation\n\n{_evaluation(model)}",
        f"## Use\n\n{_use(model, file)}",
        f"## Limits\n\n{_limits(model)}",
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(model: ScoringModel, name: str) -> str:
    lines = ["---", "library_name: rankgrove", "tags:", f"- {_TASK}", "- ranking"]
    kinds = {"model": ["trees", "gradient-boosting"], "network": ["pytorch"], "combined": []}
    lines += [f"- {tag}" for tag in kinds[model.describe()["kind"]]]
    lines.append("# license: yours to choose, for example apache-2.0")
    if finals := model.final_metrics():
        # Strings in quotes as JSON has them are YAML too.
        lines += ["model-index:", f"- name: {json.dumps(name)}", "  results:"]
        for dataset, values in finals.items():
            lines += [
                "  - task:",
                f"      type: {_TASK}",
                "    dataset:",
                f"      name: {json.dumps(dataset)}",
                f"      type: {json.dumps(dataset)}",
                "    metrics:",
            ]
            for metric, value in values.items():
                lines += [f"    - type: {json.dumps(metric)}", f"      value: {value:.6f}"]
    return "\n".join([*lines, "---"])


def _what_it_is(model: ScoringModel) -> str:
    found = model.describe()
    if found["kind"] == "network":
        size = f"A neural network of {found['weights']:,} weights"
    elif found["kind"] == "combined":
        size = f"{len(found['parts'])} models combined"
    else:
        size = (
            f"{found['trees']:,} regression trees with {found['leaves']:,} leaves, at most "
            f"{found['depth']} splits deep"
        )
    text = (
        f"{size}, over {found['features']:,} features. It gives each document of a query a score: "
        f"sort by it, highest first. Made with Rankgrove {found['version']}."
    )
    origin = model.notes.get(IMPORTED)
    if isinstance(origin, dict) and origin.get("kind") in PEERS:
        text += (
            f"\n\nThe trees were trained by {PEERS[origin['kind']].title} "
            f"({origin['version']}, {origin['objective']}) and imported from a file with SHA-256 "
            f"`{origin['sha256']}`."
        )
    return text


def _data(model: ScoringModel) -> str:
    categories = model.schema.named_categories
    rows = [
        [f"{number + 1}", f"`{name}`", _kind_of(categories.get(number))]
        for number, name in enumerate(model.feature_names[:_FEATURES_SHOWN])
    ]
    text = "One row per document. Missing values are NaN, or left out of a dict.\n\n"
    text += _table(["", "feature", "values"], rows)
    if (more := model.n_features - len(rows)) > 0:
        text += f"\n\nAnd {more:,} more features, which `model.feature_names` has."
    return text


def _kind_of(categories: tuple[Any, ...] | None) -> str:
    if categories is None:
        return "number"
    shown = ", ".join(f"`{value}`" for value in categories[:_LEVELS_SHOWN])
    more = len(categories) - _LEVELS_SHOWN
    return f"category: {shown}" + (f" and {more:,} more" if more > 0 else "")


def _training(model: ScoringModel) -> str:
    plan = model.notes.get(PLAN)
    settled = model.parameters | (plan if isinstance(plan, dict) else {})
    if not settled:
        return "The file holds no parameters of training."
    rows = ([f"`{name}`", f"`{_plain(value)}`"] for name, value in sorted(settled.items()))
    return _table(["parameter", "value"], rows)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _evaluation(model: ScoringModel) -> str:
    rows = [
        [dataset, metric, f"{value:.4f}"]
        for dataset, values in model.final_metrics().items()
        for metric, value in values.items()
    ]
    if not rows:
        return (
            "The file holds no validation values. Measure it on judged queries: "
            f"`rankgrove evaluate {_FILE} test.txt`."
        )
    told = (
        "Measured during training, on data that may have decided how many steps are kept: expect "
        "somewhat less on new queries.\n\n"
    )
    return told + _table(["data", "metric", "value"], rows)


def _use(model: ScoringModel, file: str) -> str:
    categories = model.schema.named_categories
    example = {
        name: categories[number][0] if number in categories else 0.5
        for number, name in enumerate(model.feature_names[:2])
    }
    base = ", base_scores=[0.0]" if model.schema.needs_base_scores else ""
    install = "rankgrove[neural]" if "network" in json.dumps(model.describe()) else "rankgrove"
    return "\n".join([
        "```python",
        f'# pip install "{install}"',
        "from rankgrove import load",
        "",
        f"model = load({json.dumps(file)})",
        f"scores = model.predict([{example!r}]{base})",
        "```",
        "",
        f"From a shell: `rankgrove score {file} documents.csv`.",
    ])  # fmt: skip


def _limits(model: ScoringModel) -> str:
    return "\n".join(f"- {limit}" for limit in _limit_list(model))


def _limit_list(model: ScoringModel) -> Iterator[str]:
    yield (
        "Scores order the documents of one query. They are no probabilities, and those of two "
        "queries do not compare."
    )
    yield "Features are float32. They must be computed as they were for training."
    if model.schema.categories:
        yield "A category that training did not see counts as missing."
    if model.schema.needs_base_scores:
        yield "It was trained on top of base scores, and needs them to score."
    yield "Clicks and judgements carry the biases of what was shown: a model learns these too."


def _table(columns: list[str], rows: Iterable[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
