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
    from rankgrove.experiments.displays.curves import plot_learning_curves, plot_shrinkage
    from rankgrove.experiments.displays.features import plot_dependence, plot_importance
    from rankgrove.experiments.displays.forces import (
        plot_burges,
        plot_force_totals,
        plot_forces,
        plot_labels_by_rank,
    )
    from rankgrove.experiments.displays.front import pareto_front, plot_front
    from rankgrove.experiments.displays.losses import plot_pair_loss
    from rankgrove.experiments.displays.paper import plot_relative, plot_train_test
    from rankgrove.experiments.displays.rankings import plot_ranking, plot_scores_by_label
    from rankgrove.experiments.distil.distil import distil
    from rankgrove.experiments.distil.distilled import Distilled
    from rankgrove.experiments.optimality import is_local_maximum
    from rankgrove.experiments.tune.tune import Tuned, tune
    from rankgrove.export.export import Export, export_model
    from rankgrove.export.formats import EXPORT_FORMATS
    from rankgrove.importing.check import ImportCheck, check_import
    from rankgrove.importing.importer import import_model
    from rankgrove.metrics.evaluate import Evaluation, MetricResult, evaluate
    from rankgrove.metrics.spec import parse_metric
    from rankgrove.model.base import ScoringModel, load
    from rankgrove.model.by_label import ForceTotals, LabelsByRank, force_totals, labels_by_rank
    from rankgrove.model.combined import CombinedModel
    from rankgrove.model.forces import ForceField, forces_at, forces_over_trees
    from rankgrove.model.model import Model
    from rankgrove.model.scorer import Scorer
    from rankgrove.neural.estimators import LambdaRank, RankNet
    from rankgrove.objectives.check import check_objective
    from rankgrove.pictures.display import Display
    from rankgrove.report.build import Report, make_report
    from rankgrove.trees.binned_data import BinnedData

__all__ = [  # noqa: RUF022 (in the order of their letters, whatever the case of later ones)
    "BinnedData",
    "Combination",
    "CombinedModel",
    "Comparison",
    "CrossValidation",
    "Dataset",
    "Display",
    "Distilled",
    "EXPORT_FORMATS",
    "Evaluation",
    "Export",
    "ForceField",
    "ForceTotals",
    "Gap",
    "ImportCheck",
    "LabelsByRank",
    "LambdaRank",
    "MARTClassifier",
    "MARTRegressor",
    "MetricResult",
    "Model",
    "RankNet",
    "Ranker",
    "Report",
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
    "distil",
    "evaluate",
    "export_model",
    "force_totals",
    "forces_at",
    "forces_over_trees",
    "from_frame",
    "generalisation_gap",
    "import_model",
    "is_local_maximum",
    "labels_by_rank",
    "load",
    "make_report",
    "make_web_search",
    "model_card",
    "pareto_front",
    "parse_metric",
    "plot_burges",
    "plot_dependence",
    "plot_force_totals",
    "plot_forces",
    "plot_front",
    "plot_importance",
    "plot_labels_by_rank",
    "plot_learning_curves",
    "plot_pair_loss",
    "plot_ranking",
    "plot_relative",
    "plot_scores_by_label",
    "plot_shrinkage",
    "plot_train_test",
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
    "experiments.compare.gap": ("Gap", "generalisation_gap"),
    "experiments.cross_validation": ("CrossValidation", "cross_validate"),
    "experiments.displays.curves": ("plot_learning_curves", "plot_shrinkage"),
    "experiments.displays.features": ("plot_dependence", "plot_importance"),
    "experiments.displays.forces": (
        "plot_burges",
        "plot_force_totals",
        "plot_forces",
        "plot_labels_by_rank",
    ),
    "experiments.displays.front": ("pareto_front", "plot_front"),
    "experiments.displays.losses": ("plot_pair_loss",),
    "experiments.displays.paper": ("plot_relative", "plot_train_test"),
    "experiments.displays.rankings": ("plot_ranking", "plot_scores_by_label"),
    "experiments.distil.distil": ("distil",),
    "experiments.distil.distilled": ("Distilled",),
    "experiments.optimality": ("is_local_maximum",),
    "experiments.tune.tune": ("Tuned", "tune"),
    "export.export": ("Export", "export_model"),
    "export.formats": ("EXPORT_FORMATS",),
    "importing.check": ("ImportCheck", "check_import"),
    "importing.importer": ("import_model",),
    "metrics.evaluate": ("Evaluation", "MetricResult", "evaluate"),
    "metrics.spec": ("parse_metric",),
    "model.base": ("ScoringModel", "load"),
    "model.by_label": ("ForceTotals", "LabelsByRank", "force_totals", "labels_by_rank"),
    "model.combined": ("CombinedModel",),
    "model.forces": ("ForceField", "forces_at", "forces_over_trees"),
    "model.model": ("Model",),
    "model.scorer": ("Scorer",),
    "neural.estimators": ("LambdaRank", "RankNet"),
    "objectives.check": ("check_objective",),
    "pictures.display": ("Display",),
    "report.build": ("Report", "make_report"),
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
