"""Training losses, one a file, each usable as the `loss` of sentence-transformers' trainer.

    loss = build("multiple-negatives-ranking", model, temperature=0.05, matryoshka=[256, 128, 64], gradcache=32)
    SentenceTransformerTrainer(model=model, train_dataset=rows, loss=loss).train()

| name | rows it needs | what it asks of the vectors |
|---|---|---|
| `classification` | labeled pairs | tell entailment, neutral and contradiction apart |
| `cosine` | scored pairs | the cosine is the score |
| `cosent` | scored pairs | the cosines are in the order of the scores |
| `triplet` | triplets | the positive is nearer than the negative |
| `ranking` | pairs (or triplets) | the positive is the nearest of the batch |
| `simcse` | sentences | a sentence is nearest to itself through another dropout mask |
| `simcse-supervised` | triplets | `ranking` through a head that is dropped after training |
| `distillation` | vectors | point where the teacher points |

`matryoshka.py` and `gradcache.py` wrap any of them. `siamese.py` embeds all columns in one forward.
"""

import inspect
from collections.abc import Sequence
from typing import Any

from torch import nn

from kosbert.errors import UsageError, did_you_mean
from kosbert.losses.base import Loss, Needs
from kosbert.losses.cosent import CoSENTLoss
from kosbert.losses.cosine_similarity import CosineSimilarityLoss
from kosbert.losses.distillation import DistillationLoss
from kosbert.losses.gradcache import GradCacheLoss
from kosbert.losses.loss_state import load_loss_state, loss_state
from kosbert.losses.matryoshka import MatryoshkaLoss
from kosbert.losses.multiple_negatives_ranking import MultipleNegativesRankingLoss
from kosbert.losses.simcse import SimCSELoss, SupervisedSimCSELoss
from kosbert.losses.softmax import SoftmaxLoss
from kosbert.losses.triplet import TripletLoss

__all__ = ["LOSSES", "Loss", "Needs", "build", "load_loss_state", "loss_state"]

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
    """The loss of that name for the model, with its options, wrapped as asked.

    `matryoshka` are the sizes to train besides the full one; `gradcache` is how many sentences the model sees at once.
    """
    if name not in LOSSES:
        raise UsageError(f"There is no loss {name!r}; {did_you_mean(name, LOSSES)}")
    known = list(inspect.signature(LOSSES[name].__init__).parameters)[2:]  # without self and model
    for option in options:
        if option not in known:
            raise UsageError(f"The loss {name} has no option {option!r}; {did_you_mean(option, known)}")
    if name == "distillation" and "teacher_dimension" not in options:
        raise UsageError("The loss distillation needs the option teacher_dimension; set it to the teacher's.")
    loss_fn = LOSSES[name](model, **options)
    if matryoshka is not None:
        loss_fn = MatryoshkaLoss(loss_fn, matryoshka)
    return loss_fn if gradcache is None else GradCacheLoss(loss_fn, gradcache)
