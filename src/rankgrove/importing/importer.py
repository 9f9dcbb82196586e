"""`import_model`: a file of LightGBM, XGBoost or CatBoost becomes a model of Rankgrove."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from rankgrove.errors import refusal, unknown_name, whole_number
from rankgrove.importing.catboost_model import read_catboost
from rankgrove.importing.foreign import ForeignModel, make_model
from rankgrove.importing.json_values import as_object, parse_json
from rankgrove.importing.lightgbm_text import read_lightgbm
from rankgrove.importing.ubjson import parse_ubjson
from rankgrove.importing.xgboost_model import read_xgboost
from rankgrove.model.files import open_regular, refuse, refusing
from rankgrove.model.model import Model

KINDS = ("lightgbm", "xgboost", "catboost")

# How files begin that hold such a model in another form, and what to do with them.
_OTHER_FORMS = {
    b"CBM1": 'a binary CatBoost model: save it with save_model(path, format="json")',
    b"binf": "an old binary XGBoost model: load it in XGBoost and save it as .json",
    b"booster[": "a dump of XGBoost, which lacks its base score: save it with save_model",
    b"[": "a dump of XGBoost, which lacks its base score: save it with save_model",
    b"\x80": "a pickle, which could run any code: load it where it came from and use save_model",
}
_WHAT = "be a model of LightGBM (text), XGBoost (.json, .ubj) or CatBoost (.json)"

Source = str | bytes | PathLike[str]


def import_model(
    source: Source,
    kind: str | None = None,
    *,
    n_rounds: int | None = None,
    feature_names: Sequence[str] | None = None,
) -> Model:
    """A model of trees made from one of LightGBM, XGBoost or CatBoost, without these libraries.

    It has the names, categories, gains and counts of the file, and scores as the library gives
    them before any link function. Those of LightGBM are the same bits for float32 features.
    XGBoost adds up in float32: each document reaches the same leaves, and sums differ by what it
    rounds off. CatBoost's differ by the order of additions. What cannot be held exactly is
    refused with its feature and the reason; `notes["imported"]` says where the model came from.

    Parameters
    ----------
    source
        The path of a file, or the text or bytes of one: LightGBM's `save_model`, XGBoost's as
        `.json` or `.ubj`, CatBoost's with `format="json"`.
    kind
        "lightgbm", "xgboost" or "catboost"; by default the content tells.
    n_rounds
        Take the trees of the first rounds only; all by default. XGBoost's own estimators score
        with the best round where training stopped early, which `notes` has as `best_rounds`.
    feature_names
        Names in place of those of the file; without any, features are f1, f2, ….

    Examples
    --------
    >>> text = '''tree
    ... version=v4
    ... num_class=1
    ... num_tree_per_iteration=1
    ... max_feature_idx=1
    ... feature_names=bm25 pagerank
    ...
    ... Tree=0
    ... num_leaves=2
    ... split_feature=1
    ... threshold=0.5
    ... decision_type=2
    ... left_child=-1
    ... right_child=-2
    ... leaf_value=-1 2
    ...
    ... end of trees
    ... '''
    >>> import_model(text).predict([{"pagerank": 0.25}, {"pagerank": 0.75}]).tolist()
    [-1.0, 2.0]
    """
    if kind is not None and kind not in KINDS:
        raise unknown_name("kind", str(kind), KINDS)
    n_rounds = whole_number("n_rounds", n_rounds, 1, none=True)
    name = name_of(source)
    with refusing(name):
        content = content_of(source)
        foreign = read_foreign(content, kind, n_rounds)
    if feature_names is not None:
        if len(feature_names) != foreign.n_features:
            raise refusal(
                "feature_names", f"have one name for each of {foreign.n_features} features",
                got=str(len(feature_names)),
            )  # fmt: skip
        foreign = replace(foreign, feature_names=list(feature_names))
    notes: dict[str, Any] = {"sha256": hashlib.sha256(content).hexdigest()}
    if n_rounds is not None:
        notes["rounds"] = n_rounds
    with refusing(name):
        return make_model(foreign, notes)


def name_of(source: Source) -> str:
    """The path of a file; or what a text is called in messages."""
    return "the text of the model" if _is_content(source) else os.fspath(source)  # type: ignore[return-value]


def content_of(source: Source) -> bytes:
    """The bytes of a model; inside `refusing`."""
    if isinstance(source, bytes):
        return source
    if _is_content(source):
        return str(source).encode("utf-8", "surrogatepass")
    with open_regular(source) as (file, size):
        return file.read(size)


def _is_content(source: Source) -> bool:
    if isinstance(source, str):
        return "\n" in source or source.lstrip().startswith("{")
    return isinstance(source, bytes)


def read_foreign(
    content: bytes, kind: str | None = None, n_rounds: int | None = None
) -> ForeignModel:
    """The model that a file holds, as its library means it; inside `refusing`."""
    if not content.strip():
        refuse(f"must {_WHAT}. Got an empty file.")
    found, document = _recognised(content)
    if kind not in (None, found):
        refuse(f"must be a model of {kind}. Got one of {found}: leave out the kind.")
    if found == "lightgbm":
        return read_lightgbm(content, n_rounds)
    return (read_xgboost if found == "xgboost" else read_catboost)(document, n_rounds)


def _recognised(content: bytes) -> tuple[str, dict[str, Any]]:
    """Which library wrote a file, and the document in it, if it is one."""
    start = content[:64].lstrip()
    if start.split(b"\n")[0].strip() == b"tree":
        return "lightgbm", {}
    for begin, form in _OTHER_FORMS.items():
        if start.startswith(begin):
            refuse(f"must {_WHAT}. Got {form}.")
    if len(content) > 8 and content[8:9] == b"{" and content[4:8] == b"\0\0\0\0":
        refuse(f"must {_WHAT}. Got one of Rankgrove: it needs no import.")
    if not start.startswith(b"{"):
        refuse(f"must {_WHAT}. Got another kind of file.")
    is_text = start[1:2] in (b'"', b"}") or start[1:2].isspace()
    parsed = parse_json(content) if is_text else as_object(parse_ubjson(content), "the model")
    if "learner" in parsed:
        return "xgboost", parsed
    if "features_info" in parsed:
        return "catboost", parsed
    if "tree_info" in parsed:
        refuse(f"must {_WHAT}. Got LightGBM's dump_model: save the text with save_model.")
    return refuse(f"must {_WHAT}. Got JSON of another kind.")
