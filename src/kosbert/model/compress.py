"""Smaller models from a trained one: fewer layers, or fewer dimensions (PCA)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, WeightedLayerPooling
from torch import nn

from kosbert.errors import UsageError
from kosbert.model.similarity import unit
from kosbert.model.torch_encoder import TorchEncoder
from kosbert.model.torch_loading import change_pooling, load_torch

_MAX_PCA_SENTENCES = 20_000  # more do not change the axes of 256 dimensions noticeably


def fewer_layers(
    name: str | Path, layers: int, *, pooling: str | None = None, max_length: int | None = None
) -> TorchEncoder:
    """Load a model with only some of its layers, as the start of distillation; the arguments are those of `load`.

    A student that starts like this loses less than one with random weights (Sanh et al. 2019, DistilBERT, §3, which
    keeps every second layer). With 0 layers it is the average of its token and position embeddings.
    """
    encoder = load_torch(name, pooling=pooling, max_length=max_length)
    model = encoder.sentence_transformer
    backbone = getattr(model[0], "model", None)
    all_layers = getattr(getattr(backbone, "encoder", None), "layer", None)  # BERT, RoBERTa, ELECTRA
    if backbone is None or not isinstance(all_layers, nn.ModuleList):
        raise UsageError(f"{name} has no layers that can be left out: give a BERT, RoBERTa or ELECTRA model")
    if not 0 <= layers <= len(all_layers):
        raise UsageError(
            f"{name} has {len(all_layers)} layers: give from 0 to {len(all_layers)} for layers, not {layers}"
        )
    backbone.encoder.layer = nn.ModuleList(all_layers[number] for number in kept_layers(len(all_layers), layers))
    backbone.config.num_hidden_layers = layers
    if any(isinstance(module, WeightedLayerPooling) for module in model):
        change_pooling(model, "first-last")  # its weights depend on the number of layers
    encoder.source, encoder.card = f"{layers} layers of {name}", {}
    return encoder


def kept_layers(total: int, layers: int) -> list[int]:
    """Return which layers to keep: evenly spaced from the first to the last; one layer is the last.

    >>> kept_layers(12, 4)
    [0, 4, 7, 11]
    """
    if layers == 1:
        return [total - 1]
    return [int(number) for number in np.linspace(0, total - 1, layers).round()]


def with_pca(encoder: TorchEncoder, sentences: Sequence[str], dim: int) -> TorchEncoder:
    """Return the model with a linear layer that reduces its embeddings to `dim` dimensions by PCA.

    The axes are those of the unit vectors of these sentences, not centered: of all linear maps to `dim` dimensions they
    change the dot products, and so the cosines, least (Eckart and Young 1936).
    """
    if not 1 <= dim <= encoder.dim:
        raise UsageError(f"dim {dim} is impossible; this model has {encoder.dim} dimensions, give 1 to {encoder.dim}")
    unique_sentences = list(dict.fromkeys(sentences))
    if len(unique_sentences) < dim:
        raise UsageError(f"{len(unique_sentences)} sentences are too few for {dim} axes: give more text")
    step = -(-len(unique_sentences) // _MAX_PCA_SENTENCES)
    vectors = unit(encoder.encode(unique_sentences[::step]))
    _, axes = np.linalg.eigh(vectors.T @ vectors)  # ascending: the last axes are the principal ones
    weight = torch.from_numpy(np.ascontiguousarray(axes[:, ::-1][:, :dim].T))  # (dim, encoder.dim)
    layer = Dense(encoder.dim, dim, bias=False, activation_function=nn.Identity(), init_weight=weight)
    original = encoder.sentence_transformer
    model = SentenceTransformer(
        modules=[*original, layer], device=str(encoder.device), prompts=original.prompts,
        default_prompt_name=original.default_prompt_name,
    )  # fmt: skip
    return TorchEncoder(model, source=f"{dim} axes of {encoder.source}", card=encoder.card)
