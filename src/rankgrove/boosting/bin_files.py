"""Files to binned data in two passes: features are never in memory all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.boosting.binned import refuse_infinite
from rankgrove.boosting.features import feature_numbers
from rankgrove.data.blocks import Blocks, Roles, UnforeseenError
from rankgrove.data.checksum import checksum_of_features
from rankgrove.data.dataset import default_feature_names
from rankgrove.data.memory import available_memory, check_memory
from rankgrove.errors import DataError, ParameterError, parameter, whole_number
from rankgrove.trees.binned_data import BinnedData, Cutting
from rankgrove.trees.binning import MAX_BINS, BinnedMatrix, Bins, encode_into, padded_width
from rankgrove.trees.bins_file import FIELDS, Parts, write
from rankgrove.trees.summary import SAMPLE_ROWS, Summary, sampled_rows

StrPath = str | PathLike[str]

# What labels, ids and weights take per row while they are gathered, at most.
_ROLE_BYTES = 48


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
    blocks = Blocks(paths, block_rows=block_rows, n_jobs=n_jobs, **options)
    passes = _Passes(blocks, n_jobs)
    n_rows, width = blocks.n_rows, padded_width(len(blocks.feature_names))
    sample = 0 if model is not None else 8 * min(n_rows, SAMPLE_ROWS) * width
    needed = _ROLE_BYTES * n_rows + max(sample, 0 if out is not None else n_rows * width)
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
        parts = Parts(named, fields["query_ids"], bins, cutting, blocks.feature_names)
        write(out, parts, passes.encode(bins), lambda: passes.checksum)
        return BinnedData.load(out)
    codes = np.empty((n_rows, width), dtype=np.uint8)
    first = 0
    for block in passes.encode(bins):
        codes[first : first + len(block)] = block
        first += len(block)
    return BinnedData(
        matrix=BinnedMatrix.of(codes, bins), bins=bins, cutting=cutting,
        checksum=passes.checksum, feature_names=blocks.feature_names, **fields,
    )  # fmt: skip


def _columns_like(model: BinnedData, paths: Any) -> dict[str, Any]:
    """What has files read with the features of binned data."""
    from rankgrove.data.files import format_of  # noqa: PLC0415 (for the one case)
    from rankgrove.data.places import find_files  # noqa: PLC0415

    if format_of(find_files(paths)[0].path) != "letor":
        return {"features": list(model.feature_names)}
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
        chosen.sort()
        fields, summary = self.gather(chosen, seed)
        counts = {f: counted for f, counted in summary.categories.items() if len(counted[0])}
        for feature, (values, _) in counts.items():
            refuse_infinite(values, self._blocks.feature_names[feature])
        bins = Bins.of(summary._replace(categories=counts), max_bins, self._n_jobs)
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
        rows = None if seed is None else sampled_rows(n_rows, seed)
        n_sampled = 0 if seed is None else n_rows if rows is None else len(rows)
        sample = np.empty((n_sampled, n_features), dtype=np.float32)
        bare: list[Summary] = []
        filled = 0
        for first, block in blocks.read(with_roles=True):
            roles.add(first, block)
            if seed is None:
                continue
            chosen: slice | NDArray[np.int64] = slice(None)
            if rows is not None:
                low, high = np.searchsorted(rows, (first, first + len(block.features)))
                chosen = rows[low:high] - first
            found = Summary.of(block.features, chosen, categorical, self._n_jobs)
            sample[filled : filled + len(found.sample)] = found.sample
            filled += len(found.sample)
            bare = [Summary.joined([*bare, found._replace(sample=found.sample[:0])])]
        fields = roles.fields()
        none = Summary(sample, np.zeros(n_features, dtype=np.bool_), {})
        return fields, bare[0]._replace(sample=sample) if bare else none

    def encode(self, bins: Bins) -> Iterator[NDArray[np.uint8]]:
        """The codes, block by block."""
        total, width = 0, padded_width(len(bins.n_bins))
        for first, block in self._blocks.read():
            numbers = np.arange(first, first + len(block.features))
            total += checksum_of_features(block.features, numbers, self._n_jobs)
            codes = np.zeros((len(block.features), width), dtype=np.uint8)
            encode_into(codes, block.features, bins, self._n_jobs)
            yield codes
        self.checksum = total % (1 << 64)
