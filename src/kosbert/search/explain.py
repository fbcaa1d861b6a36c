"""Explain a cosine similarity by words: the drop of the cosine when a word is left out (occlusion)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kosbert.search.encoding import unit_vectors

if TYPE_CHECKING:
    from kosbert.model.encoder import SupportsEncode


@dataclass(frozen=True)
class WordEffect:
    """A space-separated word and the drop of the cosine without it; negative if the cosine rises."""

    word: str
    effect: float


@dataclass(frozen=True)
class Explanation:
    """The cosine of a query and a hit, and the effect of each of their words."""

    cosine: float
    query: list[WordEffect]
    hit: list[WordEffect]


def explain(encoder: "SupportsEncode", query: str, texts: Sequence[str]) -> list[Explanation]:
    """Explain the cosine of a query with each of some texts; all variants are encoded in one call."""
    return explain_vectors(unit_vectors(encoder, sentences_to_explain(query, texts)), query, texts)


def sentences_to_explain(query: str, texts: Sequence[str]) -> list[str]:
    """Return the sentences that `explain_vectors` needs: the query, the texts, and each of them without each word."""
    shortened_texts = [shortened for text in texts for shortened in without_each_word(text)]
    return [query, *without_each_word(query), *texts, *shortened_texts]


def explain_vectors(vectors: NDArray[np.float32], query: str, texts: Sequence[str]) -> list[Explanation]:
    """Explain cosines from the unit vectors of `sentences_to_explain`, (sentences, dim)."""
    first_text = 1 + len(query.split())
    start = first_text + len(texts)
    explanations = []
    for text, text_vector in zip(texts, vectors[first_text:start], strict=True):
        cosine = float(vectors[0] @ text_vector)
        end = start + len(text.split())
        query_effects = _effects(query, cosine - vectors[1:first_text] @ text_vector)
        text_effects = _effects(text, cosine - vectors[start:end] @ vectors[0])
        explanations.append(Explanation(cosine, query_effects, text_effects))
        start = end
    return explanations


def without_each_word(text: str) -> list[str]:
    """Return the text without its first word, without its second, and so on."""
    words = text.split()
    return [" ".join(words[:position] + words[position + 1 :]) for position in range(len(words))]


def _effects(text: str, drops: NDArray[np.float32]) -> list[WordEffect]:
    return [WordEffect(word, float(drop)) for word, drop in zip(text.split(), drops, strict=True)]
