"""Dropout of a backbone: set it, and find out whether a forward in training mode applies any."""

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from kosbert.errors import UsageError

# The fields that encoders apply in their forward. Others, such as ELECTRA's `summary_last_dropout` and every
# `classifier_dropout`, belong to heads that an encoder does not have.
_FIELDS = (
    "hidden_dropout_prob", "attention_probs_dropout_prob",  # BERT, RoBERTa, XLM-R, ELECTRA, DeBERTa, MPNet
    "embedding_dropout", "mlp_dropout", "attention_dropout",  # ModernBERT
    "dropout",  # DistilBERT
)  # fmt: skip
_PROBES = ("오늘은 바람이 불고 날씨가 몹시 춥다.", "비가 온다.")

_probed: "WeakKeyDictionary[nn.Module, tuple[list[float], bool]]" = WeakKeyDictionary()


def set_dropout(model: nn.Module, rate: float) -> None:
    """Set every dropout of a SentenceTransformer's backbone, in its modules and in the configuration that is saved."""
    backbone: Any = getattr(model[0], "model", None)  # type: ignore[index]
    config = getattr(backbone, "config", None)
    fields = [name for name in _FIELDS if hasattr(config, name)]
    if not fields:
        raise UsageError(f"dropout cannot be set in a {type(backbone).__name__} model: leave dropout out of the recipe")
    for name in fields:
        setattr(config, name, rate)
    for module in backbone.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = rate
        for name, child in module.named_children():
            if "drop" in name and isinstance(child, nn.Identity):  # ModernBERT has one in place of a dropout of 0
                module.add_module(name, nn.Dropout(rate).train(module.training))
        if isinstance(getattr(module, "attention_dropout", None), float):  # ModernBERT's attention keeps a number
            module.attention_dropout = rate


def has_dropout(model: nn.Module, *, current_mode: bool = True) -> bool:
    """Return whether the model applies dropout: now, or (`current_mode=False`) whenever it is in training mode.

    Rates do not tell: configurations and modules have some that no forward uses. So two forwards in training mode, with
    different random numbers, are compared. The result is kept until a rate changes.
    """
    if current_mode and not any(module.training for module in model.modules()):
        return False
    rates = _rates(model)
    if not any(rates):
        return False
    if model not in _probed or _probed[model][0] != rates:
        _probed[model] = rates, _is_random(model)
    return _probed[model][1]


def _rates(model: nn.Module) -> list[float]:
    """Return all dropout rates of modules and configurations, used or not."""
    rates, configs = [], {}
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            rates.append(module.p)
        config = getattr(module, "config", None)
        configs[id(config)] = getattr(config, "__dict__", {})
    for fields in configs.values():
        rates += [rate for name, rate in fields.items() if "drop" in name and isinstance(rate, float)]
    return rates


def _is_random(model: nn.Module) -> bool:
    """Return whether two forwards in training mode differ; for a model without text input, whether a rate is set."""
    inner: Any = getattr(model, "_orig_mod", model)  # torch.compile
    inner = getattr(inner, "module", inner)  # DDP, whose forward would be a collective operation
    if not hasattr(inner, "preprocess"):
        return True
    modes = {module: module.training for module in inner.modules()}
    device = inner.device
    inner.train()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            first, second = (_embed_probes(inner, device, seed) for seed in (1, 2))
    finally:
        for module, training in modes.items():
            module.training = training
    return not torch.equal(first, second)


def _embed_probes(model: Any, device: torch.device, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    features = model.preprocess(list(_PROBES))
    moved = {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in features.items()}
    vectors: torch.Tensor = model(moved)["sentence_embedding"]
    return vectors
