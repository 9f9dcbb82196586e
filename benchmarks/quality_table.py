"""The table of the comparison with other libraries, from kept scores, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks import quality_draws as draws
from benchmarks.common import table
from benchmarks.differences import SIGNIFICANT, Difference, Floats, drawn_difference
from benchmarks.kept_fits import Record, Sets
from benchmarks.quality_draws import AGAIN, COMMON, GIVEN, NETWORKS, OWN, STOP, Frame, Kept, Task
from benchmarks.quality_fits import (
    DEPTH,
    LEARNING_RATE,
    METRICS,
    N_LEAVES,
    PATIENCE,
    metric_names,
    top_grade,
)
from benchmarks.quality_hypotheses import (
    AVERAGED_TARGET,
    CHOICES,
    CLAIMED,
    FAMILY,
    N_AVERAGED,
    PEERS,
    RECIPE,
    SINGLE_TARGETS,
    TREATMENTS,
    Hypothesis,
    averaged,
    single,
)
from rankgrove.data.dataset import Dataset
from rankgrove.experiments.compare.significance import holm
from rankgrove.metrics.evaluate import evaluate
from rankgrove.model.members import centred

BY_HAND = "rankgrove, 3 lambdamart + 3 yetirank + 3 networks, averaged by hand"


class Members(NamedTuple):
    """Some seeds of a candidate, at their own stops or refitted."""

    candidate: str
    n_seeds: int
    kind: str = STOP
    model: str = STOP


class Row(NamedTuple):
    """A line of the table: the average of the members' scores, or the mean of their values."""

    name: str
    members: Sequence[Members]
    averages: bool

    @property
    def is_recipe(self) -> bool:
        return "effort" in draws.SINGLES[self.members[0].candidate].settings


def _single_rows() -> list[Row]:
    rows = []
    for treatment in TREATMENTS:
        for peer in PEERS:
            random = draws.SINGLES[f"{peer}, {treatment}"].random and treatment == COMMON
            members = Members(f"{peer}, {treatment}", draws.N_SINGLE if random else 1)
            rows.append(Row(single(peer, treatment), [members], averages=False))
    for key, one in draws.SINGLES.items():
        if one.ours and "effort" not in one.settings:
            n_seeds = draws.N_SINGLE if one.treatment == COMMON or key == NETWORKS else 1
            rows.append(Row(key, [Members(key, n_seeds)], averages=False))
    return rows


def _average_rows() -> list[Row]:
    rows = [
        Row(averaged(peer, number), [Members(draws.member_of(peer), number)], averages=True)
        for number in (draws.N_SINGLE, N_AVERAGED) for peer in PEERS
    ]  # fmt: skip
    for number in (draws.N_SINGLE, N_AVERAGED):
        for peer in PEERS:
            member = draws.member_of(peer)
            for model, title in (
                (GIVEN, f"{draws.REFIT_TREES} trees"),
                (STOP, "trees of the stop"),
            ):
                again = Members(member, number, AGAIN, model)
                name = f"{averaged(peer, number)}, refit on train and vali, {title}"
                rows.append(Row(name, [again], averages=True))
    networks = Members(NETWORKS, draws.N_SINGLE)
    for peer in ("catboost YetiRank", "catboost QueryRMSE", "lightgbm lambdarank"):
        member = draws.member_of(peer)
        for number in (draws.N_SINGLE, N_AVERAGED - draws.N_SINGLE):
            name = f"{averaged(peer, number)} with our 3 networks"
            rows.append(Row(name, [Members(member, number), networks], averages=True))
        again = Members(member, draws.N_SINGLE, AGAIN, GIVEN)
        name = f"{averaged(peer, draws.N_SINGLE)}, refit, with our 3 networks"
        rows.append(Row(name, [again, networks], averages=True))
    return rows


def _our_averages() -> list[Row]:
    kinds = {name: Members(f"rankgrove {name}, {COMMON}", draws.N_SINGLE)
             for name in ("lambdamart", "yetirank")}  # fmt: skip
    kinds["networks"] = Members(NETWORKS, draws.N_SINGLE)
    rows = [Row(f"rankgrove, 3 {name} averaged", [each], averages=True)
            for name, each in kinds.items()]  # fmt: skip
    return [*rows, Row(BY_HAND, list(kinds.values()), averages=True)]


def all_rows() -> list[Row]:
    """The recipe first, then single models, then averages."""
    efforts = [
        Row(f"rankgrove, effort {effort}", [Members(draws.recipe_of(effort), 1)], averages=False)
        for effort in draws.EFFORTS[::-1]
    ]
    return [*efforts, *_our_averages(), *_single_rows(), *_average_rows()]


def refit_rows(peer: str) -> list[Row]:
    """The recipe, and averages of a peer without and with a last fit to all labels."""
    networks, number = Members(NETWORKS, draws.N_SINGLE), draws.N_SINGLE
    member = Members(draws.member_of(peer), number)
    wanted = {
        (member,), (member, networks),
        *((member._replace(kind=AGAIN, model=model),) for model in (GIVEN, STOP)),
        (member._replace(kind=AGAIN, model=GIVEN), networks),
    }  # fmt: skip
    return [
        row
        for row in all_rows()
        if row.name == RECIPE or (row.averages and tuple(row.members) in wanted)
    ]


def average(members: Sequence[Kept], test: Dataset) -> Floats:
    """Scores centred in each query and divided by their spread in training, added up.

    A member that scores all training documents of each query the same has no spread and adds
    nothing.
    """
    found = [centred(one.scores, test.offsets) / one.spread for one in members if one.spread > 0]
    total: Floats = np.sum(found, axis=0) if found else np.zeros(test.n_documents)
    return total


class Measured(NamedTuple):
    """A row's values by set and metric (by draw and query), CPU seconds of a fold, and models."""

    values: Mapping[tuple[str, str], Floats]
    seconds: float
    n_models: float = 1


class Measuring:
    """Measures rows from kept fits."""

    def __init__(self, sets: Sets, frame: Frame, found: Mapping[Task, Record]) -> None:
        self.sets, self.frame, self.found = sets, frame, found
        self.tops = {name: top_grade(splits) for name, splits in sets.items()}

    def tasks_of(self, row: Row) -> list[list[Task]] | None:
        """By members, the fits of a row; None if one is missing."""
        found = []
        for each in row.members:
            one = draws.SINGLES[each.candidate]
            wanted = draws.Wanted(each.candidate, each.kind, range(each.n_seeds))
            tasks = draws.tasks_of(wanted, self.frame, self.found)
            n_seeds = each.n_seeds if one.random else 1
            whole = n_seeds * len(self.frame.draws) * sum(self.frame.folds.values())
            if len(tasks) < whole or not all(task in self.found for task in tasks):
                return None
            found.append(tasks)
        return found

    def measure(self, row: Row) -> Measured | None:
        """The values of a row; None where fits are missing."""
        tasks = self.tasks_of(row)
        if tasks is None:
            return None
        by_place: dict[tuple[str, int, int], list[Kept]] = {}
        seconds = dict.fromkeys(self.sets, 0.0)
        for each, own in zip(row.members, tasks, strict=True):
            for task in own:
                record = self.found[task]
                kept = Kept.from_json(record["models"][each.model])
                by_place.setdefault((task.set_name, task.draw, task.fold), []).append(kept)
                seconds[task.set_name] += record["seconds"]
        per_fold = np.mean([
            seconds[name] / (n_folds * len(self.frame.draws))
            for name, n_folds in self.frame.folds.items()
        ])  # fmt: skip
        n_fits = len(next(iter(by_place.values())))
        n_models = float(n_fits if row.averages else 1)
        if row.is_recipe:
            n_models = float(np.mean([kept.n_trees for own in by_place.values() for kept in own]))
            # One model says how many trees it has.
            n_models = 1.0 if row.members[0].candidate == draws.recipe_of("low") else n_models
        seconds_a_row = float(per_fold) / (1 if row.averages else n_fits)
        return Measured(self._values(row, by_place), seconds_a_row, n_models)

    def _values(
        self, row: Row, by_place: Mapping[tuple[str, int, int], list[Kept]]
    ) -> dict[tuple[str, str], Floats]:
        values: dict[tuple[str, str], Floats] = {}
        for name, splits in self.sets.items():
            names = metric_names(self.tops[name])
            by_draw: dict[str, list[Floats]] = {metric: [] for metric in METRICS}
            for draw in self.frame.draws:
                folds: dict[str, list[Floats]] = {metric: [] for metric in METRICS}
                for fold, split in enumerate(splits):
                    kept = by_place[name, draw, fold]
                    scored = [average(kept, split.test)] if row.averages else [
                        one.scores for one in kept
                    ]  # fmt: skip
                    figures = [evaluate(split.test, scores, list(names.values()), n_jobs=1)
                               for scores in scored]  # fmt: skip
                    for metric, own in names.items():
                        folds[metric].append(np.mean([one.per_query(own) for one in figures], 0))
                for metric in METRICS:
                    by_draw[metric].append(np.concatenate(folds[metric]))
            for metric in METRICS:
                values[name, metric] = np.array(by_draw[metric])
        return values


class Tested(NamedTuple):
    """A hypothesis with its difference, None where rows are missing, and Holm's p-value."""

    hypothesis: Hypothesis
    difference: Difference | None
    adjusted: float

    @property
    def holds(self) -> bool:
        """Ours is above beyond Holm."""
        found = self.difference
        return found is not None and found.mean > 0 and self.adjusted < SIGNIFICANT

    @property
    def reaches(self) -> bool:
        return self.difference is not None and self.difference.mean >= self.hypothesis.target


class Comparison:
    """All rows that have their fits, and what is asked of them."""

    def __init__(self, measured: Mapping[str, Measured], sets: Sequence[str]) -> None:
        self.measured, self.sets = measured, list(sets)

    def mean(self, name: str, metric: str, of_set: str | None = None) -> float:
        sets = self.sets if of_set is None else [of_set]
        values = self.measured[name].values
        return float(np.mean([np.nanmean(values[each, metric]) for each in sets]))

    def less(self, one: str, other: str, metric: str, of_set: str | None = None) -> Difference:
        """The mean over sets, or on one, of the first less the second."""
        sets = self.sets if of_set is None else [of_set]
        first, second = self.measured[one].values, self.measured[other].values
        return drawn_difference((first[each, metric], second[each, metric]) for each in sets)

    def test(self, family: Sequence[Hypothesis] = FAMILY) -> list[Tested]:
        found = [
            self.less(each.ours, each.theirs, each.metric)
            if {each.ours, each.theirs} <= self.measured.keys() else None
            for each in family
        ]  # fmt: skip
        adjusted = holm([1.0 if each is None else each.p_value for each in found])
        return [Tested(*each) for each in zip(family, found, adjusted.tolist(), strict=True)]


def _shown_p(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def family_table(tested: Sequence[Tested]) -> str:
    rows = []
    for hypothesis, found, adjusted in tested:
        cells = [hypothesis.theirs, hypothesis.metric, f"{hypothesis.target:+.3f}"]
        if found is None:
            rows.append([*cells, "not tested", "", "1", "1"])
        else:
            rows.append([*cells, str(found), found.interval, _shown_p(found.p_value),
                         _shown_p(adjusted)])  # fmt: skip
    header = ("less", "metric", "target", "difference", "95 % interval", "p", "p, Holm")
    return f"`{RECIPE}` less each:\n\n{table(header, rows)}"


def _claim(title: str, tested: Sequence[Tested]) -> str:
    known = [each for each in tested if each.difference is not None]
    if not known:
        return f"- {title}: not tested."
    least = min(known, key=lambda each: each.difference.mean if each.difference else 0.0)
    above = sum(each.holds for each in tested)
    reached = sum(each.reaches for each in tested)
    verdict = "shown" if above == reached == len(tested) else "not shown"
    return (
        f"- {title}: **{verdict}**. Of {len(tested)} differences {above} are above 0 beyond Holm "
        f"and {reached} reach the target; {len(tested) - len(known)} could not be tested. The "
        f"least is {least.difference} to `{least.hypothesis.theirs}`."
    )


def claims(tested: Sequence[Tested]) -> str:
    """What can be said of each target."""
    singles = {single(peer, treatment) for peer in PEERS for treatment in TREATMENTS}
    lines = [
        _claim(f"above every single model of a peer by {SINGLE_TARGETS[metric]:+.3f} {metric}",
               [each for each in tested if each.hypothesis.metric == metric
                and each.hypothesis.theirs in singles])
        for metric in CLAIMED
    ]  # fmt: skip
    lines.append(
        _claim(f"above every peer with {N_AVERAGED} models averaged by {AVERAGED_TARGET:+.3f} "
               "NDCG@10", [each for each in tested if each.hypothesis.theirs not in singles])
    )  # fmt: skip
    return "\n".join(lines)


def main_table(compared: Comparison, rows: Sequence[Row], reference: str | None) -> str:
    lines = []
    for row in rows:
        cells = [row.name, f"{compared.measured[row.name].n_models:.3g}"]
        cells += [f"{compared.mean(row.name, metric):.4f}" for metric in METRICS]
        cells.append(f"{compared.measured[row.name].seconds:.1f}")
        if reference is not None:
            cells += [
                "" if row.name == reference else str(compared.less(reference, row.name, metric))
                for metric in CLAIMED
            ]
        lines.append(cells)
    header = ["", "models", *METRICS, "CPU s a fold"]
    if reference is not None:
        header += [f"`{reference}` less it, {metric}" for metric in CLAIMED]
    return table(header, lines)


def sets_table(compared: Comparison, rows: Sequence[Row], metric: str) -> str:
    lines = [
        [row.name, *(f"{compared.mean(row.name, metric, each):.4f}" for each in compared.sets)]
        for row in rows
    ]
    return table(["", *compared.sets], lines)


def protocol(frame: Frame, n_sets: int) -> str:
    n_folds = max(frame.folds.values())
    return (
        f"{n_sets} data sets in {n_folds} fold{'s' * (n_folds > 1)} each; of each fold "
        f"{len(frame.draws)} draws of {100 * draws.DRAWN_SHARE:.0f} % of its training queries, by "
        f"a hash of draw and query, the same for all, with seeds of their own. The validation part "
        f"stops, the test part is measured. One thread a fit. The value of a query is its mean "
        f"over draws and, for single models of the treatment `{COMMON}` and networks, over up to "
        f"{draws.N_SINGLE} seeds. The error of a difference has two parts, whose squares are "
        f"added: over queries, and over draws; degrees of freedom are Satterthwaite's. Draws "
        f"overlap, so that the second part is less than what a training set of other queries would "
        f"do. All sets weigh the same.\n\n"
        f"`{COMMON}`: rate {LEARNING_RATE}, at most {frame.most} trees, stopped when "
        f"Rankgrove's NDCG@10 on the validation part has not improved for {PATIENCE} trees; "
        f"oblivious trees of depth {DEPTH} (CatBoost, Rankgrove) or leaf-wise ones of "
        f"{N_LEAVES} leaves (LightGBM, XGBoost), all else as each library has it. "
        f"`{OWN}`: rate, depth, regularisation and number of trees are each library's own: "
        f"CatBoost at most 1,000 trees of depth 6 at 0.03 with `l2_leaf_reg` 3; LightGBM at most "
        f"100 of 31 leaves at 0.1; XGBoost at most 100 of depth 6 at 0.3 with `lambda` 1 and "
        f"`min_child_weight` 1; Rankgrove at most 100 at 0.1, oblivious of depth 6, for LambdaMART "
        f"leaf-wise of 31. No library stops early unless asked: all are asked, by the same "
        f"metric and patience. XGBoost's Hessian has a factor of 2, so that at the same rate its "
        f"steps are about half as long; it is `rank:ndcg` with the pair methods `topk`, its "
        f"default, and `mean`, which its guide advises for small data. The network is that of "
        f"docs/networks.md, stopped after {draws.NETWORK_PATIENCE} epochs without a better "
        f"NDCG@10.\n\n"
        f"An average adds scores that are centred in each query and divided by their spread on the "
        f"training documents; members stop apart. LightGBM and XGBoost, also with "
        f"`lambdarank_pair_method=mean`, give the same model for every seed, so members of their "
        f"averages may split by {100 * draws.FEATURE_SHARE:.0f} % of the features in each tree. A "
        f"refit is trained on the draw and the validation part together, with "
        f"{min(draws.REFIT_TREES, frame.most)} trees at rate {LEARNING_RATE} or as many as "
        f"the early stop kept; its time is without that of the early stop. Networks are not "
        f"refitted. MRR and ERR are shown and nothing is claimed of them: a single draw moves them "
        f"by more than what divides the rows."
    )


def refits_body(
    peer: str, sets: Sets, frame: Frame, found: Mapping[Task, Record], n_cpu_s: float
) -> str:
    """A section of its own: what a last fit to all labels does for a peer, beside the recipe."""
    measuring, rows = Measuring(sets, frame, found), refit_rows(peer)
    measured = {row.name: each for row in rows if (each := measuring.measure(row)) is not None}
    if len(measured) < len(rows):
        missing = [row.name for row in rows if row.name not in measured]
        raise SystemExit(f"fits are missing: {'; '.join(missing)}.")
    compared = Comparison(measured, list(sets))
    plain, refitted = averaged(peer, draws.N_SINGLE), f"{draws.REFIT_TREES} trees"
    again = next(row.name for row in rows if row.name.endswith(refitted))
    return (
        f"The protocol is that of Quality on real data, with {len(frame.draws)} draws; none of "
        f"these differences is in its family of hypotheses. The last fit with {refitted} less the "
        f"average without it: NDCG@10 {compared.less(again, plain, 'NDCG@10')}, MAP "
        f"{compared.less(again, plain, 'MAP')}. In all {n_cpu_s / 3600:.1f} hours of CPU.\n\n"
        f"{main_table(compared, rows, RECIPE)}"
    )


def body_of(sets: Sets, frame: Frame, found: Mapping[Task, Record], recipe: bool) -> str:
    """The section: protocol, claims, family, tables."""
    measuring, rows = Measuring(sets, frame, found), all_rows()
    measured = {row.name: each for row in rows if (each := measuring.measure(row)) is not None}
    if not measured:
        raise SystemExit("no row of the table has all of its fits.")
    compared = Comparison(measured, list(sets))
    there = [row for row in rows if row.name in measured]
    missing = [row.name for row in rows if row.name not in measured]
    reference = next((name for name in (RECIPE, BY_HAND) if name in measured), None)
    tested = compared.test()
    n_shown = len(there) * len(METRICS) * (1 + len(sets))
    notes = [f"Left out, as fits are missing: {'; '.join(missing)}."] if missing else []
    if not recipe:
        notes.append("This Rankgrove has no `effort`: nothing of the family could be tested.")
    return "\n\n".join([
        protocol(frame, len(sets)),
        f"### What it says\n\n{claims(tested)}\n\n"
        f"The family of {len(tested)} hypotheses was committed before the run. Besides it the "
        f"tables have {n_shown} means (rows, metrics, sets and the mean of sets), which anyone may "
        f"compare: such a comparison is a look, not a test.",
        *notes,
        "What was chosen by which data:\n\n" + "\n".join(f"- {line}" for line in CHOICES),
        f"### The family\n\n{family_table(tested)}",
        f"### All rows, mean of the sets\n\n{main_table(compared, there, reference)}",
        *(f"### {metric} of each set\n\n{sets_table(compared, there, metric)}"
          for metric in METRICS),
    ])  # fmt: skip
