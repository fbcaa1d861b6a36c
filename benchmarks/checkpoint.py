"""How long a checkpoint stops training: written by the training thread, or copied for a thread that writes it.

    python benchmarks/checkpoint.py                       # BERT-base: 110 million parameters, 1.8 GB; a minute or two
    python benchmarks/checkpoint.py --parameters 1e6      # quick

The tensors are random: weights, best weights and both moments of Adam. The two ways take turns.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import torch

from kosbert.training.checkpoint import Checkpoints, CheckpointWriter

TENSORS = 200


def random_tensors(parameters: int) -> dict[str, torch.Tensor]:
    """Return this many random numbers, in tensors of equal size."""
    return {f"layer.{number}": torch.randn(parameters // TENSORS) for number in range(TENSORS)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=float, default=110.6e6)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    weights, best, first, second = (random_tensors(int(options.parameters)) for _ in range(4))
    optimizer = {f"{name}.exp_avg": value for name, value in first.items()}
    optimizer |= {f"{name}.exp_avg_sq": value for name, value in second.items()}
    plain_seconds, stalls, background_seconds = [], [], []
    with tempfile.TemporaryDirectory() as directory:
        plain, background = (Checkpoints(Path(directory) / name) for name in ("plain", "background"))
        writer = CheckpointWriter(background)
        writer.save(0, {}, weights, optimizer, best)  # the first call only gets the memory
        writer.wait()
        for number in range(1, options.rounds + 1):
            started = time.perf_counter()
            plain.save(number, {}, weights | {f"best.{name}": value for name, value in best.items()}, optimizer)
            plain_seconds.append(time.perf_counter() - started)
            started = time.perf_counter()
            writer.save(number, {}, weights, optimizer, best)
            stalls.append(time.perf_counter() - started)
            writer.wait()
            background_seconds.append(time.perf_counter() - started)
        writer.close()
    megabytes = 4 * 4 * options.parameters / 1e6
    print(f"| {options.parameters / 1e6:.0f} million parameters, {megabytes:,.0f} MB | training stops for (s) |")
    print("|---|---|")
    for way, values in (("the training thread", plain_seconds), ("a thread of its own", stalls)):
        print(f"| written by {way} | {median(values):.2f} ({', '.join(f'{value:.2f}' for value in values)}) |")
    print(f"\nWriting in the background took {median(background_seconds):.1f} s.")


if __name__ == "__main__":
    main()
