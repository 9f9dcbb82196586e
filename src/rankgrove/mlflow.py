"""Models in MLflow: saved, logged and loaded as a flavour of its own, and scored as a pyfunc.

What is stored is the model file, which runs no code: nothing is pickled. Scores have the bits of
`predict`.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from rankgrove._version import __version__
from rankgrove.errors import need_extra
from rankgrove.model.base import Floats, ScoringModel, load

FLAVOR_NAME = "rankgrove"
_FILE = "model.safetensors"
_FOLDER = "data"


def save_model(
    model: ScoringModel,
    path: str | PathLike[str],
    *,
    mlflow_model: Any = None,
    signature: Any = None,
    pip_requirements: Any = None,
    **options: Any,
) -> None:
    """Write a model as a folder that MLflow knows.

    Parameters
    ----------
    model
        Whatever `rankgrove.load` gives.
    path
        A folder that is not there yet.
    mlflow_model, signature, pip_requirements
        As in MLflow's own flavours. By default the signature has the features of the model by
        name, and what is required is this version of Rankgrove.
    options
        What `mlflow.pyfunc.save_model` takes besides, as `metadata` and `input_example`.
    """
    pyfunc = _mlflow("pyfunc")
    described = _mlflow("models").Model() if mlflow_model is None else mlflow_model
    described.add_flavor(FLAVOR_NAME, rankgrove_version=__version__, data=f"{_FOLDER}/{_FILE}")
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / _FILE
        model.save(file)
        pyfunc.save_model(
            path=str(path),
            loader_module=__name__,
            data_path=str(file),
            mlflow_model=described,
            signature=signature_of(model) if signature is None else signature,
            pip_requirements=pip_requirements or [f"rankgrove=={__version__}"],
            **options,
        )


def log_model(model: ScoringModel, name: str = "model", **options: Any) -> Any:
    """Log a model to the run that is active, and to the registry with `registered_model_name=`.

    Parameters
    ----------
    model, name
        The model, and what it is called in the run.
    options
        What `mlflow.models.Model.log` and `save_model` take besides.
    """
    flavor = sys.modules[__name__]
    return _mlflow("models").Model.log(None, flavor, name=name, model=model, **options)


def load_model(model_uri: str) -> ScoringModel:
    """The model of a folder or of an address as `runs:/…/model` and `models:/ranker/3`."""
    folder = _mlflow("artifacts").download_artifacts(artifact_uri=str(model_uri))
    return load(Path(folder) / _FOLDER / _FILE)


def signature_of(model: ScoringModel) -> Any:
    """The features by name, a string where categories are strings; one score per row."""
    types, models = _mlflow("types"), _mlflow("models")
    words = {
        feature for feature, levels in model.schema.levels.items() if isinstance(levels[0], str)
    }
    inputs = [
        types.ColSpec("string" if number in words else "double", name, required=number not in words)
        for number, name in enumerate(model.feature_names)
    ]
    output = types.TensorSpec(np.dtype(np.float64), (-1,))
    return models.ModelSignature(types.Schema(inputs), types.Schema([output]))


class _Scores:
    """What MLflow calls as a pyfunc."""

    def __init__(self, model: ScoringModel) -> None:
        self._model = model

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Floats:
        """The score of each row."""
        return self._model.predict(data)


def _load_pyfunc(path: str) -> _Scores:
    """The pyfunc of a model file, as MLflow asks for it by name."""
    return _Scores(load(path))


def _mlflow(part: str) -> Any:
    try:
        return import_module(f"mlflow.{part}")
    except ImportError as error:
        raise need_extra("mlflow-skinny", "mlflow", "a model in MLflow") from error
