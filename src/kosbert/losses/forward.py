"""One siamese forward: the sentences of all columns go through the model in a single call.

Two towers with shared weights are one tower with a larger batch, and one large matrix product is faster than two small
ones. Flattened columns are laid end to end, padded ones are padded to a common width when that costs little. With
dropout off the vectors equal those of one call a column. With dropout on each sentence has its own mask either way.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from kosbert.losses.features import Features, count, fingerprints, join, take

Forward = Callable[[nn.Module, Features], Tensor]


def one_forward(model: nn.Module, features: Features) -> Tensor:
    """The vectors of one batch, (sentences, dimension)."""
    # A copy, because the modules write their token embeddings into the dictionary and would keep them alive.
    vectors: Tensor = model(dict(features))["sentence_embedding"]
    return vectors


def embed(model: nn.Module, columns: Sequence[Features], forward: Forward = one_forward) -> list[Tensor]:
    """The vectors of each column, (sentences, dimension) each, from as few calls of the model as the layout allows."""
    joined = join(columns, padding_id(model))
    if joined is None:
        return [_embed_distinct(model, column, forward) for column in columns]
    return list(torch.split(_embed_distinct(model, joined, forward), [count(column) for column in columns]))


def _embed_distinct(model: nn.Module, features: Features, forward: Forward) -> Tensor:
    """Encode a sentence that occurs several times once, if nothing random would have told its vectors apart."""
    if "input_ids" not in features or "offsets" in features or has_dropout(model):
        return forward(model, features)
    first: dict[int, int] = {}  # fingerprint → number among the distinct sentences
    places: list[int] = []  # where each distinct sentence stands in the batch
    numbers: list[int] = []  # for each sentence of the batch, its number among the distinct ones
    for place, fingerprint in enumerate(fingerprints(features).tolist()):
        if fingerprint not in first:
            first[fingerprint] = len(first)
            places.append(place)
        numbers.append(first[fingerprint])
    if len(places) == len(numbers):
        return forward(model, features)
    return forward(model, take(features, places))[numbers]


def has_dropout(model: nn.Module, *, in_this_mode: bool = True) -> bool:
    """Whether the model drops anything at random: now, or (`in_this_mode=False`) whenever it is in training mode."""
    for module in model.modules():
        if in_this_mode and not module.training:
            continue
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0:
            return True
        # Some backbones call the dropout function with a rate from their configuration (ModernBERT's attention).
        for name, rate in getattr(getattr(module, "config", None), "__dict__", {}).items():
            if "drop" in name and isinstance(rate, float) and rate > 0:
                return True
    return False


def unwrapped(model: nn.Module) -> Any:
    """The SentenceTransformer inside the wrappers of torch.compile and of distributed training."""
    inner = getattr(model, "_orig_mod", model)
    return getattr(inner, "module", inner)


def padding_id(model: nn.Module) -> int:
    """The id that the model's tokenizer pads with; 0 for a model without one."""
    found = getattr(getattr(unwrapped(model), "tokenizer", None), "pad_token_id", None)
    return found if isinstance(found, int) else 0
