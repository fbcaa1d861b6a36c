"""Edited copies of sentences, for a teacher to judge: nobody has labeled them, and nobody has to.

A student that sees the same sentences again and again learns them by heart; with a word less or another word in its
place each is a new sentence, close to the old one, and the teacher says how close.
"""

from collections.abc import Sequence

import numpy as np


def edited(sentences: Sequence[str], copies: int, *, seed: int) -> tuple[tuple[str, ...], ...]:
    """So many columns of edited sentences, each a function of seed and sentences.

    A copy has some words dropped, replaced by words of other sentences or moved, is a part of the sentence, or has two
    words written as one. A sentence of one word is replaced by a word of another sentence.
    """
    words = [sentence.split() for sentence in sentences]
    others = [word for each in words for word in each]
    generator = np.random.default_rng(seed)
    return tuple(
        tuple(
            " ".join(_edit(each, others, generator)) if each else sentence
            for each, sentence in zip(words, sentences, strict=True)
        )
        for _ in range(copies)
    )


def _edit(words: list[str], others: Sequence[str], generator: np.random.Generator) -> list[str]:
    count = len(words)
    several = 1 + int(generator.integers(0, 1 + count // 4))  # places that are changed
    places = generator.permutation(count)[:several].tolist()
    kind = generator.random() if count > 2 else 1.0  # a short sentence keeps its words but for one
    if kind < 0.3:
        return [word for place, word in enumerate(words) if place not in places]
    if kind < 0.4:
        start = int(generator.integers(0, count // 2))
        return words[start : start + (count + 1) // 2]
    if kind < 0.5:
        first, second = int(generator.integers(0, count)), int(generator.integers(0, count))
        moved = [word for place, word in enumerate(words) if place != first]
        return [*moved[:second], words[first], *moved[second:]]
    if kind < 0.6:
        place = int(generator.integers(0, count - 1))
        return [*words[:place], words[place] + words[place + 1], *words[place + 2 :]]
    changed = list(words)
    for place in places:
        changed[place] = others[int(generator.integers(0, len(others)))]
    return changed
