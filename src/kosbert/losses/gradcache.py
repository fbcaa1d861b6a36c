"""GradCache: a large batch for the loss, small mini-batches for the model.

The embeddings of the whole batch are computed in mini-batches without a graph, and the loss is computed on all of them.
In the backward pass each mini-batch is embedded again, with a graph and the same random numbers, and receives its part
of the gradient. sentence-transformers has cached variants of some losses. Written as one autograd function it is
shorter and works with every loss and with `MatryoshkaLoss`. The layers of the loss get their gradients in the ordinary
backward pass; sentence-transformers runs that pass early, where the scaling of gradient accumulation and mixed
precision does not reach them.
"""

from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from sentence_transformers.base.losses import RandContext
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from kosbert.errors import UsageError
from kosbert.losses.base import Loss
from kosbert.losses.features import Features, count, take
from kosbert.losses.forward import embed, one_forward, unwrap
from kosbert.model.packing import to_device


class GradCacheLoss(Loss):
    """GradCache (Gao et al. 2021, §3): any loss with a batch larger than memory; same results, one more forward.

    Args:
        loss_fn: any loss; those with in-batch negatives benefit from large batches.
        mini_batch: sentences (of all columns together) that the model sees at once.

    References: Gao et al. 2021, Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup, §3.

    Inputs: those of the inner loss, padded or flattened.

    Relations: not needed if the batch fits into memory; gradient accumulation if rows do not interact in the loss.

    Example:
        >>> loss = GradCacheLoss(MultipleNegativesRankingLoss(model), mini_batch=32)
        >>> loss([anchors, positives]).backward()
    """

    def __init__(self, loss_fn: Loss, mini_batch: int) -> None:
        super().__init__(loss_fn.model)
        if mini_batch < 1:
            raise UsageError(f"the mini-batch must hold at least 1 sentence but is {mini_batch}: 32 is a good start")
        self.loss, self.mini_batch = loss_fn, mini_batch
        self.row_type, self.text_columns = loss_fn.row_type, loss_fn.text_columns
        self.accepts_hard_negatives = loss_fn.accepts_hard_negatives
        self.citation = f"{loss_fn.citation}; Gao et al. 2021, GradCache, https://arxiv.org/abs/2101.06983"

    def prepare_columns(self, features: list[Features]) -> list[Features]:
        """Prepare the columns as the inner loss does."""
        return self.loss.prepare_columns(features)

    def embed(self, columns: list[Features]) -> list[Tensor]:
        """Return the embeddings of each column, (sentences, dimension), computed in mini-batches."""
        return embed(self.model, columns, partial(_embed_in_mini_batches, mini_batch=self.mini_batch))

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """Return the inner loss."""
        return self.loss.compute_loss(embeddings, labels, columns)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        inner = {"loss": type(self.loss).__name__, **self.loss.get_config_dict()}
        return {**inner, "mini_batch": self.mini_batch}


def _embed_in_mini_batches(model: nn.Module, features: Features, mini_batch: int) -> Tensor:
    numbers = range(count(features))
    batches = [
        to_device(unwrap(model), take(features, numbers[start : start + mini_batch])) for start in numbers[::mini_batch]
    ]
    # Autograd does not see that the embeddings depend on the parameters; this input makes it call `backward`.
    trigger = torch.zeros((), requires_grad=torch.is_grad_enabled())
    vectors: Tensor = _Replay.apply(trigger, model, batches)  # type: ignore[no-untyped-call]
    return vectors


class _Replay(torch.autograd.Function):
    """Embed without a graph; in the backward pass embed again with one, mini-batch by mini-batch."""

    @staticmethod
    def forward(ctx: Any, trigger: Tensor, model: nn.Module, batches: list[Features]) -> Tensor:
        ctx.model, ctx.batches, ctx.random_states = model, batches, []
        device = batches[0]["input_ids"].device.type
        ctx.autocast = partial(
            torch.autocast, device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
        )
        vectors = []
        for batch in batches:  # autograd has disabled gradients here
            ctx.random_states.append(RandContext(*batch.values()))
            vectors.append(one_forward(model, batch))
        return torch.cat(vectors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None]:
        parts = torch.split(gradients[0], [count(batch) for batch in ctx.batches])
        steps = zip(ctx.batches, ctx.random_states, parts, strict=True)
        for number, (batch, random_state, gradient) in enumerate(steps, start=1):
            # DDP exchanges gradients once per step: with the last mini-batch.
            skip_sync = isinstance(ctx.model, DistributedDataParallel) and number < len(parts)
            with ctx.model.no_sync() if skip_sync else nullcontext(), random_state, torch.enable_grad(), ctx.autocast():
                vectors = one_forward(ctx.model, batch)
                if vectors.requires_grad:
                    torch.autograd.backward(vectors, gradient)
        return None, None, None
