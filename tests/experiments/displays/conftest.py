from __future__ import annotations

import pytest

from rankgrove import Ranker, make_web_search


@pytest.fixture(scope="session")
def parts():
    return make_web_search(60, 16, mean_documents=10, seed=4).split(0.5, 0.5)


@pytest.fixture(scope="session")
def ranker(parts):
    train, valid = parts
    given = {"n_estimators": 12, "early_stopping_rounds": 3, "eval_metric": ["map", "ndcg@5"]}
    return Ranker(**given).fit(train, valid={"a": train, "b": valid})
