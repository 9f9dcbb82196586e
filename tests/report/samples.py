"""Small data, two models on them, and the report of both."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema

from rankgrove import Ranker, make_web_search

METRICS = ["ndcg@10", "map", "pair_accuracy"]


def make_parts():
    """Train, vali and test, of 16 features and some 14 documents per query."""
    parts = make_web_search(90, 16, mean_documents=14, seed=3).split(0.4, 0.2, 0.4)
    return dict(zip(("train", "vali", "test"), parts, strict=True))


def train_models(parts):
    valid = {"vali": parts["vali"]}
    old = Ranker("rankmart", n_estimators=3, max_leaves=4, min_samples_leaf=5)
    new = Ranker("lambdamart", n_estimators=12, max_leaves=8, min_samples_leaf=5)
    return {
        "old": old.fit(parts["train"], valid=valid).model_,
        "new": new.fit(parts["train"], valid=valid).model_,
    }


def check_schema(contents):
    """The contents, as JSON gives them back, are as the schema of the package says."""
    schema = json.loads(files("rankgrove.report").joinpath("schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(json.loads(json.dumps(contents, allow_nan=False)))


def rows_of_tops(tops):
    """For each query its places in the lists of a section that has counts."""
    start = 0
    for count in tops["counts"]:
        yield range(start, start + count)
        start += count
