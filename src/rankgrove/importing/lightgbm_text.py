"""LightGBM's text models, of its versions 2 to 4.

A split sends a document left if its value, a float64, is at most the threshold. What is missing
is told by `decision_type`: bit 0 is set for a split by category, bit 1 where missing values go
left, and bits 2 and 3 say what is missing: nothing (NaN is read as 0), 0 and NaN alike, or NaN.
Values of at most 1e-35 are read as 0. A category in the set goes left, every other value right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.importing.foreign import ForeignModel, ForeignTree, round_down
from rankgrove.model.files import AGAIN, refuse

_VERSIONS = ("v2", "v3", "v4")
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_NONE, _ZERO, _NAN = range(3)
# Values up to this are read as 0.
_NEARLY_ZERO = np.float32(1e-35)
_END = "end of trees"
_DEFAULT_NAME = re.compile(r"Column_\d+")

Fields = Mapping[str, str]


def read_lightgbm(content: bytes, n_rounds: int | None = None) -> ForeignModel:
    """The model of a text that LightGBM's `save_model` or `model_to_string` gave."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        refuse(f"must be text in UTF-8. Got other bytes. {AGAIN}")
    start, *blocks = re.split(r"(?m)^(?=Tree=)", text)
    header = _fields(start)
    if header.get("version") not in _VERSIONS:
        refuse(
            f"must be a LightGBM model of format {', '.join(_VERSIONS)}. Got "
            f"{header.get('version', 'no version')[:20]!r}."
        )
    last, separator, rest = (
        blocks[-1].partition(_END) if blocks else ("", *start.partition(_END)[1:])
    )
    if not separator:
        refuse(f"must be whole, up to the line '{_END}'. Got only the start of it. {AGAIN}")
    blocks = [*blocks[:-1], last] if blocks else []
    _check_outputs(header)
    _check_sizes(header, blocks)
    names = header.get("feature_names", "").split(" ") if header.get("feature_names") else []
    n_features = _whole(header, "max_feature_idx") + 1
    if len(names) != n_features:
        refuse(f"must have {n_features} feature names. Got {len(names)}. {AGAIN}")
    blocks = blocks if n_rounds is None else blocks[:n_rounds]
    trees = [_tree(_fields(block), number, names) for number, block in enumerate(blocks)]
    averaged = "average_output" in start.splitlines()
    if averaged:
        trees = [_divided(tree, len(trees)) for tree in trees]
    known, values = _categories(header, rest, names)
    return ForeignModel(
        "lightgbm", header["version"], header.get("objective", "custom"), trees, n_features,
        () if all(map(_DEFAULT_NAME.fullmatch, names)) else names,
        category_values=values, known_categories=known,
        notes={"averaged": True} if averaged else {},
    )  # fmt: skip


def _fields(block: str) -> dict[str, str]:
    """The lines `key=value` of a part of the text."""
    pairs = (line.partition("=") for line in block.splitlines())
    return {key: value for key, sign, value in pairs if sign}


def _check_outputs(header: Fields) -> None:
    for name in ("num_class", "num_tree_per_iteration"):
        if (number := _whole(header, name)) != 1:
            refuse(
                f"must give one score per document. Got {number} ({name}): a model of several "
                f"classes does not rank."
            )


def _check_sizes(header: Fields, blocks: list[str]) -> None:
    """The header tells the bytes of each tree: LightGBM itself cannot read a text that differs."""
    if "tree_sizes" not in header:
        return
    told = _array(header, "tree_sizes", np.int64)
    if told.tolist() != [len(block.encode()) for block in blocks]:
        refuse(
            f"must have trees of the sizes that it tells (tree_sizes). Got others: it was edited, "
            f"cut, or had its line ends changed. {AGAIN}"
        )


def _tree(fields: Fields, number: int, names: list[str]) -> ForeignTree:
    n_leaves = _whole(fields, "num_leaves")
    if _whole(fields, "is_linear", 0):
        refuse(
            f"must have constant leaves. Got linear ones in tree {number}: train it with "
            f"linear_tree=false."
        )
    value = _array(fields, "leaf_value", np.float64, n_leaves)
    if not n_leaves or not np.isfinite(value).all():
        refuse(f"must have leaves with finite values. Got others in tree {number}. {AGAIN}")
    n_splits = n_leaves - 1
    cover = _optional(fields, "leaf_count", n_leaves)
    if n_splits == 0:
        return ForeignTree.of_one_leaf(float(value[0]), float(cover[0]))
    feature = _array(fields, "split_feature", np.int64, n_splits)
    if np.any((feature < 0) | (feature >= len(names))):
        refuse(f"must split by its {len(names)} features. Got another one. {AGAIN}")
    threshold = _array(fields, "threshold", np.float64, n_splits)
    decision = _array(fields, "decision_type", np.int64, n_splits)
    if np.isnan(threshold).any() or np.any((decision < 0) | (decision >> 2 > _NAN)):
        refuse(f"must have thresholds and decision types. Got others in tree {number}. {AGAIN}")
    by_category = (decision & _CATEGORICAL) != 0
    sets = _sets(fields, np.where(by_category, threshold, -1), number)
    return ForeignTree(
        feature, _thresholds(threshold), _missing_left(feature, threshold, decision, number, names),
        _array(fields, "left_child", np.int64, n_splits),
        _array(fields, "right_child", np.int64, n_splits),
        _optional(fields, "split_gain", n_splits), value, cover, sets,
    )  # fmt: skip


def _thresholds(told: NDArray[np.float64]) -> NDArray[np.float32]:
    """Thresholds of float32 that send every float32 the same way, those read as 0 included."""
    found = round_down(told)
    near_zero = np.abs(told) <= float(_NEARLY_ZERO)
    below = np.nextafter(-_NEARLY_ZERO, np.float32(-np.inf))
    return np.where(near_zero, np.where(told >= 0, _NEARLY_ZERO, below), found)


def _missing_left(
    feature: NDArray[np.int64],
    threshold: NDArray[np.float64],
    decision: NDArray[np.int64],
    number: int,
    names: list[str],
) -> NDArray[np.bool_]:
    """Where NaN goes at each split; right at one by category."""
    by_category = (decision & _CATEGORICAL) != 0
    default_left = (decision & _DEFAULT_LEFT) != 0
    zero_left = threshold >= 0
    missing = decision >> 2
    apart = ~by_category & (missing == _ZERO) & (default_left != zero_left)
    if apart.any():
        split = int(np.argmax(apart))
        refuse(
            f"must send 0 the way of its neighbours. Got a split of feature "
            f"{names[feature[split]]!r} in tree {number} that sends 0 with missing values, away "
            f"from what is next to 0: train it with zero_as_missing=false."
        )
    found: NDArray[np.bool_] = np.where(missing == _NONE, zero_left, default_left) & ~by_category
    return found


def _sets(fields: Fields, rows: NDArray[np.float64], number: int) -> dict[int, frozenset[int]]:
    """The categories that go left at each split by category, whose set `rows` tells."""
    splits = np.flatnonzero(rows >= 0)
    if not len(splits):
        return {}
    bounds = _array(fields, "cat_boundaries", np.int64)
    words = _array(fields, "cat_threshold", np.int64)
    unsound = (
        len(bounds) < 2 or bounds[0] != 0 or np.any(np.diff(bounds) < 0)
        or bounds[-1] != len(words) or np.any((words < 0) | (words >= 1 << 32))
        or np.any(rows[splits] >= len(bounds) - 1)
    )  # fmt: skip
    if unsound:
        refuse(f"must have sound sets of categories. Got others in tree {number}. {AGAIN}")
    found = {}
    for split in splits.tolist():
        row = int(rows[split])
        chosen = words[bounds[row] : bounds[row + 1]].astype("<u4").view(np.uint8)
        bits = np.flatnonzero(np.unpackbits(chosen, bitorder="little"))
        found[split] = frozenset(bits.tolist())
    return found


def _divided(tree: ForeignTree, number: int) -> ForeignTree:
    """A tree of a random forest, whose score is the mean of its trees."""
    return ForeignTree(
        tree.feature, tree.threshold, tree.missing_left, tree.left, tree.right, tree.gain,
        tree.value / number, tree.cover, tree.category_sets,
    )  # fmt: skip


def _categories(
    header: Fields, rest: str, names: list[str]
) -> tuple[dict[int, frozenset[int]], dict[int, list[Any] | None]]:
    """The categories that training saw by feature, and what they stand for in a pandas frame."""
    infos = header.get("feature_infos", "").split(" ")
    known = {
        feature: frozenset(int(part) for part in info.split(":") if part.isdecimal())
        for feature, info in enumerate(infos[: len(names)])
        if re.fullmatch(r"-?\d{1,9}(:-?\d{1,9})*", info)
    }
    line = re.search(r"(?m)^pandas_categorical:(.*)$", rest)
    try:
        levels = json.loads(line[1]) if line else None
    except (ValueError, RecursionError):
        levels = 0
    if not levels and levels != 0:
        return known, dict.fromkeys(known)
    told = re.search(r"(?m)^\[categorical_feature: ([\d,]*)\]$", rest)
    features = sorted({int(part) for part in told[1].split(",") if part}) if told else list(known)
    sound = isinstance(levels, list) and all(isinstance(part, list) for part in levels)
    if not sound or len(features) != len(levels) or features[-1:] >= [len(names)]:
        refuse(
            "must tell which features the categories of its data frame belong to. Got "
            "pandas_categorical for other features than those that it split by category: train "
            "it with plain numbers in place of ordered categories."
        )
    return known, dict(zip(features, levels, strict=True))


def _whole(fields: Fields, name: str, default: int | None = None) -> int:
    text = fields.get(name, "")
    if name not in fields and default is not None:
        return default
    if not re.fullmatch(r"-?\d{1,9}", text):
        refuse(f"must have a whole number for {name}. Got {text[:20]!r}. {AGAIN}")
    return int(text)


def _array(fields: Fields, name: str, dtype: type[Any], length: int | None = None) -> NDArray[Any]:
    """The numbers of a line, as many as there must be."""
    try:
        found = np.array([dtype(part) for part in fields.get(name, "").split()], dtype)
    except (ValueError, OverflowError):
        refuse(f"must have numbers for {name}. Got others. {AGAIN}")
    if length is not None and len(found) != length:
        refuse(f"must have {length} numbers for {name}. Got {len(found)}. {AGAIN}")
    return found


def _optional(fields: Fields, name: str, length: int) -> NDArray[np.float64]:
    """Numbers that no score depends on; 0 where there are none."""
    if not fields.get(name, "").strip():
        return np.zeros(length)
    found: NDArray[np.float64] = _array(fields, name, np.float64, length)
    return found
