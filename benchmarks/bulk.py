"""Bulk encoding in figures: what it adds to the bare model, and its memory for ten thousand and for a million rows.

    KOSBERT_DATA=/path/to/data python benchmarks/bulk.py                      # real sentences: corpus/*.txt.gz
    python benchmarks/bulk.py --rows 2000 --sizes 1000 5000                   # small, on the sample set's sentences

Parts (--part, all without it):
    overhead  seconds of `kosbert.bulk.encode_file` over those of `encode` on the same --rows sentences, in turns
    memory    peak memory of `kosbert encode` for --sizes sentences, each in a process of its own
    ways      peak memory of a process that loads a model and encodes --rows sentences: builtin, builtin with torch, and
              sentence-transformers itself
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


def overhead(rows: int, rounds: int, folder: Path) -> None:
    """In turns, so that what slows the machine down slows both; the model is loaded and warm."""
    texts = sentences(rows)  # all different: bulk would encode a repeated one only once
    file = folder / "sentences.txt"
    file.write_text("\n".join(texts), encoding="utf-8")
    model = kosbert.load()
    model.tune_token_budget()
    model.encode(texts[:200])
    ratios, work, speeds = [], [], []
    for number in range(rounds):
        seconds, computed = {}, {}
        for way in ("bare", "bulk") if number % 2 else ("bulk", "bare"):
            started, before = time.perf_counter(), time.process_time()
            if way == "bare":
                model.encode(texts, normalize_embeddings=True)
            else:
                encode_file(file, folder / f"out-{number}", model=model)
            seconds[way], computed[way] = time.perf_counter() - started, time.process_time() - before
        ratios.append(seconds["bulk"] / seconds["bare"])
        work.append(computed["bulk"] / computed["bare"])
        speeds.append(len(texts) / seconds["bulk"])
    print(
        f"overhead: bulk takes {_middle(ratios)} times the bare model's time and {_middle(work)} times its processor "
        f"time (medians of {rounds} rounds with 95% intervals, {len(texts):,} sentences), "
        f"{np.median(speeds):,.0f} sentences/s"
    )


def _middle(values: list[float]) -> str:
    """The median, with the two ordered values that hold the true one between them in 95 of 100 cases."""
    ordered, n = sorted(values), len(values)
    first = next((place for place in range(n // 2, -1, -1) if binom.cdf(place, n, 0.5) <= 0.025), 0)
    return f"{np.median(values):.3f} ({ordered[first]:.3f} to {ordered[n - 1 - first]:.3f})"


def memory(sizes: list[int], folder: Path) -> None:
    for size in sizes:
        file = folder / f"{size}.txt"
        file.write_text("\n".join(sentences(size)), encoding="utf-8")
        seconds, peak = _alone("from kosbert.cli import main; main()", "encode", file, "--out", folder / f"of-{size}")
        print(f"memory: {size:,} sentences, {peak:,.0f} MiB at most, {size / seconds:,.0f} sentences/s with the start")


_WAYS = {
    "builtin (ONNX, int8)": "import kosbert; model = kosbert.load()",
    "builtin (torch, float32)": "import kosbert; model = kosbert.load('builtin', backend='torch')",
    "builtin in sentence-transformers": (
        "from kosbert.model.directory import builtin_directory; from sentence_transformers import SentenceTransformer; "
        "model = SentenceTransformer(str(builtin_directory()), device='cpu')"
    ),
}


def ways(rows: int, folder: Path) -> None:
    file = folder / "few.txt"
    file.write_text("\n".join(sentences(rows)), encoding="utf-8")
    for name, program in _WAYS.items():
        run = "import sys; model.encode(open(sys.argv[1], encoding='utf-8').read().split('\\n'))"
        _, peak = _alone(f"{program}; {run}", file)
        print(f"ways: {name}, {peak:,.0f} MiB at most")


def _alone(program: str, *arguments: object) -> tuple[float, float]:
    """Seconds and peak memory (MiB) of a Python process of its own."""
    # One more process between: the peak of all children would be that of the largest so far.
    watch = (
        "import resource, subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]], check=True, "
        "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", watch, "-c", program, *map(str, arguments)], check=True, capture_output=True, text=True
    )
    unit = 1024**2 if sys.platform == "darwin" else 1024  # macOS counts bytes
    return time.perf_counter() - started, int(done.stdout) / unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("overhead", "memory", "ways"))
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.part in (None, "overhead"):
            overhead(given.rows, given.rounds, Path(folder))
        if given.part in (None, "ways"):
            ways(given.rows, Path(folder))
        if given.part in (None, "memory"):
            memory(given.sizes, Path(folder))


if __name__ == "__main__":
    main()
