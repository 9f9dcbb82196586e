"""The values of leaves, straight from their definitions, on the leaves that training has made."""

import numpy as np
import pytest

from boosting.samples import bits, make_data, train
from rankgrove._jit.exact import exact_sums
from rankgrove.boosting.parameters import Parameters
from rankgrove.boosting.sampling import sample_documents, sample_queries
from rankgrove.errors import ParameterError

RATE = 0.5


def forces_at(data, scores, iteration=0, **parameters):
    """Forces and curvatures of the objective at these scores."""
    forces, curvatures = np.empty((2, data.n_documents))
    objective = Parameters(**{"objective": "lambdamart", **parameters}).make_objective()
    objective.prepare(data, 1).compute(scores, iteration, forces, curvatures)
    return forces, curvatures


def leaves_of(tree, features):
    """The leaf of each document, walked split by split; no categories."""
    found = np.empty(len(features), dtype=np.int64)
    for row, values in enumerate(features):
        at = 0
        while at >= 0:
            value = values[tree.feature[at]]
            left = tree.missing_left[at] if np.isnan(value) else value <= tree.threshold[at]
            at = tree.left[at] if left else tree.right[at]
        found[row] = ~at
    return found


def sums_by(leaves, values, n_leaves):
    return np.bincount(leaves, values, n_leaves)


def first_tree(data, **parameters):
    """The first tree, and the leaf of each document."""
    run = train(data, **{"n_estimators": 1, "learning_rate": RATE, **parameters})
    tree = run.trees[0]
    assert tree.n_leaves > 4
    return tree, leaves_of(tree, data.features)


@pytest.mark.parametrize("split_gain", ["newton", "least_squares"])
@pytest.mark.parametrize(("l2", "l2_documents"), [(0.0, 0.0), (3.0, 0.0), (0.0, 2.5), (3.0, 2.5)])
def test_mean_leaf_is_the_sum_of_forces_by_the_number_of_documents_and_l2(
    split_gain, l2, l2_documents
):
    data = make_data(missing=0.2)
    tree, leaves = first_tree(
        data, leaf="mean", split_gain=split_gain, l2=l2, l2_documents=l2_documents
    )
    forces, _ = forces_at(data, np.zeros(data.n_documents))
    force = sums_by(leaves, forces, tree.n_leaves)
    expected = RATE * force / (np.bincount(leaves) + l2 + l2_documents)
    # Sums in another order.
    assert tree.value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("leaf", ["mean", "newton"])
def test_all_documents_count_alike_in_the_leaves_of_a_bootstrap(leaf):
    data = make_data()
    tree, leaves = first_tree(data, leaf=leaf, l2_documents=2.0, bootstrap=1.0)
    forces, curvatures = forces_at(data, np.zeros(data.n_documents))
    by = np.ones_like(curvatures) if leaf == "mean" else curvatures
    force, weight = (sums_by(leaves, values, tree.n_leaves) for values in (forces, by))
    assert tree.value == pytest.approx(RATE * force / (weight + 2.0 * by.mean()), rel=1e-10)


@pytest.mark.parametrize("sampling", ["query", "document"])
def test_l2_documents_is_the_l2_of_so_many_documents_of_average_curvature(sampling):
    data = make_data(weighted=True)
    by_rows = {"metric": "ndcg(ties=stable)"}
    _, curvatures = forces_at(data, np.zeros(data.n_documents), **by_rows)
    whole = {"n_estimators": 1, **by_rows}
    l2 = 7.0 * (exact_sums([curvatures])[0] / data.n_documents)
    one = train(data, l2_documents=7.0, **whole)
    same = train(data, l2=l2, **whole)
    assert bits(one) == bits(same) != bits(train(data, **whole))
    half = {**whole, "subsample": 0.5, "sampling": sampling}
    rows = rows_of_first_tree(data, sampling)
    assert 0 < len(rows) < data.n_documents
    l2 = 7.0 * (exact_sums([curvatures[rows]])[0] / len(rows))
    assert bits(train(data, l2_documents=7.0, **half)) == bits(train(data, l2=l2, **half))


def rows_of_first_tree(data, sampling):
    if sampling == "query":
        return sample_queries(data.shard, 0.5, 0, 0).rows
    return sample_documents(data.shard, 0.5, 0, 0).rows


def pairs_of(data, scores, *, normalise):
    """(i, j, force, curvature) of every pair of RankMART with label i > label j, one by one."""
    weights = np.ones(data.n_queries) if data.weights is None else data.weights
    for start, end, weight in zip(data.offsets[:-1], data.offsets[1:], weights, strict=True):
        pairs = []
        spread = len(set(scores[start:end])) > 1
        for i in range(start, end):
            for j in range(start, end):
                if data.labels[i] > data.labels[j]:
                    rho = 1 / (1 + np.exp(scores[i] - scores[j]))
                    by = 0.01 + abs(scores[i] - scores[j]) if normalise and spread else 1.0
                    pairs.append((i, j, rho / by, rho * (1 - rho) / by))
        total = 2 * sum(force for _, _, force, _ in pairs)
        scale = weight * (np.log2(1 + total) / total if normalise and total > 0 else 1.0)
        yield from ((i, j, scale * force, scale * curvature) for i, j, force, curvature in pairs)


def sums_over_pairs(data, scores, leaves, rows, *, normalise):
    """The force of each leaf, and the curvature of its documents' pairs with other leaves."""
    force, curvature = np.zeros((2, leaves.max() + 1))
    counts = np.isin(np.arange(data.n_documents), rows)
    for i, j, push, bend in pairs_of(data, scores, normalise=normalise):
        for document, sign in ((i, 1), (j, -1)):
            if counts[document]:
                force[leaves[document]] += sign * push
                curvature[leaves[document]] += bend if leaves[i] != leaves[j] else 0.0
    return force, curvature


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("subsample", [1.0, 0.5])
def test_cross_leaf_curvature_is_that_of_pairs_in_different_leaves(normalise, weighted, subsample):
    data = make_data(weighted=weighted, based=True, missing=0.2)
    tree, leaves = first_tree(
        data, objective="rankmart", normalise=normalise, leaf="newton_cross_leaf",
        subsample=subsample, l2=0.25,
    )  # fmt: skip
    rows = np.arange(data.n_documents)
    if subsample < 1:
        rows = sample_queries(data.shard, subsample, 0, 0).rows
    force, curvature = sums_over_pairs(data, data.base_scores, leaves, rows, normalise=normalise)
    expected = RATE * force / (curvature + 0.25)
    # Elementary functions of the kernels are good to some 1e-13.
    assert tree.value == pytest.approx(expected, rel=1e-9)


def test_cross_leaf_values_are_larger_steps_on_the_same_leaves():
    data = make_data()
    for objective in ("lambdamart", "yetirank", "rankmart"):
        newton, leaves = first_tree(data, objective=objective)
        cross, same_leaves = first_tree(data, objective=objective, leaf="newton_cross_leaf")
        assert np.array_equal(leaves, same_leaves)
        assert np.all(np.abs(cross.value) >= np.abs(newton.value) * (1 - 1e-12))
        assert np.any(np.abs(cross.value) > 1.05 * np.abs(newton.value))


def test_pairs_in_one_leaf_only_leave_the_least_curvature():
    # One split parts the queries, so that no pair has its documents in different leaves.
    data = make_data(n_queries=2, n_documents=60, n_features=1)
    features = np.repeat([[0.0], [1.0]], 60, axis=0).astype(np.float32)
    data = type(data).from_arrays(features, data.labels, group=[60, 60])
    run = train(data, leaf="newton_cross_leaf", n_estimators=2, l2=1.0)
    assert np.isfinite(run.scores).all()
    # The forces of a query add up to nothing, but for rounding.
    assert np.abs(run.scores).max() < 1e-9


@pytest.mark.parametrize("objective", ["regression", "stochasticrank", "softmax"])
def test_cross_leaf_values_are_refused_for_an_objective_without_pairs(objective):
    with pytest.raises(ParameterError, match=f"without pairs.*newton_cross_leaf.*{objective}"):
        Parameters(objective=objective, leaf="newton_cross_leaf")
    Parameters(objective="yetiloss", leaf="newton_cross_leaf")


def steps_by_hand(data, leaves, n_steps, start, *, leaf, by_weight, l2, objective):
    """The values of leaves after some steps, forces computed anew at the scores after each."""
    n_leaves = leaves.max() + 1
    values = np.zeros(n_leaves)
    for _ in range(n_steps):
        scores = start + values[leaves]
        forces, curvatures = forces_at(data, scores, objective=objective)
        if leaf == "mean":
            curvatures = np.ones(data.n_documents)
        force = sums_by(leaves, by_weight * forces, n_leaves)
        values += force / (sums_by(leaves, by_weight * curvatures, n_leaves) + l2)
    return values


@pytest.mark.parametrize(
    ("objective", "leaf", "subsample", "bootstrap"),
    [
        ("rankmart", "newton", 1.0, 0.0),
        ("lambdamart", "newton", 1.0, 0.0),
        ("lambdamart", "mean", 1.0, 0.0),
        ("rankmart", "newton", 0.5, 0.0),
        ("rankmart", "newton", 1.0, 1.0),
        ("rankmart", "mean", 0.5, 1.0),
    ],
)
@pytest.mark.parametrize("n_steps", [1, 2, 3, 5])
def test_steps_of_leaves_are_those_done_by_hand(objective, leaf, subsample, bootstrap, n_steps):
    data = make_data(based=True)
    tree, leaves = first_tree(
        data, objective=objective, leaf=leaf, leaf_steps=n_steps, l2=2.0, subsample=subsample,
        bootstrap=bootstrap,
    )  # fmt: skip
    weights = np.ones(data.n_documents)
    if subsample < 1:
        rows = sample_queries(data.shard, subsample, 0, 0).rows
        weights *= np.isin(np.arange(data.n_documents), rows)
    expected = steps_by_hand(
        data, leaves, n_steps, data.base_scores, leaf=leaf, by_weight=weights, l2=2.0,
        objective=objective,
    )  # fmt: skip
    assert tree.value == pytest.approx(RATE * expected, rel=1e-9, abs=1e-12)


def test_steps_of_cross_leaf_values_are_those_done_by_hand():
    data = make_data(n_queries=20)
    tree, leaves = first_tree(
        data, objective="rankmart", leaf="newton_cross_leaf", leaf_steps=3, l2=1.0
    )
    values = np.zeros(tree.n_leaves)
    everything = np.arange(data.n_documents)
    for _ in range(3):
        force, curvature = sums_over_pairs(
            data, values[leaves], leaves, everything, normalise=False
        )  # fmt: skip
        values += force / (curvature + 1.0)
    assert tree.value == pytest.approx(RATE * values, rel=1e-9)


def test_many_steps_end_where_forces_of_leaves_are_nothing():
    data = make_data()
    tree, leaves = first_tree(
        data, objective="rankmart", leaf_steps=60, learning_rate=1.0, max_leaves=5
    )
    forces, _ = forces_at(data, tree.value[leaves], objective="rankmart")
    first, _ = forces_at(data, np.zeros(data.n_documents), objective="rankmart")
    n_leaves = tree.n_leaves
    left = np.abs(sums_by(leaves, forces, n_leaves)).max()
    assert left < 1e-6 * np.abs(sums_by(leaves, first, n_leaves)).max()


@pytest.mark.parametrize(
    "parameters",
    [
        {"leaf": "mean"},
        {"leaf": "newton_cross_leaf"},
        {"leaf": "newton_cross_leaf", "subsample": 0.5, "leaf_steps": 3},
        {"leaf_steps": 4, "l2_documents": 3.0},
    ],
    ids=str,
)
def test_values_of_leaves_have_the_same_bits_on_any_number_of_threads(parameters):
    data = make_data(missing=0.1)
    runs = [train(data, n_jobs=n_jobs, **parameters) for n_jobs in (1, 2, 3)]
    assert bits(runs[0]) == bits(runs[1]) == bits(runs[2])
