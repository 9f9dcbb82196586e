"""LightGBM's text: what its own library, Treelite and all that build on them read.

LightGBM compares in float64 with `<=`, so thresholds are widened; a missing value goes where each
split says. A category is a bit in a set by its value, and what is in no set goes right: so the
children of some splits change places. Children and leaves have the numbers that they have here.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove._version import __version__
from rankgrove.export.exact import widened
from rankgrove.export.format import (
    SAME_BITS,
    Consumer,
    Exportable,
    ExportError,
    Format,
    Options,
    Rows,
    emulator,
    package_version,
)
from rankgrove.export.tables import memberships
from rankgrove.export.walking import Places, reached_leaves
from rankgrove.model.model import Model

NAME = "lightgbm"

# What the bits of decision_type mean: by category, missing goes left, and that NaN is missing.
_BY_CATEGORY, _MISSING_LEFT, _NAN_IS_MISSING = 1, 2, 8

# Values as near to 0 as this are 0 to LightGBM.
_TINY = 1e-35
# A set of categories has a bit for each number up to its largest.
LARGEST_CATEGORY = 65_535

# What separates names, or has a meaning in the text or in the JSON that LightGBM makes of it.
_ODD_CHARACTERS = re.compile(r'[\s,:=\[\]{}"]')


def check_categories(model: Model, format_name: str) -> None:
    """Refuse categories that a set of bits by value cannot hold."""
    for feature in np.unique(model.ensemble.feature).tolist():
        for value in model.schema.categories.get(feature, ()):
            if value != int(value) or not 0 <= value <= LARGEST_CATEGORY:
                raise ExportError(
                    f"{format_name} holds categories that are whole numbers from 0 to "
                    f"{LARGEST_CATEGORY:,}. Feature {model.feature_names[feature]!r} has "
                    f"{value:g}: number its categories from 0 on, or export to onnx."
                )


def truncated_categories(model: Model, rows: Rows) -> NDArray[np.bool_]:
    """Documents with a category that is no whole number, which sets by value take for another."""
    used = [f for f in np.unique(model.ensemble.feature).tolist() if f in model.schema.categories]
    values = rows.features[:, used]
    with np.errstate(invalid="ignore"):
        odd = ~np.isnan(values) & ((values != np.floor(values)) | (np.abs(values) >= 2.0**31))
    return np.asarray(odd.any(axis=1))


TRUNCATED = "they have a category that is no whole number, which is cut off to one"


def _write(source: Exportable, options: Options) -> bytes:
    model = source.only_model(NAME)
    check_categories(model, NAME)
    trees = [f"Tree={n}\n{_tree_text(model, n)}\n\n" for n in range(model.n_trees)]
    header = [
        "tree",
        "version=v4",
        "num_class=1",
        "num_tree_per_iteration=1",
        "label_index=0",
        f"max_feature_idx={model.n_features - 1}",
        "objective=lambdarank",
        f"feature_names={' '.join(plain_names(model.feature_names))}",
        f"feature_infos={' '.join(_feature_infos(model))}",
        f"rankgrove_version={__version__}",
        f"rankgrove_model={source.checksum}",
        # Wrong ones make the library end the whole process.
        f"tree_sizes={' '.join(str(len(tree.encode())) for tree in trees)}",
    ]
    end = "end of trees\n\nfeature_importances:\n\nparameters:\nend of parameters\n\n"
    text = "\n".join([*header, "", "".join(trees)]) + end + "pandas_categorical:null\n"
    return text.encode()


def plain_names(names: Iterable[str]) -> list[str]:
    """Names without characters that have a meaning in the text, each once.

    >>> plain_names(["title bm25", "title_bm25", "url:length"])
    ['title_bm25', 'title_bm25_1', 'url_length']
    """
    found: list[str] = []
    for number, name in enumerate(names):
        plain = _ODD_CHARACTERS.sub("_", name) or "_"
        while plain in found:
            plain = f"{plain}_{number}"
        found.append(plain)
    return found


def _feature_infos(model: Model) -> Iterator[str]:
    """What LightGBM notes of each feature: its categories, its range, or that it is not used."""
    trees = model.ensemble
    for feature in range(model.n_features):
        cuts = trees.threshold[(trees.feature == feature) & np.isfinite(trees.threshold)]
        if feature in model.schema.categories:
            yield ":".join(f"{value:.0f}" for value in sorted(model.schema.categories[feature]))
        else:
            yield f"[{cuts.min():.9g}:{cuts.max():.9g}]" if len(cuts) else "none"


def _tree_text(model: Model, number: int) -> str:
    tree = model.ensemble.tree(number)
    n_splits = len(tree.feature)
    left, right = tree.left.tolist(), tree.right.tolist()
    thresholds = [f"{value!r}" for value in widened(tree.threshold).tolist()]
    kinds = (_NAN_IS_MISSING + _MISSING_LEFT * tree.missing_left.astype(int)).tolist()
    boundaries, words = [0], []
    for split, test in enumerate(memberships(tree, model.schema)):
        if test is None:
            continue
        thresholds[split] = str(len(boundaries) - 1)
        kinds[split] = _BY_CATEGORY + _NAN_IS_MISSING
        left[split], right[split] = test.inside, test.outside
        categories = model.schema.categories[int(tree.feature[split])]
        words += _as_words([int(categories[code]) for code in test.codes])
        boundaries.append(len(words))
    by_split = {
        "split_feature": tree.feature.tolist(),
        "split_gain": [f"{gain:.6g}" for gain in tree.gain.tolist()],
        "threshold": thresholds,
        "decision_type": kinds,
        "left_child": left,
        "right_child": right,
        "leaf_value": [repr(value) for value in tree.value.tolist()],
        "leaf_weight": [0] * tree.n_leaves,
        "leaf_count": tree.count.tolist(),
        "internal_value": [0] * n_splits,
        "internal_weight": [0] * n_splits,
        "internal_count": [0] * n_splits,
    }
    if words:
        by_split |= {"cat_boundaries": boundaries, "cat_threshold": words}
    lines = [f"num_leaves={tree.n_leaves}", f"num_cat={len(boundaries) - 1}"]
    lines += [f"{name}={' '.join(map(str, values))}" for name, values in by_split.items()]
    return "\n".join([*lines, "is_linear=0", "shrinkage=1", ""])


def _as_words(values: list[int]) -> list[int]:
    """Bits by value as words of 32, at least one."""
    words = [0] * (max(values, default=0) // 32 + 1)
    for value in values:
        words[value // 32] |= 1 << (value % 32)
    return words


def _score_lightgbm(content: bytes, rows: Rows, options: Options) -> NDArray[Any]:
    import lightgbm  # noqa: PLC0415 (optional)

    booster = lightgbm.Booster(model_str=content.decode())
    return np.asarray(booster.predict(rows.features, raw_score=True, num_threads=1))


def _score_treelite(content: bytes, rows: Rows, options: Options) -> NDArray[Any]:
    import treelite  # noqa: PLC0415 (optional)

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.txt")
        with open(path, "wb") as file:
            file.write(content)
        model = treelite.frontend.load_lightgbm_model(path)
    # As float64, as it takes rows in the type of the thresholds.
    rows64 = rows.features.astype(np.float64)
    return np.asarray(treelite.gtil.predict(model, rows64, nthread=1, pred_margin=True)).ravel()


def _score_by_rules(content: bytes, rows: Rows, options: Options) -> NDArray[Any]:
    """As LightGBM's documents and its predictor say, from the text alone."""
    features = rows.features.astype(np.float64)
    features[np.abs(features) <= _TINY] = 0.0
    scores = np.zeros(len(features))
    for block in content.decode().split("\nTree=")[1:]:
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        leaves = _leaves_by_rules(fields, features)
        scores += np.array(fields["leaf_value"].split(), dtype=np.float64)[leaves]
    return scores


def _leaves_by_rules(fields: dict[str, str], features: NDArray[np.float64]) -> Places:
    feature, kinds, left, right = (
        np.array(fields[name].split(), dtype=np.int64)
        for name in ("split_feature", "decision_type", "left_child", "right_child")
    )
    thresholds = np.array(fields["threshold"].split(), dtype=np.float64)
    boundaries, words = (
        np.array(fields.get(name, "0").split(), dtype=np.int64)
        for name in ("cat_boundaries", "cat_threshold")
    )

    def goes_left(splits: Places, rows: Places) -> NDArray[np.bool_]:
        values, kind = features[rows, feature[splits]], kinds[splits]
        by_category = (kind & _BY_CATEGORY) > 0
        below = np.where(np.isnan(values), (kind & _MISSING_LEFT) > 0, values <= thresholds[splits])
        in_range = (values > -1) & (values < 2.0**31)
        bits = np.where(in_range, values, -1).astype(np.int64)
        place = np.where(by_category, thresholds[splits], 0).astype(np.int64)
        word = boundaries[place] + bits // 32
        known = in_range & (word < boundaries[np.minimum(place + 1, len(boundaries) - 1)])
        bit = (words[np.where(known, word, 0)] >> (bits % 32)) & 1
        return np.where(by_category, known & (bit == 1), below)

    return reached_leaves(len(features), left, right, goes_left)


def _outside(source: Exportable, options: Options, rows: Rows) -> dict[str, NDArray[np.bool_]]:
    model = source.parts[0]
    numbers = [f for f in model.used_features().tolist() if f not in model.schema.categories]
    values = rows.features[:, numbers]
    tiny = ((values != 0) & (np.abs(values) <= _TINY)).any(axis=1)
    return {
        "they have a value within 1e-35 of 0, which LightGBM takes for 0": tiny,
        TRUNCATED: truncated_categories(model, rows),
    }


def _notes(source: Exportable, options: Options) -> list[str]:
    model = source.parts[0]
    notes = []
    cuts = model.ensemble.threshold
    n_tiny = int(((cuts != 0) & (np.abs(cuts) <= _TINY)).sum())
    if n_tiny:
        notes.append(f"Thresholds within 1e-35 of 0: {n_tiny:,}; LightGBM takes such values for 0.")
    renamed = sum(
        a != b for a, b in zip(model.feature_names, plain_names(model.feature_names), strict=True)
    )
    if renamed:
        notes.append(f'Names of features with blanks or any of ,:=[]{{}}" changed: {renamed:,}.')
    return notes


LIGHTGBM = Format(
    name=NAME,
    extension=".txt",
    purpose="LightGBM, Treelite, Triton's FIL, MLServer, KServe, SynapseML and leaves for Go",
    exact="every score, to the bit",
    rounds="values within 1e-35 of 0, which LightGBM takes for 0",
    refuses=(
        "combined models, base scores, and categories that are not whole numbers from 0 to "
        f"{LARGEST_CATEGORY:,}"
    ),
    write=_write,
    consumers=(
        Consumer("lightgbm", package_version("lightgbm"), _score_lightgbm),
        Consumer("treelite", package_version("treelite"), _score_treelite),
        emulator("LightGBM 4", _score_by_rules),
    ),
    agreement=lambda options: SAME_BITS,
    headline=lambda options: "LightGBM text, for LightGBM 3.3 or newer",
    outside=_outside,
    notes=_notes,
)
