"""Distilling: what a student learns from its teacher, what is made for it, what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from rankgrove import (
    CombinedModel,
    Dataset,
    Model,
    Ranker,
    bin_files,
    distil,
    evaluate,
    export_model,
    from_frame,
    load,
    make_web_search,
    write_letor,
)
from rankgrove.errors import DataError, ParameterError
from rankgrove.experiments.distil.distil import STUDENT_DEFAULTS, size_of
from rankgrove.experiments.distil.made_documents import make_documents
from rankgrove.model.base import ScoringModel
from rankgrove.model.files import TREES

SMALL = {"n_estimators": 20, "max_leaves": 8, "min_samples_leaf": 5}


@pytest.fixture(scope="module")
def parts():
    return make_web_search(60, 16, mean_documents=15, seed=3).split(0.7, 0.3)


@pytest.fixture(scope="module")
def teacher(parts):
    return Ranker(objective="lambdamart", members=3, n_estimators=10).fit(parts[0]).model_


def files_of(model, folder):
    model.save(folder / "model.safetensors")
    return (folder / "model.safetensors").read_bytes()


class Shifted(ScoringModel):
    """A model whose scores are higher by a constant in each query."""

    _format = TREES

    def __init__(self, model, feature, factor=1.0):
        self.model, self.feature, self.factor = model, feature, factor
        self.schema, self.notes, self.parameters = model.schema, {}, {}

    @property
    def checksum(self):
        return self.model.checksum

    def _score(self, features, base, n_trees, n_jobs):
        scores = self.model._score(features, base, n_trees, n_jobs)
        return self.factor * scores + np.asarray(features)[:, self.feature]

    def _contributions(self, features, base, n_jobs):
        raise NotImplementedError

    def _to_file(self):
        raise NotImplementedError

    def _from_file(self):
        raise NotImplementedError


def by_query(data, rng):
    """The data with a first feature that is the same for all documents of a query."""
    constants = np.repeat(rng.integers(-4, 5, data.n_queries), data.group)
    features = data.features.copy()
    features[:, 0] = constants
    return replace(data, features=features)


def test_the_student_of_one_tree_has_its_ranking(parts):
    train, valid = parts
    one = Ranker(objective="lambdamart", n_estimators=1, grower="leafwise", max_leaves=6).fit(train)
    options = {"n_estimators": 200, "learning_rate": 0.5, "min_samples_leaf": 1, "l2": 0.0,
               "l2_documents": 0.0, "early_stopping_rounds": None}  # fmt: skip
    found = distil(one, train, valid=valid, made=0, parameters=options)
    wanted, got = one.predict(train), found.model.predict(train)
    for first, last in zip(train.offsets[:-1], train.offsets[1:], strict=True):
        w, g = wanted[first:last], got[first:last]
        above = w[:, None] > w[None, :]
        assert (g[:, None] > g[None, :])[above].all()
    assert found.explained > 0.9


def test_more_trees_come_closer(parts, teacher):
    few, many = (
        distil(teacher, parts[0], valid=parts[1], parameters=SMALL | {"n_estimators": n})
        for n in (5, 40)
    )
    assert many.explained > few.explained + 0.05
    assert many.agreement > few.agreement


def test_documents_that_are_made_bring_the_student_closer(parts, teacher):
    none, some = (
        distil(teacher, parts[0], valid=parts[1], made=made, parameters={"n_estimators": 80})
        for made in (0, 8)
    )
    assert some.explained > none.explained
    assert some.model.notes["distilled_from"]["made_documents"] == 8 * parts[0].n_documents


def test_threads_do_not_change_a_bit(parts, teacher, tmp_path):
    one, two = (
        distil(teacher, *parts[:1], valid=parts[1], parameters=SMALL, n_jobs=n) for n in (1, 2)
    )
    assert files_of(one.model, tmp_path) == files_of(two.model, tmp_path)
    assert (one.agreement, one.explained) == (two.agreement, two.explained)
    assert one.comparison.to_dict() == two.comparison.to_dict()


def test_labels_of_the_data_are_not_looked_at(parts, teacher, tmp_path):
    train, valid = parts
    blank = replace(train, labels=np.zeros_like(train.labels))
    told, untold = (distil(teacher, d, valid=valid, parameters=SMALL) for d in (train, blank))
    assert np.array_equal(told.model.predict(valid), untold.model.predict(valid))
    unjudged = replace(valid, labels=np.ones_like(valid.labels))
    found = distil(teacher, train, valid=unjudged, parameters=SMALL)
    assert found.comparison is None
    assert found.lost == {}
    assert np.array_equal(found.model.predict(valid), told.model.predict(valid))
    assert "No metric is measured" in str(found)


def test_a_constant_of_the_teacher_in_each_query_and_its_scale_change_nothing(parts, teacher):
    rng = np.random.default_rng(0)
    train, valid = (by_query(part, rng) for part in parts)
    plain = distil(Shifted(teacher, 0, 1.0), train, valid=valid, made=0, parameters=SMALL)
    scale = distil(Shifted(teacher, 0, 4.0), train, valid=valid, made=0, parameters=SMALL)
    alone = distil(teacher, train, valid=valid, made=0, parameters=SMALL)
    for found in (plain, scale):
        # (Sums differ in their last bits.)
        wanted = alone.model.predict(valid)
        np.testing.assert_allclose(found.model.predict(valid), wanted, rtol=0, atol=1e-5)


def test_a_mixture_with_networks_becomes_trees(parts):
    pytest.importorskip("torch")
    train, valid = parts
    mixed = Ranker(mix="lambdamart, lambdarank", n_estimators=10).fit(train).model_
    assert isinstance(mixed, CombinedModel)
    found = distil(mixed, train, valid=valid, parameters={"n_estimators": 80})
    assert type(found.model) is Model
    assert found.explained > 0.7
    origin = found.model.notes["distilled_from"]
    assert origin["checksum"] == mixed.checksum
    assert origin["weights"] == size_of(mixed)["weights"] > 0
    assert origin["trees"] == mixed.parts[0].n_trees


def test_the_student_loads_and_exports_and_says_where_it_came_from(parts, teacher, tmp_path):
    found = distil(teacher, parts[0], parameters=SMALL)
    found.save(tmp_path / "small.safetensors")
    again = load(tmp_path / "small.safetensors")
    assert np.array_equal(again.predict(parts[1]), found.model.predict(parts[1]))
    assert again.notes["distilled_from"]["checksum"] == teacher.checksum
    assert again.notes["distilled_from"]["trees"] == 30
    export_model(again, tmp_path / "small.py")
    assert (tmp_path / "small.py").exists()


def test_the_comparison_is_that_of_both_on_documents_held_out(parts, teacher):
    train, valid = parts
    found = distil(teacher, train, valid=valid, metrics="ndcg@5", parameters=SMALL)
    rows = {row.name: row for row in found.comparison.summary("ndcg@5")}
    for name, model in (("teacher", teacher), ("student", found.model)):
        own = evaluate(valid, model.predict(valid), "ndcg@5")["ndcg@5"]
        assert rows[name].mean == pytest.approx(own, abs=1e-15)
    pair = found.lost["ndcg@5"]
    assert pair.difference == pytest.approx(rows["student"].mean - rows["teacher"].mean)
    assert all(time > 0 for time in found.speed.values())
    lines = str(found).splitlines()
    assert lines[0].split() == ["ndcg@5", "µs", "a", "document", "trees", "leaves", "weights"]
    assert [line.split()[0] for line in lines[1:3]] == ["teacher", "student"]
    assert f"{pair.difference:+.4f}" in str(found)


def test_a_share_of_queries_is_held_out_where_no_data_are_given(parts, teacher):
    found = distil(teacher, parts[0], held_out=0.25, parameters=SMALL)
    rest = parts[0].split(0.75, 0.25, seed=0)[1]
    (row, _) = found.comparison.summary("ndcg@10")
    assert row.counted + row.skipped == rest.n_queries


def test_categories_stay_categories(parts):
    rng = np.random.default_rng(1)
    n = 600
    kinds = rng.integers(0, 5, n)
    frame = {
        "label": (kinds % 2 + (rng.random(n) < 0.2)).astype(float),
        "qid": np.repeat(np.arange(60), 10),
        "kind": np.array(["e", "b", "a", "d", "c"])[kinds],
        "number": kinds.astype(float),
        "noise": rng.random(n),
    }
    pandas = pytest.importorskip("pandas")
    data = from_frame(pandas.DataFrame(frame), categorical=["kind"])
    options = {"n_estimators": 10, "min_samples_leaf": 5}
    teacher = Ranker(objective="lambdamart", categorical=["kind", "number"], **options).fit(data)
    found = distil(teacher, data, parameters=SMALL)
    assert found.model.schema.named_categories.keys() == {0, 1}
    assert found.explained > 0.95


def test_sparse_data_give_the_student_of_dense_ones(tmp_path):
    rng = np.random.default_rng(2)
    matrix = np.where(rng.random((400, 80)) < 0.1, rng.integers(1, 9, (400, 80)), 0)
    labels = (matrix[:, :8].sum(axis=1) > 3).astype(float)
    dense, sparse = (
        Dataset.from_arrays(features, labels, group=[20] * 20)
        for features in (matrix.astype(np.float32), csr_matrix(matrix))
    )
    assert type(dense.features) is not type(sparse.features)
    for turn in range(3):
        made = [np.asarray(make_documents(d, turn, 0.4, 7).features) for d in (dense, sparse)]
        assert np.array_equal(*made)
    teacher = Ranker(objective="lambdamart", n_estimators=10, min_samples_leaf=5).fit(dense)
    one, two = (distil(teacher, data, parameters=SMALL) for data in (dense, sparse))
    assert files_of(one.model, tmp_path) == files_of(two.model, tmp_path)


def same(a, b):
    return (a == b) | (np.isnan(a) & np.isnan(b))


def test_a_made_document_has_values_of_two_of_its_query(parts):
    data = parts[0]
    made = make_documents(data, 0, 0.3, 11)
    taken = 0
    for first, last in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        real, new = data.features[first:last], made.features[first:last]
        for row, own in enumerate(new):
            kept = same(own, real[row])
            assert any(np.all(kept | same(own, other)) for other in real)
            taken += np.count_nonzero(~kept)
    assert 0.1 < taken / data.features.size < 0.3
    again, other = (make_documents(data, turn, 0.3, 11).features for turn in (0, 1))
    assert same(made.features, again).all()
    assert not same(made.features, other).all()
    assert not made.labels.any()


def test_a_document_that_is_alone_in_its_query_is_made_of_itself():
    data = Dataset.from_arrays([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [0, 1, 0], group=[1, 2])
    made = make_documents(data, 0, 0.999, 0)
    assert made.features.tolist() == [[1.0, 2.0], [5.0, 6.0], [3.0, 4.0]]


def test_names_of_the_teacher_are_those_of_the_student(parts, teacher):
    train = replace(parts[0], feature_names=())
    assert train.feature_names[0] == "f1" != teacher.feature_names[0]
    assert distil(teacher, train, parameters=SMALL).model.feature_names == teacher.feature_names


def test_ctrl_c_keeps_the_trees_so_far(parts, teacher):
    def after_three(run):
        if run.n_steps == 3:
            raise KeyboardInterrupt

    found = distil(teacher, parts[0], parameters=SMALL, callbacks=[after_three])
    assert found.interrupted
    assert found.model.n_trees == 3


def test_ctrl_c_before_the_first_tree_goes_on(parts, teacher, monkeypatch):
    def at_once(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("rankgrove.training.run.Run.advance", at_once)
    with pytest.raises(KeyboardInterrupt):
        distil(teacher, parts[0], parameters=SMALL)


def test_training_stops_where_the_error_does_not_fall(parts, teacher):
    options = SMALL | {"n_estimators": 200, "learning_rate": 1.0, "early_stopping_rounds": 3}
    found = distil(teacher, parts[0], valid=parts[1], made=0, parameters=options)
    errors = found.model.history["held out"]["squared error"]
    assert found.model.n_trees == int(np.argmin(errors)) + 1 < 200


def test_defaults_are_parameters_of_training(parts, teacher):
    found = distil(teacher, parts[0], made=0, parameters={"n_estimators": 3})
    for name, value in (STUDENT_DEFAULTS | {"n_estimators": 3}).items():
        assert found.model.parameters[name] == value


def test_what_cannot_be_distilled_is_refused_before_the_work(parts, teacher):
    train = parts[0]
    few = train.take_queries(range(4))
    with pytest.raises(DataError, match=r"at least 5 queries to hold some out. Got 4"):
        distil(teacher, few)
    with pytest.raises(ParameterError, match=r"model must be a model.* Got int"):
        distil(7, train)
    with pytest.raises(ParameterError, match="Got Ranker: fit it first"):
        distil(Ranker(), train)
    narrow = replace(train, features=train.features[:, :9], feature_names=())
    with pytest.raises(DataError, match=r"must have the 16 features of the model. Got 9"):
        distil(teacher, narrow)
    renamed = replace(train, feature_names=tuple(f"x{n}" for n in range(16)))
    with pytest.raises(DataError, match="features must have the names of the model"):
        distil(teacher, renamed)
    with pytest.raises(DataError, match="names of the model"):
        distil(teacher, train, valid=renamed)
    with pytest.raises(ParameterError, match=r"held_out must be a number above 0 and below 1"):
        distil(teacher, train, held_out=1.5)
    with pytest.raises(ParameterError, match=r"made must be a whole number, 0 or more, or 'auto'"):
        distil(teacher, train, made=-1)
    with pytest.raises(ParameterError, match=r"objective must be left out: a student"):
        distil(teacher, train, parameters={"objective": "yetirank"})
    with pytest.raises(ParameterError, match="did you mean 'n_estimators'"):
        distil(teacher, train, parameters={"n_estimator": 3})
    with pytest.raises(ParameterError, match="metric"):
        distil(teacher, train, metrics="ndgc@10")


def test_binned_data_are_refused(parts, teacher, tmp_path):
    write_letor(parts[0], tmp_path / "train.txt")
    binned = bin_files(str(tmp_path / "train.txt"))
    with pytest.raises(DataError, match=r"must be given data with features. Got BinnedData"):
        distil(teacher, binned)


def test_a_teacher_that_tells_nothing_apart_is_refused(parts):
    train = parts[0]
    constant = replace(train, features=np.ones_like(train.features))
    with pytest.warns(UserWarning, match="nothing to split by"):
        teacher = Ranker(objective="lambdamart", n_estimators=2).fit(constant).model_
    with pytest.raises(DataError, match=r"tell documents of a query apart. Got equal scores"):
        distil(teacher, train)


def test_a_teacher_on_top_of_base_scores_is_refused(parts):
    train = replace(parts[0], base_scores=np.zeros(parts[0].n_documents))
    teacher = Ranker(objective="lambdamart", n_estimators=2).fit(train).model_
    with pytest.raises(ParameterError, match="Got one on top of base scores"):
        distil(teacher, train)
