"""What a service counts, for Prometheus.

With several workers each keeps its counts in files of a folder that they share, and any of them
answers with the sum of all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from rankgrove.serving.models import ServedModel

# Where prometheus_client looks for the folder that workers share.
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"

_SECONDS = (
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
)  # fmt: skip


class Counters:
    """The counts of one service."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._folder = os.environ.get(SHARED_FOLDER)
        self._registry = CollectorRegistry()
        self.requests = self._make(
            Counter, "requests", "Requests answered.", "model", "route", "code"
        )
        self.request_seconds = self._make(
            Histogram, "request_seconds", "Time from request to answer.", "model", "route",
            buckets=_SECONDS,
        )  # fmt: skip
        self.score_seconds = self._make(
            Histogram, "score_seconds", "Time that scoring took.", "model", buckets=_SECONDS
        )
        self.documents = self._make(Counter, "documents", "Documents scored.", "model")
        self.missing = self._make(
            Counter, "missing_values", "Values that were missing.", "model", "feature"
        )
        self.reloads = self._make(
            Counter, "reloads", "Model files that changed, by what became of them.", "model",
            "result",
        )  # fmt: skip
        self.model_info = self._make(
            Gauge, "model_info", "Which model is served, and by how many workers.", "model",
            "checksum", "version", multiprocess_mode="livesum",
        )  # fmt: skip
        self.shadow_requests = self._make(
            Counter, "shadow_requests", "Requests that a shadow scored as well.", "model",
            "shadow", "result",
        )  # fmt: skip
        self.shadow_order_changes = self._make(
            Counter, "shadow_order_changes", "Requests that the shadow ranks in another order.",
            "model", "shadow",
        )  # fmt: skip
        self.shadow_largest_difference = self._make(
            Gauge, "shadow_largest_difference", "Largest difference of a score since the start.",
            "model", "shadow", multiprocess_mode="max",
        )  # fmt: skip
        self._found: dict[tuple[Any, tuple[str, ...]], Any] = {}
        self._missing_so_far: dict[str, NDArray[np.int64]] = {}
        self._largest: dict[tuple[str, str], float] = {}
        self._feature_names: dict[str, tuple[str, ...]] = {}
        self._shown_models: set[tuple[str, str, str]] = set()

    def _make(self, kind: type[Any], name: str, text: str, *labels: str, **options: Any) -> Any:
        return kind(f"rankgrove_{name}", text, labels, registry=self._registry, **options)

    def add_request(self, model: str, route: str, code: int, seconds: float) -> None:
        """Count a request that was answered, and the time that it took."""
        self._of(self.requests, model, route, str(code)).inc()
        self._of(self.request_seconds, model, route).observe(seconds)

    def add_stranger(self, code: int) -> None:
        """Count a request that never came to a route."""
        self._of(self.requests, "", "other", str(code)).inc()

    def _of(self, metric: Any, *labels: str) -> Any:
        """The count of these labels: Prometheus takes longer to find one than to add to it."""
        found = self._found.get((metric, labels))
        if found is None:
            found = self._found[metric, labels] = metric.labels(*labels)
        return found

    def add_scored(self, served: ServedModel, matrix: NDArray[np.float32], seconds: float) -> None:
        """Count documents, the time that they took and their missing values."""
        name = served.name
        self._of(self.score_seconds, name).observe(seconds)
        self._of(self.documents, name).inc(len(matrix))
        missing = np.isnan(matrix)
        if not missing.any():
            return
        # Added up here and given to Prometheus now and then: that takes a microsecond for each
        # feature, and requests come by the thousand.
        counts = missing.sum(axis=0, dtype=np.int64)
        so_far = self._missing_so_far.get(name)
        self._missing_so_far[name] = counts if so_far is None else so_far + counts
        self._feature_names[name] = served.model.feature_names

    def add_shadow(self, name: str, shadow: str, changed: bool, difference: float) -> None:
        """Count a request that a shadow has scored, and how far it was off."""
        self.shadow_requests.labels(name, shadow, "scored").inc()
        self.shadow_order_changes.labels(name, shadow).inc(int(changed))
        largest = max(difference, self._largest.get((name, shadow), 0.0))
        self._largest[name, shadow] = largest
        self.shadow_largest_difference.labels(name, shadow).set(largest)

    def show_models(self, served: Iterable[ServedModel]) -> None:
        """State which models are served now, and no others."""
        now = {(each.name, each.checksum, each.model.version) for each in served}
        for labels in self._shown_models - now:
            self.model_info.labels(*labels).set(0)
        for labels in now:
            self.model_info.labels(*labels).set(1)
        self._shown_models |= now

    def flush(self) -> None:
        """Give Prometheus what was added up since the last time."""
        waiting, self._missing_so_far = self._missing_so_far, {}
        for model, counts in waiting.items():
            names = self._feature_names[model]
            for feature in counts.nonzero()[0].tolist():
                self.missing.labels(model, names[feature]).inc(int(counts[feature]))

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        self.flush()
        if self._folder is None:
            return generate_latest(self._registry)
        _forget_dead_workers(self._folder)
        shared = CollectorRegistry()
        MultiProcessCollector(shared, path=self._folder)
        return generate_latest(shared)


def _forget_dead_workers(folder: str) -> None:
    """Take away what workers that are gone said of the present."""
    for file in Path(folder).glob("gauge_live*_*.db"):
        number = file.stem.rpartition("_")[2]
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            mark_process_dead(int(number), folder)
        except (PermissionError, ValueError):
            continue
