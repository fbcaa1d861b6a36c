"""Health and readiness probes, Prometheus metrics, and information about the server."""

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel

import kosbert
from kosbert.serving.errors import ApiError, shutting_down
from kosbert.serving.json_io import json_response
from kosbert.serving.service import Service


class Status(BaseModel):
    """alive or ready."""

    status: str


class IndexInfo(BaseModel):
    """The search index."""

    sentences: int
    fields: list[str]
    hybrid: bool
    backend: str


class LimitsInfo(BaseModel):
    """Limits per request."""

    max_body_bytes: int
    max_texts: int
    max_tokens: int


class Info(BaseModel):
    """The model, the index and the limits."""

    model: str
    dimensions: int
    max_length: int | None
    backend: str
    version: str
    index: IndexInfo | None
    limits: LimitsInfo
    report: bool
    requires_key: bool


def operations_routes(service: Service) -> APIRouter:
    """Return the routes for operators."""
    router = APIRouter(tags=["operations"])

    @router.get("/health", response_model=Status)
    async def health() -> Response:
        """Liveness probe: 200 unless the process must be restarted."""
        if service.batcher.failed:
            raise ApiError(500, "the model thread has died: restart the server", code="model_failed")
        return json_response({"status": "alive"})

    @router.get("/ready", response_model=Status)
    async def ready() -> Response:
        """Readiness probe: 200 while requests are accepted, 503 during shutdown."""
        if service.closing:
            raise shutting_down()
        return json_response({"status": "ready"})

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Prometheus metrics."""
        return Response(service.metrics.export(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @router.get("/info", response_model=Info)
    async def info() -> Response:
        """The model, the index and the limits."""
        encoder, limits = service.model.encoder, service.settings.limits
        index = service.index.index if service.index else None
        return json_response(
            {
                "model": service.model.name,
                "dimensions": encoder.dim,
                "max_length": encoder.max_length,
                "backend": service.model.backend,
                "version": kosbert.__version__,
                "index": None if index is None else {
                    "sentences": len(index), "fields": index.fields, "hybrid": bool(index.lexical),
                    "backend": index.backend,
                },
                "limits": {
                    "max_body_bytes": limits.max_body_bytes, "max_texts": limits.max_texts,
                    "max_tokens": limits.max_tokens,
                },
                "report": service.settings.report is not None,
                "requires_key": bool(service.keys),
            }
        )  # fmt: skip

    return router
