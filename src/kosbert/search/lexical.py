"""Search by common words: BM25 (bm25s) over Korean morphemes, or over pairs of characters.

배송이, 배송을 and 배송은 are three words between spaces and one noun. kiwipiepy takes them apart; where it is not
installed, the pairs of characters inside an eojeol do (배송, 송이), which finds nearly as much with more noise.
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
from kosbert.text import clean

# Nouns, verbs, adjectives, roots, adverbs, foreign words, Hanja and numbers; no particles, endings or signs.
_CONTENT = ("NN", "NR", "NP", "VV", "VA", "XR", "MAG", "SL", "SH", "SN", "SW", "W_")
_EOJEOL = re.compile(r"[^\W_]+")


def morphemes(texts: Sequence[str]) -> list[list[str]]:
    """The morphemes that carry meaning."""
    return [[token.form.lower() for token in tokens if token.tag.startswith(_CONTENT)] for tokens in tokens_of(texts)]


def bigrams(texts: Sequence[str]) -> list[list[str]]:
    """The pairs of neighboring characters of each eojeol; one of a single character is itself."""
    return [
        [
            word[place : place + 2]
            for word in _EOJEOL.findall(clean(text).lower())
            for place in range(max(1, len(word) - 1))
        ]
        for text in texts
    ]


ANALYZERS: dict[str, Callable[[Sequence[str]], list[list[str]]]] = {"morphemes": morphemes, "bigrams": bigrams}


def best_analyzer() -> str:
    """Morphemes where kiwipiepy is installed."""
    return "morphemes" if importlib.util.find_spec("kiwipiepy") else "bigrams"


def analyze(name: str, texts: Sequence[str]) -> list[list[str]]:
    """The words of each text, without the spaces that a few of Kiwi's morphemes hold."""
    return [[word.replace(" ", "_") for word in words] for words in ANALYZERS[name](texts)]


def tokens_of(texts: Sequence[str]) -> Iterable[Any]:
    """Kiwi's tokens of each text, with their parts of speech."""
    return kiwi().tokenize([clean(text) for text in texts])  # type: ignore[no-any-return]


@cache
def kiwi() -> Any:
    """The analyzer, loaded once: it takes a second."""
    try:
        from kiwipiepy import Kiwi
    except ImportError:
        raise UsageError("Korean morphemes need kiwipiepy: pip install 'kosbert[search]'") from None
    return Kiwi()


class Lexical:
    """BM25 over the words of all sentences, by their places."""

    def __init__(self, retriever: Any, count: int) -> None:
        self._retriever, self._count = retriever, count

    @classmethod
    def build(cls, words: Sequence[Sequence[str]]) -> "Lexical":
        """Count the words of every sentence."""
        retriever = None
        if any(words):
            retriever = _bm25s().BM25(method="lucene")
            retriever.index([list(each) for each in words], show_progress=False)
        return cls(retriever, len(words))

    def best(self, words: Sequence[str], k: int, allowed: NDArray[np.intp] | None = None) -> dict[int, float]:
        """Places and scores of the k best sentences that share a word, best first."""
        if self._retriever is None or not words:
            return {}
        scores = self._retriever.get_scores(list(words))[: self._count]
        if allowed is not None:
            kept = np.zeros_like(scores)
            kept[allowed] = scores[allowed]
            scores = kept
        from kosbert.model.topk import top

        return {int(place): float(scores[place]) for place in top(scores[None], k)[0] if scores[place] > 0}

    def write(self, folder: Path) -> None:
        """Write arrays and a list of words."""
        folder.mkdir()
        if self._retriever is not None:
            self._retriever.save(str(folder), show_progress=False)

    @classmethod
    def read(cls, folder: Path) -> "Lexical":
        """Read what `write` wrote."""
        if not folder.is_dir():
            raise KosbertError(f"the words in {folder} are gone: build the index again from its source")
        if not any(folder.iterdir()):
            return cls(None, 0)
        try:
            retriever = _bm25s().BM25.load(str(folder), mmap=True, show_progress=False)
            return cls(retriever, int(retriever.scores["num_docs"]))
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise KosbertError(
                f"the words in {folder} are damaged ({type(error).__name__}): build the index again from its source"
            ) from error


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError:
        raise UsageError("hybrid search needs bm25s: pip install 'kosbert[search]'") from None
    return bm25s
