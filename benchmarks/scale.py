"""Measure CPU time, wall time and peak memory from the start of the process to the first training step, at full size.

    python benchmarks/scale.py                               # 942,854 NLI rows as in KorNLI, 1,000,000 lines of text
    python benchmarks/scale.py --rows 2000                   # quick
    python benchmarks/scale.py --before path/to/other/src    # and the same with another version of the package

The files have the names, the format and the row counts of KorNLI; the sentences are random Korean words, in lengths as
in KorNLI, with three hypotheses per premise. The backbone is tiny, so that the data takes nearly all the time. Every
case runs in a process of its own, the versions in turn. `start` only imports and loads the model.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

SNLI, MULTINLI, LINES, TEST = 550_152, 392_702, 1_000_000, 5_010  # rows
NLI = ["kornli-snli-train", "kornli-multinli-train"]
PAPER = {"rows": NLI, "triplets": "random", "both_directions": True}
CASES = {
    "start": "interpreter, torch, model",
    "nli": "NLI, multiple negatives ranking, all triplets",
    "paper": "NLI, one random triplet per anchor, both directions, no duplicates",
    "softmax": "NLI, softmax, all rows",
    "simcse": "SimCSE, lines of text",
    "leakage": "Leakage, `kosbert data check kornli-snli-train --against kornli-test`",
}


# --- data -----------------------------------------------------------------------------------------------------------


PARTICLES = (
    "은",
    "는",
    "이",
    "가",
    "을",
    "를",
    "에",
    "와",
    "의",
    "로",
    "에서",
    "에게",
    "까지",
    "부터",
    "처럼",
    "보다",
    "이나",
    "하고",
)
ENDINGS = [f"{particle}{last}" for particle in PARTICLES for last in ("", "도", "만", "요", "면", "고", "지만")]


class Words:
    """Random words with the frequencies of a corpus: 700,000 types by Zipf's law, of which ten million words have most.

    Frequent ones are the words of the sample set, rare ones are these with other endings.
    """

    def __init__(self, seed: int) -> None:
        from kosbert.data import load, sentences_of

        self.generator = np.random.default_rng(seed)
        rows = [row for split in ("sample-nli-train", "sample-sts-train") for row in load(split)]
        self.common = sorted({word for row in rows for text in sentences_of(row) for word in text.strip(".").split()})
        self.generator.shuffle(self.common)

    def draw(self, count: int) -> list[str]:
        """Return words; the probability of a word is inversely proportional to its rank."""
        ranks = np.exp(self.generator.random(count) * np.log(700_000)).astype(int).tolist()
        return [self._word(rank) for rank in ranks]

    def _word(self, rank: int) -> str:
        ending, stem = divmod(rank, len(self.common))
        return self.common[stem] + ENDINGS[ending % len(ENDINGS)] if ending else self.common[stem]


def nli_lines(rows: int, premise_words: int, seed: int) -> Iterator[str]:
    """Yield the lines of an NLI file: three hypotheses per premise that share words with it; one in ten is common."""
    words = Words(seed)
    generator = words.generator
    common = [" ".join(words.draw(4)) + "." for _ in range(2_000)]
    labels = ("entailment", "neutral", "contradiction")
    yield "sentence1\tsentence2\tgold_label"
    for start in range(0, rows, 3):
        premise = words.draw(int(generator.integers(premise_words // 2, 2 * premise_words)))
        for label in labels[: rows - start]:
            if generator.random() < 0.1:
                hypothesis = common[int(2_000 * generator.random() ** 3)]
            else:
                kept = [word for word in premise if generator.random() < 3 / len(premise)]
                hypothesis = " ".join(kept + words.draw(1)) + "."
            yield f"{' '.join(premise)}.\t{hypothesis}\t{label}"


def write_files(directory: Path, rows: int | None) -> dict[str, int]:
    """Write all files; return their row counts."""
    counts = {
        "kornli/snli_1.0_train.ko.tsv": min(rows or SNLI, SNLI),
        "kornli/multinli.train.ko.tsv": min(rows or MULTINLI, MULTINLI),
        "kornli/xnli.test.ko.tsv": min(rows or TEST, TEST),
    }
    (directory / "kornli").mkdir()
    for (path, count), (words, seed) in zip(counts.items(), ((5, 1), (8, 2), (8, 3)), strict=True):
        with (directory / path).open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in nli_lines(count, words, seed))
    words = Words(4)
    with (directory / "text.txt").open("w", encoding="utf-8") as file:
        for _ in range(rows or LINES):
            file.write(" ".join(words.draw(int(words.generator.integers(3, 10)))) + ".\n")
    return counts | {"text.txt": rows or LINES}


def write_backbone(directory: Path) -> None:
    """Write a model of one layer with a tokenizer trained on some of the sentences."""
    from kosbert.data import load, sentences_of
    from kosbert.model.from_scratch import new_backbone

    texts = [text for row in load("sample-nli-train") for text in sentences_of(row)]
    shape = {"layers": 1, "hidden_size": 32, "heads": 2, "vocab_size": 8_000, "dropout": 0.1}
    new_backbone(texts, **shape, pooling="mean", max_length=64, seed=0).save(directory)


# --- one case, in its own process -----------------------------------------------------------------------------------


def recipe(case: str, data_dir: Path) -> dict:
    sources = {"nli": NLI, "paper": [PAPER], "softmax": NLI, "simcse": [str(data_dir / "text.txt")]}
    losses = {"softmax": "softmax", "simcse": "simcse"}
    data = sources.get(case, [])
    source = {"rows": data} if data and isinstance(data[0], str) else data[0] if data else {"rows": "sample-sts-train"}
    stage = {"name": "stage", "data": [source], "loss": losses.get(case, "multiple-negatives-ranking"), "epochs": 1}
    if case == "start":
        stage["loss"] = "cosine-similarity"
    train = {"batch_size": 64} | ({"no_duplicates": True} if case == "paper" else {})
    backbone = str(data_dir / "backbone")
    return {"name": case, "backbone": backbone, "max_length": 64, "train": train, "stages": [stage]}


def run_case(case: str, data_dir: Path, rows: int | None) -> dict[str, float]:
    """Run a case in this process; return its CPU seconds, wall seconds and peak memory in MB."""
    if rows:
        accept_row_counts(rows)
    if case == "leakage":
        from kosbert.cli.app import main

        sys.argv[1:] = ["data", "check", "kornli-snli-train", "--against", "kornli-test", "--offline", "--json"]
        with suppress(SystemExit):
            main()
    else:
        from kosbert.training import Recipe
        from kosbert.training.trainer import time_steps

        time_steps(Recipe.parse(recipe(case, data_dir)), data_dir=data_dir, steps=1)
    return {"cpu": time.process_time(), "wall": time.time() - float(os.environ["STARTED"]), "peak": peak_megabytes()}


def peak_megabytes() -> float:
    """Return the peak memory of this process. On Linux `ru_maxrss` starts with that of the parent process."""
    status = Path("/proc/self/status")
    if status.is_file():
        return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if "VmHWM" in line)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def accept_row_counts(rows: int) -> None:
    """Let the catalogue expect the smaller files of `--rows`."""
    from kosbert.data import get

    for name, split in get("kornli").splits.items():
        if name != "dev":
            object.__setattr__(split, "rows", min(rows, split.rows or rows))


def start_case(case: str, data_dir: Path, rows: int | None, source: str) -> dict[str, float]:
    """Run a case in a new process, with the package in directory `source`; return what it measured."""
    environment = os.environ | {"KOSBERT_DATA": str(data_dir), "STARTED": str(time.time())}
    if source:
        environment["PYTHONPATH"] = source
    command = [sys.executable, __file__, "--case", case, "--data-dir", str(data_dir)]
    command += ["--rows", str(rows)] if rows else []
    process = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(f"{case} failed: {process.stderr.strip()[-2000:]}")
    values: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="rows per file, in place of the published row counts")
    parser.add_argument("--before", default="", help="the source directory of another version of the package")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--data-dir", type=Path, help="keep the files here, and use them if they exist")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(run_case(options.case, options.data_dir, options.rows)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        data_dir = options.data_dir or Path(temporary)
        if not (data_dir / "backbone").is_dir():
            data_dir.mkdir(parents=True, exist_ok=True)
            for path, count in write_files(data_dir, options.rows).items():
                print(f"{path}: {count:,} rows", file=sys.stderr)
            write_backbone(data_dir / "backbone")
        print_table(options.cases, data_dir, options.rows, options.before)


def print_table(cases: list[str], data_dir: Path, rows: int | None, before: str) -> None:
    versions = {"before": before} if before else {}
    versions |= {"now" if before else "": ""}
    units = [f"{unit} {version}".strip() for unit in ("CPU s", "wall s", "peak MB") for version in versions]
    print(f"| case | {' | '.join(units)} |")
    print(f"|---|{'---:|' * len(units)}")
    for case in cases:
        # The version before cannot express the data of the paper.
        values = {
            version: None if case == "paper" and source else start_case(case, data_dir, rows, source)
            for version, source in versions.items()
        }
        cells = [
            "–" if value is None else f"{value[unit]:,.{digits}f}"
            for unit, digits in (("cpu", 1), ("wall", 1), ("peak", 0))
            for value in values.values()
        ]
        print(f"| {CASES[case]} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
