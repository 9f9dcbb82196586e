"""The real data sets, read where they are present.

They belong to their owners and are not part of Rankgrove: get them from there, and name the
folder by `--data` or in RANKGROVE_DATA. It holds

    mq2008/S1.txt.gz ... S5.txt.gz           LETOR 4.0 MQ2008
    ohsumed/S1.txt.gz ... S5.txt.gz          LETOR 3.0 OHSUMED, query-level normalised
    mslr-sample/{train,vali,test}.txt.gz     some queries of MSLR-WEB30K
    lightgbm-rank/rank.{train,test}.gz       LightGBM's ranking example, with its .query files
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.common import THREADS
from rankgrove.data.dataset import Dataset
from rankgrove.data.joined import join_datasets
from rankgrove.data.letor import read_letor

VARIABLE = "RANKGROVE_DATA"
# Name, features, and whether it comes as the five parts of which folds are made.
_SETS = {
    "mq2008": (46, True),
    "ohsumed": (45, True),
    "mslr-sample": (136, False),
    "lightgbm-rank": (300, False),
}
_N_FOLDS = 5


class Split(NamedTuple):
    """One way to cut a data set; `vali` is None where it comes without."""

    train: Dataset
    vali: Dataset | None
    test: Dataset

    def with_vali(self) -> tuple[Dataset, Dataset, Dataset]:
        """Train, vali and test; vali is a fifth of the training queries where there is none."""
        if self.vali is not None:
            return self.train, self.vali, self.test
        train, vali = self.train.split(0.8, 0.2)
        return train, vali, self.test


def add_data_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get(VARIABLE),
        help=f"the folder of the real data sets; {VARIABLE} by default",
    )


def read_sets(folder: Path | None) -> dict[str, list[Split]]:
    """The splits of each data set that is present."""
    if folder is None:
        raise SystemExit(
            f"the real data sets must be in a folder. Name it by --data or {VARIABLE}."
        )
    sets = {}
    for name, (n_features, in_parts) in _SETS.items():
        place = Path(folder) / name
        if place.is_dir():
            read = _read_folds if in_parts else _read_split
            sets[name] = read(place, n_features)
    if not sets:
        raise SystemExit(f"{folder} must have a folder of {', '.join(_SETS)}. Got none.")
    return sets


def as_five_folds(splits: Sequence[Split]) -> list[Split]:
    """Five folds of any data set: its own, or all its queries cut into five parts at random."""
    if len(splits) == _N_FOLDS:
        return list(splits)
    parts = [part for part in splits[0] if part is not None]
    return _folds_of(join_datasets(parts).split(*[1 / _N_FOLDS] * _N_FOLDS, seed=0))


def _read_folds(place: Path, n_features: int) -> list[Split]:
    return _folds_of(
        [
            read_letor(place / f"S{number}.txt.gz", n_features=n_features, n_jobs=THREADS)
            for number in range(1, _N_FOLDS + 1)
        ]
    )


def _folds_of(parts: Sequence[Dataset]) -> list[Split]:
    """Fold k trains on parts k, k + 1, k + 2, watches k + 3 and tests on k + 4, modulo 5."""
    turned = [[parts[(k + step) % _N_FOLDS] for step in range(_N_FOLDS)] for k in range(_N_FOLDS)]
    return [Split(join_datasets(five[:3]), five[3], five[4]) for five in turned]


def _read_split(place: Path, n_features: int) -> list[Split]:
    found = {
        part: next(iter(sorted(place.glob(f"*{part}*.gz"))), None)
        for part in ("train", "vali", "test")
    }
    read = {
        part: read_letor(path, n_features=n_features, n_jobs=THREADS)
        for part, path in found.items()
        if path is not None
    }
    return [Split(read["train"], read.get("vali"), read["test"])]
