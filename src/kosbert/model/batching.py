"""Which sentences go through the model together: as many as fit a budget of tokens, of similar length.

Sentences come in windows, so that a million of them need no more memory than a window. Inside a window equal sentences
are computed once, and the rest is sorted by its number of tokens (not characters: 뷁 may be one token or four).
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from kosbert.errors import UsageError
from kosbert.text import clean as clean_text

WINDOW = 8_192
"""Sentences that are sorted together; a larger window saves hardly any padding and costs memory."""


def checked_texts(sentences: Iterable[Any], *, clean: bool, start: int = 0) -> Iterator[str]:
    """Yield the sentences, cleaned if `clean`; raise an error that names the position of the first non-string."""
    for index, sentence in enumerate(sentences, start=start):
        if not isinstance(sentence, str):
            raise UsageError(
                f"sentence {index} is a {type(sentence).__name__}, not a string; give strings only, for example str(x)"
            )
        # Without cleaning, lone surrogates are still replaced: the tokenizer cannot read them.
        yield clean_text(sentence) if clean else sentence.encode("utf-8", "replace").decode("utf-8")


def windows(sentences: Iterable[str], size: int = WINDOW) -> Iterator[list[str]]:
    """Yield the sentences in lists of at most `size`."""
    remaining = iter(sentences)
    while window := list(islice(remaining, size)):
        yield window


def distinct(sentences: list[str]) -> tuple[list[str], np.ndarray[Any, np.dtype[np.intp]]]:
    """Return the distinct sentences, and for each sentence its index among them."""
    index: dict[str, int] = {}
    inverse = np.fromiter((index.setdefault(text, len(index)) for text in sentences), np.intp, len(sentences))
    return list(index), inverse


def batches_by_tokens(
    lengths: list[int], budget: int, *, padded: bool, max_sentences: int | None = None
) -> Iterator[list[int]]:
    """Yield the indices of `lengths`, longest first, in batches of at most `budget` tokens.

    A sentence longer than the budget is a batch of its own.

    Args:
        lengths: tokens of each sentence.
        budget: maximum number of tokens per batch.
        padded: count padding too: sentences of the batch times its longest.
        max_sentences: maximum number of sentences per batch.

    >>> list(batches_by_tokens([3, 9, 4], 12, padded=True))
    [[1], [2, 0]]
    """
    batch: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        cost = lengths[batch[0]] if padded and batch else lengths[index]
        if batch and (tokens + cost > budget or len(batch) == max_sentences):
            yield batch
            batch, tokens, cost = [], 0, lengths[index]
        batch.append(index)
        tokens += cost
    if batch:
        yield batch
