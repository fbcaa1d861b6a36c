"""Features of a batch of sentences: count, join, select and identify sentences without a model.

There are two layouts. Padded: `input_ids` (sentences, width) with `attention_mask`. Flattened, without padding:
`input_ids` (1, tokens) with `cu_seq_lens_q` (sentences + 1,), the offset of each sentence. The names are those of
transformers' `DataCollatorWithFlattening`, which sentence-transformers' `Transformer` and `Pooling` read.
"""

from collections.abc import Sequence
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn import functional

from kosbert.errors import UsageError
from kosbert.model.tokenized_corpus import hash_sentences

Features = dict[str, Any]

SENTENCE_IDS = "sentence_ids"  # (sentences,), equal for equal token ids; our trainer adds them


def is_flat(features: Features) -> bool:
    """Return whether the sentences are concatenated in one row, without padding."""
    return "cu_seq_lens_q" in features


def count(features: Features) -> int:
    """Return the number of sentences."""
    if is_flat(features):
        return len(features["cu_seq_lens_q"]) - 1
    return len(features["offsets"] if "offsets" in features else features["input_ids"])


def join(columns: Sequence[Features], padding_id: int = 0, device_type: str = "cpu") -> Features | None:
    """Join the sentences of all columns into one batch, in order; return None if that is impossible or slower.

    Args:
        columns: batches of one layout.
        padding_id: of the tokenizer.
        device_type: where the model is.
    """
    first = columns[0]
    if any(column.keys() != first.keys() for column in columns) or "input_ids" not in first:
        return None
    if is_flat(first):
        joined = _join_flat(columns)
    else:
        joined = None if first["input_ids"].ndim != 2 else _join_padded(columns, padding_id, device_type)
    if joined is not None and SENTENCE_IDS in first:
        joined[SENTENCE_IDS] = torch.cat([column[SENTENCE_IDS] for column in columns])
    return joined


def take(features: Features, sentences: Sequence[int]) -> Features:
    """Select sentences by number, in the given order, in the same layout."""
    indices = torch.tensor(sentences, device=features["input_ids"].device)
    if SENTENCE_IDS in features:
        features = {**features, SENTENCE_IDS: features[SENTENCE_IDS][indices]}
    if is_flat(features):
        lengths = features["cu_seq_lens_q"].diff()[indices].long()
        starts = features["cu_seq_lens_q"][indices].long()
        # Token t of the new batch is the old token t + (old start - new start) of its sentence.
        shifts = torch.repeat_interleave(starts - (lengths.cumsum(0) - lengths), lengths)
        tokens = shifts + torch.arange(len(shifts), device=shifts.device)
        return _flatten(features, {key: features[key][:, tokens] for key in _token_keys(features)}, lengths)
    if features["input_ids"].ndim != 2:
        raise UsageError("this model takes bags of tokens, which cannot be split into mini-batches: drop gradcache")
    rows = {key: features[key][indices] for key in _token_keys(features)}
    if "attention_mask" in rows:  # drop the columns that only longer sentences needed
        width = int(rows["attention_mask"].any(0).nonzero().max()) + 1
        rows = {key: value[:, :width] for key, value in rows.items()}
    return {**features, **rows}


def sentence_ids(features: Features) -> Tensor:
    """Return a 64-bit id per sentence, (sentences,): equal for equal token ids, in any layout and process.

    Batches of our trainer carry the ids. For those of another collator the token ids are hashed.
    """
    if SENTENCE_IDS in features:
        carried: Tensor = features[SENTENCE_IDS]
        return carried
    ids = features["input_ids"].cpu().numpy()
    if is_flat(features):
        lengths = numpy.diff(features["cu_seq_lens_q"].cpu().numpy())
    elif "offsets" in features:
        lengths = numpy.diff(features["offsets"].cpu().numpy(), append=len(ids))
    elif "attention_mask" in features:
        mask = features["attention_mask"].cpu().numpy() > 0
        ids, lengths = ids[mask], mask.sum(1)
    else:
        lengths = numpy.full(len(ids), ids.shape[1])
    hashes = hash_sentences(ids.ravel(), lengths.astype(numpy.int64))
    return torch.from_numpy(hashes).to(features["input_ids"].device)


def _token_keys(features: Features) -> list[str]:
    """Return the keys with one value per token, of the shape of `input_ids`; the rest describes the batch."""
    shape = features["input_ids"].shape
    return [
        key
        for key, value in features.items()
        if isinstance(value, Tensor) and value.shape == shape and key not in ("seq_idx", SENTENCE_IDS)
    ]


def _flatten(template: Features, tokens: dict[str, Tensor], lengths: Tensor) -> Features:
    """Build a flattened batch with the keys of `template` from token tensors and sentence lengths."""
    boundaries = functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)  # FlashAttention needs int32
    max_length = int(lengths.max())
    numbers = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    derived = {
        "cu_seq_lens_q": boundaries,
        "cu_seq_lens_k": boundaries,
        "max_length_q": max_length,
        "max_length_k": max_length,
        "seq_idx": numbers[None].to(torch.int32),
    }
    return {key: tokens.get(key, derived.get(key, value)) for key, value in template.items()}


def _join_flat(columns: Sequence[Features]) -> Features | None:
    derived = {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "seq_idx"}
    keys = _token_keys(columns[0])
    if any(set(_token_keys(column)) != set(keys) for column in columns) or not _same_rest(columns, derived | set(keys)):
        return None
    tokens = {key: torch.cat([column[key] for column in columns], dim=1) for key in keys}
    return _flatten(columns[0], tokens, torch.cat([column["cu_seq_lens_q"].diff() for column in columns]).long())


def _join_padded(columns: Sequence[Features], padding_id: int, device_type: str) -> Features | None:
    keys = _token_keys(columns[0])
    if any(set(_token_keys(column)) != set(keys) for column in columns) or not _same_rest(columns, set(keys)):
        return None
    width = max(column["input_ids"].shape[1] for column in columns)
    separate = sum(column["input_ids"].numel() for column in columns)
    tokens = width * sum(count(column) for column in columns)
    if tokens > max_padding_growth(tokens, device_type) * separate:
        return None
    if "attention_mask" not in keys and any(column["input_ids"].shape[1] < width for column in columns):
        return None  # padding could not be distinguished from text
    joined = dict(columns[0])
    for key in keys:
        # RoBERTa counts positions by the tokens that are not the padding id, so the true id matters.
        fill = padding_id if key == "input_ids" else 0
        rows = [functional.pad(column[key], (0, width - column[key].shape[1]), value=fill) for column in columns]
        joined[key] = torch.cat(rows)
    return joined


def max_padding_growth(tokens: int, device_type: str) -> float:
    """Return by which factor joining columns may raise the number of tokens, padding included, and still be faster.

    Joining pads the narrow columns to the width of the widest. In exchange, one call replaces several: that decides on
    a GPU (not measured), and on a CPU for few tokens. MPNet with three columns on two busy cores: at 1,200 tokens and a
    growth of 1.2 separate calls took 1.6 times as long as the joined one; at 6,000 tokens and 1.1 it was 0.8 to 1.2.
    """
    if device_type == "cuda":
        return 4.0
    return 1.5 if tokens <= 2_048 else 1.1


def _same_rest(columns: Sequence[Features], joined_keys: set[str]) -> bool:
    """Return whether the columns agree on all other keys, which describe the whole batch (modality, prompt length)."""
    for key in columns[0].keys() - joined_keys - {SENTENCE_IDS}:
        first = columns[0][key]
        for column in columns[1:]:
            value = column[key]
            both_tensors = isinstance(first, Tensor) and isinstance(value, Tensor)
            if not (torch.equal(first, value) if both_tensors else type(first) is type(value) and first == value):
                return False
    return True
