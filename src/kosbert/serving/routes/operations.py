"""What those who run the server ask it: is it alive, is it ready, what does it do, what is it."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel

import kosbert
from kosbert.serving.errors import ApiError
from kosbert.serving.json_io import answer
from kosbert.serving.service import Service


class Status(BaseModel):
    """A word."""

    status: str


class IndexInfo(BaseModel):
    """The mounted index."""

    sentences: int
    fields: list[str]
    hybrid: bool
    kind: str


class LimitsInfo(BaseModel):
    """What a request may hold."""

    body_bytes: int
    texts: int
    tokens: int


class Info(BaseModel):
    """What is served."""

    model: str
    dimensions: int
    max_length: int | None
    backend: str
    version: str
    index: IndexInfo | None
    limits: LimitsInfo
    report: bool
    keys: bool


def operations_routes(service: Service) -> APIRouter:
    """The endpoints without texts."""
    router = APIRouter(tags=["operations"])

    @router.get("/health", response_model=Status)
    async def health() -> Response:
        """200 as long as the process can answer; else it must be started anew."""
        if service.gatherer.failed:
            raise ApiError(500, "the model has stopped: restart the server", code="failed")
        return answer({"status": "alive"})

    @router.get("/ready", response_model=Status)
    async def ready() -> Response:
        """200 while requests are taken, 503 while shutting down."""
        if service.closing:
            raise ApiError(503, "the server is shutting down: try another", code="closing", retry_after=5)
        return answer({"status": "ready"})

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @router.get("/info", response_model=Info)
    async def info() -> Response:
        """The model, the index and the limits."""
        encoder, limits = service.model.encoder, service.settings.limits
        return answer(
            {
                "model": service.model.name,
                "dimensions": encoder.dim,
                "max_length": encoder.max_length,
                "backend": service.model.backend,
                "version": kosbert.__version__,
                "index": _index(service),
                "limits": {"body_bytes": limits.body_bytes, "texts": limits.texts, "tokens": limits.tokens},
                "report": service.settings.report is not None,
                "keys": bool(service.keys),
            }
        )

    return router


def _index(service: Service) -> dict[str, Any] | None:
    if service.index is None:
        return None
    index = service.index.index
    return {"sentences": len(index), "fields": index.fields, "hybrid": bool(index.lexical), "backend": index.backend}
