"""Variable-length attention: the sequences of a batch are concatenated and no padding is computed.

FlashAttention does this on GPUs only, in half precision, as an extra package. torch's own `varlen_attn` has no dropout
and can therefore not train. Here sequences of similar length form groups, each group is padded to its own
longest sequence, and each group is one call of torch's attention. Everything outside this call (90% of the work) sees
real tokens only, and no mask is larger than (sequences of the group, its longest).
"""

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from kosbert.model.placement import copied

ATTENTION_NAME = "kosbert_packed"
"""The name of this attention in transformers (`config._attn_implementation`)."""

# Minimum length of a sequence relative to the longest of its group: at most half of a group is padding, and lengths
# from 4 to 512 give at most eight groups.
_MIN_RELATIVE_LENGTH = 0.5
# Long runs of sequences of equal length (`encode` sorts by length) need no copy: each run is a view.
# Measured: 16 runs in 1,176 tokens are 1.3 times as fast as groups, 25 runs in 848 tokens are 0.7 times as fast.
_MIN_TOKENS_PER_RUN = 64


@dataclass(frozen=True)
class LengthGroup:
    """Sequences that share one attention call."""

    sequences: int
    longest: int
    mask: Tensor | None  # (sequences, 1, 1, longest), True at real tokens; None if all have the same length


@dataclass(frozen=True)
class PackingPlan:
    """How the tokens of a flat batch are copied into padded slots and back; computed once per batch.

    Every layer of the model uses it.
    """

    groups: tuple[LengthGroup, ...]
    slot_to_token: Tensor | None  # (slots,) token of each slot, 0 for padding; None: the slots are the tokens
    token_to_slot: Tensor | None  # (tokens,)

    @property
    def sizes(self) -> list[int]:
        """Number of slots of each group."""
        return [group.sequences * group.longest for group in self.groups]


def make_plan(lengths: list[int], device: torch.device | str = "cpu") -> PackingPlan:
    """Group sequences of these lengths."""
    runs = [(length, len(list(same))) for length, same in groupby(lengths)]
    # On a GPU a call costs more than a copy, so runs are used there only if there is a single one.
    target = torch.device(device)
    if len(runs) == 1 or (target.type == "cpu" and sum(lengths) >= _MIN_TOKENS_PER_RUN * len(runs)):
        return PackingPlan(tuple(LengthGroup(count, length, None) for length, count in runs), None, None)

    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    members: list[list[int]] = []
    for sequence in order:
        if not members or lengths[sequence] < _MIN_RELATIVE_LENGTH * lengths[members[-1][0]]:
            members.append([])
        members[-1].append(sequence)

    all_lengths = torch.tensor(lengths)
    starts = all_lengths.cumsum(0) - all_lengths
    groups, slots, masks = [], [], []
    for sequences in members:
        longest = lengths[sequences[0]]
        numbers = torch.tensor(sequences)
        position = torch.arange(longest)
        mask = position < all_lengths[numbers, None]  # (sequences, longest)
        slots.append((starts[numbers, None] + position).where(mask, 0).flatten())
        masks.append(mask.flatten())
        padded = lengths[sequences[-1]] != longest
        groups.append(LengthGroup(len(sequences), longest, copied(mask[:, None, None, :], target) if padded else None))
    slot_to_token = torch.cat(slots)  # (slots,)
    filled = torch.cat(masks).nonzero().squeeze(1)  # (tokens,) slots that hold a token
    token_to_slot = torch.empty_like(filled)
    token_to_slot[slot_to_token[filled]] = filled
    return PackingPlan(tuple(groups), copied(slot_to_token, target), copied(token_to_slot, target))


class _Spread(torch.autograd.Function):
    """Copy tokens into slots. Padding has no gradient, so the backward is a gather instead of a slow index_add."""

    @staticmethod
    def forward(context: Any, tokens: Tensor, slot_to_token: Tensor, token_to_slot: Tensor) -> Tensor:
        context.save_for_backward(token_to_slot)
        return tokens.index_select(0, slot_to_token)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (token_to_slot,) = context.saved_tensors
        return gradients[0].index_select(0, token_to_slot), None, None


class _Collect(torch.autograd.Function):
    """Copy slots back into tokens. Padding gets zero gradient: it must not reach keys and values."""

    @staticmethod
    def forward(context: Any, slots: Tensor, token_to_slot: Tensor) -> Tensor:
        context.save_for_backward(token_to_slot)
        context.slots = slots.shape[0]
        return slots.index_select(0, token_to_slot)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (token_to_slot,) = context.saved_tensors
        spread = gradients[0].new_zeros(context.slots, *gradients[0].shape[1:])
        spread[token_to_slot] = gradients[0]
        return spread, None


def attend(query: Tensor, key: Tensor, value: Tensor, plan: PackingPlan, dropout: float, scale: float | None) -> Tensor:
    """Return the attention of each sequence over itself; all tensors are (tokens, heads, head size)."""
    tokens, heads, size = query.shape
    slots = [tensor.reshape(tokens, heads * size) for tensor in (query, key, value)]
    if plan.slot_to_token is not None:
        spread: Any = _Spread.apply
        slots = [spread(tensor, plan.slot_to_token, plan.token_to_slot) for tensor in slots]
    # split, not slices: the backward of split is one concatenation, that of every slice a full tensor of zeros.
    parts = [torch.split(tensor, plan.sizes) for tensor in slots]
    results = []
    for group, *members in zip(plan.groups, *parts, strict=True):
        shape = (group.sequences, group.longest, heads, size)
        q, k, v = (member.view(shape).transpose(1, 2) for member in members)  # (sequences, heads, longest, size)
        result = functional.scaled_dot_product_attention(q, k, v, group.mask, dropout_p=dropout, scale=scale)
        results.append(result.transpose(1, 2).reshape(group.sequences * group.longest, heads * size))
    joined = results[0] if len(results) == 1 else torch.cat(results)  # (slots, heads * size)
    if plan.token_to_slot is not None:
        collect: Any = _Collect.apply
        joined = collect(joined, plan.token_to_slot)
    return joined.view(tokens, heads, size)


def attach_plan(boundaries: Tensor, lengths: list[int]) -> PackingPlan:
    """Store the plan on the tensor of boundaries, which all layers of a forward pass share."""
    plan = make_plan(lengths, boundaries.device)
    boundaries._kosbert_plan = plan  # type: ignore[attr-defined]
    return plan


def _cached_plan(boundaries: Tensor) -> PackingPlan:
    """Return the plan that was attached; for a batch of another collator compute it, which waits for a GPU."""
    plan: PackingPlan | None = getattr(boundaries, "_kosbert_plan", None)
    return plan or attach_plan(boundaries, boundaries.diff().tolist())


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention function of transformers: handles flat batches, and passes padded ones to SDPA attention."""
    if query.device.type == "cpu" and query.dtype == torch.bfloat16:  # its backward is five times slower than float32's
        q, k, v = (tensor.float() for tensor in (query, key, value))
        with torch.autocast("cpu", enabled=False):
            result, _ = packed_attention(module, q, k, v, attention_mask, dropout, scaling, **kwargs)
        return (result if torch.is_autocast_enabled("cpu") else result.to(query.dtype)), None
    boundaries = kwargs.pop("cu_seq_lens_q", None)  # (sequences + 1,) start of each sequence, and the end
    if boundaries is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **kwargs)  # type: ignore[no-any-return]
    # (1, heads, tokens, size) -> (tokens, heads, size)
    rows = [tensor.squeeze(0).transpose(0, 1) for tensor in (query, key, value)]
    result = attend(rows[0], rows[1], rows[2], _cached_plan(boundaries), dropout, scaling)
    return result.unsqueeze(0), None  # (1, tokens, heads, size)


AttentionInterface.register(ATTENTION_NAME, packed_attention)
# A flat batch has no attention_mask, and SDPA's mask function then makes none (never tokens x tokens).
AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)
