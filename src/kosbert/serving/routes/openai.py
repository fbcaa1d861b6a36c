"""Embeddings as OpenAI's API has them: its clients work with another base_url and nothing else changed.

POST /v1/embeddings {"model": "builtin", "input": ["오늘 날씨가 좋다."]}
"""

import base64
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from kosbert.serving.errors import ApiError, too_large
from kosbert.serving.json_io import Body, answer, answer_numbers, read, takes
from kosbert.serving.limits import MOST_CHARACTERS
from kosbert.serving.service import Encoded, Service

Token = Annotated[int, Field(ge=0)]


class EmbeddingsRequest(Body):
    """What OpenAI's clients send."""

    input: (
        Annotated[str, Field(min_length=1)]
        | Annotated[list[str], Field(min_length=1)]
        | Annotated[list[Token], Field(min_length=1)]
        | Annotated[list[Annotated[list[Token], Field(min_length=1)]], Field(min_length=1)]
    ) = Field(description="A text, texts, or token ids of the model's own tokenizer.")
    model: str = Field(description="The name that GET /v1/models tells.")
    dimensions: Annotated[int, Field(ge=1)] | None = Field(None, description="Keep only the first dimensions.")
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="float (the default), or base64 of little-endian float32."
    )
    user: str | None = Field(None, description="Ignored.")


class Embedding(BaseModel):
    """One vector."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Tokens that the model read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(BaseModel):
    """The vectors in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class Model(BaseModel):
    """A model that is served."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelsAnswer(BaseModel):
    """The one model that is served."""

    object: Literal["list"]
    data: list[Model]


def openai_routes(service: Service) -> APIRouter:
    """The endpoints below /v1."""
    router = APIRouter(prefix="/v1", tags=["OpenAI"])

    @router.post("/embeddings", response_model=EmbeddingsAnswer, openapi_extra=takes(EmbeddingsRequest))
    async def embeddings(request: Request) -> Response:
        """Vectors of texts, of length 1."""
        wanted = await read(request, EmbeddingsRequest)
        name = service.model.name
        if wanted.model != name:
            raise ApiError(404, f"this server has only the model {name}: ask for it", code="model_not_found",
                           param="model")  # fmt: skip
        encoded = await _encoded(service, wanted, request)
        vectors = encoded.shortened(wanted.dimensions)
        found: list[Any] = (
            [base64.b64encode(row).decode("ascii") for row in vectors.astype("<f4", copy=False)]
            if wanted.encoding_format == "base64"
            else list(vectors)
        )
        tokens = encoded.prepared.tokens
        return answer_numbers(
            {
                "object": "list",
                "data": [
                    {"object": "embedding", "index": index, "embedding": embedding}
                    for index, embedding in enumerate(found)
                ],
                "model": encoded.model.name,
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            },
            encoded.headers,
        )

    @router.get("/models", response_model=ModelsAnswer)
    async def models() -> Response:
        """The model that is served."""
        model = service.model
        row = {"id": model.name, "object": "model", "created": model.created, "owned_by": "kosbert"}
        return answer({"object": "list", "data": [row]})

    return router


async def _encoded(service: Service, wanted: EmbeddingsRequest, request: Request) -> Encoded:
    account = request.scope["account"]
    if isinstance(wanted.input, str):
        return await service.encode([wanted.input], account, param="input")
    if isinstance(wanted.input[0], str):
        return await service.encode(wanted.input, account, param="input")
    lists: Any = [wanted.input] if isinstance(wanted.input[0], int) else wanted.input
    service.check_count(len(lists), "input")
    if sum(map(len, lists)) > MOST_CHARACTERS:
        raise too_large(f"more than {MOST_CHARACTERS:,} token ids are too many: send fewer", param="input")
    model = service.model
    return await service.compute(model, model.prepare_tokens(lists), account, param="input")
