"""Why a section is not there: one sentence for the page to show in its place."""

from __future__ import annotations

from typing import Any

from rankgrove.report.forces import MOST_DOCUMENTS, no_forces
from rankgrove.report.material import Material
from rankgrove.report.reasons import explained

_NO_MODEL = "No candidate is a model: scores and columns do not say what they are made of."


def absent_sections(contents: dict[str, Any], material: Material) -> dict[str, str]:
    """By section, or by part of one, why it is absent."""
    found: dict[str, str] = {}
    if len(material.names) == 1:
        found["verdicts"] = "There is one candidate, and so nothing to compare it with."
    if not contents["slices"]:
        found["slices"] = "No groups of queries were asked for: name some with slices."
    if contents["labels"] is None:
        found["labels"] = "The labels have too many different values to be grades."
    if contents["why"] is None:
        found["why"] = _why_no_reasons(material)
    if contents["features"] is None:
        found["features"] = _NO_MODEL
    if contents["training"] is None:
        found["training"] = _NO_MODEL
    else:
        found |= _missing_training(contents["training"], material)
    if contents["forces"] is None:
        found["forces"] = _why_no_forces(material)
    return found


def _why_no_reasons(material: Material) -> str:
    if not material.models:
        return _NO_MODEL
    if not explained(material):
        return "No candidate has scores that are sums over features: trees on the scores of models."
    return "No reasons were asked for: say of how many queries with why."


def _missing_training(training: dict[str, Any], material: Material) -> dict[str, str]:
    found = {}
    told = [one for one in training["candidates"] if one is not None]
    if not any(one["history"] for one in told):
        found["training.history"] = "No model was validated while it was trained."
    if not training["curves"]:
        found["training.curves"] = (
            "No training or validation data were given: name them with train and valid."
            if material.tree_models
            else "No candidate is a model of trees, which has a curve over its trees."
        )
    return found


def _why_no_forces(material: Material) -> str:
    if not material.tree_models:
        return "No candidate is a model of trees, which forces have led step by step."
    reasons = [no_forces(model) for model in material.tree_models.values()]
    if all(reasons):
        return str(reasons[0])
    return (
        f"No forces were asked for, or no query has documents of different labels and at most "
        f"{MOST_DOCUMENTS} of them."
    )
