"""Efficiency study: sentences per second of one model with several inference methods, measured in one process.

    kosbert study efficiency --preset quick --onnx EXPORTED --onnx EXPORTED-INT8

Every round runs all methods in a different order. Ratios are taken within a round, so a slowdown of the whole machine
affects both sides. Sentences per second depend on the machine; ratios transfer better.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kosbert.benchmark.measure import InferenceMethod, RoundSpeeds, measure
from kosbert.data.loading import read_records
from kosbert.data.records import sentences_of
from kosbert.errors import UsageError
from kosbert.evaluation.published_scores import published_scores
from kosbert.model import Encoder, load
from kosbert.model.from_scratch import new_backbone
from kosbert.model.packing import is_packed, unpack
from kosbert.model.torch_encoder import TorchEncoder
from kosbert.model.torch_loading import load_torch
from kosbert.progress import ProgressCallback
from kosbert.study.plan import is_local
from kosbert.study.report import Section, write_pages
from kosbert.study.store import Store, current_provenance, write_json
from kosbert.study.summary import EfficiencySummary, MethodSpeed, NotMeasured
from kosbert.study.tables import Cell, Table
from kosbert.text import clean

BATCH_SIZE = 32  # the default of sentence-transformers, for the methods that pad
QUESTION = "How many sentences per second does a model encode, and what makes it faster?"
COMMAND = "kosbert study efficiency"


@dataclass(frozen=True)
class EfficiencyPreset:
    """Model, sentences and rounds of a measurement."""

    description: str
    model: str
    dataset: str
    rounds: int
    sentences: int


PRESETS = {
    "quick": EfficiencyPreset(
        "The sample set, whose sentences are short and of similar length; one minute.",
        "builtin-base", "sample-sts-test", 5, 600,
    ),
    "real": EfficiencyPreset("Sentences of KorSTS test.", "builtin-base", "korsts-test", 7, 2000),
    "paper": EfficiencyPreset(
        "klue/roberta-base on KorSTS test; needs the network, and a GPU for the paper's second column.",
        "klue/roberta-base", "korsts-test", 7, 2000,
    ),
}  # fmt: skip


def inference_methods(encoder: TorchEncoder, exported: Sequence[Path]) -> dict[str, InferenceMethod]:
    """Return the methods to compare: padded batches, padded batches sorted by length, packed batches, exported models.

    Length is in characters, as in sentence-transformers.
    """
    device = encoder.device.type
    padded = _copy(encoder)
    unpack(padded.sentence_transformer)
    methods: dict[str, InferenceMethod] = {
        f"padded, {device}": lambda texts: _encode_padded(padded, texts),
        f"smart batching, {device}": lambda texts: _encode_padded(padded, sorted(texts, key=len)),
    }
    if is_packed(encoder.sentence_transformer):
        methods[f"packed, {device}"] = encoder.encode
    for directory in exported:
        model: Encoder = load(directory, backend="onnx")
        name = f"ONNX {'int8' if model.card['export']['int8'] else 'float32'}"
        methods[f"{name}, {directory.name}" if name in methods else name] = model.encode
    return methods


def _copy(encoder: TorchEncoder) -> TorchEncoder:
    """Return a second copy of a model, so that one can pad and the other pack."""
    with tempfile.TemporaryDirectory() as directory:
        return load_torch(encoder.save(Path(directory) / "model"), device=encoder.device.type)


def _encode_padded(encoder: TorchEncoder, texts: list[str]) -> None:
    for start in range(0, len(texts), BATCH_SIZE):
        encoder.forward(list(encoder.prepare(texts[start : start + BATCH_SIZE], clean=False).inputs))


def efficiency(
    preset: str,
    store: Store,
    *,
    model: str = "",
    exported: Sequence[Path] = (),
    rounds: int | None = None,
    data_dir: Path | None = None,
    on_progress: ProgressCallback | None = None,
) -> tuple[EfficiencySummary, Path]:
    """Measure the speed of a model and write the report; return the summary and the HTML page.

    Args:
        preset: quick, real or paper.
        store: where the report is written.
        model: name or directory of a model, if not the preset's.
        exported: directories of exported ONNX models to measure as well.
        rounds: number of rounds, if not the preset's.
        data_dir: directory with the data files; `KOSBERT_DATA` by default.
        on_progress: called after every round.
    """
    if preset not in PRESETS:
        raise UsageError(f"the study efficiency has no preset {preset!r}: choose {', '.join(PRESETS)}")
    config = PRESETS[preset]
    rows = read_records(config.dataset, data_dir=data_dir)
    texts = list(dict.fromkeys(clean(text) for row in rows for text in sentences_of(row)))
    sample = np.random.default_rng(0).permutation(len(texts))[: config.sentences]
    texts = [texts[index] for index in sample]
    name = model or config.model
    if not model and not is_local(name) and preset == "quick":
        shape: dict[str, Any] = {"layers": 4, "hidden_size": 256, "heads": 4, "vocab_size": 4000, "dropout": 0.0}
        encoder = new_backbone(texts, **shape, pooling="mean", max_length=128, seed=0)
        name = "a new model with 4 layers and 256 dimensions"
    else:
        encoder = load_torch(name)
    methods = inference_methods(encoder, exported)
    if encoder.device.type != "cpu":
        methods |= inference_methods(load_torch(name, device="cpu"), ())
    speeds = measure(methods, texts, rounds or config.rounds, on_progress)
    summary = _summary(preset, _command(preset, model, exported, rounds), _base_name(name), len(texts), speeds)
    directory = store.study(f"efficiency-{preset}")
    write_json(directory / "study.json", {"study": "efficiency", "preset": preset, "runs": []})
    return summary, write_pages(summary, report_sections(summary), directory)


def _base_name(model: str) -> str:
    """Return the name of a model without the path to its directory: the report may be published."""
    return Path(model).name if Path(model).is_dir() else model


def _command(preset: str, model: str, exported: Sequence[Path], rounds: int | None) -> str:
    """Return the full command without paths of this machine."""
    words = [COMMAND, f"--preset {preset}", *(f"--onnx {path.name}" for path in exported)]
    if model:
        words.append(f"--model {_base_name(model)}")
    if rounds:
        words.append(f"--rounds {rounds}")
    return " ".join(words)


def _summary(preset: str, command: str, model: str, sentences: int, speeds: list[RoundSpeeds]) -> EfficiencySummary:
    config = PRESETS[preset]
    methods = [speed.median() for speed in speeds]
    rounds = len(speeds[0].ratios)
    provenance = current_provenance().model_copy(update={"command": command})
    return EfficiencySummary(
        study="efficiency",
        preset=preset,
        question=QUESTION,
        answer=_answer(methods, speeds),
        description="",
        preset_description=config.description,
        synthetic_data=config.dataset.startswith("sample"),
        command=command,
        facts={"model": model, "sentences": f"{sentences:,} of {config.dataset}", "rounds": str(rounds)},
        not_measured=_not_measured(preset, has_onnx="--onnx" in command),
        provenance=provenance,
        model=model,
        sentences=sentences,
        dataset=config.dataset,
        rounds=rounds,
        methods=methods,
    )


def _not_measured(preset: str, has_onnx: bool) -> list[NotMeasured]:
    items = []
    if not has_onnx:
        what = "ONNX float32 and int8: export the model first, then pass the directories."
        items.append(NotMeasured(what=what, command=f"kosbert export MODEL --int8, then {COMMAND} --onnx DIR"))
    if not torch.cuda.is_available():
        items.append(NotMeasured(what="GPU: none available.", command=f"{COMMAND} --preset {preset}"))
    return items + [
        NotMeasured(what=config.description, command=f"{COMMAND} --preset {name}")
        for name, config in PRESETS.items()
        if name != preset
    ]


def _answer(methods: list[MethodSpeed], speeds: list[RoundSpeeds]) -> str:
    """Return the fastest method in one sentence, with those that were as fast in some rounds."""
    best, first, rounds = max(methods, key=lambda item: item.sentences_per_second), methods[0], len(speeds[0].ratios)
    if best.min_ratio <= 1:
        return f"No method is faster than {first.method} in every round: {first.sentences_per_second:,.0f} per second."
    best_ratios = next(speed.ratios for speed in speeds if speed.method == best.method)
    as_fast = [
        speed.method
        for speed in speeds
        if speed.method != best.method and any(a >= b for a, b in zip(speed.ratios, best_ratios, strict=True))
    ]
    text = (
        f"{best.method} encodes {best.sentences_per_second:,.0f} sentences per second, {best.ratio:.2f} times as many "
        f"as {first.method} ({best.min_ratio:.2f} to {best.max_ratio:.2f} over {rounds} rounds)"
    )
    if as_fast:
        text += f"; in some rounds {' and '.join(as_fast)} {'was' if len(as_fast) == 1 else 'were'} as fast"
    return text + "."


def speed_table(summary: EfficiencySummary) -> Table:
    """Return the speed and the ratio of every method."""
    fastest = max(item.sentences_per_second for item in summary.methods)
    rows = [
        [
            Cell(item.method),
            Cell(f"{item.sentences_per_second:,.0f}", bar=item.sentences_per_second / fastest),
            Cell(f"{item.ratio:.2f}×"),
            Cell(f"{item.min_ratio:.2f} to {item.max_ratio:.2f}"),
        ]
        for item in summary.methods
    ]
    return Table(["method", "sentences per second", "ratio", "range"], rows)


def report_sections(summary: EfficiencySummary) -> list[Section]:
    """Return the sections of the report: our measurements and published ones."""
    note = f"Medians over rounds. Ratios are relative to {summary.methods[0].method} within the same round."
    results = Section("Results", note)
    results.add_table(speed_table(summary))
    scores = published_scores("speed")
    published = Section("Published speeds", f"{scores[0].source}. {scores[0].caveat}" if scores else "")
    rows = [
        [Cell(score.model), Cell(score.metric.split("_")[0].upper()), Cell(f"{score.value:,.0f}")] for score in scores
    ]
    published.add_table(Table(["model", "device", "sentences per second"], rows))
    return [results, published]
