"""The loop: how many trees, what validation measures, and when it ends."""

import signal
import threading

import numpy as np
import pytest

from boosting.samples import QUICK, bits, depth_of, make_data, train, trees_of
from rankgrove import Ranker, evaluate
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, ParameterError
from rankgrove.metrics.spec import parse_metric
from rankgrove.training.measures import MetricMeasures
from rankgrove.training.trees import start_trees
from rankgrove.training.validation import Validation
from signals import handle_interrupts

NO_SPLIT = "nothing to split by"


@pytest.fixture(scope="module")
def data():
    return make_data(n_queries=60)


@pytest.fixture(scope="module")
def valid():
    return make_data(seed=1)


@pytest.mark.parametrize("n_estimators", [1, 2, 9])
def test_there_are_exactly_n_estimators_trees(data, n_estimators):
    assert len(train(data, n_estimators=n_estimators).trees) == n_estimators


def test_learning_rate_scales_the_first_tree(data):
    whole, half = (train(data, learning_rate=rate, n_estimators=1) for rate in (1.0, 0.5))
    assert whole.trees[0].feature.tolist() == half.trees[0].feature.tolist()
    assert np.array_equal(whole.trees[0].value * 0.5, half.trees[0].value)


def test_training_raises_the_metric_on_the_training_data(data):
    run = train(data, {"train": data}, n_estimators=30)
    curve = run.history["train"]["ndcg@10"]
    assert curve[-1] > curve[0] + 0.05


def test_history_is_the_metric_of_the_predictions_by_each_prefix_of_trees(data, valid):
    metrics = ["ndcg@5", "map", "err"]
    sets = {"a": valid, "b": make_data(seed=2), "train": data}
    run = train(data, sets, eval_metric=metrics, subsample=0.5)
    model = run.make_model(6)
    assert list(run.history) == ["a", "b", "train"]
    for name, part in sets.items():
        for at in range(6):
            measured = evaluate(part, model.predict(part, n_trees=at + 1), metrics)
            for metric in metrics:
                assert run.history[name][metric][at] == measured[metric]


def test_validation_does_not_change_the_trees(data, valid):
    assert bits(train(data, {"valid": valid})) == bits(train(data))


def test_early_stopping_keeps_the_trees_up_to_the_best_of_the_first_metric_on_the_first_set(
    data, valid
):
    other = make_data(seed=7)
    options = {"n_estimators": 60, "eval_metric": ["ndcg@3", "map"], "learning_rate": 0.5}
    ranker = Ranker(**{**QUICK, **options, "early_stopping_rounds": 4})
    ranker.fit(data, valid={"first": valid, "second": other})
    whole = train(data, {"first": valid, "second": other}, **options)
    curve = whole.history["first"]["ndcg@3"]
    best = next(
        at for at in range(60)
        if curve[at] == max(curve[: at + 5]) and curve[at] not in curve[:at]
    )  # fmt: skip
    n_measured = best + 1 + 4
    assert n_measured < 60
    assert ranker.best_iteration_ == ranker.model_.n_trees == best + 1
    for name in ("first", "second"):
        for metric in ("ndcg@3", "map"):
            assert ranker.history_[name][metric] == whole.history[name][metric][:n_measured]
    assert bits(ranker.model_.ensemble) == bits(whole.trainer.ensemble.prefix(best + 1))


def test_early_stopping_that_never_comes_still_keeps_the_best_only(data, valid):
    run = train(data, {"valid": valid}, n_estimators=12, early_stopping_rounds=50)
    curve = run.history["valid"]["ndcg@10"]
    assert len(run.trees) == 12
    assert run.kept_steps() == int(np.argmax(curve)) + 1


def test_of_equal_values_the_one_with_the_fewest_trees_is_the_best(data):
    curve = [0.5, 0.7, 0.6, 0.7, 0.7]
    for n_trees, best, stop in [(1, 1, False), (2, 2, False), (4, 2, False), (5, 2, True)]:
        history = {"train": {"map": curve[:n_trees]}}
        validation = Validation({"train": data}, MetricMeasures([parse_metric("map")]), 3, history)
        assert validation.best == best
        assert validation.should_stop == stop


def test_early_stopping_without_validation_is_refused(data):
    with pytest.raises(ParameterError, match="early_stopping_rounds must have a validation set"):
        train(data, early_stopping_rounds=5)


def test_validation_set_of_other_features_is_refused(data):
    with pytest.raises(DataError, match="'v' must have the 6 features"):
        train(data, {"v": make_data(n_features=5)})
    with pytest.raises(DataError, match="Got 'z' in place of 'f6'"):
        train(data, {"v": make_data(names=["f1", "f2", "f3", "f4", "f5", "z"])})
    with pytest.raises(DataError, match="base scores"):
        train(data, {"v": make_data(based=True)})


def test_callbacks_see_each_tree_and_one_that_returns_true_stops(data):
    seen = []
    run = train(
        data,
        callbacks=[lambda training: seen.append(len(training.trees)), lambda _: len(seen) == 3],
    )
    assert seen == [1, 2, 3]
    assert bits(run) == bits(train(data, n_estimators=3))


def test_callback_that_returns_nothing_does_not_stop(data):
    assert len(train(data, callbacks=[lambda _: None, lambda _: False]).trees) == 6


def test_interrupt_from_a_callback_keeps_the_trees_so_far(data, valid):
    def interrupt(training):
        if len(training.trees) == 4:
            raise KeyboardInterrupt

    run = train(data, {"valid": valid}, [interrupt])
    assert run.interrupted
    assert bits(run) == bits(train(data, n_estimators=4))
    assert len(run.history["valid"]["ndcg@10"]) == 4


def test_interrupt_while_validation_measures_leaves_history_as_long_as_the_trees(data, valid):
    run = start_trees(data, {"a": valid, "b": make_data(seed=2)}, Parameters(**QUICK), n_jobs=1)
    measure = run.validation.measure

    def measure_and_interrupt(scores):
        measure(scores)
        if len(run.trees) == 2:
            raise KeyboardInterrupt

    run.validation.measure = measure_and_interrupt
    run.run()
    assert run.interrupted
    assert len(run.trees) == 2
    assert [len(curves["ndcg@10"]) for curves in run.history.values()] == [2, 2]


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals need this thread"
)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_at_any_moment_keeps_a_prefix_of_the_uninterrupted_run(data, valid, n_jobs):
    options = {**QUICK, "n_estimators": 20_000}
    started = threading.Event()
    timer = threading.Thread(
        target=lambda: (started.wait(), threading.Event().wait(0.05), raise_interrupt())
    )

    def raise_interrupt():
        signal.raise_signal(signal.SIGINT)

    ranker = Ranker(**options, n_jobs=n_jobs)
    timer.start()
    with handle_interrupts():
        try:
            with pytest.raises(KeyboardInterrupt):
                ranker.fit(data, valid=valid, callbacks=[lambda _: started.set()])
        finally:
            started.set()
            timer.join()
    n_trees = ranker.model_.n_trees
    assert 1 <= n_trees < 20_000
    assert len(ranker.history_["valid"]["ndcg@10"]) == n_trees
    whole = train(data, n_estimators=n_trees)
    assert bits(ranker.model_.ensemble) == bits(whole)
    assert ranker.predict(data).tobytes() == whole.scores.tobytes()


def stuck(features, labels, group, **parameters):
    with pytest.warns(UserWarning, match=NO_SPLIT):
        return Ranker(**{**QUICK, **parameters}).fit(features, labels, group=group)


def test_equal_labels_warn_and_every_document_scores_zero(data):
    ranker = stuck(data.features, np.ones(data.n_documents), data.group)
    assert not ranker.predict(data.features).any()
    assert ranker.model_.n_trees == 1
    assert not ranker.feature_importances_.any()


def test_labels_that_differ_between_queries_only_are_nothing_to_learn_from(data):
    labels = np.repeat(np.arange(data.n_queries) % 5, data.group)
    assert not stuck(data.features, labels, data.group).predict(data.features).any()


def test_constant_or_missing_features_warn_and_scores_are_equal(data):
    for value in (3.0, np.nan, np.inf):
        features = np.full((data.n_documents, 2), value)
        scores = stuck(features, data.labels, data.group).predict(features)
        assert np.isfinite(scores).all()
        assert len(np.unique(scores)) == 1


def test_one_query_of_one_document_is_trained_on_with_a_warning():
    ranker = stuck([[1.0, 2.0]], [3], [1], min_samples_leaf=1)
    assert ranker.predict([[1.0, 2.0], [5.0, -1.0]]).tolist() == [0.0, 0.0]


def test_queries_of_one_document_are_nothing_to_learn_from(data):
    ones = np.ones(data.n_documents, dtype=int)
    assert not stuck(data.features, data.labels, ones).predict(data.features).any()


def test_too_few_documents_for_a_leaf_warn_and_say_so(data):
    with pytest.warns(UserWarning, match="all 720 rows.*min_samples_leaf, which is 500"):
        Ranker(n_estimators=3, min_samples_leaf=500).fit(data)


def test_one_feature_is_enough(data):
    one = Dataset.from_arrays(data.features[:, :1], data.labels, group=data.group)
    run = train(one)
    assert len(run.trees) == 6
    assert run.make_model(6).predict(one).tobytes() == run.scores.tobytes()


def test_draws_that_find_nothing_do_not_end_training(data):
    labels = data.labels * (np.arange(data.n_documents) < 12 * 3)
    run = train(
        Dataset.from_arrays(data.features, labels, group=data.group),
        subsample=0.02, n_estimators=40, min_samples_leaf=2,
    )  # fmt: skip
    sizes = [tree.n_leaves for tree in run.trees]
    assert len(sizes) == 40
    assert min(sizes) == 1 < max(sizes)


@pytest.mark.parametrize("grower", ["leafwise", "depthwise"])
@pytest.mark.parametrize("min_samples_leaf", [1, 7, 20, 60])
@pytest.mark.parametrize("split_gain", ["newton", "least_squares"])
def test_every_leaf_has_at_least_min_samples_leaf_documents(
    data, grower, min_samples_leaf, split_gain
):
    run = train(
        data, grower=grower, min_samples_leaf=min_samples_leaf, split_gain=split_gain,
        max_leaves=64, n_estimators=10, learning_rate=0.5,
    )  # fmt: skip
    for tree in run.trees:
        assert tree.count.min() >= min_samples_leaf
        assert tree.count.sum() == data.n_documents
    assert run.trees[0].n_leaves > 3


def test_counts_of_leaves_are_those_of_the_documents_that_reach_them(data):
    run = train(data, min_samples_leaf=3, max_leaves=40)
    for tree in run.trees:
        reached = np.zeros(tree.n_leaves, dtype=int)
        for row in data.features:
            node = 0
            while node >= 0:
                goes_left = row[tree.feature[node]] <= tree.threshold[node]
                node = (tree.left if goes_left else tree.right)[node]
            reached[~node] += 1
        assert reached.tolist() == tree.count.tolist()


@pytest.mark.parametrize("grower", ["leafwise", "depthwise"])
def test_max_depth_and_max_leaves_hold(data, grower):
    for max_depth, max_leaves in [(1, 50), (2, 50), (4, 50), (None, 2), (None, 13), (5, 9)]:
        run = train(
            data, grower=grower, max_depth=max_depth, max_leaves=max_leaves, min_samples_leaf=1
        )
        sizes = [tree.n_leaves for tree in trees_of(run.trainer.ensemble)]
        assert max(sizes) <= max_leaves
        if max_depth is not None:
            assert max(depth_of(tree) for tree in run.trees) <= max_depth
        else:
            assert max(sizes) == max_leaves


def test_depthwise_fills_a_level_before_the_next(data):
    run = train(data, grower="depthwise", max_leaves=8, min_samples_leaf=1)
    assert all(depth_of(tree) == 3 for tree in run.trees)


def test_min_child_weight_holds_in_every_leaf(data):
    forces, curvatures = np.empty((2, data.n_documents))
    objective = Parameters(**QUICK).make_objective().prepare(data, 1)
    objective.compute(np.zeros(data.n_documents), 0, forces, curvatures)
    least = curvatures.sum() / 7
    run = train(
        data, n_estimators=1, min_child_weight=float(least), max_leaves=64, min_samples_leaf=1,
        learning_rate=1.0,
    )  # fmt: skip
    assert 2 <= run.trees[0].n_leaves <= 7
    for value in np.unique(run.scores):
        # Rounding to whole units may shift a sum by a few of 2^30.
        assert curvatures[run.scores == value].sum() >= least * (1 - 1e-6)


def test_leaf_values_are_newton_steps_of_the_forces_in_them(data):
    forces, curvatures = np.empty((2, data.n_documents))
    parameters = Parameters(**{**QUICK, "l2": 0.5})
    parameters.make_objective().prepare(data, 1).compute(
        np.zeros(data.n_documents), 0, forces, curvatures
    )
    run = train(data, n_estimators=1, l2=0.5, learning_rate=0.3)
    for value in np.unique(run.scores):
        inside = run.scores == value
        step = 0.3 * forces[inside].sum() / (curvatures[inside].sum() + 0.5)
        assert value == pytest.approx(step, rel=1e-12, abs=1e-15)


def test_long_queries_and_a_hundred_grades_train():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(24_000, 2))
    labels = np.digitize(features[:, 0] + rng.normal(size=24_000) / 4, np.linspace(-2, 2, 99))
    data = Dataset.from_arrays(features, labels, group=[12_000, 12_000])
    assert len(np.unique(labels)) == 100
    # With ties against the model, the first rankings of so many documents have the worst on top.
    metric = "ndcg@10(ties=stable, gain=linear)"
    run = train(data, {"train": data}, metric=metric, truncation=30, n_estimators=10)
    assert np.isfinite(run.scores).all()
    assert run.history["train"][metric][-1] > 0.8
    exponential = train(data, n_estimators=2)
    assert np.isfinite(exponential.scores).all()


def test_labels_may_be_fractions_where_the_gain_is_a_formula(data):
    labels = data.labels / 2 + 0.25
    halves = Dataset.from_arrays(data.features, labels, group=data.group)
    assert len(train(halves, metric="ndcg(gain=linear)").trees) == 6
    assert len(train(halves).trees) == 6


def test_weight_two_is_a_query_given_twice_in_the_first_split(data):
    few = data.take_queries(np.arange(30))
    weights = np.ones(30)
    weights[:10] = 2
    twice = data.take_queries(np.arange(10))
    both = Dataset.from_arrays(
        np.vstack([few.features, twice.features]),
        np.append(few.labels, twice.labels),
        group=np.append(few.group, twice.group),
    )
    weighted = Dataset.from_arrays(few.features, few.labels, group=few.group, weights=weights)
    options = {"n_estimators": 1, "max_leaves": 2, "min_samples_leaf": 1, "min_child_weight": 0.0}
    options["metric"] = "ndcg(ties=stable)"
    one, two = train(both, **options).trees[0], train(weighted, **options).trees[0]
    assert one.feature.tolist() == two.feature.tolist()
    assert one.value == pytest.approx(two.value, rel=1e-9)
    assert one.gain == pytest.approx(two.gain, rel=1e-6)


def test_base_scores_are_where_training_starts(data):
    first = train(data, n_estimators=3)
    based = Dataset.from_arrays(
        data.features, data.labels, group=data.group, base_scores=first.scores
    )
    second = train(based, n_estimators=3)
    whole = train(data, n_estimators=6)
    # Only the draws that round to whole units differ, by the number of the tree.
    assert np.corrcoef(second.scores, whole.scores)[0, 1] > 0.999
    assert np.array_equal(based.base_scores, first.scores)
