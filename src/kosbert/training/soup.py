"""Model soups: average the weights of models of one backbone.

Greedy soup (Wortsman et al. 2022, Model soups, §2): from the best model on dev downwards, a model is added if the
average with it is not worse on dev. https://arxiv.org/abs/2203.05482

Weighted average (Wortsman et al. 2022, Robust fine-tuning of zero-shot models, §3): a fine-tuned model averaged with
the model before fine-tuning keeps some of what fine-tuning forgets. https://arxiv.org/abs/2109.01903
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kosbert.data.records import ScoredPair
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation.sts import score_pairs
from kosbert.model.torch_encoder import TorchEncoder
from kosbert.model.torch_loading import load_torch

StateDict = dict[str, Tensor]


@dataclass(frozen=True)
class Soup:
    """Result of `soup`: the model directory, the averaged models, and the dev scores of each model and of the soup."""

    path: Path
    ingredients: list[str]
    dev: dict[str, float]
    score: float


def greedy(states: Sequence[StateDict], score: Callable[[StateDict], float]) -> tuple[list[int], float, list[float]]:
    """Return the indices of the averaged states in the order added, the score of their average, and all single scores.

    >>> states = [{"w": torch.tensor([value])} for value in (0.0, 4.0, 9.0)]
    >>> greedy(states, lambda state: -abs(float(state["w"]) - 3))
    ([1, 0], -1.0, [-3.0, -1.0, -6.0])
    """
    single_scores = [score(state) for state in states]
    order = sorted(range(len(states)), key=lambda index: -single_scores[index])
    chosen, best = [order[0]], single_scores[order[0]]
    for index in order[1:]:
        candidate_score = score(average([states[ingredient] for ingredient in (*chosen, index)]))
        if candidate_score >= best:
            chosen, best = [*chosen, index], candidate_score
    return chosen, best, single_scores


def average(states: Sequence[StateDict], weights: Sequence[float] | None = None) -> StateDict:
    """Return the weighted mean of every tensor; integer tensors (counters, position ids) are those of the first."""
    shares = torch.tensor(weights or [1.0] * len(states), dtype=torch.float64)
    shares /= shares.sum()
    return {
        name: torch.einsum("s,s...->...", shares, torch.stack([state[name].double() for state in states])).to(
            value.dtype
        )
        if value.is_floating_point()
        else value
        for name, value in states[0].items()
    }


def soup(
    models: Sequence[str | Path],
    dev: Mapping[str, Sequence[ScoredPair]],
    out: str | Path,
    *,
    weights: Sequence[float] | None = None,
) -> Soup:
    """Average models of one backbone into a model directory.

    Args:
        models: model directories.
        dev: STS pairs by data set; models are selected by the mean Spearman over the sets.
        out: the new model directory.
        weights: one per model; all models are averaged with these weights and nothing is selected.
    """
    if len(models) < 2:
        raise UsageError("a soup needs two models or more: give their directories")
    if weights and (len(weights) != len(models) or not all(0 < weight < math.inf for weight in weights)):
        raise UsageError(f"{len(models)} models need as many weights above 0, not {list(weights)}")
    encoders: list[TorchEncoder] = [load_torch(model, device="cpu") for model in models]
    _check_compatible(models, encoders)
    states = [
        {name: value.clone() for name, value in encoder.sentence_transformer.state_dict().items()}
        for encoder in encoders
    ]
    encoder = encoders[0]

    def score(state: StateDict) -> float:
        encoder.sentence_transformer.load_state_dict(state)
        scores = [score_pairs(encoder, pairs)["spearman"] for pairs in dev.values()]
        defined = [value for value in scores if value is not None]
        if len(defined) < len(scores) or not scores:
            raise KosbertError("a dev score is undefined, so models cannot be selected: name another dev set")
        return sum(defined) / len(defined)

    if weights:
        averaged, chosen = average(states, weights), list(range(len(states)))
        single_scores = [score(state) for state in states]
        best = score(averaged)
    else:
        chosen, best, single_scores = greedy(states, score)
        averaged = average([states[index] for index in chosen])
    encoder.sentence_transformer.load_state_dict(averaged)
    names = [str(model) for model in models]
    ingredients = [names[index] for index in chosen]
    scores = dict(zip(names, single_scores, strict=True))
    details: dict[str, Any] = {"ingredients": ingredients, "dev": list(dev), "scores": scores, "score": best}
    details |= {"weights": list(weights)} if weights else {}
    card = {**encoders[chosen[0]].card, "soup": details}
    card.pop("scores", None)  # of one ingredient
    return Soup(encoder.save(out, card), ingredients, scores, best)


def _check_compatible(models: Sequence[str | Path], encoders: Sequence[TorchEncoder]) -> None:
    """Raise unless all models have the same shapes, vocabulary, pooling and maximum length."""
    shapes = [
        {name: value.shape for name, value in encoder.sentence_transformer.state_dict().items()} for encoder in encoders
    ]
    vocabularies = [encoder.tokenizer.get_vocab() for encoder in encoders]
    settings = [_settings(encoder) for encoder in encoders]
    for index, name in enumerate(models):
        if shapes[index] != shapes[0] or vocabularies[index] != vocabularies[0]:
            raise UsageError(f"{name} and {models[0]} differ in shapes or vocabulary: give models of one backbone")
    for index, name in enumerate(models):
        if settings[index] != settings[0]:
            raise UsageError(f"{name} and {models[0]} differ in pooling or max_length: give models with the same ones")


def _settings(encoder: TorchEncoder) -> list[Any]:
    """Return what is not in the weights: maximum length and pooling."""
    model = encoder.sentence_transformer
    return [model.max_seq_length, *([type(module).__name__, module.get_config_dict()] for module in list(model)[1:])]
