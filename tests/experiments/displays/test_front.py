"""The front of two metrics: which models are on it, and rankers that are trained for it."""

import numpy as np
import pytest

from rankgrove import Dataset, Ranker, evaluate, make_web_search, pareto_front, plot_front
from rankgrove.errors import DataError, ParameterError
from rankgrove.pictures import svg
from rankgrove.pictures.chart import Points

BOTH = ("ndcg@5", "ndcg@5 of clicks")
QUICK = {"objective": "lambdamart", "n_estimators": 8, "max_leaves": 6}


@pytest.fixture(scope="module")
def data():
    made = make_web_search(60, 16)
    column = made.features[:, 2]
    noise = np.random.default_rng(1).normal(size=made.n_documents)
    clicks = np.digitize((column - column.mean()) / column.std() + 2 * noise, [1.5, 3.0, 5.0])
    return Dataset.from_arrays(
        made.features, made.labels, group=made.group, more_labels={"clicks": clicks}
    )


def test_a_model_is_on_the_front_unless_another_is_as_good_in_both_and_better_in_one(data):
    rng = np.random.default_rng(0)
    scores = {f"m{number}": rng.normal(size=data.n_documents) for number in range(12)}
    display = plot_front(scores, data, BOTH)
    values = {name: tuple(evaluate(data, one, BOTH).values()) for name, one in scores.items()}
    assert display.values == values
    for name, (x, y) in values.items():
        others = [values[other] for other in values if other != name]
        dominated = any(a >= x and b >= y and (a > x or b > y) for a, b in others)
        assert (name in display.front) == (not dominated)
    assert display.front == sorted(display.front, key=values.get)


def test_dominated_models_are_pale_and_each_has_its_name(data):
    good = data.labels + data.more_labels["clicks"]
    display = plot_front({"good": good, "bad": -good}, data, BOTH)
    [panel] = display.chart().panels
    opacities = {mark.name: mark.opacity for mark in panel.marks if isinstance(mark, Points)}
    assert opacities["dominated"] < opacities["on the front"]
    assert {"good", "bad"} <= {getattr(mark, "text", "") for mark in panel.marks}
    assert "ndcg@5 of clicks" in svg.draw(display.chart())


def test_the_ends_of_a_trained_front_are_the_rankers_of_each_metric_alone(data):
    rankers = pareto_front(data, None, *BOTH, weights=(0, 0.5, 1), **QUICK)
    assert list(rankers) == ["0", "0.5", "1"]
    alone = [Ranker(metric=metric, **QUICK).fit(data).predict(data) for metric in BOTH]
    assert (rankers["0"].predict(data) == alone[0]).all()
    assert (rankers["1"].predict(data) == alone[1]).all()
    assert rankers["0.5"].model_.parameters["metric"] == "0.5*ndcg@5 + 0.5*ndcg@5 of clicks"
    values = plot_front(rankers, data, BOTH).values
    assert values["0"][0] > values["0.5"][0]
    assert values["1"][1] > values["0.5"][1] > values["0"][1]


def test_what_cannot_be_drawn_or_trained_is_refused(data):
    with pytest.raises(ParameterError, match="metrics must be two"):
        plot_front({"a": data.labels}, data, ["ndcg"])
    with pytest.raises(ParameterError, match="models must be a mapping"):
        plot_front({}, data)
    with pytest.raises(DataError, match="must have labels 'sales'"):
        plot_front({"a": data.labels}, data, ["ndcg", "ndcg of sales"])
    with pytest.raises(ParameterError, match="weights must be numbers from 0 to 1"):
        pareto_front(data, None, *BOTH, weights=(0, 2))
    with pytest.raises(ParameterError, match="be another metric"):
        pareto_front(data, None, "ndcg", "NDCG")
