"""Siamese forward: embed the sentences of all columns in a single call of the model.

Two towers with shared weights are one tower with a larger batch, and one large matrix product is faster than two small
ones. Flattened columns are concatenated; padded ones are padded to a common width if that costs little. Without dropout
the embeddings equal those of one call per column. With dropout each sentence has its own mask either way.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from kosbert.losses.features import SENTENCE_IDS, Features, count, join, sentence_ids, take
from kosbert.model.dropout import has_dropout
from kosbert.model.packing import to_device
from kosbert.model.placement import copied

Forward = Callable[[nn.Module, Features], Tensor]


def one_forward(model: nn.Module, features: Features) -> Tensor:
    """Return the embeddings of one batch, (sentences, dimension)."""
    # `to_device` copies the dictionary: the modules write their token embeddings into it and would keep them alive.
    inputs = to_device(unwrap(model), {key: value for key, value in features.items() if key != SENTENCE_IDS})
    vectors: Tensor = model(inputs)["sentence_embedding"]
    return vectors


def embed(model: nn.Module, columns: Sequence[Features], forward: Forward = one_forward) -> list[Tensor]:
    """Return the embeddings of each column, (sentences, dimension), with as few calls as the layout allows."""
    joined = join(columns, padding_id(model), unwrap(model).device.type)
    if joined is None:
        return [_embed_distinct(model, column, forward) for column in columns]
    return list(torch.split(_embed_distinct(model, joined, forward), [count(column) for column in columns]))


def _embed_distinct(model: nn.Module, features: Features, forward: Forward) -> Tensor:
    """Embed repeated sentences only once, unless dropout would make their embeddings different."""
    if "input_ids" not in features or "offsets" in features or has_dropout(model):
        return forward(model, features)
    index_of_id: dict[int, int] = {}  # sentence id → index among the distinct sentences
    first_positions: list[int] = []  # position in the batch of each distinct sentence
    indices: list[int] = []  # for each sentence of the batch, its index among the distinct ones
    for position, sentence_id in enumerate(sentence_ids(features).tolist()):
        if sentence_id not in index_of_id:
            index_of_id[sentence_id] = len(index_of_id)
            first_positions.append(position)
        indices.append(index_of_id[sentence_id])
    if len(first_positions) == len(indices):
        return forward(model, features)
    vectors = forward(model, take(features, first_positions))
    return vectors[copied(torch.tensor(indices), vectors.device)]


def unwrap(model: nn.Module) -> Any:
    """Return the SentenceTransformer inside the wrappers of torch.compile and DDP."""
    inner = getattr(model, "_orig_mod", model)
    return getattr(inner, "module", inner)


def padding_id(model: nn.Module) -> int:
    """Return the padding id of the model's tokenizer; 0 for a model without one."""
    token_id = getattr(getattr(unwrap(model), "tokenizer", None), "pad_token_id", None)
    return token_id if isinstance(token_id, int) else 0
