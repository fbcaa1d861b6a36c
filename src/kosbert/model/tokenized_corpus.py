"""Sentences tokenized once, and batches laid out from them: what training reads thousands of times an epoch.

`SentenceTransformer.preprocess` tokenizes a batch each time it is seen. Here the ids of every distinct sentence are
kept in one array, and a batch is cut from it in the layout that the model wants: flat where it is packed, else padded.
"""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from kosbert.text import clean

_BLOCK = 10_000  # sentences tokenized at a time: what the tokenizer returns is a hundred times what is kept of it


class TokenizedCorpus:
    """The token ids of many sentences, and the batches that a model can read.

    Args:
        model: decides the tokenizer, where sentences are cut off, and the layout of a batch.
        sentences: distinct ones need no more memory than one; they are numbered in the order given.
    """

    def __init__(self, model: SentenceTransformer, sentences: Sequence[str]) -> None:
        self._model = model
        blocks = [self._tokenized(sentences[at : at + _BLOCK]) for at in range(0, len(sentences), _BLOCK)]
        self.lengths: NDArray[np.int64] = np.concatenate([lengths for lengths, _ in blocks])
        self._starts = np.concatenate([[0], np.cumsum(self.lengths)])
        self._ids = np.concatenate([ids for _, ids in blocks])
        # One id per sentence, equal for equal tokens: losses use them to detect duplicates.
        hashes = (hash_tokens(self._ids[start:stop]) for start, stop in pairwise(self._starts.tolist()))
        self.sentence_ids: NDArray[np.int64] = np.fromiter(hashes, np.int64, len(self.lengths))
        self._keys = set(model.preprocess(["가"]))

    def _tokenized(self, sentences: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The length of each sentence, and the ids of all of them end to end."""
        encoded = self._model.tokenizer(
            [clean(sentence) for sentence in sentences],
            truncation=True,
            max_length=self._model.max_seq_length,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )["input_ids"]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return lengths, np.fromiter((token for ids in encoded for token in ids), np.int32, lengths.sum())

    def batch(self, numbers: NDArray[np.integer[Any]]) -> dict[str, Any]:
        """The features of these sentences, as `model.preprocess` would give them."""
        lengths = self.lengths[numbers]
        features = self._flat(numbers, lengths) if "cu_seq_lens_q" in self._keys else self._padded(numbers, lengths)
        device = self._model.device
        return {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in features.items()}

    def _flat(self, numbers: NDArray[np.integer[Any]], lengths: NDArray[np.int64]) -> dict[str, Any]:
        ends = np.cumsum(lengths)
        within = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)  # (tokens,) position in the sentence
        ids = self._ids[np.repeat(self._starts[numbers], lengths) + within].astype(np.int64)
        boundaries = torch.from_numpy(np.concatenate([[0], ends]).astype(np.int32))
        offset = getattr(self._model[0], "_flatten_position_offset", 0)  # RoBERTa counts from padding_idx + 1
        everything = {
            "input_ids": torch.from_numpy(ids)[None],
            "position_ids": torch.from_numpy(within + offset)[None],
            "token_type_ids": torch.zeros((1, len(ids)), dtype=torch.int64),
            "seq_idx": torch.from_numpy(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths))[None],
            "cu_seq_lens_q": boundaries,
            "cu_seq_lens_k": boundaries,
            "max_length_q": int(lengths.max()),
            "max_length_k": int(lengths.max()),
            "modality": "text",
        }
        return {key: everything[key] for key in self._keys}

    def _padded(self, numbers: NDArray[np.integer[Any]], lengths: NDArray[np.int64]) -> dict[str, Any]:
        real = np.arange(lengths.max()) < lengths[:, None]  # (sentences, longest)
        ids = np.full(real.shape, self._model.tokenizer.pad_token_id or 0, np.int64)
        ends = np.cumsum(lengths)
        ids[real] = self._ids[np.repeat(self._starts[numbers] - (ends - lengths), lengths) + np.arange(ends[-1])]
        everything = {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(real.astype(np.int64)),
            "token_type_ids": torch.zeros(ids.shape, dtype=torch.int64),
            "modality": "text",
        }
        return {key: everything[key] for key in self._keys}


def hash_tokens(ids: NDArray[np.int32]) -> int:
    """Return a 64-bit hash of a sentence's token ids, the same in every process."""
    return int.from_bytes(blake2b(ids.tobytes(), digest_size=8).digest(), "little", signed=True)
