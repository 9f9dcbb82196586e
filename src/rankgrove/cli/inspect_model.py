# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""What `rankgrove inspect` shows of a model."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrove.cli.console import count, heading, make_table, show, show_json
from rankgrove.cli.explain import feature_use, use_table
from rankgrove.cli.files import check_outputs, write_text
from rankgrove.cli.models import load_model
from rankgrove.errors import parameter, refusal

if TYPE_CHECKING:
    from rankgrove.model.base import ScoringModel

_FEATURES_SHOWN = 10
_LEVELS_SHOWN = 8
_LEVEL_LENGTH = 24


def inspect_model(path: Path, json: bool) -> None:
    """Show what is in a model file."""
    from rankgrove.model.base import PLAN
    from rankgrove.model.model import Model

    model = load_model(path)
    found = describe_model(model)
    used = feature_use(model) if isinstance(model, Model) else None
    size = path.stat().st_size
    if json:
        more: dict[str, Any] = {} if used is None else {"importance": used}
        notes = {name: value for name, value in model.notes.items() if name != PLAN}
        more |= {"parameters": model.parameters, "plan": plan_of(model), "notes": notes}
        show_json({"file": path, "bytes": size, **found, **more, "history": model.history})
        return
    sizes = [*_sizes(found, used), ("bytes", size, "")]
    rows = ([name, f"{number:,}", remark] for name, number, remark in sizes)
    show(heading(str(path)), "", make_table("", "number", "", rows=rows, numeric=1, header=False))
    show("")
    if found["needs_base_scores"]:
        show("It was trained on top of base scores, and needs them to score.", "")
    _show_parts(found)
    _show_members(model)
    _show_levels(found)
    _show_parameters(model, found)
    if found["validation"]:
        steps = "members" if model.n_members else "trees"
        steps = "epochs" if found["kind"] == "network" else steps
        table = make_table("validation", "metric", "at the end", "best", steps, numeric=2)
        for entry in found["validation"]:
            figures = (f"{entry['last']:.4f}", f"{entry['best']:.4f}", f"{entry['best_trees']:,}")
            table.add_row(entry["set"], entry["metric"], *figures)
        show(table, "")
    if used:
        show(use_table(used, _FEATURES_SHOWN))


def show_card(path: Path, out: Path | None, *, asked: bool) -> None:
    """Show the card of a model, or write it to a file."""
    from rankgrove.card import model_card

    if not asked:
        raise refusal("out", f"be given with {parameter('card')}", str(out))
    check_outputs([path], {"out": out})
    text = model_card(load_model(path), path.stem, path.name)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text)
        show(f"Wrote {out}: fill in the license and what the data were.")


def describe_model(model: ScoringModel) -> dict[str, Any]:
    """What is worth knowing of a model, as plain values."""
    from rankgrove.model.base import MEMBERS

    found = model.describe()
    if found["kind"] == "model":
        plan = plan_of(model)
        objective = plan.get("objective")
        name = objective["name"] if isinstance(objective, dict) else objective
        kinds = dict.fromkeys(member["objective"] for member in model.notes.get(MEMBERS, []))
        found |= {
            "objective": " and ".join(kinds) or name,
            "grower": plan.get("grower"),
            "changed_parameters": _changed(model),
        }
    return found | {"validation": _validation(model)}


def plan_of(model: ScoringModel) -> dict[str, Any]:
    """What its parameters came to; of an older file, what they come to now."""
    from rankgrove.boosting.parameters import Parameters
    from rankgrove.model.base import PLAN
    from rankgrove.training.network_parameters import FORCES_OF, NetworkParameters

    noted = model.notes.get(PLAN)
    objective = model.parameters.get("objective")
    if isinstance(noted, dict) or objective is None:
        return noted or {}
    is_network = isinstance(objective, str) and objective in FORCES_OF
    kind = NetworkParameters if is_network else Parameters
    return kind.from_json(model.parameters).resolve().as_json()


def _sizes(
    found: dict[str, Any], used: list[dict[str, Any]] | None
) -> Iterator[tuple[str, int, str]]:
    """How much there is of what, each with a remark."""
    maker = f"by Rankgrove {found['version']}"
    features = found["features"]
    if found["kind"] == "network":
        yield "weights", found["weights"], maker
        yield "epochs", found["epochs"], ""
        yield "features", features, f"as {found['inputs']:,} inputs"
        if found["base_trees"]:
            yield "trees", found["base_trees"], "below the network"
    elif found["kind"] == "combined":
        score = "the weighted sum of their scores" if found["weights"] else "under trees"
        yield "models", len(found["parts"]), f"{score}, {maker}"
        if found["weights"] is None:
            yield "trees", found["trees"], "on the scores of the models"
        yield "features", features, ""
    else:
        if found["objective"] is not None:
            maker = f"{found['grower']}, for {found['objective']}, {maker}"
        yield "trees", found["trees"], maker
        if found["base_trees"]:
            yield "base trees", found["base_trees"], "of them are of a base model"
        yield "leaves", found["leaves"], f"at most {found['most_leaves']:,} per tree"
        yield "depth", found["depth"], "at most"
        of_them = f"of which {len(used or ()):,} are used"
        if categorical := len(found["categorical"]):
            of_them += f" and {categorical:,} categorical"
        yield "features", features, of_them


def _show_levels(found: dict[str, Any]) -> None:
    """The categories that are no plain numbers, of each feature that has such."""
    rows = [
        [name, f"{len(levels):,}", _some([repr(level) for level in levels])]
        for name, levels in found.get("levels", {}).items()
    ]
    if rows:
        show(make_table("categorical", "levels", "", rows=rows, numeric=1), "")


def _some(levels: list[str]) -> str:
    """The first levels, shortened, and how many more there are."""
    shown = [f"{text[:_LEVEL_LENGTH]}…" if len(text) > _LEVEL_LENGTH else text for text in levels]
    more = len(levels) - _LEVELS_SHOWN
    return ", ".join(shown[:_LEVELS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _show_parts(found: dict[str, Any]) -> None:
    """The models of a combined one, with their weights where they have some."""
    if found["kind"] != "combined":
        return
    weights = found["weights"]
    table = make_table("model", "of", *([] if weights is None else ["weight"]), numeric=2)
    for number, part in enumerate(found["parts"]):
        is_network = part["kind"] == "network"
        size = count(part["weights"], "weight") if is_network else count(part["trees"], "tree")
        cells = [] if weights is None else [f"{weights[number]:.6g}"]
        table.add_row(str(number + 1), f"{'network, ' if is_network else ''}{size}", *cells)
    show(table, "")


def _show_members(model: ScoringModel) -> None:
    """The kinds of members of an average: how many, their share, and what folds said of each."""
    from rankgrove.model.base import MEMBERS
    from rankgrove.training.members import HELD_OUT

    members = model.notes.get(MEMBERS, [])
    if not members:
        return
    held_out = model.notes.get(HELD_OUT, {})
    kinds = dict.fromkeys([*held_out, *(member["objective"] for member in members)])
    metric = next((one["metric"] for one in held_out.values()), None)
    more = [] if metric is None else [f"{metric}, held out"]
    table = make_table("member", "models", "share", "steps", *more, numeric=1)
    for kind in kinds:
        own = [member for member in members if member["objective"] == kind]
        share = sum(member["share"] for member in own)
        steps = ", ".join(dict.fromkeys(f"{member['steps']:,}" for member in own))
        value = [f"{held_out[kind]['value']:.4f}"] if kind in held_out else []
        table.add_row(kind, str(len(own)), f"{share:.1%}", steps, *value)
    show(table, "")


def _show_parameters(model: ScoringModel, found: dict[str, Any]) -> None:
    """Of trees and averages the parameters that are not the defaults; of others all."""
    from rankgrove.importing.foreign import IMPORTED

    given, plan = model.parameters, plan_of(model)
    if found["kind"] != "model" and not model.n_members:
        _show_values("parameter", "value", rows=given.items())
    elif changed := _changed(model):
        rows = ((name, *values) for name, values in changed.items())
        _show_values("parameter", "value", "default", rows=rows)
    elif IMPORTED in model.notes:
        show(_origin(model.notes[IMPORTED]), "")
    else:
        show("All parameters are the defaults.", "")
    if model.n_members:
        return
    left_open = [(name, value) for name, value in plan.items() if given.get(name) == "auto"]
    _show_values("left to training", "came to", rows=left_open)


def _origin(told: Any) -> str:
    """Which library trained an imported model."""
    from rankgrove.testing.peers import PEERS

    if not isinstance(told, dict) or told.get("kind") not in PEERS:
        return "It was imported."
    title, checksum = PEERS[told["kind"]].title, str(told.get("sha256"))
    words = f"{told.get('version')}, {told.get('objective')}"
    return f"It was trained by {title} ({words}) and imported from a file of SHA-256 {checksum}."


def _show_values(*columns: str, rows: Iterable[tuple[Any, ...]]) -> None:
    table = make_table(*columns, rows=([name, *map(_shown, values)] for name, *values in rows))
    if table.row_count:
        show(table, "")


def _changed(model: ScoringModel) -> dict[str, tuple[Any, Any]]:
    """The parameters that are not the defaults, each with its value and the default."""
    from rankgrove.boosting.parameters import Parameters

    usual, chosen = Parameters().as_json(), model.parameters
    return {
        name: (chosen[name], default)
        for name, default in usual.items()
        if chosen.get(name, default) != default
    }


def _validation(model: ScoringModel) -> list[dict[str, Any]]:
    """For each validation set and metric its value after the last step kept, and the best one."""
    from rankgrove.training.measures import LOSSES

    found = []
    for name, finals in model.final_metrics().items():
        for metric, last in finals.items():
            values = model.history[name][metric]
            best = min(values) if metric in LOSSES else max(values)
            figures = {"last": last, "best": best, "best_trees": values.index(best) + 1}
            found.append({"set": name, "metric": metric, **figures})
    return found


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={entry}" for key, entry in value.items())
    return str(value)
