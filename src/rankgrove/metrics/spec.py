"""Names of metrics: "ndcg@10", "err(r/4)", "map@100(ties=expected, relevant>=2)".

    metric [+ weight * metric …]   a weighted sum of several, as "ndcg@10 + 0.3*map"
    name [@k] [(argument, …)] [of label]
                                   argument: parameter=value, relevant>=threshold, or a formula

"ndcg@10 of clicks" is that of a further label of the data. Case and blanks do not matter, but in
the name of a label. `str(metric)` is the canonical name: the parameters that differ from the
defaults, in a fixed order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from rankgrove.errors import ParameterError, unknown_name
from rankgrove.metrics.average import MAP
from rankgrove.metrics.base import Metric
from rankgrove.metrics.cascade import ERR, MRR
from rankgrove.metrics.custom import Custom
from rankgrove.metrics.discounted import DCG, NDCG, RBP, ExpDCG, Precision, Recall
from rankgrove.metrics.pairs import PairAccuracy, Tau
from rankgrove.metrics.sums import MetricSum, OfLabel

METRICS: dict[str, type[Metric]] = {
    metric.name: metric
    for metric in (
        NDCG, DCG, MAP, MRR, ERR, Precision, Recall, ExpDCG, RBP,
        PairAccuracy, Tau,
    )
}  # fmt: skip
_BY_ALIAS = METRICS | {alias: metric for metric in METRICS.values() for alias in metric.aliases}

# What each tool computes under the names it shares with us; tests/parity holds these to the
# tools. XGBoost and trec_eval read scores as float32. XGBoost stops at rank 32 if not told.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "lightgbm": {
        "ndcg": {"ties": "stable", "empty": "one"},
        "map": {"ties": "stable", "empty": "one", "norm": "cutoff"},
    },
    "xgboost": {
        "ndcg": {"k": 32, "ties": "stable", "empty": "one"},
        "map": {"k": 32, "ties": "stable", "empty": "one", "norm": "cutoff"},
        "precision": {"k": 32, "ties": "stable", "empty": "zero", "norm": "documents"},
    },
    "catboost": {
        "ndcg": {"ties": "worst", "empty": "one", "gain": "linear"},
        "dcg": {"ties": "worst", "empty": "zero", "gain": "linear"},
        "map": {"ties": "worst", "empty": "zero", "norm": "cutoff"},
        "mrr": {"ties": "worst", "empty": "zero"},
        "err": {"ties": "worst", "empty": "zero", "stop": "linear", "r_max": 1.0},
        "precision": {"ties": "worst", "empty": "zero", "norm": "documents"},
        "recall": {"ties": "worst", "empty": "one"},
    },
    "trec_eval": {
        "ndcg": {"ties": "document_id", "empty": "zero", "gain": "linear"},
        "map": {"ties": "document_id", "empty": "zero"},
        "mrr": {"ties": "document_id", "empty": "zero"},
        "precision": {"ties": "document_id", "empty": "zero"},
        "recall": {"ties": "document_id", "empty": "zero"},
    },
    "sklearn": {
        "ndcg": {"ties": "expected", "empty": "zero", "gain": "linear"},
        "dcg": {"ties": "expected", "empty": "zero", "gain": "linear"},
    },
}

_SPEC = re.compile(r"\s*([a-z_]+)\s*(?:@\s*(\S+?))?\s*(?:\((.*)\))?\s*", re.IGNORECASE | re.DOTALL)
_OF_LABEL = re.compile(r"(.*?[^\s])\s+of\s+([^()]*)", re.IGNORECASE | re.DOTALL)

# A metric: its name, itself, or a function of the labels in rank order; or several with weights.
MetricLike = str | Metric | Callable[..., float] | Mapping[Any, float]


def parse_metric(spec: MetricLike, *, preset: str | None = None) -> Metric:
    """The metric of this name.

    Parameters
    ----------
    spec
        A name as above; a metric, which is returned as it is; a function of the labels in rank
        order; or a mapping of such to weights, which is their weighted sum.
    preset
        A tool whose policies are the defaults: lightgbm, xgboost, catboost, trec_eval or
        sklearn. What the name says itself goes before the preset.

    Examples
    --------
    >>> parse_metric("map@100(ties=expected, relevant>=2)").k
    100
    >>> print(parse_metric("NDCG @ 10", preset="lightgbm"))
    ndcg@10(ties=stable, empty=one)
    >>> print(parse_metric({"ndcg@10": 1, "map of clicks": 0.3}))
    ndcg@10 + 0.3*map of clicks
    """
    if isinstance(spec, Metric):
        return spec
    if isinstance(spec, Mapping):
        return MetricSum.of((parse_metric(each, preset=preset), w) for each, w in spec.items())
    if callable(spec):
        return Custom(function=spec)
    terms = split_arguments(spec, "+") if isinstance(spec, str) else []
    weighted = [split_arguments(term, "*", 1) or [""] for term in terms]
    if len(terms) > 1 or any(len(term) > 1 for term in weighted):
        return MetricSum.of((parse_metric(t[-1], preset=preset), _read_weight(t)) for t in weighted)
    return _parse_one(spec, preset)


def _read_weight(term: list[str]) -> float:
    """The weight of a term of a sum: 1 where none is written."""
    if len(term) == 1:
        return 1.0
    try:
        return float(term[0])
    except ValueError:
        raise ParameterError(
            f"the weight of {term[1]} in a sum of metrics must be a number. Got {term[0]!r}: write "
            f"it as in 0.3*map."
        ) from None


def _parse_one(spec: Any, preset: str | None) -> Metric:
    """The metric of a name that is no sum."""
    if isinstance(spec, str) and (named := _OF_LABEL.fullmatch(spec)):
        return OfLabel(metric=_parse_one(named[1], preset), label=named[2].strip())
    match = _SPEC.fullmatch(spec) if isinstance(spec, str) else None
    if match is None:
        raise ParameterError(
            f"a metric must be named like 'ndcg@10' or 'map@100(ties=expected)'. Got {spec!r}."
        )
    name, cutoff, arguments = match.groups()
    metric = _BY_ALIAS.get(name.lower())
    if metric is None:
        raise unknown_name("metric", name, METRICS)
    parameters = _preset_parameters(metric, preset)
    if cutoff is not None:
        parameters["k"] = _read_cutoff(spec, cutoff)
    for argument in split_arguments(arguments or ""):
        parameters |= _read_argument(metric, argument)
    return metric(**parameters)


def parse_metrics(
    specs: MetricLike | Iterable[MetricLike], *, preset: str | None = None
) -> list[Metric]:
    """As `parse_metric` for one or several; all that cannot be read are reported at once.

    >>> [metric.name for metric in parse_metrics(["ndcg@10", "map"])]
    ['ndcg', 'map']
    """
    metrics, problems = [], []
    for spec in metric_list(specs):
        try:
            metrics.append(parse_metric(spec, preset=preset))
        except ParameterError as error:
            problems.append(f"{spec}: {error}")
    if problems:
        raise ParameterError("\n".join(problems))
    if not metrics:
        raise ParameterError("at least one metric must be named. Got none.")
    return metrics


def metric_list(specs: Any) -> list[Any]:
    """One metric or several, as a list; a mapping of metrics to weights is one."""
    alone = isinstance(specs, (str, Metric, Mapping)) or callable(specs)
    return [specs] if alone or not isinstance(specs, Iterable) else list(specs)


def _preset_parameters(metric: type[Metric], preset: str | None) -> dict[str, Any]:
    if preset is None:
        return {}
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    if metric.name not in PRESETS[preset]:
        known = ", ".join(PRESETS[preset])
        raise ParameterError(f"the preset {preset} must be used with {known}. Got {metric.name}.")
    return dict(PRESETS[preset][metric.name])


def _read_cutoff(spec: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ParameterError(f"the cut-off of {spec!r} must be a whole number. Got {text!r}.")
    return int(text)


def split_arguments(text: str, sign: str = ",", most: int | None = None) -> list[str]:
    """Split at commas, or another sign, outside brackets; at the first ones, if not at all."""
    parts: list[str] = []
    depth, start = 0, 0
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == sign and depth == 0 and len(parts) != most:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part.strip() for part in parts] if text.strip() else []


def _read_argument(metric: type[Metric], argument: str) -> dict[str, Any]:
    names = [field.name for field in fields(metric) if field.name != "k"]
    match = re.fullmatch(r"([A-Za-z_]+)\s*(>=|=)\s*(.+)", argument, re.DOTALL)
    if match is None:
        try:
            parameters = metric.read_positional(argument)
        except ValueError:
            parameters = None
        if parameters is None:
            raise ParameterError(
                f"an argument of {metric.name} must be written as name=value, with a name out "
                f"of {', '.join(names)}. Got {argument!r}."
            )
        return parameters
    name, sign, text = match[1].lower(), match[2], match[3].strip()
    if name not in names:
        raise unknown_name(f"a parameter of {metric.name}", name, names)
    if (sign == ">=") != (name == "relevant"):
        raise ParameterError(
            f"{name} of {metric.name} must be written with "
            f"{'>=' if name == 'relevant' else '='}. Got {argument!r}."
        )
    try:
        return {name: metric.read_parameter(name, text)}
    except ValueError:
        raise ParameterError(f"{name} of {metric.name} must be a number. Got {text!r}.") from None
