"""Files of networks: as those of trees, safetensors with a checksum, and no pickle.

The tensors are `module.*`, the weights by their names in the module, `transform.*`, and `base.*`,
the trees below it, if there are any. The metadata are those of a model of trees, and:

    format        rankgrove.network
    architecture  JSON: n_inputs, hidden, activation, dropout; or own, the name of a user's class
    transform     JSON: kind
    base          JSON, if there are trees: parameters, version
    base_schema   JSON: their schema
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rankgrove.errors import DataError, ParameterError
from rankgrove.model.files import (
    AGAIN,
    NETWORK_FORMAT,
    from_json,
    history_from_json,
    history_to_json,
    read_arrays,
    refuse,
    refusing,
    schema_from_json,
    schema_to_json,
    to_json,
    write_arrays,
)
from rankgrove.model.model import Model
from rankgrove.neural.networks import build_network, own_module
from rankgrove.neural.transform import Transform
from rankgrove.training.network_parameters import NetworkParameters
from rankgrove.trees.ensemble import Ensemble

if TYPE_CHECKING:
    from rankgrove.neural.model import NetworkModel

Arrays = dict[str, NDArray[Any]]

_OWN = "own"
_KINDS = {torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8}
_WIDEST, _DEEPEST = 1 << 24, 1000


def write_network(model: NetworkModel, path: str | os.PathLike[str]) -> None:
    """Write a file that appears whole or not at all."""
    metadata = {
        "rankgrove_version": model.version,
        "schema": schema_to_json(model.schema),
        "parameters": to_json(model.parameters),
        "history": history_to_json(model.history),
        "architecture": to_json(_architecture(model)),
        "transform": to_json({"kind": model.transform.kind}),
    }
    arrays = _named("module", _weights(model.module))
    arrays |= _named("transform", model.transform.arrays())
    if model.base is not None:
        base = model.base
        metadata["base"] = to_json({"parameters": base.parameters, "version": base.version})
        metadata["base_schema"] = schema_to_json(base.schema)
        arrays |= _named("base", base.ensemble.arrays())
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    write_arrays(NETWORK_FORMAT, metadata, contiguous, path)


def read_network(path: str | os.PathLike[str], module: Any = None) -> dict[str, Any]:
    """The fields of the model that a file holds."""
    # A network is built with weights at random before it gets its own.
    with torch.random.fork_rng():
        return _read_network(path, module)


def _read_network(path: str | os.PathLike[str], module: Any) -> dict[str, Any]:
    with refusing(path):
        metadata, arrays = read_arrays(NETWORK_FORMAT, path)
        schema = schema_from_json(metadata, "schema")
        transform = _read_transform(metadata, _under("transform", arrays))
        if transform.n_features != schema.n_features:
            refuse(f"must have a transform of its {schema.n_features} features. {AGAIN}")
        base = _read_base(metadata, _under("base", arrays)) if "base" in metadata else None
        if base is not None and base.feature_names != schema.feature_names:
            refuse(f"must have trees of its own features. Got others. {AGAIN}")
        architecture = from_json(metadata, "architecture")
        is_own = _OWN in architecture
        weights = _under("module", arrays)
        network = None if is_own else _rebuild(architecture, transform, weights)
        fields = {
            "transform": transform, "schema": schema, "is_own": is_own, "base": base,
            "parameters": from_json(metadata, "parameters"),
            "history": history_from_json(metadata, "history"),
            "version": metadata.get("rankgrove_version", "unknown"),
        }  # fmt: skip
    if network is None:
        network = _refill(path, module, str(architecture[_OWN]), transform.n_inputs, weights)
    elif module is not None:
        raise ParameterError(f"module must be left out for {os.fspath(path)}, which has its own.")
    return {"module": network.eval(), **fields}


def _architecture(model: NetworkModel) -> dict[str, Any]:
    if model.is_own:
        return {_OWN: type(model.module).__qualname__}
    names = ("hidden", "activation", "dropout")
    own = {name: model.parameters[name] for name in names}
    return {"n_inputs": model.transform.n_inputs, **own}


def _weights(module: nn.Module) -> Arrays:
    found = module.state_dict()
    for name, value in found.items():
        if not isinstance(value, torch.Tensor) or value.dtype not in _KINDS:
            kind = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
            raise ParameterError(
                f"the weights of a module must be of float32, float64, int64, int32 or uint8 to be "
                f"saved. Got {kind} in {name!r}."
            )
    return {name: value.detach().cpu().numpy() for name, value in found.items()}


def _named(part: str, arrays: dict[str, Any]) -> Arrays:
    return {f"{part}.{name}": array for name, array in arrays.items()}


def _under(part: str, arrays: Arrays) -> Arrays:
    start = f"{part}."
    return {name[len(start) :]: a for name, a in arrays.items() if name.startswith(start)}


def _read_transform(metadata: dict[str, str], arrays: Arrays) -> Transform:
    kind = from_json(metadata, "transform").get("kind")
    wanted = set(Transform.fit(None, np.zeros((1, 1), np.float32)).arrays())
    if kind not in (None, "quantile", "log1p", "standard") or set(arrays) != wanted:
        refuse(f"must hold a transform. Got another kind or other arrays. {AGAIN}")
    transform = Transform(kind, **arrays)
    transform.check()
    return transform


def _read_base(metadata: dict[str, str], arrays: Arrays) -> Model:
    noted = from_json(metadata, "base")
    wanted = set(Ensemble.from_trees([]).arrays())
    if set(arrays) != wanted or not isinstance(noted.get("parameters"), dict):
        refuse(f"must hold the trees below the network. Got other arrays. {AGAIN}")
    schema = schema_from_json(metadata, "base_schema")
    version = str(noted.get("version", "unknown"))
    return Model(Ensemble(**arrays), schema, noted["parameters"], {}, version)


def _rebuild(architecture: dict[str, Any], transform: Transform, weights: Arrays) -> nn.Module:
    names = ("hidden", "activation", "dropout")
    try:
        own = {name: architecture[name] for name in names}
    except KeyError as error:
        refuse(f"must describe its network. Got no {error}. {AGAIN}")
    NetworkParameters(**own)
    widths = own["hidden"]
    if architecture.get("n_inputs") != transform.n_inputs or len(widths) > _DEEPEST:
        refuse(f"must have a network of its own inputs. Got another. {AGAIN}")
    sizes = [transform.n_inputs, *widths, 1]
    n_weights = sum(before * after for before, after in itertools.pairwise(sizes))
    if max(sizes) > _WIDEST or n_weights > sum(array.size for array in weights.values()):
        refuse(f"must hold the weights of its network. Got fewer. {AGAIN}")
    network = build_network(transform.n_inputs, widths, own["activation"], own["dropout"])
    _fill(network, weights)
    return network


def _refill(
    path: str | os.PathLike[str], module: Any, name: str, n_inputs: int, weights: Arrays
) -> nn.Module:
    if module is None:
        raise ParameterError(
            f"module must be given to load {os.fspath(path)}, which has the weights of a module of "
            f"one's own, {name}, and not the module. Got None: pass module=."
        )
    network = own_module(module, n_inputs)
    try:
        _fill(network, weights)
    except DataError as error:
        raise ParameterError(
            f"module must be the one that {os.fspath(path)} was trained with, {name}. Got "
            f"{type(network).__qualname__}: {error}"
        ) from None
    return network


def _fill(network: nn.Module, weights: Arrays) -> None:
    """Set the weights of a network, by name."""
    own = network.state_dict()
    if own.keys() != weights.keys():
        odd = sorted(own.keys() ^ weights.keys())[0]
        raise DataError(f"weights must be those of the network. Got one too many or few: {odd!r}.")
    for name, value in own.items():
        given = torch.from_numpy(weights[name].copy())
        if given.shape != value.shape or given.dtype != value.dtype:
            raise DataError(
                f"weights must have the shapes of the network. Got {tuple(given.shape)} of "
                f"{given.dtype} for {name!r}."
            )
        if given.is_floating_point() and not bool(torch.isfinite(given).all()):
            raise DataError(f"weights must be finite. Got others in {name!r}.")
    network.load_state_dict({name: torch.from_numpy(weights[name].copy()) for name in own})
