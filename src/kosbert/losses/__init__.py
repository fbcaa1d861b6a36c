"""Training losses, one per file, named as in sentence-transformers and usable with its trainer.

    loss = build("multiple-negatives-ranking", model, temperature=0.05, matryoshka=[256, 128, 64], gradcache=32)
    SentenceTransformerTrainer(model=model, train_dataset=rows, loss=loss).train()

| name | rows | what it optimizes |
|---|---|---|
| `softmax` | labeled pairs | classify entailment, neutral, contradiction |
| `cosine-similarity` | scored pairs | the cosine equals the score |
| `cosent` | scored pairs | the cosines have the order of the scores |
| `triplet` | triplets | the positive is closer than the negative |
| `multiple-negatives-ranking` | pairs or triplets | the positive is the closest candidate of the batch |
| `simcse` | sentences | a sentence is closest to itself under another dropout mask |
| `simcse-supervised` | triplets | multiple-negatives-ranking through a head that is dropped after training |
| `distillation` | sentences with teacher embeddings | match the teacher's directions and cosines |

`matryoshka.py` and `gradcache.py` wrap any of them. `forward.py` embeds all columns in one call.
"""

import inspect
from collections.abc import Sequence
from typing import Any

from torch import nn

from kosbert.errors import UsageError, did_you_mean
from kosbert.losses.base import Loss, RowType, load_loss_state, loss_state
from kosbert.losses.cosent import CoSENTLoss
from kosbert.losses.cosine_similarity import CosineSimilarityLoss
from kosbert.losses.distillation import DistillationLoss
from kosbert.losses.gradcache import GradCacheLoss
from kosbert.losses.matryoshka import MatryoshkaLoss
from kosbert.losses.multiple_negatives_ranking import MultipleNegativesRankingLoss
from kosbert.losses.simcse import SimCSELoss, SupervisedSimCSELoss
from kosbert.losses.softmax import SoftmaxLoss
from kosbert.losses.triplet import TripletLoss

__all__ = ["LOSSES", "Loss", "RowType", "build", "load_loss_state", "loss_state"]

LOSSES: dict[str, type[Loss]] = {
    "softmax": SoftmaxLoss,
    "cosine-similarity": CosineSimilarityLoss,
    "cosent": CoSENTLoss,
    "triplet": TripletLoss,
    "multiple-negatives-ranking": MultipleNegativesRankingLoss,
    "simcse": SimCSELoss,
    "simcse-supervised": SupervisedSimCSELoss,
    "distillation": DistillationLoss,
}


def build(
    name: str,
    model: nn.Module,
    *,
    matryoshka: Sequence[int] | None = None,
    gradcache: int | None = None,
    **options: Any,
) -> Loss:
    """Build a loss by name.

    Args:
        name: a key of `LOSSES`.
        model: the SentenceTransformer to train.
        matryoshka: dimensions to train in addition to the full one.
        gradcache: mini-batch size of the model, in sentences.
        options: options of the loss.
    """
    if name not in LOSSES:
        raise UsageError(f"there is no loss {name!r}: {did_you_mean(name, LOSSES)}")
    allowed = list(inspect.signature(LOSSES[name].__init__).parameters)[2:]  # without self and model
    for option in options:
        if option not in allowed:
            raise UsageError(f"the loss {name} has no option {option!r}: {did_you_mean(option, allowed)}")
    if name == "distillation" and "teacher_dimension" not in options:
        raise UsageError("the loss distillation needs the option teacher_dimension: the dimension of the teacher")
    loss_fn = LOSSES[name](model, **options)
    if matryoshka is not None:
        loss_fn = MatryoshkaLoss(loss_fn, matryoshka)
    return loss_fn if gradcache is None else GradCacheLoss(loss_fn, gradcache)
