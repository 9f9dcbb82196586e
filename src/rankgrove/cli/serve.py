# ruff: noqa: PLC0415 (heavy modules are imported when the command runs, so --help is quick)
"""`rankgrove serve`: a scoring service over HTTP."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated

from rankgrove.cli.console import count, say, show, show_json, warn
from rankgrove.cli.options import Json, argument, option
from rankgrove.errors import ParameterError, refusal

TOKEN_VARIABLE = "RANKGROVE_TOKEN"

_SIZE = re.compile(r"(\d{1,12})\s*([kMG]?)B?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_LOOPBACK = ("127.", "::1", "localhost")


def serve(
    models: Annotated[
        list[str],
        argument(
            "MODEL...",
            "Model files, from 'train', each as FILE or NAME=FILE. Without a name it has that of "
            "its file. The first answers where a request names none.",
        ),
    ],
    host: Annotated[
        str, option("ADDRESS", "Where to listen; by default only for this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, option("N", "The port; 0 takes any that is free.")] = 8080,
    workers: Annotated[int, option("N", "How many processes serve.")] = 1,
    watch: Annotated[
        float | None,
        option("SECONDS", "Look this often for model files that have changed; never by default."),
    ] = None,
    shadow: Annotated[
        list[str] | None,
        option("NAME=OTHER", "Have OTHER score what NAME answers, and count where they differ."),
    ] = None,
    max_documents: Annotated[int, option("N", "The most documents of one request.")] = 10_000,
    max_body: Annotated[str, option("SIZE", "The largest body of a request.")] = "32MB",
    max_connections: Annotated[int, option("N", "The most connections of one worker.")] = 1000,
    timeout: Annotated[
        float, option("SECONDS", "How long a client may take to send a request.")
    ] = 10.0,
    token_file: Annotated[
        Path | None,
        option(
            "FILE",
            f"A file with the token that requests must bring; or set it as {TOKEN_VARIABLE} in the "
            "environment.",
        ),
    ] = None,
    json_logs: Annotated[
        bool, option(None, "Log one JSON object per line.", "--json-logs")
    ] = False,
    log_requests: Annotated[
        bool, option(None, "Log a line per request.", "--log-requests")
    ] = False,
    json: Json = False,
) -> None:
    """Serve models over HTTP: scores and rankings for other programs.

    rankgrove serve model.safetensors
    """
    paths = _pairs("a model", models, allow_bare=True)
    shadows = _pairs("--shadow", shadow or [])
    token = _token(token_file)
    options = {
        "shadow": shadows,
        "watch": watch,
        "max_documents": max_documents,
        "max_body": _bytes_of(max_body),
        "timeout": timeout,
        "token": token,
    }
    from rankgrove.serving.server import Settings, open_socket, run

    settings = Settings(paths, options, workers, max_connections, json_logs, log_requests)
    opened = open_socket(host, port)
    if token is None and not host.startswith(_LOOPBACK):
        warn(f"whoever reaches {host} may ask: set {TOKEN_VARIABLE} to have requests bring a token")

    def announce(address: str) -> None:
        if json:
            show_json({"address": address, "models": paths, "shadow": shadows, "workers": workers})
            sys.stdout.flush()
        else:
            show(f"Serving {count(len(paths), 'model')} at {address}: {', '.join(paths)}")

    run(settings, opened, announce)
    say("stopped")


def _pairs(what: str, texts: list[str], *, allow_bare: bool = False) -> dict[str, str]:
    """NAME=VALUE by name; a file without a name goes by its own."""
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if allow_bare and (not sign or os.path.exists(text)):
            name, value = Path(text).name.partition(".")[0], text
        if not name or not value:
            raise ParameterError(f"{what} must be given as NAME=VALUE. Got {text!r}.")
        if name in found:
            raise ParameterError(
                f"each name must be given once. Got {name!r} twice, for {found[name]} and "
                f"{value}: name them, as in other=FILE."
            )
        found[name] = value
    return found


def _bytes_of(text: str) -> int:
    """A size in words as bytes.

    >>> _bytes_of("32MB"), _bytes_of("500k"), _bytes_of("12")
    (32000000, 500000, 12)
    """
    size = _SIZE.fullmatch(text.strip())
    if size is None:
        raise refusal("max_body", "be a size, as 32MB or 500kB", text)
    return int(size[1]) * _FACTORS[size[2].lower()]


def _token(file: Path | None) -> str | None:
    """The token from a file or the environment: a command line is seen by every user."""
    token = os.environ.get(TOKEN_VARIABLE)
    if file is not None:
        try:
            token = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise refusal("token_file", "be a text file", str(file)) from None
    if token is not None and not token.strip():
        place = TOKEN_VARIABLE if file is None else file
        raise ParameterError(f"a token must have at least one character. Got none in {place}.")
    return None if token is None else token.strip()
