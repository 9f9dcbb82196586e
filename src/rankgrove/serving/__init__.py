"""A scoring service over HTTP, the extra `serve`: what `rankgrove serve` runs."""

from __future__ import annotations

from rankgrove.errors import need_extra

try:
    import msgspec  # noqa: F401
    import prometheus_client  # noqa: F401
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("msgspec", "prometheus_client", "starlette", "uvicorn"):
        raise
    raise need_extra(error.name, "serve", "rankgrove.serving") from None

from rankgrove.serving.app import create_app

__all__ = ["create_app"]
