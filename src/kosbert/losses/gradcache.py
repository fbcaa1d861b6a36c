"""GradCache: the batch of the loss as large as wanted, the batch of the model as small as memory allows.

The vectors of the whole batch are made in mini-batches without a graph, the loss scores them all, and in the
backward pass each mini-batch is embedded again, now with a graph, from the same random numbers, to receive its part of
the gradient. sentence-transformers has this in its cached losses. Written as one autograd function it is shorter, works
for every loss and with `MatryoshkaLoss`, and the loss's own layers get their gradients in the ordinary backward
pass: sentence-transformers runs that pass ahead of time, where the scaling of gradient accumulation and of mixed
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
from kosbert.losses.forward import embed, one_forward


class GradCacheLoss(Loss):
    """Any loss with a batch that need not fit into memory; results are unchanged, at one more forward a sentence.

    Arguments:
        loss: the loss; those with in-batch negatives gain from large batches.
        mini_batch: how many sentences (of all columns together) the model sees at once.

    Reference: Gao et al. 2021, Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup, §3.

    Inputs: those of the loss, padded or flattened.

    Prefer another: none, if the batch fits into memory; gradient accumulation, if the rows do not meet in the loss.

    Example:
        >>> loss = GradCache(Ranking(model), mini_batch=32)
        >>> loss([anchors, positives]).backward()
    """

    def __init__(self, loss_fn: Loss, mini_batch: int) -> None:
        super().__init__(loss_fn.model)
        if mini_batch < 1:
            raise UsageError(f"The mini-batch must hold at least 1 sentence but is {mini_batch}; 32 is a good start.")
        self.loss, self.mini_batch = loss_fn, mini_batch
        self.needs, self.texts, self.more_negatives = loss_fn.needs, loss_fn.texts, loss_fn.more_negatives
        self.citation = f"{loss_fn.citation}; Gao et al. 2021, GradCache, https://arxiv.org/abs/2101.06983"

    def columns(self, features: list[Features]) -> list[Features]:
        """Those of the loss."""
        return self.loss.columns(features)

    def vectors(self, columns: list[Features]) -> list[Tensor]:
        """One (sentences, dimension) tensor a column, made in mini-batches."""
        return embed(self.model, columns, partial(_embed_in_pieces, mini_batch=self.mini_batch))

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """That of the loss."""
        return self.loss.compute_loss(embeddings, labels, columns)

    def get_config_dict(self) -> dict[str, Any]:
        """The options, for the model card."""
        inner = {"loss": type(self.loss).__name__, **self.loss.get_config_dict()}
        return {**inner, "mini_batch": self.mini_batch}


def _embed_in_pieces(model: nn.Module, features: Features, mini_batch: int) -> Tensor:
    everyone = range(count(features))
    pieces = [take(features, everyone[begin : begin + mini_batch]) for begin in everyone[::mini_batch]]
    # The vectors depend on the parameters in a way that autograd does not see; this input makes it call us back.
    trigger = torch.zeros((), requires_grad=torch.is_grad_enabled())
    vectors: Tensor = _Replay.apply(trigger, model, pieces)  # type: ignore[no-untyped-call]
    return vectors


class _Replay(torch.autograd.Function):
    """Embed without a graph; in the backward pass embed again with one, piece by piece."""

    @staticmethod
    def forward(ctx: Any, trigger: Tensor, model: nn.Module, pieces: list[Features]) -> Tensor:
        ctx.model, ctx.pieces, ctx.random_states = model, pieces, []
        device = pieces[0]["input_ids"].device.type
        ctx.autocast = partial(
            torch.autocast, device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
        )
        vectors = []
        for piece in pieces:  # autograd has switched gradients off in here
            ctx.random_states.append(RandContext(*piece.values()))
            vectors.append(one_forward(model, piece))
        return torch.cat(vectors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None]:
        parts = torch.split(gradients[0], [count(piece) for piece in ctx.pieces])
        for number, (piece, state, part) in enumerate(zip(ctx.pieces, ctx.random_states, parts, strict=True), start=1):
            # Distributed training exchanges gradients once a step: with the last piece.
            alone = isinstance(ctx.model, DistributedDataParallel) and number < len(parts)
            with ctx.model.no_sync() if alone else nullcontext(), state, torch.enable_grad(), ctx.autocast():
                vectors = one_forward(ctx.model, piece)
                if vectors.requires_grad:
                    torch.autograd.backward(vectors, part)
        return None, None, None
