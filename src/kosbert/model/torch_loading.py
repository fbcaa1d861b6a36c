"""Load a sentence-transformers directory or a plain encoder as a `TorchEncoder`.

Weights are read from safetensors only, and code that comes with a model is never run.
"""

import json
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer, WeightedLayerPooling

from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.model.directory import find_model, read_card
from kosbert.model.packing import pack
from kosbert.model.torch_encoder import TorchEncoder, quiet_transformers

POOLINGS = ("mean", "max", "cls", "first-last")
"""first-last: the mean over tokens of the average of the first and the last layer (SimCSE, avg_first_last)."""

_PICKLE_PATTERNS = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def load_torch(
    name: str | Path, *, pooling: str | None = None, max_length: int | None = None, device: str | None = None
) -> TorchEncoder:
    """Load a model with torch, for training and for `encode` on any device; the arguments are those of `load`."""
    if pooling is not None and pooling not in POOLINGS:
        raise UsageError(f"unknown pooling {pooling!r}; {did_you_mean(pooling, POOLINGS)}")
    directory = find_model(str(name))
    _refuse_pickle(directory)
    with quiet_transformers():
        model = _read(directory, pooling, device or best_device())
    _limit_length(model, max_length)
    pack(model)
    model.eval()
    return TorchEncoder(model, source=str(name), card=read_card(directory))


def _read(directory: Path, pooling: str | None, device: str) -> SentenceTransformer:
    # Half precision is slower than float32 on most CPUs, and embeddings are float32 anyway.
    arguments: dict[str, Any] = {"model_kwargs": {"use_safetensors": True, "dtype": torch.float32}}
    try:
        if (directory / "modules.json").is_file():
            model = SentenceTransformer(str(directory), device=device, local_files_only=True, **arguments)
            if pooling is not None:
                change_pooling(model, pooling)
            return model
        backbone = Transformer(str(directory), **arguments)
        return SentenceTransformer(modules=[backbone, *_pooling_modules(backbone, pooling or "mean")], device=device)
    except UsageError:
        raise
    except Exception as error:  # a damaged file raises whatever its reader raises
        raise KosbertError(
            f"the model in {directory} cannot be loaded ({_first_line(error)}); "
            "give a sentence-transformers directory or a Hugging Face encoder with its tokenizer"
        ) from error


def best_device() -> str:
    """Return the fastest type of device that this machine has."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _refuse_pickle(directory: Path) -> None:
    """Raise an error if weights would be read from pickle, which can run code; every module needs safetensors."""
    folders = [directory]
    if (directory / "modules.json").is_file():
        try:
            modules = json.loads((directory / "modules.json").read_text(encoding="utf-8"))
            folders = [directory / module["path"] for module in modules]
        except (ValueError, TypeError, KeyError) as error:
            raise KosbertError(f"{directory / 'modules.json'} is damaged; save or download the model again") from error
        folders += [path for folder in folders if folder != directory for path in folder.glob("**/") if path != folder]
    for folder in folders:
        pickled = [
            file for pattern in _PICKLE_PATTERNS for file in folder.glob(pattern) if file.name != "training_args.bin"
        ]
        if pickled and not any(folder.glob("model*.safetensors")):  # files of other names would not be loaded
            raise UsageError(
                f"{folder} has its weights only as pickle ({pickled[0].name}), which can run code; "
                "convert it with model.save_pretrained(directory), which writes safetensors"
            )


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
