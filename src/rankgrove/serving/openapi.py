"""The OpenAPI document of a service: its routes, what they take and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankgrove._version import __version__

_NUMBER_OR_NULL = {"type": ["number", "null"]}
_VALUE = {
    "description": "A number, a category, or null where it is missing.",
    "type": ["number", "string", "boolean", "null"],
}
_ID = {"type": ["string", "integer"]}
_ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
_OBJECT = {"type": "object"}


def document(names: Sequence[str]) -> dict[str, Any]:
    """The document of a service with models of these names."""
    name = {
        "name": "name", "in": "path", "required": True,
        "schema": {"type": "string", "enum": list(names)},
    }  # fmt: skip
    rank = _operation("Rank documents.", _RANK_REQUEST, _RANK_ANSWER)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rankgrove scoring service", "version": __version__},
        "paths": {
            "/v2": {"get": _operation("The server and its extensions.")},
            "/v2/health/live": {"get": _operation("Whether the service runs.")},
            "/v2/health/ready": {"get": _operation("Whether it takes requests.")},
            "/v2/models/{name}": {
                "parameters": [name], "get": _operation("Inputs and outputs of a model."),
            },
            "/v2/models/{name}/ready": {
                "parameters": [name], "get": _operation("Whether a model takes requests."),
            },
            "/v2/models/{name}/infer": {
                "parameters": [name],
                "post": _operation("Score a tensor.", _INFER_REQUEST, _INFER_ANSWER),
            },
            "/rank": {"post": rank},
            "/rank/{name}": {"parameters": [name], "post": rank},
            "/models/{name}/schema": {
                "parameters": [name], "get": _operation("Features and parameters of a model."),
            },
            "/metrics": {"get": _operation("Counts for Prometheus.", media_type="text/plain")},
            "/openapi.json": {"get": _operation("This document.")},
        },
    }  # fmt: skip


def _operation(
    summary: str,
    request: dict[str, Any] | None = None,
    answer: dict[str, Any] | None = None,
    media_type: str = "application/json",
) -> dict[str, Any]:
    schema = {"type": "string"} if media_type == "text/plain" else answer or _OBJECT
    responses = {
        "200": {"description": "Done.", "content": {media_type: {"schema": schema}}},
        "default": {
            "description": "Refused; the message says why.",
            "content": {"application/json": {"schema": _ERROR}},
        },
    }
    operation: dict[str, Any] = {"summary": summary, "responses": responses}
    if request is not None:
        content = {"application/json": {"schema": request}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _record(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    """An object with these entries and no others."""
    return {
        "type": "object", "additionalProperties": False, "required": list(required),
        "properties": properties,
    }  # fmt: skip


def _list_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_DOCUMENT = _record(["features"], id=_ID, features={**_OBJECT, "additionalProperties": _VALUE})
_COLUMNS = _record(
    ["columns"], ids=_list_of(_ID), columns={**_OBJECT, "additionalProperties": _list_of(_VALUE)}
)
_RANK_REQUEST = _record(
    ["documents"],
    id={"type": ["string", "integer", "null"]},
    documents={"anyOf": [_list_of(_DOCUMENT), _COLUMNS]},
    top={"type": ["integer", "null"], "minimum": 0},
    explain={"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 1}]},
    absent={"enum": ["error", "missing"]},
    unknown={"enum": ["error", "ignore"]},
)
_REASON = _record(
    ["feature", "value", "contribution"],
    feature={"type": "string"}, value=_VALUE, contribution={"type": "number"},
)  # fmt: skip
_RANKED = _record(
    ["id", "rank", "score"],
    id=_ID, rank={"type": "integer"}, score={"type": "number"}, why=_list_of(_REASON),
)  # fmt: skip
_RANK_ANSWER = _record(
    ["id", "model", "version", "took_ms", "documents"],
    id={"type": ["string", "integer", "null"]}, model={"type": "string"},
    version={"type": "string"}, took_ms={"type": "number"}, documents=_list_of(_RANKED),
)  # fmt: skip
_SHAPE = _list_of({"type": "integer"})
_TYPE = {"enum": ["FP32", "FP64"]}
_INPUT = {
    "type": "object",
    "required": ["name", "shape", "datatype"],
    "properties": {
        "name": {"const": "features"},
        "shape": _SHAPE,
        "datatype": _TYPE,
        "parameters": _OBJECT,
        "data": _list_of({"anyOf": [_NUMBER_OR_NULL, _list_of(_NUMBER_OR_NULL)]}),
    },
}
_INFER_REQUEST = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "id": {"type": "string"},
        "parameters": _OBJECT,
        "inputs": _list_of(_INPUT),
        "outputs": _list_of(
            {"type": "object", "required": ["name"], "properties": {"name": {"const": "score"}}}
        ),
    },
}
_INFER_ANSWER = {
    "type": "object",
    "required": ["model_name", "model_version", "outputs"],
    "properties": {
        "id": {"type": "string"},
        "model_name": {"type": "string"},
        "model_version": {"type": "string"},
        "outputs": _list_of(_OBJECT),
    },
}
