"""What every loss does: check its columns, embed them in one siamese forward, and score the vectors.

A loss is an `nn.Module` that sentence-transformers' trainer takes as its `loss`. Embedding and scoring are apart,
so that a wrapper can change how they are computed (`GradCacheLoss`) or which part is scored (`MatryoshkaLoss`).
"""

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kosbert.errors import UsageError
from kosbert.losses.features import Features
from kosbert.losses.forward import embed

Needs = Literal["scored pairs", "labeled pairs", "pairs", "triplets", "sentences", "vectors"]


class Loss(nn.Module):
    """The base of all losses; a subclass states what it needs and writes `compute_loss`."""

    needs: Needs  # the kind of rows, so that a recipe can check the data before it trains
    texts: tuple[str, ...]  # the text columns, in order
    more_negatives: bool = False  # whether further text columns are taken as hard negatives
    citation: str = ""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model  # by this name the trainer finds and replaces it

    def columns(self, features: list[Features]) -> list[Features]:
        """The batches to embed, from the batches that the data set's text columns became."""
        wanted, given = len(self.texts), len(features)
        if given < wanted or (given > wanted and not self.more_negatives):
            raise UsageError(
                f"{type(self).__name__} needs {wanted} text column{'s' * (wanted > 1)} ({', '.join(self.texts)}) but "
                f"the data has {given}; choose data or a loss that fit each other."
            )
        return features

    def vectors(self, columns: list[Features]) -> list[Tensor]:
        """One (sentences, dimension) tensor a column."""
        return embed(self.model, columns)

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """The loss from the vectors of each column; `columns` tell which sentences are the same."""
        raise NotImplementedError

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> Tensor:
        """The loss of one batch, as the trainer calls it."""
        columns = self.columns(list(sentence_features))
        vectors = [each.float() if each.itemsize < 4 else each for each in self.vectors(columns)]
        # The model may compute in half precision; vectors are compared in full.
        with torch.autocast(vectors[0].device.type, enabled=False):
            return self.compute_loss(vectors, labels, columns)

    def get_config_dict(self) -> dict[str, Any]:
        """The options, for the model card."""
        return {}


def labels_of(labels: Tensor | None, loss_fn: Loss, rows: int) -> Tensor:
    """The labels, one a row; a batch without them is the user's mistake."""
    if labels is None or len(labels) != rows:
        raise UsageError(
            f"{type(loss_fn).__name__} needs one label a row but got {'none' if labels is None else len(labels)} "
            f"for {rows} rows; give the data a column named label or score."
        )
    return labels
