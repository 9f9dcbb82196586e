"""Damaged and foreign files: one clear error each, and never another exception."""

from __future__ import annotations

import json
import pickle
import random

import numpy as np
import pytest

from importing.samples import (
    catboost_model,
    catboost_text,
    lightgbm_booster,
    xgboost_booster,
)
from rankgrove import import_model
from rankgrove.errors import ParameterError
from rankgrove.importing.foreign import ForeignModel, ForeignTree, make_model
from rankgrove.model.files import ModelFileError, refusing
from rankgrove.model.model import Model

for library in ("lightgbm", "xgboost", "catboost"):
    pytest.importorskip(library)

N_MUTATIONS = 1500


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """Small models as bytes, by what they are."""
    directory = tmp_path_factory.mktemp("catboost")
    booster = xgboost_booster(rounds=2, max_depth=3)
    shapes = {"symmetric": {}, "any shape": {"grow_policy": "Lossguide", "max_leaves": 6}}
    found = {
        "lightgbm": lightgbm_booster(rounds=2, num_leaves=6).model_to_string().encode(),
        "xgboost": bytes(booster.save_raw("json")),
        "ubjson": bytes(booster.save_raw("ubj")),
        "dart": bytes(xgboost_booster(rounds=2, max_depth=2, booster="dart").save_raw("json")),
    }
    for name, shape in shapes.items():
        model = catboost_model(rounds=2, depth=2, **shape)
        found[f"catboost {name}"] = catboost_text(model, directory).encode()
    return found


def outcome(content):
    """Whether a text of bytes is a model, which then must score, or is refused in one line."""
    try:
        model = import_model(content)
    except ModelFileError as error:
        refused = error
    else:
        refused = None
    if refused is not None:
        assert "\n" not in refused.problem
        assert str(refused).startswith("the text of the model: ")
        return False
    assert np.isfinite(model.predict(np.zeros((3, model.n_features), np.float32))).all()
    return True


def mutated(content, draw):
    """The bytes with some of them changed, cut out, repeated or swapped."""
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 8])):
        first = draw.randrange(len(changed))
        last = min(len(changed), first + draw.choice([1, 1, 2, 10, 200]))
        kind = draw.randrange(5)
        if kind == 0:
            changed[first] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del changed[first:last]
        elif kind == 2:
            changed[first:first] = changed[first:last]
        elif kind == 3:
            changed[first] = draw.choice(b'0123456789-.,:[]{}"= \n')
        else:
            changed[first:last] = draw.choice([b"nan", b"inf", b"-1", b"1e999", b"null", b"9" * 30])
        if not changed:
            break
    return bytes(changed)


NAMES = ["lightgbm", "xgboost", "ubjson", "dart", "catboost symmetric", "catboost any shape"]


@pytest.mark.parametrize("name", NAMES)
def test_a_mutated_file_is_a_model_or_one_clear_error(contents, name):
    draw = random.Random(name)
    content = contents[name]
    assert outcome(content)
    sound = sum(outcome(mutated(content, draw)) for _ in range(N_MUTATIONS))
    assert sound < N_MUTATIONS


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_cut_anywhere_is_refused(contents, name):
    # (LightGBM's trees end before its parameters, and what is after the document is nothing.)
    content = contents[name]
    end = content.index(b"end of trees") if name == "lightgbm" else len(content.rstrip()) - 1
    for at in np.linspace(0, end, 150).astype(int).tolist():
        assert not outcome(content[:at])


VALUES = [
    None,
    True,
    -1,
    0,
    7,
    2**40,
    1e400,
    float("nan"),
    "",
    "x",
    "7",
    [],
    [1],
    [[0]],
    {},
    {"a": 1},
]


def places(value, path=()):
    """The path of every part of a document."""
    yield path
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, entry in entries:
        yield from places(entry, (*path, key))


def with_value(document, path, value, drop=False):
    changed = json.loads(json.dumps(document))
    at = changed
    for key in path[:-1]:
        at = at[key]
    if drop:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return changed


@pytest.mark.parametrize("name", ["xgboost", "dart", "catboost symmetric", "catboost any shape"])
def test_a_part_of_a_document_that_is_another_value_is_a_model_or_one_clear_error(contents, name):
    draw = random.Random(name)
    document = json.loads(contents[name])
    document.get("model_info", {}).clear()
    found = [path for path in places(document) if path]
    for path in draw.sample(found, min(len(found), 500)):
        outcome(json.dumps(with_value(document, path, draw.choice(VALUES))).encode())
        outcome(json.dumps(with_value(document, path, None, drop=True)).encode())


def test_every_line_of_a_text_that_is_another_is_a_model_or_one_clear_error(contents):
    draw = random.Random(1)
    header, *trees = contents["lightgbm"].decode().split("Tree=")
    header = "\n".join(line for line in header.split("\n") if not line.startswith("tree_sizes"))
    lines = "Tree=".join([header, *trees]).split("\n")
    end = lines.index("end of trees")
    values = ["", "1", "-1", "0 0", "nan", "inf inf", "1e308", "9" * 12, "9" * 400, "a b", "1,2"]
    for at, line in enumerate(lines[:end]):
        for value in draw.sample(values, 6):
            changed = [*lines]
            changed[at] = f"{line.partition('=')[0]}={value}"
            outcome("\n".join(changed).encode())
        outcome("\n".join(lines[:at] + lines[at + 1 :]).encode())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Got an empty file"),
        (b"   \n", "Got an empty file"),
        (b"CBM1\x00\x00", "a binary CatBoost model: save it with"),
        (b"binf\x00\x00", "an old binary XGBoost model"),
        (b"booster[0]:\n0:[f0<1]", "a dump of XGBoost"),
        (b'[{"nodeid": 0}]', "a dump of XGBoost"),
        (pickle.dumps({}), "a pickle, which could run any code"),
        (b'{"tree_info": []}', "Got LightGBM's dump_model: save the text"),
        (b'{"a": 1}', "Got JSON of another kind"),
        (b"1 qid:1 1:0.5\n", "Got another kind of file"),
        (b"tree\nversion=v9\n", "Got 'v9'"),
        (b"{" * 100_000, "must have lengths that are whole numbers"),
        (b'{"learner":' + b"[" * 100_000, "must be whole JSON"),
        (b"\xff\xfe\x00", "Got another kind of file"),
    ],
)
def test_other_files_are_told_apart(content, reason):
    with pytest.raises(ModelFileError, match=reason):
        import_model(content)


def test_a_model_of_rankgrove_needs_no_import(tmp_path, contents):
    path = tmp_path / "model.safetensors"
    import_model(contents["lightgbm"]).save(path)
    with pytest.raises(ModelFileError, match="it needs no import"):
        import_model(path)


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match="there is no such file"):
        import_model(tmp_path / "none.txt")
    with pytest.raises(ModelFileError, match="Got a directory"):
        import_model(str(tmp_path))


def test_the_call_itself_may_be_wrong(contents):
    with pytest.raises(ParameterError, match="did you mean 'lightgbm'"):
        import_model(contents["lightgbm"], "lightgmb")
    with pytest.raises(ModelFileError, match=r"must be a model of xgboost\. Got one of lightgbm"):
        import_model(contents["lightgbm"], "xgboost")
    with pytest.raises(ParameterError, match="n_rounds must be a whole number, 1 or more"):
        import_model(contents["lightgbm"], n_rounds=0)
    with pytest.raises(ParameterError, match=r"one name for each of 7 features\. Got 1"):
        import_model(contents["lightgbm"], feature_names=["a"])


def test_changed_line_ends_are_refused_as_lightgbm_cannot_read_them(contents):
    with pytest.raises(ModelFileError, match="had its line ends changed"):
        import_model(contents["lightgbm"].replace(b"\n", b"\r\n"))


def tree_of(left, right, values):
    n_splits = len(left)
    return ForeignTree(
        np.zeros(n_splits, np.int64), np.zeros(n_splits, np.float32),
        np.zeros(n_splits, np.bool_), np.array(left), np.array(right), np.zeros(n_splits),
        np.array(values, np.float64), np.zeros(len(values)),
    )  # fmt: skip


def made(tree) -> Model:
    with refusing("x"):
        return make_model(ForeignModel("lightgbm", "v4", "", [tree], 1), {})


def test_children_before_their_parents_and_leaves_of_nobody_are_put_in_order():
    # Split 2 hangs on split 0, and split 1 on split 2; leaf 4 hangs on nothing.
    model = made(tree_of([2, ~0, ~2], [~3, ~1, 1], [1.0, 2.0, 3.0, 4.0, 5.0]))
    assert model.ensemble.tree(0).value.tolist() == [3.0, 1.0, 2.0, 4.0]
    assert model.predict(np.float32([[-1], [1]])).tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    "tree",
    [
        tree_of([1, 0], [~0, ~1], [1.0, 2.0, 3.0]),
        tree_of([~0], [~0], [1.0, 2.0]),
        tree_of([5], [~0], [1.0, 2.0]),
        tree_of([~7], [~0], [1.0, 2.0]),
        tree_of([], [], [1.0, 2.0]),
    ],
)
def test_circles_and_children_of_nobody_are_refused(tree):
    with pytest.raises(ModelFileError):
        made(tree)
