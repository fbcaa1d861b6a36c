"""The API of text-embeddings-inference.

POST /embed {"inputs": ["오늘 날씨가 좋다."]}
POST /similarity {"inputs": {"source_sentence": "비가 온다", "sentences": ["폭우가 내린다", "주식이 올랐다"]}}
"""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from kosbert.serving.json_io import RequestBody, json_response_float32, openapi_body, read_json
from kosbert.serving.service import Service


class EmbedRequest(RequestBody):
    """The /embed request of text-embeddings-inference."""

    inputs: str | Annotated[list[str], Field(min_length=1)]
    normalize: bool = Field(True, description="Scale embeddings to length 1.")
    truncate: bool | None = Field(None, description="false: reject texts that are too long for the model.")
    dimensions: Annotated[int, Field(ge=1)] | None = Field(None, description="Keep only the first dimensions.")


class SimilarityInputs(RequestBody):
    """A sentence, and the sentences to compare it with."""

    source_sentence: str
    sentences: Annotated[list[str], Field(min_length=1)]


class SimilarityRequest(RequestBody):
    """The /similarity request of text-embeddings-inference."""

    inputs: SimilarityInputs


def tei_routes(service: Service) -> APIRouter:
    """Return the routes of text-embeddings-inference."""
    router = APIRouter(tags=["text-embeddings-inference"])

    @router.post("/embed", response_model=list[list[float]], openapi_extra=openapi_body(EmbedRequest))
    async def embed(request: Request) -> Response:
        """Embeddings of texts, one row per text."""
        body = await read_json(request, EmbedRequest)
        texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
        encoded = await service.encode(texts, request.state.context, truncate=body.truncate is not False)
        embeddings = encoded.embeddings(body.dimensions, normalize=body.normalize)
        return json_response_float32(embeddings, encoded.headers)

    @router.post("/similarity", response_model=list[float], openapi_extra=openapi_body(SimilarityRequest))
    async def similarity(request: Request) -> Response:
        """Cosine similarities of one sentence with others."""
        inputs = (await read_json(request, SimilarityRequest)).inputs
        encoded = await service.encode([inputs.source_sentence, *inputs.sentences], request.state.context)
        embeddings = encoded.embeddings()
        return json_response_float32(embeddings[1:] @ embeddings[0], encoded.headers)

    return router
