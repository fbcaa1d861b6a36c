"""SimCSE: a sentence is its own positive through two dropout masks, or NLI gives the positive and the hard negative.

Both go through a head (dense and tanh) in training, and only there: the head is a layer of the loss, the saved
model never has it. The authors found this best for the unsupervised case (§6.3; `--mlp_only_train` in their code), and
that for the supervised one, where they keep the head, the choice hardly matters. We drop it in both, so that the saved
model is a plain backbone with pooling, which every tool loads, and both are compared without a layer between.
"""

from typing import Any

from torch import Tensor, nn

from kosbert.errors import UsageError
from kosbert.losses.base import Loss, Needs
from kosbert.losses.features import Features, fingerprints
from kosbert.losses.forward import has_dropout, unwrapped
from kosbert.losses.loss_state import sync_module
from kosbert.losses.multiple_negatives_ranking import checked_temperature, info_nce

SIMCSE = "Gao, Yao and Chen 2021, SimCSE, https://arxiv.org/abs/2104.08821"


def training_head(model: nn.Module) -> nn.Module:
    """Dense and tanh, of the model's own dimension; initialized as BERT's layers (normal, 0.02), as the authors do."""
    dimension = unwrapped(model).get_embedding_dimension()
    dense = nn.Linear(dimension, dimension, device=unwrapped(model).device)
    nn.init.normal_(dense.weight, std=0.02)
    nn.init.zeros_(dense.bias)
    return sync_module(nn.Sequential(dense, nn.Tanh()))


class SupervisedSimCSELoss(Loss):
    """Ranking of entailments against contradictions and the rest of the batch, through the training head.

    Arguments:
        model: the SentenceTransformer to train.
        temperature: what the cosines are divided by; 0.05 in the paper.
        head: whether to train through the head; without it this is `ranking`.
        across_devices: take the candidates of all processes; of no effect in a single one.

    Reference: Gao, Yao and Chen 2021, SimCSE, §4 (equation 5) and §6.3 (the head).

    Inputs: text columns (anchor, positive, negative): premise, entailment, contradiction; no labels.

    Prefer another: `simcse` without labeled pairs; `classification` to keep the neutral pairs in use.

    Example:
        >>> loss = SupervisedSimCSE(model)
        >>> loss([premises, entailments, contradictions])
    """

    needs: Needs = "triplets"
    texts: tuple[str, ...] = ("anchor", "positive", "negative")
    more_negatives = True
    citation = SIMCSE

    def __init__(
        self, model: nn.Module, temperature: float = 0.05, head: bool = True, across_devices: bool = True
    ) -> None:
        super().__init__(model)
        self.temperature, self.across_devices = checked_temperature(temperature), across_devices
        self.head = training_head(model) if head else nn.Identity()

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """InfoNCE of what the head makes of the vectors."""
        texts = [fingerprints(column) for column in columns]
        heads = [self.head(column) for column in embeddings]
        return info_nce(heads, texts, self.temperature, across_devices=self.across_devices)

    def get_config_dict(self) -> dict[str, Any]:
        """The options, for the model card."""
        head = not isinstance(self.head, nn.Identity)
        return {"temperature": self.temperature, "head": head, "across_devices": self.across_devices}


class SimCSELoss(SupervisedSimCSELoss):
    """Each sentence twice in one forward; the two dropout masks make the pair, the other sentences the negatives.

    Arguments: those of `SupervisedSimCSELoss`.

    Reference: Gao, Yao and Chen 2021, SimCSE, §3 (equation 4) and §6.3 (the head).

    Inputs: one text column (sentence); no labels.

    Prefer another: `simcse-supervised` or `ranking` as soon as there are labeled pairs.

    Example:
        >>> loss = SimCSE(model, temperature=0.05)
        >>> loss([sentences])
    """

    needs: Needs = "sentences"
    texts = ("sentence",)
    more_negatives = False

    def __init__(
        self, model: nn.Module, temperature: float = 0.05, head: bool = True, across_devices: bool = True
    ) -> None:
        if not has_dropout(model, in_this_mode=False):
            # §3: dropout is the only noise; without it the two vectors are one, and the representation collapses.
            raise UsageError("SimCSE needs a model with dropout but this one has none; set its dropout to 0.1.")
        super().__init__(model, temperature, head, across_devices)

    def columns(self, features: list[Features]) -> list[Features]:
        """The batch twice: joined into one forward, where every row draws a mask of its own."""
        (sentences,) = super().columns(features)
        return [sentences, sentences]
