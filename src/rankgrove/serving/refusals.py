"""What is wrong with a request, as the status and the JSON that its client gets."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from starlette.responses import Response

from rankgrove.errors import DataError, RankgroveError

JSON = "application/json"

BAD_REQUEST, UNAUTHORISED, NOT_FOUND, WRONG_METHOD = 400, 401, 404, 405
TOO_SLOW, TOO_LARGE, UNSUPPORTED, UNFIT = 408, 413, 415, 422
CLIENT_GONE, FAILED, UNAVAILABLE = 499, 500, 503

# Where a decoder stopped, and what it stops at that many writers take for a number.
_PLACE = re.compile(r"invalid character \(byte (\d+)\)")
_WORD = re.compile(rb"[-+]?(nan|inf)", re.IGNORECASE)
_NO_NAN = " JSON has no NaN and no infinity: write null for a missing value."


class RequestError(RankgroveError):
    """A request that is refused.

    Attributes
    ----------
    status
        Of HTTP.
    closes
        Whether the connection ends with the answer, as the rest of the request is not read.
    """

    def __init__(self, message: str, status: int = UNFIT, *, closes: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.closes = closes


def refused(error: RequestError) -> Response:
    """The answer to a request that is refused."""
    headers = {"connection": "close"} if error.closes else {}
    if error.status == UNAUTHORISED:
        headers["www-authenticate"] = "Bearer"
    if error.status == UNAVAILABLE:
        headers["retry-after"] = "1"
    return json_response({"error": str(error)}, error.status, headers)


def json_response(
    content: Any, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Plain values and structures as an answer in JSON."""
    return Response(msgspec.json.encode(content), status, headers, media_type=JSON)


def decode(decoder: msgspec.json.Decoder[Any], body: Any, what: str) -> Any:
    """The structure that a decoder finds in a body, or an error that says what is wrong."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise RequestError(f"{what} must follow its schema. Got: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = str(error)[:200].rstrip(".")
        place = _PLACE.search(problem)
        is_word = place is not None and _WORD.match(body, int(place[1]))
        hint = _NO_NAN if is_word else ""
        raise RequestError(f"{what} must be JSON. Got: {problem}.{hint}", BAD_REQUEST) from None


def unfit(error: DataError) -> RequestError:
    """Documents that a model refuses, as an error of the request."""
    return RequestError(str(error))
