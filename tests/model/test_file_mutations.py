"""Damaged model files: each is refused or scores as the whole one; none crashes or hangs.

`pytest -m long` tries fifty thousand of each kind; by default there are a few thousand.
"""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from model.file_samples import unpack, with_checksum
from model.samples import make_features, make_model
from rankgrove.model.base import load
from rankgrove.model.files import ModelFileError

FEATURES = make_features(n_rows=8)
PIECES = [b"", b"0", b"9", b"-", b"1e999", b'"', b"{", b"}", b"[", b"]", b",", b":", b"null",
          b"NaN", b"\\u0000", b"\\ud800", b"\xff", b"\x00", b'"F32"', b'"I64"',
          b"18446744073709551616", b"[" * 5000, b'"format_version":"2"',
          b'"checksum":""']  # fmt: skip


def split_file(content):
    end = 8 + int.from_bytes(content[:8], "little")
    return content[8:end], content[end:]


def mutate_bytes(rng, content, other):
    """One to three changes that know nothing of the format, or little."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(MUTATIONS)(rng, content, other)
    return content


def flip_bit(rng, content, other):
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def change_byte(rng, content, other):
    at = rng.randrange(len(content))
    return content[:at] + rng.choice((b"\x00", b"\xff", rng.randbytes(1))) + content[at + 1 :]


def truncate(rng, content, other):
    return content[: rng.randrange(1, len(content))]


def splice(rng, content, other):
    start, end = sorted(rng.sample(range(1, len(content)), 2))
    return content[:start] + other[start:end] + content[end:]


def duplicate(rng, content, other):
    start, end = sorted(rng.sample(range(len(content) + 1), 2))
    return content[:end] + content[start:end] + content[end:]


def remove(rng, content, other):
    start = rng.randrange(len(content))
    return content[:start] + content[start + rng.randrange(1, 20) :] or b"x"


def change_length(rng, content, other):
    length = int.from_bytes(content[:8], "little")
    new = rng.choice((length - 1, length + 1, length - 8, length + 8, 0, 2**32, 2**63, 10**8))
    return (new % 2**64).to_bytes(8, "little") + content[8:]


def edit_header(rng, content, other):
    """Put a piece of JSON, or what is none, into the header, whose length stays right."""
    header, rest = split_file(content)
    if len(header) < 2:
        return content
    start = rng.randrange(len(header))
    end = min(len(header), start + rng.randrange(8))
    header = header[:start] + rng.choice(PIECES) + header[end:]
    return len(header).to_bytes(8, "little") + header + rest


def edit_entry(rng, content, other):
    """Change what the header says of one tensor."""
    header, rest = split_file(content)
    try:
        entries = json.loads(header)
        names = [name for name in entries if name != "__metadata__"]
        entry = entries[rng.choice(names)]
        key = rng.choice(("dtype", "shape", "data_offsets", "name"))
        if key == "dtype":
            entry[key] = rng.choice(("F64", "F32", "I64", "I32", "U32", "U8", "BF16", "BOOL", "x"))
        elif key == "name":
            entries[rng.choice(names)] = entry
        else:
            at = rng.randrange(len(entry[key]))
            entry[key][at] = rng.choice((0, 1, 7, entry[key][at] + 8, 2**40, 2**63, 2**64, -1))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return content
    header = json.dumps(entries).encode()
    return len(header).to_bytes(8, "little") + header + rest


MUTATIONS = [flip_bit, flip_bit, flip_bit, change_byte, change_byte, truncate, splice, duplicate,
             remove, change_length, edit_header, edit_header, edit_entry, edit_entry]  # fmt: skip


def mutate_content(rng, content, other):
    """Change numbers or metadata and put the checksum right: only the checks are left."""
    metadata, tensors = unpack(content)
    metadata, tensors = dict(metadata), {name: array.copy() for name, array in tensors.items()}
    for _ in range(rng.choice((1, 1, 2, 4))):
        if rng.random() < 0.2:
            key = rng.choice(sorted(metadata.keys() - {"checksum", "format"}))
            text = metadata[key].encode()
            at = rng.randrange(len(text) + 1)
            piece = rng.choice([p for p in PIECES if p != b"\xff"])
            text = text[:at] + piece + text[at + rng.randrange(3) :]
            metadata[key] = text.decode()
        else:
            name = rng.choice(sorted(tensors))
            tensors[name] = mutate_array(rng, tensors[name])
    return with_checksum(metadata, tensors)


def mutate_array(rng, array):
    if array.size == 0:
        return array
    flat = array.reshape(-1)
    at = rng.randrange(len(flat))
    how = rng.randrange(6)
    if how == 0:
        flat.view(np.uint8)[rng.randrange(flat.nbytes)] ^= 1 << rng.randrange(8)
    elif how == 1:
        flat[at] = rng.choice(flat)
    elif how == 2:
        flat[at] = rng.choice((0, 1, 2, 7, 100))
    elif how == 3:
        other = rng.randrange(len(flat))
        flat[[at, other]] = flat[[other, at]]
    elif how == 4:
        return array[: rng.randrange(len(array) + 1)]
    elif array.dtype.kind == "f":
        flat[at] = rng.choice((np.nan, np.inf, -np.inf, -0.0, np.finfo(array.dtype).max))
    else:
        limits = np.iinfo(array.dtype)
        flat[at] = rng.choice((limits.min, limits.max))
    return array


def run(mutate, seed, n_mutants, models, tmp_path, check):
    """How many mutants of two models still load; `check` judges their models."""
    rng = random.Random(seed)
    files = []
    for model in models:
        model.save(tmp_path / "model.safetensors")
        files.append((tmp_path / "model.safetensors").read_bytes())
    path = tmp_path / "mutant.safetensors"
    loaded = 0
    for number in range(n_mutants):
        path.write_bytes(mutate(rng, files[number % 2], files[1 - number % 2]))
        try:
            model = load(path)
        except ModelFileError:
            continue
        loaded += 1
        check(model, f"{seed=} {number=}")
    return loaded


def two_models():
    return [make_model(number, n_trees=3, n_leaves=4 + number) for number in range(2)]


def check_bytes(seed, n_mutants, models, features, tmp_path):
    expected = [model.predict(features) for model in models]

    def same(model, where):
        scores = model.predict(features)
        assert any(np.array_equal(scores, whole) for whole in expected), where

    loaded = run(mutate_bytes, seed, n_mutants, models, tmp_path, same)
    assert loaded < n_mutants / 10


def check_content(seed, n_mutants, tmp_path):
    def sound(model, where):
        features = np.resize(FEATURES, (len(FEATURES), model.n_features))
        scores = model.predict(features, base_scores=0.0, n_jobs=1)
        assert scores.shape == (len(features),), where
        parts = model.contributions(features, base_scores=0.0, n_jobs=1)
        assert parts.shape == (len(features), model.n_features + 1), where
        assert model.importance("split").sum() == len(model.ensemble.feature), where
        for number in range(model.n_trees):
            assert model.describe_tree(number).startswith(f"tree {number}: "), where

    loaded = run(mutate_content, seed, n_mutants, two_models(), tmp_path, sound)
    # Both happen: refused by the checks on the trees, and well formed though different.
    assert n_mutants / 20 < loaded < n_mutants * 19 / 20


def test_a_damaged_file_is_refused_or_scores_the_same(tmp_path):
    check_bytes(0, 2500, two_models(), FEATURES, tmp_path)


def test_unsound_content_with_a_right_checksum_is_refused_or_scores_safely(tmp_path):
    check_content(0, 2500, tmp_path)


@pytest.mark.long
def test_fifty_thousand_damaged_files(tmp_path):
    check_bytes(1, 50_000, two_models(), FEATURES, tmp_path)


@pytest.mark.long
def test_fifty_thousand_files_of_unsound_content(tmp_path):
    check_content(1, 50_000, tmp_path)
