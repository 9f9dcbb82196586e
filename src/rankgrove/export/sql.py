"""SQL: one SELECT that adds a column `score` to a table, one CASE per tree.

A missing value is NULL, with which every comparison is neither true nor false: so a condition tests
for the side that a missing value does not take, or names NULL. Thresholds are widened, so that
columns may be of float32 or of float64.

Numbers keep their bits: DuckDB takes them as DOUBLE if they have an exponent, PostgreSQL through
a cast, and SQLite, which reads some decimals one bit off, as fractions over powers of two.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove._version import __version__
from rankgrove.export.exact import after_widened, float32s, widened
from rankgrove.export.format import (
    SAME_BITS,
    Consumer,
    Exportable,
    ExportError,
    Format,
    FormatOption,
    Options,
    Rows,
    emulator,
    package_version,
)
from rankgrove.export.tables import fold_tree, memberships
from rankgrove.model.model import Model

SQLITE, POSTGRES, DUCKDB = "sqlite", "postgres", "duckdb"

BASE_SCORE = "base_score"
_PART = "rankgrove_part_{}"

# What leaves some of 1,000 levels for the trees themselves.
_MOST_TREES = 900
# The longest name that PostgreSQL does not cut off, in bytes.
_LONGEST_NAME = 63
# The largest power of two that an integer of 64 bits holds.
_LARGEST_POWER = 62


def _write(source: Exportable, options: Options) -> bytes:
    dialect = options["dialect"]
    _check_names(source, dialect)
    _check_number_of_trees(source)
    names = [quoted(name) for name in source.feature_names]
    sums = [_score_of(model, names, dialect) for model in source.parts]
    table = quoted(options["table"])
    if not source.is_combined:
        select = f"SELECT *,\n{sums[0]} AS score\nFROM {table}"
    else:
        parts = [quoted(_PART.format(number)) for number in range(1, len(sums) + 1)]
        columns = ",\n".join(f"{sum_} AS {part}" for sum_, part in zip(sums, parts, strict=True))
        if source.top is not None:
            score = _score_of(source.top, parts, dialect)
        else:
            pairs = zip(source.weights or (), parts, strict=True)
            score = "(" + " + ".join(f"{literal(w, dialect)} * {part}" for w, part in pairs) + ")"
        select = f"SELECT *,\n{score} AS score\nFROM (SELECT *,\n{columns}\nFROM {table}) AS parts"
    head = (
        f"-- Rankgrove {__version__}, model {source.checksum}, {source.n_trees} trees, for "
        f"{dialect}.\n-- A missing value is NULL, not NaN.\n"
    )
    return f"{head}{select};\n".encode()


def _check_names(source: Exportable, dialect: str) -> None:
    seen: dict[str, str] = {}
    for name in source.feature_names:
        if "\0" in name or not name:
            raise ExportError(f"sql has no column names that are empty or hold \\0. Got {name!r}.")
        if dialect == POSTGRES and len(name.encode()) > _LONGEST_NAME:
            raise ExportError(
                f"postgres has names of at most {_LONGEST_NAME} bytes. Got feature {name!r}: "
                f"rename it."
            )
        other = seen.setdefault(name if dialect == POSTGRES else name.lower(), name)
        if other != name:
            raise ExportError(
                f"{dialect} does not tell apart names that differ in case only. Got features "
                f"{other!r} and {name!r}: rename one."
            )


def _check_number_of_trees(source: Exportable) -> None:
    for model in source.models:
        if model.n_trees > _MOST_TREES:
            raise ExportError(
                f"sql adds up trees one upon the other, and databases refuse more than 1,000 "
                f"levels: a model must have at most {_MOST_TREES} trees. Got {model.n_trees}: "
                f"export the first with n_trees, or export to another format."
            )


def quoted(name: str) -> str:
    """A name as an identifier, whatever is in it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def literal(value: float, dialect: str) -> str:
    """A number of which no database loses a bit.

    >>> literal(0.1, "duckdb"), literal(0.75, "sqlite"), literal(-3.0, "sqlite")
    ('1e-01', '(3e0 / 4e0)', '-3e0')
    """
    if dialect != SQLITE:
        return np.format_float_scientific(value, trim="-")
    numerator, denominator = abs(value).as_integer_ratio()
    # A fraction in lowest terms: one of both is a power of two, or both are small.
    shift = (numerator & -numerator).bit_length() - 1 if numerator else 0
    factors = [f"{numerator >> shift}e0"] + [f"* {power}e0" for power in _powers(shift)]
    factors += [f"/ {power}e0" for power in _powers(denominator.bit_length() - 1)]
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return sign + (f"({' '.join(factors)})" if len(factors) > 1 else factors[0])


def _powers(exponent: int) -> list[int]:
    """Powers of two that fit into 64 bits, and whose product is 2 to this exponent."""
    whole, rest = divmod(exponent, _LARGEST_POWER)
    return [1 << _LARGEST_POWER] * whole + ([1 << rest] if rest else [])


def _score_of(model: Model, names: Sequence[str], dialect: str) -> str:
    """The sum of the trees, from the base score on if the model needs one."""
    terms = [str(_case_of(model, number, names, dialect)) for number in range(model.n_trees)]
    if dialect == POSTGRES:
        terms = [f"CAST({term} AS DOUBLE PRECISION)" for term in terms]
    if model.schema.needs_base_scores:
        terms.insert(0, quoted(BASE_SCORE))
    if not terms:
        terms = ["CAST(0e0 AS DOUBLE PRECISION)"]
    return "(" + "\n+ ".join(terms) + ")"


@dataclass
class _Case:
    """A CASE in the making; a leaf has no conditions.

    Attributes
    ----------
    whens
        Its conditions with what holds then, in their order.
    otherwise
        The value if none holds.
    nesting
        How many CASEs stand one within the other.
    """

    whens: deque[str]
    otherwise: str
    nesting: int

    def __str__(self) -> str:
        if not self.whens:
            return self.otherwise
        return f"CASE {' '.join(self.whens)} ELSE {self.otherwise} END"


def _case_of(model: Model, number: int, names: Sequence[str], dialect: str) -> _Case:
    """A tree, nested as little as can be.

    What stands after ELSE goes on in the same CASE; so of two children the one that is nested less
    is put after THEN. A tree of n leaves is nested at most log2(n) times, however deep it is: older
    databases read no more than some twenty CASEs one within the other.
    """
    tree = model.ensemble.tree(number)
    sets = memberships(tree, model.schema)
    wide = widened(tree.threshold).tolist()

    def leaf(place: int) -> _Case:
        return _Case(deque(), literal(float(tree.value[place]), dialect), 0)

    def split(place: int, left: _Case, right: _Case) -> _Case:
        feature = int(tree.feature[place])
        column, missing_left = names[feature], bool(tree.missing_left[place])
        test = sets[place]
        # The side that a missing value does not take, and the condition to take it.
        present, absent = (right, left) if missing_left else (left, right)
        if test is not None:
            values = [model.schema.categories[feature][code] for code in test.codes]
            condition, opposite = _is_one_of(column, values, dialect)
        elif math.isinf(wide[place]):
            # Every value that is there goes left.
            condition = "" if missing_left else f"{column} IS NOT NULL"
            opposite = f"{column} IS NULL"
        else:
            sign, other = (">", "<=") if missing_left else ("<=", ">")
            bound = literal(wide[place], dialect)
            condition = f"{column} {sign} {bound}"
            opposite = f"({column} {other} {bound} OR {column} IS NULL)"
        if not condition:
            return absent
        if present.nesting <= absent.nesting:
            return _join(condition, present, absent)
        return _join(opposite, absent, present)

    return fold_tree(tree, leaf, split)


def _join(condition: str, then: _Case, otherwise: _Case) -> _Case:
    otherwise.whens.appendleft(f"WHEN {condition} THEN {then}")
    nesting = max(then.nesting + 1, otherwise.nesting)
    return _Case(otherwise.whens, otherwise.otherwise, nesting)


def _is_one_of(column: str, values: Sequence[float], dialect: str) -> tuple[str, str]:
    """The test for some categories, "" if there are none, and for all else, NULL included."""
    whole = [value for value in values if value.is_integer()]
    tests = [f"{column} IN ({', '.join(literal(v, dialect) for v in whole)})"] if whole else []
    for value in values:
        if not value.is_integer():
            # All float64 numbers that round to this category.
            category = float32s([value])
            below = np.nextafter(category, np.float32(-np.inf))
            low, high = (
                literal(float(end[0]), dialect) for end in (after_widened(below), widened(category))
            )
            tests.append(f"{column} >= {low} AND {column} <= {high}")
    joined = " OR ".join(tests)
    return joined and f"({joined})", f"({column} IS NULL OR NOT ({joined}))"


def _columns(content: bytes, rows: Rows) -> tuple[list[str], list[NDArray[Any]]]:
    """The columns of a table of documents that the statement names, and their values."""
    text = content.decode()
    named = [place for place, name in enumerate(rows.names) if quoted(name) in text]
    names = [quoted(rows.names[place]) for place in named]
    columns = [rows.features[:, place].astype(np.float64) for place in named]
    if rows.base is not None:
        names.append(quoted(BASE_SCORE))
        columns.append(rows.base)
    if not names:
        names, columns = ['"rankgrove_row"'], [np.zeros(len(rows.features))]
    return names, columns


def _score_sqlite(content: bytes, rows: Rows, options: Options) -> NDArray[Any]:
    names, columns = _columns(content, rows)
    table = quoted(options["table"])
    # SQLite takes NaN as NULL.
    values = zip(*(column.tolist() for column in columns), strict=True)
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE TABLE {table} ({', '.join(f'{n} REAL' for n in names)})")
        marks = ", ".join("?" * len(names))
        database.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
        return np.array([row[-1] for row in database.execute(content.decode())], dtype=np.float64)


def _score_duckdb(content: bytes, rows: Rows, options: Options) -> NDArray[Any]:
    import duckdb  # noqa: PLC0415 (optional)

    names, columns = _columns(content, rows)
    marks = [f"column_{number}" for number in range(len(names))]
    arrays = dict(zip(marks, columns, strict=True))
    fields = ", ".join(
        f"CASE WHEN isnan({mark}) THEN NULL ELSE {mark} END AS {name}"
        for mark, name in zip(marks, names, strict=True)
    )
    with closing(duckdb.connect(":memory:")) as database:
        # What it would find out about so large an expression takes longer than to compute it.
        database.execute("PRAGMA disable_optimizer")
        database.register("given", arrays)
        database.execute(f"CREATE TABLE {quoted(options['table'])} AS SELECT {fields} FROM given")
        found = database.execute(content.decode()).fetchnumpy()["score"]
        return np.asarray(found, dtype=np.float64)


# Comments and quoted names, which may hold anything, and numbers.
_TOKEN = re.compile(r'--[^\n]*|"(?:[^"]|"")*"|-?\d+(?:\.\d+)?e[+-]?\d+')


def _score_by_rules(content: bytes, rows: Rows, options: Options) -> NDArray[Any]:
    """As a database does that reads every number as the nearest float64: by SQLite, helped."""

    def rewritten(found: re.Match[str]) -> str:
        text = found[0]
        return text if text.startswith(('"', "--")) else literal(float(text), SQLITE)

    return _score_sqlite(_TOKEN.sub(rewritten, content.decode()).encode(), rows, options)


def _for(*dialects: str) -> Callable[[Options], bool]:
    return lambda options: options["dialect"] in dialects


SQL = Format(
    name="sql",
    extension=".sql",
    purpose="scoring a table inside SQLite, PostgreSQL or DuckDB; best for at most 200 trees",
    exact="every score, to the bit",
    rounds="nothing",
    refuses=f"models of more than {_MOST_TREES} trees",
    write=_write,
    consumers=(
        Consumer("sqlite", lambda: sqlite3.sqlite_version, _score_sqlite, reads=_for(SQLITE)),
        Consumer("duckdb", package_version("duckdb"), _score_duckdb, reads=_for(DUCKDB)),
        emulator("DuckDB", _score_by_rules, reads=_for(DUCKDB)),
        emulator("PostgreSQL", _score_by_rules, reads=_for(POSTGRES)),
    ),
    agreement=lambda options: SAME_BITS,
    headline=lambda options: f"SQL for {options['dialect']}, table {options['table']!r}",
    endings=(".sql",),
    options={
        "dialect": FormatOption(SQLITE, "The database.", (SQLITE, POSTGRES, DUCKDB)),
        "table": FormatOption("documents", "The table whose rows are scored."),
    },
    takes_base_scores=True,
)
