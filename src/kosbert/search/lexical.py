"""Lexical search: BM25 (bm25s) over Korean morphemes or character bigrams.

배송이, 배송을 and 배송은 are three eojeols with one noun. kiwipiepy splits them into morphemes. Where it is not
installed, the character bigrams of each eojeol (배송, 송이) serve: nearly the same recall with more noise.
"""

import importlib.util
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError, UsageError
from kosbert.model.topk import top_k
from kosbert.text import clean

# Tag prefixes of nouns, verbs, adjectives, roots, adverbs, foreign words, Hanja and numbers; not of particles, endings
# or punctuation.
_CONTENT_TAGS = ("NN", "NR", "NP", "VV", "VA", "XR", "MAG", "SL", "SH", "SN", "SW", "W_")
_EOJEOL = re.compile(r"[^\W_]+")


def morphemes(texts: Sequence[str]) -> list[list[str]]:
    """Return the content morphemes of each text."""
    return [
        [token.form.lower() for token in tokens if token.tag.startswith(_CONTENT_TAGS)] for tokens in kiwi_tokens(texts)
    ]


def bigrams(texts: Sequence[str]) -> list[list[str]]:
    """Return the character bigrams of each eojeol of each text; an eojeol of one character is kept as it is."""
    return [
        [
            eojeol[start : start + 2]
            for eojeol in _EOJEOL.findall(clean(text).lower())
            for start in range(max(1, len(eojeol) - 1))
        ]
        for text in texts
    ]


ANALYZERS: dict[str, Callable[[Sequence[str]], list[list[str]]]] = {"morphemes": morphemes, "bigrams": bigrams}


def default_analyzer() -> str:
    """Return "morphemes" if kiwipiepy is installed, else "bigrams"."""
    return "morphemes" if importlib.util.find_spec("kiwipiepy") else "bigrams"


def analyze(analyzer: str, texts: Sequence[str]) -> list[list[str]]:
    """Return the BM25 tokens of each text; spaces within a token (some Kiwi morphemes have them) become underscores."""
    return [[token.replace(" ", "_") for token in tokens] for tokens in ANALYZERS[analyzer](texts)]


def kiwi_tokens(texts: Sequence[str]) -> Iterable[Any]:
    """Return Kiwi's tokens of each text, with their part-of-speech tags."""
    return _kiwi().tokenize([clean(text) for text in texts])  # type: ignore[no-any-return]


@cache
def _kiwi() -> Any:
    """Load Kiwi once: it takes a second."""
    try:
        from kiwipiepy import Kiwi
    except ImportError:
        raise UsageError("Korean morphemes need kiwipiepy: pip install 'kosbert[search]'") from None
    return Kiwi()


class LexicalIndex:
    """BM25 over the tokens of all sentences, by row number."""

    def __init__(self, retriever: Any, count: int) -> None:
        self._retriever, self._count = retriever, count

    @classmethod
    def build(cls, tokens: Sequence[Sequence[str]]) -> "LexicalIndex":
        """Index the tokens of every sentence."""
        retriever = None
        if any(tokens):
            retriever = _bm25s().BM25(method="lucene")
            retriever.index([list(sentence) for sentence in tokens], show_progress=False)
        return cls(retriever, len(tokens))

    def search(self, tokens: Sequence[str], k: int, allowed: NDArray[np.intp] | None = None) -> dict[int, float]:
        """Return rows and BM25 scores of the k best sentences that share a token, best first."""
        if self._retriever is None or not tokens:
            return {}
        scores = self._retriever.get_scores(list(tokens))[: self._count]
        if allowed is not None:
            allowed_scores = np.zeros_like(scores)
            allowed_scores[allowed] = scores[allowed]
            scores = allowed_scores
        return {int(row): float(scores[row]) for row in top_k(scores[None], k)[0] if scores[row] > 0}

    def write(self, folder: Path) -> None:
        """Write score arrays and vocabulary; nothing for an index without tokens."""
        folder.mkdir()
        if self._retriever is not None:
            self._retriever.save(str(folder), show_progress=False)

    @classmethod
    def read(cls, folder: Path) -> "LexicalIndex":
        """Memory-map the files that `write` wrote."""
        if not folder.is_dir():
            raise KosbertError(f"the BM25 files in {folder} are missing: build the index again from its source")
        if not any(folder.iterdir()):
            return cls(None, 0)
        try:
            retriever = _bm25s().BM25.load(str(folder), mmap=True, show_progress=False)
            return cls(retriever, int(retriever.scores["num_docs"]))
        except (OSError, ValueError, KeyError, EOFError) as error:
            reason = type(error).__name__
            raise KosbertError(
                f"the BM25 files in {folder} are damaged ({reason}): build the index again from its source"
            ) from error


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError:
        raise UsageError("hybrid search needs bm25s: pip install 'kosbert[search]'") from None
    return bm25s
