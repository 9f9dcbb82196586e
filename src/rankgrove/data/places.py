"""Which files a path means: one, all that a pattern matches, or those of a store by its URI."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Any, NamedTuple

from rankgrove.errors import DataError, need_extra

StrPath = str | os.PathLike[str]


class Place(NamedTuple):
    """A file, or some of its rows.

    Attributes
    ----------
    name
        For messages.
    path, filesystem
        Where it is; on this machine without a file system.
    row_group
        Of a Parquet file, the row group that is meant, if not all.
    span
        Of a text, the first byte that is meant and the one after the last, if not all. It begins
        and ends with a line.
    """

    name: str
    path: str
    filesystem: Any = None
    row_group: int | None = None
    span: tuple[int, int] | None = None


def find_files(paths: StrPath | Sequence[StrPath | Place]) -> list[Place]:
    """The files that paths mean, those of a pattern in the order of their names.

    `s3://bucket/train/*.parquet` and other URIs are found by `pyarrow.fs`.
    """
    several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    places = [
        place
        for path in several
        for place in ([path] if isinstance(path, Place) else _expand(os.fspath(path)))
    ]
    if not places:
        raise DataError("files must be given to read. Got none.")
    return places


def is_pattern(path: StrPath) -> bool:
    """Whether a path means other files than the one that has its name.

    >>> is_pattern("train/*.parquet"), is_pattern("s3://bucket/a.parquet"), is_pattern("a.txt")
    (True, True, False)
    """
    name = os.fspath(path)
    return "://" in name or (glob.has_magic(name) and not os.path.exists(name))


def _expand(name: str) -> list[Place]:
    if "://" in name:
        return _expand_uri(name)
    if not is_pattern(name):
        if os.path.isdir(name):
            raise DataError(f"{name}: is a directory. Name its files, as {name}/*.parquet.")
        return [Place(name, name)]
    found = sorted(filter(os.path.isfile, glob.glob(name)))
    if not found:
        raise DataError(f"{name}: no file has such a name. Check the path.")
    return [Place(file, file) for file in found]


def _expand_uri(uri: str) -> list[Place]:
    try:
        from pyarrow import ArrowException, fs  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise need_extra("pyarrow", "frames", "reading files by their URI") from error
    folder, _, pattern = uri.rpartition("/")
    scheme = uri.partition("://")[0]
    try:
        if not glob.has_magic(pattern):
            filesystem, path = fs.FileSystem.from_uri(uri)
            return [Place(uri, path, filesystem)]
        filesystem, path = fs.FileSystem.from_uri(folder)
        files = filesystem.get_file_info(fs.FileSelector(path))
    except (ArrowException, OSError, ValueError) as error:
        problem = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"{uri}: cannot be found. Got: {problem}. Check the URI.") from None
    found = sorted(
        file.path
        for file in files
        if file.type == fs.FileType.File and fnmatch(file.base_name, pattern)
    )
    if not found:
        raise DataError(f"{uri}: no file has such a name. Check the URI.")
    return [Place(f"{scheme}://{path}", path, filesystem) for path in found]
