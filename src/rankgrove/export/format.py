"""What a format is: a value that says what it holds, how it is written and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrove.errors import DataError, refusal, whole_number
from rankgrove.model.base import ScoringModel
from rankgrove.model.combined import CombinedModel
from rankgrove.model.model import Model

Floats = NDArray[np.float64]
Options = Mapping[str, Any]

ScoreFile = Callable[[bytes, "Rows", Options], NDArray[Any]]


class ExportError(DataError):
    """A model cannot be held by a format, or the file scored differently when it was checked."""


class Rows(NamedTuple):
    """Documents as consumers score them.

    Attributes
    ----------
    features
        float32, one row per document, categories as values; NaN is missing.
    base
        One base score per document, or None where the model needs none.
    names
        Of the features.
    """

    features: NDArray[np.float32]
    base: Floats | None
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Exportable:
    """A model as formats take it: one model of trees, or several with what makes one score of them.

    Attributes
    ----------
    parts
        Models of trees, all of the same features; one alone is the model itself.
    top
        The trees whose features are the scores of the parts, rounded to float32; or None.
    weights
        Of a weighted sum of the parts, one each; or None.
    checksum
        Of the whole model, as its file has it.
    """

    parts: tuple[Model, ...]
    top: Model | None
    weights: tuple[float, ...] | None
    checksum: str

    @classmethod
    def of(cls, model: ScoringModel, n_trees: int | None = None) -> Exportable:
        """What is exported of a model: all of it, or its first trees."""
        checksum = model.checksum
        if isinstance(model, Model):
            return cls((_first_trees(model, n_trees),), None, None, checksum)
        if not isinstance(model, CombinedModel):
            raise ExportError(
                f"a model must be made of trees to be exported. Got {model!r}: distil it into "
                f"trees, or score with Rankgrove."
            )
        if n_trees is not None and model.top is None:
            raise refusal("n_trees", "be left out for a weighted sum of models", n_trees)
        parts = tuple(part for part in model.parts if isinstance(part, Model))
        if len(parts) < len(model.parts):
            raise ExportError(
                f"a model must be made of trees to be exported. Got {model!r}, which has a "
                f"network in it: make one model of trees of it with 'rankgrove distil'."
            )
        top = None if model.top is None else _first_trees(model.top, n_trees)
        return cls(parts, top, model.weights, checksum)

    @property
    def is_combined(self) -> bool:
        return self.top is not None or self.weights is not None

    @property
    def models(self) -> tuple[Model, ...]:
        """All models of trees in it, the one on top last."""
        return self.parts if self.top is None else (*self.parts, self.top)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (
            self.parts[0].feature_names if not self.is_combined else self.as_model().feature_names
        )

    @property
    def n_trees(self) -> int:
        return sum(model.n_trees for model in self.models)

    @property
    def n_leaves(self) -> int:
        return sum(len(model.ensemble.value) for model in self.models)

    @property
    def needs_base_scores(self) -> bool:
        return self.parts[0].schema.needs_base_scores

    def as_model(self) -> ScoringModel:
        """The model that gives the scores which a consumer must give."""
        if not self.is_combined:
            return self.parts[0]
        return CombinedModel(self.parts, self.top, self.weights)

    def only_model(self, format_name: str) -> Model:
        """The one model of trees, for a format that holds no other and starts sums at 0."""
        if self.is_combined:
            raise ExportError(
                f"{format_name} holds one model of trees, no combined model. Export to onnx or "
                f"sql, or to a scorer in c, java, javascript or python."
            )
        self.refuse_base_scores(format_name)
        return self.parts[0]

    def refuse_base_scores(self, format_name: str) -> None:
        """Refuse a model that was trained on top of base scores, where they have no place."""
        if self.needs_base_scores:
            raise ExportError(
                f"{format_name} has no place for base scores, which the model needs. Export to "
                f"sql or to a scorer in c, java, javascript or python."
            )

    def refuse_categories(self, format_name: str) -> None:
        """Refuse splits by category, for a format that has only thresholds."""
        for model in self.models:
            trees = model.ensemble
            of_split = np.repeat(np.arange(trees.n_trees), np.diff(trees.split_offsets))
            for feature in model.schema.categories:
                n_trees = len(np.unique(of_split[trees.feature == feature]))
                if n_trees:
                    in_trees = "1 tree" if n_trees == 1 else f"{n_trees:,} trees"
                    raise ExportError(
                        f"{format_name} has no categories. Feature "
                        f"{model.feature_names[feature]!r} is split by category in {in_trees}: "
                        f"one-hot it, or export to onnx or lightgbm."
                    )


def _first_trees(model: Model, n_trees: int | None) -> Model:
    if n_trees is None:
        return model
    n_trees = whole_number("n_trees", n_trees, 1, max(1, model.n_trees))
    return replace(model, ensemble=model.ensemble.prefix(n_trees))


@dataclass(frozen=True)
class Agreement:
    """How near to the score of Rankgrove that of a consumer must be.

    Attributes
    ----------
    words
        What must be the same, as a table has it: "bits", "float32"; "" if only a bound holds.
    rounded
        What the score of Rankgrove is turned into before the two are compared for equality.
    bound
        The largest difference that is no error, from the model; 0 where equality is asked for.
    exact, rounds
        What of a score is exact, and what is rounded.
    """

    words: str
    exact: str
    rounds: str
    rounded: Callable[[Floats], NDArray[Any]] = lambda scores: scores
    bound: Callable[[Exportable], float] = lambda source: 0.0


def float32_bound(source: Exportable) -> float:
    """How far a sum of float32 leaves, added in float32, can be from the sum in float64.

    Leaves are rounded once and each sum is, by at most 2^-24 of its size, and no sum is larger than
    the largest leaves of all trees together: trees + 2 times 2^-24 times these.
    """
    most = sum(_largest_leaves(model) for model in source.models)
    steps = (source.n_trees + 2) * 2.0**-24
    # The smallest numbers are rounded by half of the smallest one, whatever their size.
    return float(most * steps / (1.0 - steps) * 1.01 + source.n_trees * 2.0**-149)


def _largest_leaves(model: Model) -> float:
    """The sum over trees of the largest leaf, whatever its sign."""
    trees = model.ensemble
    if not trees.n_trees:
        return 0.0
    starts = trees.split_offsets[:-1] + np.arange(trees.n_trees)
    return float(np.maximum.reduceat(np.abs(trees.value), starts).sum())


def _as_float32(scores: Floats) -> NDArray[Any]:
    return scores.astype(np.float32)


_LEAVES = "which leaf each document reaches"
SAME_BITS = Agreement("bits", "every score, to the bit", "nothing")
SAME_FLOAT32 = Agreement("float32", _LEAVES, "the score, to float32", rounded=_as_float32)
FLOAT32_SUMS = Agreement("", _LEAVES, "leaves and sums, to float32", bound=float32_bound)


@dataclass(frozen=True)
class Consumer:
    """Who scores what a format has written.

    Attributes
    ----------
    name
        As a table shows it: "onnxruntime", or "the rules of Solr 9 (emulated)".
    version
        What it is here, "" where it has none; None where it is not installed.
    score
        Scores documents by the content of a file, with the options that it was written with.
    is_emulated
        Whether it follows the written rules of an engine that is not here.
    reads
        Whether it is for files with these options.
    """

    name: str
    version: Callable[[], str | None]
    score: ScoreFile
    is_emulated: bool = False
    reads: Callable[[Options], bool] = lambda options: True


def emulator(
    of: str, score: ScoreFile, reads: Callable[[Options], bool] = lambda options: True
) -> Consumer:
    """The written rules of an engine, which are always at hand."""
    name = f"the rules of {of} (emulated)"
    return Consumer(name, lambda: "", score, is_emulated=True, reads=reads)


def package_version(module: str, *distributions: str) -> Callable[[], str | None]:
    """What finds the version of an installed package: None if its module cannot be imported."""

    def found() -> str | None:
        if find_spec(module) is None:
            return None
        for name in distributions or (module,):
            try:
                return version(name)
            except PackageNotFoundError:
                continue
        return ""

    return found


class FormatOption(NamedTuple):
    """An option of a format.

    Attributes
    ----------
    default
        Its value if it is not given; its type is that of all values.
    help
        What it is, in a sentence.
    choices
        The values that it may have, or () for any.
    """

    default: Any
    help: str
    choices: tuple[Any, ...] = ()

    def checked(self, name: str, value: Any) -> Any:
        """A value of this option, given as it is or as text."""
        kind = type(self.default)
        if isinstance(value, str) and kind is not str:
            value = next((choice for choice in self.choices if str(choice) == value), value)
        is_right = isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)
        if self.choices and value not in self.choices:
            raise refusal(name, f"be one of {', '.join(map(str, self.choices))}", value)
        if not is_right or value == "":
            raise refusal(name, f"be a {kind.__name__}, not empty", value)
        return value


def nothing_outside(_: Exportable, __: Options, ___: Rows) -> dict[str, NDArray[np.bool_]]:
    """For a format that holds every document."""
    return {}


def no_notes(_: Exportable, __: Options) -> list[str]:
    """For a format of which there is nothing more to say."""
    return []


@dataclass(frozen=True)
class Format:
    """A format that models are exported to.

    Attributes
    ----------
    name
        As `to` has it.
    extension
        What its files are usually called.
    purpose, exact, rounds, refuses
        A sentence or phrase each: what it is for, what it holds exactly, what it rounds and what it
        refuses; "nothing" where there is none.
    write
        Makes the content of the file; the same bytes for the same model and options.
    consumers
        Who scores with it, to check it. Those that are installed are asked, all but emulators; if
        none is, the first emulator.
    agreement
        What must be the same, by the options.
    endings
        Ends of names that mean this format, where `to` is not given.
    options
        What else can be chosen, by name.
    outside
        Documents that the format, as it says, does not score alike: by reason, a mask over rows.
        They are counted, and their differences are no error.
    notes
        Sentences about this model in this format: what was rounded, and how often.
    headline
        What was written, in a phrase: "ONNX operator 3, for ONNX Runtime 1.19 or newer".
    takes_base_scores
        Whether a model may need base scores.
    """

    name: str
    extension: str
    purpose: str
    exact: str
    rounds: str
    refuses: str
    write: Callable[[Exportable, Options], bytes]
    consumers: tuple[Consumer, ...]
    agreement: Callable[[Options], Agreement]
    headline: Callable[[Options], str]
    endings: tuple[str, ...] = ()
    options: Mapping[str, FormatOption] = field(default_factory=dict)
    outside: Callable[[Exportable, Options, Rows], dict[str, NDArray[np.bool_]]] = nothing_outside
    notes: Callable[[Exportable, Options], list[str]] = no_notes
    takes_base_scores: bool = False

    def checked_options(self, given: Options) -> dict[str, Any]:
        """All options of this format: those that are given, checked, and the defaults of others."""
        for name in given:
            if name not in self.options:
                has = f", whose options are {', '.join(self.options)}" if self.options else ""
                raise refusal(name, f"be left out for {self.name}{has}", given[name])
        return {
            name: option.checked(name, given[name]) if name in given else option.default
            for name, option in self.options.items()
        }

    def describe(self) -> dict[str, Any]:
        """What it is, as plain values."""
        return {
            "name": self.name,
            "extension": self.extension,
            "purpose": self.purpose,
            "exact": self.exact,
            "rounds": self.rounds,
            "refuses": self.refuses,
            "options": {
                name: {"default": o.default, "choices": list(o.choices), "help": o.help}
                for name, o in self.options.items()
            },
            "checked_by": [consumer.name for consumer in self.consumers],
        }
