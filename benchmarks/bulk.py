"""Measure bulk encoding: overhead over `encode`, and peak memory from ten thousand to a million sentences.

    KOSBERT_DATA=/path/to/data python benchmarks/bulk.py                      # real sentences: corpus/*.txt.gz
    python benchmarks/bulk.py --rows 2000 --sizes 1000 5000                   # quick, on the sample set

Parts (--part; default: all):
    overhead  time of `kosbert.bulk.encode_file` relative to `encode` on the same --rows sentences, alternating
    memory    peak memory of `kosbert encode` for each of --sizes, each in its own process
    backends  peak memory of a process that loads a model and encodes --rows sentences: builtin with ONNX Runtime, with
              torch, and in sentence-transformers
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.stats import binom

import kosbert
from kosbert.bulk import encode_file
from search import sentences


def overhead(rows: int, rounds: int, directory: Path) -> None:
    """Compare bulk encoding with `encode`, alternating so that other load affects both; the model is warm."""
    texts = sentences(rows)  # all different: bulk encodes a repeated sentence only once
    path = directory / "sentences.txt"
    path.write_text("\n".join(texts), encoding="utf-8")
    model = kosbert.load()
    model.tune_token_budget()
    model.encode(texts[:200])
    time_ratios, cpu_ratios, speeds = [], [], []
    for round_number in range(rounds):
        seconds, cpu_seconds = {}, {}
        for method in ("encode", "bulk") if round_number % 2 else ("bulk", "encode"):
            start, cpu_start = time.perf_counter(), time.process_time()
            if method == "encode":
                model.encode(texts, normalize_embeddings=True)
            else:
                encode_file(path, directory / f"out-{round_number}", model=model)
            seconds[method], cpu_seconds[method] = time.perf_counter() - start, time.process_time() - cpu_start
        time_ratios.append(seconds["bulk"] / seconds["encode"])
        cpu_ratios.append(cpu_seconds["bulk"] / cpu_seconds["encode"])
        speeds.append(len(texts) / seconds["bulk"])
    print(
        f"overhead: bulk takes {_median_interval(time_ratios)} times the time of encode and "
        f"{_median_interval(cpu_ratios)} times its CPU time (medians of {rounds} rounds with 95% intervals, "
        f"{len(texts):,} sentences), {np.median(speeds):,.0f} sentences/s"
    )


def _median_interval(values: list[float]) -> str:
    """Return the median with its 95% confidence interval from order statistics (binomial)."""
    ordered, n = sorted(values), len(values)
    lower = next((rank for rank in range(n // 2, -1, -1) if binom.cdf(rank, n, 0.5) <= 0.025), 0)
    return f"{np.median(values):.3f} ({ordered[lower]:.3f} to {ordered[n - 1 - lower]:.3f})"


def memory(sizes: list[int], directory: Path) -> None:
    for size in sizes:
        path = directory / f"{size}.txt"
        path.write_text("\n".join(sentences(size)), encoding="utf-8")
        command = ("encode", path, "--out", directory / f"vectors-{size}")
        seconds, peak = _run_in_process("from kosbert.cli import main; main()", *command)
        print(f"memory: {size:,} sentences, peak {peak:,.0f} MiB, {size / seconds:,.0f} sentences/s including start-up")


BACKENDS = {
    "builtin (ONNX, int8)": "import kosbert; model = kosbert.load()",
    "builtin (torch, float32)": "import kosbert; model = kosbert.load('builtin', backend='torch')",
    "builtin in sentence-transformers": (
        "from kosbert.model.directory import builtin_directory; from sentence_transformers import SentenceTransformer; "
        "model = SentenceTransformer(str(builtin_directory()), device='cpu')"
    ),
}


def backends(rows: int, directory: Path) -> None:
    path = directory / "backends.txt"
    path.write_text("\n".join(sentences(rows)), encoding="utf-8")
    for name, load_model in BACKENDS.items():
        encode = "import sys; model.encode(open(sys.argv[1], encoding='utf-8').read().split('\\n'))"
        _, peak = _run_in_process(f"{load_model}; {encode}", path)
        print(f"backends: {name}, peak {peak:,.0f} MiB")


def _run_in_process(program: str, *arguments: object) -> tuple[float, float]:
    """Run a Python program in its own process; return seconds and peak memory (MiB)."""
    # A process in between, because RUSAGE_CHILDREN reports the largest child so far.
    monitor = (
        "import resource, subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]], check=True, "
        "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    start = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-c", monitor, "-c", program, *map(str, arguments)], check=True, capture_output=True, text=True
    )
    unit = 1024**2 if sys.platform == "darwin" else 1024  # macOS reports bytes
    return time.perf_counter() - start, int(result.stdout) / unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("overhead", "memory", "backends"))
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        if options.part in (None, "overhead"):
            overhead(options.rows, options.rounds, directory)
        if options.part in (None, "backends"):
            backends(options.rows, directory)
        if options.part in (None, "memory"):
            memory(options.sizes, directory)


if __name__ == "__main__":
    main()
