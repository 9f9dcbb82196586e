"""Rankgrove: learning to rank, from a data file to numbers one can trust.

The public names. Each is imported on first use, so that `import rankgrove` costs next to nothing:
Numba alone takes a quarter of a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankgrove._version import __version__ as __version__

if TYPE_CHECKING:
    from rankgrove.boosting.bin_files import bin_files
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
    "experiments.force_pictures": (
        "plot_burges",
        "plot_force_totals",
        "plot_forces",
        "plot_labels_by_rank",
    ),
