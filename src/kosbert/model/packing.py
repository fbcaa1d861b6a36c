"""Run a SentenceTransformer without padding, on CPUs and GPUs.

Half of a random batch of Korean sentences is padding. sentence-transformers can flatten a batch into one row of tokens
instead, and its pooling supports that, but only with FlashAttention, an extra package for GPUs. `pack` enables the same
code with the attention of `kosbert.model.attention`. Nothing is subclassed and no weight changes: `model.preprocess`
returns flat batches, so sentence-transformers' own collator, trainer, losses and `encode` use them, and `model.save`
writes only stock classes.

    model = SentenceTransformer(path)
    pack(model)      # False if not supported; the model then works as before, with padding
"""

import logging
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.transformer import Transformer
from transformers import DataCollatorWithFlattening

from kosbert.errors import UsageError
from kosbert.model.attention import ATTENTION_NAME, attach_plan
from kosbert.model.placement import copied

logger = logging.getLogger(__name__)

# Encoders with absolute positions whose tokens interact only in the attention call. Not supported, and therefore
# padded: MPNet and DeBERTa (relative positions), ModernBERT (a sliding window inside its own mask), ALBERT and
# DistilBERT (not tested).
PACKABLE = frozenset({"bert", "roberta", "xlm-roberta", "camembert", "electra"})
# Modules after the backbone that process tokens one by one, sentence embeddings, or flat batches.
_FLAT_SAFE = frozenset({"Pooling", "WeightedLayerPooling", "Dense", "Normalize", "Dropout", "LayerNorm"})
_FLAT_KEYS = frozenset({"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "seq_idx"})
# Different lengths reveal wrong positions and attention across sentences.
_PROBES = ("비가 온다.", "눈", "오늘은 바람이 불고 날씨가 몹시 춥다.")
_PROBE_TOLERANCE = 1e-4


def supports_packing(model: SentenceTransformer) -> bool:
    """Return whether `pack` supports this model on its current device."""
    backbone = model[0]
    return (
        isinstance(backbone, Transformer)
        and backbone.backend == "torch"
        and backbone.transformer_task == "feature-extraction"
        and set(backbone.modality_config) == {"text"}
        and backbone.config.model_type in PACKABLE
        and not getattr(backbone.config, "is_decoder", False)
        and getattr(backbone.config, "position_embedding_type", None) in (None, "absolute")
        and backbone.model.is_backend_compatible()
        and all(type(module).__name__ in _FLAT_SAFE for module in list(model)[1:])
        and next(backbone.parameters()).device.type in ("cpu", "cuda")
    )


def is_packed(model: SentenceTransformer) -> bool:
    """Return whether this model runs without padding through our attention."""
    return isinstance(model[0], Transformer) and model[0].config._attn_implementation == ATTENTION_NAME


def is_padded(model: SentenceTransformer) -> bool:
    """Return whether this model is a transformer whose batches have padding."""
    return isinstance(model[0], Transformer) and not model[0].can_flatten_inputs


def pack(model: SentenceTransformer) -> bool:
    """Disable padding if the model supports it; return whether it is packed now.

    A model with FlashAttention flattens its batches already and is not changed. The embeddings of three short sentences
    are compared with the padded ones; if they differ, the model stays padded, with a warning.
    """
    if is_packed(model):
        return True
    backbone = model[0]
    if not supports_packing(model) or backbone.can_flatten_inputs:
        return False
    padded = _probe(model)
    backbone.kosbert_replaced_attention = backbone.config._attn_implementation
    backbone.config._attn_implementation = ATTENTION_NAME
    backbone.data_collator = DataCollatorWithFlattening(
        return_position_ids=True, return_seq_idx=True, return_flash_attn_kwargs=True
    )
    # RoBERTa's positions start at padding_idx + 1; flat batches need explicit positions.
    backbone._flatten_position_offset = backbone._infer_flatten_position_offset()
    if backbone.model_forward_params is not None:
        backbone.model_forward_params |= _FLAT_KEYS
    backbone.can_flatten_inputs = True
    try:
        difference = (_probe(model) - padded).abs().max().item()
    except Exception:
        unpack(model)
        raise
    if difference < _PROBE_TOLERANCE * max(1.0, padded.abs().max().item()):
        return True
    unpack(model)
    logger.warning(
        "packing would change the embeddings of this %s model by %.1e, so it stays padded: slower, results unchanged",
        backbone.config.model_type,
        difference,
    )
    return False


def unpack(model: SentenceTransformer) -> None:
    """Enable padding again, as it was before `pack`."""
    if is_packed(model):
        backbone = model[0]
        backbone.config._attn_implementation = backbone.kosbert_replaced_attention
        backbone.unpad_inputs = backbone.unpad_inputs  # its setter recomputes whether inputs are flattened


def to_device(model: SentenceTransformer, features: dict[str, Any]) -> dict[str, Any]:
    """Return the features on the device of the model.

    The plan of the packed attention is made from the lengths while they are on the host: reading them back from a GPU
    would wait for everything that it still has to compute.
    """
    moved = {
        name: copied(value, model.device) if isinstance(value, torch.Tensor) else value
        for name, value in features.items()
    }
    boundaries = features.get("cu_seq_lens_q")
    if boundaries is not None and moved["cu_seq_lens_q"] is not boundaries and is_packed(model):
        attach_plan(moved["cu_seq_lens_q"], boundaries.diff().tolist())
    return moved


def use_attention(model: SentenceTransformer, name: str) -> None:
    """Use one of transformers' attentions instead of ours; with FlashAttention nothing is padded either.

    Args:
        model: the model.
        name: "sdpa", "eager", "flash_attention_2" or "flash_attention_3".
    """
    unpack(model)
    backbone = model[0]
    try:
        backbone.model.set_attn_implementation(name)
    except (ImportError, ValueError, AttributeError) as error:
        raise UsageError(
            f"the attention {name} cannot be used here ({str(error).splitlines()[0]}): install it (flash_attention_2: "
            "pip install flash-attn, on a GPU), or leave attn_implementation out"
        ) from None
    backbone.unpad_inputs = backbone.unpad_inputs  # its setter recomputes whether inputs are flattened


def uses_flash_attention(model: SentenceTransformer) -> bool:
    """Return whether the model has FlashAttention, which needs half precision."""
    return isinstance(model[0], Transformer) and "flash" in str(model[0].config._attn_implementation)


def _probe(model: SentenceTransformer) -> torch.Tensor:
    """Return the embeddings of the probe sentences in evaluation mode: without dropout no random number is drawn."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            return model(to_device(model, model.preprocess(list(_PROBES))))["sentence_embedding"]  # type: ignore[no-any-return]
    finally:
        model.train(training)
