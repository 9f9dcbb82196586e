"""The scoring service as an ASGI application: its routes, and what each of them does."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rankgrove._version import __version__
from rankgrove.data.files import StrPath
from rankgrove.data.levels import features_by
from rankgrove.errors import DataError, refusal
from rankgrove.serving import openapi
from rankgrove.serving.counters import Counters
from rankgrove.serving.limits import BodyReader, Limits
from rankgrove.serving.logs import FIELDS, LOGGER
from rankgrove.serving.models import REFUSED, ModelStore, ServedModel
from rankgrove.serving.ranking import RankCall, rank_documents, read_rank_call
from rankgrove.serving.refusals import (
    CLIENT_GONE,
    FAILED,
    UNAUTHORISED,
    UNAVAILABLE,
    RequestError,
    json_response,
    refused,
    unfit,
)
from rankgrove.serving.tensors import (
    EXTENSIONS,
    HEADER_LENGTH,
    Inference,
    answer_inference,
    describe_model,
    read_inference,
)

MODEL_HEADER = "x-rankgrove-model"

# What tells whether a service is there needs no token: it says nothing of the models.
_OPEN_PATHS = frozenset({"/v2/health/live", "/v2/health/ready"})

# Larger requests are scored in a thread, so that small ones do not wait for them.
_DOCUMENTS_AT_ONCE = 2000
# How often counts are passed on, in seconds.
_TICK = 1.0

log = logging.getLogger(LOGGER)


class Scored(NamedTuple):
    """A request that is done: its documents, their scores, the time that took, and the answer."""

    matrix: NDArray[np.float32]
    scores: NDArray[np.float64]
    seconds: float
    response: Response


Asked = TypeVar("Asked", Inference, RankCall)
Handler = Callable[[Request, ServedModel], Awaitable[Response]]


class Service:
    """What the routes share, and the routes."""

    def __init__(self, store: ModelStore, limits: Limits, watch: float | None) -> None:
        self.store = store
        self.limits = limits
        self.counters = Counters()
        self.counters.show_models(store)
        self.stopping = False
        self._watch = watch
        self._bodies = BodyReader(limits)

    def routes(self) -> list[Route]:
        of_model = "/v2/models/{name}"
        # Routes are tried in this order: first what is asked by the thousand.
        return [
            self._route(f"{of_model}/infer", "infer", self._infer, "POST"),
            self._route("/rank", "rank", self._rank, "POST"),
            self._route("/rank/{name}", "rank", self._rank, "POST"),
            self._route("/v2", "server", self._server),
            self._route("/v2/health/live", "live", self._live),
            self._route("/v2/health/ready", "ready", self._ready),
            self._route(of_model, "model", self._model),
            self._route(f"{of_model}/ready", "model_ready", self._model_ready),
            self._route("/models/{name}/schema", "schema", self._schema),
            self._route("/metrics", "metrics", self._metrics),
            self._route("/openapi.json", "openapi", self._openapi),
        ]

    def _route(self, path: str, route: str, handler: Handler, method: str = "GET") -> Route:
        has_model = "{name}" in path or path == "/rank"
        return Route(path, _Endpoint(self, route, handler, has_model), methods=[method])

    async def _server(self, _: Request, __: ServedModel) -> Response:
        return json_response(
            {"name": "rankgrove", "version": __version__, "extensions": EXTENSIONS}
        )

    async def _live(self, _: Request, __: ServedModel) -> Response:
        return json_response({"live": True})

    async def _ready(self, _: Request, __: ServedModel) -> Response:
        # Models are read and have scored before a service takes its first request.
        return json_response({"ready": not self.stopping}, UNAVAILABLE if self.stopping else 200)

    async def _model(self, _: Request, served: ServedModel) -> Response:
        return json_response(describe_model(served))

    async def _model_ready(self, _: Request, served: ServedModel) -> Response:
        ready = not self.stopping
        content = {"name": served.name, "ready": ready}
        return json_response(content, 200 if ready else UNAVAILABLE)

    async def _schema(self, _: Request, served: ServedModel) -> Response:
        model = served.model
        names = model.feature_names
        categories = model.schema.named_categories
        return json_response(
            {
                "name": served.name,
                "checksum": served.checksum,
                "version": model.version,
                "feature_names": names,
                "categories": {names[at]: values for at, values in categories.items()},
                "parameters": model.parameters,
            }
        )

    async def _metrics(self, _: Request, __: ServedModel) -> Response:
        return Response(self.counters.text(), media_type=self.counters.content_type)

    async def _openapi(self, _: Request, __: ServedModel) -> Response:
        return json_response(openapi.document(self.store.names))

    async def _infer(self, request: Request, served: ServedModel) -> Response:
        header_length = request.headers.get(HEADER_LENGTH)

        def read(body: bytes) -> Inference:
            return read_inference(
                body, header_length, served.model.n_features, self.limits.max_documents
            )

        def score(inference: Inference) -> Scored:
            try:
                matrix: Any = served.scorer.matrix(inference.features)
            except DataError as error:
                raise unfit(error) from None
            scores, seconds = _timed_scores(served, matrix)
            return Scored(matrix, scores, seconds, answer_inference(inference, served, scores))

        async with self._bodies.body_of(request) as body:
            return await self._answer(served, body, read, score)

    async def _rank(self, request: Request, served: ServedModel) -> Response:
        start = time.perf_counter()

        def read(body: bytes) -> RankCall:
            return read_rank_call(body, served, self.limits.max_documents)

        def score(call: RankCall) -> Scored:
            scores, seconds = _timed_scores(served, call.matrix)
            ranked = rank_documents(call, served, scores)
            answer = {
                "id": call.id,
                "model": served.name,
                "version": served.checksum,
                "took_ms": round(1000 * (time.perf_counter() - start), 3),
                "documents": ranked,
            }
            return Scored(call.matrix, scores, seconds, json_response(answer))

        async with self._bodies.body_of(request) as body:
            return await self._answer(served, body, read, score)

    async def _answer(
        self,
        served: ServedModel,
        body: bytes,
        read: Callable[[bytes], Asked],
        score: Callable[[Asked], Scored],
    ) -> Response:
        is_large = len(body) > _DOCUMENTS_AT_ONCE * 4 * served.model.n_features
        asked = await run_in_threadpool(read, body) if is_large else read(body)
        # What is explained takes long, however few documents there are.
        in_thread = is_large or asked.n_explained > 0
        done = await run_in_threadpool(score, asked) if in_thread else score(asked)
        self.counters.add_scored(served, done.matrix, done.seconds)
        shadow = self.store.shadow_of(served.name)
        if shadow is not None:
            # It runs once the answer is sent.
            done.response.background = BackgroundTask(self._shadow, served, shadow, done, is_large)
        return done.response

    async def _shadow(
        self, served: ServedModel, shadow: ServedModel, done: Scored, is_large: bool
    ) -> None:
        """Score the same documents with another model, and count where it differs."""
        try:
            arguments = (served, shadow, done.matrix, done.scores)
            changed, difference = (
                await run_in_threadpool(_difference, *arguments)
                if is_large
                else _difference(*arguments)
            )
            self.counters.add_shadow(served.name, shadow.name, changed, difference)
        except Exception:
            # A candidate that fails must not show in what users get.
            log.exception("the shadow %s failed", shadow.name)
            self.counters.shadow_requests.labels(served.name, shadow.name, "failed").inc()

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(self._tend())
        try:
            yield
        finally:
            task.cancel()

    async def _tend(self) -> None:
        """Pass on counts, and look for model files that have changed."""
        pause = _TICK if self._watch is None else min(_TICK, self._watch)
        next_look = time.monotonic() + (self._watch or 0.0)
        while True:
            await asyncio.sleep(pause)
            try:
                self.counters.flush()
                if self._watch is not None and time.monotonic() >= next_look:
                    await self._look_for_changes()
                    next_look = time.monotonic() + self._watch
            except Exception:
                log.exception("looking for changed models failed")

    async def _look_for_changes(self) -> None:
        reloads = await run_in_threadpool(self.store.reload_changed)
        for reload in reloads:
            level = logging.ERROR if reload.result == REFUSED else logging.INFO
            log.log(level, "%s", reload.message)
            self.counters.reloads.labels(reload.name, reload.result).inc()
        if reloads:
            self.counters.show_models(self.store)

    async def _refuse_route(self, _: Request, error: Exception) -> Response:
        """An address or method that is not there."""
        status = error.status_code if isinstance(error, HTTPException) else FAILED
        self.counters.add_stranger(status)
        headers = dict(getattr(error, "headers", None) or {})
        problem = "there is no such route or method: see /openapi.json."
        return json_response({"error": problem}, status, headers)


class _Endpoint:
    """What answers a route: an ASGI application, as Starlette wraps functions into several.

    Parameters
    ----------
    service
        Whose models are asked for, and whose counters count.
    route
        Its name there.
    handler
        What makes the answer.
    has_model
        Whether the answer is about a model.
    """

    def __init__(self, service: Service, route: str, handler: Handler, has_model: bool) -> None:
        self._service = service
        self._route = route
        self._handler = handler
        self._has_model = has_model

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = time.perf_counter()
        request = Request(scope, receive)
        label = ""
        headers = {}
        try:
            served = self._service.store.get(request.path_params.get("name"))
            if self._has_model:
                label = served.name
                headers[MODEL_HEADER] = served.identity
            response = await self._handler(request, served)
        except RequestError as error:
            response = refused(error)
        except ClientDisconnect:
            response = Response(status_code=CLIENT_GONE)
        except Exception:
            log.exception("a request failed: this is a defect")
            response = json_response({"error": "the service failed: see its log."}, FAILED)
        response.headers.update(headers)
        seconds = time.perf_counter() - start
        self._service.counters.add_request(label, self._route, response.status_code, seconds)
        if log.isEnabledFor(logging.DEBUG):
            entries = {
                "route": self._route, "model": label, "code": response.status_code,
                "ms": round(1000 * seconds, 3),
            }  # fmt: skip
            log.debug("request", extra={FIELDS: entries})
        await response(scope, receive, send)


class TokenGuard:
    """Lets requests pass that bring the token, and what asks whether the service is there."""

    def __init__(self, app: ASGIApp, token: str, counters: Counters) -> None:
        self._app = app
        self._token = token.encode()
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in _OPEN_PATHS:
            given = dict(scope["headers"]).get(b"authorization", b"")
            scheme, _, token = given.partition(b" ")
            # In a time that does not tell how much of it is right.
            is_same = hmac.compare_digest(token.strip(), self._token)
            if scheme.lower() != b"bearer" or not is_same:
                error = RequestError(
                    "a request must bring the token of the service, as 'Authorization: Bearer "
                    "TOKEN'. Got none or another.",
                    UNAUTHORISED, closes=True,
                )  # fmt: skip
                self._counters.add_stranger(UNAUTHORISED)
                await refused(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _timed_scores(
    served: ServedModel, matrix: NDArray[np.float32]
) -> tuple[NDArray[np.float64], float]:
    start = time.perf_counter()
    scores = served.scorer.score_matrix(matrix)
    return scores, time.perf_counter() - start


def _difference(
    served: ServedModel,
    shadow: ServedModel,
    matrix: NDArray[np.float32],
    scores: NDArray[np.float64],
) -> tuple[bool, float]:
    """Whether a shadow ranks documents in another order, and the largest difference of a score."""
    levels, wanted = served.model.schema.levels, shadow.model.schema.levels
    features = features_by(matrix, levels, wanted, served.model.feature_names)
    others = shadow.scorer.score_matrix(features)
    order, other_order = (np.argsort(-each, kind="stable") for each in (scores, others))
    difference = float(np.abs(scores - others).max(initial=0.0))
    return not np.array_equal(order, other_order), difference


def create_app(
    models: Mapping[str, StrPath],
    *,
    shadow: Mapping[str, str] | None = None,
    watch: float | None = None,
    max_documents: int = Limits.max_documents,
    max_body: int = Limits.max_body,
    timeout: float = Limits.seconds,
    token: str | None = None,
) -> ASGIApp:
    """The scoring service, for any ASGI server; `rankgrove serve` runs it on uvicorn.

    Models are read, checked and have scored once when this returns. The addresses, what they take
    and what they answer are in the OpenAPI document at `/openapi.json`.

    Parameters
    ----------
    models
        The file of each model by the name that requests ask for. The first answers `/rank`.
    shadow
        For the name of a model, the name of another that scores the same requests without being
        seen: `/metrics` says how often their orders differ.
    watch
        How often to look for changed files, in seconds; never by default. A file that is not sound,
        or has other features, leaves the model in place that it was to replace.
    max_documents, max_body
        The most documents, and bytes, of one request.
    timeout
        How many seconds a client may take to send a body.
    token
        What requests must bring as a bearer token; by default everybody may ask.

    Examples
    --------
    >>> import tempfile
    >>> from starlette.testclient import TestClient
    >>> from rankgrove import Ranker, make_web_search
    >>> data = make_web_search(20, 16, mean_documents=8)
    >>> file = tempfile.NamedTemporaryFile(suffix=".safetensors")
    >>> Ranker(n_estimators=2).fit(data).save(file.name)
    >>> with TestClient(create_app({"web": file.name})) as client:
    ...     client.get("/v2/models/web").json()["inputs"]
    [{'name': 'features', 'datatype': 'FP32', 'shape': [-1, 16]}]
    >>> file.close()
    """
    if watch is not None and not watch > 0:
        raise refusal("watch", "be more than 0 seconds", watch)
    if token is not None and not token.strip():
        raise refusal("token", "have at least one character that is no blank", got="none")
    limits = Limits(max_documents, max_body, timeout)
    service = Service(ModelStore(models, shadow or {}), limits, watch)
    handlers: Any = {HTTPException: service._refuse_route}
    app = Starlette(routes=service.routes(), exception_handlers=handlers, lifespan=service.lifespan)
    app.router.redirect_slashes = False
    app.state.service = service
    if token is not None:
        app.add_middleware(TokenGuard, token=token.strip(), counters=service.counters)
    return app
