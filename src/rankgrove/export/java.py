"""A scorer in Java: one class that needs no library, for Java 8 and newer.

A constant of a class file has at most 65,535 bytes, and a method as many, which arrays written out
as numbers exceed at once. So tables are Base64 in strings of at most 60,000 characters.
"""

from __future__ import annotations

import itertools
import json
import re
from string import Template

from numpy.typing import ArrayLike

from rankgrove.errors import refusal
from rankgrove.export.format import (
    SAME_BITS,
    Consumer,
    Exportable,
    Format,
    FormatOption,
    Options,
)
from rankgrove.export.programs import program_version, score_by_java
from rankgrove.export.scorers import (
    SCORER_EXACT,
    SCORER_REFUSES,
    Program,
    base64_of,
    base64_text,
    cut_text,
    level_lines,
    origin,
)

_LONGEST_STRING = 60_000
# No word of the language begins with a capital; these are the classes that the file itself uses.
_CLASS_NAME = re.compile(r"[A-Z][A-Za-z0-9_]*")
_USED_CLASSES = {
    "Base64", "ByteBuffer", "ByteOrder", "IllegalArgumentException", "StandardCharsets", "String",
}  # fmt: skip
_DEFAULT_NAME = "RankgroveModel"

_FILE = Template("""\
// $origin$levels

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/** Scores documents: higher is better, and the same bits as those of Rankgrove. */
public final class $name {
    /** How many features a document has. */
    public static final int N_FEATURES = $n_features;

    // A node of 0 or more is a split, and ~n is leaf n.
$tables

    private $name() {
    }

    /** The names of the features, in the order in which `score` takes them. */
    public static String[] featureNames() {
        String names = new String(bytes($names), StandardCharsets.UTF_8);
        return N_FEATURES == 0 ? new String[0] : names.split("$separator", -1);
    }

    /**
     * The score of one document. A missing value is NaN, and a double is to be cast to
     * float.$base_words
     */
    public static double score(float[] features$base) {
        if (features.length != N_FEATURES) {
            throw new IllegalArgumentException(
                "a document has " + N_FEATURES + " features, not " + features.length);
        }
$body
    }

    private static double sumOfTrees(float[] features,$codes int first, int last, double sum) {
        for (int tree = first; tree < last; tree++) {
            int node = ROOT[tree];
            while (node >= 0) {
                boolean goesLeft;
$decision
                node = goesLeft ? LEFT[node] : RIGHT[node];
            }
            sum += VALUE[~node];
        }
        return sum;
    }
$codes_method
    private static ByteBuffer table(String... parts) {
        return ByteBuffer.wrap(bytes(parts)).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static byte[] bytes(String... parts) {
        return Base64.getDecoder().decode(String.join("", parts));
    }

    private static int[] ints(String... parts) {
        ByteBuffer table = table(parts);
        int[] numbers = new int[table.remaining() / 4];
        table.asIntBuffer().get(numbers);
        return numbers;
    }

    private static float[] floats(String... parts) {
        ByteBuffer table = table(parts);
        float[] numbers = new float[table.remaining() / 4];
        table.asFloatBuffer().get(numbers);
        return numbers;
    }

    private static double[] doubles(String... parts) {
        ByteBuffer table = table(parts);
        double[] numbers = new double[table.remaining() / 8];
        table.asDoubleBuffer().get(numbers);
        return numbers;
    }
}
""")

_BASE_WORDS = "\n     * The score starts from `base`, the base score of the document."

_BY_THRESHOLD = """\
                float value = features[FEATURE[node]];
                goesLeft = value != value ? MISSING_LEFT[node] != 0 : value <= THRESHOLD[node];"""

_BY_SET = """\
                int set = CATEGORY_SET[node];
                if (set >= 0) {
                    int code = codes[FEATURE[node]];
                    goesLeft = code < 0
                        ? MISSING_LEFT[node] != 0
                        : (CATEGORY_SETS[set * 8 + code / 32] >>> code % 32 & 1) != 0;
                } else {
                    float value = features[FEATURE[node]];
                    goesLeft = value != value ? MISSING_LEFT[node] != 0 : value <= THRESHOLD[node];
                }"""

_CODES_METHOD = """
    /** The code of each category, -1 for a missing or unknown one. */
    private static int[] codesOf(float[] features) {
        int[] codes = new int[CATEGORICAL.length];
        for (int i = 0; i < codes.length; i++) {
            codes[i] = -1;
            for (int c = FIRST_CATEGORY[i]; c < FIRST_CATEGORY[i + 1]; c++) {
                if (features[CATEGORICAL[i]] == CATEGORY[c]) {
                    codes[i] = c - FIRST_CATEGORY[i];
                }
            }
        }
        return codes;
    }
"""


def _write(source: Exportable, options: Options) -> bytes:
    name = options["name"]
    if not _CLASS_NAME.fullmatch(name) or name in _USED_CLASSES:
        rule = "be the name of a class: a capital, then letters and digits of ASCII"
        raise refusal("name", rule, name)
    program = Program.of(source)
    joined, separator = _joined_names(program.feature_names)
    return _FILE.substitute(
        origin=origin(source),
        levels="".join(f"\n// {line}" for line in level_lines(program)),
        name=name,
        n_features=len(program.feature_names),
        tables="\n".join(_tables(program)),
        names=_strings(base64_text(joined), 16),
        separator=separator,
        base=", double base" if program.needs_base else "",
        base_words=_BASE_WORDS if program.needs_base else "",
        body=_body(program),
        codes=" int[] codes," if program.has_sets else "",
        decision=_BY_SET if program.has_sets else _BY_THRESHOLD,
        codes_method=_CODES_METHOD if program.has_sets else "",
    ).encode("ascii")


def _joined_names(names: tuple[str, ...]) -> tuple[str, str]:
    """All names in one text, and what stands between them, which is in no name."""
    used = set().union(*names)
    code = next(code for code in itertools.count(1) if chr(code) not in used)
    # A pattern of Java: the character by its number.
    return chr(code).join(names), f"\\\\x{{{code:x}}}"


def _tables(program: Program) -> list[str]:
    tables = program.tables
    found = [
        _table("int[]", "ROOT", "ints", tables.roots, "<i4"),
        _table("int[]", "FEATURE", "ints", tables.feature, "<i4"),
        _table("float[]", "THRESHOLD", "floats", tables.threshold, "<f4"),
        _table("byte[]", "MISSING_LEFT", "bytes", tables.missing_left, "u1"),
        _table("int[]", "LEFT", "ints", tables.left, "<i4"),
        _table("int[]", "RIGHT", "ints", tables.right, "<i4"),
        _table("double[]", "VALUE", "doubles", tables.value, "<f8"),
    ]
    if program.has_sets:
        found += [
            _table("int[]", "CATEGORY_SET", "ints", tables.category_set, "<i4"),
            _table("int[]", "CATEGORY_SETS", "ints", tables.category_sets, "<u4"),
            _table("int[]", "CATEGORICAL", "ints", program.categorical, "<i4"),
            _table("int[]", "FIRST_CATEGORY", "ints", program.first_categories, "<i4"),
            _table("float[]", "CATEGORY", "floats", program.category_values, "<f4"),
        ]
    return found


def _table(kind: str, name: str, reader: str, numbers: ArrayLike, dtype: str) -> str:
    text = _strings(base64_of(numbers, dtype), 8)
    return f"    private static final {kind} {name} = {reader}({text});"


def _strings(text: str, indent: int) -> str:
    """A long text as arguments, none of which is too long for a class file."""
    between = ",\n" + " " * indent
    return between.join(json.dumps(piece) for piece in cut_text(text, _LONGEST_STRING))


def _body(program: Program) -> str:
    """What the public method does."""
    start = "base" if program.needs_base else "0.0"
    codes = " codes," if program.has_sets else ""
    sums = [f"sumOfTrees(features,{codes} {a}, {b}, {start})" for a, b in program.ranges]
    lines = ["int[] codes = codesOf(features);"] if program.has_sets else []
    if program.weights is not None:
        lines.append("double score = 0.0;")
        pairs = zip(program.weights, sums, strict=True)
        lines += [f"score += {weight!r} * {total};" for weight, total in pairs]
        lines.append("return score;")
    elif program.on_top:
        scores = ",\n".join(f"            (float) {total}" for total in sums[:-1])
        lines.append(f"float[] scores = {{\n{scores},\n        }};")
        first, last = program.ranges[-1]
        lines.append(f"return sumOfTrees(scores,{codes} {first}, {last}, 0.0);")
    else:
        lines.append(f"return {sums[0]};")
    return "\n".join(f"        {line}" for line in lines)


def _notes(_: Exportable, options: Options) -> list[str]:
    return [f"Java wants the file to be called {options['name']}.java, as its class is."]


JAVA = Format(
    name="java",
    extension=".java",
    purpose="a program or plugin on the Java virtual machine",
    exact=SCORER_EXACT,
    rounds="nothing",
    refuses=SCORER_REFUSES,
    write=_write,
    consumers=(Consumer("javac", program_version("javac", needs="java"), score_by_java),),
    agreement=lambda options: SAME_BITS,
    headline=lambda options: f"The class {options['name']}, for Java 8 or newer",
    endings=(".java",),
    options={"name": FormatOption(_DEFAULT_NAME, "The name of the class.")},
    notes=_notes,
    takes_base_scores=True,
)
