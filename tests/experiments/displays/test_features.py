"""Features: importance as the model has it, and effects within queries."""

from __future__ import annotations

import numpy as np
import pytest

from rankgrove import Dataset, Ranker, plot_dependence, plot_importance
from rankgrove.errors import ParameterError
from rankgrove.pictures.chart import Bars, Rule


def test_importance_is_that_of_the_model_the_largest_first(ranker):
    display = plot_importance(ranker, top=5)
    gains = ranker.model_.importance("gain")
    order = np.argsort(-gains)[:5]
    assert display.values.tolist() == gains[order].tolist()
    assert display.feature_names == [ranker.model_.feature_names[at] for at in order]
    assert display.left_out == len(gains) - 5
    assert plot_importance(ranker.model_, kind="split").values.sum() == sum(
        ranker.model_.importance("split")
    )


def test_permutation_importance_has_its_standard_deviations(ranker, parts):
    found = ranker.model_.permutation_importance(parts[1], "map", repeats=2)
    display = plot_importance(found, top=4)
    order = np.argsort(-found.mean, kind="stable")[:4]
    assert display.values.tolist() == found.mean[order].tolist()
    assert display.errors.tolist() == found.std[order].tolist()
    bars = next(mark for mark in display.chart().panels[0].marks if isinstance(mark, Bars))
    assert bars.errors == display.errors.tolist()


def naive_effects(model, data, at, within_query):
    effects = model.contributions(data)[:, at]
    if within_query:
        effects = effects.copy()
        for first, last in zip(data.offsets[:-1], data.offsets[1:], strict=True):
            effects[first:last] -= effects[first:last].mean()
    return effects


@pytest.mark.parametrize("within_query", [True, False])
def test_effects_are_contributions_less_the_mean_of_their_query(ranker, parts, within_query):
    data, model = parts[1], ranker.model_
    display = plot_dependence(ranker, data, model.feature_names[:4], within_query=within_query)
    for at, shown in enumerate(display.dependences):
        values = np.asarray(data.features)[:, at]
        effects = naive_effects(model, data, at, within_query)
        missing = np.isnan(values)
        assert shown.n_missing == missing.sum()
        assert shown.counts.sum() == (~missing).sum()
        assert (shown.counts > 0).all()
        # Each part holds a run of values, so that the whole is the weighted mean of the parts.
        total = (shown.mean * shown.counts).sum()
        assert total == pytest.approx(effects[~missing].sum(), abs=1e-9)
        assert np.all(np.diff(shown.x) > 0)
        assert np.all(shown.low <= shown.high)
        if missing.any():
            assert shown.missing == pytest.approx(effects[missing].mean())


def test_few_values_are_a_part_each():
    rng = np.random.default_rng(0)
    features = rng.integers(0, 3, (60, 2)).astype(float)
    features[::7, 0] = np.nan
    data = Dataset.from_arrays(features, features[:, 1], group=[6] * 10)
    ranker = Ranker(n_estimators=3, min_samples_leaf=1).fit(data)
    name = data.feature_names[1]
    [shown] = plot_dependence(ranker, data, name).dependences
    effects = naive_effects(ranker.model_, data, 1, True)
    assert shown.x.tolist() == [0.0, 1.0, 2.0]
    for value, mean, count in zip(shown.x, shown.mean, shown.counts, strict=True):
        chosen = features[:, 1] == value
        assert (mean, count) == (pytest.approx(effects[chosen].mean()), chosen.sum())
    assert shown.heights.tolist() == shown.counts.tolist()
    chart = plot_dependence(ranker, data, data.feature_names[0]).chart()
    assert "missing" in [m.name for m in chart.panels[0].marks if isinstance(m, Rule)]


def test_a_value_that_most_documents_have_is_a_part_of_its_own(ranker, parts):
    data, model = parts[1], ranker.model_
    at = model.feature_names.index("sparse_11")
    values = np.asarray(data.features)[:, at]
    zeros = int((values == 0).sum())
    assert zeros > len(values) / 2
    [shown] = plot_dependence(ranker, data, "sparse_11").dependences
    assert (shown.x[0], shown.counts[0]) == (0.0, zeros)
    assert len(shown.x) > 10


def test_categories_stand_by_their_names():
    rng = np.random.default_rng(1)
    import pandas as pd

    from rankgrove import from_frame

    frame = pd.DataFrame({
        "q": np.repeat(range(10), 6), "label": rng.integers(0, 3, 60),
        "site": pd.Categorical(rng.choice(["app", "web", "tv"], 60)), "n": rng.random(60),
    })  # fmt: skip
    data = from_frame(frame, label="label", qid="q")
    ranker = Ranker(n_estimators=2, min_samples_leaf=1, categorical=["site"]).fit(data)
    [shown] = plot_dependence(ranker, data, "site").dependences
    assert shown.categories == ("'app'", "'tv'", "'web'")
    counts = frame["site"].value_counts()
    assert shown.counts.tolist() == [counts["app"], counts["tv"], counts["web"]]
    assert plot_dependence(ranker, data, "site").to_svg()


def test_bad_calls_are_refused(ranker, parts):
    with pytest.raises(ParameterError, match="top must be a whole number, 1 or more"):
        plot_importance(ranker, top=0)
    with pytest.raises(ParameterError, match="model must be a model or a fitted estimator"):
        plot_importance(3)
    with pytest.raises(ParameterError, match="a feature must be one of"):
        plot_dependence(ranker, parts[0], ["nothing"])
    with pytest.raises(ParameterError, match="features must name at least one"):
        plot_dependence(ranker, parts[0], [])
    with pytest.raises(ParameterError, match="kind of importance"):
        plot_importance(ranker, kind="gains")
