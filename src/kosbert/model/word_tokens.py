"""Tokenize the distinct words of many sentences once, in place of every sentence.

A WordPiece tokenizer of BERT splits at spaces before anything else, so the tokens of a sentence are those of its words.
A million sentences have ten million words but half a million distinct ones, so this is several times as fast.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 10_000  # words tokenized at a time, and sentences assembled at a time

Tokens = tuple[NDArray[np.int64], NDArray[np.int32]]  # number of tokens of each sentence, ids of all


def splits_at_spaces(tokenizer: Any) -> bool:
    """Return whether the tokens of a sentence are those of its words: BERT's normalizer, splitter and WordPiece."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or getattr(tokenizer, "truncation_side", "") != "right":
        return False
    if any(" " in token.content for token in tokenizer.added_tokens_decoder.values()):
        return False
    parts = {name: type(getattr(backend, name)).__name__ for name in ("normalizer", "pre_tokenizer", "model")}
    if parts["pre_tokenizer"] == "Sequence":  # further splits only divide words
        steps = json.loads(backend.to_str())["pre_tokenizer"]["pretokenizers"]
        parts["pre_tokenizer"] = steps[0]["type"] if steps else ""
    return parts == {"normalizer": "BertNormalizer", "pre_tokenizer": "BertPreTokenizer", "model": "WordPiece"}


class _Numbers(dict[str, int]):
    """Numbers words in order of appearance."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


def tokenize_by_words(tokenizer: Any, texts: Iterable[str], max_length: int) -> Iterator[Tokens]:
    """Yield the token ids of texts in blocks, with special tokens, truncated to `max_length`.

    Args:
        tokenizer: one that `splits_at_spaces`.
        texts: single spaces between words, as `kosbert.text.clean` leaves them.
        max_length: tokens per text, with the special ones.
    """
    numbers = _Numbers()
    counts, flat = [], []
    for block in _blocks(texts):
        words = " ".join(block).split(" ")
        counts.append(np.fromiter((text.count(" ") + 1 for text in block), np.int64, len(block)))
        flat.append(np.fromiter(map(numbers.__getitem__, words), np.int32, len(words)))
    lengths, ids = _tokenize(tokenizer, list(numbers))
    numbers.clear()
    starts = np.cumsum(lengths) - lengths
    prefix, suffix = special_tokens(tokenizer)
    for sentence_words, words_of_block in zip(counts, flat, strict=True):
        word_ends = np.cumsum(sentence_words)
        tokens_before = np.concatenate([[0], np.cumsum(lengths[words_of_block])])
        body = tokens_before[word_ends] - tokens_before[word_ends - sentence_words]  # tokens of each sentence
        kept = np.minimum(body, max_length - len(prefix) - len(suffix))
        tokens = ids[_ragged(starts[words_of_block], lengths[words_of_block])]
        tokens = tokens[_ragged(np.cumsum(body) - body, kept)]
        total = kept + len(prefix) + len(suffix)
        ends = np.cumsum(total)
        block_ids = np.empty(total.sum(), np.int32)
        block_ids[_ragged(ends - total + len(prefix), kept)] = tokens
        for offset, token in enumerate(prefix):
            block_ids[ends - total + offset] = token
        for offset, token in enumerate(reversed(suffix), start=1):
            block_ids[ends - offset] = token
        yield total, block_ids


def special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the special tokens before and after a text."""
    encoding = tokenizer(["가"], return_special_tokens_mask=True)
    ids, mask = encoding["input_ids"][0], encoding["special_tokens_mask"][0]
    first, last = mask.index(0), len(mask) - mask[::-1].index(0)
    return ids[:first], ids[last:]


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    for text in texts:
        block.append(text)
        if len(block) == _BLOCK:
            yield block
            block = []
    if block:
        yield block


def _tokenize(tokenizer: Any, words: Sequence[str]) -> Tokens:
    """Return the number of tokens of each word, and the ids of all."""
    from tokenizers import Tokenizer

    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())  # a copy, because the next lines change it
    backend.no_truncation()
    backend.no_padding()
    parts = []
    for start in range(0, len(words), _BLOCK):
        encodings = backend.encode_batch_fast(words[start : start + _BLOCK], add_special_tokens=False)
        parts.append(flatten([encoding.ids for encoding in encodings]))
    return np.concatenate([lengths for lengths, _ in parts]), np.concatenate([ids for _, ids in parts])


def flatten(encoded: Sequence[Sequence[int]]) -> Tokens:
    """Return the lengths of lists of token ids, and the ids of all in one array."""
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return lengths, np.fromiter(chain.from_iterable(encoded), np.int32, lengths.sum())


def _ragged(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices start, start + 1, … of every range, one range after the other."""
    offsets: NDArray[np.int64] = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return offsets + np.arange(len(offsets))
