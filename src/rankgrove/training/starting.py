"""What an objective trains, by its name: trees, or a network, which brings PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from rankgrove.boosting.parameters import Parameters
from rankgrove.data.documents import Documents
from rankgrove.training.network_parameters import NetworkParameters
from rankgrove.training.run import Run
from rankgrove.training.trainer import TREES, unit_of
from rankgrove.training.trees import start_trees

AnyParameters = Parameters | NetworkParameters

# Networks stand in a higher row and need PyTorch: they go by name, imported when asked for.
_NETWORKS = "rankgrove.neural.training"


def parameters_type(objective: Any) -> type[AnyParameters]:
    """The parameters of training by an objective."""
    return Parameters if unit_of(objective) is TREES else NetworkParameters


def start_run(
    train: Documents, valid: Mapping[str, Documents], parameters: AnyParameters, **options: Any
) -> Run:
    """A run of training that has done nothing yet; with options of `start_trees`, or its twin."""
    if isinstance(parameters, Parameters):
        return start_trees(train, valid, parameters, **options)
    run: Run = import_module(_NETWORKS).start_network(train, valid, parameters, **options)
    return run
