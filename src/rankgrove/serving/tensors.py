"""The Open Inference Protocol, version 2: tensors in, tensors out, as JSON or as bytes.

A request has one input, `features`, FP32 or FP64 of shape [documents, features], by position. An
answer has one output, `score`, FP64 of shape [documents], or FP32 if the request has the parameter
`"datatype": "FP32"`. By the extension `binary_tensor_data` the numbers of a tensor stand as they
are in memory, little-endian, behind the JSON, whose length a header says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.responses import Response

from rankgrove.data.json_numbers import read_apart
from rankgrove.serving.models import ServedModel
from rankgrove.serving.refusals import (
    BAD_REQUEST,
    JSON,
    TOO_LARGE,
    RequestError,
    decode,
)

EXTENSIONS = ["binary_tensor_data"]
HEADER_LENGTH = "inference-header-content-length"
FEATURES, SCORE = "features", "score"

_TYPES: dict[str, np.dtype[Any]] = {"FP32": np.dtype("<f4"), "FP64": np.dtype("<f8")}


class InputTensor(msgspec.Struct):
    """One input of a request."""

    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, Any] = {}
    data: msgspec.Raw = msgspec.Raw()


class OutputTensor(msgspec.Struct):
    """One output that a request asks for."""

    name: str
    parameters: dict[str, Any] = {}


class InferRequest(msgspec.Struct):
    """The JSON of a request."""

    inputs: list[InputTensor]
    id: str = ""
    parameters: dict[str, Any] = {}
    outputs: list[OutputTensor] = []


@dataclass(frozen=True)
class Inference:
    """What a request asks for: documents, and in which form their scores are to come."""

    id: str
    features: NDArray[Any]
    datatype: str
    binary: bool
    n_explained: int = 0


_REQUEST = msgspec.json.Decoder(InferRequest)
_FLAT = msgspec.json.Decoder(list[float | None])
_NESTED = msgspec.json.Decoder(list[list[float | None]])

# Where the numbers of a tensor seem to start, and whether they stand in rows.
_DATA = re.compile(rb'"data"[ \t\n\r]*:[ \t\n\r]*(?=\[[ \t\n\r]*(\[?))')


class _Head(NamedTuple):
    """The JSON of a request; with its numbers and their text, if these were read apart."""

    request: InferRequest
    numbers: NDArray[np.float32] | None
    text: memoryview


def read_inference(
    body: bytes, header_length: str | None, n_features: int, max_documents: int
) -> Inference:
    """The documents of a request, checked."""
    head, tail = _split(body, header_length)
    read = _read_regular(head) if not tail else None
    if read is None:
        read = _Head(decode(_REQUEST, head, "the request"), None, head[:0])
    request = read.request
    if len(request.inputs) != 1 or request.inputs[0].name != FEATURES:
        names = [each.name[:40] for each in request.inputs[:5]]
        raise RequestError(f"inputs must be one, named '{FEATURES}'. Got {names}.")
    tensor = request.inputs[0]
    dtype = _dtype(tensor.datatype)
    shape = _shape(tensor.shape, n_features, max_documents)
    if "binary_data_size" in tensor.parameters:
        numbers = _binary_numbers(tensor, tail, dtype, shape)
    else:
        if tail:
            raise RequestError(f"no bytes may follow the JSON of the request. Got {len(tail)}.")
        numbers = _json_numbers(tensor.data, read, shape)
    binary, datatype = _wanted_output(request)
    return Inference(request.id, numbers, datatype, binary)


def _split(body: bytes, header_length: str | None) -> tuple[memoryview, memoryview]:
    """The JSON of a body and the bytes behind it."""
    view = memoryview(body)
    if header_length is None:
        return view, view[:0]
    if not (header_length.isascii() and header_length.isdigit() and len(header_length) < 12):
        problem = f"{HEADER_LENGTH} must be a whole number. Got {header_length[:40]!r}."
        raise RequestError(problem, BAD_REQUEST)
    length = int(header_length)
    if length > len(body):
        raise RequestError(
            f"{HEADER_LENGTH} must be at most the length of the body, {len(body)}. Got {length}.",
            BAD_REQUEST,
        )
    return view[:length], view[length:]


def _dtype(datatype: Any) -> np.dtype[Any]:
    if not isinstance(datatype, str) or datatype not in _TYPES:
        raise RequestError(f"datatype must be FP32 or FP64. Got {str(datatype)[:40]!r}.")
    return _TYPES[datatype]


def _shape(shape: list[int], n_features: int, max_documents: int) -> tuple[int, int]:
    if len(shape) != 2 or shape[0] < 0 or shape[1] != n_features:
        raise RequestError(
            f"the shape of '{FEATURES}' must be [documents, {n_features}]. Got {str(shape)[:80]}."
        )
    check_number_of_documents(shape[0], max_documents)
    return shape[0], shape[1]


def check_number_of_documents(n_documents: int, max_documents: int) -> None:
    """Refuse more documents than the service takes at once."""
    if n_documents > max_documents:
        raise RequestError(
            f"a request must have at most {max_documents:,} documents. Got {n_documents:,}: send "
            f"fewer, or start the service with a larger --max-documents.",
            TOO_LARGE,
        )


def _binary_numbers(
    tensor: InputTensor, tail: memoryview, dtype: np.dtype[Any], shape: tuple[int, int]
) -> NDArray[Any]:
    size = tensor.parameters["binary_data_size"]
    wanted = shape[0] * shape[1] * dtype.itemsize
    if bytes(tensor.data):
        raise RequestError("data must be left out where binary_data_size is given. Got both.")
    if isinstance(size, bool) or size != wanted or len(tail) != wanted:
        raise RequestError(
            f"binary_data_size and the bytes behind the JSON must be {wanted} for "
            f"{tensor.datatype} {list(shape)}. Got {str(size)[:20]} and {len(tail)}."
        )
    numbers = np.frombuffer(tail, dtype=dtype).reshape(shape)
    # Where the JSON is of an odd length, numbers do not start where a processor wants them.
    return numbers if numbers.flags.aligned else numbers.copy()


def _read_regular(head: memoryview) -> _Head | None:
    """The JSON of a request whose numbers a kernel can read; None of any other."""
    found = _DATA.search(head)
    if found is None:
        return None
    start = found.end()
    apart = read_apart(head, start, depth=2 if found[1] else 1, most_names=0)
    if apart is None:
        return None
    outline = bytes(head[:start]) + apart.outline + bytes(head[apart.end :])
    try:
        request = _REQUEST.decode(outline)
        n_rows = len(_NESTED.decode(apart.outline)) if found[1] else 1
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    # What was found may be the data of something else, or not the last of that name.
    is_data = request.inputs and place_of(request.inputs[0].data) == place_of(outline) + start
    if not is_data or n_rows != len(apart.numbers):
        return None
    return _Head(request, apart.numbers, head[start : apart.end])


def place_of(text: Any) -> int:
    """Where bytes stand in memory: what msgspec leaves raw is a part of the body, not a copy."""
    place: int = np.frombuffer(text, dtype=np.uint8).__array_interface__["data"][0]
    return place


def _json_numbers(data: msgspec.Raw, read: _Head, shape: tuple[int, int]) -> NDArray[Any]:
    if read.numbers is not None and read.numbers.shape in (shape, (1, shape[0] * shape[1])):
        return read.numbers.reshape(shape)
    text = bytes(data if read.numbers is None else read.text)
    if not text:
        raise RequestError("data must be given, or binary_data_size. Got neither.")
    if text[1:].lstrip()[:1] == b"[":
        rows = decode(_NESTED, text, "data")
        lengths = {len(row) for row in rows}
        if len(rows) != shape[0] or not lengths <= {shape[1]}:
            raise RequestError(f"data must be of shape {list(shape)}. Got rows of other lengths.")
        numbers = rows
    else:
        numbers = decode(_FLAT, text, "data")
        if len(numbers) != shape[0] * shape[1]:
            raise RequestError(
                f"data must have {shape[0] * shape[1]} numbers for shape {list(shape)}. Got "
                f"{len(numbers)}."
            )
    # None becomes NaN.
    return np.array(numbers, dtype=np.float64).reshape(shape)


def _wanted_output(request: InferRequest) -> tuple[bool, str]:
    """Whether scores go as bytes, and their type."""
    for output in request.outputs:
        if output.name != SCORE:
            raise RequestError(f"outputs must be '{SCORE}'. Got {output.name[:40]!r}.")
    binary = request.parameters.get("binary_data_output", False)
    datatype = request.parameters.get("datatype", "FP64")
    for output in request.outputs[:1]:
        binary = output.parameters.get("binary_data", binary)
        datatype = output.parameters.get("datatype", datatype)
    if not isinstance(binary, bool):
        raise RequestError(f"binary_data must be true or false. Got {str(binary)[:40]!r}.")
    _dtype(datatype)
    return binary, datatype


def answer_inference(
    inference: Inference, served: ServedModel, scores: NDArray[np.float64]
) -> Response:
    """The answer to a request."""
    dtype = _TYPES[inference.datatype]
    output: dict[str, Any] = {
        "name": SCORE, "datatype": inference.datatype, "shape": [len(scores)],
    }  # fmt: skip
    answer: dict[str, Any] = {
        "model_name": served.name, "model_version": served.checksum, "outputs": [output],
    }  # fmt: skip
    if inference.id:
        answer["id"] = inference.id
    if not inference.binary:
        output["data"] = scores.astype(dtype).tolist()
        return Response(msgspec.json.encode(answer), media_type=JSON)
    content = scores.astype(dtype).tobytes()
    output["parameters"] = {"binary_data_size": len(content)}
    head = msgspec.json.encode(answer)
    headers = {HEADER_LENGTH: str(len(head))}
    return Response(head + content, headers=headers, media_type="application/octet-stream")


def describe_model(served: ServedModel) -> dict[str, Any]:
    """The metadata of a model, in the words of the protocol."""
    n_features = served.model.n_features
    return {
        "name": served.name,
        "versions": [served.checksum],
        "platform": "rankgrove",
        "inputs": [{"name": FEATURES, "datatype": "FP32", "shape": [-1, n_features]}],
        "outputs": [{"name": SCORE, "datatype": "FP64", "shape": [-1]}],
    }
