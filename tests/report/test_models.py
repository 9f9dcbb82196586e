"""Reports on every kind of model: networks, combined ones, base scores, categories, sparse data."""

from __future__ import annotations

import numpy as np
import pytest

from rankgrove import Dataset, Ranker, from_frame, make_report
from rankgrove.model.combined import CombinedModel
from rankgrove.model.explain import BASE_SCORE
from report.samples import check_schema, rows_of_tops


def test_a_network_is_explained_by_its_contributions(parts, models):
    pytest.importorskip("torch")
    from rankgrove import RankNet

    network = RankNet(max_epochs=2, hidden=(4,)).fit(parts["train"]).model_
    contents = make_report(parts["test"], {"net": network, **models}, "map").to_dict()
    check_schema(contents)
    assert [one["trees"] for one in contents["candidates"]] == [None, 3, 12]
    assert contents["training"]["candidates"][0]["unit"] == "epoch"
    assert contents["features"]["candidates"][0]["gain"] is None
    assert {film["name"] for film in contents["forces"]} == {"old", "new"}
    why = contents["why"]
    scores, tops = network.predict(parts["test"]), contents["tops"]
    adds = np.array(why["adds"][0]).reshape(-1, why["features"]).sum(axis=1)
    for query, places in enumerate(rows_of_tops(tops)):
        for place in places:
            row = int(parts["test"].offsets[query]) + tops["document"][place] - 1
            score = why["start"][0] + adds[place] + why["rest"][0][place]
            assert score == pytest.approx(scores[row], abs=0.05)


def test_a_slow_network_has_fewer_reasons_and_says_why(parts, monkeypatch):
    pytest.importorskip("torch")
    from rankgrove import RankNet

    monkeypatch.setattr("rankgrove.report.build.MOST_BY_NETWORK", 100)
    network = RankNet(max_epochs=1, hidden=(4,)).fit(parts["train"]).model_
    contents = make_report(parts["test"], {"net": network}, "map").to_dict()
    told = next(entry for entry in contents["left_out"] if entry["section"] == "why")
    assert 0 < told["kept"] == len(contents["why"]["queries"]) < parts["test"].n_queries
    assert told["rule"].endswith("as networks are slow to explain")
    assert "forces" in contents["absent"]


def test_trees_on_scores_have_no_reasons_but_drops(parts, models):
    part = Dataset.from_arrays(
        np.column_stack([model.predict(parts["train"]) for model in models.values()]),
        parts["train"].labels, group=parts["train"].group,
    )  # fmt: skip
    top = Ranker(n_estimators=2, min_samples_leaf=5).fit(part).model_
    stacked = CombinedModel(tuple(models.values()), top=top)
    contents = make_report(parts["test"], {"stacked": stacked}, "map").to_dict()
    check_schema(contents)
    assert contents["why"] is None
    assert "sums over features" in contents["absent"]["why"]
    drops = contents["features"]["candidates"][0]["permutation"]["mean"]
    assert any(drop for drop in drops)
    assert contents["features"]["dependence"] == []


def test_base_scores_are_one_more_feature(parts):
    rng = np.random.default_rng(0)
    based = {
        name: Dataset.from_arrays(
            part.features, part.labels, group=part.group, base_scores=rng.random(part.n_documents)
        )
        for name, part in parts.items()
    }
    model = Ranker(n_estimators=3, min_samples_leaf=5).fit(based["train"]).model_
    assert model.schema.needs_base_scores
    contents = make_report(based["test"], {"m": model}, "map", train=based["train"]).to_dict()
    check_schema(contents)
    assert contents["why"]["names"][-1] == BASE_SCORE


def test_categories_are_shown_by_what_they_are(parts):
    pd = pytest.importorskip("pandas")
    data = parts["train"]
    # A category that tells relevant documents from others, most of the time.
    levels = np.where(data.labels > 1, "good", "poor").astype(object)
    levels[::7] = "odd </script>"
    frame = pd.DataFrame({"x": data.features[:, 0], "kind": levels})
    frame["label"], frame["qid"] = data.labels, data.qid
    named = from_frame(frame, label="label", qid="qid", categorical=["kind"])
    model = Ranker(n_estimators=4, min_samples_leaf=5, categorical=["kind"]).fit(named).model_
    contents = make_report(named, {"m": model}, "map").to_dict()
    check_schema(contents)
    kinds = {value for value in contents["why"]["value"] if isinstance(value, str)}
    assert kinds <= {"good", "poor", "odd </script>"}
    assert "poor" in kinds
    shapes = {one["feature"]: one for one in contents["features"]["dependence"]}
    place = contents["features"]["names"].index("kind")
    assert shapes[place]["levels"] == ["good", "odd </script>", "poor"]
    assert shapes[place]["y"][0][0] > shapes[place]["y"][0][2]


def test_sparse_data_give_the_report_of_dense_ones(parts):
    sparse = pytest.importorskip("scipy.sparse")
    data = parts["test"]
    wide = np.zeros((data.n_documents, 80), np.float32)
    wide[:, :5] = np.nan_to_num(data.features[:, :5])
    dense = Dataset.from_arrays(wide, data.labels, group=data.group)
    thin = Dataset.from_arrays(sparse.csr_matrix(wide), data.labels, group=data.group)
    model = Ranker(n_estimators=3, min_samples_leaf=5).fit(dense).model_
    one, other = (make_report(part, {"m": model}, "map") for part in (dense, thin))
    assert one.to_json() == other.to_json()
    assert len(one.to_dict()["why"]["names"]) <= 5


def test_weights_of_queries_count_in_gains_by_rank(parts, models):
    data = parts["test"]
    weighted = Dataset.from_arrays(
        data.features, data.labels, group=data.group, weights=np.arange(data.n_queries) % 3,
        feature_names=data.feature_names,
    )  # fmt: skip
    contents = make_report(weighted, models, ["err", "ndcg@3(empty=one)"], forces=0).to_dict()
    for metric in ("err", "ndcg@3(empty=one)"):
        gains = contents["by_rank"]["gains"][metric]
        means = contents["comparison"]["metrics"][metric]["candidates"]
        for at, name in enumerate(("old", "new")):
            total = sum(gains["by_rank"][at]) + gains["rest"][at]
            assert total == pytest.approx(means[name]["mean"], abs=1e-9)


def test_features_of_two_models_stand_on_one_list(parts, models):
    data = parts["train"]
    renamed = Dataset.from_arrays(
        data.features, data.labels, group=data.group,
        feature_names=[f"own_{at}" for at in range(data.n_features)],
    )  # fmt: skip
    other = Ranker(n_estimators=2, min_samples_leaf=5).fit(renamed).model_
    plain = Dataset.from_arrays(
        parts["test"].features, parts["test"].labels, group=parts["test"].group
    )
    contents = make_report(plain, {"new": models["new"], "other": other}, "map").to_dict()
    check_schema(contents)
    names = contents["why"]["names"]
    assert any(name.startswith("own_") for name in names)
    assert len(set(names)) == len(names)
