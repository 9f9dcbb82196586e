"""Makes what is made from the rules of parameters: docs/parameters.md, and the stub of estimators.

python tools/generate.py
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from rankgrove.boosting.parameters import OF_SOME, Parameters
from rankgrove.errors import RankgroveError
from rankgrove.estimators import signatures
from rankgrove.objectives.registry import OBJECTIVES
from rankgrove.rules import Option, options_of
from rankgrove.training.network_parameters import FORCES_OF, NetworkParameters
from rankgrove.training.recipe import RECIPE, Recipe

ROOT = Path(__file__).parents[1]

PAGE = """# Parameters

This page is made from the rules of the parameters by `python tools/generate.py`.

Every parameter is a keyword of [`Ranker`](reference.md), or of `RankNet` and `LambdaRank`; an
option of `rankgrove train`, `tune` and `cv`, as `--learning-rate 0.1`; and a name in a file for
`--params`. What is left to training is `auto`: `rankgrove train --json` and `rankgrove inspect`
show what it has come to.
"""

STUB = '''"""Made by `python tools/generate.py` from the rules of the parameters: edit those."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

from rankgrove.metrics.base import Metric
from rankgrove.objectives.base import Objective
'''


def parameters_page() -> str:
    of_trees, of_networks = options_of(Parameters), options_of(NetworkParameters)
    panels: dict[str, list[Option]] = {}
    for entry in of_trees.values():
        panels.setdefault(entry.rule.panel, []).append(entry)
    parts = [PAGE]
    for panel, entries in panels.items():
        parts.append(f"## {panel}\n\n{table(entries)}")
    several = (
        "Of `Ranker` and `rankgrove train`: how several models become one, see "
        "[Several models as one](members.md)."
    )
    parts.append(f"## {RECIPE}\n\n{several}\n\n{table(options_of(Recipe).values())}")
    names = " and ".join(f"`{name}`" for name in FORCES_OF)
    shared = [
        f"`{name}`" for name in of_networks if name in of_trees and name not in ("objective",)
    ]
    intro = (
        f"Of {names}. They also have {', '.join(shared)}, which mean what they mean for trees but "
        f"for these:"
    )
    own = [
        entry
        for name, entry in of_networks.items()
        if name not in of_trees or entry.default_text != of_trees[name].default_text
    ]
    parts.append(f"## Networks\n\n{intro}\n\n{table(own)}")
    return "\n".join(parts)


def table(entries: Iterable[Option]) -> str:
    rows = [["parameter", "may be", "by default", "meaning"], ["---"] * 4]
    for entry in entries:
        allowed = str(RankgroveError(entry.allowed))
        if allowed == entry.metavar:
            allowed = f"`{allowed}`"
        text = " ".join(filter(None, [entry.rule.help, entry.rule.more]))
        if entry.rule.panel == OF_SOME:
            owners = [name for name, kind in OBJECTIVES.items() if entry.name in options_of(kind)]
            text = f"{text} ({', '.join(owners)})"
        rows.append([f"`{entry.name}`", allowed, entry.default_text, text])
    lines = (" | ".join(cell.replace("|", r"\|") for cell in row) for row in rows)
    return "".join(f"| {line} |\n" for line in lines)


def signatures_stub() -> str:
    kinds = [
        kind
        for kind in vars(signatures).values()
        if isinstance(kind, type) and kind.__module__ == signatures.__name__
    ]
    return "\n".join([STUB, "\n\n".join(map(class_stub, kinds))])


def class_stub(kind: type) -> str:
    lines = [f"class {kind.__name__}:", "    def __init__(", "        self,"]
    by_name = False
    for name, entry in list(inspect.signature(kind).parameters.items()):
        if entry.kind is inspect.Parameter.KEYWORD_ONLY and not by_name:
            lines.append("        *,")
            by_name = True
        default = tuple(entry.default) if isinstance(entry.default, tuple) else entry.default
        shown = f'"{default}"' if isinstance(default, str) else repr(default)
        lines.append(f"        {name}: {type_text(entry.annotation)} = {shown},")
    return "\n".join([*lines, "    ) -> None: ...", ""])


def type_text(hint: Any) -> str:
    """A type as it is written.

    >>> type_text(int | Literal["all"] | None)
    'int | Literal["all"] | None'
    """
    if hint is Ellipsis:
        return "..."
    if hint in (None, NoneType):
        return "None"
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " | ".join(map(type_text, parts))
    if origin is Literal:
        return f"Literal[{', '.join(f'{chr(34)}{part}{chr(34)}' for part in parts)}]"
    if isinstance(hint, list):
        return f"[{', '.join(map(type_text, hint))}]"
    name = getattr(origin or hint, "__name__", str(hint))
    return f"{name}[{', '.join(map(type_text, parts))}]" if parts else name


GENERATED = {
    ROOT / "docs" / "parameters.md": parameters_page,
    ROOT / "src" / "rankgrove" / "estimators" / "signatures.pyi": signatures_stub,
}


if __name__ == "__main__":
    for path, make in GENERATED.items():
        path.write_text(make(), encoding="utf-8")
        print(path.relative_to(ROOT))
