"""The section `slices`: how every two candidates differ in each group of queries."""

from __future__ import annotations

from typing import Any

from rankgrove.experiments.compare.comparison import Comparison, Pair
from rankgrove.experiments.tables import plain
from rankgrove.report.material import Material
from rankgrove.report.verdicts import verdict_word


def make_slices(material: Material) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """For each slicing and metric, the groups with every two candidates, compared two-sided.

    The p-values of all groups and pairs of a slicing are one family. Nothing is tested in a group
    of fewer than two counted queries.
    """
    return {
        slicing: {
            metric: _groups(material.comparison, slicing, metric)
            for metric in material.comparison.metrics
        }
        for slicing in material.comparison.slicings
    }


def _groups(comparison: Comparison, slicing: str, metric: str) -> list[dict[str, Any]]:
    found: list[tuple[str, int, dict[str, float | None], list[Pair]]] = []
    members = comparison.slicings[slicing].group_of
    for number, group in enumerate(comparison.by_slice(slicing, metric)):
        means = {row.name: plain(row.mean) for row in group.rows}
        pairs: list[Pair] = []
        if all(plain(row.low) is not None for row in group.rows):
            part = comparison.measured[metric].take(members == number)
            alone = Comparison({metric: part}, comparison.names, None, comparison.method)
            pairs = alone.pairs(metric)
        found.append((group.name, group.queries, means, pairs))
    tested = [pair.p for *_, pairs in found for pair in pairs]
    adjusted = iter(comparison.method.adjust(tested) if tested else [])
    level = comparison.method.level
    return [
        {
            "name": name,
            "queries": queries,
            "means": means,
            "pairs": [
                {key: plain(value) for key, value in pair._asdict().items()}
                | {"word": verdict_word(pair, level)}
                for pair in (pair._replace(adjusted=next(adjusted)) for pair in pairs)
            ],
        }
        for name, queries, means, pairs in found
    ]
