"""Why a score is what it is: two documents side by side, and trees as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove.model.schema import Schema
from rankgrove.pictures.chart import Axis, Bars, Chart, Mark, Panel, Rule, Segments
from rankgrove.pictures.display import Picture
from rankgrove.pictures.palette import AXIS, DOWN, UP
from rankgrove.trees.ensemble import NO_SET, Ensemble, Tree

BASE_SCORE = "(base score)"

_SHOWN = 12
_LONGEST_LEVEL = 40


class Difference(NamedTuple):
    """What one feature does to the distance between two documents.

    Attributes
    ----------
    feature
        Its name.
    value_a, value_b
        Its value in either document, NaN where missing; a category as what it is.
    difference
        Its contribution to the score of a, less that to the score of b.
    total
        The sum of the differences up to and with this one.
    """

    feature: str
    value_a: Any
    value_b: Any
    difference: float
    total: float


@dataclass(frozen=True)
class Comparison:
    """Why document a stands above document b, or does not. Prints as a table.

    Attributes
    ----------
    a, b
        The rows of the documents.
    score_a, score_b
        Their scores.
    differences
        The features that move them apart, the strongest first; the last total is the difference
        of the scores. Base scores, where there are any, count as one more feature.
    """

    a: int
    b: int
    score_a: float
    score_b: float
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        lines = [self._verdict()]
        shown = self.differences[:_SHOWN]
        if not shown:
            return f"{lines[0]}\nNo feature tells them apart."
        width = max([len("feature"), *(len(row.feature) for row in shown)])
        lines.append(f"{'feature':<{width}}  {'in a':>10}  {'in b':>10}  {'a - b':>10}       total")
        for row in shown:
            values = f"{value_text(row.value_a):>10}  {value_text(row.value_b):>10}"
            lines.append(
                f"{row.feature:<{width}}  {values}  {row.difference:>+10.4g}  {row.total:>+10.4g}"
            )
        rest = len(self.differences) - len(shown)
        if rest:
            last = self.differences[-1].total
            left = last - shown[-1].total
            name = f"{rest} more"
            lines.append(f"{name:<{width}}  {'':>10}  {'':>10}  {left:>+10.4g}  {last:>+10.4g}")
        return "\n".join(lines)

    def plot(self, *, ax: Any = None) -> Picture:
        """A waterfall from no difference to that of the two scores, the strongest feature first.

        `ax` are axes of matplotlib to draw into.
        """
        shown = self.differences[:_SHOWN]
        names = [f"{row.feature}: {_sides(row)}" for row in shown]
        ends = [row.total for row in shown]
        if rest := len(self.differences) - len(shown):
            names.append(f"{rest} more")
            ends.append(self.differences[-1].total)
        starts = [0.0, *ends[:-1]]
        marks: list[Mark] = [Rule(0.0, dash=())]
        for sign, name, colour in ((1, "puts a above b", UP), (-1, "puts b above a", DOWN)):
            at = [n for n in range(len(ends)) if sign * (ends[n] - starts[n]) > 0]
            bars = ([float(n) for n in at], [ends[n] for n in at], [starts[n] for n in at])
            marks.append(Bars(*bars, name, colour, 0.6, lying=True))
        steps = range(len(ends) - 1)
        joints = [n + 0.3 for n in steps], [n + 0.7 for n in steps]
        marks.append(Segments(ends[:-1], joints[0], ends[:-1], joints[1], "", AXIS, (), 1.0))
        across = Axis("score of a less that of b", margin=0.05)
        down = Axis(names=names or [""], backwards=True)
        panel = Panel("", across, down, marks, 360, 24 * max(1, len(names)))
        return Picture(Chart([panel], "Why a stands above b", self._verdict())).drawn_into(ax)

    def _repr_svg_(self) -> str:
        return self.plot().to_svg()

    def _verdict(self) -> str:
        scores = f"the score of a is {self.score_a:.6g}, that of b {self.score_b:.6g}"
        names = f"document {self.a} (a)", f"document {self.b} (b)"
        if self.score_a > self.score_b:
            return f"{names[0]} stands above {names[1]}: {scores}."
        if self.score_a == self.score_b:
            return f"{names[0]} does not stand above {names[1]}, they are tied: {scores}."
        return f"{names[0]} does not stand above {names[1]}, but below it: {scores}."


def compare(
    rows: tuple[int, int],
    scores: NDArray[np.float64],
    names: tuple[str, ...],
    values: Sequence[Sequence[Any]],
    contributions: NDArray[np.float64],
) -> Comparison:
    """The comparison of two documents: of each array, entry or row 0 is of a, 1 of b."""
    gaps = contributions[0] - contributions[1]
    order = np.argsort(-np.abs(gaps), kind="stable")
    order = order[gaps[order] != 0]
    totals = np.cumsum(gaps[order])
    differences = tuple(
        Difference(names[i], values[0][i], values[1][i], float(gaps[i]), float(total))
        for i, total in zip(order.tolist(), totals, strict=True)
    )
    return Comparison(*rows, float(scores[0]), float(scores[1]), differences)


def tree_as_dict(ensemble: Ensemble, schema: Schema, number: int) -> dict[str, Any]:
    """One tree as nested plain values, the root outermost."""
    tree = ensemble.tree(number)
    nodes: list[dict[str, Any]] = [{}] * len(tree.feature)

    def node(child: int) -> dict[str, Any]:
        if child >= 0:
            return nodes[child]
        leaf = ~child
        return {"leaf": leaf, "value": float(tree.value[leaf]), "count": int(tree.count[leaf])}

    # Children stand after their parents, so from the end both sides are always ready.
    for split in range(len(nodes) - 1, -1, -1):
        left, right = node(int(tree.left[split])), node(int(tree.right[split]))
        nodes[split] = {
            "split": split,
            "feature": schema.feature_names[tree.feature[split]],
            **_rule(tree, schema, split),
            "missing": "left" if tree.missing_left[split] else "right",
            "gain": float(tree.gain[split]),
            "count": left["count"] + right["count"],
            "left": left,
            "right": right,
        }
    return nodes[0] if nodes else node(~0)


def describe_tree(ensemble: Ensemble, schema: Schema, number: int) -> str:
    """One tree as text, a line per node."""
    root = tree_as_dict(ensemble, schema, number)
    tree = ensemble.tree(number)
    leaves = f"{tree.n_leaves} {'leaf' if tree.n_leaves == 1 else 'leaves'}"
    lines = [f"tree {number}: {leaves}, {root['count']} documents"]
    waiting = [(0, "", root)]
    while waiting:
        depth, answer, node = waiting.pop()
        lines.append("  " * depth + answer + _node_text(node, tree))
        if "leaf" not in node:
            waiting.append((depth + 1, "no: ", node["right"]))
            waiting.append((depth + 1, "yes: ", node["left"]))
    return "\n".join(lines)


def _rule(tree: Tree, schema: Schema, split: int) -> dict[str, Any]:
    """What sends a document left: its threshold, or the categories."""
    number = int(tree.category_set[split])
    if number == NO_SET:
        return {"threshold": float(tree.threshold[split])}
    words = tree.category_sets[number]
    known = schema.named_categories[int(tree.feature[split])]
    return {"categories": [v for c, v in enumerate(known) if int(words[c // 32]) >> c % 32 & 1]}


def _node_text(node: dict[str, Any], tree: Tree) -> str:
    if "leaf" in node:
        return f"leaf {node['leaf']}: {node['value']:+.6g} ({node['count']} documents)"
    if "categories" in node:
        rule = f"in {{{', '.join(value_text(value) for value in node['categories'])}}}"
    else:
        # As few digits as tell the float32 apart.
        rule = f"<= {tree.threshold[node['split']]!s}"
    missing = "yes" if node["missing"] == "left" else "no"
    return (
        f"{node['feature']} {rule}? (missing: {missing}, gain {node['gain']:.6g}, "
        f"{node['count']} documents)"
    )


def _sides(row: Difference) -> str:
    """The values of a feature in both documents; a long level is shortened."""
    a, b = (value_text(value) for value in (row.value_a, row.value_b))
    return f"{a} in both" if a == b else f"{a} in a, {b} in b"


def value_text(value: Any) -> str:
    """A value of a feature to read: a number, a level, or that it is missing."""
    if isinstance(value, float):
        return "missing" if value != value else f"{value:.6g}"
    text = repr(value)
    return text if len(text) <= _LONGEST_LEVEL else f"{text[: _LONGEST_LEVEL - 1]}…"
