"""More sentences for distillation batches: edited copies, and nearest neighbors in the teacher's embedding space.

Neither needs labels, because the teacher says how similar the sentences are. Edited copies keep the student from
memorizing a small set of sentences. Neighbors add pairs of medium similarity, which are rare among random sentences.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_PART = 16_384  # sentences compared with each other: (_PART, _PART) cosines, in blocks
_BLOCK = 2_048


def edited_copies(sentences: Sequence[str], copies: int, *, seed: int) -> tuple[tuple[str, ...], ...]:
    """Return `copies` columns of edited sentences; the result depends only on the seed and the sentences.

    An edit drops, replaces or moves words, takes a part of the sentence, or joins two words. The word of a one-word
    sentence is replaced by a word of another sentence.
    """
    word_lists = [sentence.split() for sentence in sentences]
    vocabulary = [word for words in word_lists for word in words]
    generator = np.random.default_rng(seed)
    return tuple(
        tuple(
            " ".join(_edit(words, vocabulary, generator)) if words else sentence
            for words, sentence in zip(word_lists, sentences, strict=True)
        )
        for _ in range(copies)
    )


def _edit(words: list[str], vocabulary: Sequence[str], generator: np.random.Generator) -> list[str]:
    count = len(words)
    edits = 1 + int(generator.integers(0, 1 + count // 4))
    positions = generator.permutation(count)[:edits].tolist()
    kind = generator.random() if count > 2 else 1.0  # in a short sentence only replace
    if kind < 0.3:  # drop words
        return [word for position, word in enumerate(words) if position not in positions]
    if kind < 0.4:  # take a part
        start = int(generator.integers(0, count // 2))
        return words[start : start + (count + 1) // 2]
    if kind < 0.5:  # move a word
        source, target = int(generator.integers(0, count)), int(generator.integers(0, count))
        rest = [word for position, word in enumerate(words) if position != source]
        return [*rest[:target], words[source], *rest[target:]]
    if kind < 0.6:  # join two words
        position = int(generator.integers(0, count - 1))
        return [*words[:position], words[position] + words[position + 1], *words[position + 2 :]]
    replaced = list(words)
    for position in positions:
        replaced[position] = vocabulary[int(generator.integers(0, len(vocabulary)))]
    return replaced


def nearest_neighbors(vectors: NDArray[np.floating], count: int, *, seed: int) -> NDArray[np.int64]:
    """Return the row numbers of the `count` nearest neighbors of each vector, (vectors, count).

    The vectors are split into random parts, and neighbors are searched within a part: the nearest of all are often
    near-duplicates that differ by a comma.
    """
    order = np.random.default_rng(seed).permutation(len(vectors))
    neighbors = np.empty((len(vectors), count), np.int64)
    for part in np.array_split(order, -(-len(vectors) // _PART)):
        unit = vectors[part].astype(np.float32)
        unit /= np.linalg.norm(unit, axis=1, keepdims=True).clip(1e-12)
        for start in range(0, len(part), _BLOCK):
            block = slice(start, start + _BLOCK)
            cosines = unit[block] @ unit.T  # (block, part)
            np.fill_diagonal(cosines[:, block], -np.inf)  # a vector is not its own neighbor
            nearest = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
            ranks = np.argsort(-np.take_along_axis(cosines, nearest, axis=1), axis=1)
            neighbors[part[block]] = part[np.take_along_axis(nearest, ranks, axis=1)]
    return neighbors
