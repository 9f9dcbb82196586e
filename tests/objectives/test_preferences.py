"""Forces of preferences against the formulas, the laws they obey, and training from them."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from rankgrove import Ranker, make_web_search
from rankgrove.data.dataset import Dataset
from rankgrove.data.preferences import Preferences
from rankgrove.errors import DataError, ParameterError
from rankgrove.objectives.listwise import QueryRMSE
from rankgrove.objectives.pairwise import LambdaMART, RankMART, YetiLoss, YetiRank
from rankgrove.objectives.preferences import prepare_preferences

# The kernel and the loop of the test differ by the rounding of each pair, some units of the last
# place, and add pairs in the same order.
TOLERANCE = 1e-13


def dataset(group, weights=None, labels=None):
    n = sum(group)
    labels = np.zeros(n) if labels is None else labels
    return Dataset.from_arrays(np.zeros((n, 1)), labels, group=group, weights=weights)


def compute(objective, data, pairs, scores, n_jobs=1):
    pairs = pairs if isinstance(pairs, Preferences) else Preferences.from_rows(data, pairs)
    forces, curvatures = np.full(data.n_documents, np.nan), np.full(data.n_documents, np.nan)
    prepared = prepare_preferences(objective, data, pairs, n_jobs)
    prepared.compute(np.asarray(scores, dtype=float), 0, forces, curvatures)
    return forces, curvatures


def random_case(seed, n_queries=12, longest=40, n_pairs=400):
    """Data with weights, scores with ties, and pairs, some of them twice or both ways round."""
    rng = np.random.default_rng(seed)
    group = rng.integers(2, longest, size=n_queries).tolist()
    data = dataset(group, weights=rng.integers(1, 5, n_queries) / 2)
    pairs = []
    for query in rng.integers(0, n_queries - 1, size=n_pairs):
        i, j = rng.choice(group[query], size=2, replace=False) + data.offsets[query]
        pairs.append((int(i), int(j), float(rng.choice([0.0, 0.1, 0.5, 0.9, 1.0]))))
    return data, pairs, np.round(2 * rng.normal(size=sum(group)), 1)


def naive_weights(data, pairs, scores, *, discount=None, truncation=None):
    """What each pair counts: by the ranks of its documents, ties in the order of rows."""
    rank, of_query = {}, {}
    for query, (lo, hi) in enumerate(itertools.pairwise(data.offsets.tolist())):
        order = sorted(range(lo, hi), key=lambda row: (-scores[row], row))
        rank.update({row: at for at, row in enumerate(order, 1)})
        of_query.update(dict.fromkeys(order, query))
    weights = []
    for i, j, *_ in pairs:
        weight = 1.0 if data.weights is None else float(data.weights[of_query[i]])
        if discount is not None:
            weight *= abs(discount(rank[i]) - discount(rank[j]))
        if truncation is not None and min(rank[i], rank[j]) > truncation:
            weight = 0.0
        weights.append(weight)
    return weights


def naive_forces(data, pairs, scores, weights, sigma):
    forces, curvatures, sizes = (np.zeros(data.n_documents) for _ in range(3))
    for (i, j, wanted), weight in zip(pairs, weights, strict=True):
        chance = 1 / (1 + math.exp(-sigma * (scores[i] - scores[j])))
        force = sigma * weight * (wanted - chance)
        forces[i] += force
        forces[j] -= force
        for row in (i, j):
            curvatures[row] += sigma**2 * weight * chance * (1 - chance)
            sizes[row] += sigma * weight
    return forces, curvatures, sizes


def test_the_weight_of_a_pair_and_of_its_documents_multiply_what_it_counts():
    data, pairs, scores = random_case(3)
    rng = np.random.default_rng(4)
    of_pairs = rng.integers(0, 5, len(pairs)) / 2
    of_documents = rng.integers(0, 5, data.n_documents) / 2
    weighed = replace(data, document_weights=of_documents)
    given = [(*pair, weight) for pair, weight in zip(pairs, of_pairs, strict=True)]
    for objective in (RankMART(), LambdaMART(metric="dcg", truncation=7, normalise=False)):
        discount = (
            (lambda rank: 1 / math.log2(1 + rank)) if objective.name == "lambdamart" else None
        )
        weights = naive_weights(
            data, pairs, scores, discount=discount, truncation=objective.truncation
        )
        for at, (i, j, _) in enumerate(pairs):
            weights[at] *= of_pairs[at] * of_documents[i] * of_documents[j]
        wanted = naive_forces(data, pairs, scores, weights, 1.0)
        got = compute(objective, weighed, given, scores)
        for numbers, right in zip(got, wanted[:2], strict=True):
            assert np.all(np.abs(numbers - right) <= TOLERANCE * (1 + wanted[2]))


def test_a_pair_of_weight_two_counts_as_the_pair_given_twice():
    data, pairs, scores = random_case(5)
    twice = compute(RankMART(), data, [*pairs, *pairs], scores)
    double = compute(RankMART(), data, [(*pair, 2.0) for pair in pairs], scores)
    np.testing.assert_allclose(double, twice, rtol=0, atol=1e-12)


def cost(pairs, scores, weights, sigma):
    """Cross entropy of the pairs, the weights held fixed."""
    total = 0.0
    for (i, j, wanted), weight in zip(pairs, weights, strict=True):
        chance = 1 / (1 + math.exp(-sigma * (scores[i] - scores[j])))
        total -= weight * (wanted * math.log(chance) + (1 - wanted) * math.log(1 - chance))
    return total


def dcg(cut=math.inf):
    return lambda rank: 1 / math.log2(1 + rank) if rank <= cut else 0.0


# An objective, and the discounts and truncation that its pairs count by.
CASES = {
    "rankmart": (RankMART(), {}),
    "rankmart, sigma": (RankMART(sigma=2.0), {}),
    "rankmart, truncation": (RankMART(truncation=4), {"truncation": 4}),
    "ndcg": (LambdaMART(truncation=None), {"discount": dcg()}),
    "ndcg@5": (LambdaMART(metric="ndcg@5", truncation=None), {"discount": dcg(5)}),
    "dcg@3, sigma": (LambdaMART(metric="dcg@3", truncation=None, sigma=0.5),
                     {"discount": dcg(3)}),
    "truncation": (LambdaMART(truncation=3), {"discount": dcg(), "truncation": 3}),
    "truncation, not the cut-off": (LambdaMART(metric="ndcg@5", truncation=7),
                                    {"discount": dcg(), "truncation": 7}),
    "default truncation": (LambdaMART(), {"discount": dcg(), "truncation": 30}),
    "exponential discounts": (LambdaMART(metric="expdcg(b=0.5)", truncation=None),
                              {"discount": lambda rank: 0.5 ** (rank - 1)}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_forces_equal_the_formulas(case):
    objective, how = CASES[case]
    for seed in range(3):
        data, pairs, scores = random_case(seed)
        weights = naive_weights(data, pairs, scores, **how)
        assert any(weights)
        wanted, bends, sizes = naive_forces(data, pairs, scores, weights, objective.sigma)
        forces, curvatures = compute(objective, data, pairs, scores)
        assert np.all(np.abs(forces - wanted) <= TOLERANCE * sizes)
        assert np.all(np.abs(curvatures - bends) <= TOLERANCE * sizes * objective.sigma)


@pytest.mark.parametrize("case", CASES)
def test_forces_are_minus_the_derivative_of_the_cost_with_fixed_weights(case):
    objective, how = CASES[case]
    data, pairs, scores = random_case(7, n_queries=3, longest=12, n_pairs=25)
    weights = naive_weights(data, pairs, scores, **how)
    forces, curvatures = compute(objective, data, pairs, scores)
    step = 1e-4
    for row in range(data.n_documents):
        costs = []
        for move in (-step, 0.0, step):
            moved = scores.copy()
            moved[row] += move
            costs.append(cost(pairs, moved, weights, objective.sigma))
        # The error of the differences: step^2, and rounding of a cost of some 20 over the step.
        assert forces[row] == pytest.approx(-(costs[2] - costs[0]) / (2 * step), abs=1e-6)
        second = (costs[2] - 2 * costs[1] + costs[0]) / step**2
        assert curvatures[row] == pytest.approx(second, abs=1e-5)


@pytest.mark.parametrize("objective", [RankMART(), LambdaMART(metric="ndcg@5")], ids=str)
def test_any_number_of_threads_gives_the_same_bits(objective):
    # More queries than a thread takes at once.
    data, pairs, scores = random_case(1, n_queries=300, longest=15, n_pairs=3000)
    one = compute(objective, data, pairs, scores, n_jobs=1)
    for n_jobs in (2, 4):
        many = compute(objective, data, pairs, scores, n_jobs=n_jobs)
        assert [part.tobytes() for part in many] == [part.tobytes() for part in one]


def pairs_of_labels(data):
    """Every pair of a query with different labels, the better one first."""
    pairs = []
    for lo, hi in itertools.pairwise(data.offsets.tolist()):
        better, worse = np.nonzero(data.labels[lo:hi, None] > data.labels[None, lo:hi])
        pairs += zip((better + lo).tolist(), (worse + lo).tolist(), strict=True)
    return pairs


@pytest.mark.parametrize("options", [{}, {"sigma": 1.5}, {"truncation": 5}], ids=str)
def test_sure_pairs_of_labels_push_as_labels_do(options):
    rng = np.random.default_rng(3)
    group = rng.integers(1, 40, size=30).tolist()
    data = dataset(group, rng.random(30) + 0.5, rng.integers(0, 5, size=sum(group)))
    scores = rng.normal(size=sum(group))
    objective = RankMART(**options)
    by_labels = np.empty((2, data.n_documents))
    objective.prepare(data, n_jobs=1).compute(scores, 0, by_labels[0], by_labels[1])
    by_pairs = compute(objective, data, pairs_of_labels(data), scores)
    # Some forty terms of at most 2.25 in another order and by another exponential.
    np.testing.assert_allclose(by_pairs[0], by_labels[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(by_pairs[1], by_labels[1], rtol=0, atol=1e-12)


def test_binary_labels_and_lambdamart_by_dcg_push_as_their_pairs_do():
    rng = np.random.default_rng(4)
    group = rng.integers(2, 40, size=30).tolist()
    data = dataset(group, labels=rng.integers(0, 2, size=sum(group)))
    scores = rng.normal(size=sum(group))
    for metric, truncation in (("dcg", None), ("dcg@5", None), ("dcg", 6)):
        objective = LambdaMART(metric=metric, truncation=truncation, normalise=False)
        by_labels = np.empty((2, data.n_documents))
        objective.prepare(data, n_jobs=1).compute(scores, 0, by_labels[0], by_labels[1])
        by_pairs = compute(objective, data, pairs_of_labels(data), scores)
        np.testing.assert_allclose(by_pairs, by_labels, rtol=0, atol=1e-12)


def test_queries_without_pairs_have_no_force():
    data = dataset([3, 1, 2, 4])
    forces, curvatures = compute(RankMART(), data, [(5, 4)], np.arange(10.0))
    assert np.flatnonzero(forces).tolist() == np.flatnonzero(curvatures).tolist() == [4, 5]
    assert forces[5] == -forces[4] > 0


def test_documents_without_pairs_have_no_force_but_count_in_the_ranks():
    data = dataset([3])
    forces, _ = compute(LambdaMART(), data, [(2, 0)], [2.0, 1.0, 0.0])
    weight = 1 - 1 / math.log2(4)
    assert forces[1] == 0
    assert forces[2] == pytest.approx(weight / (1 + math.exp(-2)), rel=1e-14)


def test_scores_far_apart_push_fully_or_not_at_all():
    data = dataset([4])
    forces, curvatures = compute(RankMART(), data, [(0, 1), (3, 2)], [1e308, -1e308, 1e4, -1e4])
    assert np.isfinite(forces).all()
    assert np.isfinite(curvatures).all()
    assert forces.tolist() == [pytest.approx(0, abs=1e-300), pytest.approx(0, abs=1e-300), -1, 1]


def test_a_probability_turned_round_is_the_pair_turned_round():
    data, pairs, scores = random_case(5)
    turned = [(j, i, 1 - wanted) for i, j, wanted in pairs]
    here, there = (compute(LambdaMART(), data, given, scores)[0] for given in (pairs, turned))
    # 1 - P has a rounding error of its own.
    np.testing.assert_allclose(here, there, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "pairs",
    [[(0, 1, 0.8)], [(0, 1), (1, 0), (0, 1), (0, 1), (0, 1)], [(0, 1, 0.9), (1, 0, 0.3)]],
    ids=["one", "votes", "contradiction"],
)
@pytest.mark.parametrize("sigma", [1.0, 2.0])
def test_contradictory_pairs_push_to_the_log_odds(pairs, sigma):
    data = dataset([2])
    # Each list says that 0 is better with a mean probability of 0.8.
    odds = math.log(4) / sigma
    for gap, sign in ((odds - 0.1, 1), (odds + 0.1, -1)):
        forces, _ = compute(RankMART(sigma=sigma), data, pairs, [gap, 0.0])
        assert np.sign(forces).tolist() == [sign, -sign]
    forces, _ = compute(RankMART(sigma=sigma), data, pairs, [odds, 0.0])
    assert np.abs(forces).max() < 1e-14


def test_training_on_contradictory_pairs_ends_at_the_log_odds():
    features = np.tile([[0.0], [1.0]], (50, 1))
    pairs = [(2 * query + 1, 2 * query) for query in range(40)]
    pairs += [(2 * query, 2 * query + 1) for query in range(40, 50)]
    ranker = Ranker("rankmart", n_estimators=200, min_samples_leaf=1, l2=0.0)
    scores = ranker.fit(features, group=[2] * 50, preferences=pairs).predict(features)
    # 40 of 50 say that the second is better. Newton steps of 0.1 leave 0.9^200 of the way.
    assert scores[1] - scores[0] == pytest.approx(math.log(4), abs=1e-3)


@pytest.mark.parametrize(
    "objective",
    [
        YetiRank(),
        YetiLoss(),
        QueryRMSE(),
        RankMART(noise="logistic"),
        LambdaMART(noise="gaussian"),
        RankMART(neighbours=1),
        LambdaMART(neighbours=3),
    ],
    ids=str,
)
def test_other_objectives_are_refused_by_name(objective):
    refused = rf"objective must be rankmart or lambdamart, .* Got {objective.name}"
    with pytest.raises(ParameterError, match=refused):
        compute(objective, dataset([2]), [(0, 1)], [0, 0])


@pytest.mark.parametrize("metric", ["map", "mrr", "err"])
def test_metrics_without_discounts_are_refused_by_name(metric):
    with pytest.raises(ParameterError, match=f"metric must be one with discounts.* Got {metric}"):
        compute(LambdaMART(metric=metric), dataset([2]), [(0, 1)], [0, 0])


def make_parts():
    return make_web_search(500, 16, mean_documents=12, seed=11).split(0.2, 0.8)


# Preferences are not normalised by query, so they are held to labels that are not either.
@pytest.mark.parametrize(
    "objective", [RankMART(), LambdaMART(normalise=False)], ids=["rankmart", "lambdamart"]
)
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_pairs_made_from_labels_train_about_as_well_as_labels(objective, share):
    train, test = make_parts()
    pairs = pairs_of_labels(train)
    kept = np.random.default_rng(0).random(len(pairs)) < share
    pairs = [pair for pair, keep in zip(pairs, kept, strict=True) if keep]
    options = {"objective": objective, "max_leaves": 8}
    by_labels = Ranker(n_estimators=40, **options).fit(train).score(test)
    qid = np.repeat(np.arange(train.n_queries), train.group)
    by_pairs = Ranker(n_estimators=40, **options).fit(train.features, qid=qid, preferences=pairs)
    # Means of NDCG over 400 queries, each with a deviation of some 0.25, differ by chance by
    # 0.0125; scores by pairs turned round lose 0.2 and more.
    assert by_pairs.score(test) > by_labels - 0.025
    turned = [(worse, better) for better, worse in pairs]
    wrong = Ranker(n_estimators=40, **options).fit(train.features, qid=qid, preferences=turned)
    assert wrong.score(test) < by_labels - 0.1


def test_labels_do_not_matter_where_there_are_preferences():
    train, _ = make_parts()
    pairs = pairs_of_labels(train)[::7]
    other = Dataset.from_arrays(train.features, np.zeros(train.n_documents), group=train.group)
    options = {"n_estimators": 4, "max_leaves": 8}
    first, second = (Ranker(**options).fit(data, preferences=pairs) for data in (train, other))
    assert first.predict(train).tobytes() == second.predict(train).tobytes()
    assert first.predict(train).tobytes() != Ranker(**options).fit(train).predict(train).tobytes()


def test_training_from_preferences_goes_on_from_a_checkpoint_with_the_same_pairs_only(tmp_path):
    train, _ = make_parts()
    pairs = pairs_of_labels(train)[::5]
    parameters = {"objective": "lambdamart", "n_estimators": 6}
    whole = Ranker(**parameters).fit(train, preferences=pairs)
    first = Ranker(n_estimators=3).fit(train, preferences=pairs)
    more = Ranker(n_estimators=6).fit(train, preferences=pairs, resume=first.model_)
    assert more.predict(train).tobytes() == whole.predict(train).tobytes()
    for other in (pairs[:-1], [(*pairs[0], 0.5), *pairs[1:]], None):
        with pytest.raises(DataError, match="Got other training data"):
            Ranker(n_estimators=6).fit(train, preferences=other, resume=first.model_)


def test_a_base_model_and_preferences_go_together():
    train, _ = make_parts()
    base = Ranker(n_estimators=3).fit(train)
    pairs = pairs_of_labels(train)[::5]
    model = Ranker("rankmart", n_estimators=2).fit(train, preferences=pairs, base_model=base).model_
    assert (model.n_trees, model.n_base_trees) == (5, 3)
    on_scores = Ranker("rankmart", n_estimators=2).fit(
        train.features, group=train.group, base_scores=base.predict(train), preferences=pairs
    )
    got = on_scores.predict(train.features, base_scores=base.predict(train))
    assert model.predict(train).tobytes() == got.tobytes()


def test_data_whose_rows_would_be_moved_are_refused():
    features = np.arange(8.0).reshape(-1, 1)
    with pytest.raises(DataError, match="must name rows that stay where they are"):
        Ranker("rankmart").fit(
            features, qid=[1, 2] * 4, split_queries="group", preferences=[(0, 2)]
        )


def test_preferences_of_other_data_are_refused():
    pairs = Preferences.from_rows(dataset([4, 2]), [(0, 3)])
    with pytest.raises(DataError):
        prepare_preferences(LambdaMART(), dataset([3, 3]), pairs)


@pytest.mark.parametrize("objective", [RankMART(sigma=1.3), LambdaMART(sigma=1.3)])
def test_curvatures_across_leaves_count_only_pairs_in_different_leaves(objective):
    rng = np.random.default_rng(3)
    data = Dataset.from_arrays(np.zeros((8, 1)), np.zeros(8), group=[8])
    rows = [(*rng.choice(8, 2, replace=False).tolist(), float(rng.uniform())) for _ in range(15)]
    scores, leaves = rng.normal(size=8), rng.integers(0, 2, size=8).astype(np.int32)
    across = [row for row in rows if leaves[row[0]] != leaves[row[1]]]
    assert 0 < len(across) < 15
    curvatures = []
    for chosen in (rows, across):
        prepared = prepare_preferences(objective, data, Preferences.from_rows(data, chosen))
        forces, whole = np.empty(8), np.empty(8)
        prepared.compute(scores, 0, forces, whole)
        curvatures.append((prepared.cross_leaf_curvatures(scores, 0, leaves), whole))
    # A curvature is a sum over pairs, and those of the other pairs are 0.
    assert curvatures[0][0] == pytest.approx(curvatures[1][1], rel=1e-14)
    assert curvatures[0][0].sum() < curvatures[0][1].sum()


def test_leaves_of_preferences_take_the_step_of_pairs_across_leaves():
    features, pairs = np.array([0.0, 0.0, 1.0, 1.0])[:, None], [(0, 2), (1, 3), (0, 1)]
    options = {
        "n_estimators": 1, "min_samples_leaf": 1, "learning_rate": 1.0, "l2": 0.0,
        "min_child_weight": 0.0, "max_leaves": 2, "bootstrap": 0.0, "split_noise": 0.0,
    }  # fmt: skip
    steps = {}
    for leaf in ("newton", "newton_cross_leaf"):
        ranker = Ranker("rankmart", leaf=leaf, **options)
        steps[leaf] = ranker.fit(features, group=[4], preferences=pairs).predict(features)
    # Two pairs cross the leaves, with force 1/2 and curvature 1/4 each; the third stays in one.
    assert steps["newton_cross_leaf"] == pytest.approx([2.0, 2.0, -2.0, -2.0])
    assert steps["newton"] == pytest.approx([1.0, 1.0, -2.0, -2.0])
