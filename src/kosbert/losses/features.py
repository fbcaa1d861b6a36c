"""A batch of token ids: how it is laid out, and how to count, join and select its sentences without a model.

Two layouts reach a loss. Padded: `input_ids` (sentences, width) with `attention_mask`. Flattened, without
padding: `input_ids` (1, tokens) with `cu_seq_lens_q` (sentences + 1,), the token at which each sentence starts; these
are the names of transformers' `DataCollatorWithFlattening`, which sentence-transformers' `Transformer` and `Pooling`
read.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn import functional

from kosbert.errors import UsageError

Features = dict[str, Any]

# Joining padded columns pads the narrow one to the width of the wide one. Beyond this growth of the token count, two
# calls cost less than one.
MOST_PADDING_GROWTH = 1.1


def is_flat(features: Features) -> bool:
    """Whether the sentences lie end to end in one row, without padding."""
    return "cu_seq_lens_q" in features


def count(features: Features) -> int:
    """How many sentences the batch holds."""
    if is_flat(features):
        return len(features["cu_seq_lens_q"]) - 1
    return len(features["offsets"] if "offsets" in features else features["input_ids"])


def join(columns: Sequence[Features], padding_id: int = 0) -> Features | None:
    """Put the sentences of all columns into one batch, first column first, or return None where that cannot be done."""
    first = columns[0]
    if any(column.keys() != first.keys() for column in columns) or "input_ids" not in first:
        return None
    if is_flat(first):
        return _join_flat(columns)
    return None if first["input_ids"].ndim != 2 else _join_padded(columns, padding_id)


def take(features: Features, sentences: Sequence[int]) -> Features:
    """Select sentences, in the given order, as a batch of the same layout."""
    chosen = torch.tensor(sentences, device=features["input_ids"].device)
    if is_flat(features):
        lengths = features["cu_seq_lens_q"].diff()[chosen].long()
        starts = features["cu_seq_lens_q"][chosen].long()
        # Token t of the new batch is the old token t + (old start - new start) of its sentence.
        shifts = torch.repeat_interleave(starts - (lengths.cumsum(0) - lengths), lengths)
        tokens = shifts + torch.arange(len(shifts), device=shifts.device)
        return _flat(features, {key: features[key][:, tokens] for key in _token_keys(features)}, lengths)
    if features["input_ids"].ndim != 2:
        raise UsageError(
            "This model reads bags of tokens, which cannot be split into mini-batches; leave gradcache out."
        )
    rows = {key: features[key][chosen] for key in _token_keys(features)}
    if "attention_mask" in rows:  # drop the columns that only longer sentences needed
        width = int(rows["attention_mask"].any(0).nonzero().max()) + 1
        rows = {key: value[:, :width] for key, value in rows.items()}
    return {**features, **rows}


def fingerprints(features: Features) -> Tensor:
    """A 64-bit number for each sentence, (sentences,): the same for the same token ids, in any layout and process."""
    ids = features["input_ids"].cpu().numpy().astype(numpy.int32)
    if is_flat(features):
        sentences = numpy.split(ids[0], features["cu_seq_lens_q"][1:-1].tolist())
    elif "offsets" in features:
        sentences = numpy.split(ids, features["offsets"][1:].tolist())
    elif "attention_mask" in features:
        sentences = [row[kept] for row, kept in zip(ids, features["attention_mask"].cpu().numpy() > 0, strict=True)]
    else:
        sentences = list(ids)
    digests = [blake2b(sentence.tobytes(), digest_size=8).digest() for sentence in sentences]
    numbers = [int.from_bytes(digest, "little", signed=True) for digest in digests]
    return torch.tensor(numbers, dtype=torch.int64, device=features["input_ids"].device)


def _token_keys(features: Features) -> list[str]:
    """Names of what is known for every token: of the shape of `input_ids`. The rest describes the batch."""
    shape = features["input_ids"].shape
    return [k for k, value in features.items() if isinstance(value, Tensor) and value.shape == shape and k != "seq_idx"]


def _flat(like: Features, tokens: dict[str, Tensor], lengths: Tensor) -> Features:
    """Lay out a flattened batch with the keys of `like`, from its tokens and the lengths of its sentences."""
    boundaries = functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)  # FlashAttention wants int32
    longest = int(lengths.max())
    numbers = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    derived = {
        "cu_seq_lens_q": boundaries,
        "cu_seq_lens_k": boundaries,
        "max_length_q": longest,
        "max_length_k": longest,
    }
    derived |= {"seq_idx": numbers[None].to(torch.int32)}
    return {key: tokens.get(key, derived.get(key, value)) for key, value in like.items()}


def _join_flat(columns: Sequence[Features]) -> Features | None:
    derived = {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "seq_idx"}
    keys = _token_keys(columns[0])
    if any(set(_token_keys(column)) != set(keys) for column in columns) or not _same_rest(columns, derived | set(keys)):
        return None
    tokens = {key: torch.cat([column[key] for column in columns], dim=1) for key in keys}
    return _flat(columns[0], tokens, torch.cat([column["cu_seq_lens_q"].diff() for column in columns]).long())


def _join_padded(columns: Sequence[Features], padding_id: int) -> Features | None:
    keys = _token_keys(columns[0])
    if any(set(_token_keys(column)) != set(keys) for column in columns) or not _same_rest(columns, set(keys)):
        return None
    width = max(column["input_ids"].shape[1] for column in columns)
    separate = sum(column["input_ids"].numel() for column in columns)
    if width * sum(count(column) for column in columns) > MOST_PADDING_GROWTH * separate:
        return None
    if "attention_mask" not in keys and any(column["input_ids"].shape[1] < width for column in columns):
        return None  # nothing would tell the padding from the text
    joined = dict(columns[0])
    for key in keys:
        # RoBERTa counts positions by the tokens that are not the padding id, so the true id matters.
        fill = padding_id if key == "input_ids" else 0
        rows = [functional.pad(c[key], (0, width - c[key].shape[1]), value=fill) for c in columns]
        joined[key] = torch.cat(rows)
    return joined


def _same_rest(columns: Sequence[Features], apart: set[str]) -> bool:
    """Whether the columns agree on everything that describes a batch as a whole (modality, length of the prompt)."""
    for key in columns[0].keys() - apart:
        first = columns[0][key]
        for column in columns[1:]:
            value = column[key]
            both = isinstance(first, Tensor) and isinstance(value, Tensor)
            if not (torch.equal(first, value) if both else type(first) is type(value) and first == value):
                return False
    return True
