"""The section `verdicts`: for every two candidates, whether one is better, in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankgrove.experiments.compare.comparison import Comparison, Pair
from rankgrove.experiments.compare.significance import differences
from rankgrove.experiments.compare.tables import TEST_NAMES
from rankgrove.experiments.tables import plain, show_p
from rankgrove.report.material import Material

# A query is counted as harmed or helped from these changes on.
THRESHOLDS = (0.05, 0.1, 0.2, 0.5)
_WORDS = {
    "better": "{a} is better than {b}",
    "worse": "{a} is worse than {b}",
    "unclear": "{a} and {b} differ by no more than chance may do",
    "equal": "{a} and {b} are equal in every query",
}


def make_verdicts(material: Material) -> dict[str, list[dict[str, Any]]]:
    """For each metric, every two candidates in both directions; p-values are two-sided."""
    comparison = material.comparison
    found = {}
    for metric in comparison.metrics:
        pairs = comparison.pairs(metric)
        entries = [*pairs, *map(_turned, pairs)]
        found[metric] = [_verdict(comparison, metric, pair, len(pairs)) for pair in entries]
    return found


def _turned(pair: Pair) -> Pair:
    """The same two candidates the other way round; adding 0 turns a negative zero."""
    return pair._replace(
        a=pair.b, b=pair.a, difference=0.0 - pair.difference, low=0.0 - pair.high,
        high=0.0 - pair.low, effect=0.0 - pair.effect, wins=pair.losses, losses=pair.wins,
    )  # fmt: skip


def _verdict(comparison: Comparison, metric: str, pair: Pair, n_pairs: int) -> dict[str, Any]:
    values = comparison.per_query(metric)
    a, b = values[pair.a], values[pair.b]
    changes = differences(a, b).values
    means = {row.name: row.mean for row in comparison.summary(metric)}
    entry = {
        **{name: plain(value) for name, value in pair._asdict().items()},
        "skipped": int(np.isnan(a).sum()),
        "word": verdict_word(pair, comparison.method.level),
        "harm": [
            {
                "threshold": threshold,
                "losses": int((changes < -threshold).sum()),
                "wins": int((changes > threshold).sum()),
            }
            for threshold in THRESHOLDS
        ],
    }
    entry["sentence"] = _sentence(comparison, metric, entry, means, n_pairs)
    return entry


def verdict_word(pair: Pair, level: float) -> str:
    """What a pair comes to: "better", "worse", "unclear", or "equal" where no query differs."""
    if pair.wins == pair.losses == 0:
        return "equal"
    if pair.adjusted > level:
        return "unclear"
    return "better" if pair.difference > 0 else "worse"


def _sentence(
    comparison: Comparison, metric: str, entry: dict[str, Any], means: dict[str, float],
    n_pairs: int,
) -> str:  # fmt: skip
    verdict = _WORDS[entry["word"]].format(a=entry["a"], b=entry["b"])
    step = f"{metric} {means[entry['b']]:.4f} to {means[entry['a']]:.4f}"
    interval = f"{entry['low']:+.4f} to {entry['high']:+.4f}"
    p = show_p(entry["adjusted"])
    p = f"p {p.replace('<', '< ')}" if p.startswith("<") else f"p = {p}"
    method = comparison.method
    test = f"{TEST_NAMES[method.test]}, two-sided"
    if n_pairs > 1 and method.correction:
        test += f", Holm over {n_pairs} pairs"
    counts = f"{entry['wins']:,} queries better, {entry['ties']:,} equal, {entry['losses']:,} worse"
    skipped = f", {entry['skipped']:,} skipped" if entry["skipped"] else ""
    return (
        f"{verdict}: {step}, {entry['difference']:+.4f} ({interval}), {p} ({test}); "
        f"{counts}{skipped}."
    )
