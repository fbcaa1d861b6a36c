"""Train a recipe: stages, checkpoints, exact resume, several processes, distillation.

kosbert.train("nli-sts", "runs/nli-sts")
"""

from kosbert.training.recipe import Recipe
from kosbert.training.trainer import TrainResult, train

__all__ = ["Recipe", "TrainResult", "train"]
