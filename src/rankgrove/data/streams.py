"""Byte streams: plain, gzip and zstd files, read in whole lines and written in one piece."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

from rankgrove.errors import DataError
from rankgrove.writing import open_whole, target_of

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# A row of a million features takes some 20 MB; a longer line is not a line of text.
_LONGEST_LINE = 1 << 28
_BLOCK_BYTES = 1 << 20


def _zstd() -> ModuleType:
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 (needed for few files)
    else:
        from backports import zstd  # noqa: PLC0415
    return zstd


_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


def format_and_compression(path: str | os.PathLike[str]) -> tuple[str, str | None]:
    """What a name says: its last suffix before that of a compression, and the compression.

    >>> format_and_compression("train.CSV.gz"), format_and_compression("train")
    (('.csv', 'gzip'), ('', None))
    """
    stem, suffix = os.path.splitext(os.fspath(path))
    compression = _COMPRESSIONS.get(suffix.lower())
    if compression:
        suffix = os.path.splitext(stem)[1]
    return suffix.lower(), compression


class Source(NamedTuple):
    """An open stream of plain bytes, its name for messages, and its size where known."""

    stream: BinaryIO
    name: str
    size: int | None
    damage: tuple[type[Exception], ...] = ()

    @classmethod
    def of_bytes(cls, text: bytes, name: str) -> Source:
        """Text in memory as a stream."""
        return cls(io.BytesIO(text), name, len(text))


class SpanStream(io.RawIOBase):
    """Some of the bytes of a file, as a stream."""

    def __init__(self, file: BinaryIO, span: tuple[int, int]) -> None:
        super().__init__()
        self._file, self._left = file, span[1] - span[0]
        file.seek(span[0])

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with memoryview(buffer) as view:
            got = self._file.readinto(view[: self._left])  # type: ignore[attr-defined]
        self._left -= got
        return int(got)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def open_for_reading(
    path: str | os.PathLike[str], span: tuple[int, int] | None = None
) -> Iterator[Source]:
    """The plain bytes of a file, or some of them.

    gzip and zstd are known by their first bytes, not by name.
    """
    name = os.fspath(path)
    try:
        file = open(name, "rb")  # noqa: SIM115 (closed below, after the error is translated)
    except FileNotFoundError:
        raise DataError(f"{name}: there is no such file. Check the path.") from None
    except IsADirectoryError:
        raise DataError(f"{name}: is a directory. Name a file in it.") from None
    except OSError as error:
        raise DataError(f"{name}: cannot be opened: {error.strerror}.") from None
    with file:
        if span is not None:
            yield Source(SpanStream(file, span), name, span[1] - span[0])  # type: ignore[arg-type]
            return
        try:
            start = file.peek(4)
        except OSError as error:
            raise DataError(f"{name}: cannot be read: {error.strerror}.") from None
        if start.startswith(_GZIP_MAGIC):
            unpacked = gzip.GzipFile(fileobj=file)
            yield Source(unpacked, name, None, (zlib.error, gzip.BadGzipFile))  # type: ignore[arg-type]
        elif start.startswith(_ZSTD_MAGIC):
            zstd = _zstd()
            yield Source(zstd.ZstdFile(file), name, None, (zstd.ZstdError,))
        else:
            status = os.fstat(file.fileno())
            yield Source(file, name, status.st_size or None)


class LineReader:
    """Cuts a stream into chunks that end with a whole line, in buffers that are used again.

    A chunk is `buffer[:size]` and ends with a newline, which is added to a last line without
    one. A line longer than a buffer gets a larger buffer. A UTF-8 byte order mark is skipped.
    """

    def __init__(self, source: Source, chunk_bytes: int) -> None:
        self._source = source
        length = chunk_bytes if source.size is None else min(chunk_bytes, source.size)
        # Room for the byte order mark, for one byte more than the text, to see that it ends, and
        # for the newline.
        self._length = max(length, len(_BYTE_ORDER_MARK)) + 2
        self._free: list[bytearray] = []
        self._carry = b""
        self._started = False
        self.ended = False

    def next_chunk(self) -> tuple[bytearray, int] | None:
        """The next chunk, or None at the end of the stream."""
        if self.ended:
            return None
        filled = len(self._carry)
        buffer = self._buffer(filled)
        buffer[:filled] = self._carry
        while True:
            searched = filled
            filled, self.ended = self._fill(buffer, filled)
            end = filled if self.ended else buffer.rfind(b"\n", searched, filled) + 1
            if end or self.ended:
                break
            buffer = self._longer(buffer, filled)
        if end == 0:
            return None
        self._carry = bytes(buffer[end:filled])
        if buffer[end - 1] != ord("\n"):
            buffer[end] = ord("\n")
            end += 1
        return buffer, end

    def release(self, buffer: bytearray) -> None:
        """Give back a buffer whose chunk is done with."""
        self._free.append(buffer)

    def _buffer(self, carried: int) -> bytearray:
        while self._free:
            buffer = self._free.pop()
            if len(buffer) > carried + 2:
                return buffer
        if carried + 2 >= self._length:
            self._length = 2 * carried + 4
        return bytearray(self._length)

    def _longer(self, buffer: bytearray, filled: int) -> bytearray:
        if filled > _LONGEST_LINE:
            raise DataError(
                f"{self._source.name}: lines must be shorter than {_LONGEST_LINE >> 20} MiB. "
                f"Got a longer one: this is not a file of lines of text."
            )
        longer = self._buffer(filled)
        longer[:filled] = buffer[:filled]
        return longer

    def _fill(self, buffer: bytearray, filled: int) -> tuple[int, bool]:
        limit = len(buffer) - 1
        ended = False
        with memoryview(buffer) as view:
            while filled < limit and not ended:
                got = _read_into(self._source, view[filled:limit])
                ended = got == 0
                filled += got
        if not self._started:
            self._started = True
            if buffer.startswith(_BYTE_ORDER_MARK, 0, filled):
                filled -= len(_BYTE_ORDER_MARK)
                buffer[:filled] = buffer[len(_BYTE_ORDER_MARK) : filled + len(_BYTE_ORDER_MARK)]
        return filled, ended


def read_blocks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The plain bytes of a text file in blocks of whole lines, without a byte order mark."""
    with open_for_reading(path) as source:
        reader = LineReader(source, _BLOCK_BYTES)
        while (chunk := reader.next_chunk()) is not None:
            buffer, size = chunk
            yield bytes(memoryview(buffer)[:size])
            reader.release(buffer)


def read_all(path: str | os.PathLike[str]) -> bytes:
    """The whole of a small text file, without a byte order mark."""
    return b"".join(read_blocks(path))


def _read_into(source: Source, view: memoryview) -> int:
    try:
        return source.stream.readinto(view)  # type: ignore[attr-defined, no-any-return]
    except EOFError:
        raise DataError(
            f"{source.name}: the compressed file ends too early: it is truncated. Fetch it again."
        ) from None
    except source.damage as error:
        raise DataError(f"{source.name}: the compressed file is damaged: {error}.") from None
    except OSError as error:
        raise DataError(f"{source.name}: cannot be read: {error.strerror}.") from None


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a compressed one does."""
    with open(path, "rb") as file:
        return file.read(4).startswith((_GZIP_MAGIC, _ZSTD_MAGIC))


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse before the work a place that cannot be written after it; nothing is made there."""
    if os.path.isdir(path):
        raise DataError(f"{os.fspath(path)}: is a directory. Name a file in it.")
    target = target_of(path)
    try:
        # It is written beside its place first.
        with tempfile.TemporaryFile(dir=os.path.dirname(target)):
            pass
    except OSError as error:
        raise DataError(f"{os.fspath(path)}: cannot be written: {error.strerror}.") from None


@contextmanager
def open_for_writing(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A stream to a file that appears, whole, when the block ends without an error.

    A name that ends in `.gz` or `.zst` is compressed; the same content gives the same bytes.
    """
    name = target_of(path)
    with open_whole(path) as file:
        if name.endswith(".gz"):
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as stream:
                yield stream
        elif name.endswith(".zst"):
            with _zstd().ZstdFile(file, "wb") as stream:
                yield stream
        else:
            yield file
