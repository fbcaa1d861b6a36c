"""LoRA (Hu et al. 2021, §4.1): train two thin matrices beside each weight matrix instead of the matrix itself.

Through PEFT. The matrices are added to the weights before the model is saved, so the saved model is a plain one.
https://arxiv.org/abs/2106.09685
"""

from pydantic import Field
from sentence_transformers import SentenceTransformer

from kosbert.errors import UsageError
from kosbert.training.config import Names, StrictModel


class Lora(StrictModel):
    """Options of LoRA."""

    rank: int = Field(8, ge=1)
    alpha: float = Field(16, gt=0, description="the update is scaled by alpha / rank")
    dropout: float = Field(0.0, ge=0, lt=1, description="of the input of the thin matrices")
    targets: Names = Field([], description="names of layers (query, value); by default all linear layers")


def add_lora(model: SentenceTransformer, options: Lora) -> None:
    """Freeze the backbone and add LoRA matrices to it."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise UsageError("LoRA needs PEFT, which is not installed: pip install 'kosbert[lora]'") from None
    backbone = model[0].model
    config = LoraConfig(
        r=options.rank,
        lora_alpha=options.alpha,
        lora_dropout=options.dropout,
        target_modules=options.targets or "all-linear",
    )
    try:
        inject_adapter_in_model(config, backbone)
    except ValueError as error:
        raise UsageError(
            f"LoRA cannot be added to {', '.join(options.targets) or 'this model'} ({str(error).splitlines()[0]}): "
            "name layers of the backbone in lora.targets, such as query and value"
        ) from None


def merge_lora(model: SentenceTransformer) -> None:
    """Add the LoRA matrices to the weights and remove them."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for parent in list(model[0].model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, BaseTunerLayer):
                child.merge()
                setattr(parent, name, child.get_base_layer())
    model.requires_grad_(True)
