"""Whether one ranking is better than another, or whether chance would do the same.

All tests are paired: they take one value per query from each side and look at the differences.
What they share:

- A pair with a NaN on either side, a query that a metric skips, is left out, and so is a query
  of weight 0. At least two queries must be left.
- Differences within rounding, 1e-12 of the values, are none.
- Where all differences are 0, p is 1.
- With weights, one per query, means are weighted, as those of `evaluate` are.
- A round of a randomised test is a function of the seed and the number of the round: the same
  bits for any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from rankgrove._jit import as_input, kernel, run_chunks
from rankgrove._jit.hashing import mix
from rankgrove.data.dataset import as_floats
from rankgrove.errors import DataError, whole_number
from rankgrove.experiments.checks import check_one_of, check_share
from rankgrove.metrics.base import Floats
from rankgrove.metrics.evaluate import checked_weights

Alternative = Literal["greater", "less", "two-sided"]
ALTERNATIVES: tuple[str, ...] = get_args(Alternative)

ROUNDS = 10_000

# What rounding may change: of a difference, of a sum, of a spread.
_ROUNDING = 1e-12
# And of the statistic of a round, which rounding moves more as it grows.
_SLACK = 1e-7

_WORD = 64  # differences whose signs are in one hash
_CHUNK_ROUNDS = 512
# Tables of so many words at a time take 4 MB.
_BLOCK_WORDS = 256


class Sample(NamedTuple):
    """Values that are there, with their weights: all above 0, 1 where none were given."""

    values: Floats
    weights: Floats

    @property
    def size(self) -> int:
        return len(self.values)


class Moments(NamedTuple):
    """The mean of a sample, its standard error, and the spread of one value."""

    mean: float
    error: float
    spread: float


def paired_t(
    a: ArrayLike,
    b: ArrayLike,
    alternative: Alternative = "greater",
    *,
    weights: ArrayLike | None = None,
) -> float:
    """The p-value of the paired t-test.

        t = mean(d) / (std(d) / sqrt(n)),  d = a - b,  with n - 1 degrees of freedom

    One-tailed by default, as in the paper's comparisons: small where a is greater than b. With
    weights the standard error is sqrt(sum (w (d - mean))^2 n / (n - 1)) / sum w. Differences that
    are all the same and not 0 leave nothing to chance: p is 0 in their direction.

    >>> round(paired_t([0.4, 0.6, 0.7], [0.3, 0.4, 0.6]), 4)
    0.0286
    >>> paired_t([0.4, 0.6, 0.7], [0.4, 0.6, 0.7])
    1.0
    """
    from scipy.special import stdtr  # noqa: PLC0415 (not to be paid by `import rankgrove`)

    sample = _signed(a, b, alternative, weights)
    mean, error, _ = moments(sample)
    if error == 0.0:
        return 0.0 if mean > 0 or (mean and alternative == "two-sided") else 1.0
    t = mean / error
    if alternative == "two-sided":
        return float(min(1.0, 2 * stdtr(sample.size - 1, -abs(t))))
    return float(stdtr(sample.size - 1, -t))


def randomisation(
    a: ArrayLike,
    b: ArrayLike,
    alternative: Alternative = "greater",
    rounds: int = ROUNDS,
    seed: int = 0,
    n_jobs: int | None = None,
    *,
    weights: ArrayLike | None = None,
) -> float:
    """The p-value of Fisher's randomisation test: how often chance alone does as well.

    If a and b are alike, the sign of each difference is a coin's. Where all 2^n signs are at most
    `rounds`, each is taken once and p is exact, the share of those whose sum is as large as the
    one seen. Otherwise p is (1 + count) / (1 + rounds) over so many draws.

    >>> randomisation([0.4, 0.6, 0.7], [0.3, 0.4, 0.6])
    0.125
    """
    rounds, seed = _check_rounds(rounds, seed)
    sample = _signed(a, b, alternative, weights)
    terms = sample.values * sample.weights
    total = float(np.abs(terms).sum())
    if total == 0.0:
        return 1.0

    def draw(n: int, exact: bool) -> Floats:
        return flipped_sums(terms, n, seed, exact, n_jobs)

    seen, slack = float(terms.sum()), _ROUNDING * total
    return _share_as_large(draw, sample.size, rounds, seen, slack, alternative)


def bootstrap(
    a: ArrayLike,
    b: ArrayLike,
    alternative: Alternative = "greater",
    rounds: int = ROUNDS,
    seed: int = 0,
    n_jobs: int | None = None,
    *,
    weights: ArrayLike | None = None,
) -> float:
    """The p-value of the wild bootstrap of t, corrected for skewness.

        h = t + g t^2 / 3 + g^2 t^3 / 27 + g / 6,  g = sum r^3 / (sum r^2)^(3/2),  r = d - mean(d)

    is Hall's transformation of t, which takes out of it what skewed differences put in. Its
    distribution, where a and b are alike, comes from rounds that give each difference a sign at
    random, all of them where they are at most `rounds`, as in `randomisation`.

    Where differences are symmetric if a and b are alike, false positives are at most as many as
    the level says, for any number of queries. Where they are skewed, the error falls as 1 / n,
    and that of the other tests as 1 / sqrt(n).

    >>> bootstrap([0.4, 0.6, 0.7, 0.9], [0.3, 0.4, 0.6, 0.9])
    0.125
    """
    rounds, seed = _check_rounds(rounds, seed)
    sample = _signed(a, b, alternative, weights)
    if not sample.values.any():
        return 1.0

    def draw(n: int, exact: bool) -> Floats:
        return flipped_statistics(sample, n, seed, exact, n_jobs)

    # That of no flips, by the same code.
    seen = float(draw(1, True)[0])
    slack = 0.0 if math.isinf(seen) else _SLACK * (1 + abs(seen))
    return _share_as_large(draw, sample.size, rounds, seen, slack, alternative)


def _signed(a: ArrayLike, b: ArrayLike, alternative: Any, weights: ArrayLike | None) -> Sample:
    """The differences, with the sign that makes large ones speak for the alternative."""
    check_one_of("alternative", alternative, ALTERNATIVES)
    sample = differences(a, b, weights)
    return sample._replace(values=-sample.values) if alternative == "less" else sample


def _share_as_large(
    draw: Callable[[int, bool], Floats], n: int, rounds: int, seen: float, slack: float,
    alternative: Alternative,
) -> float:  # fmt: skip
    """The p-value of what is seen: the share of rounds in which chance gives as much.

    `draw` gives that of each round; all flips of n signs are taken where they are at most `rounds`.
    """
    exact = n < _WORD and 2**n <= rounds
    drawn = draw(2**n if exact else rounds, exact)
    if alternative == "two-sided":
        drawn, seen = np.abs(drawn), abs(seen)
    count = int((drawn >= seen - slack).sum())
    return count / len(drawn) if exact else (1 + count) / (1 + rounds)


def mean_interval(
    values: ArrayLike, level: float = 0.95, *, weights: ArrayLike | None = None
) -> tuple[float, float]:
    """The confidence interval of a mean by the t distribution: mean -+ t(n - 1) standard error.

    >>> low, high = mean_interval([0.2, 0.4, 0.9])
    >>> round(low, 4), round(high, 4)
    (-0.3957, 1.3957)
    """
    sample = sample_of(values, weights)
    mean, error, _ = moments(sample)
    reach = t_quantile(level, sample.size - 1) * error
    return mean - reach, mean + reach


def bootstrap_interval(
    values: ArrayLike,
    level: float = 0.95,
    rounds: int = ROUNDS,
    seed: int = 0,
    n_jobs: int | None = None,
    *,
    weights: ArrayLike | None = None,
) -> tuple[float, float]:
    """The confidence interval of a mean by the bootstrap (BCa: bias-corrected, accelerated).

    Values that are all the same give an interval of one point.

    >>> low, high = bootstrap_interval([0.2, 0.4, 0.9, 0.5], rounds=999)
    >>> 0.2 < low < 0.5 < high < 0.9
    True
    """
    from scipy.special import ndtr, ndtri  # noqa: PLC0415 (not to be paid by `import rankgrove`)

    check_share("level", level)
    rounds, seed = _check_rounds(rounds, seed)
    sample = sample_of(values, weights)
    mean, error, _ = moments(sample)
    if error == 0.0:
        return mean, mean
    means = drawn_means(sample, rounds, seed, n_jobs)
    below = ((means < mean).sum() + (means <= mean).sum()) / 2
    bias = ndtri(np.clip(below, 0.5, rounds - 0.5) / rounds)
    w, v = sample.weights, sample.values
    others = ((w * v).sum() - w * v) / (w.sum() - w)
    pulls = others.mean() - others
    bend = (pulls**3).sum() / (6 * (pulls**2).sum() ** 1.5)
    tails = bias + ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
    low, high = np.quantile(means, ndtr(bias + tails / (1 - bend * tails)))
    return float(low), float(high)


def holm(p_values: ArrayLike) -> Floats:
    """P-values adjusted for many comparisons, by Holm's step-down method.

    The i-th smallest of m becomes the largest of (m - j + 1) p_j over j up to i, at most 1. To
    reject where the adjusted value is at most the level keeps the chance of even one false
    rejection at the level, whatever depends on what.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = as_floats(p_values, "p-values", np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise DataError(
            f"p-values must be from 0 to 1. Got {p[~((p >= 0) & (p <= 1))][0]:g}: leave out what "
            f"was not tested."
        )
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def effect_size(a: ArrayLike, b: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """Cohen's d of paired values: the mean of the differences over their standard deviation.

    0 where all differences are 0, infinite where they are all the same and not 0.

    >>> round(effect_size([0.4, 0.6, 0.7], [0.3, 0.4, 0.6]), 4)
    2.3094
    """
    mean, _, spread = moments(differences(a, b, weights))
    if spread == 0.0:
        return math.copysign(math.inf, mean) if mean else 0.0
    return mean / spread


def wins_ties_losses(a: ArrayLike, b: ArrayLike) -> tuple[int, int, int]:
    """In how many queries a is above b, equal to it, and below it.

    >>> wins_ties_losses([0.4, 0.6, 0.7], [0.3, 0.6, 0.9])
    (1, 1, 1)
    """
    values = differences(a, b).values
    wins, losses = int((values > 0).sum()), int((values < 0).sum())
    return wins, len(values) - wins - losses, losses


def differences(a: ArrayLike, b: ArrayLike, weights: ArrayLike | None = None) -> Sample:
    """What a has more than b, for queries that have both; 0 where rounding makes the difference."""
    first, second = as_floats(a, "values", np.float64), as_floats(b, "values", np.float64)
    if len(first) != len(second):
        raise DataError(
            f"paired values must be of the same queries. Got {len(first)} and {len(second)}."
        )
    _refuse_infinite(first)
    _refuse_infinite(second)
    values = first - second
    values[np.abs(values) <= _ROUNDING * np.maximum(np.abs(first), np.abs(second))] = 0.0
    return sample_of(values, weights)


def sample_of(values: ArrayLike, weights: ArrayLike | None = None) -> Sample:
    """The values that are there, with their weights; refused if fewer than two are left."""
    array = as_floats(values, "values", np.float64)
    _refuse_infinite(array)
    given = checked_weights("weights", weights, "query", len(array))
    weight = np.ones(len(array)) if given is None else given
    kept = ~np.isnan(array) & (weight > 0)
    if (n_kept := int(kept.sum())) < 2:
        rest = "" if n_kept == len(array) else f" of {len(array)}, as the others have none"
        raise DataError(
            f"at least two queries must have a value to be compared. Got {n_kept}{rest}."
        )
    return Sample(array[kept], weight[kept])


def moments(sample: Sample) -> Moments:
    """The (weighted) mean, its standard error and the standard deviation of a value.

    The errors of values that are all the same are 0 exactly, whatever rounding leaves.
    """
    values, weights, n = sample.values, sample.weights, sample.size
    total = float(weights.sum())
    mean = float((weights * values).sum()) / total
    off = values - mean
    variance = float((weights * off**2).sum()) / total * n / (n - 1)
    spread = math.sqrt(variance)
    if spread <= _ROUNDING * float(np.abs(values).max()):
        return Moments(mean, 0.0, 0.0)
    error = math.sqrt(float(((weights * off) ** 2).sum()) * n / (n - 1)) / total
    return Moments(mean, error, spread)


def t_quantile(level: float, degrees: float) -> float:
    """How many standard errors an interval of this level reaches to either side."""
    from scipy.special import stdtrit  # noqa: PLC0415 (not to be paid by `import rankgrove`)

    check_share("level", level)
    return float(stdtrit(degrees, (1 + level) / 2))


def flipped_sums(
    values: Floats, rounds: int, seed: int, exact: bool, n_jobs: int | None = None
) -> Floats:
    """The sum of the values in each round, with signs by the hash or, if exact, by its number."""
    sums = np.zeros(rounds)
    n_words = -(-len(values) // _WORD)
    padded = np.zeros(n_words * _WORD)
    padded[: len(values)] = values
    for word in range(0, n_words, _BLOCK_WORDS):
        block = padded[word * _WORD : (word + _BLOCK_WORDS) * _WORD].reshape(-1, 8)
        # What eight values add up to under each of the 256 ways to give them signs.
        tables = np.zeros((len(block), 1))
        for column in block.T[:, :, None]:
            tables = np.concatenate([tables + column, tables - column], axis=1)
        tables = as_input(tables, np.float64)
        _run_rounds(sums, n_jobs, _add_flips, tables, np.uint64(seed), exact, word)
    return sums


def _run_rounds(out: Floats, n_jobs: int | None, fill: Callable[..., None], *given: Any) -> None:
    """Have a kernel fill in what each round gives."""

    def task(chunk: int) -> None:
        first = chunk * _CHUNK_ROUNDS
        fill(*given, first, min(first + _CHUNK_ROUNDS, len(out)), out)

    run_chunks(task, -(-len(out) // _CHUNK_ROUNDS), n_jobs)


@kernel
def _add_flips(tables, seed, exact, first_word, first, last, out):
    """Add to each round the sum of a block of values with signs: a set bit is a minus."""
    key = mix(seed)
    for word in range(len(tables) // 8):
        for number in range(first, last):
            bits = np.uint64(number)
            if not exact:
                bits = mix(mix(key + bits) + np.uint64(first_word + word))
            total = 0.0
            for part in range(8):
                total += tables[8 * word + part, np.int64(bits & np.uint64(255))]
                bits = bits >> np.uint64(8)
            out[number] += total


def flipped_statistics(
    sample: Sample, rounds: int, seed: int, exact: bool, n_jobs: int | None = None
) -> Floats:
    """Hall's transformation of t in each round, with signs as those of `flipped_sums`.

    Differences that are all the same have an infinite one of their sign.
    """
    d, w = sample.values, sample.weights
    # Rounding must not depend on the size of weights and differences.
    d, w = d / np.abs(d).max(), w / w.max()
    n = sample.size

    def sums_of(terms: Floats) -> Floats:
        return flipped_sums(terms, rounds, seed, exact, n_jobs)

    first = sums_of(w * d)
    alike = bool((w == w[0]).all())
    second, third = (first, first) if alike else (sums_of(w**2 * d), sums_of(w**3 * d))
    mean = first / w.sum()
    squares = (w**2 * d**2).sum()
    # The sums of (w r)^2 and (w r)^3, r the differences less their mean.
    spread = squares - 2 * mean * second + mean**2 * (w**2).sum()
    cubes = sums_of(w**3 * d**3) - 3 * mean * (w**3 * d**2).sum()
    cubes += 3 * mean**2 * third - mean**3 * (w**3).sum()
    constant = spread <= _ROUNDING * squares
    spread[constant] = 1.0
    t = first / np.sqrt(spread * (n / (n - 1)))
    g = cubes / spread**1.5
    found: Floats = t + g * t**2 / 3 + g**2 * t**3 / 27 + g / 6
    found[constant] = np.copysign(np.inf, mean[constant])
    return found


def drawn_means(sample: Sample, rounds: int, seed: int, n_jobs: int | None = None) -> Floats:
    """The mean of each round's draw with replacement."""
    v, w = sample
    terms = as_input(np.column_stack([w, w * v]), np.float64)
    means = np.empty(rounds)
    _run_rounds(means, n_jobs, _draw_means, terms, np.uint64(seed))
    return means


@kernel
def _draw_means(terms, seed, first, last, out):
    """Draw as many rows as there are, two by each hash, and divide their sums."""
    n = np.uint64(len(terms))
    key = mix(seed)
    for number in range(first, last):
        start = mix(key + np.uint64(number))
        bits = np.uint64(0)
        weight, product = 0.0, 0.0
        for place in range(len(terms)):
            if place & 1:
                bits = bits >> np.uint64(32)
            else:
                bits = mix(start + np.uint64(place >> 1))
            row = np.int64(((bits & np.uint64(0xFFFFFFFF)) * n) >> np.uint64(32))
            weight += terms[row, 0]
            product += terms[row, 1]
        out[number] = product / weight


def _check_rounds(rounds: Any, seed: Any) -> tuple[int, int]:
    return whole_number("rounds", rounds, 1), whole_number("seed", seed, 0, 2**64 - 1)


def _refuse_infinite(values: Floats) -> None:
    if np.isinf(values).any():
        at = int(np.isinf(values).argmax())
        raise DataError(f"values must be finite, or NaN for none. Got {values[at]} at {at}.")
