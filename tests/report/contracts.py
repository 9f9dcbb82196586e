"""Contracts of reports to draw: a real one, and what is made of it by changing it."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache

import numpy as np

from rankgrove import Ranker, make_report, make_web_search

METRICS = ["ndcg@10", "map"]
TRAIN = make_web_search(60, 20, mean_documents=14, seed=1)
TEST = make_web_search(80, 20, mean_documents=14, seed=2)
FOREIGN = {
    "script": "</script><script>window.hacked = 1</script>",
    "image": "<img src=x onerror='window.hacked = 2'>",
    "quotes": """it's "quoted" & <b>bold</b>""",
    "right to left": "نعال الجري الحمراء \u202eabc",
    "emoji": "🏃🏽\u200d♀️ shoes 👟",
    "long": "long " * 2000,
    "marks": "@@script@@ @@data@@ ${state} `tick`",
}


@cache
def rankers():
    """Three models of the same data, each with more trees."""
    return {
        name: Ranker(objective=objective, n_estimators=trees).fit(TRAIN, valid={"train": TRAIN})
        for name, objective, trees in (
            ("old", "regression", 5), ("new", "lambdamart", 12), ("newest", "lambdamart", 20),
        )
    }  # fmt: skip


@cache
def _full():
    candidates = {name: rankers()[name] for name in ("old", "new")}
    slices = {"length": "length", "intent": np.array(["buy", "go"])[np.arange(80) % 2]}
    return make_report(
        TEST, candidates, METRICS, baseline="old", slices=slices, train=TRAIN, forces=2
    ).to_dict()


def full():
    """Every section, of two models."""
    return copy.deepcopy(_full())


def without(section):
    """All but one section, with its reason."""
    contract = full()
    contract[section] = None
    contract["absent"][section] = f"Here is why there is no {section}."
    return contract


def of_foreign_text():
    """Queries, documents and candidates whose names would break a page that trusted them."""
    contract = full()
    texts = list(FOREIGN.values())
    queries, tops = contract["queries"], contract["tops"]
    queries["text"] = [texts[at % len(texts)] for at in range(len(queries["id"]))]
    tops["title"] = [texts[at % len(texts)] for at in range(len(tops["document"]))]
    return _renamed(contract, {"old": FOREIGN["script"], "new": FOREIGN["image"]})


def _renamed(value, names):
    """The same with other names of candidates, wherever they stand."""
    if isinstance(value, dict):
        return {names.get(key, key): _renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


def repeated(times, seed=0):
    """The same queries so many times over, each with values of its own."""
    contract = full()
    queries, tops = contract["queries"], contract["tops"]
    n_queries = len(queries["id"])
    draw = np.random.default_rng(seed)
    for column in ("documents", "relevant"):
        queries[column] = queries[column] * times
    queries["id"] = [str(number) for number in range(n_queries * times)]
    for metric, columns in queries["values"].items():
        skipped = np.array([value is None for value in columns[0]] * times)
        truth = draw.beta(3, 2, n_queries * times)
        queries["values"][metric] = [
            _with_gaps(np.clip(truth + draw.normal(shift, 0.08, len(truth)), 0, 1), skipped)
            for shift in (0.0, 0.02)
        ]
    for groups in queries["groups"].values():
        groups["of"] = groups["of"] * times
    for column in ("counts", "document", "label", "ideal"):
        tops[column] = tops[column] * times
    tops["rank"] = [ranks * times for ranks in tops["rank"]]
    tops["score"] = None
    return contract


def _with_gaps(values, skipped):
    tenthousandths = np.rint(values * 10_000).astype(int).tolist()
    return [None if gap else value for value, gap in zip(tenthousandths, skipped, strict=True)]


def of_one_candidate():
    return make_report(TEST, {"new": rankers()["new"]}, METRICS, forces=1).to_dict()


def of_three_candidates():
    return make_report(TEST, rankers(), METRICS, slices="length", forces=1).to_dict()


def of_scores():
    """No candidate is a model."""
    scores = {name: ranker.predict(TEST) for name, ranker in rankers().items() if name != "newest"}
    return make_report(TEST, scores, METRICS).to_dict()


def of_few_queries():
    """Two queries with a value, and one without a relevant document."""
    part = TEST.take_queries(np.array([0, 1, 2]))
    labels = part.labels.copy()
    labels[part.offsets[2] :] = 0
    candidates = {"old": part.features[:, 0], "new": rankers()["new"]}
    return make_report(replace(part, labels=labels), candidates, METRICS).to_dict()


def of_ratings():
    """Labels with too many values to be grades, and a metric that does not add up over ranks."""
    labels = np.random.default_rng(0).random(len(TEST.labels)).astype(np.float32)
    candidates = {"old": TEST.features[:, 0], "new": rankers()["new"]}
    return make_report(
        replace(TEST, labels=labels), candidates, ["dcg@10", "pair_accuracy"]
    ).to_dict()


def changes(contract, metric="ndcg@10"):
    """New less old of each query in ten-thousandths, None where skipped."""
    old, new = contract["queries"]["values"][metric]
    return [None if a is None else b - a for a, b in zip(old, new, strict=True)]


def worst(contract, metric="ndcg@10"):
    """The queries that lose most, the first ten; of equal losses the earlier one comes first."""
    found = [
        (change, q) for q, change in enumerate(changes(contract, metric)) if change is not None
    ]
    return [q for _, q in sorted(found)[:10]]
