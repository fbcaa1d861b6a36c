"""How many sentences a second? The same sentences through one model in several ways, in turns, in one process.

    kosbert study efficiency --preset quick --onnx EXPORTED --onnx EXPORTED-INT8

Every round goes through all ways, in another order each time; a way's ratio is taken within each round, so that what
slows the whole machine down slows both sides. Sentences per second belong to the machine, ratios travel further.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kosbert.data.records import sentences_of
from kosbert.errors import UsageError
from kosbert.evaluation.evaluate import read_rows
from kosbert.evaluation.published_scores import published_scores
from kosbert.model import Encoder, load
from kosbert.model.from_scratch import new_backbone
from kosbert.model.packing import is_packed, unpack
from kosbert.model.torch_encoder import TorchEncoder
from kosbert.model.torch_loading import load_torch
from kosbert.study.plan import at_hand
from kosbert.study.provenance import lineage
from kosbert.study.report import Part, write_pages
from kosbert.study.store import Store, write_json
from kosbert.study.tables import Cell, Table
from kosbert.text import clean

Way = Callable[[list[str]], object]
BATCH = 32  # of sentence-transformers, for the ways that pad
QUESTION = "How many sentences a second does a model read, and what makes it faster?"
COMMAND = "kosbert study efficiency"


@dataclass(frozen=True)
class Size:
    """A preset: the model, the sentences, the rounds."""

    about: str
    model: str
    on: str
    rounds: int
    sentences: int


PRESETS = {
    "quick": Size("The sample set, whose sentences are short and of similar length; a minute.", "builtin-base",
                  "sample-sts-test", 5, 600),
    "real": Size("Sentences of KorSTS test.", "builtin-base", "korsts-test", 7, 2000),
    "paper": Size("klue/roberta-base on KorSTS test; needs the network, and a GPU for the paper's second column.",
                  "klue/roberta-base", "korsts-test", 7, 2000),
}  # fmt: skip


@dataclass(frozen=True)
class Speed:
    """What one way gave in each round; its ratio is to the first way, within the round."""

    name: str
    sentences_per_second: list[float]
    ratios: list[float]

    def middle(self) -> tuple[float, float, float, float]:
        """Median sentences a second; median, smallest and largest ratio."""
        ratios = self.ratios
        return float(np.median(self.sentences_per_second)), float(np.median(ratios)), min(ratios), max(ratios)


def measure(ways: dict[str, Way], sentences: Sequence[str], rounds: int, report: Any = None) -> list[Speed]:
    """Time every way in every round, after one that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for number in range(rounds + 1):
        turn = np.random.default_rng(number).permutation(len(names))
        for place in turn:
            started = time.perf_counter()
            ways[names[place]](list(sentences))
            if number:
                seconds[names[place]].append(time.perf_counter() - started)
        if report:
            report("rounds", number, rounds)
    first = seconds[names[0]]
    return [
        Speed(name, [len(sentences) / each for each in spent], [a / b for a, b in zip(first, spent, strict=True)])
        for name, spent in seconds.items()
    ]


def ways_of(encoder: TorchEncoder, exported: Sequence[Path]) -> dict[str, Way]:
    """Padded batches in the order given, padded batches of similar length, no padding, and whatever was exported.

    Similar length is by characters, as sentence-transformers sorts.
    """
    device = encoder.device.type
    padded = load_again(encoder)
    unpack(padded.sentence_transformer)
    ways: dict[str, Way] = {
        f"padded, {device}": lambda texts: _in_batches(padded, texts),
        f"smart batching, {device}": lambda texts: _in_batches(padded, sorted(texts, key=len)),
    }
    if is_packed(encoder.sentence_transformer):
        ways[f"packed, {device}"] = encoder.encode
    for directory in exported:
        model: Encoder = load(directory, backend="onnx")
        kind = "int8" if model.card["export"]["int8"] else "float32"
        name = f"ONNX {kind}"
        ways[f"{name}, {directory.name}" if name in ways else name] = model.encode
    return ways


def load_again(encoder: TorchEncoder) -> TorchEncoder:
    """A second copy of a model, so that one can be padded and the other packed."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return load_torch(encoder.save(Path(folder) / "model"), device=encoder.device.type)


def _in_batches(encoder: TorchEncoder, texts: list[str]) -> None:
    for start in range(0, len(texts), BATCH):
        encoder.forward(texts[start : start + BATCH])


def efficiency(
    preset: str,
    store: Store,
    *,
    model: str = "",
    exported: Sequence[Path] = (),
    rounds: int | None = None,
    data_dir: Path | None = None,
    report: Any = None,
) -> tuple[dict[str, Any], Path]:
    """Measure and write the report; returns the numbers and the page."""
    if preset not in PRESETS:
        raise UsageError(f"the study efficiency has no preset {preset!r}: choose {', '.join(PRESETS)}")
    size = PRESETS[preset]
    rows = read_rows(size.on, folder=data_dir)
    texts = list(dict.fromkeys(clean(text) for row in rows for text in sentences_of(row)))
    order = np.random.default_rng(0).permutation(len(texts))[: size.sentences]
    texts = [texts[number] for number in order]
    name = model or size.model
    if not model and not at_hand(name) and preset == "quick":
        shape: dict[str, Any] = {"layers": 4, "hidden": 256, "heads": 4, "vocabulary": 4000, "dropout": 0.0}
        encoder = new_backbone(texts, **shape, pooling="mean", max_length=128, seed=0)
        name = "a new one of 4 layers and 256 dimensions"
    else:
        encoder = load_torch(name)
    ways = ways_of(encoder, exported)
    if encoder.device.type != "cpu":
        ways |= ways_of(load_torch(name, device="cpu"), ())
    speeds = measure(ways, texts, rounds or size.rounds, report)
    command = _command(preset, model, exported, rounds)
    found = _found(preset, command, _named(name), texts, speeds, bool(exported))
    folder = store.study(f"efficiency-{preset}")
    write_json(folder / "study.json", {"study": "efficiency", "preset": preset, "runs": []})
    write_json(folder / "summary.json", found)
    return found, write_pages(found, _parts(found, speeds), folder)


def _named(model: str) -> str:
    """A model as a reader elsewhere may know it: its folder's name, without the path to it."""
    return Path(model).name if Path(model).is_dir() else model


def _command(preset: str, model: str, exported: Sequence[Path], rounds: int | None) -> str:
    """What was asked, whole and without paths of this machine: the report may be published."""
    words = [COMMAND, f"--preset {preset}", *(f"--onnx {path.name}" for path in exported)]
    if model:
        words.append(f"--model {_named(model)}")
    if rounds:
        words.append(f"--rounds {rounds}")
    return " ".join(words)


def _found(
    preset: str, command: str, name: str, texts: list[str], speeds: list[Speed], exported: bool
) -> dict[str, Any]:
    size = PRESETS[preset]
    rows: list[dict[str, Any]] = []
    for each in speeds:
        speed, ratio, low, high = each.middle()
        rows.append({"way": each.name, "sentences_per_second": speed, "ratio": ratio, "low": low, "high": high})
    answer = _answer(rows, speeds)
    missing = [] if exported else [{"what": "ONNX float32 and int8: export the model first, then give the folders.",
                                    "command": f"kosbert export MODEL --int8, then {COMMAND} --onnx DIR"}]  # fmt: skip
    if not torch.cuda.is_available():
        missing.append({"what": "A GPU: there is none here.", "command": f"{COMMAND} --preset {preset}"})
    missing += [
        {"what": other.about, "command": f"{COMMAND} --preset {key}"} for key, other in PRESETS.items() if key != preset
    ]
    return {
        "study": "efficiency", "preset": preset, "question": QUESTION, "answer": answer, "about": "",
        "preset_about": size.about, "sample": size.on.startswith("sample"), "command": command,
        "facts": [["model", name], ["sentences", f"{len(texts):,} of {size.on}"],
                  ["rounds", str(len(speeds[0].ratios))]],
        "rows": rows, "not_measured": missing, "lineage": lineage() | {"command": command},
    }  # fmt: skip


def _answer(rows: list[dict[str, Any]], speeds: list[Speed]) -> str:
    """The fastest way in one sentence, with those that were not slower in every round."""
    best = max(rows, key=lambda row: row["sentences_per_second"])
    first, rounds = rows[0]["way"], len(speeds[0].ratios)
    if best["low"] <= 1:
        return f"Nothing is faster than {first} in every round: {rows[0]['sentences_per_second']:,.0f} a second."
    own = next(each.ratios for each in speeds if each.name == best["way"])
    level = [each.name for each in speeds
             if each.name != best["way"] and any(a >= b for a, b in zip(each.ratios, own, strict=True))]  # fmt: skip
    return (
        f"{best['way']} reads {best['sentences_per_second']:,.0f} sentences a second, {best['ratio']:.2f} times as "
        f"many as {first} ({best['low']:.2f} to {best['high']:.2f} over {rounds} rounds)"
        + (f"; in some rounds {' and '.join(level)} {'was' if len(level) == 1 else 'were'} as fast." if level else ".")
    )


def _parts(found: dict[str, Any], speeds: list[Speed]) -> list[Part]:
    part = Part(
        "The table",
        f"Medians over rounds; the ratio is to {speeds[0].name}, within each round, with its smallest and largest.",
    )
    most = max(row["sentences_per_second"] for row in found["rows"])
    lines = [
        [Cell(row["way"]), Cell(f"{row['sentences_per_second']:,.0f}", bar=row["sentences_per_second"] / most),
         Cell(f"{row['ratio']:.2f}×"), Cell(f"{row['low']:.2f} to {row['high']:.2f}")]
        for row in found["rows"]
    ]  # fmt: skip
    part.table(Table(["way", "sentences a second", "ratio", "spread"], lines))
    published = published_scores("speed")
    lines = [
        [Cell(each.model), Cell(each.metric.split("_")[0].upper()), Cell(f"{each.value:,.0f}")] for each in published
    ]
    theirs = Part("Published", f"{published[0].source}. {published[0].caveat}" if published else "")
    theirs.table(Table(["model", "device", "sentences a second"], lines))
    return [part, theirs]
