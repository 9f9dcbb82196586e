"""Ten made-up problems, in each of which something makes an objective fail.

All are variations of `make_web_search`: labels to learn from, or features, are spoiled in one way.
The test queries of a problem have labels as they should be. Draws share them and learn from
queries of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.real_data import Split
from rankgrove.data.dataset import Dataset
from rankgrove.data.queries import offsets_of
from rankgrove.data.synthetic import make_web_search

N_TEST, N_TRAIN, N_VALI, N_FEATURES, N_DOCUMENTS = 300, 90, 30, 20, 20
LONG_SHARE = 0.8

Change = Callable[[Dataset, np.random.Generator], Dataset]


def _same(data: Dataset, rng: np.random.Generator) -> Dataset:
    return data


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What makes an objective fail.

    Attributes
    ----------
    title
        What is done to the data.
    options
        Of `make_web_search`.
    everywhere
        A change of all data, those of the test too: another problem.
    taught
        A change of what is learned and stopped by: the problem is the same, its labels lie.
    trained
        A change of the training queries alone.
    n_train
        Queries to train on.
    """

    title: str
    options: dict[str, Any] = field(default_factory=dict)
    everywhere: Change = _same
    taught: Change = _same
    trained: Change = _same
    n_train: int = N_TRAIN

    def splits(self, n_draws: int, seed: int = 0) -> list[Split]:
        """One split a draw."""
        own = self.n_train + N_VALI
        options: dict[str, Any] = {"mean_documents": N_DOCUMENTS, "seed": seed, **self.options}
        n_features = options.pop("n_features", N_FEATURES)
        data = make_web_search(N_TEST + n_draws * own, n_features, n_jobs=1, **options)
        data = self.everywhere(data, np.random.default_rng([seed, 0]))
        test, found = data.take_queries(np.arange(N_TEST)), []
        for draw in range(n_draws):
            first = N_TEST + draw * own
            rng = np.random.default_rng([seed, 1 + draw])
            taught = self.taught(data.take_queries(np.arange(first, first + own)), rng)
            train = taught.take_queries(np.arange(self.n_train))
            vali = taught.take_queries(np.arange(self.n_train, own))
            found.append(Split(self.trained(train, rng), vali, test))
        return found


def _by_query(data: Dataset) -> list[slice]:
    return [slice(*each) for each in zip(data.offsets[:-1], data.offsets[1:], strict=True)]


def _with_labels(data: Dataset, labels: NDArray[Any]) -> Dataset:
    return replace(data, labels=labels.astype(data.labels.dtype))


def _scaled(data: Dataset, rng: np.random.Generator) -> Dataset:
    factors = 2.0 ** rng.uniform(-3, 3, data.n_queries)
    return _with_labels(data, data.labels * np.repeat(factors, data.group))


def _shuffled(data: Dataset, rng: np.random.Generator) -> Dataset:
    labels = np.array(data.labels)
    for rows in _by_query(data):
        if rng.random() < 0.6:
            labels[rows] = rng.permutation(labels[rows])
    return _with_labels(data, labels)


def _one_long(data: Dataset, rng: np.random.Generator) -> Dataset:
    """Queries up to so much of all documents become one, in which labels mean nothing."""
    merged = int(np.searchsorted(data.offsets, LONG_SHARE * data.n_documents))
    labels, end = np.array(data.labels), int(data.offsets[merged])
    labels[:end] = rng.permutation(labels[:end])
    sizes = np.concatenate([[end], data.group[merged:]])
    return replace(data, labels=labels, offsets=offsets_of(sizes),
                   query_ids=data.query_ids[merged - 1 :])  # fmt: skip


def _one_relevant(data: Dataset, rng: np.random.Generator) -> Dataset:
    labels = np.zeros(data.n_documents)
    for rows in _by_query(data):
        own = data.labels[rows]
        labels[rows.start + int(np.argmax(own + rng.uniform(0, 0.5, len(own))))] = 1.0
    return _with_labels(data, labels)


def _noisy_bottom(data: Dataset, rng: np.random.Generator) -> Dataset:
    """Grades of 0 to 2 are drawn anew, so that only those above can be learned."""
    labels = np.array(data.labels)
    low = labels <= 2
    labels[low] = rng.integers(0, 3, int(low.sum()))
    return _with_labels(data, labels)


def _wild(data: Dataset, rng: np.random.Generator) -> Dataset:
    labels = np.array(data.labels)
    labels[rng.random(data.n_documents) < 0.02] = 12
    return _with_labels(data, labels)


def _filled(data: Dataset) -> NDArray[np.float64]:
    """Features as ranks of mean 0 and deviation 1; a missing value is the median."""
    features = np.asarray(data.features, dtype=np.float64)
    features = np.where(np.isnan(features), np.nanmedian(features, axis=0), features)
    ranks = features.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    off = ranks - ranks.mean(axis=0)
    filled: NDArray[np.float64] = off / off.std(axis=0)
    return filled


def _rotated(data: Dataset, rng: np.random.Generator) -> Dataset:
    turn, _ = np.linalg.qr(rng.standard_normal((data.n_features, data.n_features)))
    return replace(data, features=(_filled(data) @ turn).astype(np.float32))


def _linear(data: Dataset, rng: np.random.Generator) -> Dataset:
    """Grades are steps of a sum of all features, with weights of either sign."""
    filled = _filled(data)
    signal = filled @ rng.standard_normal(data.n_features)
    signal += 0.3 * signal.std() * rng.standard_normal(len(signal))
    steps = np.quantile(signal, (0.52, 0.84, 0.97, 0.99))
    found = replace(data, features=filled.astype(np.float32))
    return _with_labels(found, np.searchsorted(steps, signal))


PROBLEMS = {
    "scaled grades": Problem(
        title="the grades of each training query are multiplied by a number of its own, from 1/8 "
        "to 8", taught=_scaled),
    "shuffled queries": Problem(
        title="in 60 % of the training queries labels are shuffled", taught=_shuffled),
    "one long query": Problem(
        title="one training query has 80 % of the documents, with shuffled labels",
        trained=_one_long),
    "one relevant": Problem(
        title="one document of each query is relevant, the others are not",
        everywhere=_one_relevant),
    "noisy bottom": Problem(
        title="grades of 0 to 2 are drawn anew in training", taught=_noisy_bottom),
    "wild labels": Problem(
        title="2 % of the training documents have a grade of 12", taught=_wild),
    "rotated features": Problem(
        title="features are rotated: no single one says much", everywhere=_rotated),
    "linear": Problem(
        title="grades are a weighted sum of all features, 40 queries", everywhere=_linear,
        n_train=40),
    "useless features": Problem(
        title="136 features, 14 of them of use, 40 queries", options={"n_features": 136},
        n_train=40),
    "mostly missing": Problem(
        title="features that can be missing are so in 95 %, labels without noise",
        options={"missing": 0.95, "noise": 0.0}),
}  # fmt: skip
