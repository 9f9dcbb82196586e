from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from benchmarks.leaves import (
    ALL,
    MEAN,
    OBJECTIVES,
    OTHER_LEAVES,
    draw_leaves,
    effects_of,
    leaf_answer,
    leaves_chart,
    leaves_page,
    study_leaves,
)
from benchmarks.neighbours import BASES as YETILOSS
from benchmarks.neighbours import neighbours_page, study_neighbours
from benchmarks.options import (
    BASES,
    TOGETHER,
    best_alone,
    options_page,
    study_options,
    variants_of,
)
from benchmarks.runner import Runner
from benchmarks.study import Fitted, Store, is_default

from rankgrove.estimators.ranker import Ranker
from rankgrove.pictures.chart import Points

FOLDS = {"one": 2, "two": 2}


def runner_of(gains, over_seeds=False):
    """A runner whose fits are noise, and what the gains of their parameters add."""

    def run(jobs, store):
        for job in store.missing(jobs):
            random = np.random.default_rng([list(FOLDS).index(job.name), job.fold])
            values = 0.5 + 0.1 * random.standard_normal(50)
            # Pairs differ a little by themselves, and the more so the later the seed.
            own = np.random.default_rng(len(job.key("")) + job.seed).standard_normal(50)
            values += 0.002 * (own - own.mean())
            values += sum(gains.get(item, 0.0) for item in job.values.items())
            store.add(job, Fitted(values, 480 if ("leaf", "mean") in job.values.items() else 20), 1)

    return Runner(Store(None, "a"), FOLDS, range(2), 500, run, over_seeds=over_seeds)


@pytest.mark.parametrize("title", BASES)
def test_every_variant_is_one_that_training_takes(title):
    base = BASES[title]
    variants = variants_of(base)
    for variant in variants:
        Ranker(**{**base, **variant.values}).parameters()
    assert len({variant.title for variant in variants}) == len(variants)
    assert not any(variant.first_seed for variant in variants)
    # What is tried at several values is among them at its default, but for LambdaMART's l2.
    defaults = {variant.factor for variant in variants if is_default(variant, base)}
    assert defaults >= {"bootstrap", "split_noise", "min_samples_leaf", TOGETHER}
    assert ("l2" in defaults) is (title != "lambdamart, leafwise")


def test_the_best_values_alone_are_put_together():
    gains = {("split_noise", 0.5): 0.02, ("split_noise", 2.0): 0.01, ("leaf_steps", 2): 0.03,
             ("colsample", 0.8): -0.02}  # fmt: skip
    studies = study_options(runner_of(gains))
    last = {title: study.variants[-1] for title, study in studies.items()}
    for variant in last.values():
        assert variant.values["split_noise"] == 0.5
        assert variant.values["leaf_steps"] == 2
        assert "colsample" not in variant.values


def test_one_good_option_alone_is_not_put_together():
    gains = {(name, value): -0.1 for base in BASES.values() for variant in variants_of(base)
             for name, value in variant.values.items()}  # fmt: skip
    gains["leaf_steps", 4] = 0.03
    studies = study_options(runner_of(gains))
    assert [best_alone(study) for study in studies.values()] == [None] * len(BASES)


def test_a_variant_has_the_seeds_of_its_base_and_what_seeds_move_is_in_its_error():
    gains = {("colsample", 0.8): 0.01}
    asked, of_queries = [], runner_of(gains)
    over_seeds = runner_of(gains, over_seeds=True)
    fit = over_seeds.run
    over_seeds.run = lambda jobs, store: (asked.extend(jobs := list(jobs)), fit(jobs, store))
    title, only = "yetirank, oblivious", ["colsample=0.8"]
    (study,) = study_options(over_seeds, bases=[title], only=only).values()
    (plain,) = study_options(of_queries, bases=[title], only=only).values()
    seeds = {colsample: {job.seed for job in asked if job.values.get("colsample", 1.0) == colsample}
             for colsample in (0.8, 1.0)}  # fmt: skip
    assert seeds[0.8] == seeds[1.0] == {0, 1}
    assert [variant.title for variant in study.variants] == only
    by, less = (each.overall(each.outcomes[0]) for each in (study, plain))
    assert by.mean == pytest.approx(less.mean)
    of_seeds = [
        np.mean(study.outcomes[0][name].by_seed - study.default[name].by_seed, axis=1).var(ddof=1)
        for name in FOLDS
    ]
    assert by.error**2 == pytest.approx(less.error**2 + sum(of_seeds) / 2 / len(FOLDS) ** 2)


def test_the_page_of_options_names_what_gains_in_several_models():
    gains = {("leaf_steps", 4): 0.05, ("colsample", 0.8): -0.05}
    runner = runner_of(gains)
    page = options_page(study_options(runner), runner, "the command")
    first = page.split("## What it says")[1].split("###")[0]
    assert "`leaf_steps=4` (4)" in first.split("Worse:")[0]
    assert "`colsample=0.8` (4)" in first.split("Worse:")[1]
    assert "commit a" in page
    assert "`the command`" in page


def test_a_leaf_that_loses_is_called_worse_and_one_that_does_not_is_not_told_apart():
    effects = effects_of(study_leaves(runner_of({("leaf", "mean"): -0.05})))
    assert leaf_answer(effects, "mean").startswith("`mean` is worse than `newton`")
    assert "can't tell `newton_cross_leaf`" in leaf_answer(effects, "newton_cross_leaf")
    assert effects[ALL]["mean"][MEAN].mean == pytest.approx(-0.05, abs=1e-12)
    assert set(effects) == {*OBJECTIVES, ALL}


def test_the_page_of_leaves_counts_trees_and_models_that_were_not_stopped():
    runner = runner_of({})
    page = leaves_page(study_leaves(runner), runner, "the command")
    assert "`newton` keeps 20 trees in the mean (median 20), and 0 % of its models" in page
    assert "`mean` keeps 480 trees in the mean (median 480), and 100 % of its models" in page


def test_the_picture_has_a_mark_for_each_difference():
    effects = effects_of(study_leaves(runner_of({("leaf", "mean"): -0.05})))
    chart = leaves_chart(effects)
    for (title, found), panel in zip(effects.items(), chart.panels, strict=True):
        assert panel.title == title
        points = {mark.name: mark.x for mark in panel.marks if isinstance(mark, Points)}
        assert points == {leaf: [by.mean for by in found[leaf].values()] for leaf in OTHER_LEAVES}
        assert panel.y.names == [*found["mean"]]
    names = {text.text for text in ET.fromstring(draw_leaves(effects)).iter()}
    assert names >= {*effects, *OTHER_LEAVES, MEAN}


@pytest.mark.parametrize(("gain", "side"), [(-0.05, "worse"), (0.05, "better")])
def test_the_page_of_neighbours_says_where_they_stand_apart(gain, side):
    runner = runner_of({("neighbours", 1): gain})
    page = neighbours_page(study_neighbours(runner), runner, "the command")
    said = page.split("## What it says")[1].split("##")[0].lower()
    other = "better" if side == "worse" else "worse"
    assert f"{other}: none" in said
    named = said.partition(f"{side}: ")[2].partition(f"{other}:")[0]
    assert all(title in named for title in YETILOSS)
    assert f"below at all: {len(YETILOSS) * (gain < 0)} of {len(YETILOSS)}" in said
    assert "What counts is the metric that the model is trained for" in page
