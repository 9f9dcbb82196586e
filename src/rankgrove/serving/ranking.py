"""`/rank`: documents with ids and named features in, the same documents in order out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankgrove.data.json_numbers import Apart, read_apart
from rankgrove.data.levels import value_of
from rankgrove.errors import DataError
from rankgrove.serving.models import ServedModel
from rankgrove.serving.refusals import RequestError, decode, unfit
from rankgrove.serving.tensors import check_number_of_documents, place_of

# A number, a category that is a string or a boolean, or null where it is missing.
Value = float | str | bool | None
Id = str | int

# Contributions take some hundred times as long as scores.
MOST_EXPLAINED = 100
# The features that `"explain": true` shows.
EXPLAINED_FEATURES = 5


class RankRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON of a request."""

    documents: msgspec.Raw
    id: str | int | None = None
    top: int | None = None
    explain: bool | int = False
    absent: Literal["error", "missing"] = "error"
    unknown: Literal["error", "ignore"] = "error"


class NamedDocument(msgspec.Struct, forbid_unknown_fields=True):
    """One document, its features by name."""

    features: dict[str, Value]
    id: Id | msgspec.UnsetType = msgspec.UNSET


class ColumnarDocuments(msgspec.Struct, forbid_unknown_fields=True):
    """Documents as one list of values per feature: quicker to read than one object each."""

    columns: dict[str, list[Value]]
    ids: list[Id] | msgspec.UnsetType = msgspec.UNSET


class NumericDocument(NamedDocument, forbid_unknown_fields=True):
    """One document of numbers."""

    features: dict[str, float | None]  # type: ignore[assignment]


class NumericColumns(ColumnarDocuments, forbid_unknown_fields=True):
    """Documents as one list of numbers per feature."""

    columns: dict[str, list[float | None]]  # type: ignore[assignment]


@dataclass(frozen=True)
class RankCall:
    """What a request asks for: documents as a matrix, and what to say of them."""

    id: str | int | None
    ids: Sequence[Id]
    matrix: NDArray[np.float32]
    top: int
    n_explained: int


class _Read(NamedTuple):
    """A request, the ids of its documents, and their features in the order of the model."""

    request: RankRequest
    ids: Sequence[Id]
    matrix: NDArray[np.float32]


# Names, ids of documents, and the numbers of each by name.
_Regular = tuple[list[str], Sequence[Id], NDArray[np.float32]]

_REQUEST = msgspec.json.Decoder(RankRequest)
_DOCUMENTS = msgspec.json.Decoder(list[NamedDocument])
_COLUMNS = msgspec.json.Decoder(ColumnarDocuments)
_NUMERIC_DOCUMENTS = msgspec.json.Decoder(list[NumericDocument])
_NUMERIC_COLUMNS = msgspec.json.Decoder(NumericColumns)
_NAMES = msgspec.json.Decoder(dict[str, int])

# How deep numbers stand in the body: {"documents": [{"features": {…}}]}, or {"documents":
# {"columns": {"bm25": […]}}}. Ids stand higher.
_DEPTH = 4


def read_rank_call(body: bytes, served: ServedModel, max_documents: int) -> RankCall:
    """The documents of a request, checked."""
    request, ids, matrix = _read_regular(body, served) or _read_any(body, served, max_documents)
    check_number_of_documents(len(matrix), max_documents)
    top = len(matrix) if request.top is None else min(request.top, len(matrix))
    if top < 0:
        raise RequestError(f"top must be 0 or more. Got {request.top}.")
    return RankCall(request.id, ids, matrix, top, _n_explained(request.explain, top, served))


def _read_regular(body: bytes, served: ServedModel) -> _Read | None:
    """What a kernel can read: documents with the same names in the same order, or columns.

    They have numbers and null only, and all features of the model and no others. None of any other
    request: it may still be right.
    """
    if served.model.schema.levels:
        return None
    apart = read_apart(body, 0, _DEPTH, served.model.n_features)
    if apart is None:
        return None
    outline = apart.outline + body[apart.end :]
    try:
        request = _REQUEST.decode(outline)
        raw = _documents_alone(request, outline)
        by_column = raw[:1] == b"{"
        found = _regular_columns(raw, apart) if by_column else _regular_documents(raw, apart)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if found is None:
        return None
    names, ids, numbers = found
    wanted = served.model.feature_names
    if tuple(names) != wanted:
        places = {name: place for place, name in enumerate(names)}
        if places.keys() != frozenset(wanted):
            return None
        numbers = numbers[:, [places[name] for name in wanted]]
    return _Read(request, ids, np.ascontiguousarray(numbers))


def _regular_documents(raw: bytes, apart: Apart) -> _Regular | None:
    documents = _NUMERIC_DOCUMENTS.decode(raw)
    names = list(_NAMES.decode(apart.first))
    # Otherwise a name stands twice.
    if (len(documents), len(names)) != apart.numbers.shape or _may_double(raw, documents):
        return None
    return names, _ids_of(documents), apart.numbers


def _regular_columns(raw: bytes, apart: Apart) -> _Regular | None:
    found: Any = _NUMERIC_COLUMNS.decode(raw)
    names = list(found.columns)
    has_ids = found.ids is not msgspec.UNSET
    ids = found.ids if has_ids else range(apart.numbers.shape[1])
    # Otherwise a name stands twice, or has a colon in it.
    is_once = raw.count(b":") == len(names) + 1 + has_ids
    if not is_once or (len(names), len(ids)) != apart.numbers.shape:
        return None
    return names, ids, apart.numbers.T


def _documents_alone(request: RankRequest, body: bytes) -> bytes:
    """The text of the documents, once the rest of the body is known to have no name twice."""
    raw = bytes(request.documents)
    start = place_of(request.documents) - place_of(body)
    _refuse_doubled_names(body[:start] + b"0" + body[start + len(raw) :])
    return raw


def _read_any(body: bytes, served: ServedModel, max_documents: int) -> _Read:
    request = decode(_REQUEST, body, "the request")
    raw = _documents_alone(request, body)
    try:
        if raw[:1] == b"{":
            return _Read(request, *_by_column(raw, request, served, max_documents))
        return _Read(request, *_by_document(raw, request, served, max_documents))
    except DataError as error:
        raise unfit(error) from None


def _by_document(
    raw: bytes, request: RankRequest, served: ServedModel, max_documents: int
) -> tuple[Sequence[Id], NDArray[Any]]:
    documents: list[Any] | None = _numbers_only(_NUMERIC_DOCUMENTS, raw, served)
    are_numbers = documents is not None
    if documents is None:
        documents = decode(_DOCUMENTS, raw, "documents")
    check_number_of_documents(len(documents), max_documents)
    features = [document.features for document in documents]
    names = served.model.feature_names
    known = frozenset(names)
    others = [place for place, each in enumerate(features) if each.keys() != known]
    for place in others:
        _check_names(features[place], names, request, f" of document {place}")
    if _may_double(raw, documents):
        _refuse_doubled_names(raw)
    ids = _ids_of(documents)
    if not documents or not any(features):
        return ids, np.full((len(documents), len(names)), np.nan, dtype=np.float32)
    if are_numbers and not others:
        # None becomes NaN.
        numbers = np.array(list(map(itemgetter(*names), features)), dtype=np.float64)
        return ids, np.asarray(served.scorer.matrix(numbers.reshape(len(features), -1)))
    return ids, _checked_matrix(served, features)


def _ids_of(documents: Sequence[NamedDocument]) -> list[Id]:
    return [place if d.id is msgspec.UNSET else d.id for place, d in enumerate(documents)]


def _by_column(
    raw: bytes, request: RankRequest, served: ServedModel, max_documents: int
) -> tuple[Sequence[Id], NDArray[Any]]:
    found: Any = _numbers_only(_NUMERIC_COLUMNS, raw, served)
    are_numbers = found is not None
    if found is None:
        found = decode(_COLUMNS, raw, "documents")
    columns = found.columns
    names = served.model.feature_names
    lengths = {len(values) for values in columns.values()}
    if found.ids is not msgspec.UNSET:
        lengths.add(len(found.ids))
    if len(lengths) != 1:
        raise RequestError(
            f"ids and columns must all have one entry per document. Got lengths "
            f"{sorted(lengths)[:5]}."
        )
    n_documents = lengths.pop()
    check_number_of_documents(n_documents, max_documents)
    _check_names(columns, names, request, "")
    if raw.count(b":") != len(columns) + 1 + (found.ids is not msgspec.UNSET):
        _refuse_doubled_names(raw)
    ids = range(n_documents) if found.ids is msgspec.UNSET else found.ids
    if columns and not are_numbers:
        given = [name for name in names if name in columns]
        rows = zip(*(columns[name] for name in given), strict=True)
        dicts = [dict(zip(given, row, strict=True)) for row in rows]
        return ids, _checked_matrix(served, dicts)
    missing = [None] * n_documents
    by_name = [columns.get(name, missing) for name in names]
    matrix = np.array(by_name, dtype=np.float64).reshape(len(names), n_documents).T
    return ids, np.asarray(served.scorer.matrix(np.ascontiguousarray(matrix)))


def _numbers_only(decoder: msgspec.json.Decoder[Any], raw: bytes, served: ServedModel) -> Any:
    """What a decoder for numbers finds: the quick way for a model without other categories.

    None where there is something else: then another decoder takes it, or says what is wrong.
    """
    if served.model.schema.levels:
        return None
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _checked_matrix(served: ServedModel, documents: list[dict[str, Value]]) -> NDArray[Any]:
    """The matrix of documents by name; only what is a category may be a string or a boolean."""
    schema = served.model.schema
    categories = {schema.feature_names[feature] for feature in schema.levels}
    for place, document in enumerate(documents):
        for name, value in document.items():
            if isinstance(value, (str, bool)) and name not in categories:
                raise RequestError(
                    f"feature {name!r} must be a number, or null where it is missing. Got "
                    f"{str(value)[:40]!r} in document {place}."
                )
    return np.asarray(served.scorer.matrix(documents))


def _check_names(
    given: dict[str, Any], names: Sequence[str], request: RankRequest, place: str
) -> None:
    """Refuse features that the model does not have, and those that it misses."""
    known = frozenset(names)
    if request.unknown == "error" and (strange := [name for name in given if name not in known]):
        raise RequestError(
            f"features{place} must be those of the model. Got {_some(strange)}, which it does not "
            f'have: leave out what it does not have, or send "unknown": "ignore".'
        )
    if request.absent == "error" and (absent := [name for name in names if name not in given]):
        raise RequestError(
            f"features{place} must be all that the model has. Got none for {_some(absent)}: send "
            f'null where a value is missing, or "absent": "missing".'
        )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(repr(name[:80]) for name in names[:3]) + more


def _may_double(raw: bytes, documents: Sequence[NamedDocument]) -> bool:
    """Whether an object of the text may have a name twice, of which the decoder keeps the last.

    Every name is followed by a colon, so that there are more colons than names that were kept; or
    there are because they stand in strings.
    """
    n_names = sum(1 + (d.id is not msgspec.UNSET) + len(d.features) for d in documents)
    if b"\\" not in raw:  # so that a colon in an id is one in the text
        n_names += sum(d.id.count(":") for d in documents if isinstance(d.id, str))
    return raw.count(b":") != n_names


def _refuse_doubled_names(text: bytes) -> None:
    """Refuse an object that has a name twice: read again by a reader that is slower and tells."""

    def as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen: set[str] = set()
            name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise RequestError(f"a name must stand once in an object. Got {name[:80]!r} twice.")
        return found

    try:
        json.loads(text, object_pairs_hook=as_dict, parse_int=len, parse_float=len)
    except (ValueError, RecursionError):
        raise RequestError("the request must be plain JSON. Got other text.") from None


def _n_explained(explain: bool | int, top: int, served: ServedModel) -> int:
    """How many features to show of each document."""
    if explain is False:
        return 0
    number = EXPLAINED_FEATURES if explain is True else explain
    if number < 1:
        raise RequestError(f"explain must be true, false, or 1 or more features. Got {number}.")
    if top > MOST_EXPLAINED:
        raise RequestError(
            f"explain must be asked for at most {MOST_EXPLAINED} documents. Got {top}: set top."
        )
    if not served.model.adds_up:
        raise RequestError(
            "explain must be asked of a model whose scores are sums. Got trees on the scores of "
            "other models."
        )
    return number


def rank_documents(
    call: RankCall, served: ServedModel, scores: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """The first documents by score, equal scores in the order of the request."""
    order = np.argsort(-scores, kind="stable")[: call.top]
    ranked: list[dict[str, Any]] = [
        {"id": call.ids[row], "rank": rank, "score": score}
        for rank, (row, score) in enumerate(
            zip(order.tolist(), scores[order].tolist(), strict=True), start=1
        )
    ]
    if call.n_explained and len(order):
        for document, why in zip(ranked, _reasons(call, served, order), strict=True):
            document["why"] = why
    return ranked


def _reasons(
    call: RankCall, served: ServedModel, order: NDArray[np.int64]
) -> list[list[dict[str, Any]]]:
    """For each document the features that move its score most, the strongest first."""
    model = served.model
    matrix = call.matrix[order]
    parts = served.scorer.contributions_of_matrix(matrix)[:, :-1]
    strongest = np.argsort(-np.abs(parts), axis=1, kind="stable")[:, : call.n_explained]
    levels = model.schema.levels
    return [
        [
            {
                "feature": model.feature_names[feature],
                "value": value_of(levels, feature, float(matrix[row, feature])),
                "contribution": float(parts[row, feature]),
            }
            for feature in features
            if parts[row, feature] != 0
        ]
        for row, features in enumerate(strongest.tolist())
    ]
