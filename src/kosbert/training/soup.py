"""A soup: the average of the weights of models that were trained alike, where that is better than the best of them.

Greedy, as in Wortsman et al. 2022, Model soups, §2: from the best model on dev downwards, each is stirred in if the
average with it is not worse on dev. https://arxiv.org/abs/2203.05482

Or with given shares, as in Wortsman et al. 2022, Robust fine-tuning of zero-shot models, §3: a fine-tuned model and a
little of what it was before keeps what fine-tuning forgets. https://arxiv.org/abs/2109.01903
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

State = dict[str, Tensor]


@dataclass(frozen=True)
class Soup:
    """Where the model is, what went in, and the dev score of each ingredient and of the whole."""

    path: Path
    ingredients: list[str]
    dev: dict[str, float]
    score: float


def greedy(states: Sequence[State], score: Callable[[State], float]) -> tuple[list[int], float, list[float]]:
    """The numbers of the states whose average is best, in the order in which they went in; its score; each one's own.

    >>> states = [{"w": torch.tensor([value])} for value in (0.0, 4.0, 9.0)]
    >>> greedy(states, lambda state: -abs(float(state["w"]) - 3))
    ([1, 0], -1.0, [-3.0, -1.0, -6.0])
    """
    own = [score(state) for state in states]
    order = sorted(range(len(states)), key=lambda number: -own[number])
    chosen, best = [order[0]], own[order[0]]
    for number in order[1:]:
        found = score(average([states[each] for each in (*chosen, number)]))
        if found >= best:
            chosen, best = [*chosen, number], found
    return chosen, best, own


def average(states: Sequence[State], shares: Sequence[float] | None = None) -> State:
    """The mean of every tensor, by shares; whole numbers (counters, position ids) are those of the first."""
    weights = torch.tensor(shares or [1.0] * len(states), dtype=torch.float64)
    weights /= weights.sum()
    return {
        name: torch.einsum("s,s...->...", weights, torch.stack([state[name].double() for state in states])).to(
            value.dtype
        )
        if value.is_floating_point()
        else value
        for name, value in states[0].items()
    }


def _reading(encoder: TorchEncoder) -> list[Any]:
    """What no weight says: the length that is read, and how token vectors become one."""
    model = encoder.sentence_transformer
    return [model.max_seq_length, *([type(each).__name__, each.get_config_dict()] for each in list(model)[1:])]


def soup(
    models: Sequence[str | Path],
    dev: Mapping[str, Sequence[ScoredPair]],
    out: str | Path,
    *,
    shares: Sequence[float] | None = None,
) -> Soup:
    """Average models that share a backbone into `out`, chosen by the mean Spearman over the dev sets.

    With `shares`, one for each model, nothing is chosen: all go in by their shares.
    """
    if len(models) < 2:
        raise UsageError("a soup needs two models or more: give their directories")
    if shares and (len(shares) != len(models) or not all(0 < share < math.inf for share in shares)):
        raise UsageError(f"{len(models)} models need as many shares above 0, not {list(shares)}")
    encoders: list[TorchEncoder] = [load_torch(each, device="cpu") for each in models]
    states = [dict(each.sentence_transformer.state_dict()) for each in encoders]
    shapes = [{name: value.shape for name, value in state.items()} for state in states]
    vocabularies = [each.tokenizer.get_vocab() for each in encoders]
    for name, shape, words in zip(models[1:], shapes[1:], vocabularies[1:], strict=True):
        if shape != shapes[0] or words != vocabularies[0]:
            raise UsageError(f"{name} and {models[0]} have different shapes or tokens: give models of one backbone")
    reading = [_reading(each) for each in encoders]
    for name, way in zip(models[1:], reading[1:], strict=True):
        if way != reading[0]:
            raise UsageError(f"{name} and {models[0]} differ in pooling or max_length: give models that read alike")
    states = [{name: value.clone() for name, value in state.items()} for state in states]
    kitchen = encoders[0]

    def score(state: State) -> float:
        kitchen.sentence_transformer.load_state_dict(state)
        found = [score_pairs(kitchen, pairs)["spearman"] for pairs in dev.values()]
        defined = [each for each in found if each is not None]
        if len(defined) < len(found) or not found:
            raise KosbertError("a dev score is undefined, so that nothing can be chosen: name another set")
        return sum(defined) / len(defined)

    if shares:
        mixed, chosen, own = average(states, shares), list(range(len(states))), [score(state) for state in states]
        best = score(mixed)
    else:
        chosen, best, own = greedy(states, score)
        mixed = average([states[number] for number in chosen])
    kitchen.sentence_transformer.load_state_dict(mixed)
    names = [str(each) for each in models]
    scores = dict(zip(names, own, strict=True))
    note = {"ingredients": [names[number] for number in chosen], "dev": list(dev), "scores": scores, "score": best}
    note |= {"shares": list(shares)} if shares else {}
    card = {**encoders[chosen[0]].card, "soup": note}
    card.pop("scores", None)  # those of one ingredient
    return Soup(kitchen.save(out, card), [names[number] for number in chosen], scores, best)
