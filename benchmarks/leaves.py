"""The study of leaf values, docs/leaves.md: what it says, and its picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from benchmarks.common import table
from benchmarks.differences import MEAN, SIGNIFICANT, Difference, Floats, differences_of_sets
from benchmarks.runner import PATIENCE, Runner
from benchmarks.study import Outcome, Study, Variant, measured_by, other_seeds
from rankgrove.pictures.chart import Axis, Chart, Mark, Panel, Points, Rule, Segments
from rankgrove.pictures.palette import candidate
from rankgrove.pictures.svg import draw

NEWTON = "newton"
OTHER_LEAVES = ("newton_cross_leaf", "mean")
OBJECTIVES: dict[str, dict[str, Any]] = {
    name: {"objective": name, "grower": "leafwise"}
    for name in ("lambdamart", "rankmart", "yetirank", "yetiloss")
}
# As published.
OBJECTIVES["yetiloss"]["neighbours"] = 1

ALL = "all objectives"
# By objective, leaf and data set: the difference to `newton`.
Effects = dict[str, dict[str, dict[str, Difference]]]


def study_leaves(runner: Runner) -> dict[str, Study]:
    """Each pairwise objective with each value of `leaf`."""
    leaves = [Variant("leaf", leaf, {"leaf": leaf}) for leaf in OTHER_LEAVES]
    return runner.studies(
        OBJECTIVES, {title: [*other_seeds(100, 200), *leaves] for title in OBJECTIVES}
    )


def _outcome(study: Study, title: str) -> Mapping[str, Outcome]:
    titles = [variant.title for variant in study.variants]
    return study.default if title == NEWTON else study.outcomes[titles.index(title)]


def _mean_values(studies: Iterable[Study], title: str, name: str) -> Floats:
    mean: Floats = np.mean([_outcome(study, title)[name].values for study in studies], axis=0)
    return mean


def effects_of(studies: Mapping[str, Study]) -> Effects:
    """Also for all objectives, by the mean of each query over them; other seeds count as leaves."""
    groups = {title: [study] for title, study in studies.items()}
    groups[ALL] = list(studies.values())
    effects: Effects = {}
    for title, group in groups.items():
        effects[title] = {}
        for other in (variant.title for variant in group[0].variants):
            effects[title][other] = differences_of_sets(
                *({name: _mean_values(group, leaf, name) for name in group[0].folds}
                  for leaf in (other, NEWTON))
            )  # fmt: skip
    return effects


def _noise(found: Mapping[str, Mapping[str, Difference]]) -> float:
    """What other seeds alone move."""
    return max(abs(by[MEAN].mean) for name, by in found.items() if name not in OTHER_LEAVES)


def leaf_answer(effects: Effects, leaf: str) -> str:
    """Whether a leaf is told from `newton`: by p and by what other seeds alone move."""
    of_all = effects[ALL]
    whole = of_all[leaf][MEAN]
    noise = _noise(of_all)
    told = whole.p_value < SIGNIFICANT and abs(whole.mean) > noise
    if told:
        start = f"`{leaf}` is {'better' if whole.mean > 0 else 'worse'} than `{NEWTON}`"
        end = ""
    else:
        start = f"These data can't tell `{leaf}` from `{NEWTON}`"
        end = " That is not to say that they are equal: all in the interval may be true."
    singles = {title: found[leaf] for title, found in effects.items() if title != ALL}
    strict = SIGNIFICANT / (len(singles) * len(OTHER_LEAVES))
    apart = [
        f"{title} ({found[MEAN].mean:+.4f}, {found[MEAN].p})"
        for title, found in singles.items()
        if found[MEAN].p_value < strict and abs(found[MEAN].mean) > _noise(effects[title])
    ]
    looks = [by for found in singles.values() for name, by in found.items() if name != MEAN]
    outside = [by.mean > 0 for by in looks if by.p_value < SIGNIFICANT]
    return (
        f"{start}: over all objectives and data sets the difference in NDCG@10 is "
        f"{whole.mean:+.4f}, 95 % interval {whole.interval}, {whole.p}; other seeds "
        f"alone move it by up to {noise:.4f}.{end} Single objectives with p below "
        f"{SIGNIFICANT} / {len(singles) * len(OTHER_LEAVES)}, as there are so many of them, and "
        f"more than their seeds move: {', '.join(apart) or 'none'}. Of {len(looks)} pairs of an "
        f"objective and a data set, p is below {SIGNIFICANT} in {len(outside)} "
        f"({sum(outside)} better, {len(outside) - sum(outside)} worse); "
        f"{SIGNIFICANT * len(looks):.1f} can be expected by chance."
    )


def _trees(studies: Iterable[Study], leaf: str) -> list[int]:
    return [n for study in studies for out in _outcome(study, leaf).values() for n in out.n_trees]


def _table_of_leaves(study: Study | None, found: Mapping[str, Mapping[str, Difference]]) -> str:
    """Data sets by leaves; of all objectives together there is no study."""
    header = ["data set"] + ([] if study is None else [f"{NEWTON}: NDCG@10", "trees"])
    for leaf in OTHER_LEAVES:
        header += [f"{leaf} less {NEWTON}", "95 % interval", "p"]
        header += [] if study is None else ["trees"]
    rows = []
    for name in found[OTHER_LEAVES[0]]:
        cells = [name]
        for leaf in (NEWTON, *OTHER_LEAVES):
            if leaf != NEWTON:
                by = found[leaf][name]
                cells += [f"{by.mean:+.4f}", by.interval, by.p.removeprefix("p ")]
            if study is not None:
                outcome = _outcome(study, leaf)
                chosen = list(outcome.values()) if name == MEAN else [outcome[name]]
                means = [float(np.nanmean(out.values)) for out in chosen]
                trees = np.mean([np.mean(out.n_trees) for out in chosen])
                cells += [f"{np.mean(means):.4f}"] if leaf == NEWTON else []
                cells.append(f"{trees:.0f}")
        rows.append(cells)
    return table(header, rows)


def leaves_page(studies: Mapping[str, Study], runner: Runner, command: str) -> str:
    effects = effects_of(studies)
    trees = []
    for leaf in (NEWTON, *OTHER_LEAVES):
        counts = np.array(_trees(studies.values(), leaf))
        full = np.mean(counts + PATIENCE > runner.most)
        trees.append(
            f"`{leaf}` keeps {counts.mean():.0f} trees in the mean (median "
            f"{np.median(counts):.0f}), and {100 * full:.0f} % of its models were not stopped "
            f"before the last tree"
        )
    tables = [
        f"### {title}\n\n{_table_of_leaves(studies.get(title), found)}"
        for title, found in effects.items()
    ]
    seeds = [name for name in effects[ALL] if name not in OTHER_LEAVES]
    rows = [
        (title, *(f"{found[name][MEAN].mean:+.4f}, {found[name][MEAN].interval}"
                  for name in seeds))
        for title, found in effects.items()
    ]  # fmt: skip
    return (
        "# Does the exact Newton step matter?\n\n"
        "The Newton step of a leaf divides the sum of forces by the sum of curvatures. A pair "
        "whose documents share the leaf has no curvature, as both move alike, but `newton` "
        "counts it, as LambdaMART usually does; `newton_cross_leaf` does not. Tunys "
        "(LambdaMART Demystified, 2015), who derived it, writes that the significance is unknown "
        "to him. `mean` is the mean force, without curvatures. For all three, splits are chosen "
        "by the same rule and regularisation is the default: `l2`, or `l2_documents` times the "
        "mean of what is divided by, is added to the sum.\n\n"
        f"{runner.how()}\n\n"
        "The p-values are of paired t-tests over queries and are not adjusted; the mean of the "
        "sets weighs all data sets equally (Welch). For all objectives together, the values of a "
        "query are averaged over the objectives first.\n\n"
        f"{measured_by(command, runner.store.version)}\n\n"
        "## What it says\n\n"
        + "\n\n".join(leaf_answer(effects, leaf) for leaf in OTHER_LEAVES)
        + f"\n\n{'; '.join(trees)}.\n\n"
        "## The figures\n\n"
        + "\n\n".join(tables)
        + f"\n\n### Other seeds alone\n\nThe mean of the sets, `{NEWTON}` at other seeds less "
        f"`{NEWTON}`.\n\n{table(('objective', *seeds), rows)}\n"
    )


def leaves_chart(effects: Effects) -> Chart:
    """The differences to `newton`, a panel per objective and a row per data set."""
    ends = [
        abs(end)
        for found in effects.values()
        for leaf in OTHER_LEAVES
        for by in found[leaf].values()
        for end in (by.low, by.high)
    ]
    reach = 1.05 * max(*ends, 1e-4)
    panels = []
    for title, found in effects.items():
        names = list(found[OTHER_LEAVES[0]])
        marks: list[Mark] = [Rule(0.0, dash=())]
        for number, leaf in enumerate(OTHER_LEAVES):
            look, by = candidate(number), list(found[leaf].values())
            y = [row + (0.2 if number else -0.2) for row in range(len(names))]
            low, high = [one.low for one in by], [one.high for one in by]
            marks.append(Segments(low, y, high, y, "", look.colour, (), 2.0))
            marks.append(Points([one.mean for one in by], y, leaf, look.colour, look.shape, 4.0))
        down = Axis(names=names, backwards=True)
        panels.append(Panel(title, Axis("", -reach, reach), down, marks, 250, 26 * len(names)))
    label = "Differences in NDCG@10 of two values of leaf to newton, by objective and data set"
    note = f"NDCG@10 less that of leaf={NEWTON}, with 95 % intervals; right of 0 is better"
    return Chart(panels, label, note, columns=2)


def draw_leaves(effects: Effects) -> str:
    """The picture as SVG."""
    return draw(leaves_chart(effects))
