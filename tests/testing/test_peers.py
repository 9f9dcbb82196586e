"""Other libraries behind one face: their words for ours, and what a fit of theirs gives."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from rankgrove import evaluate, make_web_search
from rankgrove.boosting.parameters import Parameters
from rankgrove.errors import MissingExtraError, ParameterError
from rankgrove.objectives.registry import OBJECTIVES
from rankgrove.testing.peers import (
    PEERS,
    Watch,
    fit_peer,
    import_peer,
    installed,
    metric_of_scores,
    peer_loss,
    peer_settings,
)

METRIC = "ndcg@10"


@pytest.fixture(scope="module")
def parts():
    return make_web_search(60, 16, mean_documents=12, seed=3).split(0.6, 0.4)


def test_names_on_our_side_are_parameters_and_objectives_that_exist():
    known = set(Parameters.__dataclass_fields__)
    for peer in PEERS.values():
        assert set(peer.parameters) <= known
        assert {name.split()[0] for name in peer.losses} <= set(OBJECTIVES)


def test_losses_of_catboost_get_the_metric_and_the_parameters_they_know():
    assert peer_loss("catboost", "queryrmse", "MAP") == "QueryRMSE"
    assert peer_loss("catboost", "yetirank", "NDCG@10") == "YetiRank"
    assert peer_loss("catboost", "yetiloss", "NDCG@5") == "YetiRank:mode=NDCG;top=5;dcg_type=Exp"
    assert peer_loss("catboost", "stochasticrank", "MRR", 0.5) == (
        "StochasticRank:metric=MRR;mu=0.5"
    )


def test_what_a_peer_needs_besides_to_heed_a_parameter_is_told_too():
    assert peer_settings("lightgbm", {"subsample": 0.5})["bagging_freq"] == 1
    assert "bagging_freq" not in peer_settings("lightgbm", {"subsample": 1.0})
    assert peer_settings("catboost", {"temperature": 1e9})["langevin"] is True


def test_what_a_peer_does_not_have_is_refused():
    with pytest.raises(ParameterError, match=r"a parameter that XGBoost has must be .* 'mu'"):
        peer_settings("xgboost", {"mu": 1.0})
    with pytest.raises(ParameterError, match="an objective that LightGBM has must be one of lamb"):
        peer_settings("lightgbm", {"objective": "yetirank"})


def test_a_peer_that_is_not_installed_is_an_error_that_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "catboost", None)
    with pytest.raises(MissingExtraError, match=r"CatBoost needs .* pip install 'rankgrove\[bench"):
        import_peer("catboost")


def test_no_peer_is_imported_before_it_is_asked_for():
    code = (
        "import sys, rankgrove.testing.peers, rankgrove.testing.lightgbm_trees\n"
        "print([name for name in ('lightgbm', 'xgboost', 'catboost') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("tool", PEERS)
def test_a_fit_keeps_the_trees_up_to_the_best_by_what_is_watched(parts, tool):
    pytest.importorskip(tool)
    train, vali = parts
    objective = "queryrmse" if tool == "catboost" else "lambdamart"
    settings = peer_settings(tool, {"objective": objective, "learning_rate": 0.3}, n_jobs=1)
    values, value = [], metric_of_scores(vali, METRIC)

    def watched(scores):
        values.append(value(scores))
        return values[-1]

    fitted = fit_peer(tool, settings, train, 30, Watch(vali, watched, 4))
    assert fitted.n_trees == np.argmax(values) + 1
    assert len(values) == min(30, fitted.n_trees + 4)
    found = evaluate(vali, fitted.predict(vali), METRIC)[METRIC]
    assert found == pytest.approx(max(values), rel=1e-6)


@pytest.mark.parametrize("tool", PEERS)
def test_a_fit_without_a_watch_keeps_all_trees_and_gives_weights_to_queries(parts, tool):
    pytest.importorskip(tool)
    train, vali = parts
    objective = "queryrmse" if tool == "catboost" else "lambdamart"
    settings = peer_settings(tool, {"objective": objective, "learning_rate": 0.3}, n_jobs=1)
    scores = []
    for weights in (None, np.ones(train.n_queries), np.arange(1.0, train.n_queries + 1)):
        own = replace(train, weights=weights)
        fitted = fit_peer(tool, settings, own, 5)
        assert fitted.n_trees == 5
        scores.append(fitted.predict(vali))
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[1], scores[2])


@pytest.mark.parametrize("tool", PEERS)
def test_the_first_trees_of_a_fit_score_as_a_fit_of_so_many(parts, tool):
    pytest.importorskip(tool)
    train, vali = parts
    objective = "queryrmse" if tool == "catboost" else "lambdamart"
    settings = peer_settings(tool, {"objective": objective, "learning_rate": 0.3}, n_jobs=1)
    whole, short = (fit_peer(tool, settings, train, n_trees) for n_trees in (7, 3))
    np.testing.assert_allclose(whole.predict(vali, 3), short.predict(vali), rtol=1e-6, atol=1e-9)
    assert not np.array_equal(whole.predict(vali), short.predict(vali))


def test_installed_says_what_can_be_imported():
    assert installed("numpy")
    assert not installed("no_such_peer")
