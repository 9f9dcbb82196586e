"""What a service says while it runs: lines to read, or one JSON object per line."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

LOGGER = "rankgrove.serving"
# Entries of a line beside its message, as the attribute of this name of a record.
FIELDS = "fields"


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class PlainLines(logging.Formatter):
    """A line to read, as those of every command."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, FIELDS, {})
        entries = " ".join(f"{name}={value}" for name, value in fields.items())
        level = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        text = f"rankgrove: {level}{record.getMessage()} {entries}".rstrip()
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def configure_logging(as_json: bool, requests: bool) -> None:
    """Send what the service and uvicorn say to stderr; requests too, if they are asked for."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else PlainLines())
    for name, level in (
        (LOGGER, logging.DEBUG if requests else logging.INFO),
        ("uvicorn.error", logging.ERROR),
    ):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
