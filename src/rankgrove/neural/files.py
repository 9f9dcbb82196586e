"""Files of networks: as those of trees, safetensors with a checksum, and no pickle.

The tensors are `module.*`, the weights by their names in the module, `transform.*`, and `base.*`,
the trees below it, if there are any. The metadata are those of a model of trees, and:

    format        rankgrove.network
    architecture  JSON: n_inputs, hidden, activation, dropout; or own, the name of a user's class
    transform     JSON: kind
    base          JSON, if there are trees: parameters, version, notes
    base_schema   JSON: their schema
"""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from rankgrove.errors import DataError, ParameterError
from rankgrove.model.files import (
    AGAIN,
    Arrays,
    CallError,
    apart,
    describe,
    described,
    from_json,
    named_under,
    refuse,
    schema_from_json,
    taken_from,
    to_json,
)
from rankgrove.model.model import Model
from rankgrove.neural.networks import build_network, own_module
from rankgrove.neural.transform import Transform
from rankgrove.training.network_parameters import NetworkParameters
from rankgrove.trees.ensemble import Ensemble

if TYPE_CHECKING:
    from rankgrove.neural.model import NetworkModel

_OWN = "own"
_LAYERS = ("hidden", "activation", "dropout")
_KINDS = {torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8}
_WIDEST, _DEEPEST = 1 << 24, 1000


def network_to_file(model: NetworkModel) -> tuple[dict[str, str], Arrays]:
    """The metadata and arrays of a network."""
    metadata = describe(model)
    metadata["architecture"] = to_json(_architecture(model))
    metadata["transform"] = to_json({"kind": model.transform.kind})
    arrays = named_under("module", _weights(model.module))
    arrays |= named_under("transform", model.transform.arrays())
    if (base := model.base) is not None:
        metadata["base"] = to_json(
            {"parameters": base.parameters, "version": base.version, "notes": base.notes}
        )
        metadata["base_schema"] = to_json(asdict(base.schema))
        arrays |= named_under("base", base.ensemble.arrays())
    return metadata, arrays


def network_from_file(
    metadata: dict[str, str], arrays: Arrays, module: Any = None
) -> dict[str, Any]:
    """The fields of the model that `network_to_file` wrote."""
    fields = described(metadata)
    schema = fields["schema"]
    transform = _read_transform(metadata, taken_from("transform", arrays))
    if transform.n_features != schema.n_features:
        refuse(f"must have a transform of its {schema.n_features} features. {AGAIN}")
    base = _read_base(metadata, taken_from("base", arrays)) if "base" in metadata else None
    if base is not None and base.feature_names != schema.feature_names:
        refuse(f"must have trees of its own features. Got others. {AGAIN}")
    architecture = from_json(metadata, "architecture")
    is_own = _OWN in architecture
    weights = taken_from("module", arrays)
    # A network is built with weights at random before it gets its own.
    with torch.random.fork_rng():
        if is_own:
            network = _refill(module, str(architecture[_OWN]), transform.n_inputs, weights)
        else:
            network = _rebuild(architecture, transform, weights)
    if module is not None and not is_own:
        raise CallError("module must be left out for a network that has its own. Got one.")
    own = {"module": network.eval(), "transform": transform, "is_own": is_own, "base": base}
    return fields | own


def _architecture(model: NetworkModel) -> dict[str, Any]:
    if model.is_own:
        return {_OWN: type(model.module).__qualname__}
    layers = {name: model.parameters[name] for name in _LAYERS}
    return {"n_inputs": model.transform.n_inputs, **layers}


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


def _read_transform(metadata: dict[str, str], arrays: Arrays) -> Transform:
    kind = from_json(metadata, "transform").get("kind")
    wanted = set(Transform.fit(None, np.zeros((1, 1), np.float32)).arrays())
    if kind not in (None, "quantile", "log1p", "standard") or set(arrays) != wanted:
        refuse(f"must hold a transform. Got another kind or other arrays. {AGAIN}")
    transform = Transform(kind, **arrays)
    transform.check()
    return transform


def _read_base(metadata: dict[str, str], arrays: Arrays) -> Model:
    entry = from_json(metadata, "base")
    wanted = set(Ensemble.from_trees([]).arrays())
    if set(arrays) != wanted or not isinstance(entry.get("parameters"), dict):
        refuse(f"must hold the trees below the network. Got other arrays. {AGAIN}")
    noted = entry.get("notes")
    parameters, notes = apart(entry["parameters"], noted if isinstance(noted, dict) else None)
    schema = schema_from_json(metadata, "base_schema")
    version = str(entry.get("version", "unknown"))
    return Model(Ensemble(**arrays), schema, parameters, {}, version, notes)


def _rebuild(architecture: dict[str, Any], transform: Transform, weights: Arrays) -> nn.Module:
    try:
        layers = {name: architecture[name] for name in _LAYERS}
    except KeyError as error:
        refuse(f"must describe its network. Got no {error}. {AGAIN}")
    NetworkParameters(**layers)
    widths = layers["hidden"]
    if architecture.get("n_inputs") != transform.n_inputs or len(widths) > _DEEPEST:
        refuse(f"must have a network of its own inputs. Got another. {AGAIN}")
    sizes = [transform.n_inputs, *widths, 1]
    n_weights = sum(before * after for before, after in itertools.pairwise(sizes))
    if max(sizes) > _WIDEST or n_weights > sum(array.size for array in weights.values()):
        refuse(f"must hold the weights of its network. Got fewer. {AGAIN}")
    return _filled(build_network(transform.n_inputs, **layers), weights)


def _refill(module: Any, name: str, n_inputs: int, weights: Arrays) -> nn.Module:
    if module is None:
        raise CallError(
            f"module must be given to load the weights of a module of one's own, {name}, as the "
            f"file does not have the module. Got None: pass module=."
        )
    try:
        network = own_module(module, n_inputs)
        return _filled(network, weights)
    except ParameterError as error:
        raise CallError(error.marked) from None
    except DataError as error:
        raise CallError(
            f"module must be the one that the network was trained with, {name}. Got "
            f"{type(network).__qualname__}: {error}"
        ) from None


def _filled(network: nn.Module, weights: Arrays) -> nn.Module:
    """A network with these weights, by name."""
    expected = network.state_dict()
    if expected.keys() != weights.keys():
        odd = sorted(expected.keys() ^ weights.keys())[0]
        raise DataError(f"weights must be those of the network. Got one too many or few: {odd!r}.")
    tensors = {name: torch.from_numpy(weights[name].copy()) for name in expected}
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape or tensor.dtype != expected[name].dtype:
            raise DataError(
                f"weights must have the shapes of the network. Got {tuple(tensor.shape)} of "
                f"{tensor.dtype} for {name!r}."
            )
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise DataError(f"weights must be finite. Got others in {name!r}.")
    network.load_state_dict(tensors)
    return network
