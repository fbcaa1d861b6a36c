"""The application: endpoints inside, guard around them, envelope around everything."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

import kosbert
from kosbert.errors import UsageError
from kosbert.serving.access_middleware import AccessMiddleware
from kosbert.serving.errors import ApiError, wrong
from kosbert.serving.request_middleware import RequestMiddleware
from kosbert.serving.routes.compare import compare_routes
from kosbert.serving.routes.openai import openai_routes
from kosbert.serving.routes.operations import operations_routes
from kosbert.serving.routes.page import docs_route, page_routes
from kosbert.serving.routes.search import search_routes
from kosbert.serving.routes.tei import tei_routes
from kosbert.serving.service import Service

logger = logging.getLogger(__name__)


class ErrorContent(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorAnswer(BaseModel):
    """OpenAI's shape of an error."""

    error: ErrorContent


_MEANINGS = {
    400: "The call was wrong.", 401: "The key is missing or wrong.", 403: "Asked for under a foreign name.",
    404: "It is not there.", 408: "The body came too slowly.", 413: "Too large.", 415: "Not announced as JSON.",
    429: "Too much at once; see Retry-After.", 503: "Shutting down.", 504: "It took too long.",
}  # fmt: skip
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": meaning} for status, meaning in _MEANINGS.items()
}


def build_app(service: Service) -> FastAPI:
    """An ASGI application around a service; it starts and ends the service's thread."""
    app = FastAPI(
        title="kosbert", version=kosbert.__version__, description="Korean sentence embeddings.",
        docs_url=None, redoc_url=None, lifespan=_lifespan(service), responses=_ERRORS,
    )  # fmt: skip
    for routes in (openai_routes, tei_routes, compare_routes, search_routes, operations_routes):
        app.include_router(routes(service))
    app.include_router(page_routes(service.settings))
    app.include_router(docs_route(app))
    app.add_exception_handler(ApiError, _answer_error)
    app.add_exception_handler(UsageError, _answer_usage)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_middleware(AccessMiddleware, service=service)
    if service.settings.cors:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(service.settings.cors), allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-request-id"],
            expose_headers=["retry-after", "x-request-id", "x-truncated-texts"],
        )  # fmt: skip
    app.add_middleware(
        RequestMiddleware, metrics=service.metrics, paths=frozenset({"/", "/docs", *app.openapi()["paths"]})
    )
    return app


def _lifespan(service: Service) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.gatherer.start()
        tasks = set()
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, lambda: tasks.add(loop.create_task(service.reload())))
        logger.info("ready", extra={"fields": {"model": service.model.name, "process": os.getpid()}})
        yield
        await service.close()

    return lifespan


async def _answer_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return Response(error.body, error.status, error.headers, "application/json")


async def _answer_usage(request: Request, error: Exception) -> Response:
    return await _answer_error(request, wrong(str(error)))


async def _answer_http(request: Request, error: Exception) -> Response:
    """What the router itself refuses: an unknown path, a wrong method."""
    assert isinstance(error, HTTPException)
    known = {404: ("there is nothing at this address: see /docs", "not_found"),
             405: ("this address takes another method: see /docs", "wrong_method")}  # fmt: skip
    message, code = known.get(error.status_code, (str(error.detail), "refused"))
    response = await _answer_error(request, ApiError(error.status_code, message, code=code))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response
