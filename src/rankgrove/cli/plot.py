"""`rankgrove plot`: one picture, of a kind, from models, scores and data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rankgrove.cli.candidates import ScoreFiles
from rankgrove.cli.console import say, show_json
from rankgrove.cli.files import check_outputs
from rankgrove.cli.options import Json, Reading, argument, option, takes, takes_reading
from rankgrove.errors import DataError, ParameterError, refusal, unknown_name

# What each kind of picture is drawn from, and the options that it has a use for.
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "learning-curves": ("[NAME=]MODEL...", ("metric",)),
    "shrinkage": ("TRAIN [VALID]", ("metric", "rates", "trees", "objective")),
    "scatter": ("[NAME=]CANDIDATE... DATA", ("metric", "baseline")),
    "change": ("[NAME=]CANDIDATE... DATA", ("metric", "baseline")),
    "distribution": ("[NAME=]CANDIDATE... DATA", ("metric", "baseline")),
    "slices": ("[NAME=]CANDIDATE... DATA", ("metric", "baseline", "slices")),
    "front": ("[NAME=]CANDIDATE... DATA", ("metric",)),
    "ranking": ("[NAME=]CANDIDATE... DATA", ("metric", "query", "top")),
    "scores-by-label": ("CANDIDATE DATA", ()),
    "importance": ("MODEL [DATA]", ("metric", "top")),
    "dependence": ("MODEL DATA", ("feature",)),
    "why": ("MODEL DATA", ("query", "ranks")),
    "weights": ("MODEL DATA", ("metric", "number")),
    "pair-loss": ("", ("sigmas",)),
    "paper-relative": ("[RESULTS]", ()),
    "train-test": ("[RESULTS]", ("table",)),
}


@dataclass(frozen=True)
class Choices:
    """What is to be drawn, in more detail; None leaves it to the kind of picture."""

    metric: Annotated[
        str | None,
        option("NAME", "What is measured; by default ndcg@10, or what a model has measured; for "
               "front two with a comma between, ndcg@10,map by default.",
               "--metric", "-m"),
    ] = None  # fmt: skip
    baseline: Annotated[
        str | None, option("NAME", "What the others are compared with; by default the best.")
    ] = None
    slices: Annotated[
        list[str] | None,
        option("length|labels|relevant|column:NAME",
               "Groups of queries, as for compare; length by default.", "--slice"),
    ] = None  # fmt: skip
    query: Annotated[str | None, option("QID", "The query to draw.")] = None
    ranks: Annotated[
        tuple[int, int] | None, option("RANK RANK", "Two documents of it; 1 2 by default.")
    ] = None
    top: Annotated[int | None, option("K", "How many documents or features.", min=1)] = None
    feature: Annotated[
        list[str] | None, option("NAME", "A feature to draw. May be given several times.")
    ] = None
    rates: Annotated[str | None, option("LIST", "Learning rates; 1,0.5,0.1,0.01 by default.")] = (
        None
    )
    trees: Annotated[int | None, option("N", "Trees of each run; 100 by default.", min=1)] = None
    objective: Annotated[str | None, option("NAME", "What is trained; lambdamart by default.")] = (
        None
    )
    number: Annotated[int | None, option("N", "How many weights; 6 by default.", min=1)] = None
    sigmas: Annotated[str | None, option("LIST", "Of the loss; 0.5,1,2 by default.")] = None
    table: Annotated[str | None, option("LIST", "Of 22,23,24,25; 22 by default.")] = None

    def check(self, kind: str) -> None:
        """Refuse what this kind of picture has no use for."""
        for name, value in vars(self).items():
            if value is not None and name not in KINDS[kind][1]:
                fitting = [other for other, (_, names) in KINDS.items() if name in names]
                raise refusal(name, f"be used with {' or '.join(fitting)}", got=kind)

    def numbers(self, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """The numbers of a list with commas between."""
        text = getattr(self, name)
        if text is None:
            return default
        try:
            return tuple(float(part) for part in text.split(","))
        except ValueError:
            raise refusal(name, "be numbers with commas between, as 1,0.5", text) from None


@takes_reading
@takes("scoring", ScoreFiles)
@takes("choices", Choices)
def plot(
    kind: Annotated[str, argument("KIND", f"One of {', '.join(KINDS)}.")],
    out: Annotated[
        Path,
        option("FILE", "The picture: .svg, or with matplotlib .png or .pdf.", "--out", "-o"),
    ],
    files: Annotated[
        list[str] | None,
        argument(
            "[FILES]...",
            "What is drawn: models, candidates as for compare, and data; which, depends on KIND.",
        ),
    ] = None,
    json: Json = False,
    *,
    choices: Choices,
    scoring: ScoreFiles,
    reading: Reading,
) -> None:
    """Draw a picture: of training, a comparison, one query, or what a model rests on.

    rankgrove plot scatter old.safetensors new.safetensors test.txt --baseline old.safetensors
    -o scatter.svg

    rankgrove plot ranking old.safetensors new.safetensors test.txt --query 7 -o query7.svg

    rankgrove plot importance model.safetensors test.txt -o features.svg

    rankgrove plot dependence model.safetensors test.txt --feature f3 -o f3.svg

    rankgrove plot shrinkage train.txt vali.txt -o shrinkage.svg

    rankgrove plot pair-loss -o loss.svg
    """
    from rankgrove.cli.plot_kinds import DRAWN  # noqa: PLC0415 (--help is quick without it)
    from rankgrove.pictures.display import FORMATS  # noqa: PLC0415

    if kind not in KINDS:
        raise unknown_name("KIND", kind, KINDS)
    if out.suffix.lower() not in FORMATS:
        raise refusal("out", f"end in {', '.join(FORMATS)}", str(out))
    choices.check(kind)
    scoring.check()
    given = list(files or [])
    check_files(kind, given)
    check_outputs([place for place in map(_path_of, given) if place.is_file()], {"out": out})
    display: Any = DRAWN[kind](given, choices, scoring, reading)
    display.save(out)
    if json:
        show_json({"kind": kind, "files": given, "picture": out})
    else:
        say(f"wrote the picture to {out}")


def check_files(kind: str, files: list[str]) -> None:
    """Refuse more or fewer files than a kind of picture is drawn from."""
    wanted, _ = KINDS[kind]
    words = wanted.split()
    least = sum(not word.startswith("[") or "=" in word for word in words)
    most = None if "..." in wanted else len(words)
    if len(files) < least or (most is not None and len(files) > most):
        needs = f"be drawn from {wanted}" if wanted else "be drawn without files"
        raise ParameterError(f"{kind} must {needs}. Got {len(files)} files.")
    for text in files if kind in ("learning-curves", "importance", "dependence") else []:
        if not _path_of(text).is_file():
            raise DataError(f"{text}: there is no such file. Check the path.")


def _path_of(text: str) -> Path:
    """The file that a candidate names, perhaps after NAME=."""
    name, sign, rest = text.partition("=")
    return Path(rest) if sign and name and not Path(text).exists() else Path(text)
