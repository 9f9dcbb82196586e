"""The values of all leaves at once: against costs and pairs, straight from their formulas."""

from contextlib import nullcontext

import numpy as np
import pytest

from boosting.samples import bits, make_data, train
from boosting.test_leaves import RATE, first_tree, forces_at, leaves_of, pairs_of, sums_by
from rankgrove.boosting.loop import _DRAWN_ANEW
from rankgrove.boosting.parameters import Parameters
from rankgrove.boosting.sampling import sample_queries
from rankgrove.data.preferences import Preferences
from rankgrove.errors import ParameterError
from rankgrove.objectives.base import ForcesOfPairs
from rankgrove.objectives.leaf_pairs import LeafSums, unit_of_sums
from rankgrove.objectives.preferences import prepare_preferences
from rankgrove.trees.joint_leaves import joint_values, laplacian
from rankgrove.trees.predict import PreparedEnsemble

OBJECTIVES = ["rankmart", "lambdamart", "yetirank", "yetiloss"]


def first_two_labels(labels):
    """A metric that is a plain function."""
    return float(labels[0] + labels[1] / 2)


def matrix_of(prepared, scores, leaves, n_leaves, *, again=False, counts=None):
    """The matrix of a prepared objective after its forces; `again` computes pairs anew."""
    forces, curvatures = np.empty((2, len(scores)))
    prepared.compute(scores, 0, forces, curvatures)
    unit = unit_of_sums(curvatures.max(), len(scores))
    counts = np.ones(len(scores)) if counts is None else counts
    sums = LeafSums(leaves.astype(np.int32), n_leaves, counts, unit)
    if again:
        ForcesOfPairs.sum_between(prepared, scores, 0, sums)
    else:
        prepared.sum_between(scores, 0, sums)
    return laplacian(sums.whole(), unit), forces, curvatures


def system_of_pairs(data, scores, leaves, rows, *, normalise=False):
    """L and d, pair by pair, of RankMART."""
    n_leaves = leaves.max() + 1
    matrix, force = np.zeros((n_leaves, n_leaves)), np.zeros(n_leaves)
    for i, j, push, bend in pairs_of(data, scores, normalise=normalise):
        if i not in rows:
            continue
        a, b = leaves[i], leaves[j]
        force[a] += push
        force[b] -= push
        if a != b:
            matrix[[a, b], [a, b]] += bend
            matrix[[a, b], [b, a]] -= bend
    return matrix, force


def cost_at(data, scores, sigma):
    """RankNet's cost, from the formula."""
    whole = 0.0
    for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        z, r = scores[start:end], data.labels[start:end]
        costs = np.logaddexp(0, -sigma * (z[:, None] - z[None, :]))
        whole += costs[r[:, None] > r[None, :]].sum()
    return whole


@pytest.mark.parametrize("grower", ["leafwise", "depthwise", "oblivious"])
@pytest.mark.parametrize("l2", [0.0, 2.0])
def test_joint_step_is_the_newton_step_by_finite_differences_of_the_cost(grower, l2):
    data, sigma = make_data(n_queries=12, based=True), 1.3
    shape = {"max_depth": 3} if grower == "oblivious" else {"max_leaves": 6}
    run = train(
        data, objective="rankmart", sigma=sigma, leaf="joint", l2=l2, learning_rate=RATE,
        n_estimators=1, grower=grower, bootstrap=0, split_noise=0, **shape,
    )  # fmt: skip
    tree = run.trees[0]
    leaves, n = leaves_of(tree, data.features), tree.n_leaves
    assert n > 3
    step = 1e-3

    def moved(*which):
        values = np.zeros(n)
        for leaf, sign in which:
            values[leaf] += sign * step
        return cost_at(data, data.base_scores + values[leaves], sigma)

    gradient = np.array([moved((a, 1)) - moved((a, -1)) for a in range(n)]) / (2 * step)
    hessian = np.empty((n, n))
    for a in range(n):
        for b in range(n):
            signs = [(s, t) for s in (1, -1) for t in (1, -1)]
            hessian[a, b] = sum(s * t * moved((a, s), (b, t)) for s, t in signs) / (4 * step**2)
    # Without l2 the cost does not change along a constant.
    wanted = -np.linalg.pinv(hessian + l2 * np.eye(n), rcond=1e-6, hermitian=True) @ gradient
    assert tree.value == pytest.approx(RATE * wanted, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("subsample", [1.0, 0.5])
def test_joint_values_solve_the_system_of_pairs_across_leaves(normalise, weighted, subsample):
    data = make_data(weighted=weighted, based=True, missing=0.2)
    tree, leaves = first_tree(
        data, objective="rankmart", normalise=normalise, leaf="joint", subsample=subsample, l2=0.25
    )
    rows = np.arange(data.n_documents)
    if subsample < 1:
        rows = sample_queries(data.shard, subsample, 0, 0).rows
    matrix, force = system_of_pairs(data, data.base_scores, leaves, set(rows), normalise=normalise)
    wanted = np.linalg.solve(matrix + 0.25 * np.eye(len(force)), force)
    assert tree.value == pytest.approx(RATE * wanted, rel=1e-8)
    # What moves all scores alike is no force of pairs.
    assert abs(tree.value.sum()) < 1e-9 * np.abs(tree.value).sum()


def test_l2_documents_of_joint_values_is_that_of_newton():
    data = make_data(based=True)
    tree, leaves = first_tree(data, objective="rankmart", leaf="joint", l2_documents=7.0)
    matrix, force = system_of_pairs(
        data, data.base_scores, leaves, set(range(data.n_documents))
    )  # fmt: skip
    _, curvatures = forces_at(data, data.base_scores, objective="rankmart")
    l2 = 7.0 * curvatures.mean()
    wanted = np.linalg.solve(matrix + l2 * np.eye(len(force)), force)
    assert tree.value == pytest.approx(RATE * wanted, rel=1e-8)


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "rankmart"},
        {"objective": "lambdamart"},
        {"objective": "lambdamart", "metric": "map(relevant>=1)", "normalise": False},
        {"objective": "lambdamart", "neighbours": 3},
        {"objective": "lambdamart", "weighting": "ndcg_loss2++"},
        {"objective": "yetirank"},
        {"objective": "yetirank", "neighbours_exactly": 2, "normalise": True, "sigma": 1.5},
        {"objective": "yetirank", "noise_in_margin": True},
        {"objective": "yetirank", "neighbours": 11},
        {"objective": "yetiloss"},
        {"objective": "yetiloss", "metric": "err", "truncation": 3},
        {"objective": "yetiloss", "metric": first_two_labels},
    ],
    ids=lambda options: "-".join(map(str, options)),
)
@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_the_diagonal_of_the_matrix_is_the_curvature_across_leaves(options, spread):
    data = make_data(n_queries=9, weighted=True)
    rng = np.random.default_rng(0)
    n = data.n_documents
    leaves, scores = rng.integers(0, 7, n), spread * rng.normal(size=n)
    is_slow = callable(options.get("metric"))
    with pytest.warns(UserWarning, match="plain Python") if is_slow else nullcontext():
        prepared = Parameters(**options).make_objective().prepare(data, 1)
    prepared.keep_pairs()
    matrix, _, _ = matrix_of(prepared, scores, leaves, 7)
    again, _, _ = matrix_of(prepared, scores, leaves, 7, again=True)
    across = prepared.cross_leaf_curvatures(scores, 0, leaves.astype(np.int32))
    assert np.diag(matrix) == pytest.approx(np.bincount(leaves, across, 7), rel=1e-9)
    assert again == pytest.approx(matrix, rel=1e-9, abs=1e-12 * matrix.max())
    assert np.array_equal(matrix, matrix.T)
    assert np.abs(matrix.sum(axis=1)).max() <= 1e-12 * matrix.max()
    assert np.all(matrix - np.diag(np.diag(matrix)) <= 0)
    assert np.linalg.eigvalsh(matrix).min() >= -1e-12 * matrix.max()
    # It is no diagonal matrix, so that there is something to solve.
    assert np.count_nonzero(matrix) > 7


def test_pairs_of_preferences_stand_in_the_matrix():
    data = make_data(n_queries=6)
    rng = np.random.default_rng(1)
    better = np.repeat(data.offsets[:-1], 20) + rng.integers(0, 6, 120)
    worse = np.repeat(data.offsets[:-1], 20) + rng.integers(6, 12, 120)
    preferences = Preferences.from_rows(data, zip(better, worse, strict=True))
    objective = Parameters(objective="rankmart").make_objective()
    prepared = prepare_preferences(objective, data, preferences, 1)
    leaves, scores = rng.integers(0, 5, data.n_documents), rng.normal(size=data.n_documents)
    counts = np.array([1.0, 0.0, 2.0, 1.0, 1.0, 0.5])
    matrix, _, _ = matrix_of(prepared, scores, leaves, 5, counts=counts)
    wanted = np.zeros((5, 5))
    for i, j in zip(preferences.better, preferences.worse, strict=True):
        a, b = leaves[i], leaves[j]
        rho = 1 / (1 + np.exp(scores[i] - scores[j]))
        bend = counts[i // 12] * rho * (1 - rho)
        wanted[a, a] += bend
        wanted[b, b] += bend
        wanted[a, b] -= bend
        wanted[b, a] -= bend
    assert matrix == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    run = train(data, objective="rankmart", leaf="joint", l2=1.0)
    assert np.isfinite(run.scores).all()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_joint_values_are_the_same_for_scores_with_a_constant_added(objective):
    data = make_data()
    prepared = Parameters(objective=objective).make_objective().prepare(data, 1)
    prepared.keep_pairs()
    rng = np.random.default_rng(2)
    leaves, scores = rng.integers(0, 6, data.n_documents), rng.normal(size=data.n_documents)
    found = []
    for constant in (0.0, 64.0):
        matrix, forces, _ = matrix_of(prepared, scores + constant, leaves, 6)
        found.append(joint_values(matrix, sums_by(leaves, forces, 6), np.full(6, 0.5)))
    assert found[1] == pytest.approx(found[0], rel=1e-9)


def test_joint_values_less_that_of_a_hub_are_newtons_where_every_pair_has_one_document_in_it():
    # Leaf 0 has the worst document of each query, and no two others can be compared.
    data = make_data(n_queries=30, n_documents=6)
    labels = np.tile([0, 1, 1, 1, 1, 1], 30)
    data = type(data).from_arrays(data.features, labels, group=[6] * 30)
    leaves = np.tile([0, 1, 2, 3, 4, 4], 30)
    scores = np.random.default_rng(3).normal(size=180)
    prepared = Parameters(objective="rankmart").make_objective().prepare(data, 1)
    matrix, forces, curvatures = matrix_of(prepared, scores, leaves, 5)
    force, curvature = sums_by(leaves, forces, 5), sums_by(leaves, curvatures, 5)
    joint = joint_values(matrix, force, np.zeros(5))
    assert joint[1:] - joint[0] == pytest.approx(force[1:] / curvature[1:], rel=1e-9)
    # Newton moves the hub, too: leaves end further apart than where the cost is least.
    newton = force / curvature
    assert np.all(newton[1:] - newton[0] > 1.2 * (joint[1:] - joint[0]))


@pytest.mark.parametrize("held", [0.0, 0.3])
def test_joint_values_are_the_shortest_of_all_that_solve_the_system(held):
    rng = np.random.default_rng(4)
    for n in (1, 2, 3, 8, 40):
        weights = np.triu(rng.exponential(size=(n, n)) * (rng.random((n, n)) < 2 / n), 1)
        weights += weights.T
        matrix = np.diag(weights.sum(axis=1)) - weights
        forces = rng.normal(size=n)
        wanted = np.linalg.pinv(matrix + held * np.eye(n), rcond=1e-11, hermitian=True) @ forces
        got = joint_values(matrix, forces, np.full(n, held))
        assert got == pytest.approx(wanted, rel=1e-8, abs=1e-9)
    # Some parts are held, and others are not.
    parts = np.kron(np.eye(2), [[2.0, -2.0], [-2.0, 2.0]])
    got = joint_values(parts, np.array([1.0, -1.0, 3.0, 1.0]), np.array([0, 0, 1.0, 0]))
    assert got == pytest.approx([0.25, -0.25, 4.0, 4.5])


def test_rows_of_the_matrix_add_up_to_nothing_exactly():
    rng = np.random.default_rng(5)
    sums = rng.integers(0, 1 << 40, (6, 6))
    matrix = laplacian(sums, 2.0**-20)
    assert np.array_equal(matrix, matrix.T)
    off = matrix - np.diag(np.diag(matrix))
    assert np.diag(matrix) == pytest.approx(-off.sum(axis=1), rel=1e-15)


@pytest.mark.parametrize("n_documents", [2, 128, 129, 3000])
def test_pairs_that_are_kept_are_those_of_the_forces_but_for_their_last_bits(n_documents):
    data = make_data(n_queries=5, n_documents=n_documents)
    rng = np.random.default_rng(6)
    scores, leaves = rng.normal(size=data.n_documents), rng.integers(0, 9, data.n_documents)
    # The documents of a query of one label have no pairs.
    labels = np.where(np.arange(data.n_documents) < n_documents, 1, data.labels)
    data = type(data).from_arrays(data.features, labels, group=data.group)
    prepared = Parameters(objective="yetirank").make_objective().prepare(data, 1)
    again, _, _ = matrix_of(prepared, scores, leaves, 9)
    prepared.keep_pairs()
    kept, _, _ = matrix_of(prepared, scores, leaves, 9)
    place_bits = 2 * (n_documents - 1).bit_length()
    assert kept == pytest.approx(again, rel=2.0 ** (place_bits - 51), abs=1e-14 * again.max())


def test_sums_of_whole_numbers_stay_within_their_bits():
    for largest, n in ((0.25, 1), (3e-7, 10**9), (1e300, 50), (5e-324, 3)):
        unit = unit_of_sums(largest, n)
        assert np.isfinite(1 / unit)
        assert largest * n / unit <= 2.0**61
    assert unit_of_sums(1.0, 1000) == 2.0**-51
    assert np.isnan(unit_of_sums(np.inf, 10))


def test_steps_of_joint_values_are_those_done_by_hand():
    data = make_data(n_queries=20)
    tree, leaves = first_tree(data, objective="rankmart", leaf="joint", leaf_steps=3, l2=1.0)
    values = np.zeros(tree.n_leaves)
    everything = set(range(data.n_documents))
    for _ in range(3):
        matrix, force = system_of_pairs(data, values[leaves], leaves, everything)
        values += np.linalg.solve(matrix + np.eye(len(force)), force)
    assert tree.value == pytest.approx(RATE * values, rel=1e-8)


def test_a_few_joint_steps_end_where_forces_of_leaves_are_nothing():
    # Steps of each leaf by itself take ten times as many: `test_leaves`.
    data = make_data()
    tree, leaves = first_tree(
        data, objective="rankmart", leaf="joint", leaf_steps=6, learning_rate=1.0, max_leaves=5
    )
    forces, _ = forces_at(data, tree.value[leaves], objective="rankmart")
    first, _ = forces_at(data, np.zeros(data.n_documents), objective="rankmart")
    left = np.abs(sums_by(leaves, forces, tree.n_leaves)).max()
    assert left < 1e-6 * np.abs(sums_by(leaves, first, tree.n_leaves)).max()


@pytest.mark.parametrize("grower", ["leafwise", "depthwise", "oblivious"])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    "more", [{}, {"leaf_steps": 2, "subsample": 0.6, "sampling": "variance_query"}], ids=str
)
def test_joint_values_have_the_same_bits_on_any_number_of_threads(grower, objective, more):
    data = make_data(n_queries=300, missing=0.1)
    how = {"objective": objective, "grower": grower, "leaf": "joint", "n_estimators": 3, **more}
    if objective.startswith("yeti"):
        how["leaf_noise"] = "new"
    if grower != "leafwise":
        how |= {"max_depth": 4}
    runs = [train(data, n_jobs=n_jobs, **how) for n_jobs in (1, 2, 4)]
    assert bits(runs[0]) == bits(runs[1]) == bits(runs[2])
    assert bits(runs[0]) != bits(train(data, **{**how, "leaf": "newton"}))


def test_joint_values_of_a_monotone_feature_stay_within_their_bounds():
    data = make_data()
    run = train(data, leaf="joint", monotone={0: 1, 1: -1}, n_estimators=4)
    for feature, sign in ((0, 1), (1, -1)):
        moved = np.array(data.features[:50])
        scored = PreparedEnsemble(run.trainer.ensemble)
        low = scored.score(moved)
        moved[:, feature] += 1.0
        assert np.all(sign * (scored.score(moved) - low) >= -1e-12)


@pytest.mark.parametrize("objective", ["yetirank", "yetiloss"])
@pytest.mark.parametrize("leaf", ["newton", "mean", "joint"])
def test_new_noise_gives_the_same_splits_and_the_values_of_another_draw(objective, leaf):
    data = make_data()
    how = {"objective": objective, "leaf": leaf, "l2": 1.0}
    same, leaves = first_tree(data, **how)
    new, new_leaves = first_tree(data, **how, leaf_noise="new")
    assert np.array_equal(leaves, new_leaves)
    assert not np.array_equal(same.value, new.value)
    forces, curvatures = forces_at(
        data, np.zeros(data.n_documents), _DRAWN_ANEW, objective=objective
    )  # fmt: skip
    force = sums_by(leaves, forces, new.n_leaves)
    if leaf == "joint":
        assert abs(new.value.sum()) < 1e-9
    else:
        by = curvatures if leaf == "newton" else np.ones_like(forces)
        weight = sums_by(leaves, by, new.n_leaves)
        assert new.value == pytest.approx(RATE * force / (weight + 1.0), rel=1e-9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"objective": "regression", "leaf": "joint"}, "without pairs.*'joint' for regression"),
        ({"leaf": "joint", "subsample": 0.5, "sampling": "document"}, "query or variance_query"),
        ({"leaf": "joint", "max_leaves": 1025}, "more than 1,024 leaves.*1,025"),
        ({"leaf": "joint", "grower": "oblivious", "max_depth": 11}, "2,048"),
        ({"objective": "lambdamart", "leaf_noise": "new"}, "without noise.*'new' for lambdamart"),
        ({"leaf_noise": "new", "temperature": 1e3}, "same with a temperature"),
    ],
)
def test_joint_values_and_new_noise_are_refused_where_they_mean_nothing(wrong, message):
    with pytest.raises(ParameterError, match=message):
        Parameters(**wrong)


def test_the_matrix_of_a_sum_of_metrics_is_the_weighted_sum_of_theirs():
    data = make_data()
    rng = np.random.default_rng(3)
    scores, leaves = rng.normal(size=data.n_documents), rng.integers(0, 4, size=data.n_documents)
    metrics = {"ndcg@5": 2.0, "ndcg": 0.5}

    def matrix(metric):
        objective = Parameters(objective="lambdamart", metric=metric).make_objective()
        prepared = objective.prepare(data)
        prepared.keep_pairs()
        return matrix_of(prepared, scores, leaves, 4)[0]

    expected = sum(weight * matrix(metric) for metric, weight in metrics.items())
    np.testing.assert_allclose(matrix(metrics), expected, rtol=1e-9, atol=1e-12)
