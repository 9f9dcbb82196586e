"""The page of a report: one HTML file that holds its style, its script and its data.

The script is the files of `static/`, one after the other; a module of several files cannot be
loaded from a disk. Each section of the contract is columnar JSON, compressed and in base64, so
that nothing in it can end its element. The content security policy names the script and the style
by their hashes: whatever a query or a title holds, nothing else runs and nothing is fetched.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from functools import cache
from html import escape
from importlib.resources import files
from os import PathLike
from typing import Any, NamedTuple

from rankgrove.data.streams import open_for_writing
from rankgrove.pictures import palette

# What the page reads first; every other part of the contract is a section of its own.
OUTLINE = ("format", "version", "made", "candidates", "baseline", "absent", "left_out")
# In this order: what stands first is used by what follows.
SCRIPTS = (
    "elements", "store", "frames", "charts", "scatter", "table", "ranking", "why", "small",
    "features", "training", "forces", "looks", "main",
)  # fmt: skip
# So many of the queries that lose most are in the file as text, for print.
WORST = 10
_UNIT = 10_000
_LABEL_STEPS = 5
_MINUS = "\N{MINUS SIGN}"
_HEADLINES = {
    "better": ("Better", "up"),
    "worse": ("Worse", "down"),
    "unclear": ("No clear difference", "none"),
    "equal": ("Equal", "none"),
}


class Opening(NamedTuple):
    """What the page opens with: the metric, the candidate, and the one it is compared with."""

    metric: str
    new: str
    old: str | None
    verdict: dict[str, Any]


def make_page(contract: dict[str, Any]) -> str:
    """The file, as text; the same contract gives the same text with the same zlib.

    Parameters
    ----------
    contract
        What `Report.to_dict` gives.
    """
    opening = _opening(contract)
    outline = {name: contract.get(name) for name in OUTLINE}
    outline["opening"] = {"metric": opening.metric, "new": opening.new, "old": opening.old}
    outline["sentences"] = _sentences_alone(contract)
    sections = {"outline": outline}
    sections |= {
        name: section
        for name, section in contract.items()
        if name not in OUTLINE and section is not None
    }
    style, script = _style(), _script()
    parts = {
        "policy": _policy(style, script),
        "title": escape(_title(opening)),
        "style": style,
        "verdict": _verdict_html(opening),
        "worst": _worst_html(contract, opening),
        "data": "\n".join(_section(name, value) for name, value in sections.items()),
        "script": script,
    }
    # In one pass, so that what is put in is never searched for a mark itself.
    return re.sub(r"@@(\w+)@@", lambda mark: parts[mark[1]], _static("page.html"))


def write_page(contract: dict[str, Any], path: str | PathLike[str]) -> None:
    """Write the page to a file, which appears whole or not at all."""
    page = make_page(contract).encode()
    with open_for_writing(path) as stream:
        stream.write(page)


@cache
def _static(name: str) -> str:
    return (files("rankgrove.report") / "static" / name).read_text(encoding="utf-8")


@cache
def _style() -> str:
    return _colours() + re.sub(r"\s*([{};:,])\s*", r"\1", _compact(_static("style.css")))


def _colours() -> str:
    """The colours of all pictures, by the names that the style sheet has for them."""
    labels = palette.label_colours(_LABEL_STEPS)
    named = {
        "ground": palette.GROUND, "text": palette.TEXT, "quiet": palette.AXIS,
        "line": palette.GRID, "up": palette.UP, "down": palette.DOWN,
        **{f"c{at}": colour for at, colour in enumerate(palette.CANDIDATES)},
        **{f"label{at}": colour for at, colour in enumerate(labels)},
        **{f"on-label{at}": palette.text_on(colour) for at, colour in enumerate(labels)},
    }  # fmt: skip
    rules = (f"--{name}:light-dark({one.light},{one.dark})" for name, one in named.items())
    return f":root{{{';'.join(rules)}}}"


@cache
def _script() -> str:
    source = "\n".join(_compact(_static(f"{name}.js")) for name in SCRIPTS)
    # No text of the page has spaces beside these.
    operators = r" ([=!&|?:<>-]{1,3}|\*\*|\+=) "
    return re.sub(rf"{operators}|(?<=\{{) | (?=\}})|(?<=[{{;,(])\n", r"\1", source)


def _compact(source: str) -> str:
    r"""The source without comments and indentation, which are for readers of the package.

    >>> _compact("// Why.\n/** @param {any} x */\nconst f = (x) =>\n  x;\n")
    'const f = (x) =>\nx;'
    """
    bare = re.sub(r"/\*.*?\*/ ?|^\s*//[^\n]*", "", source, flags=re.DOTALL | re.MULTILINE)
    return "\n".join(line.strip() for line in bare.splitlines() if line.strip())


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _section(name: str, value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    packed = base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
    return f'<script type="application/octet-stream" id="data-{name}">{packed}</script>'


def _opening(contract: dict[str, Any]) -> Opening:
    """The first metric, and the last candidate against the baseline, or against the first one."""
    names = [one["name"] for one in contract["candidates"]]
    metric = next(iter(contract["comparison"]["metrics"]))
    if len(names) == 1:
        row = contract["comparison"]["metrics"][metric]["candidates"][names[0]]
        sentence = _sentences_alone(contract)[metric]
        verdict = {"word": None, "sentence": sentence, "skipped": row["skipped"]}
        return Opening(metric, names[0], None, verdict)
    base = contract.get("baseline") or 0
    old, new = names[base], [name for at, name in enumerate(names) if at != base][-1]
    entries = contract["verdicts"][metric]
    verdict = next(entry for entry in entries if (entry["a"], entry["b"]) == (new, old))
    return Opening(metric, new, old, verdict)


def _sentences_alone(contract: dict[str, Any]) -> dict[str, str]:
    """What to say of each metric when there is one candidate, with nothing to compare it with."""
    comparison = contract["comparison"]
    if len(contract["candidates"]) > 1:
        return {}
    [name] = (one["name"] for one in contract["candidates"])
    sentences = {}
    for metric, entry in comparison["metrics"].items():
        row = entry["candidates"][name]
        mean = "none" if row["mean"] is None else f"{row['mean']:.4f}"
        interval = ""
        if row["low"] is not None:
            share = f"{100 * comparison['confidence']:g} % interval"
            interval = f" ({share} {row['low']:.4f} to {row['high']:.4f})"
        counted = f"{row['counted']:,} queries counted, {row['skipped']:,} skipped"
        sentences[metric] = f"{name}: {metric} {mean}{interval}; {counted}."
    return sentences


def _title(opening: Opening) -> str:
    return opening.new if opening.old is None else f"{opening.new} against {opening.old}"


def _verdict_html(opening: Opening) -> str:
    """What the page opens with; the script writes other verdicts into the same elements."""
    verdict = opening.verdict
    word, tone = _HEADLINES.get(verdict["word"], ("", "none"))
    counts = "".join(
        f'<li data-tone="{tone_of}"><span>{name}</span> '
        f'<b id="verdict-{key}">{verdict.get(key, 0):,}</b></li>'
        for key, name, tone_of in (
            ("wins", "better", "up"), ("ties", "equal", "none"),
            ("losses", "worse", "down"), ("skipped", "skipped", "none"),
        )
    )  # fmt: skip
    alone = " hidden" if opening.old is None else ""
    return (
        f'<p class="headline" data-tone="{tone}" id="verdict-word"{alone}>{word}</p>\n'
        f'<p class="sentence" id="verdict-sentence">{escape(verdict["sentence"])}</p>\n'
        f'<ul class="counts" id="verdict-counts"{alone}>{counts}</ul>'
    )


def _worst_html(contract: dict[str, Any], opening: Opening) -> str:
    """The queries that lose most; of one candidate alone, those with the lowest values."""
    queries = contract.get("queries")
    if not queries:
        return ""
    names = [one["name"] for one in contract["candidates"]]
    values = queries["values"][opening.metric]
    new = values[names.index(opening.new)]
    old = [0] * len(new) if opening.old is None else values[names.index(opening.old)]
    there = [q for q, pair in enumerate(zip(new, old, strict=True)) if None not in pair]
    there.sort(key=lambda q: new[q] - old[q])
    heads = [opening.new] if opening.old is None else [opening.old, opening.new, "change"]
    rows = []
    for q in there[:WORST]:
        text = queries.get("text")
        numbers = [f"{new[q] / _UNIT:.4f}"]
        if opening.old is not None:
            numbers = [f"{old[q] / _UNIT:.4f}", *numbers, _signed((new[q] - old[q]) / _UNIT)]
        cells = "".join(f"<td>{number}</td>" for number in numbers)
        name = escape(str((text and text[q]) or queries["id"][q]))
        rows.append(f'<tr><th scope="row">{name}</th>{cells}</tr>')
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ["query", *heads])
    return f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"


def _signed(value: float) -> str:
    """A difference in four places, with a true minus sign; zero has no sign."""
    return f"{value:+.4f}".replace("-", _MINUS) if value else "0.0000"
