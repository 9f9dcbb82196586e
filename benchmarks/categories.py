"""Quality on data with categories: ours, LightGBM and CatBoost, each given strings in its own form.

Relevance depends on numbers, on categories of different sizes and on two of them together. Of each
seed the data, their split and the models are other ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.common import THREADS, limit_threads, report, table

limit_threads()

import numpy as np  # noqa: E402 (the thread limits must be set before)
import pandas as pd  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from rankgrove import Ranker, compare, from_frame  # noqa: E402
from rankgrove.testing.peers import import_peer  # noqa: E402

COMMAND = "python -m benchmarks.categories"
PACKAGES = ("numpy", "numba", "lightgbm", "catboost")
SEEDS = (0, 1, 2)
N_DOCUMENTS = 20
# Categories of each feature, and by how much relevance varies over them.
LEVELS = {"brand": (200, 1.0), "city": (40, 0.6), "genre": (12, 0.8), "device": (4, 0.4)}
TOGETHER, TOGETHER_SPREAD = ("genre", "device"), 0.8
N_NUMBERS, NOISE = 6, 1.0
GRADES = (0.55, 0.8, 0.92, 0.98)
MISSING = 0.05
MOST_TREES, RATE, PATIENCE = 400, 0.1, 40
METRIC = "ndcg@10"

Floats = NDArray[np.float64]
Score = Callable[[pd.DataFrame], Floats]


class Parts(NamedTuple):
    """Frames with label, qid and features."""

    train: pd.DataFrame
    valid: pd.DataFrame
    test: pd.DataFrame


def make_parts(seed: int, n_queries: int) -> Parts:
    """Three sets of queries whose labels have the same causes; the second and third of a third."""
    rng = np.random.default_rng(seed)
    n_rows = n_queries * 5 // 3 * N_DOCUMENTS
    numbers = rng.normal(size=(n_rows, N_NUMBERS)).astype(np.float32)
    relevance = numbers[:, 0] + 0.6 * np.abs(numbers[:, 1]) + 0.4 * numbers[:, 2] * numbers[:, 3]
    codes = {}
    for name, (n_levels, spread) in LEVELS.items():
        share = 1.0 / np.arange(1, n_levels + 1)
        codes[name] = rng.choice(n_levels, n_rows, p=share / share.sum())
        relevance += spread * rng.normal(size=n_levels)[codes[name]]
    pair = [LEVELS[name][0] for name in TOGETHER]
    effect = TOGETHER_SPREAD * rng.normal(size=pair)
    relevance += effect[tuple(codes[name] for name in TOGETHER)] + rng.normal(0, NOISE, n_rows)
    columns: dict[str, Any] = {
        "label": np.searchsorted(np.quantile(relevance, GRADES), relevance).astype(float),
        "qid": np.repeat(np.arange(n_rows // N_DOCUMENTS), N_DOCUMENTS),
    }
    columns |= {f"x{number}": numbers[:, number] for number in range(N_NUMBERS)}
    for name, of_rows in codes.items():
        words = np.array([f"{name} {rng.integers(1 << 30)}" for _ in range(LEVELS[name][0])])
        columns[name] = pd.Series(words[of_rows], dtype=object)
        columns[name][rng.random(n_rows) < MISSING] = None
    frame = pd.DataFrame(columns)
    bounds = n_queries * N_DOCUMENTS, n_queries * 4 // 3 * N_DOCUMENTS
    cut = (frame.iloc[: bounds[0]], frame.iloc[bounds[0] : bounds[1]], frame.iloc[bounds[1] :])
    return Parts(*cut)


def _features(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns=["label", "qid"])


def _sizes(frame: pd.DataFrame) -> NDArray[Any]:
    return np.unique(frame["qid"], return_counts=True)[1]


def as_numbers(parts: Parts) -> Parts:
    """The same frames with the codes of categories, by sorted levels of the first, as numbers."""
    known = from_frame(parts.train, categorical=list(LEVELS)).levels_by_name
    places = {n: {level: k for k, level in enumerate(known[n])} for n in LEVELS}
    return Parts(
        *(
            part.assign(**{n: part[n].map(places[n]).astype(float) for n in LEVELS})
            for part in parts
        )
    )


def fit_ours(seed: int, parts: Parts, objective: str, **options: Any) -> Score:
    """A ranker of ours; where categories are numbers, it is not told that they are any."""
    named = [n for n in LEVELS if parts.train[n].dtype == object]
    train, valid = (from_frame(part, categorical=named) for part in parts[:2])
    ranker = Ranker(
        objective, n_estimators=MOST_TREES, learning_rate=RATE, early_stopping_rounds=PATIENCE,
        eval_metric=METRIC, categorical=named, random_state=seed, n_jobs=THREADS, **options,
    )  # fmt: skip
    ranker.fit(train, valid=valid)
    return ranker.predict


def fit_lightgbm(seed: int, parts: Parts) -> Score:
    """LightGBM on pandas Categoricals, which it takes by their type, or on numbers."""
    lightgbm = import_peer("lightgbm")
    named = [name for name in LEVELS if parts.train[name].dtype == object]
    levels = {name: sorted(parts.train[name].dropna().unique()) for name in named}

    def prepared(frame: pd.DataFrame) -> pd.DataFrame:
        words = {n: frame[n].where(frame[n].isin(known)) for n, known in levels.items()}
        typed = {name: pd.Categorical(words[name], known) for name, known in levels.items()}
        return _features(frame).assign(**typed)

    train = lightgbm.Dataset(prepared(parts.train), parts.train["label"], group=_sizes(parts.train))
    valid = lightgbm.Dataset(
        prepared(parts.valid), parts.valid["label"], group=_sizes(parts.valid), reference=train
    )
    settings = {
        "objective": "lambdarank", "learning_rate": RATE, "metric": "ndcg", "eval_at": 10,
        "seed": seed, "num_threads": THREADS, "verbosity": -1,
    }  # fmt: skip
    stopping = lightgbm.early_stopping(PATIENCE, verbose=False)
    booster = lightgbm.train(settings, train, MOST_TREES, valid_sets=[valid], callbacks=[stopping])
    return lambda frame: np.asarray(booster.predict(prepared(frame)), float)


def fit_catboost(seed: int, parts: Parts) -> Score:
    """CatBoost on strings, missing as a string of its own, as it asks for."""
    catboost = import_peer("catboost")

    def pool(frame: pd.DataFrame) -> Any:
        words = {name: frame[name].fillna("missing").astype(str) for name in LEVELS}
        return catboost.Pool(
            _features(frame).assign(**words), frame["label"], group_id=frame["qid"],
            cat_features=list(LEVELS),
        )  # fmt: skip

    model = catboost.CatBoost({
        "loss_function": "YetiRank", "iterations": MOST_TREES, "learning_rate": RATE,
        "eval_metric": "NDCG:top=10;type=Exp", "od_type": "Iter", "od_wait": PATIENCE,
        "use_best_model": True, "random_seed": seed, "thread_count": THREADS, "verbose": False,
        "allow_writing_files": False,
    })  # fmt: skip
    model.fit(pool(parts.train), eval_set=pool(parts.valid))
    return lambda frame: np.asarray(model.predict(pool(frame)), float)


# The trees that LightGBM grows by default.
LIKE_LIGHTGBM = {"max_leaves": 31, "min_samples_leaf": 20, "min_child_weight": 1e-3, "l2": 0.0}
AS_NUMBERS = "codes as numbers"
TITLES: dict[str, Callable[[int, Parts], Score]] = {
    "ours, `yetirank`": lambda seed, parts: fit_ours(seed, parts, "yetirank"),
    "ours, `lambdamart`": lambda seed, parts: fit_ours(seed, parts, "lambdamart"),
    "ours, `lambdamart`, 31 leaves": lambda seed, parts: fit_ours(
        seed, parts, "lambdamart", **LIKE_LIGHTGBM
    ),
    "LightGBM, lambdarank": fit_lightgbm,
    "CatBoost, YetiRank": fit_catboost,
    f"ours, `lambdamart`, 31 leaves, {AS_NUMBERS}": lambda seed, parts: fit_ours(
        seed, parts, "lambdamart", **LIKE_LIGHTGBM
    ),
    f"LightGBM, lambdarank, {AS_NUMBERS}": fit_lightgbm,
}
PEERS = ("LightGBM, lambdarank", "CatBoost, YetiRank")


def measure(n_queries: int) -> str:
    """The section of the report."""
    scores: dict[str, list[Floats]] = {title: [] for title in TITLES}
    tests = []
    for seed in SEEDS:
        parts = make_parts(seed, n_queries)
        tests.append(parts.test)
        for title, fit in TITLES.items():
            given = as_numbers(parts) if AS_NUMBERS in title else parts
            scores[title].append(fit(seed, given)(given.test))
            print(seed, title, flush=True)
    labels = np.concatenate([test["label"] for test in tests])
    group = np.concatenate([_sizes(test) for test in tests])
    joined = {title: np.concatenate(each) for title, each in scores.items()}
    by_peer = {
        peer: compare(
            labels, joined, METRIC, group=group, baseline=peer, alternative="two-sided"
        ).summary(METRIC)
        for peer in PEERS
    }
    rows = []
    for number, title in enumerate(TITLES):
        means = [
            compare(test["label"], {title: own}, METRIC, group=_sizes(test)).summary(METRIC)[0].mean
            for test, own in zip(tests, scores[title], strict=True)
        ]
        found = [by_peer[peer][number] for peer in PEERS]
        cells = [
            "" if row.reference is None else f"{row.difference:+.4f} (p {row.adjusted:.3f})"
            for row in found
        ]
        rows.append([title, *(f"{mean:.4f}" for mean in means), f"{found[0].mean:.4f}", *cells])
    header = ("ranker", *(f"seed {seed}" for seed in SEEDS), "all", *(f"less {p}" for p in PEERS))
    sizes = ", ".join(f"{name} {n_levels}" for name, (n_levels, _) in LEVELS.items())
    return (
        f"NDCG@10 on {n_queries // 3:,} test queries of {N_DOCUMENTS} documents for each of "
        f"{len(SEEDS)} seeds; {n_queries:,} train and as many as for the test stop early. "
        f"{N_NUMBERS} features are numbers and {len(LEVELS)} are strings ({sizes} of them), "
        f"{100 * MISSING:.0f} % missing. At most {MOST_TREES} trees at a rate of {RATE}, all else "
        f"by the defaults of each; '31 leaves' are the trees that LightGBM grows by default (31 "
        f"leaves of at least 20 documents, no l2). Differences are over all test queries, with the "
        f"p-value of a two-sided paired t-test, corrected by Holm (`compare`).\n\n"
        + table(header, rows)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run that is printed only")
    if parser.parse_args().quick:
        print(measure(60))
        return
    report("categories", "Categories", COMMAND, PACKAGES, measure(1500))


if __name__ == "__main__":
    main()
