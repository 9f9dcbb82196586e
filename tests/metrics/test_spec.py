"""Names of metrics: what is read, and what is said about names that cannot be."""

import pytest

from rankgrove import parse_metric
from rankgrove.errors import ParameterError
from rankgrove.metrics.average import MAP
from rankgrove.metrics.cascade import ERR
from rankgrove.metrics.discounted import DCG, NDCG, Precision
from rankgrove.metrics.spec import parse_metrics


@pytest.mark.parametrize(
    ("spec", "metric"),
    [
        ("ndcg@10", NDCG(k=10)),
        ("  nDCG @ 10  ", NDCG(k=10)),
        ("err(r/4)", ERR(stop="linear", r_max=4)),
        ("err@5( r / 1 )", ERR(k=5, stop="linear", r_max=1)),
        ("err((2^r-1)/2^4)", ERR()),
        ("err(stop=linear, r_max=3)", ERR(stop="linear", r_max=3)),
        (
            "map@100(ties=expected, relevant>=2)",
            MAP(k=100, ties="expected", relevant=2),
        ),
        ("AP", MAP()),
        ("p@5", Precision(k=5)),
        ("dcg(gain=[0,1,3.5])", DCG(gain=(0, 1, 3.5))),
        ("ndcg()", NDCG()),
    ],
)
def test_name_is_read(spec, metric):
    assert parse_metric(spec) == metric


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (NDCG(k=10), "ndcg@10"),
        (ERR(stop="linear", ties="best"), "err(r/4, ties=best)"),
        (ERR(k=3, r_max=2, empty="one"), "err@3((2^r-1)/2^2, empty=one)"),
        (DCG(gain=[0, 1, 3.5]), "dcg(gain=[0, 1, 3.5])"),
        (
            MAP(k=100, relevant=2, ties="expected"),
            "map@100(ties=expected, relevant>=2)",
        ),
    ],
)
def test_name_is_canonical(metric, name):
    assert str(metric) == name


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.5000000001, 1e-9, 3.0, 123456789.0])
def test_numbers_in_a_name_keep_every_digit(value):
    for metric in (
        MAP(relevant=value),
        DCG(gain=(0, value)),
        ERR(stop="linear", r_max=value % 999),
    ):
        assert parse_metric(str(metric)) == metric


def test_metric_passes_through_unchanged():
    metric = NDCG(k=3)
    assert parse_metric(metric) is metric


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ndgc@10", "did you mean 'ndcg'"),
        ("nonsense", "metric must be one of ndcg, dcg, map"),
        ("", "must be named like"),
        ("ndcg@", "must be named like|cut-off"),
        ("ndcg@ten", "cut-off of 'ndcg@ten' must be a whole number. Got 'ten'"),
        ("ndcg@0", "1 or more. Got 0"),
        ("ndcg@-3", "whole number"),
        ("ndcg@10(tie=worst)", "did you mean 'ties'"),
        ("ndcg@10(ties=wurst)", "did you mean 'worst'"),
        ("ndcg(empty=none)", "empty must be one of skip, zero, one"),
        ("ndcg(gain=cubic)", "gain must be one of"),
        ("ndcg(gain=[])", "gain"),
        ("ndcg(gain=[0, x])", "must be a number"),
        ("ndcg(gain=[3, 1])", "not fall from one grade to the next"),
        ("ndcg(gain=[-1, 1])", "0 or more"),
        ("ndcg(10)", "name=value"),
        ("ndcg(relevant>=2)", "a parameter of ndcg"),
        ("map(relevant=2)", "must be written with >="),
        ("map(ties>=worst)", "must be written with ="),
        ("map(relevant>=0)", "above 0"),
        ("map(relevant>=two)", "must be a number"),
        ("map(norm=all)", "norm of map must be one of relevant, cutoff"),
        ("precision", "must have a cut-off"),
        ("precision@5(norm=all)", "norm of precision must be one of cutoff, documents"),
        ("recall", "must have a cut-off"),
        ("tau@10", "must have no cut-off"),
        ("err(r/0)", "r_max of err must be above 0"),
        ("err(r*4)", "name=value"),
        ("err(r/4.4.4)", "name=value"),
        ("expdcg(b=1)", "between 0 and 1"),
        ("rbp(p=0)", "between 0 and 1"),
        (10, "must be named like"),
    ],
)
def test_bad_name_is_refused_with_the_rule(spec, message):
    with pytest.raises(ParameterError, match=message):
        parse_metric(spec)


def test_all_bad_names_are_reported_at_once():
    with pytest.raises(ParameterError) as caught:
        parse_metrics(["ndcg@10", "ndgc", "map(norm=all)"])
    message = str(caught.value)
    assert "ndgc: " in message
    assert "map(norm=all): " in message


def test_no_metric_at_all_is_refused():
    with pytest.raises(ParameterError, match="at least one metric"):
        parse_metrics([])


def test_unknown_preset_is_refused_with_the_nearest():
    with pytest.raises(ParameterError, match="did you mean 'lightgbm'"):
        parse_metric("ndcg", preset="lightgmb")


def test_preset_is_refused_for_a_metric_that_the_tool_lacks():
    with pytest.raises(ParameterError, match="must be used with ndcg, map"):
        parse_metric("err", preset="lightgbm")


def test_metric_is_immutable():
    with pytest.raises(AttributeError):
        NDCG(k=10).k = 5
