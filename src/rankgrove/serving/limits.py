"""What one client may take of a service: time, bytes and connections."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rankgrove.errors import refusal, whole_number
from rankgrove.serving.refusals import (
    BAD_REQUEST,
    TOO_LARGE,
    TOO_SLOW,
    UNAVAILABLE,
    UNSUPPORTED,
    RequestError,
)

# Bodies that may be read and worked on at the same time, each of the largest size.
_LARGEST_AT_ONCE = 8
# More than any client sends before a body; uvicorn has no limit of its own.
_MOST_HEADER_BYTES = 1 << 16
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)


@dataclass(frozen=True)
class Limits:
    """What a request may have.

    Attributes
    ----------
    max_documents
        Documents of one request.
    max_body
        Bytes of its body.
    seconds
        How long a client may take to send a request, or leave an answer unread.
    """

    max_documents: int = 10_000
    max_body: int = 32_000_000
    seconds: float = 10.0

    def __post_init__(self) -> None:
        whole_number("max_documents", self.max_documents, 1)
        whole_number("max_body", self.max_body, 1)
        if not self.seconds > 0:
            raise refusal("timeout", "be more than 0 seconds", self.seconds)


class BodyReader:
    """Reads the bodies of requests, each within its limits and all together within theirs."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes_at_once = 0

    @asynccontextmanager
    async def body_of(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request, for as long as it is worked on.

        One that is too large or comes too slowly is not read on.
        """
        if "content-encoding" in request.headers:
            raise RequestError(
                "a body must not be compressed. Got a content-encoding: send it as it is.",
                UNSUPPORTED, closes=True,
            )  # fmt: skip
        self._check_length(request.headers.get("content-length"))
        chunks: list[bytes] = []
        size = 0
        try:
            try:
                async with asyncio.timeout(self._limits.seconds):
                    async for chunk in request.stream():
                        if not chunk:
                            # (So that a body in one piece is not copied.)
                            continue
                        chunks.append(chunk)
                        size += len(chunk)
                        self._bytes_at_once += len(chunk)
                        self._check_size(size)
            except TimeoutError:
                raise RequestError(
                    f"a body must arrive within {self._limits.seconds:g} seconds. Got {size} "
                    f"bytes of it: send it faster.",
                    TOO_SLOW, closes=True,
                ) from None  # fmt: skip
            yield b"".join(chunks)
        finally:
            self._bytes_at_once -= size

    def _check_length(self, stated: str | None) -> None:
        if stated is None:
            return
        if not (stated.isascii() and stated.isdigit()):
            raise RequestError(
                f"content-length must be a whole number. Got {stated[:40]!r}.", BAD_REQUEST,
                closes=True,
            )  # fmt: skip
        if len(stated) > 18 or int(stated) > self._limits.max_body:
            raise self._too_large(stated[:40])

    def _check_size(self, size: int) -> None:
        if size > self._limits.max_body:
            raise self._too_large(f"{size} or more")
        if self._bytes_at_once > _LARGEST_AT_ONCE * self._limits.max_body:
            raise RequestError(
                "bodies that come at the same time must fit into memory together. Got too many: "
                "send this one again later.",
                UNAVAILABLE, closes=True,
            )  # fmt: skip

    def _too_large(self, got: str) -> RequestError:
        return RequestError(
            f"a body must have at most {self._limits.max_body:,} bytes. Got {got}: send fewer "
            f"documents, or start the service with a larger --max-body.",
            TOO_LARGE, closes=True,
        )  # fmt: skip


class PatientProtocol(HttpToolsProtocol):
    """HTTP of uvicorn that waits for slow clients only so long.

    Bodies have a time limit where they are read. Here are the parts that an application does not
    see: what comes before a body, and an answer that is not taken.

    And a wish to go on in another protocol is left out, as a server may: the parser would take the
    body for the first words of that protocol. Java's client sends one, for HTTP/2, by default.
    """

    seconds = 10.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._head = b""
        self._is_in_message = self._has_headers = False
        self._header_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        if not self._is_in_message:
            self._wait_for_headers()
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                if len(self._head) > _MOST_HEADER_BYTES:
                    self.transport.abort()
                return
            data, self._head = self._head, b""
            if _UPGRADE.search(data, 0, end):
                data = without_upgrade(data[:end]) + data[end:]
        super().data_received(data)
        if self._is_in_message and not self._has_headers:
            self._wait_for_headers()

    def on_message_begin(self) -> None:
        self._is_in_message, self._has_headers = True, False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._has_headers = True
        self._stop(self._header_timer)
        self._header_timer = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_message = False
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop(self._header_timer)
        self._stop(self._answer_timer)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop(self._answer_timer)
        self._answer_timer = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop(self._answer_timer)

    def _wait_for_headers(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(self.seconds, self.transport.abort)

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


def without_upgrade(head: bytes) -> bytes:
    r"""The head of a request with its wish for another protocol under a name that means nothing.

    >>> without_upgrade(b"GET / HTTP/1.1\r\nUpgrade: h2c")
    b'GET / HTTP/1.1\r\nX-Upgrade: h2c'
    """
    return _UPGRADE.sub(b"\r\nX-Upgrade:", head)
