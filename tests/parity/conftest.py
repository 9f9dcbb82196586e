"""Random data sets, and one place that asks each peer for its own numbers.

Names are ours throughout ("precision@5"); each fixture maps them to the names and parameters of
its tool and is skipped where the tool is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import ArrayLike

from rankgrove import Dataset
from rankgrove.testing.peers import peer_data, peer_settings

N_CASES = 40


@dataclass(frozen=True, eq=False)
class Case:
    """A data set with scores: documents in the order of their queries."""

    labels: np.ndarray
    scores: np.ndarray
    group: np.ndarray
    weights: np.ndarray
    document_ids: np.ndarray

    @property
    def qid(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.group)), self.group)

    @property
    def has_relevant(self) -> np.ndarray:
        return np.bincount(self.qid, weights=self.labels > 0) > 0

    def take(self, chosen: ArrayLike) -> Case:
        """The queries that a mask or a list of numbers chooses."""
        mask = np.zeros(len(self.group), dtype=bool)
        mask[np.asarray(chosen)] = True
        rows = np.repeat(mask, self.group)
        return Case(
            self.labels[rows],
            self.scores[rows],
            self.group[mask],
            self.weights[mask],
            self.document_ids[rows],
        )

    def queries(self) -> Iterator[Case]:
        """Each query as a data set of its own."""
        return (self.take([query]) for query in range(len(self.group)))

    def dataset(self, weighted: bool) -> Dataset:
        """With a feature that tells nothing, for peers that must have one."""
        return Dataset.from_arrays(
            np.zeros((len(self.labels), 1)), self.labels, group=self.group,
            weights=self.weights if weighted else None,
        )  # fmt: skip

    def binary(self) -> Case:
        return replace(self, labels=(self.labels > 0).astype(float))

    def single_precision(self) -> Case:
        """Scores as a tool holds them that stores float32: some differences become ties."""
        return replace(self, scores=self.scores.astype(np.float32).astype(np.float64))

    def without_ties(self) -> Case:
        rng = np.random.default_rng(len(self.scores))
        return replace(self, scores=rng.permutation(len(self.scores)).astype(float))


def _labels(rng: np.random.Generator, size: int, top: int) -> np.ndarray:
    """Grades up to `top`, more of the low ones; how many differs from query to query."""
    chances = rng.dirichlet(np.geomspace(4.0, 0.3, top + 1))
    return rng.choice(top + 1, size=size, p=chances).astype(float)


def _scores(rng: np.random.Generator, size: int) -> np.ndarray:
    """A few values with many ties, one decimal with some, or real numbers with none."""
    scores = rng.normal(size=size)
    return np.round(scores, rng.choice([0, 1, 15]))


def make_case(seed: int) -> Case:
    """Every case has each of the hard queries; odd seeds are binary, even ones have 5 grades."""
    rng = np.random.default_rng(seed)
    top = 1 if seed % 2 else 4
    size, long = int(rng.integers(2, 30)), int(rng.integers(1000, 3000))
    hard = [
        (np.zeros(1), rng.normal(size=1)),
        (np.full(1, top), rng.normal(size=1)),
        (np.zeros(size), _scores(rng, size)),
        (np.full(size, top), _scores(rng, size)),
        (_labels(rng, size, top), np.full(size, 0.5)),
        (_labels(rng, long, top), _scores(rng, long)),
    ]
    sizes = rng.integers(2, 40, size=rng.integers(5, 15))
    queries = hard + [(_labels(rng, n, top), _scores(rng, n)) for n in sizes]
    queries = [queries[at] for at in rng.permutation(len(queries))]
    group = np.array([len(labels) for labels, _ in queries])
    return Case(
        labels=np.concatenate([labels for labels, _ in queries]),
        scores=np.concatenate([scores for _, scores in queries]),
        group=group,
        # Eighths: exact in the float32 in which LightGBM and XGBoost keep weights.
        weights=rng.integers(1, 33, size=len(group)) / 8,
        # "d9" and "d10": the order of strings is not the order of numbers.
        document_ids=np.concatenate([[f"d{n}" for n in rng.permutation(n)] for n in group]),
    )


@pytest.fixture(params=range(N_CASES), ids=lambda seed: f"seed{seed}")
def case(request: pytest.FixtureRequest) -> Case:
    return make_case(request.param)


@pytest.fixture
def make() -> Callable[..., Case]:
    """Build a small case by hand: make(labels, scores, group)."""

    def build(labels: Sequence[float], scores: Sequence[float], group: Sequence[int]) -> Case:
        ids = np.concatenate([[f"d{n}" for n in range(size)] for size in group])
        return Case(
            np.asarray(labels, dtype=float),
            np.asarray(scores, dtype=float),
            np.asarray(group),
            np.ones(len(group)),
            ids,
        )

    return build


def _split(name: str) -> tuple[str, int | None]:
    metric, _, cutoff = name.partition("@")
    return metric, int(cutoff) if cutoff else None


@pytest.fixture
def lightgbm_mean() -> Callable[..., list[float]]:
    """A booster without trees evaluates its initial scores, in float64."""
    lgb = pytest.importorskip("lightgbm")

    def ask(
        case: Case, names: Sequence[str], *, weighted: bool = False, **parameters: object
    ) -> list[float]:
        metrics, cutoffs = zip(*map(_split, names), strict=True)
        settings = peer_settings("lightgbm", {}, n_jobs=1)
        data = peer_data("lightgbm", case.dataset(weighted), settings, init_score=case.scores)
        settings |= {
            "objective": "none",
            "metric": sorted(set(metrics)),
            "eval_at": sorted(set(cutoffs)),
        }
        booster = lgb.Booster(settings | parameters, data)
        values = {result[1]: result[2] for result in booster.eval_train()}
        return [values[name] for name in names]

    return ask


@pytest.fixture
def xgboost_mean() -> Callable[..., list[float]]:
    """A booster without trees evaluates the base margins, which XGBoost holds as float32.

    `eval` prints 17 digits, which give back the float64 that was computed.
    """
    xgb = pytest.importorskip("xgboost")

    def ask(
        case: Case,
        names: Sequence[str],
        *,
        weighted: bool = False,
        empty: str = "one",
        **parameters: object,
    ) -> list[float]:
        minus = "-" if empty == "zero" else ""
        settings = peer_settings("xgboost", {"objective": "lambdamart"}, n_jobs=1)
        data = peer_data("xgboost", case.dataset(weighted), settings, base_margin=case.scores)
        settings |= {
            "base_score": 0,
            "eval_metric": [name.replace("precision", "pre") + minus for name in names],
        }
        text = xgb.Booster(settings | parameters, [data]).eval(data)
        return [float(entry.rpartition(":")[2]) for entry in text.split("\t")[1:]]

    return ask


@pytest.fixture
def catboost_mean() -> Callable[..., list[float]]:
    """`catboost.utils.eval_metric`, in float64."""
    utils = pytest.importorskip("catboost.utils")
    families = {
        "ndcg": "NDCG",
        "dcg": "DCG",
        "map": "MAP",
        "mrr": "MRR",
        "err": "ERR",
        "precision": "PrecisionAt",
        "recall": "RecallAt",
        "pair_accuracy": "QueryAUC",
    }

    def ask(
        case: Case, names: Sequence[str], *, weighted: bool = False, **parameters: object
    ) -> list[float]:
        values = []
        for name in names:
            metric, cutoff = _split(name)
            settings = parameters | ({} if cutoff is None else {"top": cutoff})
            arguments = ";".join(f"{key}={value}" for key, value in settings.items())
            values += utils.eval_metric(
                case.labels,
                case.scores,
                families[metric] + (f":{arguments}" if arguments else ""),
                group_id=case.qid,
                group_weight=np.repeat(case.weights, case.group) if weighted else None,
                thread_count=1,
            )
        return values

    return ask


@pytest.fixture
def trec_eval_values() -> Callable[..., np.ndarray]:
    """trec_eval through pytrec_eval: one row per query, one column a name; scores in float32."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    whole = {"map": "map", "ndcg": "ndcg", "mrr": "recip_rank"}
    cut = {"map": "map_cut", "ndcg": "ndcg_cut", "precision": "P", "recall": "recall"}

    def ask(case: Case, names: Sequence[str], *, relevance_level: int = 1) -> np.ndarray:
        measures = [
            whole[metric] if cutoff is None else f"{cut[metric]}.{cutoff}"
            for metric, cutoff in map(_split, names)
        ]
        judged: dict[str, dict[str, int]] = {}
        ranked: dict[str, dict[str, float]] = {}
        rows = zip(case.qid, case.document_ids, case.labels, case.scores, strict=True)
        for query, document, label, score in rows:
            judged.setdefault(str(query), {})[str(document)] = int(label)
            ranked.setdefault(str(query), {})[str(document)] = float(score)
        evaluator = pytrec_eval.RelevanceEvaluator(
            judged, set(measures), relevance_level=relevance_level
        )
        results = evaluator.evaluate(ranked)
        return np.array(
            [
                [results[str(query)][measure.replace(".", "_")] for measure in measures]
                for query in range(len(case.group))
            ]
        )

    return ask
