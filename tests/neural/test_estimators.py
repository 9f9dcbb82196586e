"""RankNet and LambdaRank as estimators: training, stopping, base models, bits, scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold
from torch import nn

from neural.samples import make_parts
from rankgrove import Dataset, LambdaRank, Ranker, RankNet, evaluate
from rankgrove.data.preferences import Preferences
from rankgrove.errors import DataError, ParameterError
from rankgrove.neural.loss import Batches
from rankgrove.neural.networks import build_network
from rankgrove.objectives.registry import make_objective

QUICK = {"hidden": (8,), "max_epochs": 3, "batch_queries": 8}


@pytest.fixture(scope="module")
def parts():
    return make_parts()


@pytest.mark.parametrize("kind", [RankNet, LambdaRank])
@pytest.mark.parametrize("hidden", [(), (16,)])
def test_a_network_learns_what_a_feature_says(kind, hidden):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 4))
    labels = np.digitize(features[:, 1] - features[:, 2], [-1, 0, 1])
    data = Dataset.from_arrays(features, labels, group=[10] * 40)
    train, test = data.split(0.5, 0.5)
    ranker = kind(hidden=hidden, max_epochs=30, learning_rate=0.03).fit(train)
    assert evaluate(test, ranker.predict(test), "ndcg")["ndcg"] > 0.95


def test_an_epoch_is_the_steps_of_a_loop_written_by_hand(parts):
    train, _ = parts
    own = RankNet(
        hidden=(), transform="standard", optimiser="sgd", learning_rate=0.05, max_epochs=2,
        batch_queries=5, random_state=3,
    ).fit(train)  # fmt: skip
    inputs = own.model_.transform.apply(train.features).astype(np.float64)
    # The first weights: those of a network that was not trained.
    weights = RankNet(hidden=(), transform="standard", learning_rate=1e-30, max_epochs=1,
                      random_state=3).fit(train).model_.module[0].weight  # fmt: skip
    w = weights.detach().numpy()[0].astype(np.float64)
    for epoch in range(2):
        order = np.random.default_rng([3, epoch]).permutation(train.n_queries)
        for first in range(0, len(order), 5):
            chosen = order[first : first + 5]
            gradient = np.zeros_like(w)
            for query in chosen:
                rows = slice(*train.offsets[query : query + 2])
                x, r = inputs[rows], train.labels[rows]
                better = r[:, None] > r[None, :]
                rho = 1 / (1 + np.exp((x @ w)[:, None] - (x @ w)[None, :])) * better
                gradient -= (rho.sum(axis=1) - rho.sum(axis=0)) @ x
            w -= 0.05 * gradient / len(chosen)
    # Training is in float32.
    np.testing.assert_allclose(own.model_.module[0].weight.detach().numpy()[0], w, rtol=1e-3)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("options", [{}, {"dropout": 0.3, "schedule": "cosine", "device": "cpu"}])
def test_the_same_bits_twice_and_for_any_number_of_threads(parts, options, n_jobs):
    train, test = parts
    first = LambdaRank(**QUICK, **options, n_jobs=1).fit(train, valid=test)
    torch.rand(3)
    again = LambdaRank(**QUICK, **options, n_jobs=n_jobs).fit(train, valid=test)
    np.testing.assert_array_equal(first.predict(test), again.predict(test))
    assert first.history_ == again.history_
    other = LambdaRank(**QUICK, **options, random_state=1).fit(train)
    assert (other.predict(test) != first.predict(test)).any()


def test_training_leaves_pytorch_as_it_was(parts):
    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)
    before = torch.get_num_threads()
    RankNet(**QUICK, dropout=0.5).fit(parts[0])
    assert torch.get_num_threads() == before
    np.testing.assert_array_equal(torch.rand(4), expected)


def test_history_is_what_evaluate_says_of_each_epoch(parts):
    train, test = parts
    seen = []
    ranker = RankNet(**QUICK, eval_metric=["map(relevant>=2)", "ndcg@5"])
    ranker.fit(train, valid={"held": test}, callbacks=[lambda t: seen.append(t.make_model())])
    scores = [model.predict(test) for model in seen]
    for metric, values in ranker.history_["held"].items():
        assert values == [evaluate(test, own, metric)[metric] for own in scores]
    assert ranker.best_iteration_ == 3
    np.testing.assert_array_equal(scores[-1], ranker.predict(test))


def test_early_stopping_keeps_the_network_of_the_best_epoch(parts):
    train, test = parts
    models = []
    ranker = LambdaRank(
        hidden=(16,), max_epochs=200, learning_rate=0.05, early_stopping_rounds=3
    ).fit(train, valid=test, callbacks=[lambda t: models.append(t.make_model())])
    values = ranker.history_["valid"]["ndcg@10"]
    best = int(np.argmax(values)) + 1
    assert ranker.best_iteration_ == best == len(values) - 3 < 197
    np.testing.assert_array_equal(ranker.predict(test), models[best - 1].predict(test))
    assert ranker.score(test) == values[best - 1]


def test_a_callback_ends_training(parts):
    ranker = RankNet(**QUICK).fit(parts[0], callbacks=[lambda run: run.n_steps == 2])
    assert ranker.best_iteration_ == 2


def test_ctrl_c_keeps_the_network_of_the_last_whole_epoch(parts):
    train, test = parts
    ranker = RankNet(**QUICK)

    def interrupt(run):
        if run.n_steps == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ranker.fit(train, valid=test, callbacks=[interrupt])
    expected = RankNet(**QUICK | {"max_epochs": 2}).fit(train)
    np.testing.assert_array_equal(ranker.predict(test), expected.predict(test))
    assert len(ranker.history_["valid"]["ndcg@10"]) == 2


@pytest.mark.parametrize("name", ["checkpoint", "resume"])
def test_checkpoints_are_refused(parts, name):
    with pytest.raises(ParameterError, match=f"{name} must be left out for a network. Got 'x'"):
        RankNet(**QUICK).fit(parts[0], **{name: "x"})


def test_a_plateau_lowers_the_learning_rate(parts):
    train, test = parts
    rates = []
    RankNet(hidden=(), max_epochs=10, learning_rate=1e-6, schedule="plateau").fit(
        train, valid=test,
        callbacks=[lambda t: rates.append(t.trainer._optimiser.param_groups[0]["lr"])],
    )  # fmt: skip
    assert rates[0] == 1e-6
    # Steps so small change no ranking, so the first epoch stays the best: 5 are waited for.
    assert rates[-1] < rates[0]


class Squared(nn.Module):
    """A module of the user's own: linear in features and their squares."""

    def __init__(self, n_inputs):
        super().__init__()
        self.linear = nn.Linear(2 * n_inputs, 1)

    def forward(self, x):
        return self.linear(torch.cat([x, x * x], dim=1))


def test_a_module_of_ones_own_takes_the_place_of_the_layers(parts):
    train, test = parts
    n_inputs = RankNet(**QUICK).fit(train).model_.transform.n_inputs
    given = Squared(n_inputs)
    before = {name: value.clone() for name, value in given.state_dict().items()}
    by_value = RankNet(module=given, max_epochs=3).fit(train)
    for name, value in given.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    by_function = RankNet(module=Squared, max_epochs=3).fit(train)
    assert by_value.score(test) > 0
    assert isinstance(by_function.model_.module, Squared)
    again = clone(by_function).fit(train)
    np.testing.assert_array_equal(by_function.predict(test), again.predict(test))


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        (3, "module must be an nn.Module or a function"),
        (lambda n: n, "must make an nn.Module. Got int"),
        (nn.Linear(3, 1), "module must take .* inputs"),
        (lambda n: nn.Linear(n, 2), "module must give one score per row"),
        (nn.Identity(), "module must have weights to train"),
    ],
)
def test_a_module_that_does_not_fit_is_refused(parts, module, problem):
    with pytest.raises(ParameterError, match=problem):
        RankNet(module=module, max_epochs=1).fit(parts[0])


def test_a_network_goes_on_from_trees_and_holds_them(parts):
    train, test = parts
    trees = Ranker(n_estimators=5).fit(train)
    for base in (trees, trees.model_):
        own = LambdaRank(**QUICK).fit(train, valid=test, base_model=base)
        alone = own.model_.module
        inputs = torch.from_numpy(own.model_.transform.apply(test.features))
        added = alone(inputs)[:, 0].detach().numpy().astype(np.float64)
        # A batch of another size may be summed in another order, in float32.
        np.testing.assert_allclose(own.predict(test), trees.predict(test) + added, atol=1e-5)
        assert own.history_["valid"]["ndcg@10"][-1] == own.score(test)
    plain = LambdaRank(**QUICK).fit(train)
    assert (own.predict(test) != plain.predict(test)).any()


def test_a_network_on_trees_scores_queries_one_at_a_time(parts):
    train, test = parts
    trees = Ranker(n_estimators=5).fit(train)
    model = LambdaRank(**QUICK).fit(train, base_model=trees).model_
    scorer, query = model.scorer(), test.features[:10]
    named = [dict(zip(model.feature_names, row, strict=True)) for row in query]
    assert np.array_equal(scorer(query), model.predict(query))
    assert np.array_equal(scorer(named), model.predict(query))
    assert scorer(query[0]) == model.predict(query[:1])[0]
    with pytest.raises(ParameterError, match="n_trees must be left out for a network"):
        model.scorer(n_trees=2)


def test_trees_go_on_from_a_network(parts):
    train, test = parts
    network = RankNet(**QUICK).fit(train)
    scores = network.predict(test)
    for base in (network, network.model_, network.predict):
        trees = Ranker(n_estimators=3).fit(train, base_model=base)
        added = trees.predict(test, base_scores=0.0)
        np.testing.assert_allclose(trees.predict(test, base_scores=scores), scores + added)
    with pytest.raises(DataError, match="base_scores must be given"):
        trees.predict(test)


def test_a_network_on_any_scores_needs_them_again(parts):
    train, test = parts
    by_function = RankNet(**QUICK).fit(train, base_model=lambda x: x[:, 0].astype(float))
    by_data = RankNet(**QUICK).fit(
        train.features, train.labels, qid=train.qid, base_scores=train.features[:, 0]
    )
    given = test.features[:, 0].astype(float)
    for own in (by_function, by_data):
        with pytest.raises(DataError, match="base_scores must be given"):
            own.predict(test)
        np.testing.assert_allclose(
            own.predict(test, base_scores=given), own.predict(test, base_scores=0.0) + given
        )
    np.testing.assert_array_equal(
        by_function.predict(test, base_scores=0.0), by_data.predict(test, base_scores=0.0)
    )


@pytest.mark.parametrize(
    ("base", "problem"),
    [
        (3, "base_model must be a model, its file or a function"),
        (lambda x: x, "base_model must give one finite score"),
        (lambda x: "no", "Got str"),
    ],
)
def test_a_base_model_that_gives_no_scores_is_refused(parts, base, problem):
    with pytest.raises((DataError, ParameterError), match=problem):
        RankNet(**QUICK).fit(parts[0], base_model=base)


def test_preferences_take_the_place_of_labels():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 3))
    pairs = [(i, j) for i in range(0, 60, 2) for j in (i + 1,)]
    pairs = [(i, j) if features[i, 0] > features[j, 0] else (j, i) for i, j in pairs]
    fitted = RankNet(hidden=(), max_epochs=100, learning_rate=0.05, transform="standard").fit(
        features, group=[20, 20, 20], preferences=pairs
    )
    scores = fitted.predict(features)
    assert np.mean([scores[i] > scores[j] for i, j in pairs]) > 0.95


def test_the_preferences_of_a_batch_are_those_of_its_queries():
    rng = np.random.default_rng(0)
    data = Dataset.from_arrays(rng.normal(size=(15, 1)), np.zeros(15), group=[4, 5, 6])
    pairs = [(9, 10), (0, 1, 0.7), (5, 8), (14, 9, 0.2), (3, 2)]
    given = Preferences.from_rows(data, pairs)
    batches = Batches(make_objective("rankmart"), data, given)
    scores = rng.normal(size=15)
    whole = batches.forces(np.arange(3), scores, 0)
    for chosen in ([2, 0], [1], [0, 1]):
        rows = batches.rows(np.array(chosen))
        found = batches.forces(np.array(chosen), scores[rows], 0)
        np.testing.assert_array_equal(found, whole[rows])


def test_queries_without_weight_do_not_count(parts):
    train, test = parts
    weights = np.ones(train.n_queries)
    weights[::2] = 0
    one = RankNet(hidden=(4,), max_epochs=2, batch_queries=1, transform=None)
    weighted = one.fit(train.features, train.labels, qid=train.qid, sample_weight=weights)
    assert np.isfinite(weighted.predict(test)).all()
    shuffled = train.labels.copy()
    for query in range(0, train.n_queries, 2):
        rows = slice(*train.offsets[query : query + 2])
        shuffled[rows] = shuffled[rows][::-1]
    again = clone(one).fit(train.features, shuffled, qid=train.qid, sample_weight=weights)
    np.testing.assert_array_equal(weighted.predict(test), again.predict(test))


def test_labels_that_never_differ_leave_a_warning_and_the_first_weights(parts):
    train, test = parts
    flat = np.zeros(train.n_documents)
    with pytest.warns(UserWarning, match="nothing to learn from"):
        ranker = RankNet(**QUICK).fit(train.features, flat, qid=train.qid)
    assert np.isfinite(ranker.predict(test)).all()


def test_ten_thousand_documents_of_one_query_are_trained_on():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(10_000, 3)).astype(np.float32)
    labels = np.digitize(features[:, 0], [0, 1])
    ranker = LambdaRank(hidden=(4,), max_epochs=5, learning_rate=0.05)
    ranker.fit(features, labels, group=[10_000])
    assert np.corrcoef(ranker.predict(features), features[:, 0])[0, 1] > 0.5


def test_weights_as_a_vector_give_the_scores(parts):
    train, test = parts
    trees = Ranker(n_estimators=2).fit(train)
    for fitted in (RankNet(**QUICK).fit(train), RankNet(**QUICK).fit(train, base_model=trees)):
        weights, scores_of = fitted.model_.weights_and_scorer(test)
        assert weights.shape == (fitted.model_.n_weights,)
        # The scorer computes in float64, the model in float32.
        np.testing.assert_allclose(scores_of(weights), fitted.predict(test), atol=1e-5)
        moved = weights + 1e-6
        assert 0 < np.abs(scores_of(moved) - scores_of(weights)).max() < 1e-3
        with pytest.raises(ParameterError, match="weights must be a vector of"):
            scores_of(weights[:-1])


def test_missing_values_are_taken_in_training_and_scoring(parts):
    train, test = parts
    features = train.features.copy()
    features[::3, 2] = np.nan
    ranker = RankNet(**QUICK).fit(features, train.labels, qid=train.qid)
    gone = test.features.copy()
    gone[:, 2] = np.nan
    scores = ranker.predict(gone)
    assert np.isfinite(scores).all()
    assert (scores != ranker.predict(test)).any()


def test_conventions_of_scikit_learn(parts):
    train, test = parts
    ranker = LambdaRank(**QUICK, metric="map(relevant>=2)")
    assert clone(ranker).get_params() == ranker.get_params()
    assert "hidden=(8,)" in repr(ranker)
    with pytest.raises(NotFittedError, match="LambdaRank must be fitted"):
        ranker.predict(test)
    assert ranker.fit(train) is ranker
    assert ranker.n_features_in_ == train.n_features
    loaded = pickle.loads(pickle.dumps(ranker))
    np.testing.assert_array_equal(loaded.predict(test), ranker.predict(test))
    with sklearn.config_context(enable_metadata_routing=True):
        asked = RankNet(**QUICK).set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(asked, {"hidden": [(), (4,)]}, cv=GroupKFold(2))
        search.fit(train.features, train.labels, qid=train.qid, groups=train.qid)
    assert search.best_params_["hidden"] in [(), (4,)]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"hiden": (3,)}, "did you mean 'hidden'"),
        ({"hidden": 64}, "hidden must be the width of each hidden layer"),
        ({"hidden": (0,)}, "a width in hidden must be a whole number, 1 or more. Got 0"),
        ({"activation": "relo"}, "did you mean 'relu'"),
        ({"dropout": 1.0}, "dropout must be a finite number 0 or more and below 1"),
        ({"dropout": -0.1}, "dropout must be a finite number 0 or more"),
        ({"transform": "log"}, "transform must be one of quantile, log1p, standard, None"),
        ({"optimiser": "lbfgs"}, "optimiser must be one of adam, sgd"),
        ({"learning_rate": 0}, "learning_rate must be a finite number above 0"),
        ({"weight_decay": None}, "weight_decay must be a finite number"),
        ({"schedule": "step"}, "schedule must be one of cosine, plateau, None"),
        ({"batch_queries": 0}, "batch_queries must be a whole number, 1 or more"),
        ({"max_epochs": 1.5}, "max_epochs must be a whole number"),
        ({"metric": "ndgc"}, "did you mean"),
        ({"sigma": -1}, "sigma must be a finite number above 0"),
        ({"random_state": -1}, "random_state must be a whole number"),
        ({"device": "gpu7"}, "device must be a device of PyTorch"),
        ({"device": 3}, "device must be a name"),
        ({"early_stopping_rounds": 3}, "early_stopping_rounds must have a validation set"),
        ({"schedule": "plateau"}, "schedule must have a validation set"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(parts, given, problem):
    with pytest.raises(ParameterError, match=problem):
        LambdaRank(**given).fit(parts[0])


def test_a_device_that_is_not_there_is_refused(parts):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(ParameterError, match="device must be one that PyTorch has here"):
        RankNet(device="cuda").fit(parts[0])


def test_scores_that_grow_without_bound_are_told(parts):
    ranker = RankNet(hidden=(8, 8), learning_rate=1e30, max_epochs=5, optimiser="sgd")
    with pytest.raises(DataError, match="must stay finite in training"):
        ranker.fit(parts[0])


def test_validation_of_other_features_is_refused(parts):
    train, test = parts
    other = Dataset.from_arrays(test.features[:, 1:], test.labels, qid=test.qid)
    with pytest.raises(DataError, match="validation set 'valid' must have the"):
        RankNet(**QUICK).fit(train, valid=other)


def test_progress_speaks_of_epochs(parts, capsys):
    RankNet(**QUICK, verbose=True).fit(parts[0], valid=parts[1])
    assert "3/3 epochs  ndcg@10" in capsys.readouterr().err


def test_activations_and_layers_are_those_asked_for():
    network = build_network(5, (4, 3), "tanh", 0.5)
    kinds = [type(layer).__name__ for layer in network]
    assert kinds == ["Linear", "Tanh", "Dropout", "Linear", "Tanh", "Dropout", "Linear"]
    assert network[-1].bias is None
