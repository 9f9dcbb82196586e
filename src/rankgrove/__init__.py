"""Rankgrove: learning to rank, from a data file to numbers one can trust."""

from rankgrove.data.dataset import Dataset
from rankgrove.metrics.evaluate import Evaluation, MetricResult, evaluate
from rankgrove.metrics.spec import parse_metric

__version__ = "0.1.0.dev0"

__all__ = ["Dataset", "Evaluation", "MetricResult", "evaluate", "parse_metric"]
