"""What all sections of a report are made of: the data, the candidates and how they compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankgrove.data.dataset import Dataset
from rankgrove.data.describe import MAX_GRADES
from rankgrove.errors import DataError, refusal
from rankgrove.experiments.compare.compare import score_candidates
from rankgrove.experiments.compare.comparison import Comparison
from rankgrove.metrics.base import Floats, Metric, Rankings
from rankgrove.metrics.shares import document_shares, order_of, why_no_shares
from rankgrove.model.base import ScoringModel, load
from rankgrove.model.model import Model

Kind = Literal["model", "scores", "column"]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Candidate:
    """One candidate: its scores, and the model that gave them, where there is one.

    Attributes
    ----------
    scores
        One per document of the data.
    kind
        What it is: a model, given scores, or a column of the data.
    model
        What can say why a score is what it is; None for other candidates.
    data
        The documents with the features of the model, where those of the report have others.
    train, valid
        Other data with the features of the model: those of training and of validation.
    """

    scores: Floats
    kind: Kind = "scores"
    model: ScoringModel | None = None
    data: Dataset | None = None
    train: Dataset | None = None
    valid: Dataset | None = None


def as_candidates(
    data: Dataset,
    given: Mapping[str, Any],
    train: Dataset | None,
    valid: Dataset | None,
    n_jobs: int | None,
) -> dict[str, Candidate]:
    """The candidates by name, each with its scores."""
    if not isinstance(given, Mapping) or not given:
        raise refusal("candidates", "be a mapping with at least one name", got="none")
    loaded = {str(name): _unwrapped(candidate) for name, candidate in given.items()}
    scores = score_candidates(
        data,
        {name: one.scores if isinstance(one, Candidate) else one for name, one in loaded.items()},
        n_jobs,
    )
    found = {}
    for name, one in loaded.items():
        if isinstance(one, Candidate):
            found[name] = one
        elif isinstance(one, ScoringModel):
            found[name] = Candidate(scores[name], "model", one, data, train, valid)
        else:
            found[name] = Candidate(scores[name])
        if (own := found[name].data) is not None and not _same_queries(own, data):
            raise DataError(
                f"{name}: must be of the documents of the report, {data.n_documents} in "
                f"{data.n_queries} queries. Got other ones: read the same file for both."
            )
    return found


def _unwrapped(candidate: Any) -> Any:
    """The model of a file or of an estimator; anything else as it is."""
    if isinstance(candidate, (str, PathLike)):
        return load(candidate)
    model = getattr(candidate, "model_", None)
    return model if isinstance(model, ScoringModel) else candidate


def _same_queries(one: Dataset, other: Dataset) -> bool:
    return np.array_equal(one.offsets, other.offsets)


@dataclass(frozen=True, eq=False)
class Material:
    """The data, the candidates, and how they compare; with what several sections need of them.

    Attributes
    ----------
    data
        Labels and queries.
    candidates
        By name.
    metrics
        The first of them decides which queries come first.
    comparison
        The candidates under these metrics.
    top
        How many ranks are shown.
    seed, n_jobs
        Of what is drawn at random, and threads.
    """

    data: Dataset
    candidates: dict[str, Candidate]
    metrics: tuple[Metric, ...]
    comparison: Comparison
    top: int = 10
    seed: int = 0
    n_jobs: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.candidates)

    @property
    def n_queries(self) -> int:
        return self.data.n_queries

    @property
    def ties(self) -> str:
        """The policy by which documents of equal score are shown: that of the first metric.

        The mean over all orders has no order to show: then documents stand as in the data.
        """
        return order_of(self.metrics[0])

    @property
    def models(self) -> dict[str, ScoringModel]:
        return {
            name: candidate.model
            for name, candidate in self.candidates.items()
            if candidate.model is not None
        }

    @property
    def tree_models(self) -> dict[str, Model]:
        return {name: model for name, model in self.models.items() if isinstance(model, Model)}

    @cached_property
    def query_of_row(self) -> Integers:
        return np.repeat(np.arange(self.n_queries), self.data.group)

    @cached_property
    def places(self) -> Integers:
        """The place of each row in its query, from 0."""
        return np.arange(self.data.n_documents) - self.data.offsets[:-1][self.query_of_row]

    @cached_property
    def rankings(self) -> dict[str, Rankings]:
        """The rankings of each candidate; what labels alone decide is found once."""
        first = Rankings.of_data(self.data, np.zeros(self.data.n_documents), self.n_jobs)
        return {name: first.with_scores(one.scores) for name, one in self.candidates.items()}

    @cached_property
    def _orders(self) -> dict[tuple[str, str], Integers]:
        return {}

    def order(self, name: str, ties: str) -> Integers:
        """The rows in the order of a candidate, under a policy on ties."""
        if (name, ties) not in self._orders:
            self._orders[name, ties] = self.rankings[name].order(ties)
        return self._orders[name, ties]

    @cached_property
    def ranks(self) -> dict[str, Integers]:
        """The rank of each row, from 1, by candidate."""
        found = {}
        for name in self.names:
            ranks = np.empty(self.data.n_documents, np.int64)
            ranks[self.order(name, self.ties)] = self.places + 1
            found[name] = ranks
        return found

    def no_shares(self, metric: Metric) -> str | None:
        """Why documents have no shares of a metric; None if they have."""
        return why_no_shares(metric, self.rankings[self.names[0]])

    def shares(self, metric: Metric, name: str) -> Floats:
        """What each row adds to a metric of its query, under a candidate."""
        return document_shares(metric, self.rankings[name], self.order(name, order_of(metric)))

    @cached_property
    def grades(self) -> list[float] | None:
        """The labels that occur, lowest first; None if there are too many to be grades."""
        values = np.unique(self.data.labels)
        return plain_labels(values) if len(values) <= MAX_GRADES else None

    @cached_property
    def grade_of_row(self) -> Integers:
        """For each row, the place of its label among the grades."""
        return np.searchsorted(np.unique(self.data.labels), self.data.labels)

    @cached_property
    def change(self) -> Floats:
        """By how much candidates differ in each query under the first metric, at most.

        A skipped query has 0. One candidate alone is held against the best value that it has.
        """
        values = np.array(list(self.comparison.per_query(str(self.metrics[0])).values()))
        baseline = self.comparison.baseline
        if len(values) == 1:
            change = np.nanmax(values) - values[0]
        elif baseline is None:
            change = values.max(axis=0) - values.min(axis=0)
        else:
            change = np.abs(values - values[self.names.index(baseline)]).max(axis=0)
        return np.asarray(np.nan_to_num(change))


def rows_of(data: Dataset, rows: Integers) -> Dataset:
    """These rows of the data, each a query of its own: for what goes document by document."""
    base = data.base_scores
    return replace(
        data, features=data.features[rows], labels=data.labels[rows],
        offsets=np.arange(len(rows) + 1), query_ids=np.arange(len(rows)), weights=None,
        base_scores=None if base is None else base[rows], document_ids=None, document_weights=None,
    )  # fmt: skip


def every_nth(numbers: Integers, most: int) -> Integers:
    """At most so many of the numbers, evenly spread."""
    return numbers[:: max(1, -(-len(numbers) // max(1, most)))]


def plain_text(value: Any) -> str:
    """A text that any file can hold: half of a surrogate pair becomes a question mark."""
    text = str(value)
    return text if text.isascii() else text.encode(errors="replace").decode()


def plain_labels(labels: NDArray[np.float32]) -> list[Any]:
    """Labels for JSON: whole numbers where all are, else with the digits that they were given."""
    if bool((labels == np.floor(labels)).all()):
        return [int(label) for label in labels.tolist()]
    return [float(str(label)) for label in labels]


def plain_numbers(values: Floats, digits: int) -> list[float | None]:
    """Numbers for JSON with so many digits after the point; None where there is none."""
    rounded: list[float] = (np.round(values, digits) + 0.0).tolist()
    if np.isfinite(values).all():
        return list(rounded)
    return [number if np.isfinite(number) else None for number in rounded]


def digits_for(values: Floats, significant: int) -> int:
    """Digits after the point that give the largest of the values so many in all."""
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max(initial=0.0))
    if largest == 0.0:
        return significant
    return max(0, significant - 1 - int(np.floor(np.log10(largest))))
