"""From a recipe to a model directory: the stages one after the other, and nothing lost on the way."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from kosbert.data.records import ScoredPair
from kosbert.errors import KosbertError
from kosbert.evaluation.sts import score_pairs
from kosbert.model import Encoder, load
from kosbert.model.new import new_backbone
from kosbert.objectives import load_own_state, own_state
from kosbert.training import folder
from kosbert.training.checkpoint import Checkpoint, Checkpoints, optimizer_tensors, restore_optimizer
from kosbert.training.lessons import Library
from kosbert.training.loop import Hooks, Progress, batches_of, optimizer_for, run_stage
from kosbert.training.processes import barrier, joined, rank
from kosbert.training.recipe import NewBackbone, Recipe, Stage

Report = Callable[[Stage, Progress, int, dict[str, float]], None]
Curves = dict[str, list[dict[str, float]]]


@dataclass(frozen=True)
class Trained:
    """What a run gave: where the model is, its scores, and the curves of its stages."""

    path: Path
    scores: dict[str, dict[str, float | None]]
    curves: Curves = field(repr=False)


def train(
    recipe: Recipe | str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    time_budget: float | None = None,
    data_dir: Path | None = None,
    checkpoint_every: float = 300.0,
    report: Report | None = None,
) -> Trained:
    """Train what a recipe says into `out`.

    Args:
        recipe: a Recipe, or the path of one.
        out: a folder of its own.
        resume: go on with what is in `out`, exactly as if it had never stopped; or start, if nothing is there.
        time_budget: seconds for the training steps of all stages; each stage's schedule is fitted to its share.
        data_dir: a folder with the data sets' files; by default `KOSBERT_DATA`.
        checkpoint_every: seconds between two checkpoints.
        report: called after every step with the stage, its progress, its number of steps, and the newest point.
    """
    recipe = recipe if isinstance(recipe, Recipe) else Recipe.load(recipe)
    with joined():
        return _Run(recipe, Path(out), data_dir, checkpoint_every, report).go(resume, time_budget)


class _Run:
    """One call of `train`: what its steps share."""

    def __init__(
        self, recipe: Recipe, out: Path, data_dir: Path | None, checkpoint_every: float, report: Report | None
    ) -> None:
        self.recipe, self.out, self.report = recipe, out, report
        self.library = Library(recipe, data_dir)
        self.checkpoints = Checkpoints(out / "checkpoints")
        self.checkpoint_every, self.saved_at = checkpoint_every, time.monotonic()
        self.curves: Curves = {}

    def go(self, resume: bool, time_budget: float | None) -> Trained:
        if rank() == 0:
            folder.prepare(self.out, self.recipe, resume=resume)
        barrier()
        done = folder.finished(self.out)
        if done:
            return Trained(self.out / "model", done[0]["scores"], done[1])
        checkpoint = self.checkpoints.newest() if resume else None
        self.dev = self.library.scored_pairs(self.recipe.dev)
        self.encoder = self._backbone()
        start, base = 0, 0
        if checkpoint:
            start, base, self.curves = (checkpoint.state[key] for key in ("stage", "base", "curves"))
            self.encoder.sentence_transformer.load_state_dict(_below("model.", checkpoint.weights))
        shares = self.library.time_shares(time_budget)
        for index in range(start, len(self.recipe.stages)):
            base = self._stage(index, base, shares[index], checkpoint)
            checkpoint = None
        return self._finish()

    def _backbone(self) -> Encoder:
        recipe = self.recipe
        if isinstance(recipe.backbone, NewBackbone):
            shape = recipe.backbone.model_dump(exclude={"text"})
            texts = self.library.sentences(recipe.backbone.text)
            return new_backbone(texts, **shape, pooling=recipe.pooling, max_length=recipe.max_length, seed=recipe.seed)
        return load(recipe.backbone, pooling=recipe.pooling, max_length=recipe.max_length)

    def _stage(self, index: int, base: int, share: float | None, checkpoint: Checkpoint | None) -> int:
        """Train one stage and leave the model with its best weights; returns the number of the next checkpoint."""
        stage = self.recipe.stages[index]
        settings = self.recipe.settings(stage)
        seed = int(np.random.SeedSequence([self.recipe.seed, index]).generate_state(1)[0])
        torch.manual_seed(seed)  # for the objectives' own layers
        model = self.encoder.sentence_transformer
        lessons = [self.library.lesson(source, stage, model) for source in stage.data]
        objectives = [lesson.objective for lesson in lessons]
        plan = batches_of(lessons, settings, seed, epochs=stage.epochs, steps=stage.steps)
        optimizer = optimizer_for(objectives, settings)
        progress = Progress()
        best: dict[str, Tensor] = {}
        if checkpoint and checkpoint.optimizer:  # the one between two stages has none
            progress = Progress(**checkpoint.state["progress"])
            restore_optimizer(optimizer, checkpoint.optimizer)
            for number, objective in enumerate(objectives):
                load_own_state(objective, _below(f"objective.{number}.", checkpoint.weights))
            best = _below("best.", checkpoint.weights)

        def keep_best() -> None:
            best.update({name: value.detach().clone() for name, value in model.state_dict().items()})

        def save(progress: Progress, optimizer: torch.optim.Optimizer) -> None:
            if rank() != 0 or time.monotonic() - self.saved_at < self.checkpoint_every:
                return
            tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
            tensors |= {f"best.{name}": value for name, value in best.items()}
            for number, objective in enumerate(objectives):
                tensors |= {f"objective.{number}.{name}": value for name, value in own_state(objective).items()}
            state = {"stage": index, "base": base, "curves": self.curves, "progress": asdict(progress)}
            self.checkpoints.save(base + progress.step, state, tensors, optimizer_tensors(optimizer))
            self.saved_at = time.monotonic()

        def report(progress: Progress, total: int, point: dict[str, float]) -> None:
            if self.report and rank() == 0:
                self.report(stage, progress, total, point)

        hooks = Hooks(self._dev_score if self.dev else None, save, keep_best, report)
        try:
            run_stage(model, lessons, plan, settings, progress, optimizer, hooks, seed=seed, budget=share)
        except KosbertError as error:
            raise type(error)(f"stage {stage.name}: {error}") from error
        if best:
            model.load_state_dict(best)
        self.curves[stage.name] = progress.curve
        if rank() == 0:
            state = {"stage": index + 1, "base": base + plan.total, "curves": self.curves}
            tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
            self.checkpoints.save(base + plan.total, state, tensors, {})
        barrier()
        return base + plan.total

    def _dev_score(self) -> float | None:
        """Mean cosine Spearman over the dev sets."""
        found = [score_pairs(self.encoder, pairs)["spearman"] for pairs in self.dev.values()]
        defined = [score for score in found if score is not None]
        return sum(defined) / len(defined) if defined else None

    def _finish(self) -> Trained:
        """Score the test sets, once, and write the model."""
        sets: dict[str, list[ScoredPair]] = {**self.dev, **self.library.scored_pairs(self.recipe.test)}
        scores = {name: score_pairs(self.encoder, pairs) for name, pairs in sets.items()}
        path = self.out / "model"
        if rank() == 0:
            (self.out / "curves.json").write_text(json.dumps(self.curves), encoding="utf-8")
            libraries = ("kosbert", "torch", "transformers", "sentence-transformers")
            card = {
                "recipe": self.recipe.model_dump(mode="json"),
                "seed": self.recipe.seed,
                "data": self.library.fingerprints,
                "scores": scores,
                "versions": {name: version(name) for name in libraries},
            }
            self.encoder.save(path, card)
            self.checkpoints.clear()
        barrier()
        return Trained(path, scores, self.curves)


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
