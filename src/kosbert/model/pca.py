"""Fewer dimensions for a model that was not trained for it: the main axes of its vectors (PCA), as one linear layer.

The axes are those of unit vectors and not centered, so that of all linear maps to so many dimensions they change the
dot products of these sentences least (Eckart and Young 1936), and cosines are what the vectors are for.
"""

from collections.abc import Sequence

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense
from torch import nn

from kosbert.errors import UsageError
from kosbert.model.similarity import unit
from kosbert.model.torch_encoder import TorchEncoder

_MOST = 20_000  # sentences that are looked at: the axes of 256 dimensions have long settled


def main_axes(encoder: TorchEncoder, sentences: Sequence[str], dim: int) -> TorchEncoder:
    """The same model with vectors of `dim` dimensions, fitted to the sentences (evenly chosen where they are many)."""
    if not 1 <= dim <= encoder.dim:
        raise UsageError(f"dim {dim} is impossible; this model has {encoder.dim} dimensions, give 1 to {encoder.dim}")
    distinct = list(dict.fromkeys(sentences))
    if len(distinct) < dim:
        raise UsageError(f"{len(distinct)} sentences cannot show {dim} axes: give more text")
    vectors = unit(encoder.encode(distinct[:: -(-len(distinct) // _MOST)]))
    _, axes = np.linalg.eigh(vectors.T @ vectors)  # ascending, so that the last are the main ones
    weight = torch.from_numpy(np.ascontiguousarray(axes[:, ::-1][:, :dim].T))  # (dim, encoder.dim)
    layer = Dense(encoder.dim, dim, bias=False, activation_function=nn.Identity(), init_weight=weight)
    old = encoder.sentence_transformer
    model = SentenceTransformer(
        modules=[*old, layer], device=str(encoder.device), prompts=old.prompts,
        default_prompt_name=old.default_prompt_name,
    )  # fmt: skip
    return TorchEncoder(model, source=f"{dim} axes of {encoder.source}", card=encoder.card)
