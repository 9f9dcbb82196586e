"""Figure 1 of Burges (2010): why the forces of RankNet are not those that a ranking needs.

Sixteen documents, two of them relevant. From the first order to the second the relevant ones move
from ranks 1 and 15 to 4 and 10: two pairs fewer are in the wrong order, and NDCG, which looks at
the top, falls. The places are worked out from the caption, which has the numbers of wrong pairs.
Scores are 0.1 apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankgrove.data.dataset import Dataset
from rankgrove.metrics.evaluate import measure_dataset
from rankgrove.objectives.base import Floats

N_DOCUMENTS = 16
STEP = 0.1
# The order that the figure begins with and the one that it ends with, and where each has relevant
# documents.
RELEVANT = {"before": (1, 15), "after": (4, 10)}
# RankNet's forces, and those of LambdaRank.
OBJECTIVES = ("rankmart", "lambdamart")


@dataclass(frozen=True, eq=False)
class RankedList:
    """One of the two orders of the figure.

    Attributes
    ----------
    name
        "before" or "after".
    relevant
        The ranks of the relevant documents.
    data, scores
        One query whose rows stand in rank order, and its scores.
    wrong_pairs, ndcg
        How many pairs are in the wrong order, and NDCG without a cut-off.
    """

    name: str
    relevant: tuple[int, ...]
    data: Dataset
    scores: Floats
    wrong_pairs: int
    ndcg: float

    @property
    def summary(self) -> str:
        """The figures of the caption."""
        return f"{self.wrong_pairs} wrong pairs, NDCG {self.ndcg:.3f}"


def burges_example() -> list[RankedList]:
    """The two orders of the figure.

    >>> [(order.wrong_pairs, round(order.ndcg, 3)) for order in burges_example()]
    [(13, 0.766), (11, 0.441)]
    """
    return [_ranked_list(name, relevant) for name, relevant in RELEVANT.items()]


def _ranked_list(name: str, relevant: tuple[int, ...]) -> RankedList:
    labels = np.zeros(N_DOCUMENTS, np.float32)
    labels[[rank - 1 for rank in relevant]] = 1
    data = Dataset.from_arrays(np.zeros((N_DOCUMENTS, 1)), labels, qid=[name] * N_DOCUMENTS)
    scores = STEP * np.arange(N_DOCUMENTS, dtype=np.float64)[::-1]
    wrong = sum(int((labels[: rank - 1] == 0).sum()) for rank in relevant)
    ndcg = float(measure_dataset(data, scores, "ndcg", n_jobs=1)["ndcg"])
    return RankedList(name, relevant, data, scores, wrong, ndcg)
