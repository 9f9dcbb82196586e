"""Categories as people have them: the same model from codes, strings and Categoricals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from boosting.samples import bits
from rankgrove import Ranker, compare, cross_validate, from_frame, load
from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, ParameterError
from rankgrove.model.combined import weigh_models
from rankgrove.training.progress import categories_text

GENRES = np.array(["western", "", "drama", "comedy", "sci-fi", "Ä"])
QUICK = {"n_estimators": 6, "max_leaves": 8, "min_samples_leaf": 2, "n_jobs": 1}


def make_frame(seed=0, n_queries=60, n_documents=10, genres=GENRES):
    """Labels that depend on a genre, which is missing in some rows, and on a number."""
    rng = np.random.default_rng(seed)
    n_rows = n_queries * n_documents
    genre = rng.choice(len(genres), n_rows, p=np.arange(1, len(genres) + 1) / 21)
    x = rng.normal(size=n_rows)
    frame = pd.DataFrame({
        "label": np.clip(np.array([0, 2, 1, 0, 2, 1])[genre] + (x > 0.5), 0, 3).astype(float),
        "qid": np.repeat(np.arange(n_queries), n_documents),
        "x": x,
        "genre": pd.Series(genres[genre], dtype=object),
    })  # fmt: skip
    frame.loc[rng.random(n_rows) < 0.1, "genre"] = None
    return frame


FRAME = make_frame()
SHUFFLED = ["comedy", "unused", "western", "Ä", "drama", "", "sci-fi"]
CODES = {level: float(place) for place, level in enumerate(sorted(GENRES))}


def with_genre(frame, values):
    return frame.assign(genre=values)


FORMS = {
    "strings": lambda frame: frame,
    "categorical": lambda frame: with_genre(frame, frame["genre"].astype("category")),
    "shuffled": lambda frame: with_genre(frame, pd.Categorical(frame["genre"], SHUFFLED)),
    "ordered": lambda frame: with_genre(frame, pd.Categorical(frame["genre"], SHUFFLED, True)),
    "pandas arrow": lambda frame: with_genre(
        frame, frame["genre"].astype(pd.ArrowDtype(pa.string()))
    ),
    "polars": pl.from_pandas,
    "polars categorical": lambda frame: pl.from_pandas(frame).with_columns(
        pl.col("genre").cast(pl.Categorical)
    ),
    "polars enum": lambda frame: pl.from_pandas(frame).with_columns(
        pl.col("genre").cast(pl.Enum(SHUFFLED))
    ),
    "polars lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "pyarrow": pa.Table.from_pandas,
    "pyarrow dictionary": lambda frame: pa.Table.from_pandas(
        with_genre(frame, pd.Categorical(frame["genre"], SHUFFLED))
    ),
}


def fit(frame, **options):
    data = from_frame(frame, categorical=["genre"])
    return Ranker(**{**QUICK, "categorical": ["genre"], **options}).fit(data)


@pytest.fixture(scope="module")
def model():
    return fit(FRAME).model_


def uses_genre(model):
    return bool(np.any(model.ensemble.category_set >= 0))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_same_file_comes_from_every_form_of_the_same_categories(form, model, tmp_path):
    model.save(tmp_path / "a.safetensors")
    fit(form(FRAME)).save(tmp_path / "b.safetensors")
    assert uses_genre(model)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


@pytest.mark.parametrize("grower", ["leafwise", "oblivious"])
def test_the_same_trees_come_from_codes_that_are_the_places_of_sorted_strings(grower):
    codes = fit(with_genre(FRAME, FRAME["genre"].map(CODES)), grower=grower).model_
    strings = fit(FRAME, grower=grower).model_
    assert uses_genre(strings)
    assert bits(strings.ensemble) == bits(codes.ensemble)
    assert strings.schema.categories == codes.schema.categories
    assert codes.schema.levels == {}


def test_fit_takes_frames_as_scikit_learn_users_pass_them(model):
    X, y = FRAME.drop(columns="label"), FRAME["label"].to_numpy()
    fitted = Ranker(**QUICK, categorical=["genre"]).fit(X, y)
    assert bits(fitted.model_.ensemble) == bits(model.ensemble)
    by_type = Ranker(**QUICK).fit(X.assign(genre=X["genre"].astype("category")), y)
    assert bits(by_type.model_.ensemble) == bits(model.ensemble)
    assert fitted.score(X, y) == by_type.score(X, y) > 0.5


def test_a_string_column_that_is_not_named_is_refused_with_what_to_do():
    X, y = FRAME.drop(columns="label"), FRAME["label"].to_numpy()
    with pytest.raises(DataError, match=r"Got 'genre' \(.*name those .* in categorical="):
        Ranker(**QUICK).fit(X, y)
    with pytest.raises(ParameterError, match=r"a feature of categorical must be .* Got 'gender'"):
        Ranker(**QUICK, categorical=["gender"]).fit(X, y)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_a_frame_is_scored_alike(form, model):
    other = make_frame(seed=1)
    np.testing.assert_array_equal(model.predict(form(other)), model.predict(other))
    data = from_frame(form(other), categorical=["genre"])
    np.testing.assert_array_equal(model.predict(data), model.predict(other))
    assert str(model.why(form(other), 0, 1)) == str(model.why(other, 0, 1))


def test_dicts_are_scored_as_the_rows_of_a_frame(model):
    rows = make_frame(seed=1)[:20]
    documents = rows.drop(columns=["label", "qid"]).to_dict("records")
    expected = model.predict(rows)
    np.testing.assert_array_equal(model.predict(documents), expected)
    scorer = model.scorer()
    np.testing.assert_array_equal(scorer(documents), expected)
    np.testing.assert_array_equal(scorer(rows), expected)
    assert [scorer(document) for document in documents] == expected.tolist()
    unseen = {**documents[0], "genre": "musical"}
    missing = {"x": documents[0]["x"]}
    assert scorer(unseen) == scorer(missing) == scorer({**unseen, "genre": None})
    with pytest.raises(DataError, match=r"'genre' must .* strings, as ''. Got numbers, as 3"):
        scorer({**unseen, "genre": 3})
    with pytest.raises(DataError, match=r"'genre' must be all strings.* Got list"):
        scorer({**unseen, "genre": ["drama"]})
    with pytest.raises(DataError, match="documents must be dicts by the features of the model"):
        scorer({"gendre": "drama"})


def test_scores_are_those_of_the_model_of_codes(model):
    other = make_frame(seed=1)
    codes = fit(with_genre(FRAME, FRAME["genre"].map(CODES))).model_
    expected = codes.predict(with_genre(other, other["genre"].map(CODES)))
    np.testing.assert_array_equal(model.predict(other), expected)


def test_a_category_that_training_did_not_see_goes_where_missing_goes(model):
    unseen = with_genre(FRAME, "musical")
    missing = with_genre(FRAME, pd.Series([None] * len(FRAME), dtype=object))
    np.testing.assert_array_equal(model.predict(unseen), model.predict(missing))
    assert not np.array_equal(model.predict(with_genre(FRAME, "sci-fi")), model.predict(missing))


def test_an_empty_string_is_a_category_of_its_own(model):
    missing = with_genre(FRAME, pd.Series([None] * len(FRAME), dtype=object))
    assert not np.array_equal(model.predict(with_genre(FRAME, "")), model.predict(missing))


def test_a_frame_with_some_of_the_levels_is_scored_as_in_the_whole(model):
    rows = FRAME[FRAME["genre"] == "drama"]
    expected = model.predict(FRAME)[rows.index]
    np.testing.assert_array_equal(model.predict(rows), expected)


def test_numbers_where_training_had_strings_are_refused(model):
    with pytest.raises(DataError, match=r"'genre' must have the categories of training"):
        model.predict(with_genre(FRAME, 3.0))
    with pytest.raises(DataError, match=r"'genre' must have the categories of training"):
        model.predict(np.zeros((2, 2)))
    assert np.isfinite(model.predict(np.array([[0.0, np.nan]]))).all()
    numbers = fit(with_genre(FRAME, FRAME["genre"].map(CODES))).model_
    with pytest.raises(DataError, match=r"Got 'genre' .*as they were numbers in training"):
        numbers.predict(FRAME)
    with pytest.raises(DataError, match=r"'genre' must be numbers, as in training. Got strings"):
        numbers.predict(FORMS["categorical"](FRAME))


def test_validation_sets_are_coded_by_the_levels_of_training(model):
    other = make_frame(seed=2)
    other.loc[:, "genre"] = other["genre"].replace({"western": "Aaa"})
    valid = from_frame(other, categorical=["genre"])
    ranker = Ranker(**QUICK, categorical=["genre"], eval_metric="ndcg@10")
    train = from_frame(FRAME, categorical=["genre"])
    history = ranker.fit(train, valid=valid).history_["valid"]["ndcg@10"]
    assert bits(ranker.model_.ensemble) == bits(model.ensemble)
    assert history[-1] == ranker.score(valid)
    pair = (other.drop(columns="label"), other["label"].to_numpy())
    again = ranker.fit(train, eval_set=[pair]).history_["valid"]["ndcg@10"]
    assert again == history
    numbers = Dataset.from_arrays(np.zeros((2, 2)), [0, 1], group=[2], feature_names=["x", "genre"])
    with pytest.raises(DataError, match=r"validation set 'valid': feature 'genre' must have"):
        ranker.fit(train, valid=numbers)


def test_the_model_of_some_queries_is_that_of_a_frame_of_their_rows(tmp_path):
    rows = FRAME[FRAME["qid"] < 20]
    rows = rows[rows["genre"] != "drama"]
    whole = from_frame(pd.concat([rows, FRAME[FRAME["qid"] >= 20]]), categorical=["genre"])
    part = whole.take_queries(range(20))
    assert part.levels != from_frame(rows, categorical=["genre"]).levels
    a, b = (Ranker(**QUICK).fit(data).model_
            for data in (part, from_frame(rows, categorical=["genre"])))  # fmt: skip
    assert uses_genre(a)
    assert a.schema == b.schema
    assert bits(a.ensemble) == bits(b.ensemble)


def test_of_too_many_levels_the_most_frequent_count_and_others_are_as_missing():
    rng = np.random.default_rng(0)
    n_rows = 4000
    tag = rng.integers(0, 300, n_rows) * rng.integers(0, 2, n_rows)
    label = (tag % 2).astype(float)
    words = [f"t{number:03}" for number in tag]
    frame = pd.DataFrame({"label": label, "qid": np.arange(n_rows) // 20, "genre": words})
    strings = fit(frame).model_
    codes = fit(frame.assign(genre=tag)).model_
    assert bits(strings.ensemble) == bits(codes.ensemble)
    kept = strings.schema.levels[0]
    assert len(kept) == 255
    assert set(kept) == {f"t{int(t):03}" for t in codes.schema.categories[0]}
    np.testing.assert_array_equal(strings.predict(frame), codes.predict(frame.assign(genre=tag)))
    data = from_frame(frame, categorical=["genre"])
    n_levels = len(data.levels[0])
    text = f"categories: genre ({n_levels} levels, of which the 255 most frequent count)"
    assert categories_text(data, Ranker(categorical=["genre"]).parameters()) == text


def test_whole_numbers_and_booleans_travel_in_their_own_type(tmp_path):
    ids = FRAME["genre"].map({g: 2**40 + n for n, g in enumerate(sorted(GENRES))})
    frame = FRAME.assign(
        genre=pd.Categorical(ids.astype("Int64")), flag=pd.Categorical(FRAME.x > 0)
    )
    made = fit(frame, categorical=None).model_
    made.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert again.schema == made.schema
    assert again.schema.levels_by_name["genre"] == tuple(2**40 + n for n in range(6))
    assert again.schema.levels_by_name["flag"] == (False, True)
    scores = made.predict(frame)
    np.testing.assert_array_equal(again.predict(frame), scores)
    np.testing.assert_array_equal(again.predict(frame.assign(flag=FRAME.x > 0)), scores)
    np.testing.assert_array_equal(again.predict(frame.assign(flag=(FRAME.x > 0) * 1.0)), scores)


def test_training_goes_on_with_the_same_categories_and_refuses_others(tmp_path, model):
    ranker = fit(FRAME, n_estimators=3)
    path = tmp_path / "m.safetensors"
    ranker.save(path)
    data = from_frame(FRAME, categorical=["genre"])
    resumed = Ranker(**QUICK, categorical=["genre"]).fit(data, resume=path)
    assert bits(resumed.model_.ensemble) == bits(model.ensemble)
    renamed = from_frame(FRAME.replace({"genre": {"drama": "dramb"}}), categorical=["genre"])
    np.testing.assert_array_equal(renamed.features, data.features)
    with pytest.raises(DataError, match=r"training data"):
        Ranker(**QUICK, categorical=["genre"]).fit(renamed, resume=path)
    more = Ranker(**QUICK, categorical=["genre"]).fit(data, base_model=ranker.model_)
    assert more.model_.n_trees == 9
    assert more.model_.schema == ranker.model_.schema
    with pytest.raises(DataError, match=r"same categories. Got others"):
        Ranker(**QUICK).fit(renamed, base_model=ranker.model_)


def test_models_of_the_same_categories_are_weighed_and_compared(model, tmp_path):
    other = fit(FRAME, learning_rate=0.3).model_
    both = weigh_models([model, other], [0.5, 0.5])
    data = from_frame(make_frame(seed=3), categorical=["genre"])
    expected = 0.5 * model.predict(data) + 0.5 * other.predict(data)
    np.testing.assert_allclose(both.predict(data), expected)
    both.save(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(
        load(tmp_path / "m.safetensors").predict(data), both.predict(data)
    )
    table = compare(data, {"a": model, "b": other}, ["ndcg@10"])
    assert "ndcg@10" in str(table)
    fewer = fit(FRAME[FRAME["genre"] != "drama"]).model_
    with pytest.raises(DataError, match=r"same categories to be combined"):
        weigh_models([model, fewer], [0.5, 0.5])


def test_cross_validation_takes_categories():
    data = from_frame(FRAME, categorical=["genre"])
    table = cross_validate({"a": Ranker(**QUICK)}, data, ["ndcg@10"], folds=2)
    codes = Dataset.from_arrays(
        data.features, data.labels, group=data.group, feature_names=["x", "genre"]
    )
    same = cross_validate(
        {"a": Ranker(**QUICK, categorical=["genre"])}, codes, ["ndcg@10"], folds=2
    )
    np.testing.assert_array_equal(
        table.results["a"].per_query("ndcg@10"), same.results["a"].per_query("ndcg@10")
    )


def test_importance_by_shuffling_knows_categories(model):
    data = from_frame(make_frame(seed=4), categorical=["genre"])
    found = model.permutation_importance(data, "ndcg@10", repeats=2)
    assert found.mean[1] > 0.01
    assert np.abs(model.contributions(data)[:, 1]).sum() > 0
