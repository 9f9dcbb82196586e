"""The section `queries`: what each query has, and what it is worth to each candidate."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankgrove.metrics.base import Floats
from rankgrove.report.material import Material, plain_text

# Values are kept as whole numbers of this part: four places, as in all tables.
UNIT = 1e-4


def make_queries(material: Material, texts: list[str] | None) -> dict[str, Any]:
    """One entry per query in each list; values as whole ten-thousandths, None where skipped."""
    data, comparison = material.data, material.comparison
    relevant = np.add.reduceat((data.labels > 0).astype(np.int64), data.offsets[:-1])
    return {
        "unit": UNIT,
        "id": [plain_text(query) for query in data.query_ids.tolist()],
        "text": texts,
        "documents": data.group.tolist(),
        "relevant": relevant.tolist(),
        "weight": None if data.weights is None else data.weights.tolist(),
        "values": {
            metric: [in_units(values) for values in comparison.per_query(metric).values()]
            for metric in comparison.metrics
        },
        "groups": {
            name: {"names": list(slicing.groups), "of": slicing.group_of.tolist()}
            for name, slicing in comparison.slicings.items()
        },
    }


def in_units(values: Floats) -> list[int | None]:
    """Values as whole numbers of `UNIT`, None where there is none."""
    there = np.isfinite(values)
    whole: list[int | None] = np.rint(np.where(there, values, 0.0) / UNIT).astype(np.int64).tolist()
    for query in np.flatnonzero(~there).tolist():
        whole[query] = None
    return whole
