"""What one client may take of a service: time, bytes and connections."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from rankgrove.errors import refusal, whole_number
from rankgrove.serving.refusals import (
    BAD_REQUEST,
    TOO_LARGE,
    TOO_SLOW,
    UNAVAILABLE,
    UNSUPPORTED,
    RequestError,
)

# Bodies that may be on their way at the same time, each of the largest size.
_LARGEST_AT_ONCE = 8
# More than any client sends before a body; uvicorn has no limit of its own.
_MOST_HEADER_BYTES = 1 << 16


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

    async def read(self, request: Request) -> bytes:
        """The body of a request; one that is too large or comes too slowly is not read on."""
        if "content-encoding" in request.headers:
            raise RequestError(
                "a body must not be compressed. Got a content-encoding: send it as it is.",
                UNSUPPORTED, closes=True,
            )  # fmt: skip
        self._check_length(request.headers.get("content-length"))
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.seconds):
                async for chunk in request.stream():
                    size += len(chunk)
                    self._bytes_at_once += len(chunk)
                    self._check_size(size)
                    chunks.append(chunk)
        except TimeoutError:
            raise RequestError(
                f"a body must arrive within {self._limits.seconds:g} seconds. Got {size} bytes of "
                f"it: send it faster.",
                TOO_SLOW, closes=True,
            ) from None  # fmt: skip
        finally:
            self._bytes_at_once -= size
        return b"".join(chunks)

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
                "bodies that are on their way must fit into memory together. Got too many: send "
                "this one again later.",
                UNAVAILABLE, closes=True,
            )  # fmt: skip

    def _too_large(self, got: str) -> RequestError:
        return RequestError(
            f"a body must have at most {self._limits.max_body:,} bytes. Got {got}: send fewer "
            f"documents, or start the service with a larger --max-body.",
            TOO_LARGE, closes=True,
        )  # fmt: skip


class PatientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP of uvicorn that waits for slow clients only so long.

    Bodies have a time limit where they are read. Here are the parts that an application does not
    see: what comes before a body, and an answer that is not taken.
    """

    seconds = 10.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._header_bytes = 0
        self._header_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        self._header_bytes += len(data)
        if not self._is_in_request():
            self._wait_for_headers()
        super().data_received(data)
        if self._is_in_request():
            self._header_bytes = 0
            self._stop(self._header_timer)
            self._header_timer = None
        elif self._header_bytes > _MOST_HEADER_BYTES:
            self.transport.abort()

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

    def _is_in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
