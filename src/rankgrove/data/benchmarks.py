"""The public data sets: what is in each, how it is laid out, how to get it, what to check.

None of them is part of Rankgrove: each belongs to its owner, who gives it away under terms of his
own. A directory may hold, in text or packed by gzip or zstd:

    Fold1/ ... Fold5/ with train.txt, vali.txt, test.txt     MSLR-WEB, MQ2007, MQ2008
    S1.txt ... S5.txt, the parts that such folds are made of
    set1.train.txt, set1.valid.txt, set1.test.txt            Yahoo
    train.txt, vali.txt, test.txt                            Istella-S, and any other set
    train.txt, test.txt                                      Istella
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankgrove.data.dataset import Dataset, default_feature_names
from rankgrove.data.joined import join_datasets
from rankgrove.data.letor import read_letor
from rankgrove.errors import DataError, ParameterError, unknown_name

PARTS = ("train", "vali", "test")
N_PARTS = 5  # S1 to S5

# How much of the training queries is cut off for validation where a set comes without.
_VALI_SHARE = 0.2

_WORDS = {"train": "train", "training": "train", "vali": "vali", "valid": "vali",
          "validation": "vali", "val": "vali", "test": "test"}  # fmt: skip
_TEXT = {".txt", ".letor", ".dat", ".svm", ".svmlight", ".libsvm", ""}


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A public data set.

    Attributes
    ----------
    name, title
        What it is called on the command line, and in the tables of Lyzhin et al. 2022.
    features, top_grade
        The number of features, and the highest label.
    queries, documents
        Of train, vali and test: of the first fold, where there are several. Only the sum where the
        parts are not known.
    folds
        How many ways to cut it it comes with.
    files
        What its directory holds.
    source, steps
        Where it is, and what to do there.
    remark
        What is odd about it.
    vali_share
        The share of the training queries that is cut off for validation, if it has none.
    aliases
        Other names that a directory of it may have.
    """

    name: str
    title: str
    features: int
    queries: tuple[int, ...]
    documents: tuple[int, ...]
    files: str
    source: str
    steps: str
    top_grade: int = 4
    folds: int = 1
    remark: str = ""
    vali_share: float = _VALI_SHARE
    aliases: tuple[str, ...] = ()


_MSLR = "https://www.microsoft.com/en-us/research/project/mslr/"
_LETOR_4 = (
    "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"
)
_YAHOO = "https://webscope.sandbox.yahoo.com/catalog.php?datatype=c"
_ISTELLA = "http://quickrank.isti.cnr.it/istella-dataset/"
_FOLDS = "Fold1/ to Fold5/ with train.txt, vali.txt, test.txt"
_UNPACK = "Download the archive, unpack it, and name the directory that has Fold1."
_ASK_YAHOO = (
    "Ask for C14B, 'Learning to Rank Challenge', as a member of a university; unpack ltrc_yahoo."
)
_ASK_ISTELLA = "Accept the licence, download and unpack it; name the directory with train.txt."

BENCHMARKS: dict[str, Benchmark] = {
    one.name: one
    for one in (
        Benchmark(
            name="web10k", title="Web10K", features=136, folds=5, files=_FOLDS,
            queries=(6_000, 2_000, 2_000), documents=(723_412, 235_259, 241_521),
            source=_MSLR, steps=_UNPACK, aliases=("mslrweb10k",),
        ),
        Benchmark(
            name="web30k", title="Web30K", features=136, folds=5, files=_FOLDS,
            queries=(18_919, 6_306, 6_306), documents=(2_270_296, 747_218, 753_611),
            source=_MSLR, steps=_UNPACK, aliases=("mslrweb30k",),
        ),
        Benchmark(
            name="yahoo-s1", title="Yahoo S1", features=699,
            files="set1.train.txt, set1.valid.txt, set1.test.txt",
            queries=(19_944, 2_994, 6_983), documents=(473_134, 71_083, 165_660),
            source=_YAHOO, steps=_ASK_YAHOO, aliases=("yahooset1", "set1"),
            remark="Table 1 of the paper prints 2,944 queries for validation: there are 2,994.",
        ),
        Benchmark(
            name="yahoo-s2", title="Yahoo S2", features=699,
            files="set2.train.txt, set2.valid.txt, set2.test.txt",
            queries=(1_266, 1_266, 3_798), documents=(34_815, 34_881, 103_174),
            source=_YAHOO, steps=_ASK_YAHOO, aliases=("yahooset2", "set2"),
        ),
        Benchmark(
            name="istella", title="Istella", features=220, files="train.txt, test.txt",
            queries=(20_307, 2_912, 9_799), documents=(5_497_064, 1_828_561, 3_129_004),
            source=_ISTELLA, steps=_ASK_ISTELLA, vali_share=2_912 / 23_219,
            aliases=("istellaletor", "istellafull"),
            remark="It has no vali: the paper's cut is not published, so 2,912 of the 23,219 "
            "training queries are taken at random.",
        ),
        Benchmark(
            name="istella-s", title="Istella-S", features=220,
            files="train.txt, vali.txt, test.txt",
            queries=(19_245, 7_211, 6_562), documents=(2_043_304, 684_076, 681_250),
            source=_ISTELLA, steps=_ASK_ISTELLA, aliases=("istellasletor", "istellasample"),
            remark="Table 1 of the paper prints 19,246 training queries: there are 19,245.",
        ),
        Benchmark(
            name="mq2007", title="MQ2007", features=46, top_grade=2, folds=5, files=_FOLDS,
            queries=(1_692,), documents=(69_623,), source=_LETOR_4, steps=_UNPACK,
            remark="Not in the paper. LETOR 4.0; grades 0 to 2.",
        ),
        Benchmark(
            name="mq2008", title="MQ2008", features=46, top_grade=2, folds=5, files=_FOLDS,
            queries=(784,), documents=(15_211,), source=_LETOR_4, steps=_UNPACK,
            remark="Not in the paper. LETOR 4.0; grades 0 to 2.",
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Fold:
    """The files of one way to cut a data set; without `vali` it is cut from train.

    Attributes
    ----------
    number
        From 1.
    files
        For each part the files that make it up.
    """

    number: int
    files: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)


class Split(NamedTuple):
    """The three parts of a fold, all with the same features."""

    train: Dataset
    vali: Dataset
    test: Dataset


def find_folds(directory: str | os.PathLike[str], benchmark: Benchmark | None = None) -> list[Fold]:
    """The folds that a directory holds, by the names of its files; see the module.

    Parameters
    ----------
    directory
        Where the data are.
    benchmark
        Which set to take where there are several, as both of Yahoo's in one directory.

    Raises
    ------
    DataError
        Where none of the layouts is found; it says what was looked for and what is there.
    """
    place = Path(directory)
    if not place.is_dir():
        what = "a file" if place.exists() else "nothing"
        raise DataError(
            f"{place}: must be a directory with a data set. Got {what}: name the directory."
        )
    numbered = ((_fold_number(path), path) for path in place.iterdir() if path.is_dir())
    folders = sorted((number, path) for number, path in numbered if number)
    if folders:
        return [Fold(number, _parts_of(path, None)) for number, path in folders]
    pieces = _pieces(place)
    if pieces:
        return _folds_of_pieces(pieces)
    return [Fold(_fold_number(place.absolute()) or 1, _parts_of(place, benchmark))]


def _fold_number(path: Path) -> int:
    """That of a directory named Fold1, or 0."""
    match = re.fullmatch(r"fold[ _-]?(\d+)", path.name, re.IGNORECASE)
    return int(match[1]) if match else 0


def _pieces(place: Path) -> dict[int, Path]:
    """S1 to S5, if they are there."""
    found: dict[int, Path] = {}
    for path in sorted(place.iterdir()):
        match = re.fullmatch(r"s([1-9])", _stem(path) or "", re.IGNORECASE)
        if match and path.is_file():
            found.setdefault(int(match[1]), path)
    if found and sorted(found) != list(range(1, N_PARTS + 1)):
        names = ", ".join(path.name for path in found.values())
        raise DataError(f"{place}: must have all of S1 to S{N_PARTS}, or none. Got {names}.")
    return found


def _folds_of_pieces(pieces: Mapping[int, Path]) -> list[Fold]:
    """Fold k trains on parts k, k + 1, k + 2, watches k + 3 and tests on k + 4, modulo 5."""
    folds = []
    for first in range(N_PARTS):
        turned = [pieces[(first + step) % N_PARTS + 1] for step in range(N_PARTS)]
        parts = {"train": tuple(turned[:3]), "vali": (turned[3],), "test": (turned[4],)}
        folds.append(Fold(first + 1, parts))
    return folds


def _parts_of(place: Path, benchmark: Benchmark | None) -> dict[str, tuple[Path, ...]]:
    """The files of train, vali and test in one directory; vali may be missing."""
    found: dict[str, list[Path]] = {}
    prefix = benchmark.name[-1] if benchmark and benchmark.name.startswith("yahoo") else None
    for path in sorted(place.iterdir()):
        stem = _stem(path)
        if stem is None or not path.is_file():
            continue
        words = re.split(r"[._ -]+", stem.lower())
        part = next((_WORDS[word] for word in words if word in _WORDS), None)
        if part and (prefix is None or not {"set1", "set2"} & set(words) - {f"set{prefix}"}):
            found.setdefault(part, []).append(path)
    several = [paths for paths in found.values() if len(paths) > 1]
    if several:
        names = " and ".join(path.name for path in several[0])
        raise DataError(
            f"{place}: must have one file a part. Got {names}: keep one data set in a directory, "
            f"or say which by its name, as yahoo-s1."
        )
    if not {"train", "test"} <= found.keys():
        raise DataError(
            f"{place}: must hold Fold1 to Fold{N_PARTS}, S1 to S{N_PARTS}, or files named train, "
            f"vali and test, as train.txt or set1.train.txt.gz. Got {_listing(place)}."
        )
    return {part: tuple(found[part]) for part in PARTS if part in found}


def _stem(path: Path) -> str | None:
    """The name without what says that it is text, and packed; None for other files."""
    name = path.name
    if name.lower().endswith((".gz", ".zst")):
        name = name.rpartition(".")[0]
    stem, suffix = os.path.splitext(name)
    if suffix.lower() in _TEXT:
        return stem
    # Of rank.train, which has no such ending, all of it.
    return name if suffix[1:].lower() in _WORDS else None


def _listing(place: Path, most: int = 8) -> str:
    names = sorted(path.name + ("/" if path.is_dir() else "") for path in place.iterdir())
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) + more) or "an empty directory"


def read_fold(
    fold: Fold, benchmark: Benchmark | None = None, *, seed: int = 0, n_jobs: int | None = None
) -> Split:
    """Read the parts of a fold.

    Parts are brought to the same number of features, as a sparse file does not name the last ones
    if they are 0. Without `vali` a share of the training queries is cut off for it, drawn by the
    seed.
    """
    read = {
        part: _join([read_letor(path, n_jobs=n_jobs) for path in paths])
        for part, paths in fold.files.items()
    }
    known = benchmark.features if benchmark else 0
    widest = max(known, *(data.n_features for data in read.values()))
    read = {part: _widen(data, widest) for part, data in read.items()}
    if "vali" not in read:
        share = benchmark.vali_share if benchmark else _VALI_SHARE
        read["train"], read["vali"] = read["train"].split(1 - share, share, seed=seed)
    return Split(*(read[part] for part in PARTS))


def _join(parts: Sequence[Dataset]) -> Dataset:
    """The queries of several files one after the other."""
    widest = max(part.n_features for part in parts)
    return join_datasets([_widen(part, widest) for part in parts])


def _widen(data: Dataset, n_features: int) -> Dataset:
    missing = n_features - data.n_features
    if missing <= 0:
        return data
    zeros = np.zeros((data.n_documents, missing), dtype=np.float32)
    names = default_feature_names(n_features)
    return replace(data, features=np.hstack([data.features, zeros]), feature_names=names)


def recognise(directory: str | os.PathLike[str]) -> Benchmark | None:
    """The set that the name of a directory says, or None.

    >>> recognise("data/MSLR-WEB10K").name, recognise("data/Istella_S").name, recognise("mine")
    ('web10k', 'istella-s', None)
    """
    path = Path(directory).absolute()
    for part in (path.name, path.parent.name):
        plain = re.sub(r"[^a-z0-9]", "", part.lower())
        for one in BENCHMARKS.values():
            if plain in (re.sub(r"[^a-z0-9]", "", one.name), *one.aliases):
                return one
    return None


def find_benchmark(name: str) -> Benchmark:
    """The set of this name; an unknown one is refused with the nearest."""
    if name.lower() not in BENCHMARKS:
        raise unknown_name("a data set", name, BENCHMARKS)
    return BENCHMARKS[name.lower()]


def check_sizes(benchmark: Benchmark, fold: int, split: Split) -> list[str]:
    """How what was read differs from what the set is known to have, a sentence each.

    Of a fold other than the first only the sums are known.
    """
    parts: Iterable[Any] = split
    sizes = [(part.n_queries, part.n_documents, part.n_features) for part in parts]
    said = []
    features = sizes[0][2]
    if features != benchmark.features:
        said.append(f"{features} features in place of {benchmark.features}")
    if split.train.labels.max() > benchmark.top_grade:
        said.append(f"labels up to {split.train.labels.max():g} in place of {benchmark.top_grade}")
    # How the training data are cut where there is no vali is not part of the set.
    by_part = fold == 1 and len(benchmark.queries) == len(PARTS) and benchmark.name != "istella"
    for at, what in enumerate(("queries", "documents")):
        known = getattr(benchmark, what)
        found = [size[at] for size in sizes]
        if by_part:
            pairs = zip(PARTS, found, known, strict=True)
            said += [f"{f:,} {what} of {part} in place of {k:,}" for part, f, k in pairs if f != k]
        elif sum(found) != sum(known):
            said.append(f"{sum(found):,} {what} in all in place of {sum(known):,}")
    return said


def choose_folds(folds: Sequence[Fold], wanted: Iterable[int] | None) -> list[Fold]:
    """The folds of these numbers, or all; one that is not there is refused."""
    if wanted is None:
        return list(folds)
    by_number = {fold.number: fold for fold in folds}
    chosen = list(dict.fromkeys(wanted))
    if absent := [number for number in chosen if number not in by_number]:
        known = ", ".join(map(str, by_number))
        raise ParameterError(f"folds must be out of {known}. Got {absent[0]}.")
    if not chosen:
        raise ParameterError("folds must name at least one fold. Got none.")
    return [by_number[number] for number in chosen]
