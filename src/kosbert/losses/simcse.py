"""SimCSE losses: a sentence with itself under two dropout masks, or NLI triplets with a hard negative.

Both train through a head (dense layer and tanh) that belongs to the loss, so the saved model never has it. The authors
found this best for the unsupervised case (§6.3; `--mlp_only_train` in their code). In the supervised case they keep the
head and report that the choice hardly matters. We drop it in both cases: the saved model is a plain backbone with
pooling, which every tool can load, and both are compared without an extra layer.
"""

from typing import Any

from torch import Tensor, nn

from kosbert.distributed import sync_module
from kosbert.errors import UsageError
from kosbert.losses.base import Loss, RowType
from kosbert.losses.features import Features, sentence_ids
from kosbert.losses.forward import unwrap
from kosbert.losses.multiple_negatives_ranking import check_temperature, info_nce
from kosbert.model.dropout import has_dropout

SIMCSE = "Gao, Yao and Chen 2021, SimCSE, https://arxiv.org/abs/2104.08821"


def training_head(model: nn.Module) -> nn.Module:
    """Return a dense layer with tanh, initialized like BERT's layers (normal, 0.02), as the authors do."""
    dimension = unwrap(model).get_embedding_dimension()
    dense = nn.Linear(dimension, dimension, device=unwrap(model).device)
    nn.init.normal_(dense.weight, std=0.02)
    nn.init.zeros_(dense.bias)
    return sync_module(nn.Sequential(dense, nn.Tanh()))


class SupervisedSimCSELoss(Loss):
    """Supervised SimCSE loss (Gao et al. 2021, §4): multiple negatives ranking of NLI triplets through a training head.

    Args:
        model: the SentenceTransformer to train.
        temperature: divisor of the cosines; 0.05 in the paper.
        head: train through the head; without it this is `multiple-negatives-ranking`.
        across_devices: use the candidates of all ranks; no effect in a single process.

    References: Gao, Yao and Chen 2021, SimCSE, §4 (equation 5) and §6.3 (the head).

    Requirements: triplets.

    Inputs: text columns (anchor, positive, negative): premise, entailment, contradiction; no labels.

    Relations: `simcse` without labeled pairs; `softmax` to use the neutral pairs as well.

    Example:
        >>> loss = SupervisedSimCSELoss(model)
        >>> loss([premises, entailments, contradictions])
    """

    row_type: RowType = "triplets"
    text_columns: tuple[str, ...] = ("anchor", "positive", "negative")
    accepts_hard_negatives = True
    citation = SIMCSE

    def __init__(
        self, model: nn.Module, temperature: float = 0.05, head: bool = True, across_devices: bool = True
    ) -> None:
        super().__init__(model)
        self.temperature, self.across_devices = check_temperature(temperature), across_devices
        self.head = training_head(model) if head else nn.Identity()

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """Return InfoNCE over the outputs of the head."""
        ids = [sentence_ids(column) for column in columns]
        outputs = [self.head(vectors) for vectors in embeddings]
        return info_nce(outputs, ids, self.temperature, across_devices=self.across_devices)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        head = not isinstance(self.head, nn.Identity)
        return {"temperature": self.temperature, "head": head, "across_devices": self.across_devices}


class SimCSELoss(SupervisedSimCSELoss):
    """Unsupervised SimCSE loss (Gao et al. 2021, §3).

    Each sentence is embedded twice in one forward. The two dropout masks make the positive pair; the other sentences of
    the batch are the negatives.

    Args: those of `SupervisedSimCSELoss`.

    References: Gao, Yao and Chen 2021, SimCSE, §3 (equation 4) and §6.3 (the head).

    Requirements: a model with dropout.

    Inputs: one text column (sentence); no labels.

    Relations: prefer `simcse-supervised` or `multiple-negatives-ranking` if there are labeled pairs.

    Example:
        >>> loss = SimCSELoss(model, temperature=0.05)
        >>> loss([sentences])
    """

    row_type: RowType = "sentences"
    text_columns = ("sentence",)
    accepts_hard_negatives = False

    def __init__(
        self, model: nn.Module, temperature: float = 0.05, head: bool = True, across_devices: bool = True
    ) -> None:
        if not has_dropout(model, current_mode=False):
            # §3: dropout is the only noise. Without it both embeddings are equal and the representation collapses.
            raise UsageError("SimCSE needs a model with dropout but this one has none: set dropout: 0.1 in the recipe")
        super().__init__(model, temperature, head, across_devices)

    def prepare_columns(self, features: list[Features]) -> list[Features]:
        """Return the batch twice: joined into one forward, where every row draws its own dropout mask."""
        (sentences,) = super().prepare_columns(features)
        return [sentences, sentences]
