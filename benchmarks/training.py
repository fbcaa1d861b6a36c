"""Training against sentence-transformers' own trainer: pairs a second, share of the matrix peak, memory of GradCache.

    python benchmarks/training.py                            # both shapes, some minutes each
    python benchmarks/training.py --shape small --rounds 4
    python benchmarks/training.py --memory                   # peak memory: batch 64, and 1,024 through GradCache

Same weights, same sentences (lengths as in KorSTS), batch of 16 pairs, cosine regression, AdamW. The ways take turns in
one process; a ratio is that of two neighbors in time. Steps are timed inside the loops, so that setting up a trainer
counts for nobody. `buckets` lets sentences of similar length meet; the other two see random batches.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from packing import SHAPES, build, sentences
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer import losses as st_losses
from transformers import TrainerCallback
from transformers.utils import logging as transformers_logging

from kosbert.losses import build as build_objective
from kosbert.model import pack, unpack
from kosbert.model.tokenized_corpus import TokenizedCorpus
from kosbert.training.datasets import TrainDataset
from kosbert.training.loop import Callbacks, TrainerState, make_optimizer, make_sampler, run_stage
from kosbert.training.recipe import TrainingArguments

PAIRS = 16
ROWS = 512


class Clock(TrainerCallback):
    """The time at which each step ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *arguments: object, **keywords: object) -> None:
        self.ends.append(time.perf_counter())


def stock(model: SentenceTransformer, columns: list[list[str]], labels: np.ndarray, steps: int, seed: int) -> float:
    """Seconds a step of sentence-transformers' trainer, as it is."""
    unpack(model)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder, per_device_train_batch_size=PAIRS, max_steps=steps, learning_rate=1e-6, seed=seed,
            report_to="none", save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        rows = Dataset.from_dict({"sentence1": columns[0], "sentence2": columns[1], "score": labels.tolist()})
        trainer = SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=rows,
            loss=st_losses.CosineSimilarityLoss(model),
            callbacks=[clock],
        )
        trainer.train()
    return (clock.ends[-1] - clock.ends[0]) / (steps - 1)


def ours(
    model: SentenceTransformer,
    columns: list[list[str]],
    labels: np.ndarray,
    steps: int,
    seed: int,
    group_by_length: bool = False,
    precision: str = "float32",
) -> float:
    """Seconds a step of our loop."""
    pack(model)
    texts = columns[0] + columns[1]
    numbers = (np.arange(ROWS), ROWS + np.arange(ROWS))
    dataset = TrainDataset(
        TokenizedCorpus(model, texts), numbers, labels, build_objective("cosine-similarity", model), PAIRS, 1.0
    )
    arguments = TrainingArguments(
        lr=1e-6, batch_size=PAIRS, group_by_length=group_by_length, precision=precision, evals_per_epoch=0
    )
    ends: list[float] = []
    callbacks = Callbacks(on_step_end=lambda *_: ends.append(time.perf_counter()))
    sampler = make_sampler([dataset], arguments, seed, steps=steps)
    optimizer = make_optimizer([dataset.loss], arguments)
    run_stage(model, [dataset], sampler, arguments, TrainerState(), optimizer, callbacks, seed=seed)
    return (ends[-1] - ends[0]) / (steps - 1)


def matrix_peak() -> float:
    """Float32 GFLOP/s of a large matrix product: the limit of this machine."""
    a, b = torch.randn(1536, 1536), torch.randn(1536, 1536)
    best = 0.0
    for _ in range(8):
        start = time.perf_counter()
        a @ b
        best = max(best, 2 * 1536**3 / (time.perf_counter() - start) / 1e9)
    return best


def compare(shape: str, rounds: int, steps: int) -> dict[str, object]:
    """Let the ways take turns; speeds, ratios to sentence-transformers, share of the peak."""
    layers, hidden = SHAPES[shape]
    ways = {
        "sentence-transformers": stock,
        "kosbert": ours,
        "kosbert, buckets": lambda *given: ours(*given, group_by_length=True),
        "kosbert, precision auto": lambda *given: ours(*given, precision="auto"),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        model = build(Path(folder), layers, hidden)
        for number in range(rounds):
            random = np.random.default_rng(number)
            columns = [sentences(ROWS, random), sentences(ROWS, random)]
            labels = random.random(ROWS).astype(np.float32)
            for name in ways if number % 2 else reversed(ways):
                took[name].append(ways[name](model, columns, labels, steps, number))
                print(f"{shape} round {number}: {name} {PAIRS / took[name][-1]:.2f} pairs/s", file=sys.stderr)
        lengths = TokenizedCorpus(model, columns[0] + columns[1]).lengths
    first = took["sentence-transformers"]
    # Twelve hidden² weights a layer, two operations a weight and token, once forward and twice backward.
    operations = 6 * 12 * layers * hidden**2 * float(lengths.mean()) * 2 * PAIRS
    peak = matrix_peak()
    rows = []
    for name, times in took.items():
        ratios = [base / own for base, own in zip(first, times, strict=True)]
        rows.append(
            {
                "way": name,
                "pairs_per_second": PAIRS / statistics.median(times),
                "ratio": statistics.median(ratios),
                "lowest": min(ratios),
                "highest": max(ratios),
                "share_of_peak": operations / statistics.median(times) / 1e9 / peak,
            }
        )
    return {"shape": f"{layers}x{hidden}", "peak_gflops": peak, "threads": torch.get_num_threads(), "rows": rows}


def peak_memory(batch: int, gradcache: int) -> int:
    """Bytes at the peak of three steps of ranking, in a process of its own."""
    command = [sys.executable, __file__, "--memory-of", str(batch), "--gradcache", str(gradcache)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_memory(batch: int, gradcache: int) -> None:
    """Three steps, and the most memory that this process ever held."""
    with tempfile.TemporaryDirectory() as folder:
        model = build(Path(folder), *SHAPES["small"])
        pack(model)
        random = np.random.default_rng(0)
        columns = [sentences(batch, random), sentences(batch, random)]
        options = {"gradcache": gradcache} if gradcache else {}
        loss_fn = build_objective("multiple-negatives-ranking", model, **options)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
        model.train()
        for _ in range(3):
            loss_fn([model.preprocess(column) for column in columns]).backward()
            optimizer.step()
            optimizer.zero_grad()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=[*SHAPES, "both"], default="both")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--memory-of", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--gradcache", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    if options.memory_of:
        measure_memory(options.memory_of, options.gradcache)
        return
    if options.memory:
        small, large = peak_memory(64, 0), peak_memory(1024, 128)
        document: object = {"batch_64": small, "batch_1024_gradcache": large, "ratio": large / small}
    else:
        shapes = list(SHAPES) if options.shape == "both" else [options.shape]
        document = [compare(shape, options.rounds, options.steps) for shape in shapes]
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
