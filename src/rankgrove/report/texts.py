"""Texts for queries and documents: what a reader knows them by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankgrove.data.dataset import Dataset
from rankgrove.errors import DataError, parameter, refusal
from rankgrove.report.material import plain_text

Texts = Mapping[Any, str] | Sequence[str]


def query_texts(data: Dataset, names: Texts | None) -> list[str] | None:
    """One text per query; that of a query without one is its id."""
    if names is None:
        return None
    ids = [str(query) for query in data.query_ids.tolist()]
    return _texts("names", names, ids, "query")


def document_titles(data: Dataset, titles: Texts | None) -> list[str] | None:
    """One title per document; that of a document without one is its id."""
    if titles is None:
        return None
    if data.document_ids is None and isinstance(titles, Mapping):
        raise DataError(
            f"{parameter('titles')} must be of data with document ids, by which they are found. "
            f"Got none: read the data with {parameter('document_ids', True)}."
        )
    ids: list[str] = []
    if data.document_ids is not None:
        ids = [str(one) for one in data.document_ids.tolist()]
    return _texts("titles", titles, ids or [""] * data.n_documents, "document")


def _texts(name: str, given: Texts, ids: list[str], unit: str) -> list[str]:
    if isinstance(given, str):
        raise refusal(name, f"be a mapping from ids, or one text per {unit}", given)
    if not isinstance(given, Mapping):
        texts = list(map(plain_text, given))
        if len(texts) != len(ids):
            raise DataError(
                f"{parameter(name)} must be one per {unit}, {len(ids)}. Got {len(texts)}."
            )
        return texts
    known = {str(key): plain_text(text) for key, text in given.items()}
    if known.keys().isdisjoint(ids):
        some = next(iter(known), "none at all")
        raise DataError(
            f"{parameter(name)} must be by {unit} id, as {ids[0]!r}. Got no {unit} of the data, "
            f"but {some!r}: are they of other data?"
        )
    return [known.get(one, plain_text(one)) for one in ids]
