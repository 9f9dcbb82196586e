"""Rankgrove: learning to rank, from a data file to numbers one can trust.

The public names. Each is imported on first use, so that `import rankgrove` costs next to nothing:
Numba alone takes a quarter of a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankgrove._version import __version__ as __version__

if TYPE_CHECKING:
    from rankgrove.boosting.bin_files import bin_files
    from rankgrove.card import model_card
    from rankgrove.data.dataset import Dataset
    from rankgrove.data.files import read_data, write_data
    from rankgrove.data.frames import from_frame, read_table, to_frame, write_table
    from rankgrove.data.letor import read_letor, write_letor
    from rankgrove.data.synthetic import make_web_search
    from rankgrove.estimators.mart import MARTClassifier, MARTRegressor
    from rankgrove.estimators.ranker import Ranker
    from rankgrove.experiments.combine.combine import Combination, combine, combine_two
    from rankgrove.experiments.compare.compare import Comparison, compare
    from rankgrove.experiments.compare.gap import Gap, generalisation_gap
    from rankgrove.experiments.cross_validation import CrossValidation, cross_validate
    from rankgrove.experiments.optimality import is_local_maximum
    from rankgrove.experiments.tune.tune import Tuned, tune
    from rankgrove.importing.check import ImportCheck, check_import
    from rankgrove.importing.importer import import_model
    from rankgrove.metrics.evaluate import Evaluation, MetricResult, evaluate
    from rankgrove.metrics.spec import parse_metric
    from rankgrove.model.base import ScoringModel, load
    from rankgrove.model.combined import CombinedModel
    from rankgrove.model.model import Model
    from rankgrove.model.scorer import Scorer
    from rankgrove.neural.estimators import LambdaRank, RankNet
    from rankgrove.objectives.check import check_objective
    from rankgrove.trees.binned_data import BinnedData

__all__ = [
    "BinnedData",
    "Combination",
    "CombinedModel",
    "Comparison",
    "CrossValidation",
    "Dataset",
    "Evaluation",
    "Gap",
    "ImportCheck",
    "LambdaRank",
    "MARTClassifier",
    "MARTRegressor",
    "MetricResult",
    "Model",
    "RankNet",
    "Ranker",
    "Scorer",
    "ScoringModel",
    "Tuned",
    "bin_files",
    "check_import",
    "check_objective",
    "combine",
    "combine_two",
    "compare",
    "cross_validate",
    "evaluate",
    "from_frame",
    "generalisation_gap",
    "import_model",
    "is_local_maximum",
    "load",
    "make_web_search",
    "model_card",
    "parse_metric",
    "read_data",
    "read_letor",
    "read_table",
    "to_frame",
    "tune",
    "write_data",
    "write_letor",
    "write_table",
]

_HOMES = {
    "boosting.bin_files": ("bin_files",),
    "card": ("model_card",),
    "data.dataset": ("Dataset",),
    "data.files": ("read_data", "write_data"),
    "data.frames": ("from_frame", "read_table", "to_frame", "write_table"),
    "data.letor": ("read_letor", "write_letor"),
    "data.synthetic": ("make_web_search",),
    "estimators.mart": ("MARTClassifier", "MARTRegressor"),
    "estimators.ranker": ("Ranker",),
    "experiments.combine.combine": ("Combination", "combine", "combine_two"),
    "experiments.compare.compare": ("Comparison", "compare"),
    "experiments.cross_validation": ("CrossValidation", "cross_validate"),
    "experiments.compare.gap": ("Gap", "generalisation_gap"),
    "experiments.optimality": ("is_local_maximum",),
    "experiments.tune.tune": ("Tuned", "tune"),
    "importing.check": ("ImportCheck", "check_import"),
    "importing.importer": ("import_model",),
    "metrics.evaluate": ("Evaluation", "MetricResult", "evaluate"),
    "metrics.spec": ("parse_metric",),
    "model.base": ("ScoringModel", "load"),
    "model.combined": ("CombinedModel",),
    "model.model": ("Model",),
    "model.scorer": ("Scorer",),
    "neural.estimators": ("LambdaRank", "RankNet"),
    "objectives.check": ("check_objective",),
    "trees.binned_data": ("BinnedData",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
