"""A connection that is being opened: TCP, TLS if asked for, and the handshake."""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Callable

from rankgrove.distributed.handshake import Conversation
from rankgrove.distributed.links import BLOCKED


class Caller:
    """A connection whose other side has not proved yet who it is.

    `rank` is that of the worker which this one connects to, None for whoever comes to the port;
    `encrypt` makes the connection one of TLS.
    """

    def __init__(
        self,
        connection: socket.socket,
        conversation: Conversation,
        address: str,
        rank: int | None = None,
        encrypt: Callable[[socket.socket], ssl.SSLSocket] | None = None,
    ) -> None:
        self.socket, self.address, self.rank = connection, address, rank
        self.is_sending = True
        self.begun = time.perf_counter()
        self._conversation = conversation
        self._encrypt = encrypt
        self._unsent, self._unread, self._read = memoryview(b""), 0, b""
        self._is_open = self._has_begun = False

    def advance(self) -> tuple[int, int] | None:
        """Go on with the conversation; rank and channel at its end, None before."""
        try:
            self._open()
            while True:
                while self._unsent:
                    self._unsent = self._unsent[self.socket.send(self._unsent) :]
                while self._unread:
                    data = self.socket.recv(self._unread)
                    if not data:
                        raise ConnectionResetError("it has closed the connection")
                    self._read += data
                    self._unread -= len(data)
                self._take(self._conversation.send(self._read))
        except StopIteration as end:
            result: tuple[int, int] = end.value
            return result
        except BLOCKED as blocked:
            self.is_sending = bool(self._unsent) or isinstance(blocked, ssl.SSLWantWriteError)
            return None

    def _open(self) -> None:
        if not self._is_open:
            if error := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, os.strerror(error))
            if self._encrypt is not None:
                self.socket = self._encrypt(self.socket)
            self._is_open = True
        if not self._has_begun:
            if isinstance(self.socket, ssl.SSLSocket):
                self.socket.do_handshake()
            self._has_begun = True
            self._take(next(self._conversation))

    def _take(self, request: bytes | int) -> None:
        self._read = b""
        if isinstance(request, int):
            self._unread = request
        else:
            self._unsent = memoryview(request)
