"""Made-up web search data whose best possible ranking is known.

Randomness is a hash of (seed, stream, query, document, column): no state, so a query has the
same bits for any number of threads and of queries. The kernels use only + - * / sqrt,
comparisons and integers, whose results IEEE 754 fixes, so the bits are the same on any machine.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import chunk_queries, kernel, run_chunks
from rankgrove._jit.hashing import draw_bits, finalise
from rankgrove.data.dataset import Dataset
from rankgrove.data.queries import offsets_of
from rankgrove.errors import ParameterError, is_number, is_whole_number

# The shares of grades 0 to 4 in MSLR-WEB10K, to which the labels are calibrated.
GRADE_SHARES = (0.52, 0.32, 0.13, 0.02, 0.01)

_SCORE, _COUNT, _TAIL, _LEVEL, _SPARSE, _MISSING, _QUERY, _COPY = range(8)
_KIND_NAMES = ("score", "count", "tail", "level", "sparse", "missing", "query", "copy")

# The columns that the signal reads; `signal_of` knows them by position.
_SIGNAL_KINDS = (
    *(_SCORE, _COUNT, _TAIL, _TAIL, _SCORE, _COUNT, _LEVEL),
    *(_LEVEL, _QUERY, _QUERY, _SPARSE, _SPARSE, _MISSING, _MISSING),
)
_N_SIGNAL = len(_SIGNAL_KINDS)
_COPIED = tuple(column for column, kind in enumerate(_SIGNAL_KINDS) if kind != _QUERY)
# What follows them, again and again: three columns in ten copy a signal column, the others are
# noise in the guise of each kind.
_FILLER_KINDS = (
    *(_COPY, _SCORE, _COUNT, _COPY, _SPARSE),
    *(_TAIL, _COPY, _LEVEL, _MISSING, _QUERY),
)
_MIN_FEATURES = _N_SIGNAL + 2

# Log-normal with this deviation of the logarithm gives MSLR-WEB10K's range: 1 to about 900.
_LENGTH_SPREAD = 0.6
_CALIBRATION_QUERIES = 8192
_CALIBRATION_DOCUMENTS = 16
_CHUNK_DOCUMENTS = 8192

_U11, _U16, _U32, _U48 = (np.uint64(n) for n in (11, 16, 32, 48))
_LOW_16 = np.uint64(0xFFFF)
_LOW_32 = np.uint64(0xFFFFFFFF)

# Places of a stream that are no columns: past any column number.
_FACTOR, _LABEL_NOISE, _LENGTH = 1 << 40, 1 << 41, 1 << 42
_RICHNESS, _DIFFICULTY, _DOCUMENTS = 1 << 43, 1 << 44, 1 << 45
_DATA_STREAM, _CALIBRATION_STREAM = 1, 2


@kernel
def uniform(bits):
    """In the open interval (0, 1), from the upper 53 bits."""
    return (np.float64(np.int64(bits >> _U11)) + 0.5) * (1.0 / 9007199254740992.0)


@kernel
def quick_normal(bits):
    """Mean 0, deviation 1, within ±3.47: the sum of four 16-bit uniforms."""
    total = (bits & _LOW_16) + ((bits >> _U16) & _LOW_16) + ((bits >> _U32) & _LOW_16)
    total += bits >> _U48
    return (np.float64(np.int64(total)) - 131070.0) * (1.7320508075688772 / 65536.0)


@kernel
def smooth_normal(key, place):
    """Mean 0, deviation 1, log-concave, within ±6: the sum of twelve 32-bit uniforms."""
    total = -6.0
    for k in range(6):
        bits = draw_bits(key, place + k)
        total += (np.float64(np.int64(bits & _LOW_32)) + 0.5) * (1.0 / 4294967296.0)
        total += (np.float64(np.int64(bits >> _U32)) + 0.5) * (1.0 / 4294967296.0)
    return total


@kernel
def exponential(x):
    """e**x by its series, after halving x until that is short."""
    halvings = 0
    while x > 0.5 or x < -0.5:
        x *= 0.5
        halvings += 1
    value = 1.0
    for k in range(14, 0, -1):
        value = 1.0 + x * value / k
    for _ in range(halvings):
        value *= value
    return value


@kernel
def draw_lengths(key, mean, spread, out):
    """Documents of each query: 1 plus a log-normal, rounded at random; `mean` in the mean.

    One query in fifty has a fiftieth of that, as real data have some queries of few documents.
    """
    usual = (mean - 1.0) / (0.98 + 0.02 * 0.02)
    for query in range(len(out)):
        query_key = draw_bits(key, query)
        scale = exponential(spread * smooth_normal(query_key, _LENGTH) - 0.5 * spread * spread)
        if uniform(draw_bits(query_key, _LENGTH + 6)) < 0.02:
            scale *= 0.02
        out[query] = 1 + np.int64(usual * scale + uniform(draw_bits(query_key, _LENGTH + 7)))


@kernel
def draw_value(kind, bits, factor, missing):
    """A value of this kind; the factor of a document ties its columns together."""
    if kind == _SCORE:
        return 3.0 + 0.5 * factor + 0.8660254037844386 * quick_normal(bits)
    if kind == _COUNT:
        scale = 1.0 + 0.25 * factor
        return np.float64(np.int64(4.0 * scale * scale * (1.0 / math.sqrt(uniform(bits)) - 1.0)))
    if kind == _TAIL:
        return 20.0 / math.sqrt(uniform(bits))
    if kind == _LEVEL:
        share = uniform(bits)
        return np.float64(np.int64(6.0 * share * math.sqrt(share)))
    if kind == _SPARSE:
        above = uniform(bits) - 0.93
        return 1.0 / math.sqrt(1.0 - above / 0.07) if above > 0.0 else 0.0
    if kind == _MISSING:
        if uniform(finalise(bits)) < missing:
            return np.nan
        return 10.0 + 3.0 * quick_normal(bits)
    return 0.5 + 1.5 * uniform(bits)


@kernel
def fill_document(kinds, sources, query_key, key, missing, row):
    """Draw the columns of one document."""
    factor = quick_normal(draw_bits(key, _FACTOR))
    for column in range(_N_SIGNAL):
        kind = kinds[column]
        stream = query_key if kind == _QUERY else key
        row[column] = draw_value(kind, draw_bits(stream, column), factor, missing)
    # Like BM25, the first column scales with how rare the words of the query are.
    row[0] = np.float64(row[0]) * np.float64(row[8])
    for column in range(_N_SIGNAL, len(row)):
        kind = kinds[column]
        if kind == _COPY:
            value = np.float64(row[sources[column]])
            if value == value:
                row[column] = value * (1.0 + 0.25 * quick_normal(draw_bits(key, column)))
            else:
                row[column] = np.nan
        else:
            stream = query_key if kind == _QUERY else key
            row[column] = draw_value(kind, draw_bits(stream, column), 0.0, missing)


@kernel
def additive_signal(row):
    """The part that one column at a time explains."""
    bm25 = np.float64(row[0]) / np.float64(row[8]) - 3.0
    count = np.float64(row[1])
    signal = 0.45 * bm25 + count / (count + 4.0) - 0.35
    # Neither short nor long is best: a bump, as is the next.
    off = 4.0 * (40.0 / (np.float64(row[2]) + 20.0) - 0.75)
    signal += 1.2 / (1.0 + 4.0 * off * off) - 0.6
    value = (np.float64(row[12]) - 10.0) / 3.0
    signal += 0.9 / (1.0 + 2.0 * value * value) - 0.5 if value == value else -0.2
    signal += 0.4 if np.int64(row[7]) % 2 == 1 else -0.25
    if row[10] > 0.0:
        signal += 1.6 * (1.0 - 0.5 / np.float64(row[10]))
    return signal


@kernel
def interaction_signal(row):
    """The part that no sum over columns explains: exclusive or, product, query-dependent."""
    score = np.float64(row[4]) - 3.0
    # The median of the column is 20 / sqrt(1/2).
    signal = 0.6 if (row[3] > 28.284271) == (score > 0.0) else -0.6
    count = np.float64(row[5])
    signal += 1.6 * (count / (count + 4.0) - 0.35) * score
    level = np.float64(row[6])
    signal += (0.22 if row[9] > 1.0 else -0.3) * (level - 2.0)
    if row[11] > 0.0:
        signal += 1.4 if level >= 2.0 else -1.0
    value = (np.float64(row[13]) - 10.0) / 3.0
    if value == value:
        signal += 0.5 * value if row[8] > 1.25 else -0.5 * value
    return signal


@kernel
def signal_of(row):
    """What the visible columns say of the relevance of a document; the deviation is about 1."""
    return (additive_signal(row) + interaction_signal(row)) / 1.3


@kernel
def fill_queries(
    key, offsets, first, last, kinds, sources, noise, missing, features, signals, latents
):
    """Documents of the queries from `first` to `last`, what is known and what decides the label.

    OUT: features, signals (of the visible columns), latents (with noise and query effects).
    """
    for query in range(first, last):
        query_key = draw_bits(key, query)
        richness = 0.6 * smooth_normal(query_key, _RICHNESS)
        if uniform(draw_bits(query_key, _RICHNESS + 6)) < 0.03:
            richness -= 2.5
        ratio = noise * exponential(0.5 * smooth_normal(query_key, _DIFFICULTY))
        # Signal and noise share a variance of 1, so that hard queries have no more high grades.
        reliability = 1.0 / math.sqrt(1.0 + ratio * ratio)
        for row in range(offsets[query], offsets[query + 1]):
            document_key = draw_bits(query_key, _DOCUMENTS + row - offsets[query])
            fill_document(kinds, sources, query_key, document_key, missing, features[row])
            signals[row] = signal_of(features[row])
            disturbance = ratio * smooth_normal(document_key, _LABEL_NOISE)
            latents[row] = richness + reliability * (signals[row] + disturbance)


class _Options(TypedDict, total=False):
    mean_documents: float
    noise: float
    missing: float
    seed: int
    n_jobs: int | None


@overload
def make_web_search(
    n_queries: int = ..., n_features: int = ..., *, best_scores: Literal[False] = ...,
    **options: Unpack[_Options],
) -> Dataset: ...  # fmt: skip


@overload
def make_web_search(
    n_queries: int = ..., n_features: int = ..., *, best_scores: Literal[True],
    **options: Unpack[_Options],
) -> tuple[Dataset, NDArray[np.float64]]: ...  # fmt: skip


def make_web_search(
    n_queries: int = 1000,
    n_features: int = 136,
    *,
    mean_documents: float = 120.0,
    noise: float = 1.0,
    missing: float = 0.3,
    seed: int = 0,
    best_scores: bool = False,
    n_jobs: int | None = None,
) -> Dataset | tuple[Dataset, NDArray[np.float64]]:
    r"""A data set like those of web search, with a ranking that no other can beat.

    Queries have log-normal lengths, but for some with few documents, and five grades with the
    shares of MSLR-WEB10K (52, 32, 13, 2 and 1 percent), but for some with hardly any relevant
    document. The grade of a document is the number of thresholds below

    .. math:: b_q + (s + a_q \varepsilon) / \sqrt{1 + a_q^2},

    where the signal s is a function of the document's features, ε is noise, and richness b_q
    and noise-to-signal ratio a_q differ from query to query. The names of features say their
    kind:

    - ``score_*``: continuous and near normal; ``score_1`` is a weak ranking by itself, as BM25;
    - ``count_*`` and ``tail_*``: heavy-tailed, whole numbers and continuous;
    - ``level_*``: six values;
    - ``sparse_*``: zero in 93 percent of the documents;
    - ``missing_*``: NaN in some; that a value is missing counts in the signal, the value
      behind it does not exist;
    - ``query_*``: the same for all documents of a query;
    - ``copy_*_of_*``: another feature with 25 percent noise;
    - ``noise_*``: of one of the kinds above, without any bearing on the label.

    The signal, which reads the first 14 columns whatever `n_features` is, adds up parts that
    are linear, saturating and non-monotone in one feature, and parts that no sum over features
    explains: an exclusive or, a product, features that matter one way or the other depending
    on the query.

    Parameters
    ----------
    n_queries
        1 or more. The first queries are the same whatever their number.
    n_features
        16 or more.
    mean_documents
        Mean number of documents of a query, 1 or more.
    noise
        Typical ratio of noise to signal in the labels, 0 or more; 0 makes a perfect ranking
        possible.
    missing
        Share of NaN in the features whose kind has some, from 0 to 1.
    seed
        From 0 to 2**64 - 1. The same seed gives the same bits.
    best_scores
        Also return the best scores, one per document.
    n_jobs
        Threads: None and -1 mean all CPUs.

    Returns
    -------
    Dataset, or (Dataset, best scores) with `best_scores`.

    Notes
    -----
    The best scores are the signal s. The noise of a query is independent, of one scale and
    log-concave, so the grades have a monotone likelihood ratio in s: of two documents, the one
    with the higher signal is at least as likely to be the better one as the worse one, whatever
    the two grades and whatever the other grades are. Swapping any pair that is out of
    the order of s therefore never lowers the expectation of NDCG, nor of any metric that
    rewards better documents at higher ranks, so no function of the features has a higher one.

    >>> data, best = make_web_search(10, 20, best_scores=True)
    >>> data.n_queries, data.n_features, best.shape == data.labels.shape
    (10, 20, True)
    >>> data.feature_names[0], data.feature_names[14], data.feature_names[15]
    ('score_1', 'copy_15_of_score_1', 'noise_score_16')
    """
    _check("n_queries", n_queries, "an integer", 1)
    _check("n_features", n_features, "an integer", _MIN_FEATURES)
    _check("mean_documents", mean_documents, "a number", 1)
    _check("noise", noise, "a number", 0)
    _check("missing", missing, "a number", 0, 1)
    _check("seed", seed, "an integer", 0, 2**64 - 1)
    lengths = np.empty(n_queries, dtype=np.int64)
    key = _stream_key(int(seed), _DATA_STREAM)
    draw_lengths(key, float(mean_documents), _LENGTH_SPREAD, lengths)
    features, signals, latents, offsets = _draw_documents(
        key, lengths, int(n_features), float(noise), float(missing), n_jobs
    )
    thresholds = _grade_thresholds(float(noise), float(missing))
    data = Dataset(
        features=features,
        labels=np.searchsorted(thresholds, latents).astype(np.float32),
        offsets=offsets,
        query_ids=np.arange(1, n_queries + 1),
        feature_names=_feature_names(int(n_features)),
    )
    return (data, signals) if best_scores else data


@lru_cache(maxsize=64)
def _grade_thresholds(noise: float, missing: float) -> tuple[float, ...]:
    """Where the latent is cut into grades, so that their shares are `GRADE_SHARES`.

    Taken from queries of a stream of its own: the labels of the data then are independent of
    each other given the features, which the claim about the best scores needs.
    """
    lengths = np.full(_CALIBRATION_QUERIES, _CALIBRATION_DOCUMENTS)
    key = _stream_key(0, _CALIBRATION_STREAM)
    _, _, latents, _ = _draw_documents(key, lengths, _N_SIGNAL, noise, missing, n_jobs=1)
    latents.sort()
    places = [int(share * len(latents)) for share in np.cumsum(GRADE_SHARES[:-1])]
    return tuple(latents[places].tolist())


def _draw_documents(
    key: np.uint64,
    lengths: NDArray[np.int64],
    n_features: int,
    noise: float,
    missing: float,
    n_jobs: int | None,
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Features, signals, latents and offsets."""
    offsets = offsets_of(lengths)
    kinds, sources = _columns(n_features)
    features = np.empty((offsets[-1], n_features), dtype=np.float32)
    signals = np.empty(offsets[-1])
    latents = np.empty(offsets[-1])
    bounds = chunk_queries(offsets, _CHUNK_DOCUMENTS)

    def task(chunk: int) -> None:
        fill_queries(
            key, offsets, bounds[chunk], bounds[chunk + 1], kinds, sources, noise, missing,
            features, signals, latents,
        )  # fmt: skip

    run_chunks(task, len(bounds) - 1, n_jobs)
    return features, signals, latents, offsets


def _stream_key(seed: int, stream: int) -> np.uint64:
    # A kernel returns unsigned integers as Python's, which must not go back in as signed ones.
    return np.uint64(draw_bits(np.uint64(finalise(np.uint64(seed))), stream))


def _columns(n_features: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The kind of each column, and for copies the column they copy (else -1)."""
    fillers = np.resize(_FILLER_KINDS, max(0, n_features - _N_SIGNAL))
    kinds = np.concatenate([_SIGNAL_KINDS, fillers]).astype(np.int64)
    sources = np.full(n_features, -1, dtype=np.int64)
    copies = np.flatnonzero(kinds == _COPY)
    sources[copies] = np.resize(_COPIED, len(copies))
    return kinds, sources


def _feature_names(n_features: int) -> tuple[str, ...]:
    kinds, sources = _columns(n_features)
    names: list[str] = []
    for column, (kind, source) in enumerate(zip(kinds, sources, strict=True)):
        name = f"{_KIND_NAMES[kind]}_{column + 1}"
        if source >= 0:
            name = f"{name}_of_{names[source]}"
        elif column >= _N_SIGNAL:
            name = f"noise_{name}"
        names.append(name)
    return tuple(names)


def _check(name: str, value: Any, what: str, low: float, high: float = math.inf) -> None:
    is_right = is_whole_number if what == "an integer" else is_number
    if not is_right(value) or not low <= value <= high or value == math.inf:
        rule = f"{low} or more" if high == math.inf else f"from {low} to {high}"
        raise ParameterError(f"{name} must be {what}, {rule}. Got {value!r}.")
