"""Files to binned data in two passes: features are never in memory all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.boosting.binned import refuse_infinite
from rankgrove.data.blocks import Blocks, Roles, UnforeseenError
from rankgrove.data.checksum import checksum_of_features
from rankgrove.data.dataset import default_feature_names
from rankgrove.data.documents import feature_numbers
from rankgrove.data.memory import available_memory, check_memory
from rankgrove.errors import DataError, ParameterError, parameter, whole_number
from rankgrove.trees.binned_data import BinnedData, Cutting
from rankgrove.trees.binning import MAX_BINS, BinnedMatrix, Bins, encode_into, padded_width
from rankgrove.trees.bins_file import FIELDS, Parts, write
from rankgrove.trees.summary import SAMPLE_ROWS, Summary, sampled_rows

StrPath = str | PathLike[str]

# What labels, ids and weights take per row while they are gathered, at most.
ROLE_BYTES = 48


def bin_files(
    paths: StrPath | Sequence[StrPath],
    *,
    max_bins: int = MAX_BINS,
    categorical: Sequence[Any] | None = None,
    random_state: int = 0,
    like: BinnedData | StrPath | None = None,
    out: StrPath | None = None,
    block_rows: int | None = None,
    n_jobs: int | None = None,
    **options: Any,
) -> BinnedData:
    """Binned data from files that need not fit into memory as numbers.

    They train the model that `read_data` and the same parameters would have trained, bit for bit.

    Parameters
    ----------
    paths
        A file of any format, a pattern as `train/*.parquet`, whose files are read in the order of
        their names, a URI of Parquet files as `s3://bucket/train/*.parquet`, or several of them.
        The rows of a query must follow each other, maybe from one file into the next.
    max_bins, categorical, random_state
        As the parameters of training, which must be told the first two again.
    like
        Binned data, or their file, whose bins to take: for validation sets.
    out
        A file to write; the codes stay in it, and only a block of them is in memory at a time.
    block_rows
        About how many rows are read at once; the result does not depend on it.
    n_jobs
        Threads.
    options
        Those of `read_data`; there are no document ids.
    """
    whole_number("max_bins", max_bins, 2, MAX_BINS)
    whole_number("random_state", random_state, 0)
    model = BinnedData.load(like) if isinstance(like, (str, PathLike)) else like
    if model is not None and "feature_names" not in options:
        options = options | _columns_like(model, paths)
    elif model is None and not _is_text(paths):
        options = options | {"categorical": categorical}
    blocks = Blocks(paths, block_rows=block_rows, n_jobs=n_jobs, **options)
    passes = _Passes(blocks, n_jobs)
    n_rows, width = blocks.n_rows, padded_width(len(blocks.feature_names))
    sample = 0 if model is not None else 8 * min(n_rows, SAMPLE_ROWS) * width
    needed = ROLE_BYTES * n_rows + max(sample, 0 if out is not None else n_rows * width)
    advice = (
        "use a machine with more memory, or fewer rows or features"
        if out is not None
        else f"write the bins to a file ({parameter('out')}, or 'rankgrove bin'), or use a machine "
        f"with more memory"
    )
    check_memory(needed, available_memory(), advice)
    if model is None:
        fields, bins, cutting = passes.find_bins(max_bins, categorical or (), random_state)
    else:
        fields, _ = passes.gather((), None)
        bins, cutting = model.bins, model.cutting
        if blocks.feature_names != model.feature_names:
            raise DataError(
                f"files must have the features of the binned data, {len(model.feature_names)} in "
                f"the same order. Got {len(blocks.feature_names)} others."
            )
    if out is not None:
        named = {name: fields.get(name) for name in FIELDS}
        parts = Parts(
            named, fields["query_ids"], bins, cutting, blocks.feature_names, blocks.source.levels
        )
        write(out, parts, passes.encode(bins), lambda: passes.checksum)
        return BinnedData.load(out)
    codes = np.empty((n_rows, width), dtype=np.uint8)
    first = 0
    for block in passes.encode(bins):
        codes[first : first + len(block)] = block
        first += len(block)
    return BinnedData(
        matrix=BinnedMatrix.of(codes, bins), bins=bins, cutting=cutting,
        checksum=passes.checksum, feature_names=blocks.feature_names, levels=blocks.source.levels,
        **fields,
    )  # fmt: skip


def _is_text(paths: Any) -> bool:
    """Whether files are LETOR text, and no tables."""
    from rankgrove.data.files import format_of  # noqa: PLC0415 (for the one case)
    from rankgrove.data.places import find_files  # noqa: PLC0415

    return format_of(find_files(paths)[0].path) == "letor"


def _columns_like(model: BinnedData, paths: Any) -> dict[str, Any]:
    """What has files read with the features of binned data, and its levels."""
    if not _is_text(paths):
        return {"features": list(model.feature_names), "categorical": model.levels_by_name}
    named = model.feature_names != default_feature_names(model.n_features)
    return {"feature_names": model.feature_names} if named else {"n_features": model.n_features}


class _Passes:
    """Two readings of the same blocks.

    Attributes
    ----------
    checksum
        Of all features, once they are encoded.
    """

    def __init__(self, blocks: Blocks, n_jobs: int | None) -> None:
        self._blocks, self._n_jobs = blocks, n_jobs
        self.checksum = 0

    def find_bins(
        self, max_bins: int, categorical: Sequence[Any], seed: int
    ) -> tuple[dict[str, Any], Bins, Cutting]:
        """The fields of the data but for features, and how these are to be cut."""
        try:
            chosen = feature_numbers("categorical", categorical, self._blocks.feature_names)
        except ParameterError:
            self._blocks.source.learn()
            chosen = feature_numbers("categorical", categorical, self._blocks.feature_names)
        chosen = sorted({*chosen, *self._blocks.source.levels})
        fields, summary = self.gather(chosen, seed)
        bins = bins_of(summary, self._blocks.feature_names, max_bins, self._n_jobs)
        return fields, bins, Cutting(max_bins, tuple(chosen), seed)

    def gather(
        self, categorical: Sequence[int], seed: int | None
    ) -> tuple[dict[str, Any], Summary]:
        """Read all blocks for their fields and, with a seed, for what bins are found from."""
        try:
            return self._gather(categorical, seed)
        except UnforeseenError:
            self._blocks.source.learn()
            return self._gather(categorical, seed)

    def _gather(
        self, categorical: Sequence[int], seed: int | None
    ) -> tuple[dict[str, Any], Summary]:
        blocks, roles = self._blocks, Roles(self._blocks)
        n_rows, n_features = blocks.n_rows, len(blocks.feature_names)
        gathered = SummaryOfBlocks(n_features, [(0, n_rows)], n_rows, categorical, seed)
        for first, block in blocks.read(with_roles=True):
            roles.add(first, block)
            if seed is not None:
                gathered.add(first, block.features, self._n_jobs)
        return roles.fields(), gathered.summary

    def encode(self, bins: Bins) -> Iterator[NDArray[np.uint8]]:
        """The codes, block by block."""
        total = 0
        for first, block in self._blocks.read():
            codes, checksum = encode_block(block.features, first, bins, self._n_jobs)
            total += checksum
            yield codes
        self.checksum = total % (1 << 64)


class SummaryOfBlocks:
    """What bins are found from, put together from blocks of rows.

    Parameters
    ----------
    n_features
        Of each row.
    stretches
        The rows that blocks will bring, in their order: the first of each stretch, and how many.
    n_rows
        Of all data, of which these may be some.
    categorical, seed
        Features to count the values of, and what the sample is drawn by; None for no sample.
    """

    def __init__(
        self,
        n_features: int,
        stretches: Sequence[tuple[int, int]],
        n_rows: int,
        categorical: Sequence[int],
        seed: int | None,
    ) -> None:
        self._rows = None if seed is None else sampled_rows(n_rows, seed)
        n_sampled = 0
        if seed is not None:
            n_sampled = sum(len(self._sampled(first, n)) for first, n in stretches)
        none = np.empty((0, n_features), dtype=np.float32)
        self._sample = np.empty((n_sampled, n_features), dtype=np.float32)
        self._filled = 0
        self._bare = Summary.of(none, slice(None), categorical)

    def add(self, first_row: int, features: NDArray[np.float32], n_jobs: int | None) -> None:
        """Take in the next rows, which have these numbers from the first one on."""
        chosen = self._sampled(first_row, len(features))
        found = Summary.of(features, chosen, self._bare.categories, n_jobs)
        self._sample[self._filled : self._filled + len(chosen)] = found.sample
        self._filled += len(chosen)
        self._bare = Summary.joined(
            [self._bare, found._replace(features=found.features[:0], sampled=slice(None))]
        )

    @property
    def summary(self) -> Summary:
        return self._bare._replace(features=self._sample)

    def _sampled(self, first_row: int, n_rows: int) -> NDArray[np.int64]:
        """Which of some rows are in the sample."""
        if self._rows is None:
            return np.arange(n_rows)
        low, high = np.searchsorted(self._rows, (first_row, first_row + n_rows))
        return np.asarray(self._rows[low:high] - first_row)


def bins_of(
    summary: Summary, feature_names: Sequence[str], max_bins: int, n_jobs: int | None
) -> Bins:
    """The bins of what was found in all rows; a category must be finite."""
    counts = {f: counted for f, counted in summary.categories.items() if len(counted[0])}
    for feature, (values, _) in counts.items():
        refuse_infinite(values, feature_names[feature])
    return Bins.of(summary._replace(categories=counts), max_bins, n_jobs)


def encode_block(
    features: NDArray[np.float32], first_row: int, bins: Bins, n_jobs: int | None
) -> tuple[NDArray[np.uint8], int]:
    """The codes of rows, and the checksum of their features, which have these numbers."""
    numbers = np.arange(first_row, first_row + len(features))
    codes = np.zeros((len(features), padded_width(len(bins.n_bins))), dtype=np.uint8)
    encode_into(codes, features, bins, n_jobs)
    return codes, checksum_of_features(features, numbers, n_jobs)
