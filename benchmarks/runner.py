"""Fits of variants of base models on the real data sets, and what studies call them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.study import (
    STOP_SHARE,
    Job,
    Store,
    Study,
    Variant,
    in_one_list,
    is_default,
    jobs_of,
)

N_FOLDS, MOST_TREES, RATE, PATIENCE = 5, 500, 0.05, 50
TOGETHER = "together"


def option(factor: str, **values: Any) -> Variant:
    return Variant(factor, ", ".join(f"{name}={value!r}" for name, value in values.items()), values)


def label(variant: Variant) -> str:
    """The whole of a variant in one line."""
    if variant.first_seed:
        return f"`{variant.factor}` {variant.title}"
    return f"{TOGETHER}: `{variant.title}`" if variant.factor == TOGETHER else f"`{variant.title}`"


class Runner:
    """Fits variants of base models in a pool, and makes studies of what the store then has.

    With `over_seeds`, errors of the studies have the variance over seeds in them.
    """

    def __init__(
        self, store: Store, folds: Mapping[str, int], seeds: Sequence[int], most: int,
        run: Callable[[Iterable[Job], Store], None], *, over_seeds: bool = False,
    ) -> None:  # fmt: skip
        self.store, self.folds, self.seeds, self.most, self.run = store, folds, seeds, most, run
        self.over_seeds = over_seeds
        self.common = {
            "n_estimators": most, "learning_rate": RATE, "early_stopping_rounds": PATIENCE,
        }  # fmt: skip

    def studies(
        self, bases: Mapping[str, Mapping[str, Any]], variants: Mapping[str, Sequence[Variant]]
    ) -> dict[str, Study]:
        """A study of each base model with its variants."""
        full = {title: {**self.common, **base} for title, base in bases.items()}
        jobs = [
            job
            for title, base in full.items()
            for variant in (Variant("the", "defaults"), *variants[title])
            if variant.factor == "the" or not is_default(variant, base)
            for job in in_one_list(jobs_of(base, variant, self.folds, self.seeds))
        ]
        self.run(jobs, self.store)
        return {
            title: Study(self.folds, variants[title], self.seeds, self.store, base, quiet=True,
                         over_seeds=self.over_seeds)
            for title, base in full.items()
        }  # fmt: skip

    def how(self, counts: str = "NDCG@10") -> str:
        """What all pages say of the fits, and of what counts."""
        errors = (
            "The standard errors are those over queries. That another training set, or another "
            "seed, would have given another model comes on top: the lines where only the seed "
            "differs show how much of it is the seed's."
        )
        if self.over_seeds:
            errors = (
                "Base and variants have the same seeds. The standard error of a difference has two "
                "parts, whose squares are added: over queries, of the means over seeds, and over "
                "seeds, each of which draws other queries to stop by."
            )
        return (
            f"Models have at most {self.most} trees at a rate of {RATE} and stop when "
            f"NDCG@10 has not improved for {PATIENCE} trees on {100 * STOP_SHARE:.0f} % of the "
            f"training queries, which are drawn by the seed and not trained on. All else "
            f"is at the defaults. What counts is {counts} on the validation queries of each of "
            f"{max(self.folds.values())} folds, mean over "
            f"{len(self.seeds)} seed{'s' * (len(self.seeds) > 1)}; no fold's "
            f"test part is read. But what one fold validates on is the test part of another, "
            f"and mslr-sample and lightgbm-rank are cut into folds anew, with the queries that "
            f"benchmarks/quality.py tests on. So what is chosen by this page has seen those "
            f"queries, and a test on the same data sets would flatter it.\n\n{errors}"
        )
