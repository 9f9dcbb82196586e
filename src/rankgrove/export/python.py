"""A scorer in Python: one module that needs the standard library only, not even NumPy."""

from __future__ import annotations

import platform
from string import Template
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrove.export.format import SAME_BITS, Consumer, Exportable, Format, Options, Rows
from rankgrove.export.scorers import (
    SCORER_EXACT,
    SCORER_REFUSES,
    Program,
    base64_of,
    cut_text,
    level_lines,
    origin,
)

_LINE = 96

_FILE = Template('''\
# $origin$levels
"""Scores documents by the trees in this file. It needs nothing but Python."""

import sys
from array import array
from base64 import b64decode

FEATURE_NAMES = [
$names
]


def _numbers(kind, text):
    numbers = array(kind, b64decode(text))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


# A node of 0 or more is a split, and ~n is leaf n.
$tables


def score(document$base):
    """The score of one document: higher is better, and the same bits as that of Rankgrove.

    Its features stand in the order of FEATURE_NAMES; a missing value is None or NaN.$base_words
    """
    if len(document) != len(FEATURE_NAMES):
        raise ValueError(
            f"a document has {len(FEATURE_NAMES)} features, not {len(document)}"
        )
    nan = float("nan")
    # Features are float32 numbers.
    features = array("f", [nan if value is None else value for value in document])
$body


def _sum_of_trees(features,$codes first, last, total):
    for tree in range(first, last):
        node = ROOT[tree]
        while node >= 0:
$decision
            node = LEFT[node] if goes_left else RIGHT[node]
        total += VALUE[~node]
    return total
$codes_function''')

_BASE_WORDS = """
    The score starts from `base`, the base score of the document."""

_BY_THRESHOLD = """\
            value = features[FEATURE[node]]
            goes_left = value <= THRESHOLD[node] if value == value else MISSING_LEFT[node]"""

_BY_SET = """\
            place = FEATURE[node]
            row = CATEGORY_SET[node]
            if row < 0:
                value = features[place]
                goes_left = value <= THRESHOLD[node] if value == value else MISSING_LEFT[node]
            elif codes[place] < 0:
                goes_left = MISSING_LEFT[node]
            else:
                word = CATEGORY_SETS[8 * row + codes[place] // 32]
                goes_left = word >> codes[place] % 32 & 1"""

_CODES_FUNCTION = '''

_CODES = [
    {CATEGORY[c]: c - first for c in range(first, last)}
    for first, last in zip(FIRST_CATEGORY, FIRST_CATEGORY[1:])
]


def _codes_of(features):
    """The code of each category, -1 for a missing or unknown one."""
    return [codes.get(features[i], -1) for i, codes in zip(CATEGORICAL, _CODES)]
'''


def _write(source: Exportable, _: Options) -> bytes:
    program = Program.of(source)
    return _FILE.substitute(
        origin=origin(source),
        levels="".join(f"\n# {line}" for line in level_lines(program)),
        names="\n".join(f"    {name!a}," for name in program.feature_names),
        tables="\n".join(_tables(program)),
        base=", base" if program.needs_base else "",
        base_words=_BASE_WORDS if program.needs_base else "",
        body=_body(program),
        codes=" codes," if program.has_sets else "",
        decision=_BY_SET if program.has_sets else _BY_THRESHOLD,
        codes_function=_CODES_FUNCTION if program.has_sets else "",
    ).encode("ascii")


def _tables(program: Program) -> list[str]:
    tables = program.tables
    found = [
        _table("ROOT", "i", tables.roots, "<i4"),
        _table("FEATURE", "i", tables.feature, "<i4"),
        _table("THRESHOLD", "f", tables.threshold, "<f4"),
        _table("MISSING_LEFT", "B", tables.missing_left, "u1"),
        _table("LEFT", "i", tables.left, "<i4"),
        _table("RIGHT", "i", tables.right, "<i4"),
        _table("VALUE", "d", tables.value, "<f8"),
    ]
    if program.has_sets:
        found += [
            _table("CATEGORY_SET", "i", tables.category_set, "<i4"),
            _table("CATEGORY_SETS", "I", tables.category_sets, "<u4"),
            _table("CATEGORICAL", "i", program.categorical, "<i4"),
            _table("FIRST_CATEGORY", "i", program.first_categories, "<i4"),
            _table("CATEGORY", "f", program.category_values, "<f4"),
        ]
    return found


def _table(name: str, kind: str, numbers: ArrayLike, dtype: str) -> str:
    lines = "\n".join(cut_text(base64_of(numbers, dtype), _LINE))
    return f'{name} = _numbers("{kind}", """\n{lines}""")'


def _body(program: Program) -> str:
    """What the public function does with its features."""
    start = "base" if program.needs_base else "0.0"
    codes = " codes," if program.has_sets else ""
    sums = [f"_sum_of_trees(features,{codes} {a}, {b}, {start})" for a, b in program.ranges]
    lines = ["codes = _codes_of(features)"] if program.has_sets else []
    if program.weights is not None:
        lines.append("total = 0.0")
        pairs = zip(program.weights, sums, strict=True)
        lines += [f"total += {weight!r} * {part}" for weight, part in pairs]
        lines.append("return total")
    elif program.on_top:
        scores = ",\n".join(f"        {part}" for part in sums[:-1])
        lines.append(f'scores = array("f", [\n{scores},\n    ])')
        first, last = program.ranges[-1]
        lines.append(f"return _sum_of_trees(scores,{codes} {first}, {last}, 0.0)")
    else:
        lines.append(f"return {sums[0]}")
    return "\n".join(f"    {line}" for line in lines)


def _score(content: bytes, rows: Rows, _: Options) -> NDArray[np.float64]:
    module: dict[str, Any] = {}
    # The text was made a moment ago, by `_write`.
    exec(compile(content, "exported scorer", "exec"), module)
    documents = rows.features.tolist()
    if rows.base is None:
        return np.array([module["score"](document) for document in documents])
    pairs = zip(documents, rows.base.tolist(), strict=True)
    return np.array([module["score"](document, base) for document, base in pairs])


PYTHON = Format(
    name="python",
    extension=".py",
    purpose="Python without NumPy or Rankgrove: a lambda function, a small service",
    exact=SCORER_EXACT,
    rounds="nothing",
    refuses=SCORER_REFUSES,
    write=_write,
    consumers=(Consumer("Python", platform.python_version, _score),),
    agreement=lambda options: SAME_BITS,
    headline=lambda options: "A module of Python that needs the standard library only",
    endings=(".py",),
    takes_base_scores=True,
)
