from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks.differences import mean_difference, paired_difference
from benchmarks.real_data import Split
from benchmarks.study import (
    VARIANTS,
    Fitted,
    Job,
    Store,
    Study,
    Variant,
    defaults_page,
    fit_and_stop,
    is_default,
    jobs_of,
    other_seeds,
    reading_text,
    study_defaults,
)

from rankgrove.data.synthetic import make_web_search
from rankgrove.estimators.ranker import Ranker
from rankgrove.metrics.evaluate import evaluate

FOLDS = {"one": 2, "two": 1}
N_QUERIES = 40


def shifted(shifts, noise=0.0):
    """A fit of noise around 0.5 that parameters shift; `noise` is what the seed adds."""

    def fit(job):
        place = list(FOLDS).index(job.name)
        random = np.random.default_rng([place, job.fold])
        values = 0.5 + 0.1 * random.standard_normal(N_QUERIES)
        values[0] = np.nan
        for name, value in job.values.items():
            own = np.random.default_rng([place, job.fold, 1]).standard_normal(N_QUERIES)
            values = values + shifts.get((name, value), 0.0) + 0.001 * own
        return Fitted(values + noise * (job.seed >= 100), 10 + job.seed)

    return fit


def test_a_value_that_auto_stands_for_is_the_default():
    assert is_default(Variant("truncation", "30", {"truncation": 30}))
    assert is_default(Variant("l2", "20.0", {"l2": 20.0}))
    yeti = {"objective": "yetirank"}
    assert is_default(Variant("l2", "", {"l2_documents": 20.0}), yeti)
    assert is_default(Variant("drawn", "", {"bootstrap": 0.0, "split_noise": 0.0}), yeti)
    assert not is_default(Variant("l2", "", {"l2": 20.0}), yeti)
    oblivious = {"objective": "queryrmse", "grower": "oblivious"}
    assert is_default(Variant("max_depth", "6", {"max_depth": 6}), oblivious)
    assert is_default(Variant("drawn", "", {"bootstrap": 1.0, "split_noise": 1.0}), oblivious)
    assert not is_default(Variant("drawn", "", {"bootstrap": 1.0, "split_noise": 0.0}), oblivious)
    assert not is_default(Variant("max_depth", "5", {"max_depth": 5}), oblivious)


def test_other_seeds_are_not_the_default():
    assert [is_default(variant) for variant in other_seeds(0, 100)] == [True, False]


def test_each_factor_of_the_defaults_study_has_at_most_one_default():
    factors = [variant.factor for variant in VARIANTS if is_default(variant)]
    assert len(factors) == len(set(factors)) == 9


def test_a_job_is_the_same_if_a_parameter_is_given_at_its_default():
    plain, given = Job({}, "one", 0, 1), Job({"leaf": "newton"}, "one", 0, 1)
    assert plain.key("a") == given.key("a")
    others = [Job({"leaf": "mean"}, "one", 0, 1), Job({}, "two", 0, 1), Job({}, "one", 1, 1),
              Job({}, "one", 0, 2)]  # fmt: skip
    assert len({job.key("a") for job in (plain, *others)} | {plain.key("b")}) == 6


def test_seeds_of_a_variant_start_where_it_says():
    jobs = jobs_of({"l2": 1.0}, Variant("", "", {"l2": 2.0}, first_seed=100), FOLDS, range(2))
    assert [[(job.fold, job.seed) for job in folds] for folds in jobs["one"]] == [
        [(0, 100), (1, 100)],
        [(0, 101), (1, 101)],
    ]
    assert jobs["two"][0][0].values == {"l2": 2.0}


def test_the_mean_difference_of_one_set_is_its_paired_difference():
    random = np.random.default_rng(0)
    ours, theirs = random.standard_normal((2, 30))
    ours[3] = np.nan
    # Both are the same t-test; only the order of floating-point operations differs.
    np.testing.assert_allclose(
        mean_difference([(ours, theirs)]), paired_difference(ours, theirs), rtol=1e-12
    )


def test_the_mean_difference_weighs_sets_equally_and_adds_their_variances():
    random = np.random.default_rng(1)
    large, small = random.standard_normal((2, 400)), random.standard_normal((2, 20))
    small[0] += 1
    by = mean_difference([tuple(large), tuple(small)])
    parts = [paired_difference(*large), paired_difference(*small)]
    assert by.mean == pytest.approx(np.mean([part.mean for part in parts]), rel=1e-12)
    assert by.error == pytest.approx(np.hypot(*(part.error for part in parts)) / 2, rel=1e-12)
    # The degrees of freedom lie between those of the smaller set and those of both together.
    assert by.error * 1.96 < by.high - by.mean < by.error * 2.1


def test_equal_values_have_no_difference():
    values = np.array([0.1, 0.5, np.nan])
    assert mean_difference([(values, values)]) == (0.0, 0.0, 0.0, 0.0, 1.0)


def test_a_reading_puts_each_variant_on_its_side():
    variants = [
        *other_seeds(100),
        *(Variant("l2", str(l2), {"l2": l2}) for l2 in (1.0, 2.0, 3.0, 20.0)),
    ]
    fit = shifted({("l2", 1.0): 0.05, ("l2", 2.0): -0.05}, noise=0.01)
    reading = Study(FOLDS, variants, range(2), fit, quiet=True).read()
    assert [variant.title for variant, _ in reading.better] == ["1.0"]
    assert [variant.title for variant, _ in reading.worse] == ["2.0"]
    assert [variant.title for variant, _ in reading.within] == ["3.0"]
    assert reading.noise == pytest.approx(0.01, abs=1e-12)
    assert "Of 3 variants, 1 are within" in reading_text(reading)
    difference = reading.better[0][1]
    assert difference.mean == pytest.approx(0.05, abs=0.001)  # the noise of a variant is 0.001
    assert f"Better by more than two: `l2=1.0` ({difference})" in reading_text(reading)


def test_the_line_of_the_default_has_values_and_others_have_differences():
    variants = [Variant("l2", str(l2), {"l2": l2}) for l2 in (20.0, 1.0)]
    study = Study(FOLDS, variants, range(1), shifted({("l2", 1.0): 0.05}), quiet=True)
    default, other = study.tables().splitlines()[-2:]
    means = [f"{np.nanmean(out.values):.4f}" for out in study.default.values()]
    assert default == f"| `20.0` (default) | {' | '.join(means)} |  |"
    assert other.startswith("| `1.0` | +0.0")
    assert other.count("±") == 3
    assert study.default["one"].n_trees == [10, 10]


def test_the_defaults_page_is_written_from_real_fits():
    train, vali, test = make_web_search(30, 16, seed=1).split(0.6, 0.2, 0.2)
    study = study_defaults({"small": [Split(train, vali, test)]}, VARIANTS[7:9], 3, range(1))
    page = defaults_page(study, "the command")
    assert page.startswith("# How the defaults of LambdaMART were chosen")
    ranker = Ranker("lambdamart", n_estimators=3, colsample=0.8, random_state=0).fit(train)
    mean = evaluate(vali, ranker.predict(vali), "ndcg@10")["ndcg@10"]
    assert f"| `True` (default) | {mean:.4f} |  |" in page


def test_what_stops_training_is_not_trained_on_nor_judged(monkeypatch):
    data = make_web_search(30, 16, seed=1)
    train, vali = data.split(0.7, 0.3)
    seen = {}
    fit = Ranker.fit

    def watch(self, own, *, valid):
        seen.update(own=own, valid=valid)
        return fit(self, own, valid=valid)

    monkeypatch.setattr(Ranker, "fit", watch)
    values = {"n_estimators": 5, "early_stopping_rounds": 2}
    fitted = fit_and_stop(train, vali, values, seed=3)
    own, watched, judged = (set(part.query_ids) for part in (seen["own"], seen["valid"], vali))
    assert own | watched == set(train.query_ids)
    assert not own & watched
    assert not (own | watched) & judged
    assert len(fitted.values) == vali.n_queries
    assert 1 <= fitted.n_trees <= 5


class TestStore:
    job = Job({"l2": 1.0}, "one", 0, 0)
    fitted = Fitted(np.array([0.25, np.nan, 1 / 3]), 7)

    def kept(self, tmp_path):
        path = tmp_path / "fits.jsonl"
        Store(path, "a").add(self.job, self.fitted, 1.5)
        return path

    def test_a_later_run_has_the_same_bits(self, tmp_path):
        store = Store(self.kept(tmp_path), "a")
        np.testing.assert_array_equal(store(self.job).values, self.fitted.values)
        assert store(self.job).n_trees == 7
        assert store.seconds == 1.5

    def test_only_what_is_not_done_is_missing_and_each_once(self, tmp_path):
        store = Store(self.kept(tmp_path), "a")
        other = self.job._replace(seed=1)
        assert store.missing([self.job, other, other]) == [other]

    def test_fits_of_another_commit_do_not_count(self, tmp_path):
        store = Store(self.kept(tmp_path), "b")
        assert store.missing([self.job]) == [self.job]
        assert store.seconds == 0.0

    def test_half_a_line_is_dropped_and_the_run_goes_on(self, tmp_path):
        path = self.kept(tmp_path)
        whole = path.read_text()
        path.write_text(whole + whole[:20])
        other = self.job._replace(seed=1)
        Store(path, "a").add(other, self.fitted, 1.0)
        assert Store(path, "a").missing([self.job, other]) == []

    @pytest.mark.parametrize("text", ['{"a": 1}\n{"half', "no lines", "[1]\n"])
    def test_a_file_of_something_else_is_refused_and_left_as_it_is(self, tmp_path, text):
        path = tmp_path / "other.jsonl"
        path.write_text(text)
        with pytest.raises(SystemExit, match="must be a file of kept fits"):
            Store(path, "a")
        assert path.read_text() == text

    def test_without_a_path_nothing_is_written(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        store = Store(None, "a")
        store.add(self.job, self.fitted, 1.0)
        assert store.missing([self.job]) == []
        assert list(tmp_path.iterdir()) == []

    def test_a_line_has_its_parts_by_name(self, tmp_path):
        entry = json.loads(self.kept(tmp_path).read_text())
        assert entry["key"] == {"parameters": {"l2": 1.0}, "set": "one", "fold": 0, "seed": 0,
                                "commit": "a"}  # fmt: skip
        assert entry["values"][1] is None
