"""What a student is trained by: read by the command line, too, so nothing heavy is imported."""

from __future__ import annotations

from typing import Any

# What a student is trained by where nothing else is said. docs/distil.md has the measurements.
STUDENT_DEFAULTS: dict[str, Any] = {
    "grower": "leafwise",
    "max_leaves": 31,
    "n_estimators": 300,
    "learning_rate": 0.1,
    "early_stopping_rounds": 50,
}
# The objective of a student: a teacher's constant per query changes nothing.
OBJECTIVE = "queryrmse"
# What the scores of the teacher decide, and so nobody else.
HELD = ("objective", "metric", "eval_metric", "constraints")
