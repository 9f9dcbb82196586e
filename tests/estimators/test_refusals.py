"""Bad calls of a Ranker: each gets one clear error that says what to do."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from boosting.samples import QUICK, make_data
from rankgrove import Ranker
from rankgrove.errors import DataError, ParameterError


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture
def ranker():
    return Ranker(**QUICK)


BAD_CALLS = {
    "no queries": (lambda x, y, q: ((x, y), {}), DataError, "qid or group must be given"),
    "both": (lambda x, y, q: ((x, y), {"qid": q, "group": [len(y)]}), DataError, "Got both"),
    "no labels": (lambda x, y, q: ((x,), {"qid": q}), DataError, "y must be given"),
    "NaN label": (
        lambda x, y, q: ((x, np.append(y[:-1], np.nan)), {"qid": q}),
        DataError, "every label must be finite. Got nan at row 479",
    ),
    "negative label": (lambda x, y, q: ((x, y - 1), {"qid": q}), DataError, "labels must be 0"),
    "text label": (lambda x, y, q: ((x, ["a"] * len(y)), {"qid": q}), DataError, "labels must be"),
    "too few labels": (lambda x, y, q: ((x, y[:-1]), {"qid": q}), DataError, "labels must have"),
    "too few ids": (lambda x, y, q: ((x, y), {"qid": q[:-1]}), DataError, "qid must have one"),
    "sizes": (lambda x, y, q: ((x, y), {"group": [5, 5]}), DataError, "add up to the number"),
    "ids as sizes": (lambda x, y, q: ((x, y), {"group": q + 1}), DataError, "pass them as qid="),
    "split query": (
        lambda x, y, q: ((x, y), {"qid": q[::-1] % 7}),
        DataError, "Sort the rows by query id, or pass split_queries='group'",
    ),
    "one dimension": (lambda x, y, q: ((x[:, 0], y), {"qid": q}), DataError, "two-dimensional"),
    "text": (lambda x, y, q: (([["a"]] * len(y), y), {"qid": q}), DataError, "must be numbers"),
    "no features": (lambda x, y, q: ((x[:, :0], y), {"qid": q}), DataError, "at least one column"),
    "no rows": (lambda x, y, q: ((x[:0], y[:0]), {"qid": q[:0]}), DataError, "at least one doc"),
    "weights differ": (
        lambda x, y, q: ((x, y), {"qid": q, "sample_weight": np.arange(len(y)) + 1}),
        DataError, "weights must be one per query",
    ),
    "too few weights": (
        lambda x, y, q: ((x, y), {"qid": q, "sample_weight": [1, 2]}),
        DataError, "weights must have one entry per query",
    ),
    "negative weights": (
        lambda x, y, q: ((x, y), {"qid": q, "sample_weight": np.full(40, -1)}),
        DataError, "weights must be finite",
    ),
    "base scores": (
        lambda x, y, q: ((x, y), {"qid": q, "base_scores": [0.0]}), DataError, "base_scores",
    ),
    "eval_set shape": (
        lambda x, y, q: ((x, y), {"qid": q, "eval_set": [(x,)]}),
        ParameterError, r"tuples \(X, y, qid\)",
    ),
    "eval_set flat": (
        lambda x, y, q: ((x, y), {"qid": q, "eval_set": (x, y, q)}),
        ParameterError, r"list of tuples \(X, y, qid\)",
    ),
    "eval_set without queries": (
        lambda x, y, q: ((x, y), {"qid": q, "eval_set": [(x, y)]}), DataError, "qid or group",
    ),
    "eval_set width": (
        lambda x, y, q: ((x, y), {"qid": q, "eval_set": [(x[:, 1:], y, q)]}),
        DataError, "must have the 6 features",
    ),
    "eval_set number": (
        lambda x, y, q: ((x, y), {"qid": q, "eval_set": 3}), ParameterError, "eval_set must be",
    ),
    "valid number": (
        lambda x, y, q: ((x, y), {"qid": q, "valid": 3}), ParameterError, "valid must be",
    ),
    "valid array": (
        lambda x, y, q: ((x, y), {"qid": q, "valid": [x]}),
        ParameterError, "must be a Dataset. Got ndarray",
    ),
    "callback": (
        lambda x, y, q: ((x, y), {"qid": q, "callbacks": print}),
        ParameterError, "callbacks must be a list of functions",
    ),
    "valid and eval_set": (
        lambda x, y, q: ((x, y), {"qid": q, "valid": [], "eval_set": []}),
        ParameterError, "Got both",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_call_gets_one_clear_error_and_no_model(data, ranker, case):
    make, error, message = BAD_CALLS[case]
    args, options = make(data.features.copy(), data.labels.copy(), data.qid.copy())
    with pytest.raises(error, match=message):
        ranker.fit(*args, **options)
    assert not hasattr(ranker, "model_")


def test_nothing_else_goes_with_a_dataset(data, ranker):
    extra = {"y": data.labels, "qid": data.qid, "group": data.group,
             "sample_weight": np.ones(40), "base_scores": np.zeros(480)}  # fmt: skip
    for name, value in extra.items():
        with pytest.raises(DataError, match=f"{name} must not be given with a Dataset"):
            ranker.fit(data, **{name: value})


def test_bad_parameter_is_refused_by_fit_and_not_before():
    odd = Ranker(n_estimators=0, learning_rate="fast")
    with pytest.raises(ParameterError, match="learning_rate"):
        odd.fit(make_data())
    with pytest.raises(ParameterError, match="n_jobs"):
        Ranker(n_jobs=0).fit(make_data())


def test_unfitted_ranker_says_so(data, ranker):
    for use in (
        lambda: ranker.predict(data),
        lambda: ranker.score(data),
        lambda: ranker.feature_importances_,
        lambda: ranker.save("nowhere"),
    ):
        with pytest.raises(NotFittedError, match="Call fit first"):
            use()


def test_other_number_of_features_is_refused_at_predict(data, ranker):
    ranker.fit(data)
    for X in (data.features[:, :5], np.zeros((3, 7)), [[1.0]], scipy.sparse.csr_matrix((2, 5))):
        with pytest.raises(DataError, match="data must have the 6 features of the model"):
            ranker.predict(X)


@pytest.mark.parametrize("call", [Ranker, Ranker().set_params])
def test_a_misspelt_parameter_is_refused_with_the_nearest_one(call):
    with pytest.raises(ParameterError, match="Got 'learning_rat'; did you mean 'learning_rate'"):
        call(learning_rat=0.1)
