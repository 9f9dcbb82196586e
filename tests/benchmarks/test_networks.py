from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.networks import (
    ALONE,
    CHOSEN,
    COMPARED,
    FIRST,
    MODELS,
    TOGETHER,
    NetworkStudy,
    _make,
    answer,
    difference_of,
    jobs_of_study,
    jobs_of_test,
    networks_page,
    results_of,
)
from benchmarks.study import Fitted, Store, in_one_list

from rankgrove.training.network_parameters import NetworkParameters

FOLDS = {"one": 2, "two": 2}
SEEDS = range(2)


def filled_store(gains):
    """A store of fits that are noise, and what the gains of their objective add."""
    store = Store(None, "a")
    ranknet = {**FIRST, "objective": "ranknet"}
    jobs = [*jobs_of_study(FIRST, [*ALONE, *TOGETHER], FOLDS, SEEDS),
            *jobs_of_study(ranknet, [CHOSEN], FOLDS, SEEDS)]  # fmt: skip
    for title in MODELS:
        jobs += in_one_list(jobs_of_test(title, FOLDS, SEEDS))
    for job in store.missing(jobs):
        random = np.random.default_rng([list(FOLDS).index(job.name), job.fold])
        values = 0.5 + 0.1 * random.standard_normal(50)
        own = np.random.default_rng(len(job.key("")) + job.seed).standard_normal(50)
        values += 0.002 * (own - own.mean()) + gains.get(job.values["objective"], 0.0)
        store.add(job, Fitted(values, 7), 1)
    return store


def test_every_model_and_variant_is_one_that_training_takes():
    for title in MODELS:
        for runs in jobs_of_test(title, FOLDS, [0]).values():
            _make(runs[0][0].values, 0).parameters()
    for variant in [*ALONE, *TOGETHER]:
        NetworkParameters(**{**FIRST, **variant.values})


def test_the_defaults_are_what_the_study_chose():
    chosen = {**FIRST, **CHOSEN.values}
    del chosen["early_stopping_rounds"]
    plain = NetworkParameters()
    assert {name: getattr(plain, name) for name in chosen} == chosen


def test_a_fit_has_the_same_key_whatever_the_defaults_are():
    job = jobs_of_study({"objective": "ranknet"}, [], FOLDS, SEEDS)[0]
    full = {**NetworkParameters(objective="ranknet").as_json(), "eval_metric": "ndcg@10"}
    full["metric"] = "auto"
    same = jobs_of_study(full, [], FOLDS, SEEDS)[0]
    assert job.key("a") == same.key("a")
    assert job.key("a") != job.key("b")
    other = jobs_of_study({"objective": "lambdarank"}, [], FOLDS, SEEDS)[0]
    assert job.key("a") != other.key("a")


@pytest.mark.parametrize(("gain", "verdict"), [
    (0.05, "LambdaRank is better"), (-0.05, "LambdaRank is worse"), (0.0, "can't tell"),
])  # fmt: skip
def test_the_page_says_what_the_figures_say(gain, verdict):
    store = filled_store({"lambdarank": gain})
    results = results_of(store, FOLDS, SEEDS)
    ours, theirs = COMPARED[0]
    assert verdict in answer(ours, theirs, difference_of(results, ours, theirs))
    study = NetworkStudy(FOLDS, [*ALONE, *TOGETHER], SEEDS, store, FIRST)
    ranknet = {**FIRST, "objective": "ranknet"}
    of_ranknet = NetworkStudy(FOLDS, [CHOSEN], SEEDS, store, ranknet)
    page = networks_page(results, study, of_ranknet, SEEDS, "a")
    assert verdict in page
    assert f"Chosen: `{CHOSEN.title}`" in page
    for variant in TOGETHER:
        assert variant.title in page
