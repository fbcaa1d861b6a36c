"""Training objectives, one a file, each usable as the `loss` of sentence-transformers' trainer.

    objective = build("ranking", model, temperature=0.05, matryoshka=[256, 128, 64], gradcache=32)
    SentenceTransformerTrainer(model=model, train_dataset=rows, loss=objective).train()

| name | rows it needs | what it asks of the vectors |
|---|---|---|
| `classification` | labelled pairs | tell entailment, neutral and contradiction apart |
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

from kosbert.errors import UsageError, nearest
from kosbert.objectives.classification import Classification
from kosbert.objectives.cosent import CoSENT
from kosbert.objectives.cosine_regression import CosineRegression
from kosbert.objectives.distillation import Distillation
from kosbert.objectives.gradcache import GradCache
from kosbert.objectives.layers import load_own_state, own_state
from kosbert.objectives.matryoshka import Matryoshka
from kosbert.objectives.objective import Needs, Objective
from kosbert.objectives.ranking import Ranking
from kosbert.objectives.simcse import SimCSE, SupervisedSimCSE
from kosbert.objectives.triplet import Triplet

__all__ = ["OBJECTIVES", "Needs", "Objective", "build", "load_own_state", "own_state"]

OBJECTIVES: dict[str, type[Objective]] = {
    "classification": Classification,
    "cosine": CosineRegression,
    "cosent": CoSENT,
    "triplet": Triplet,
    "ranking": Ranking,
    "simcse": SimCSE,
    "simcse-supervised": SupervisedSimCSE,
    "distillation": Distillation,
}


def build(
    name: str,
    model: nn.Module,
    *,
    matryoshka: Sequence[int] | None = None,
    gradcache: int | None = None,
    **options: Any,
) -> Objective:
    """The objective of that name for the model, with its options, wrapped as asked.

    `matryoshka` are the sizes to train besides the full one; `gradcache` is how many sentences the model sees at once.
    """
    if name not in OBJECTIVES:
        raise UsageError(f"There is no objective {name!r}; {nearest(name, OBJECTIVES)}")
    known = list(inspect.signature(OBJECTIVES[name].__init__).parameters)[2:]  # without self and model
    for option in options:
        if option not in known:
            raise UsageError(f"The objective {name} has no option {option!r}; {nearest(option, known)}")
    if name == "distillation" and "teacher_dimension" not in options:
        raise UsageError("The objective distillation needs the option teacher_dimension; set it to the teacher's.")
    objective = OBJECTIVES[name](model, **options)
    if matryoshka is not None:
        objective = Matryoshka(objective, matryoshka)
    return objective if gradcache is None else GradCache(objective, gradcache)
