"""Measure time and peak memory of the leakage check at the size of KorNLI against KorSTS: 950,000 rows against 9,000.

    KOSBERT_DATA=/path/to/data python benchmarks/leakage.py    # real sentences: corpus/*.txt.gz against korsts/
    python benchmarks/leakage.py                               # random Hangul, 1% near-duplicates
    python benchmarks/leakage.py --rows 20000 --against 1000   # quick

--near is the similarity threshold; --swap keeps the large side in memory instead of the small one.
"""

import argparse
import csv
import gzip
import itertools
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from kosbert.data.leakage import overlap
from kosbert.data.records import LabeledPair


def corpus_pairs(directory: Path) -> Iterator[LabeledPair]:
    """Yield each line paired with the next: 1.6 million lines give about 1.6 million rows."""
    for path in sorted(directory.glob("*.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for first, second in itertools.pairwise(lines):
                yield LabeledPair(first.rstrip("\n"), second.rstrip("\n"), "")


def korsts_pairs(directory: Path) -> Iterator[LabeledPair]:
    for split in ("train", "dev", "test"):
        with (directory / f"sts-{split}.tsv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                yield LabeledPair(row["sentence1"], row["sentence2"], "")


def random_pairs(seed: int, duplicates: list[str]) -> Iterator[LabeledPair]:
    """Yield sentences of 2 to 12 random words (Zipf-distributed, 20,000 types); 1% extend one of `duplicates`."""
    generator = random.Random(0)  # the words are the same for every seed
    words = ["".join(chr(0xAC00 + generator.randrange(0, 11172, 7)) for _ in range(2 + i % 3)) for i in range(20_000)]
    generator.seed(seed)
    frequency = list(itertools.accumulate(1 / (rank + 10) for rank in range(len(words))))

    def sentence() -> str:
        if duplicates and generator.random() < 0.01:
            return generator.choice(duplicates) + " 다"
        return " ".join(generator.choices(words, cum_weights=frequency, k=generator.randint(2, 12))) + "."

    while True:
        yield LabeledPair(sentence(), sentence(), "")


def peak_gigabytes() -> float:
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 30 if sys.platform == "darwin" else 1 << 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=950_000)
    parser.add_argument("--against", type=int, default=9_000)
    parser.add_argument("--near", type=float, default=0.8)
    parser.add_argument("--swap", action="store_true")
    options = parser.parse_args()
    data_dir = Path(os.environ.get("KOSBERT_DATA", ""))
    if "KOSBERT_DATA" in os.environ and (data_dir / "corpus").is_dir():
        corpus, held_out = corpus_pairs(data_dir / "corpus"), korsts_pairs(data_dir / "korsts")
        against = list(itertools.islice(held_out, options.against))
        # Every second pair first, because consecutive rows share a sentence.
        rows = list(itertools.islice(itertools.islice(corpus, 0, None, 2), options.rows))
        rows += itertools.islice(
            itertools.islice(corpus_pairs(data_dir / "corpus"), 1, None, 2), options.rows - len(rows)
        )
    else:
        against = list(itertools.islice(random_pairs(1, []), options.against))
        duplicates = [row.sentence1 for row in against]
        rows = list(itertools.islice(random_pairs(2, duplicates), options.rows))
    if options.swap:
        rows, against = against, rows
    print(f"{len(rows):,} rows against {len(against):,}; {peak_gigabytes():.2f} GB before the check", flush=True)
    start, cpu_start = time.perf_counter(), time.process_time()
    overlaps = overlap(rows, against, near=options.near, examples=2)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    print(f"{seconds:.1f} s ({cpu_seconds:.1f} s CPU time), peak {peak_gigabytes():.2f} GB including the rows")
    for result in overlaps:
        print(f"{result.unit:8} {result.level:10} {result.count:6,} of {result.total:,}")
        for match in result.examples:
            print(f"    {match.similarity:.2f} {' | '.join(match.held_out)}\n         {' | '.join(match.rows)}")


if __name__ == "__main__":
    main()
