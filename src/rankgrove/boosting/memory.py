"""What training on binned data takes of memory, by the formula of docs/large-data.md."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rankgrove.boosting.binned import keeps_columns
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.documents import Documents
from rankgrove.data.memory import available_memory, size_in_words
from rankgrove.trees.binned_data import BinnedData
from rankgrove.trees.binning import BLOCK, SparseLayout, padded_width
from rankgrove.trees.sparse import common_codes

# Scores, forces, curvatures, packed sums, row numbers, and what a step needs for a while.
ROW_BYTES = 72
# Scores and rankings of a document of a validation set.
_VALID_BYTES = 24
# A code of a sparse feature that is kept: its cell by row, and row and code by feature.
OTHER_BYTES = 9
# Sums of a histogram: 256 codes of 16 features.
_BLOCK_BYTES = 256 * BLOCK * 8

MEMORY_ADVICE = (
    "use a machine with more memory, layout='rows' if it is not in use, or fewer rows: take some "
    "of the queries"
)


def training_memory(
    train: BinnedData, valid: Mapping[str, Documents], parameters: Parameters
) -> int:
    """The bytes that training takes besides what the data have in memory already.

    Codes that are in a file are not counted: the system may forget them, and read them again.
    """
    width, n_rows = padded_width(train.n_features), train.n_documents
    n_leaves = parameters.resolve(train.shard.n_documents).trees.max_leaves
    kept = min(n_leaves, n_rows // 512 + 1) + 2
    needed = (
        n_rows * (_bytes_of_codes(train, parameters) + ROW_BYTES)
        + kept * (width // BLOCK) * _BLOCK_BYTES
    )
    for data in valid.values():
        codes = 0 if isinstance(data, BinnedData) else width
        needed += data.n_documents * (codes + _VALID_BYTES)
    return needed


def _bytes_of_codes(train: BinnedData, parameters: Parameters) -> int:
    """What is made of the codes of a row: a copy by feature, or the form of sparse features."""
    width, copies = padded_width(train.n_features), int(keeps_columns(parameters, train))
    matrix = train.matrix
    if train.in_file or matrix.others is not None:
        return copies * int(matrix.codes.shape[1])
    common, share = common_codes(matrix.codes)
    layout = SparseLayout.of(common, share, matrix.features)
    if layout is None:
        return copies * width
    others = math.fsum(1 - share[matrix.slots[layout.sparse]])
    return (1 + copies) * layout.width + math.ceil(OTHER_BYTES * others) + 8


def codes_text(train: Documents, valid: Mapping[str, Documents], parameters: Parameters) -> str:
    """What to say of codes in files that do not fit into memory besides; nothing if they do."""
    if not isinstance(train, BinnedData):
        return ""
    several = [train, *valid.values()]
    codes = sum(d.codes_bytes for d in several if isinstance(d, BinnedData) and d.in_file)
    if training_memory(train, valid, parameters) + codes <= available_memory():
        return ""
    return (
        f"The codes in files, {size_in_words(codes)}, do not fit into memory besides: they are "
        f"read again for every split, which is slow."
    )
