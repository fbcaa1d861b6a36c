"""Sentences beside each other: every cosine among some, and the words that make two alike.

POST /compare {"sentences": ["비가 온다", "폭우가 내린다", "주식이 올랐다"]}
POST /explain {"left": "배송이 너무 늦어요", "right": "택배가 아직 안 왔어요"}
"""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from kosbert.search.explain import explain, without_each_word
from kosbert.serving.errors import too_large
from kosbert.serving.json_io import Body, answer, answer_numbers, read, takes
from kosbert.serving.known import PrecomputedEncoder
from kosbert.serving.service import Service

MOST_WORDS = 256
"""Of both sentences of /explain: each word is one more text to encode."""


class CompareRequest(Body):
    """Sentences to compare with each other."""

    sentences: Annotated[list[str], Field(min_length=2, max_length=50)]


class CompareAnswer(BaseModel):
    """The cosine of each with each."""

    cosines: list[list[float]]


class ExplainRequest(Body):
    """Two sentences."""

    left: str
    right: str


class WordEffect(BaseModel):
    """A word, and how far the cosine falls without it."""

    word: str
    effect: float


class ExplainAnswer(BaseModel):
    """The cosine of two sentences, and what each word did for it."""

    cosine: float
    left: list[WordEffect]
    right: list[WordEffect]


def compare_routes(service: Service) -> APIRouter:
    """The endpoints that compare sentences."""
    router = APIRouter(tags=["kosbert"])

    @router.post("/compare", response_model=CompareAnswer, openapi_extra=takes(CompareRequest))
    async def compare(request: Request) -> Response:
        """Cosine of each of 2 to 50 sentences with each."""
        wanted = await read(request, CompareRequest)
        encoded = await service.encode(wanted.sentences, request.scope["account"], param="sentences")
        vectors = encoded.shortened(None)
        return answer_numbers({"cosines": vectors @ vectors.T}, encoded.headers)

    @router.post("/explain", response_model=ExplainAnswer, openapi_extra=takes(ExplainRequest))
    async def explained(request: Request) -> Response:
        """How far the cosine of two sentences falls when a word of either is left out."""
        wanted = await read(request, ExplainRequest)
        left, right = wanted.left, wanted.right
        service.check_texts([left], "left")
        service.check_texts([right], "right")
        words = len(left.split()) + len(right.split())
        if words > MOST_WORDS:
            raise too_large(f"{words:,} words are too many to explain: send at most {MOST_WORDS}", param="left")
        texts = list(dict.fromkeys([left, right, *without_each_word(left), *without_each_word(right)]))
        model, account = service.model, request.scope["account"]
        encoded = await service.compute(model, await service.prepare(model, texts, account), account, param="left")
        (found,) = explain(PrecomputedEncoder(dict(zip(texts, encoded.vectors, strict=True))), left, [right])
        effects = {
            side: [{"word": each.word, "effect": each.effect} for each in words_of]
            for side, words_of in (("left", found.query), ("right", found.hit))
        }
        return answer({"cosine": found.cosine, **effects})

    return router
