"""Measure what overlapping the all-reduce with the backward pass could save: two processes over gloo on this machine.

    python benchmarks/all_reduce.py

The trainer averages all gradients in one all-reduce after the backward pass. Overlapping could hide at most the time of
that all-reduce, so its share of a step is an upper bound of the gain.
"""

import json
import multiprocessing
import os
import statistics
import time
from typing import Any

import torch
from torch import distributed
from transformers import BertConfig, BertModel

from kosbert.distributed import average_gradients

SHAPES = {"tiny, 2 x 128": (2, 128), "medium, 6 x 384": (6, 384)}
STEPS = 12


def measure(rank: int, layers: int, hidden: int, results: Any) -> None:
    """Run steps as one of two ranks; rank 0 reports the median seconds of a step and of its all-reduce."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29611"}
    distributed.init_process_group("gloo", rank=rank, world_size=2)
    config = BertConfig(
        vocab_size=16_000, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 32,
        intermediate_size=4 * hidden,
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    ids = torch.randint(0, 16_000, (32, 16))  # 16 pairs of 16 tokens per rank
    steps, exchanges = [], []
    for _ in range(STEPS):
        started = time.perf_counter()
        optimizer.zero_grad()
        loss = model(ids).last_hidden_state.square().mean()
        loss.backward()
        distributed.barrier()  # so that waiting for the slower rank does not count as exchange
        exchange = time.perf_counter()
        average_gradients(list(model.parameters()), loss)
        exchanges.append(time.perf_counter() - exchange)
        optimizer.step()
        steps.append(time.perf_counter() - started)
    if rank == 0:
        results.put((statistics.median(steps[2:]), statistics.median(exchanges[2:])))
    distributed.destroy_process_group()


def main() -> None:
    """Measure both shapes and print."""
    context = multiprocessing.get_context("spawn")
    rows = []
    for name, (layers, hidden) in SHAPES.items():
        results = context.Queue()
        processes = [context.Process(target=measure, args=(rank, layers, hidden, results)) for rank in range(2)]
        for process in processes:
            process.start()
        step, exchange = results.get()
        for process in processes:
            process.join()
        rows.append({"shape": name, "step": step, "all_reduce": exchange, "share": exchange / step})
    print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
