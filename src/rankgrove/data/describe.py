"""What is in a Dataset: sizes, labels, missing values, constant features, repeated documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove._jit import as_input, kernel, run_chunks
from rankgrove.data.dataset import Dataset
from rankgrove.data.sparse_features import Features, SparseFeatures, dense_blocks
from rankgrove.pictures import html, svg
from rankgrove.pictures.chart import Axis, Bars, Chart, Panel

# More distinct labels than this are measurements rather than grades.
MAX_GRADES = 32
_QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_CHUNK_ROWS = 4096

# Bit patterns of float32.
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_NAN = np.uint32(0x7FC00000)
_ZERO = np.uint32(0)


@dataclass(frozen=True)
class QueryLengths:
    """How many documents the queries have.

    Attributes
    ----------
    min, median, mean, p90, max
        Of the number of documents of a query; p90 is the 90th percentile.
    histogram
        Tuples (from, to, queries): that many queries have from `from` to `to` documents. The
        bins are 1, 2 to 3, 4 to 7, 8 to 15 and so on, from the shortest to the longest query.
    """

    min: int
    median: float
    mean: float
    p90: float
    max: int
    histogram: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class FeatureSummary:
    """One feature: counts over all documents, and its finite values.

    Attributes
    ----------
    name
        Its name.
    missing, infinite, zeros
        Documents where it is NaN, infinite, zero.
    min, max, mean
        Of its finite values; None where it has none.
    levels
        Of categories that are no numbers, how many there are; None otherwise. Such a feature has
        no zeros, and no min, max and mean.
    """

    name: str
    missing: int
    infinite: int
    zeros: int
    min: float | None
    max: float | None
    mean: float | None
    levels: int | None = None


@dataclass(frozen=True)
class Description:
    """What `describe` finds; `str()` gives a page for people, `to_dict()` one for programs.

    Attributes
    ----------
    documents, queries, features
        How many.
    distinct_labels
        How many different labels there are.
    grades
        Documents of each label, lowest first; None if there are more than 32 labels.
    label_quantiles
        For some shares, the lowest label that at least this share of the documents is at or below.
    lengths
        The number of documents of the queries.
    queries_without_relevant
        Queries whose labels are all 0 or less; most metrics are not defined for them.
    queries_with_one_document, queries_with_equal_labels
        Queries that no ranking gets wrong; the first are among the second.
    missing_share
        Share of NaN among all values.
    missing_features
        For each feature with missing values, in how many documents; most first.
    constant_features
        Features with the same value in every document; NaN counts as a value.
    duplicates
        Documents whose features all equal those of an earlier one, in whatever query; NaN equals
        NaN and -0.0 equals 0.0.
    contradictions
        Of these, those whose label differs from that of an equal earlier one of their query.
    per_feature
        A summary of each feature.
    """

    documents: int
    queries: int
    features: int
    distinct_labels: int
    grades: dict[float, int] | None
    label_quantiles: dict[float, float]
    lengths: QueryLengths
    queries_without_relevant: int
    queries_with_one_document: int
    queries_with_equal_labels: int
    missing_share: float
    missing_features: dict[str, int]
    constant_features: tuple[str, ...]
    duplicates: int
    contradictions: int
    per_feature: tuple[FeatureSummary, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: labels become text where they are keys, what is not there is None."""
        plain = asdict(self)
        if self.grades is not None:
            plain["grades"] = {_label_text(label): n for label, n in self.grades.items()}
        plain["label_quantiles"] = {str(q): label for q, label in self.label_quantiles.items()}
        plain["lengths"]["histogram"] = [
            {"from": low, "to": high, "queries": n} for low, high, n in self.lengths.histogram
        ]
        plain["constant_features"] = list(self.constant_features)
        plain["per_feature"] = list(plain["per_feature"])
        return plain

    def _repr_html_(self) -> str:
        return "\n".join(_html_parts(self))

    def __str__(self) -> str:
        return "\n".join([*_label_lines(self), "", *_query_lines(self), "", *_value_lines(self)])


@kernel
def canonical(bits):
    """The bits of a float32, the same for values that count as equal."""
    magnitude = bits & _MAGNITUDE
    if magnitude == _ZERO:
        return _ZERO
    return _NAN if magnitude > _INFINITY else bits


@kernel
def summarise_rows(
    values, bits, first_row, keys, missing, infinite, zeros, differs, lows, highs, sums, hashes
):
    """Sum up some rows by feature, and hash each row.

    IN: `bits` are `values` seen as integers, and `first_row` those of the first row of all; `keys`
    are odd random multipliers, one per feature.
    OUT: counts and extremes by feature, cleared before, and hashes by row.
    """
    for row in range(len(values)):
        digest = np.uint64(0)
        for feature in range(values.shape[1]):
            raw = bits[row, feature]
            value = values[row, feature]
            magnitude = raw & _MAGNITUDE
            finite = magnitude < _INFINITY
            missing[feature] += magnitude > _INFINITY
            infinite[feature] += magnitude == _INFINITY
            zeros[feature] += magnitude == _ZERO
            same = canonical(raw)
            differs[feature] |= same != canonical(first_row[feature])
            # Comparisons with NaN are false, so it touches neither extreme.
            lows[feature] = value if finite and value < lows[feature] else lows[feature]
            highs[feature] = value if finite and value > highs[feature] else highs[feature]
            sums[feature] += np.float64(value) if finite else 0.0
            digest += np.uint64(same) * keys[feature]
        hashes[row] = digest


@kernel
def same_row(bits, one, other):
    for feature in range(bits.shape[1]):
        if canonical(bits[one, feature]) != canonical(bits[other, feature]):
            return False
    return True


@kernel
def find_leaders(bits, order, starts, ends, leaders):
    """The first row that equals each row, among rows with equal hashes.

    IN: `order[starts[g]:ends[g]]` are the rows of hash group g, rising; reordered as scratch.
    OUT: leaders, by row.
    """
    for group in range(len(starts)):
        start = starts[group]
        distinct = 0
        for place in range(start, ends[group]):
            row = order[place]
            leader = row
            for k in range(start, start + distinct):
                if same_row(bits, order[k], row):
                    leader = order[k]
                    break
            leaders[row] = leader
            if leader == row:
                # Leaders gather at the front of the group, on places already read.
                order[start + distinct] = row
                distinct += 1


def describe(data: Dataset, n_jobs: int | None = None) -> Description:
    """Sum up a Dataset: what to look at before training on it.

    >>> data = Dataset.from_arrays([[1.0], [2.0], [2.0]], [0, 1, 0], qid=[5, 6, 6])
    >>> found = describe(data)
    >>> found.grades, found.queries_without_relevant, found.duplicates, found.contradictions
    ({0.0: 2, 1.0: 1}, 1, 1, 1)
    """
    features = data.features
    labels = as_input(data.labels, np.float32)
    summaries, constant, hashes = _summarise(features, data.feature_names, n_jobs)
    summaries = tuple(
        FeatureSummary(s.name, s.missing, 0, 0, None, None, None, len(data.levels[feature]))
        if feature in data.levels
        else s
        for feature, s in enumerate(summaries)
    )
    duplicates, contradictions = _find_duplicates(features, hashes, labels, data.group)
    values, counts = np.unique(labels, return_counts=True)
    grades = dict(zip(values.tolist(), counts.tolist(), strict=True))
    lowest = np.minimum.reduceat(labels, data.offsets[:-1])
    highest = np.maximum.reduceat(labels, data.offsets[:-1])
    quantiles = np.quantile(labels, _QUANTILES, method="inverted_cdf")
    gaps = {feature.name: feature.missing for feature in summaries if feature.missing}
    return Description(
        documents=data.n_documents,
        queries=data.n_queries,
        features=data.n_features,
        distinct_labels=len(values),
        grades=grades if len(values) <= MAX_GRADES else None,
        label_quantiles=dict(zip(_QUANTILES, quantiles.tolist(), strict=True)),
        lengths=_lengths(data.group),
        queries_without_relevant=int((highest <= 0).sum()),
        queries_with_one_document=int((data.group == 1).sum()),
        queries_with_equal_labels=int((lowest == highest).sum()),
        missing_share=sum(gaps.values()) / max(1, features.size),
        missing_features=dict(sorted(gaps.items(), key=lambda gap: -gap[1])),
        constant_features=constant,
        duplicates=duplicates,
        contradictions=contradictions,
        per_feature=summaries,
    )


def _summarise(
    features: Features, names: tuple[str, ...], n_jobs: int | None
) -> tuple[tuple[FeatureSummary, ...], tuple[str, ...], NDArray[np.uint64]]:
    """The summary of each feature, the names of the constant ones, the hash of each row."""
    n_rows, n_features = features.shape
    first_row = as_input(features[0], np.float32).view(np.uint32)
    keys = np.random.default_rng(0).integers(2**63, size=n_features, dtype=np.uint64) * 2 + 1
    n_chunks = -(-n_rows // _CHUNK_ROWS)
    hashes = np.empty(n_rows, dtype=np.uint64)
    parts: list[tuple[NDArray[Any], ...]] = [()] * n_chunks

    def task(chunk: int) -> None:
        # Arrays of its own: rows of shared ones would have threads write to one cache line.
        missing, infinite, zeros = np.zeros((3, n_features), dtype=np.int64)
        differs = np.zeros(n_features, dtype=np.bool_)
        lows = np.full(n_features, np.inf, dtype=np.float32)
        highs = np.full(n_features, -np.inf, dtype=np.float32)
        sums = np.zeros(n_features)
        parts[chunk] = (missing, infinite, zeros, differs, lows, highs, sums)
        first = chunk * _CHUNK_ROWS
        for block in dense_blocks(features[first : first + _CHUNK_ROWS]):
            values = as_input(block, np.float32)
            bits, into = values.view(np.uint32), hashes[first : first + len(values)]
            summarise_rows(values, bits, first_row, keys, *parts[chunk], into)
            first += len(values)

    run_chunks(task, n_chunks, n_jobs)
    missing, infinite, zeros, differs, lows, highs, sums = map(np.array, zip(*parts, strict=True))
    counts = [part.sum(axis=0).tolist() for part in (missing, infinite, zeros)]
    finite = n_rows - missing.sum(axis=0) - infinite.sum(axis=0)
    # Adding 0.0 turns -0.0 into 0.0: which of the two comes first is no property of the data.
    means = sums.sum(axis=0) / np.maximum(finite, 1)
    figures = [
        [value if n else None for value, n in zip((figure + 0.0).tolist(), finite, strict=True)]
        for figure in (lows.min(axis=0), highs.max(axis=0), means)
    ]
    summaries = tuple(map(FeatureSummary, names, *counts, *figures))
    constant = tuple(names[feature] for feature in np.flatnonzero(~differs.any(axis=0)))
    return summaries, constant, hashes


def _find_duplicates(
    features: Features,
    hashes: NDArray[np.uint64],
    labels: NDArray[np.float32],
    lengths: NDArray[np.int64],
) -> tuple[int, int]:
    """How many rows equal an earlier one, and how many of them contradict one of their query."""
    ordered = np.sort(hashes)
    if not (ordered[1:] == ordered[:-1]).any():
        return 0, 0
    order = np.argsort(hashes, kind="stable")
    bounds = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1], [True]]))
    shared = np.flatnonzero(np.diff(bounds) > 1)
    leaders = np.arange(len(hashes))
    groups = bounds[shared], bounds[shared + 1]
    if isinstance(features, SparseFeatures):
        _find_sparse_leaders(features, order, groups, leaders)
    else:
        bits = as_input(features, np.float32).view(np.uint32)
        find_leaders(bits, order, *groups, leaders)
    repeats = np.flatnonzero(leaders != np.arange(len(hashes)))
    rows = np.union1d(repeats, leaders[repeats])
    rows = rows[np.argsort(leaders[rows], kind="stable")]
    # Equal rows of a query are neighbours now, a run. Past the first change of label, every row of
    # a run has an earlier one that it contradicts.
    runs = np.stack([leaders[rows], np.repeat(np.arange(len(lengths)), lengths)[rows]])
    begins = np.append(True, (runs[:, 1:] != runs[:, :-1]).any(axis=0))
    labels = labels[rows]
    n_changes = np.cumsum(~begins & np.append(False, labels[1:] != labels[:-1]))
    before_run = n_changes[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    return len(repeats), int(np.sum(n_changes > before_run))


def _find_sparse_leaders(
    features: SparseFeatures,
    order: NDArray[np.int64],
    groups: tuple[NDArray[np.int64], NDArray[np.int64]],
    leaders: NDArray[np.int64],
) -> None:
    """As `find_leaders`: rows are equal that store the same in the same columns."""
    for start, end in zip(*groups, strict=True):
        first_rows: dict[tuple[bytes, bytes], int] = {}
        for row in order[start:end].tolist():
            stored = slice(features.starts[row], features.starts[row + 1])
            # (0 for -0.)
            values = features.values[stored] + np.float32(0)
            bits = np.where(np.isnan(values), _NAN, values.view(np.uint32))
            counts = bits != np.float32(features.absent).view(np.uint32)
            key = features.columns[stored][counts].tobytes(), bits[counts].tobytes()
            leaders[row] = first_rows.setdefault(key, row)


def _lengths(sizes: NDArray[np.int64]) -> QueryLengths:
    powers = np.frexp(sizes.astype(np.float64))[1] - 1
    histogram = tuple(
        (1 << power, (2 << power) - 1, int((powers == power).sum()))
        for power in range(int(powers.min()), int(powers.max()) + 1)
    )
    return QueryLengths(
        min=int(sizes.min()),
        median=float(np.median(sizes)),
        mean=float(sizes.mean()),
        p90=float(np.quantile(sizes, 0.9)),
        max=int(sizes.max()),
        histogram=histogram,
    )


def _label_text(label: float) -> str:
    return np.format_float_positional(np.float32(label), trim="-")


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0.0 %"


def _label_lines(found: Description) -> Iterator[str]:
    yield f"{found.documents} documents, {found.queries} queries, {found.features} features"
    yield ""
    if found.grades is None:
        yield f"{found.distinct_labels} different labels, too many to list; their quantiles:"
        for share, label in found.label_quantiles.items():
            yield f"  {100 * share:5.0f} %  {_label_text(label)}"
        return
    yield "label   documents"
    for label, count in found.grades.items():
        yield f"{_label_text(label):>5}  {count:10}  {_percent(count, found.documents):>7}"


def _query_lines(found: Description) -> Iterator[str]:
    lengths = found.lengths
    yield (
        f"documents of a query: min {lengths.min}, median {lengths.median:g}, "
        f"mean {lengths.mean:.1f}, p90 {lengths.p90:g}, max {lengths.max}"
    )
    most = max(count for _, _, count in lengths.histogram)
    for low, high, count in lengths.histogram:
        bar = "#" * round(40 * count / most)
        yield f"{low:>7} to {high:<7} {count:8}  {bar}".rstrip()
    for what, count in _odd_queries(found):
        yield f"queries {what}: {count} ({_percent(count, found.queries)})"


def _odd_queries(found: Description) -> list[tuple[str, int]]:
    return [
        ("without a relevant document", found.queries_without_relevant),
        ("with one document", found.queries_with_one_document),
        ("with all labels equal", found.queries_with_equal_labels),
    ]


def _value_lines(found: Description) -> Iterator[str]:
    yield (
        f"missing values: {100 * found.missing_share:.1f} % of all, "
        f"in {len(found.missing_features)} features"
    )
    yield f"constant features: {', '.join(found.constant_features) or 'none'}"
    yield (
        f"repeated documents: {found.duplicates}, of which {found.contradictions} contradict "
        f"the label of an equal one of their query"
    )
    if not found.per_feature:
        return
    rows = [_FEATURE_COLUMNS, *map(_feature_cells, found.per_feature, repeat(found.documents))]
    width = max(len(row[0]) for row in rows)
    yield ""
    for name, low, mean, high, zeros, missing in rows:
        # Levels take the room of the three numbers that such a feature does not have.
        figures = f"{low:>35}" if " levels" in low else f"{low:>11} {mean:>11} {high:>11}"
        yield f"{name:{width}} {figures} {zeros:>8} {missing:>8}"


_FEATURE_COLUMNS = ["feature", "min", "mean", "max", "zero", "missing"]


def _feature_cells(feature: FeatureSummary, documents: int) -> list[str]:
    """The columns of one feature as text."""
    missing = _percent(feature.missing, documents)
    if feature.levels is not None:
        return [feature.name, f"{feature.levels:,} levels", "", "", "-", missing]
    figures = [
        "-" if value is None else format(value, ".5g")
        for value in (feature.min, feature.mean, feature.max)
    ]
    return [feature.name, *figures, _percent(feature.zeros, documents), missing]


def _html_parts(found: Description) -> Iterator[str]:
    """What a notebook shows: sizes, odd things, labels and lengths as bars, and the features."""
    value_lines = [line.partition(": ") for line in _value_lines(found)]
    facts = [
        ["documents", f"{found.documents:,}"],
        ["queries", f"{found.queries:,}"],
        ["features", f"{found.features:,}"],
        *([f"queries {what}", f"{count:,} ({_percent(count, found.queries)})"]
          for what, count in _odd_queries(found)),
        *([name, text] for name, colon, text in value_lines if colon),
    ]  # fmt: skip
    yield html.table((), facts, left=(0, 1))
    yield svg.draw(_bars_of(found))
    cells = [_feature_cells(feature, found.documents) for feature in found.per_feature]
    if cells:
        yield html.folded(f"{found.features:,} features", html.table(_FEATURE_COLUMNS, cells))


def _bars_of(found: Description) -> Chart:
    """How many documents each label has, and how many queries each length."""
    lengths = found.lengths.histogram
    names = [str(low) if low == high else f"{low} to {high}" for low, high, _ in lengths]
    counts = [("queries by their documents", "queries", names, [n for *_, n in lengths])]
    if found.grades is not None:
        labels = [_label_text(label) for label in found.grades]
        counts.insert(0, ("documents by label", "documents", labels, [*found.grades.values()]))
    panels = [
        Panel(
            title, Axis(what, low=0), Axis(names=names, backwards=True),
            [Bars(range(len(numbers)), numbers, lying=True)], 260, 16 + 20 * len(names),
        )
        for title, what, names, numbers in counts
    ]  # fmt: skip
    return Chart(panels, "Labels and lengths of queries")
