"""Draws the pictures of docs/forces.md; the same each time.

python tools/draw_forces.py [FOLDER]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from rankgrove import (
    Ranker,
    make_web_search,
    plot_burges,
    plot_force_totals,
    plot_forces,
    plot_labels_by_rank,
)
from rankgrove.pictures.display import Display

IMAGES = Path(__file__).parents[1] / "docs" / "images"

RATES = (0.1, 0.01)
TREES = 300


def pictures() -> Iterator[tuple[str, Display]]:
    """The name of each picture, and the picture."""
    yield "burges", plot_burges()
    train, test = make_web_search(600, 46, mean_documents=30, seed=1).split(0.5, 0.5)
    rankers = {
        f"learning rate {rate:g}": Ranker(
            objective="lambdamart", learning_rate=rate, n_estimators=TREES
        ).fit(train)
        for rate in RATES
    }
    fast = next(iter(rankers.values()))
    query = train.query_ids[4]
    scores = fast.predict(train, n_trees=10)
    yield "forces", plot_forces(train, scores, query=query)
    yield "force-totals", plot_force_totals(rankers, train)
    yield "labels-by-rank", plot_labels_by_rank(rankers, test, [0, 10, 100, TREES])


def main(folder: Path) -> None:
    for name, picture in pictures():
        picture.save(folder / f"{name}.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
