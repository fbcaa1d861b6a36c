"""OpenAI's embeddings API: its clients work with only the base_url changed.

POST /v1/embeddings {"model": "builtin", "input": ["오늘 날씨가 좋다."]}
"""

import base64
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from kosbert.serving.errors import ApiError
from kosbert.serving.json_io import RequestBody, json_response, json_response_float32, openapi_body, read_json
from kosbert.serving.service import Service

Token = Annotated[int, Field(ge=0)]


class EmbeddingsRequest(RequestBody):
    """The request of OpenAI's clients."""

    input: (
        Annotated[str, Field(min_length=1)]
        | Annotated[list[str], Field(min_length=1)]
        | Annotated[list[Token], Field(min_length=1)]
        | Annotated[list[Annotated[list[Token], Field(min_length=1)]], Field(min_length=1)]
    ) = Field(description="A text, texts, or token ids of the model's own tokenizer.")
    model: str = Field(description="The model name from GET /v1/models.")
    dimensions: Annotated[int, Field(ge=1)] | None = Field(None, description="Keep only the first dimensions.")
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="float (the default), or base64 of little-endian float32."
    )
    user: str | None = Field(None, description="Ignored.")


class Embedding(BaseModel):
    """One embedding."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Number of tokens."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """Embeddings in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class Model(BaseModel):
    """A served model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelsResponse(BaseModel):
    """The list of models; this server has one."""

    object: Literal["list"]
    data: list[Model]


def openai_routes(service: Service) -> APIRouter:
    """Return the routes under /v1."""
    router = APIRouter(prefix="/v1", tags=["OpenAI"])

    @router.post("/embeddings", response_model=EmbeddingsResponse, openapi_extra=openapi_body(EmbeddingsRequest))
    async def embeddings(request: Request) -> Response:
        """Normalized embeddings of texts."""
        body = await read_json(request, EmbeddingsRequest)
        name = service.model.name
        if body.model != name:
            raise ApiError(404, f"this server has only the model {name}: request that one", code="model_not_found",
                           param="model")  # fmt: skip
        inputs: Any = [body.input] if isinstance(body.input, str) or isinstance(body.input[0], int) else body.input
        encoded = await service.encode(inputs, request.state.context, param="input")
        vectors = encoded.embeddings(body.dimensions)
        rows: list[Any] = (
            [base64.b64encode(row).decode("ascii") for row in vectors.astype("<f4", copy=False)]
            if body.encoding_format == "base64"
            else list(vectors)
        )
        tokens = encoded.prepared.tokens
        return json_response_float32(
            {
                "object": "list",
                "data": [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)],
                "model": encoded.model.name,
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            },
            encoded.headers,
        )

    @router.get("/models", response_model=ModelsResponse)
    async def models() -> Response:
        """The served model."""
        model = service.model
        entry = {"id": model.name, "object": "model", "created": model.created, "owned_by": "kosbert"}
        return json_response({"object": "list", "data": [entry]})

    return router
