"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from rankgrove.errors import DataError


def target_of(path: str | os.PathLike[str]) -> str:
    """The file that is written for a path: what a link leads to."""
    target = os.path.realpath(os.fspath(path))
    if os.path.lexists(target) and not os.path.isfile(target):
        raise DataError(f"{os.fspath(path)}: is not a regular file. Name a file to write.")
    return target


@contextmanager
def open_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A stream to a file that appears, whole, when the block ends without an error.

    The bytes go to a file beside it, which is renamed at the end, or removed on an error or
    an interrupt.
    """
    target = target_of(path)
    beside = f"{target}.{secrets.token_hex(4)}.part"
    try:
        with open(beside, "xb") as file:
            yield file
        os.replace(beside, target)
    except OSError as error:
        raise DataError(f"{os.fspath(path)}: cannot be written: {error.strerror}.") from None
    finally:
        # It is still there after an error or an interrupt, wherever that struck.
        with suppress(FileNotFoundError):
            os.unlink(beside)
