"""A scorer in C: one file of C99 that needs no library."""

from __future__ import annotations

from collections.abc import Iterable
from string import Template

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.format import SAME_BITS, Consumer, Exportable, Format, Options
from rankgrove.export.programs import program_version, score_by_c
from rankgrove.export.scorers import (
    SCORER_EXACT,
    SCORER_REFUSES,
    Program,
    level_lines,
    origin,
)

_LINE = 98

_FILE = Template("""\
/* $origin
 *
 *     double rankgrove_score(const float *features$base)
 *
 * gives the score of one document, and higher is better. Its $n_features features stand in the
 * order of rankgrove_feature_names; a missing value is NaN, and a double is to be cast to float.
 * The scores have the same bits as those of Rankgrove.$base_words$levels
 */

#include <math.h>
#include <stdint.h>

#ifdef __FAST_MATH__
#error "-ffast-math takes missing values (NaN) for numbers: compile without it"
#endif

const int rankgrove_n_features = $n_features;
const char *const rankgrove_feature_names[] = {
$names
};

/* A node of 0 or more is a split, and ~n is leaf n. */
$tables

static double sum_of_trees(const float *features,$codes int first, int last, double sum)
{
    for (int tree = first; tree < last; tree++) {
        int32_t node = ROOT[tree];
        while (node >= 0) {
            int goes_left;
$decision
            node = goes_left ? LEFT[node] : RIGHT[node];
        }
        sum += VALUE[~node];
    }
    return sum;
}

double rankgrove_score(const float *features$base)
{
$body
}
""")

_BASE_WORDS = "\n * A score starts from `base`, the base score of the document."

_BY_THRESHOLD = """\
            float value = features[FEATURE[node]];
            goes_left = value != value ? MISSING_LEFT[node] : value <= THRESHOLD[node];"""

_BY_SET = """\
            int32_t set = CATEGORY_SET[node];
            if (set >= 0) {
                int code = codes[FEATURE[node]];
                goes_left = code < 0 ? MISSING_LEFT[node]
                                     : CATEGORY_SETS[set][code / 32] >> code % 32 & 1;
            } else {
                float value = features[FEATURE[node]];
                goes_left = value != value ? MISSING_LEFT[node] : value <= THRESHOLD[node];
            }"""

_CODES = """\
    /* The code of each category, -1 for a missing or unknown one. */
    int codes[$n];
    for (int i = 0; i < $n; i++) {
        codes[i] = -1;
        for (int c = FIRST_CATEGORY[i]; c < FIRST_CATEGORY[i + 1]; c++)
            if (features[CATEGORICAL[i]] == CATEGORY[c])
                codes[i] = c - FIRST_CATEGORY[i];
    }"""


def _write(source: Exportable, _: Options) -> bytes:
    program = Program.of(source)
    return _FILE.substitute(
        origin=origin(source),
        levels="".join(f"\n *\n * {_plain(line)}" for line in level_lines(program)),
        base=", double base" if program.needs_base else "",
        base_words=_BASE_WORDS if program.needs_base else "",
        n_features=len(program.feature_names),
        names=",\n".join(f"    {_string(name)}" for name in program.feature_names) or "    0",
        tables="\n".join(_tables(program)),
        codes=" const int *codes," if program.has_sets else "",
        decision=_BY_SET if program.has_sets else _BY_THRESHOLD,
        body=_body(program),
    ).encode("ascii")


def _tables(program: Program) -> list[str]:
    tables = program.tables
    found = [
        _table("int32_t", "ROOT", _whole(tables.roots)),
        _table("int32_t", "FEATURE", _whole(tables.feature)),
        _table("float", "THRESHOLD", _floats(tables.threshold)),
        _table("uint8_t", "MISSING_LEFT", _whole(tables.missing_left)),
        _table("int32_t", "LEFT", _whole(tables.left)),
        _table("int32_t", "RIGHT", _whole(tables.right)),
        _table("double", "VALUE", [repr(value) for value in tables.value.tolist()]),
    ]
    if program.has_sets:
        sets = [f"{{{', '.join(f'{word}u' for word in row)}}}" for row in tables.category_sets]
        found += [
            _table("int32_t", "CATEGORY_SET", _whole(tables.category_set)),
            _table("uint32_t", "CATEGORY_SETS", sets, size="[][8]"),
            _table("int32_t", "CATEGORICAL", _whole(program.categorical)),
            _table("int32_t", "FIRST_CATEGORY", _whole(program.first_categories)),
            _table("float", "CATEGORY", _floats(program.category_values)),
        ]
    return found


def _table(kind: str, name: str, numbers: list[str], size: str = "[]") -> str:
    """One array; C has none without an element."""
    lines, line = [], "   "
    for number in numbers or ["0"]:
        if len(line) + len(number) > _LINE:
            lines.append(line)
            line = "   "
        line += f" {number},"
    return f"static const {kind} {name}{size} = {{\n" + "\n".join([*lines, line]) + "\n};"


def _whole(numbers: Iterable[int] | NDArray[np.integer]) -> list[str]:
    return [str(int(number)) for number in numbers]


def _floats(numbers: NDArray[np.float32]) -> list[str]:
    """float32 numbers, in as few digits as say which one it is."""
    return [_float(number) for number in numbers]


def _float(number: np.float32) -> str:
    if np.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    return f"{number!s}f"


def _body(program: Program) -> str:
    """What the public function does."""
    start = "base" if program.needs_base else "0.0"
    codes = "codes, " if program.has_sets else ""
    sums = [f"sum_of_trees(features, {codes}{a}, {b}, {start})" for a, b in program.ranges]
    lines = []
    if program.has_sets:
        lines.append(Template(_CODES).substitute(n=len(program.categorical)))
    if program.weights is not None:
        # A product is stored, so that no compiler adds it without rounding.
        lines += ["    volatile double product;", "    double score = 0.0;"]
        for weight, total in zip(program.weights, sums, strict=True):
            lines += [f"    product = {weight!r} * {total};", "    score += product;"]
        return "\n".join([*lines, "    return score;"])
    if program.on_top:
        scores = ",\n".join(f"        (float)({total})" for total in sums[:-1])
        lines.append(f"    const float scores[] = {{\n{scores},\n    }};")
        first, last = program.ranges[-1]
        return "\n".join([*lines, f"    return sum_of_trees(scores, {codes}{first}, {last}, 0.0);"])
    return "\n".join([*lines, f"    return {sums[0]};"])


def _string(text: str) -> str:
    """A string of C: what is not plain ASCII byte by byte."""
    plain = set(range(32, 127)) - set(b'"\\?')
    codes = text.encode("utf-8", "surrogatepass")
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in codes) + '"'


def _plain(line: str) -> str:
    """A line of a comment that nothing in it can end."""
    ascii_text = line.encode("ascii", "backslashreplace").decode("ascii")
    return ascii_text.replace("*/", "*\\/").replace("/*", "/\\*")


C = Format(
    name="c",
    extension=".c",
    purpose="a C or C++ program, or anything that calls C",
    exact=SCORER_EXACT,
    rounds="nothing",
    refuses=SCORER_REFUSES,
    write=_write,
    consumers=(Consumer("gcc", program_version("gcc"), score_by_c),),
    agreement=lambda options: SAME_BITS,
    headline=lambda options: "A scorer in C99 that needs no library",
    endings=(".c",),
    takes_base_scores=True,
)
