"""From a recipe to a model: stages, checkpoints, exact resume, several processes, distillation.

kosbert.train("recipes/nli-sts.yaml", "runs/nli-sts")
"""

from kosbert.training.recipe import Recipe
from kosbert.training.trainer import Trained, train

__all__ = ["Recipe", "Trained", "train"]
