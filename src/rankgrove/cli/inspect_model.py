# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""What `rankgrove inspect` shows of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrove.cli.console import heading, make_table, show, show_json
from rankgrove.cli.explain import feature_use, use_table
from rankgrove.cli.models import load_model
from rankgrove.cli.parameters import known_parameters

if TYPE_CHECKING:
    from rankgrove.model.model import Model
    from rankgrove.trees.ensemble import Tree

_FEATURES_SHOWN = 10


def inspect_model(path: Path, json: bool) -> None:
    """Show what is in a model file."""
    from rankgrove.cli.networks import inspect_network
    from rankgrove.model.files import is_network_file

    if is_network_file(path):
        inspect_network(path, json)
        return
    model = load_model(path)
    found = describe_model(model)
    used = feature_use(model)
    size = path.stat().st_size
    if json:
        more = {
            "importance": used,
            "parameters": known_parameters(model.parameters),
            "history": model.history,
        }
        show_json({"file": str(path), "kind": "model", "bytes": size, **found, **more})
        return
    trees = make_table("", "number", "", right=["number"])
    trees.show_header = False
    by = f"by Rankgrove {found['version']}"
    if found["objective"] is not None:
        by = f"{found['grower']}, for {found['objective']}, {by}"
    trees.add_row("trees", f"{found['trees']:,}", by)
    trees.add_row("leaves", f"{found['leaves']:,}", f"at most {found['most_leaves']:,} a tree")
    trees.add_row("depth", f"{found['depth']:,}", "at most")
    of_them = f"of which {len(used):,} are used"
    if categorical := len(found["categorical"]):
        of_them += f" and {categorical:,} categorical"
    trees.add_row("features", f"{found['features']:,}", of_them)
    trees.add_row("bytes", f"{size:,}", "")
    show(heading(str(path)), "", trees, "")
    if found["needs_base_scores"]:
        show("It was trained on top of base scores, and needs them to score.", "")
    if changed := found["changed_parameters"]:
        table = make_table("parameter", "value", "default")
        for name, (value, default) in changed.items():
            table.add_row(name, _shown(value), _shown(default))
        show(table, "")
    else:
        show("All parameters are the defaults.", "")
    if found["validation"]:
        numeric = ["at the end", "best", "trees"]
        table = make_table("validation", "metric", *numeric, right=numeric)
        for entry in found["validation"]:
            figures = (f"{entry['last']:.4f}", f"{entry['best']:.4f}", f"{entry['best_trees']:,}")
            table.add_row(entry["set"], entry["metric"], *figures)
        show(table, "")
    if used:
        show(use_table(used, _FEATURES_SHOWN))


def describe_model(model: Model) -> dict[str, Any]:
    """What is worth knowing of a model, as plain values."""
    from rankgrove.boosting.parameters import Parameters

    trees = [model.ensemble.tree(number) for number in range(model.n_trees)]
    known = "objective" in model.parameters
    plan = Parameters.from_json(model.parameters).resolve() if known else None
    return {
        "version": model.version,
        "objective": None if plan is None else plan.objective.name,
        "grower": None if plan is None else plan.trees.grower,
        "trees": model.n_trees,
        "leaves": len(model.ensemble.value),
        "most_leaves": max((tree.n_leaves for tree in trees), default=0),
        "depth": max(map(_depth, trees), default=0),
        "features": model.n_features,
        "feature_names": list(model.feature_names),
        "categorical": [model.feature_names[feature] for feature in model.schema.categories],
        "needs_base_scores": model.schema.needs_base_scores,
        "changed_parameters": _changed(model),
        "validation": _validation(model),
    }


def _depth(tree: Tree) -> int:
    """The most splits on a way from the root to a leaf."""
    depths = [0] * len(tree.feature)
    # Children stand after their parents.
    for split in range(len(depths) - 1, -1, -1):
        children = (int(tree.left[split]), int(tree.right[split]))
        depths[split] = 1 + max(depths[child] if child >= 0 else 0 for child in children)
    return depths[0] if depths else 0


def _changed(model: Model) -> dict[str, tuple[Any, Any]]:
    """The parameters that are not the defaults, each with its value and the default."""
    from rankgrove.boosting.parameters import Parameters

    usual = Parameters().as_json()
    given = model.parameters
    return {
        name: (given[name], usual[name])
        for name in usual
        if name in given and given[name] != usual[name]
    }


def _validation(model: Model) -> list[dict[str, Any]]:
    """For each validation set and metric its value at the last tree and the best one."""
    return [
        {
            "set": name,
            "metric": metric,
            "last": values[model.n_trees - 1],
            "best": max(values),
            "best_trees": values.index(max(values)) + 1,
        }
        for name, curves in model.history.items()
        for metric, values in curves.items()
        if len(values) >= model.n_trees > 0
    ]


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={entry}" for key, entry in value.items())
    return str(value)
