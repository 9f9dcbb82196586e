"""What a report leaves out, by which rule, and how large the page may be.

What is left out goes in a fixed order: scores of documents, then reasons, forces and shapes of
features, and last the shown documents of queries that changed least. The comparison, the verdicts
and the value of every query stay.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.errors import ParameterError, is_number, parameter, refusal
from rankgrove.metrics.base import Floats
from rankgrove.report.material import Integers, every_nth

# What the page takes without its data, at most.
PAGE_BYTES = 140_000
_UNITS = {"": 1, "B": 1, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


def choose_queries(change: Floats, most: int | None) -> tuple[Integers, str]:
    """The queries that are told about in detail, rising, and the rule by which they are chosen.

    Half of them are those that changed most, of equal changes the earlier ones; the others are
    every n-th of the rest, and what that leaves free goes to the next largest changes.

    >>> chosen, rule = choose_queries(np.array([0.1, 0.9, 0.0, 0.0, 0.0, 0.3]), 4)
    >>> chosen.tolist(), rule
    ([0, 1, 3, 5], 'the largest changes, then every 2nd of the rest')
    """
    n_queries = len(change)
    if most is None or most >= n_queries:
        return np.arange(n_queries), "all"
    by_change = np.argsort(-change, kind="stable")
    n_spread = most // 2
    largest, rest = by_change[: most - n_spread], np.sort(by_change[most - n_spread :])
    if n_spread == 0:
        return np.sort(largest), "the largest changes"
    spread = every_nth(rest, n_spread)
    step = -(-len(rest) // n_spread)
    chosen = np.concatenate([largest, spread])
    more = by_change[~np.isin(by_change, chosen)][: most - len(chosen)]
    rule = f"the largest changes, then every {ordinal(step)} of the rest"
    return np.sort(np.concatenate([chosen, more])), rule


def ordinal(number: int) -> str:
    """A number as it is said in a row.

    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 13, 21, 102)]
    ['1st', '2nd', '3rd', '4th', '11th', '13th', '21st', '102nd']
    """
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def parse_size(size: Any) -> int:
    """A size in bytes, from a number or from text with a unit.

    >>> parse_size("20MB"), parse_size("1.5 kb"), parse_size(5000)
    (20000000, 1500, 5000)
    """
    found = re.fullmatch(r"\s*([0-9.]+)\s*([KMG]?B?)\s*", str(size).upper())
    if found is None or found[1].count(".") > 1 or found[1] == "." or isinstance(size, bool):
        rule = "be a number of bytes, or a text as '20MB' or '500KB'"
        raise refusal("max_size", rule, size)
    unit = found[2] if found[2] in _UNITS else f"{found[2]}B"
    n_bytes = int(float(found[1]) * _UNITS[unit])
    if is_number(size) and size != n_bytes:
        raise refusal("max_size", "be a whole number of bytes", size)
    return n_bytes


def section_size(section: Any) -> int:
    """The bytes that a section takes in the page: JSON, compressed, in base 64."""
    text = json.dumps(section, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return 4 * -(-len(zlib.compress(text.encode(), 6)) // 3)


def fit(contents: dict[str, Any], change: Floats, most_bytes: int) -> None:
    """Take out of the contents what makes them too large, and say so in `left_out`."""
    sizes = {name: section_size(section) for name, section in contents.items()}
    for cut, name in _cuts(contents, change):
        if PAGE_BYTES + sum(sizes.values()) <= most_bytes:
            break
        cut()
        for changed in (name, "shares", "left_out", "absent"):
            sizes[changed] = section_size(contents[changed])
    least = PAGE_BYTES + sum(sizes.values())
    if least > most_bytes:
        raise ParameterError(
            f"{parameter('max_size')} must be {least:,} bytes or more for "
            f"{len(contents['queries']['id']):,} queries, with all left out that can be. Got "
            f"{most_bytes:,}: give more, or report on fewer queries."
        )


def _cuts(contents: dict[str, Any], change: Floats) -> Iterator[tuple[Callable[[], None], str]]:
    """What can be taken out, one after the other, and the section that gets smaller by it."""
    if contents["tops"]["score"] is not None:
        yield partial(_drop_scores, contents), "tops"
    for name in ("why", "shares"):
        while contents[name] is not None and len(contents[name]["queries"]) > 1:
            yield partial(_halve, contents, name, change), name
        if contents[name] is not None:
            yield partial(_drop, contents, name), name
    for name in ("forces", "features"):
        if contents[name] is not None:
            yield partial(_drop, contents, name), name
    while len(contents["tops"]["counts"]) > 1:
        yield partial(_halve, contents, "tops", change), "tops"


def _drop_scores(contents: dict[str, Any]) -> None:
    contents["tops"]["score"] = None
    note(contents, "scores", 0, len(contents["tops"]["document"]), "to keep to the size allowed")


def _drop(contents: dict[str, Any], name: str) -> None:
    contents[name] = None
    contents["absent"][name] = "Left out, to keep to the size that max_size allows."
    contents["left_out"] = [entry for entry in contents["left_out"] if entry["section"] != name]


def note(contents: dict[str, Any], section: str, kept: int, of: int, rule: str) -> None:
    """Say what is left out of a section, in place of what was said of it before."""
    others = [entry for entry in contents["left_out"] if entry["section"] != section]
    contents["left_out"] = [*others, {"section": section, "kept": kept, "of": of, "rule": rule}]


def _halve(contents: dict[str, Any], name: str, change: Floats) -> None:
    """Keep the half of the queries of a section that changed most."""
    section = contents[name]
    n_queries = len(contents["queries"]["id"])
    numbers = section["queries"]
    queries = np.arange(n_queries) if numbers is None else np.array(numbers)
    best = np.argsort(-change[queries], kind="stable")[: len(queries) // 2]
    kept = np.zeros(len(queries), np.bool_)
    kept[best] = True
    contents[name] = take_queries(name, section, kept)
    note(contents, name, len(best), n_queries, "the largest changes, to keep to the size allowed")


def take_queries(name: str, section: dict[str, Any], kept: NDArray[np.bool_]) -> dict[str, Any]:
    """A section with some of its queries only."""
    numbers = section["queries"]
    queries = np.arange(len(kept)) if numbers is None else np.array(numbers)
    counts = np.array(section["counts"])
    rows = np.flatnonzero(np.repeat(kept, counts)).tolist()

    def of_rows(column: Any) -> Any:
        return None if column is None else [column[row] for row in rows]

    taken = section | {"queries": queries[kept].tolist(), "counts": counts[kept].tolist()}
    if name == "tops":
        for column in ("document", "id", "title", "label", "ideal"):
            taken[column] = of_rows(section[column])
        for column in ("rank", "score"):
            lists = section[column]
            taken[column] = None if lists is None else [of_rows(one) for one in lists]
    elif name == "shares":
        taken["values"] = {
            metric: None if lists is None else [of_rows(one) for one in lists]
            for metric, lists in section["values"].items()
        }
    else:
        n_features = section["features"]
        wide = np.repeat(np.repeat(kept, counts), n_features)
        cells = np.flatnonzero(wide).tolist()
        taken["feature"] = np.array(section["feature"])[np.repeat(kept, n_features)].tolist()
        taken["value"] = [section["value"][cell] for cell in cells]
        taken["adds"] = [one and [one[cell] for cell in cells] for one in section["adds"]]
        taken["rest"] = [of_rows(one) for one in section["rest"]]
    return taken
