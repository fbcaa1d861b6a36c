"""One training step in one of several processes; test_distributed.py compares the gradients with a single process.

    python step_of_one_process.py DIRECTORY RANK PROCESSES PORT

The process at PORT holds the TCP store. Saves the gradients of every case to DIRECTORY/PROCESSES-RANK.safetensors.
"""

import gc
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from kosbert.losses import build

# Eight rows in unequal parts, as from a token budget. Texts are repeated across the parts.
ANCHORS = [0, 1, 2, 3, 4, 5, 1, 7]
POSITIVES = [8, 9, 10, 11, 12, 8, 14, 2]
NEGATIVES = [16, 17, 8, 19, 20, 21, 22, 23]
PARTS = {1: [range(8)], 2: [range(3), range(3, 8)]}
CASES = {
    "multiple-negatives-ranking": ("multiple-negatives-ranking", {"temperature": 0.5}),
    "symmetric": ("multiple-negatives-ranking", {"temperature": 0.5, "symmetric": True}),
    "gradcache": ("multiple-negatives-ranking", {"temperature": 0.5, "gradcache": 2, "matryoshka": [2]}),
    "simcse": ("simcse-supervised", {"temperature": 0.5}),
    "simcse gradcache": ("simcse-supervised", {"temperature": 0.5, "gradcache": 4}),
}


class Model(nn.Module):
    """An embedding table and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.dense = nn.Embedding(24, 6), nn.Linear(6, 4)

    def get_embedding_dimension(self) -> int:
        return 4

    @property
    def device(self) -> torch.device:
        return self.dense.weight.device

    def forward(self, features: dict) -> dict:
        return {**features, "sentence_embedding": self.dense(self.table(features["input_ids"][:, 0]))}


def step(case: str, rank: int, processes: int) -> dict[str, torch.Tensor]:
    """Return the gradients of one case, by name."""
    name, options = CASES[case]
    torch.manual_seed(0)
    model = Model()
    if rank > 0:
        torch.manual_seed(99)  # a layer of the loss must still start with the same weights
    loss_fn = build(name, model, **options)
    if processes > 1:
        wrapped = DistributedDataParallel(model)
        for module in loss_fn.modules():  # as sentence-transformers' trainer does
            if isinstance(getattr(module, "model", None), Model):
                module.model = wrapped
    columns = [
        {"input_ids": torch.tensor([[numbers[row]] for row in PARTS[processes][rank]])}
        for numbers in (ANCHORS, POSITIVES, NEGATIVES)
    ]
    loss_fn(columns).backward()
    named = {**dict(model.named_parameters()), **dict(loss_fn.named_parameters())}
    return {f"{case}: {name}": parameter.grad for name, parameter in named.items() if "model." not in name}


def main(directory: Path, rank: int, processes: int, port: int) -> None:
    torch.set_num_threads(1)
    if processes > 1:
        store = distributed.TCPStore("127.0.0.1", port, is_master=False)
        distributed.init_process_group("gloo", store=store, rank=rank, world_size=processes)
    gradients = {name: gradient for case in CASES for name, gradient in step(case, rank, processes).items()}
    save_file(gradients, directory / f"{processes}-{rank}.safetensors")
    if processes > 1:
        # Free DDP before the group. Otherwise DDP drops the last reference to the group while holding the GIL and joins
        # gloo's thread, which may wait for the GIL to free a finished all-reduce: a deadlock in torch 2.13 (gdb).
        gc.collect()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
