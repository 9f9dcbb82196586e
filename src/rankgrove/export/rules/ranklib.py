"""RankLib's LambdaMART: a text of XML below lines that begin with ##, as in RankLib 2.18.

Features count from 1, all is float32, and a missing value is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from rankgrove.export.rules.walking import Rows, Step, float32_of, walk

NAME = "RankLib 2.18"


def leaf_values(
    text: str, features: NDArray[np.float32], names: Sequence[str]
) -> Iterator[NDArray[np.float32]]:
    """The value of each document's leaf times the weight of its tree, tree by tree."""
    lines = text.splitlines()
    if lines[0].strip() != "## LambdaMART":
        raise ValueError(f"a model that begins with {lines[0]!r}")
    body = "\n".join(line for line in lines if not line.startswith("##"))
    values_of = np.where(np.isnan(features), np.float32(0), features)

    def step(node: ElementTree.Element, rows: Rows) -> Step:
        output = node.findtext("output")
        if output is not None:
            return float(float32_of(output))
        number, threshold = node.findtext("feature"), node.findtext("threshold")
        if number is None or not 1 <= int(number) <= len(names):
            raise ValueError(f"feature {number!r}")
        children = {child.get("pos"): child for child in node.findall("split")}
        goes_left = values_of[rows, int(number) - 1] <= float32_of(threshold)
        return children["left"], children["right"], goes_left

    for tree in ElementTree.fromstring(body).iter("tree"):
        root = tree.find("split")
        yield float32_of(tree.get("weight")) * walk(root, len(features), step, np.float32)


def score(text: str, features: NDArray[np.float32], names: Sequence[str]) -> NDArray[np.float64]:
    """The score of each document: a float32 sum."""
    total = np.zeros(len(features), dtype=np.float32)
    for values in leaf_values(text, features, names):
        total += values
    return total.astype(np.float64)
