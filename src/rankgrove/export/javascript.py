"""A scorer in JavaScript: one module that needs no package, for browsers, Node and edge workers."""

from __future__ import annotations

import json
from string import Template

from numpy.typing import ArrayLike

from rankgrove.export.format import SAME_BITS, Consumer, Exportable, Format, Options
from rankgrove.export.programs import program_version, score_by_node
from rankgrove.export.scorers import (
    SCORER_EXACT,
    SCORER_REFUSES,
    Program,
    base64_of,
    cut_text,
    level_lines,
    origin,
)

_LINE = 100

_FILE = Template("""\
// $origin$levels

/** The names of the features, in the order in which `score` takes them. */
export const featureNames = [
$names
];

const decode = (text, method, size) => {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Array.from({ length: bytes.length / size }, (_, i) => view[method](size * i, true));
};
const ints = (text) => Int32Array.from(decode(text, "getInt32", 4));
const bytes = (text) => Uint8Array.from(decode(text, "getUint8", 1));
const floats = (text) => Float32Array.from(decode(text, "getFloat32", 4));
const doubles = (text) => Float64Array.from(decode(text, "getFloat64", 8));

// A node of 0 or more is a split, and ~n is leaf n.
$tables
$codes_function
const sumOfTrees = (features,$codes first, last, start) => {
  let sum = start;
  for (let tree = first; tree < last; tree++) {
    let node = ROOT[tree];
    while (node >= 0) {
      let goesLeft;
$decision
      node = goesLeft ? LEFT[node] : RIGHT[node];
    }
    sum += VALUE[~node];
  }
  return sum;
};

/**
 * The score of one document: higher is better, and the same bits as that of Rankgrove.
 * A missing value is NaN, null or undefined.$base_words
 */
export function score(document$base) {
  if (document.length !== featureNames.length) {
    throw new RangeError(
      `a document has $${featureNames.length} features, not $${document.length}`);
  }
  const features = Float32Array.from(document, (value) => value ?? NaN);
$body
}
""")

_BASE_WORDS = " The score starts from `base`, the base score of the document."

_BY_THRESHOLD = """\
      const value = features[FEATURE[node]];
      goesLeft = Number.isNaN(value) ? MISSING_LEFT[node] : value <= THRESHOLD[node];"""

_BY_SET = """\
      const set = CATEGORY_SET[node];
      if (set >= 0) {
        const code = codes[FEATURE[node]];
        goesLeft = code < 0
          ? MISSING_LEFT[node]
          : (CATEGORY_SETS[set * 8 + (code >> 5)] >>> (code & 31)) & 1;
      } else {
        const value = features[FEATURE[node]];
        goesLeft = Number.isNaN(value) ? MISSING_LEFT[node] : value <= THRESHOLD[node];
      }"""

_CODES_FUNCTION = """
// The code of each category, -1 for a missing or unknown one.
const codesOf = (features) =>
  CATEGORICAL.map((feature, i) =>
    CATEGORY.subarray(FIRST_CATEGORY[i], FIRST_CATEGORY[i + 1]).indexOf(features[feature]));
"""


def _write(source: Exportable, _: Options) -> bytes:
    program = Program.of(source)
    return _FILE.substitute(
        origin=origin(source),
        levels="".join(f"\n// {line}" for line in level_lines(program)),
        names="\n".join(f"  {json.dumps(name)}," for name in program.feature_names),
        tables="\n".join(_tables(program)),
        codes_function=_CODES_FUNCTION if program.has_sets else "",
        codes=" codes," if program.has_sets else "",
        decision=_BY_SET if program.has_sets else _BY_THRESHOLD,
        base_words=_BASE_WORDS if program.needs_base else "",
        base=", base" if program.needs_base else "",
        body=_body(program),
    ).encode("ascii")


def _tables(program: Program) -> list[str]:
    tables = program.tables
    found = [
        _table("ROOT", "ints", tables.roots, "<i4"),
        _table("FEATURE", "ints", tables.feature, "<i4"),
        _table("THRESHOLD", "floats", tables.threshold, "<f4"),
        _table("MISSING_LEFT", "bytes", tables.missing_left, "u1"),
        _table("LEFT", "ints", tables.left, "<i4"),
        _table("RIGHT", "ints", tables.right, "<i4"),
        _table("VALUE", "doubles", tables.value, "<f8"),
    ]
    if program.has_sets:
        found += [
            _table("CATEGORY_SET", "ints", tables.category_set, "<i4"),
            _table("CATEGORY_SETS", "ints", tables.category_sets, "<u4"),
            _table("CATEGORICAL", "ints", program.categorical, "<i4"),
            _table("FIRST_CATEGORY", "ints", program.first_categories, "<i4"),
            _table("CATEGORY", "floats", program.category_values, "<f4"),
        ]
    return found


def _table(name: str, reader: str, numbers: ArrayLike, dtype: str) -> str:
    # Base64 has neither a backslash nor a backtick, and `atob` takes no notice of ends of lines.
    lines = "\n".join(cut_text(base64_of(numbers, dtype), _LINE))
    return f"const {name} = {reader}(`\n{lines}`);"


def _body(program: Program) -> str:
    """What the public function does with its features."""
    start = "base" if program.needs_base else "0"
    codes = " codes," if program.has_sets else ""
    sums = [f"sumOfTrees(features,{codes} {a}, {b}, {start})" for a, b in program.ranges]
    lines = ["const codes = codesOf(features);"] if program.has_sets else []
    if program.weights is not None:
        lines.append("let total = 0;")
        pairs = zip(program.weights, sums, strict=True)
        lines += [f"total += {weight!r} * {part};" for weight, part in pairs]
        lines.append("return total;")
    elif program.on_top:
        scores = ",\n".join(f"    {part}" for part in sums[:-1])
        lines.append(f"const scores = Float32Array.of(\n{scores},\n  );")
        first, last = program.ranges[-1]
        lines.append(f"return sumOfTrees(scores,{codes} {first}, {last}, 0);")
    else:
        lines.append(f"return {sums[0]};")
    return "\n".join(f"  {line}" for line in lines)


JAVASCRIPT = Format(
    name="javascript",
    extension=".mjs",
    purpose="Node, browsers and edge workers",
    exact=SCORER_EXACT,
    rounds="nothing",
    refuses=SCORER_REFUSES,
    write=_write,
    consumers=(Consumer("node", program_version("node"), score_by_node),),
    agreement=lambda options: SAME_BITS,
    headline=lambda options: "A module of JavaScript that needs no package",
    endings=(".js", ".mjs"),
    takes_base_scores=True,
)
