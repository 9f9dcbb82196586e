"""What several experiments ask of their parameters, and say of their data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rankgrove.data.dataset import Dataset
from rankgrove.data.documents import Documents
from rankgrove.errors import DataError, check_names, is_number, parameter, refusal


def check_dataset(
    name: str, data: Any, rule: str = "be a Dataset", advice: str = "", *, binned: bool = False
) -> None:
    """Refuse what is no Dataset; `binned` data may do, too."""
    if not isinstance(data, Documents if binned else Dataset):
        raise refusal(name, rule, got=type(data).__name__, advice=advice)


def check_one_of(what: str, name: Any, known: Iterable[str]) -> None:
    """Refuse a name that is none of these, with the nearest one."""
    check_names(parameter(what) if what.isidentifier() else what, [name], list(known))


def check_share(name: str, value: Any, rule: str = "be a number above 0 and below 1") -> None:
    """Refuse what is no number between 0 and 1."""
    if not (is_number(value) and 0 < value < 1):
        raise refusal(name, rule, value)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Have what goes wrong with the data say whose they are."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
