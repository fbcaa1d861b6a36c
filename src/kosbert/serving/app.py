"""The FastAPI application: routes inside AccessMiddleware inside RequestMiddleware."""

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
from kosbert.serving.errors import ApiError, bad_request
from kosbert.serving.middleware import AccessMiddleware, RequestMiddleware
from kosbert.serving.routes.compare import compare_routes
from kosbert.serving.routes.openai import openai_routes
from kosbert.serving.routes.operations import operations_routes
from kosbert.serving.routes.page import docs_route, page_routes
from kosbert.serving.routes.search import search_routes
from kosbert.serving.routes.tei import tei_routes
from kosbert.serving.service import Service

logger = logging.getLogger(__name__)


class ErrorDetail(BaseModel):
    """What is wrong and how to fix it."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorResponse(BaseModel):
    """An error in OpenAI's format."""

    error: ErrorDetail


_ERROR_DESCRIPTIONS = {
    400: "Invalid request.", 401: "The API key is missing or invalid.", 403: "Unknown host name.",
    404: "Not found.", 408: "The body arrived too slowly.", 413: "Too large.", 415: "Content type is not JSON.",
    429: "Too many requests; see Retry-After.", 503: "Shutting down.", 504: "Timeout.",
}  # fmt: skip
_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse, "description": description} for status, description in _ERROR_DESCRIPTIONS.items()
}


def build_app(service: Service) -> FastAPI:
    """Build the ASGI application of a service. Its lifespan starts and closes the service."""
    app = FastAPI(
        title="kosbert", version=kosbert.__version__, description="Korean sentence embeddings.",
        docs_url=None, redoc_url=None, lifespan=_lifespan(service), responses=_ERROR_RESPONSES,
    )  # fmt: skip
    for routes in (openai_routes, tei_routes, compare_routes, search_routes, operations_routes):
        app.include_router(routes(service))
    app.include_router(page_routes(service.settings))
    app.include_router(docs_route(app))
    app.add_exception_handler(ApiError, _handle_api_error)
    app.add_exception_handler(UsageError, _handle_usage_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)
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
        service.batcher.start()
        tasks = set()
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, lambda: tasks.add(loop.create_task(service.reload())))
        logger.info("ready", extra={"fields": {"model": service.model.name, "pid": os.getpid()}})
        yield
        await service.close()

    return lifespan


async def _handle_api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return Response(error.body, error.status, error.headers, "application/json")


async def _handle_usage_error(request: Request, error: Exception) -> Response:
    return await _handle_api_error(request, bad_request(str(error)))


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    """Handle errors of the router: unknown path, wrong method."""
    assert isinstance(error, HTTPException)
    messages = {404: ("this path does not exist: see /docs", "not_found"),
                405: ("this path does not support this method: see /docs", "method_not_allowed")}  # fmt: skip
    message, code = messages.get(error.status_code, (str(error.detail), "http_error"))
    response = await _handle_api_error(request, ApiError(error.status_code, message, code=code))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response
