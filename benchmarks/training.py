"""Measure training against sentence-transformers' trainer: pairs per second, share of peak, memory of GradCache.

    python benchmarks/training.py                                      # both shapes, a few minutes each
    python benchmarks/training.py --shape small --rounds 2 --steps 3   # quick
    python benchmarks/training.py --memory                             # peak memory: batch 64, and 1,024 with GradCache

Same weights, same sentences (lengths as in KorSTS), batches of 16 pairs, cosine similarity loss, AdamW. The methods
alternate in one process; a ratio compares two consecutive measurements. Steps are timed inside the loops, so set-up is
not counted. `grouped by length` batches sentences of similar length; the others use random batches.
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

from kosbert.losses import build as build_loss
from kosbert.model import pack, unpack
from kosbert.model.tokenized_corpus import TokenizedCorpus
from kosbert.training.datasets import TrainDataset
from kosbert.training.loop import Callbacks, TrainerState, make_optimizer, make_sampler, run_stage
from kosbert.training.recipe import TrainingArguments

PAIRS = 16
ROWS = 512


class Clock(TrainerCallback):
    """Record the time at which each step ends."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *arguments: object, **keywords: object) -> None:
        self.ends.append(time.perf_counter())


def sentence_transformers(
    model: SentenceTransformer, columns: list[list[str]], labels: np.ndarray, steps: int, seed: int
) -> float:
    """Return seconds per step of sentence-transformers' trainer with default settings."""
    unpack(model)
    clock = Clock()
    with tempfile.TemporaryDirectory() as directory:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=directory, per_device_train_batch_size=PAIRS, max_steps=steps, learning_rate=1e-6, seed=seed,
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


def kosbert_trainer(
    model: SentenceTransformer,
    columns: list[list[str]],
    labels: np.ndarray,
    steps: int,
    seed: int,
    group_by_length: bool = False,
    precision: str = "float32",
) -> float:
    """Return seconds per step of our trainer."""
    pack(model)
    texts = columns[0] + columns[1]
    numbers = (np.arange(ROWS), ROWS + np.arange(ROWS))
    dataset = TrainDataset(
        TokenizedCorpus(model, texts), numbers, labels, build_loss("cosine-similarity", model), PAIRS, 1.0
    )
    arguments = TrainingArguments(
        lr=1e-6, batch_size=PAIRS, group_by_length=group_by_length, precision=precision, evals_per_epoch=0
    )
    ends: list[float] = []
    callbacks = Callbacks(on_step_end=lambda *_: ends.append(time.perf_counter()))
    sampler = make_sampler(model, [dataset], arguments, seed, steps=steps)
    optimizer = make_optimizer([dataset.loss], arguments)
    run_stage(model, [dataset], sampler, arguments, TrainerState(), optimizer, callbacks, seed=seed)
    return (ends[-1] - ends[0]) / (steps - 1)


def matrix_peak() -> float:
    """Return the float32 GFLOP/s of a large matrix product: the peak of this machine."""
    a, b = torch.randn(1536, 1536), torch.randn(1536, 1536)
    best = 0.0
    for _ in range(8):
        start = time.perf_counter()
        a @ b
        best = max(best, 2 * 1536**3 / (time.perf_counter() - start) / 1e9)
    return best


def compare(shape: str, rounds: int, steps: int) -> dict[str, object]:
    """Alternate the methods; return speeds, ratios to sentence-transformers and share of peak."""
    layers, hidden = SHAPES[shape]
    methods = {
        "sentence-transformers": sentence_transformers,
        "kosbert": kosbert_trainer,
        "kosbert, grouped by length": lambda *arguments: kosbert_trainer(*arguments, group_by_length=True),
        "kosbert, precision auto": lambda *arguments: kosbert_trainer(*arguments, precision="auto"),
    }
    step_times: dict[str, list[float]] = {name: [] for name in methods}
    with tempfile.TemporaryDirectory() as directory:
        model = build(Path(directory), layers, hidden)
        for round_number in range(rounds):
            random = np.random.default_rng(round_number)
            columns = [sentences(ROWS, random), sentences(ROWS, random)]
            labels = random.random(ROWS).astype(np.float32)
            for name in methods if round_number % 2 else reversed(methods):
                step_times[name].append(methods[name](model, columns, labels, steps, round_number))
                speed = PAIRS / step_times[name][-1]
                print(f"{shape} round {round_number}: {name} {speed:.2f} pairs/s", file=sys.stderr)
        lengths = TokenizedCorpus(model, columns[0] + columns[1]).lengths
    baseline = step_times["sentence-transformers"]
    # 12 hidden² weights per layer, 2 operations per weight and token, forward once and backward twice.
    operations = 6 * 12 * layers * hidden**2 * float(lengths.mean()) * 2 * PAIRS
    peak = matrix_peak()
    rows = []
    for name, times in step_times.items():
        ratios = [base / seconds for base, seconds in zip(baseline, times, strict=True)]
        rows.append(
            {
                "method": name,
                "pairs_per_second": PAIRS / statistics.median(times),
                "ratio": statistics.median(ratios),
                "min_ratio": min(ratios),
                "max_ratio": max(ratios),
                "share_of_peak": operations / statistics.median(times) / 1e9 / peak,
            }
        )
    return {"shape": f"{layers}x{hidden}", "peak_gflops": peak, "threads": torch.get_num_threads(), "rows": rows}


def peak_memory(batch: int, gradcache: int) -> int:
    """Return peak memory in bytes of three steps with MultipleNegativesRankingLoss, in a separate process."""
    command = [sys.executable, __file__, "--memory-of", str(batch), "--gradcache", str(gradcache)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_memory(batch: int, gradcache: int) -> None:
    """Run three steps and print the peak memory of this process."""
    with tempfile.TemporaryDirectory() as directory:
        model = build(Path(directory), *SHAPES["small"])
        pack(model)
        random = np.random.default_rng(0)
        columns = [sentences(batch, random), sentences(batch, random)]
        options = {"gradcache": gradcache} if gradcache else {}
        loss_fn = build_loss("multiple-negatives-ranking", model, **options)
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
