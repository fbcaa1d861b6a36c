"""Base class of all losses: check the columns, embed them in one siamese forward, compute the loss.

A loss is an `nn.Module` that sentence-transformers' trainer takes as its `loss`. Embedding and computing are separate
methods, so that a wrapper can change how sentences are embedded (`GradCacheLoss`) or which dimensions are used
(`MatryoshkaLoss`).
"""

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kosbert.errors import KosbertError, UsageError
from kosbert.losses.features import Features
from kosbert.losses.forward import embed

RowType = Literal["scored pairs", "labeled pairs", "pairs", "triplets", "sentences", "vectors"]


class Loss(nn.Module):
    """Base class; a subclass declares its inputs and implements `compute_loss`."""

    row_type: RowType  # lets a recipe check its data before training
    text_columns: tuple[str, ...]
    accepts_hard_negatives: bool = False  # as further text columns
    citation: str = ""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model  # sentence-transformers' trainer finds and wraps it by this name

    def prepare_columns(self, features: list[Features]) -> list[Features]:
        """Return the batches to embed, from one batch per text column of the data set."""
        expected, columns = len(self.text_columns), len(features)
        if columns < expected or (columns > expected and not self.accepts_hard_negatives):
            raise UsageError(
                f"{type(self).__name__} needs {expected} text column{'s' * (expected > 1)} "
                f"({', '.join(self.text_columns)}) but the data has {columns}: choose data and a loss that fit"
            )
        return features

    def embed(self, columns: list[Features]) -> list[Tensor]:
        """Return the embeddings of each column, (sentences, dimension)."""
        return embed(self.model, columns)

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """Return the loss from the embeddings of each column; `columns` tell which sentences are the same."""
        raise NotImplementedError

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> Tensor:
        """Return the loss of one batch; called by the trainer."""
        columns = self.prepare_columns(list(sentence_features))
        # The model may compute in half precision; the loss is computed in float32.
        embeddings = [vectors.float() if vectors.itemsize < 4 else vectors for vectors in self.embed(columns)]
        with torch.autocast(embeddings[0].device.type, enabled=False):
            return self.compute_loss(embeddings, labels, columns)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        return {}


def check_labels(labels: Tensor | None, loss_fn: Loss, rows: int) -> Tensor:
    """Return the labels; raise unless there is one per row.

    Our trainer leaves labels on the host, so that a loss can check their values without waiting for a GPU.
    """
    if labels is None or len(labels) != rows:
        raise UsageError(
            f"{type(loss_fn).__name__} needs one label per row but got {'none' if labels is None else len(labels)} "
            f"for {rows} rows: give the data a column named label or score"
        )
    return labels


def loss_state(loss_fn: Loss) -> dict[str, Tensor]:
    """Return the weights that belong to the loss and not to the model, by name.

    These are a classifier, SimCSE's head or the projection to the teacher. Trainers save only the model, so a
    checkpoint must add them.
    """
    model_parameters = {id(parameter) for parameter in loss_fn.model.parameters()}
    named = loss_fn.named_parameters()
    return {name: parameter.detach() for name, parameter in named if id(parameter) not in model_parameters}


def load_loss_state(loss_fn: Loss, state: dict[str, Tensor]) -> None:
    """Restore the weights that `loss_state` returned."""
    current = loss_state(loss_fn)
    shapes = {name: tuple(value.shape) for name, value in current.items()}
    saved = {name: tuple(value.shape) for name, value in state.items()}
    if shapes != saved:
        raise KosbertError(
            f"the checkpoint has the loss layers {saved or 'none'} but this run has {shapes or 'none'}: resume with "
            "the loss and the options of the checkpoint"
        )
    with torch.no_grad():
        for name, value in state.items():
            current[name].copy_(value)
