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
"""Sentences that are sorted together; larger hardly shortens the padding and costs memory."""


def check(sentences: Iterable[Any], *, clean: bool, start: int = 0) -> Iterator[str]:
    """Pass on strings, cleaned if asked; name the position of the first thing that is not one."""
    for index, sentence in enumerate(sentences, start=start):
        if not isinstance(sentence, str):
            raise UsageError(
                f"sentence {index} is a {type(sentence).__name__}, not a string; give strings only, for example str(x)"
            )
        # A lone surrogate cannot reach the tokenizer at all; the rest is for the caller to choose.
        yield clean_text(sentence) if clean else sentence.encode("utf-8", "replace").decode("utf-8")


def windows(sentences: Iterable[str], size: int = WINDOW) -> Iterator[list[str]]:
    """Cut sentences into lists of at most `size`."""
    remaining = iter(sentences)
    while window := list(islice(remaining, size)):
        yield window


def distinct(sentences: list[str]) -> tuple[list[str], np.ndarray[Any, np.dtype[np.intp]]]:
    """Each sentence once, and for each of the originals which of those it is."""
    position: dict[str, int] = {}
    inverse = np.fromiter((position.setdefault(text, len(position)) for text in sentences), np.intp, len(sentences))
    return list(position), inverse


def by_budget(lengths: list[int], budget: int, *, padded: bool) -> Iterator[list[int]]:
    """Cut the indices of `lengths`, longest first, into batches of at most `budget` tokens; one sentence may exceed it.

    Padding counts when there is any: a padded batch has as many tokens as it has sentences times its longest.

    >>> list(by_budget([3, 9, 4], 12, padded=True))
    [[1], [2, 0]]
    """
    batch: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        cost = lengths[batch[0]] if padded and batch else lengths[index]
        if batch and tokens + cost > budget:
            yield batch
            batch, tokens, cost = [], 0, lengths[index]
        batch.append(index)
        tokens += cost
    if batch:
        yield batch
