"""Embeddings and similarities as text-embeddings-inference has them.

POST /embed {"inputs": ["오늘 날씨가 좋다."]}
POST /similarity {"inputs": {"source_sentence": "비가 온다", "sentences": ["폭우가 내린다", "주식이 올랐다"]}}
"""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from kosbert.serving.json_io import Body, answer_numbers, read, takes
from kosbert.serving.service import Service


class EmbedRequest(Body):
    """What clients of text-embeddings-inference send."""

    inputs: str | Annotated[list[str], Field(min_length=1)]
    normalize: bool = Field(True, description="Make each vector of length 1.")
    truncate: bool | None = Field(None, description="false: refuse texts that are longer than the model reads.")
    dimensions: Annotated[int, Field(ge=1)] | None = Field(None, description="Keep only the first dimensions.")


class Sentences(Body):
    """One sentence, and those that it is compared with."""

    source_sentence: str
    sentences: Annotated[list[str], Field(min_length=1)]


class SimilarityRequest(Body):
    """What clients of text-embeddings-inference send."""

    inputs: Sentences


def tei_routes(service: Service) -> APIRouter:
    """The endpoints that turn texts into numbers."""
    router = APIRouter(tags=["text-embeddings-inference"])

    @router.post("/embed", response_model=list[list[float]], openapi_extra=takes(EmbedRequest))
    async def embed(request: Request) -> Response:
        """Vectors of texts, one row a text."""
        wanted = await read(request, EmbedRequest)
        texts = [wanted.inputs] if isinstance(wanted.inputs, str) else wanted.inputs
        encoded = await service.encode(texts, request.scope["account"], truncate=wanted.truncate is not False)
        vectors = encoded.shortened(wanted.dimensions, normalize=wanted.normalize)
        return answer_numbers(vectors, encoded.headers)

    @router.post("/similarity", response_model=list[float], openapi_extra=takes(SimilarityRequest))
    async def similarity(request: Request) -> Response:
        """Cosine of one sentence with others."""
        wanted = (await read(request, SimilarityRequest)).inputs
        encoded = await service.encode([wanted.source_sentence, *wanted.sentences], request.scope["account"])
        vectors = encoded.shortened(None)
        return answer_numbers(vectors[1:] @ vectors[0], encoded.headers)

    return router
