"""Features from token ids, without tokenizing again.

`SentenceTransformer.preprocess` tokenizes a batch every time it is used. `features_from_ids` makes the same features
from token ids, flat for a packed model and padded otherwise. `TokenizedCorpus` keeps the ids of all sentences of a
training set in one array, for batches that are read thousands of times per epoch.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from kosbert.model.word_tokens import Tokens, flatten, splits_at_spaces, tokenize_by_words
from kosbert.text import clean

_BLOCK = 10_000  # sentences tokenized at a time: the tokenizer's output is a hundred times larger than the ids


def feature_names(model: SentenceTransformer, prompt: str = "") -> set[str]:
    """Return the names of the features that the model's `preprocess` makes."""
    return set(model.preprocess(["가"], prompt=prompt or None))


def features_from_ids(model: SentenceTransformer, batch: Sequence[Sequence[int]], names: set[str]) -> dict[str, Any]:
    """Return the named features of token ids (with special tokens, truncated) as `preprocess` would make them."""
    lengths = np.fromiter(map(len, batch), np.int64, len(batch))
    ids = np.fromiter((token for sentence in batch for token in sentence), np.int64, lengths.sum())
    return _features(model, ids, lengths, names)


def hash_sentences(ids: NDArray[np.integer[Any]], lengths: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return a 64-bit hash of the token ids of each sentence, the same in every process.

    The hash is the sum of the mixed bits of every token and its position, so that numpy computes all at once.

    Args:
        ids: the token ids of all sentences, one after the other.
        lengths: tokens per sentence.
    """
    ends = np.cumsum(lengths)
    positions = np.arange(len(ids)) - np.repeat(ends - lengths, lengths)
    mixed = _mix(ids.astype(np.uint64) | positions.astype(np.uint64) << np.uint64(32))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed)])  # modulo 2^64
    return _mix(sums[ends] - sums[ends - lengths] + lengths.astype(np.uint64)).view(np.int64)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return well-mixed bits of each value (splitmix64, Steele et al. 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values ^ values >> np.uint64(31)


class TokenizedCorpus:
    """The token ids of many sentences; `batch` returns the features of some of them.

    Sentences get the model's default prompt, as in `encode`.

    Args:
        model: provides the tokenizer, the maximum length and the layout of a batch.
        sentences: their index is the number by which `batch` selects them.
    """

    def __init__(self, model: SentenceTransformer, sentences: Sequence[str]) -> None:
        self._model = model
        prompt_name = model.default_prompt_name
        self._prompt = model.prompts.get(prompt_name, "") if prompt_name else ""
        blocks = list(self._tokenize(sentences))
        self.lengths: NDArray[np.int64] = np.concatenate([lengths for lengths, _ in blocks])
        self._starts = np.concatenate([[0], np.cumsum(self.lengths)])
        # One id per sentence, equal for equal tokens: losses use them to detect duplicates.
        self.sentence_ids: NDArray[np.int64] = np.concatenate([hash_sentences(ids, lengths) for lengths, ids in blocks])
        self._ids = np.concatenate([ids for _, ids in blocks])
        self._names = feature_names(model, self._prompt)

    def _tokenize(self, sentences: Sequence[str]) -> Iterator[Tokens]:
        """Yield the length of each sentence and the concatenated ids, block by block."""
        tokenizer, max_length = self._model.tokenizer, self._model.max_seq_length
        if splits_at_spaces(tokenizer):
            texts = (self._prompt + clean(sentence) for sentence in sentences)
            yield from tokenize_by_words(tokenizer, texts, max_length)
            return
        for start in range(0, len(sentences), _BLOCK):
            encoded = tokenizer(
                [self._prompt + clean(sentence) for sentence in sentences[start : start + _BLOCK]],
                truncation=True,
                max_length=max_length,
                padding=False,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            )["input_ids"]
            yield flatten(encoded)

    def batch(self, numbers: NDArray[np.integer[Any]]) -> dict[str, Any]:
        """Return the features of these sentences as `model.preprocess` would make them, on the host."""
        lengths = self.lengths[numbers]
        ends = np.cumsum(lengths)
        token_numbers = np.repeat(self._starts[numbers] - (ends - lengths), lengths) + np.arange(ends[-1])
        features = _features(self._model, self._ids[token_numbers].astype(np.int64), lengths, self._names)
        if "prompt_length" in self._names:
            features["prompt_length"] = self._model[0]._get_prompt_length(self._prompt)
        return features


def _features(
    model: SentenceTransformer, ids: NDArray[np.int64], lengths: NDArray[np.int64], names: set[str]
) -> dict[str, Any]:
    """Return the named features of sentences, from their concatenated ids, (tokens,), and their lengths."""
    features = _flat(model, ids, lengths) if "cu_seq_lens_q" in names else _padded(model, ids, lengths)
    return {name: features[name] for name in names if name in features}


def _flat(model: SentenceTransformer, ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> dict[str, Any]:
    ends = np.cumsum(lengths)
    positions = np.arange(len(ids)) - np.repeat(ends - lengths, lengths)  # (tokens,) position in the sentence
    boundaries = torch.from_numpy(np.concatenate([[0], ends]).astype(np.int32))
    offset = getattr(model[0], "_flatten_position_offset", 0)  # RoBERTa's positions start at padding_idx + 1
    return {
        "input_ids": torch.from_numpy(ids)[None],
        "position_ids": torch.from_numpy(positions + offset)[None],
        "token_type_ids": torch.zeros((1, len(ids)), dtype=torch.int64),
        "seq_idx": torch.from_numpy(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths))[None],
        "cu_seq_lens_q": boundaries,
        "cu_seq_lens_k": boundaries,
        "max_length_q": int(lengths.max()),
        "max_length_k": int(lengths.max()),
        "modality": "text",
    }


def _padded(model: SentenceTransformer, ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> dict[str, Any]:
    mask = np.arange(lengths.max()) < lengths[:, None]  # (sentences, longest)
    if model.tokenizer.padding_side == "left":
        mask = mask[:, ::-1]
    padded = np.full(mask.shape, model.tokenizer.pad_token_id or 0, np.int64)
    padded[mask] = ids
    return {
        "input_ids": torch.from_numpy(padded),
        "attention_mask": torch.from_numpy(mask.astype(np.int64)),
        "token_type_ids": torch.zeros(padded.shape, dtype=torch.int64),
        "modality": "text",
    }
