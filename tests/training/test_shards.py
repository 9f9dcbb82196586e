"""Workers that have the queries between them train the model of one that has all, to the bit."""

import numpy as np
import pytest

from rankgrove import Dataset
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.shard import Shard
from rankgrove.training.trees import start_trees
from rankgrove.trees import exchange
from workers import run_workers

CATEGORY = 3
# Three blocks, so that workers can own different ones.
N_FEATURES = 36


def make_data(seed, n_queries, **more):
    rng = np.random.default_rng(seed)
    group = rng.integers(1, 25, n_queries)
    n = int(group.sum())
    features = rng.normal(size=(n, N_FEATURES)).astype(np.float32)
    features[:, CATEGORY] = rng.integers(0, 8, n)
    features[rng.random((n, N_FEATURES)) < 0.1] = np.nan
    wild = np.nan_to_num(features)
    signal = wild[:, 0] + wild[:, 1] * wild[:, 2] + (wild[:, CATEGORY] % 3) + rng.normal(size=n)
    labels = np.digitize(signal, [0.5, 1.5, 2.5, 3.5])
    if more.pop("binary", False):
        labels = labels > 1
    weights = {name: rng.uniform(0.5, 2, {"weights": n_queries}.get(name, n)) for name in more}
    return Dataset.from_arrays(features, labels, group=group, **weights)


def take(data, queries, peers):
    """Some of the queries of data, as one of several workers has them."""
    sizes = data.group[queries]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    starts = data.offsets[queries]
    rows = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    shard = Shard(offsets, queries, starts, data.n_queries, data.n_documents, peers)
    by_row = ("base_scores", "document_weights")
    chosen = {name: getattr(data, name) for name in by_row}
    return Dataset(
        data.features[rows], data.labels[rows], offsets, data.query_ids[queries],
        weights=None if data.weights is None else data.weights[queries], shard=shard,
        **{name: None if values is None else values[rows] for name, values in chosen.items()},
    )  # fmt: skip


LEAFWISE = {"grower": "leafwise", "max_leaves": 12, "min_samples_leaf": 5}
CONFIGURATIONS = {
    "yetirank": {},
    "lambdamart leafwise": {"objective": "lambdamart", **LEAFWISE},
    "lambdamart depthwise": {"objective": "lambdamart", "grower": "depthwise", "max_leaves": 10},
    "lambdamart oblivious": {"objective": "lambdamart", "bootstrap": 1.0, "split_noise": 1.0},
    "bootstrap by query": {"bootstrap": 0.7, "bootstrap_by": "query", **LEAFWISE},
    "yetirank leafwise": {**LEAFWISE, "min_samples_leaf": 30},
    "categories": {"objective": "lambdamart", "categorical": [CATEGORY], **LEAFWISE},
    "oblivious categories": {"categorical": [CATEGORY], "monotone": {"f1": 1}},
    "monotone": {"objective": "lambdamart", "monotone": {"f1": 1, "f2": -1}, **LEAFWISE},
    "rankmart": {"objective": "rankmart", "leaf_steps": 2},
    "yetiloss": {"objective": "yetiloss", "metric": "map(relevant>=1)", "leaf_steps": 2},
    "cross-leaf": {"objective": "lambdamart", "leaf": "newton_cross_leaf", **LEAFWISE},
    "joint": {"leaf": "joint", "leaf_noise": "new", "leaf_steps": 2},
    "joint of all pairs": {
        "objective": "lambdamart",
        "leaf": "joint",
        "subsample": 0.6,
        **LEAFWISE,
    },
    "queryrmse": {"objective": "queryrmse"},
    "softmax": {"objective": "softmax", "split_gain": "least_squares"},
    "xendcg": {"objective": "xendcg", **LEAFWISE},
    "listmle": {"objective": "listmle"},
    "stochasticrank": {"objective": "stochasticrank", "metric": "ndcg@5", "temperature": 1e4},
    "shrunken": {"objective": "stochasticrank", "temperature": 1e3, "shrink_rate": 0.01},
    "regression": {"objective": "regression", **LEAFWISE},
    "queries": {"subsample": 0.5, "sampling": "query"},
    "documents": {"subsample": 0.5, "sampling": "document", **LEAFWISE},
    "gradients": {"objective": "lambdamart", "subsample": 0.4, "sampling": "gradient"},
    "variance": {"subsample": 0.4, "sampling": "variance", **LEAFWISE},
    "variance of queries": {"subsample": 0.4, "sampling": "variance_query", "colsample": 0.5},
    "early stopping": {"early_stopping_rounds": 2, "n_estimators": 30, "learning_rate": 1.0},
}
FEW = ["yetirank", "lambdamart leafwise", "categories", "variance", "early stopping"]


@pytest.fixture(autouse=True)
def workers_own_blocks(monkeypatch):
    """Let workers own different blocks, also of histograms as small as these."""
    monkeypatch.setattr(exchange, "LEAST_SHARED_BYTES", 0)


def deal_at_random(n_queries, size):
    return np.random.default_rng(size).integers(0, size, n_queries)


def deal_in_order(n_queries, size):
    return np.arange(n_queries) * size // n_queries


def deal_one_each(n_queries, size):
    """The last worker has all but one query of each of the others."""
    return np.minimum(np.arange(n_queries), size - 1)


def deal_to_few(n_queries, size):
    """Only every second worker has any."""
    return 2 * (deal_at_random(n_queries, size) // 2)


def train(train_data, valid, parameters):
    run = start_trees(train_data, {"valid": valid}, parameters, n_jobs=1).run()
    return run.make_model()


def file_of(model, path):
    model.save(path)
    return path.read_bytes()


def assert_same(configuration, size, deal, tmp_path, **more):
    data, valid = make_data(0, 70, **more), make_data(1, 30, **more)
    parameters = Parameters(**{"n_estimators": 4, "random_state": 3, **configuration})
    wanted = file_of(train(data, valid, parameters), tmp_path / "alone")
    owner, valid_owner = deal(70, size), deal(30, size)

    def task(peers):
        parts = [
            take(whole, np.flatnonzero(owners == peers.rank), peers)
            for whole, owners in ((data, owner), (valid, valid_owner))
        ]
        return file_of(train(*parts, parameters), tmp_path / f"worker-{peers.rank}")

    results, _ = run_workers(size, task)
    assert all(result == wanted for result in results)


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("size", [2, 7])
def test_any_configuration_gives_the_file_of_one_worker(name, size, tmp_path):
    assert_same(CONFIGURATIONS[name], size, deal_at_random, tmp_path)


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize(
    ("size", "deal"),
    [(1, deal_in_order), (3, deal_in_order), (3, deal_one_each), (7, deal_to_few),
     (16, deal_at_random), (16, deal_one_each)],
)  # fmt: skip
def test_any_number_of_workers_and_any_deal_gives_the_same_file(name, size, deal, tmp_path):
    assert_same(CONFIGURATIONS[name], size, deal, tmp_path)


# Every grower, a family of objectives each, every sampling, and what else may look at all rows.
MANY = [
    *FEW, "lambdamart depthwise", "lambdamart oblivious", "yetirank leafwise", "monotone",
    "rankmart", "yetiloss", "cross-leaf", "xendcg", "stochasticrank", "queries",
    "documents", "gradients", "variance of queries",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("size", [2, 3, 7, 16, 64])
@pytest.mark.parametrize("deal", [deal_at_random, deal_in_order, deal_one_each, deal_to_few])
def test_many_configurations_by_any_number_of_workers_and_any_deal(name, size, deal, tmp_path):
    assert_same(CONFIGURATIONS[name], size, deal, tmp_path)


@pytest.mark.parametrize("name", FEW)
def test_workers_that_all_search_every_block_give_the_same_file(name, monkeypatch, tmp_path):
    monkeypatch.undo()
    assert_same(CONFIGURATIONS[name], 3, deal_at_random, tmp_path)


@pytest.mark.parametrize("name", ["yetirank", "lambdamart leafwise"])
def test_64_workers_most_of_which_have_one_query_give_the_same_file(name, tmp_path):
    assert_same(CONFIGURATIONS[name], 64, deal_at_random, tmp_path)


@pytest.mark.parametrize(
    "more", [{"weights": True}, {"base_scores": True}, {"document_weights": True}], ids=str
)
def test_weights_and_base_scores_go_with_their_queries(more, tmp_path):
    assert_same({"objective": "lambdamart"}, 3, deal_at_random, tmp_path, **more)


@pytest.mark.parametrize("balanced", [False, True])
def test_classes_are_counted_over_all_workers(balanced, tmp_path):
    configuration = {"objective": "logistic", "balanced": balanced}
    assert_same(configuration, 5, deal_to_few, tmp_path, binary=True)
