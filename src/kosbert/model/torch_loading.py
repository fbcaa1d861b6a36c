"""Load a sentence-transformers directory or a plain encoder as a `TorchEncoder`.

Weights are read from safetensors only, and code that comes with a model is never run.
"""

import logging
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer, WeightedLayerPooling
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.model.directory import find_model, read_card
from kosbert.model.packing import pack
from kosbert.model.torch_encoder import TorchEncoder, quiet_transformers

logger = logging.getLogger(__name__)

POOLINGS = ("mean", "max", "cls", "first-last")
"""first-last: the mean over tokens of the average of the first and the last layer (SimCSE, avg_first_last)."""


def load_torch(
    name: str | Path, *, pooling: str | None = None, max_length: int | None = None, device: str | None = None
) -> TorchEncoder:
    """Load a model with torch, for training and for `encode` on any device; the arguments are those of `load`."""
    if pooling is not None and pooling not in POOLINGS:
        raise UsageError(f"unknown pooling {pooling!r}; {did_you_mean(pooling, POOLINGS)}")
    directory = find_model(str(name))
    try:
        with quiet_transformers():
            model = _read(directory, pooling, device or best_device())
    except KosbertError:
        raise
    except Exception as error:  # a damaged file raises whatever its reader raises
        raise _explained(str(name), directory, error) from error
    if type(model.tokenizer).__name__.startswith("XLNet") and model[0].config.model_type == "bert":
        model[0].processor = _kobert_tokenizer(model.tokenizer)
        logger.warning(
            "%s names XLNet's tokenizer, which puts [CLS] last and pads on the left; kosbert puts [CLS] first, as in "
            "pretraining, so embeddings differ from those of sentence-transformers until the model is saved",
            name,
        )
    _limit_length(model, max_length)
    pack(model)
    model.eval()
    return TorchEncoder(model, source=str(name), card=read_card(directory))


def _read(directory: Path, pooling: str | None, device: str) -> SentenceTransformer:
    # Without an explicit False, transformers asks on the terminal whether to run code that comes with a model.
    safe = {"trust_remote_code": False, "local_files_only": True}
    # Half precision is slower than float32 on most CPUs, and embeddings are float32 anyway.
    options: dict[str, Any] = {
        "model_kwargs": {"use_safetensors": True, "dtype": torch.float32, **safe},
        "processor_kwargs": safe,
        "config_kwargs": safe,
    }
    if (directory / "modules.json").is_file():
        model = SentenceTransformer(str(directory), device=device, **safe, **options)
        if pooling is not None:
            change_pooling(model, pooling)
        return model
    backbone = Transformer(str(directory), **options)
    return SentenceTransformer(modules=[backbone, *_pooling_modules(backbone, pooling or "mean")], device=device)


def _kobert_tokenizer(tokenizer: Any) -> PreTrainedTokenizerFast:
    """Return the tokenizer of skt/kobert-base-v1 as it was in pretraining: [CLS] text [SEP], padded on the right.

    The repository names XLNetTokenizer, because its authors' own class, which is not on the hub, is derived from it.
    """
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    cls, sep = tokenizer.cls_token, tokenizer.sep_token
    backend.post_processor = TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(cls, tokenizer.cls_token_id), (sep, tokenizer.sep_token_id)],
    )
    names = ("unk_token", "pad_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=tokenizer.model_max_length, padding_side="right",
        **{name: getattr(tokenizer, name) for name in names},
    )  # fmt: skip


def best_device() -> str:
    """Return the fastest type of device that this machine has."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _explained(name: str, directory: Path, error: Exception) -> KosbertError:
    """Return one sentence with the fix for an error of transformers or sentence-transformers."""
    messages = " ".join(str(cause) for cause in _causes(error))
    if "trust_remote_code" in messages:
        return UsageError(
            f"{name} needs code of its own, which kosbert never runs; choose a model of an architecture that "
            "transformers has built in"
        )
    lacks_tokenizer = any(directory.rglob("*.model")) and not any(directory.rglob("tokenizer.json"))
    missing = [package for package in ("sentencepiece", "protobuf", "tiktoken") if _is_missing(package)]
    if lacks_tokenizer and missing and ("tokenizer" in messages.lower() or "processing class" in messages):
        needed = [package for package in missing if package != "tiktoken"] or missing
        return UsageError(f"the tokenizer of {name} is a sentencepiece model; pip install {' '.join(needed)}")
    return KosbertError(
        f"the model {name} cannot be loaded ({_first_line(error)}); "
        "give a sentence-transformers directory or a Hugging Face encoder with its tokenizer"
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_missing(package: str) -> bool:
    try:
        return find_spec("google.protobuf" if package == "protobuf" else package) is None
    except ModuleNotFoundError:  # no package google at all
        return True


def _pooling_modules(backbone: Transformer, pooling: str) -> list[torch.nn.Module]:
    size = backbone.get_embedding_dimension()
    if pooling != "first-last":
        return [Pooling(size, pooling)]
    # WeightedLayerPooling with weight 1 for the first and the last layer and 0 for the others is their average, and a
    # stock SentenceTransformer can load it. Layer 0 is the embedding table; layer 1 is the first with attention
    # (SimCSE's code used 0 at first and 1 later; we use 1).
    layers = backbone.config.num_hidden_layers
    backbone.config.output_hidden_states = True
    weights = torch.zeros(layers)
    weights[0] = weights[-1] = 1.0
    average = WeightedLayerPooling(size, num_hidden_layers=layers, layer_start=1)
    average.layer_weights = torch.nn.Parameter(weights, requires_grad=False)  # a fixed pooling, not trained
    return [average, Pooling(size, "mean")]


def change_pooling(model: SentenceTransformer, pooling: str) -> None:
    """Replace the pooling of a saved model and keep the modules after it (a projection, normalization)."""
    modules = list(model)
    pooling_indices = [index for index, module in enumerate(modules) if isinstance(module, Pooling)]
    if not isinstance(modules[0], Transformer) or len(pooling_indices) != 1:
        raise UsageError("this model has no pooling that could be changed; leave pooling out")
    index = pooling_indices[0]
    if modules[index].pooling_output_dimension != modules[0].get_embedding_dimension():
        raise UsageError("this model concatenates several poolings; leave pooling out")
    modules[0].config.output_hidden_states = False
    new_modules = [modules[0], *_pooling_modules(modules[0], pooling), *modules[index + 1 :]]
    include_prompt = modules[index].include_prompt  # not a property of the pooling mode: a trained model depends on it
    device = model.device
    model._modules.clear()
    for index, module in enumerate(new_modules):
        model.add_module(str(index), module)
    model.set_pooling_include_prompt(include_prompt)
    model.to(device)


def _limit_length(model: SentenceTransformer, max_length: int | None) -> None:
    """Truncate at the end of the position table: two rows of RoBERTa's are not used, so 514 means 512."""
    backbone = model[0]
    if not isinstance(backbone, Transformer):
        return
    positions = getattr(backbone.config, "max_position_embeddings", None)
    limit = positions - backbone._infer_flatten_position_offset() if positions and positions > 0 else None
    if max_length is not None:
        if max_length < 3:
            raise UsageError(
                f"max_length {max_length} leaves no room for a word between two special tokens; give 3 or more"
            )
        if limit is not None and max_length > limit:
            raise UsageError(f"this model reads at most {limit} tokens; give a max_length of {limit} or less")
        model.max_seq_length = max_length
    elif limit is not None and (model.max_seq_length is None or model.max_seq_length > limit):
        model.max_seq_length = limit


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__
