"""Which words made a query and a hit similar: how far their cosine falls when one of them is left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kosbert.search.encoding import unit_vectors

if TYPE_CHECKING:
    from kosbert.model.encoder import SupportsEncode


@dataclass(frozen=True)
class WordEffect:
    """A word between spaces, and how much the cosine falls without it; below zero it stands in the way."""

    word: str
    effect: float


@dataclass(frozen=True)
class Explanation:
    """What each word of the query and of the hit did for their cosine."""

    cosine: float
    query: list[WordEffect]
    hit: list[WordEffect]


def explain(encoder: "SupportsEncode", query: str, texts: Sequence[str]) -> list[Explanation]:
    """Explain the cosine of a query with each of some texts, all variants encoded in one call."""
    cut_query = without_each_word(query)
    cut_texts = [without_each_word(text) for text in texts]
    sentences = [query, *cut_query, *texts, *(cut for cuts in cut_texts for cut in cuts)]
    vectors = unit_vectors(encoder, sentences)
    whole, shorter_queries = vectors[0], vectors[1 : 1 + len(cut_query)]
    hits = vectors[1 + len(cut_query) :][: len(texts)]
    place = 1 + len(cut_query) + len(texts)
    found = []
    for text, hit, cuts in zip(texts, hits, cut_texts, strict=True):
        cosine = float(whole @ hit)
        shorter_hits = vectors[place : place + len(cuts)]
        place += len(cuts)
        found.append(
            Explanation(
                cosine, _effects(query, cosine - shorter_queries @ hit), _effects(text, cosine - shorter_hits @ whole)
            )
        )
    return found


def without_each_word(text: str) -> list[str]:
    """The text without its first word, without its second, and so on."""
    words = text.split()
    return [" ".join(words[:place] + words[place + 1 :]) for place in range(len(words))]


def _effects(text: str, has_dropout: "np.ndarray[tuple[int], np.dtype[np.float32]]") -> list[WordEffect]:
    return [WordEffect(word, float(drop)) for word, drop in zip(text.split(), has_dropout, strict=True)]
