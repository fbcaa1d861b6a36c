"""Compare sentences: pairwise cosine similarities, and the words behind the similarity of two sentences.

POST /compare {"sentences": ["비가 온다", "폭우가 내린다", "주식이 올랐다"]}
POST /explain {"left": "배송이 너무 늦어요", "right": "택배가 아직 안 왔어요"}
"""

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from kosbert.search.explain import explain_vectors, sentences_to_explain
from kosbert.serving.errors import too_large
from kosbert.serving.json_io import RequestBody, json_response, json_response_float32, openapi_body, read_json
from kosbert.serving.service import Service

MAX_WORDS = 256
"""Of both sentences of /explain: each word is one more text to encode."""


class CompareRequest(RequestBody):
    """Sentences to compare with each other."""

    sentences: Annotated[list[str], Field(min_length=2, max_length=50)]


class CompareResponse(BaseModel):
    """Cosine similarity matrix."""

    cosines: list[list[float]]


class ExplainRequest(RequestBody):
    """Two sentences."""

    left: str
    right: str


class WordEffect(BaseModel):
    """A word, and how much the cosine similarity drops without it."""

    word: str
    effect: float


class ExplainResponse(BaseModel):
    """Cosine similarity of two sentences, and the effect of each word."""

    cosine: float
    left: list[WordEffect]
    right: list[WordEffect]


def compare_routes(service: Service) -> APIRouter:
    """Return the routes that compare sentences."""
    router = APIRouter(tags=["kosbert"])

    @router.post("/compare", response_model=CompareResponse, openapi_extra=openapi_body(CompareRequest))
    async def compare(request: Request) -> Response:
        """Pairwise cosine similarities of 2 to 50 sentences."""
        body = await read_json(request, CompareRequest)
        encoded = await service.encode(body.sentences, request.state.context, param="sentences")
        embeddings = encoded.embeddings()
        return json_response_float32({"cosines": embeddings @ embeddings.T}, encoded.headers)

    @router.post("/explain", response_model=ExplainResponse, openapi_extra=openapi_body(ExplainRequest))
    async def explain(request: Request) -> Response:
        """How much the cosine similarity of two sentences drops when a word is removed."""
        body = await read_json(request, ExplainRequest)
        left, right = body.left, body.right
        service.check_inputs([left], "left")
        service.check_inputs([right], "right")
        word_count = len(left.split()) + len(right.split())
        if word_count > MAX_WORDS:
            raise too_large(f"{word_count:,} words are too many: send at most {MAX_WORDS}", param="left")
        sentences = sentences_to_explain(left, [right])
        distinct = {text: row for row, text in enumerate(dict.fromkeys(sentences))}
        # Unchecked: a sentence of one word is empty without it.
        encoded = await service.encode(list(distinct), request.state.context, param="left", check=False)
        vectors = encoded.embeddings()[np.array([distinct[text] for text in sentences])]
        (explanation,) = explain_vectors(vectors, left, [right])
        effects = {
            side: [{"word": effect.word, "effect": effect.effect} for effect in word_effects]
            for side, word_effects in (("left", explanation.query), ("right", explanation.hit))
        }
        return json_response({"cosine": explanation.cosine, **effects})

    return router
