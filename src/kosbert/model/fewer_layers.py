"""A smaller model out of a trained one: some of its layers, evenly spaced from the first to the last.

A student that starts so and is then taught by the whole model loses less than one that starts from nothing (Sanh et al.
2019, DistilBERT, §3, which takes every second layer).
"""

from pathlib import Path

import numpy as np
from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling
from torch import nn

from kosbert.errors import UsageError
from kosbert.model.torch_encoder import TorchEncoder
from kosbert.model.torch_loading import change_pooling, load_torch


def fewer_layers(
    name: str | Path, layers: int, *, pooling: str | None = None, max_length: int | None = None
) -> TorchEncoder:
    """The model of that name with only some of its layers, ready to be trained; arguments are those of `load`.

    Without any layer it is the average of its word vectors, each with its place.
    """
    encoder = load_torch(name, pooling=pooling, max_length=max_length)
    model = encoder.sentence_transformer
    backbone = getattr(model[0], "model", None)
    every = getattr(getattr(backbone, "encoder", None), "layer", None)  # BERT, RoBERTa, ELECTRA
    if backbone is None or not isinstance(every, nn.ModuleList):
        raise UsageError(f"{name} has no layers that can be left out: give a BERT, RoBERTa or ELECTRA model")
    if not 0 <= layers <= len(every):
        raise UsageError(f"{name} has {len(every)} layers: give from 0 to {len(every)} for layers, not {layers}")
    backbone.encoder.layer = nn.ModuleList(every[number] for number in kept(len(every), layers))
    backbone.config.num_hidden_layers = layers
    if any(isinstance(module, WeightedLayerPooling) for module in model):
        change_pooling(model, "first-last")  # which counts the layers
    encoder.source, encoder.card = f"{layers} layers of {name}", {}
    return encoder


def kept(every: int, layers: int) -> list[int]:
    """Which layers stay: the first, the last, and evenly between; the last alone where there is one.

    >>> kept(12, 4)
    [0, 4, 7, 11]
    """
    if layers == 1:
        return [every - 1]
    return [int(number) for number in np.linspace(0, every - 1, layers).round()]
