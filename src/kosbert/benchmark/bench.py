"""Benchmark a model with every inference method on the same sentences, and against the machine's peak.

    kosbert bench                       # the shape of BERT-base with random weights: speed depends on the shape only
    kosbert bench runs/nli-sts/model    # your model

Ratios are taken within a round (`kosbert.benchmark.measure`). So is the share of the peak: large matrix products with
as many operations as the sentences need are timed in every round. The embeddings of every method are compared with
those of sentence-transformers.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from kosbert.benchmark.measure import RoundSpeeds, measure
from kosbert.data.records import ScoredPair
from kosbert.export.exporter import export
from kosbert.model.directory import BUILTIN, builtin_directory
from kosbert.model.encoder import Encoder
from kosbert.model.from_scratch import untrained
from kosbert.model.hardware import threads
from kosbert.model.loading import load
from kosbert.model.onednn import has_onednn, onednn_linear
from kosbert.model.onnx_encoder import OnnxEncoder
from kosbert.model.similarity import unit
from kosbert.model.torch_encoder import TorchEncoder
from kosbert.model.torch_loading import load_torch
from kosbert.progress import ProgressCallback

EncodeFunction = Callable[[list[str]], NDArray[np.float32]]
REFERENCE = "sentence-transformers, default"
_BATCH_SIZE = 32  # the default of sentence-transformers
_BATCH_SIZES = (8, 16, 32, 64, 128)
_WARMUP_CALLS, _LATENCY_CALLS = 20, 200  # with one sentence each
_LATENCY_SECONDS = 20.0  # stop earlier after this time
_MATRIX_SIZE = 1536  # large enough to run at full speed


@dataclass(frozen=True)
class MethodResult:
    """Speed, latency and fidelity of one inference method; ratio and cosine are relative to REFERENCE.

    `min_cosine` is None for another model (builtin), `peak_share` also for int8, which uses other instructions.
    """

    method: str
    sentences_per_second: float
    ratio: float
    min_ratio: float
    max_ratio: float
    min_cosine: float | None
    peak_share: float | None
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class BenchmarkResult:
    """The results of all methods, and what they were measured on."""

    model: str
    parameters: int
    tokens_per_sentence: float
    sentences: int
    rounds: int
    threads: int
    peak_gflops: float
    methods: list[MethodResult]


def bench(
    sentences: Sequence[str],
    model: str | None = None,
    *,
    rounds: int = 5,
    on_progress: ProgressCallback | None = None,
) -> BenchmarkResult:
    """Measure a model with every inference method; without a model, the shape of BERT-base with random weights."""
    texts = list(sentences)
    torch.set_num_threads(threads())
    with tempfile.TemporaryDirectory() as folder:
        encoder = load_torch(model, device="cpu") if model else _bert_base()
        methods, encoders = _methods(encoder, texts, Path(folder))
        reference = unit(methods[REFERENCE](texts))
        cosines = {
            name: float((unit(encode(texts)) * reference).sum(axis=1).min())
            for name, encode in methods.items()
            if name != BUILTIN
        }
        prepared = encoder.prepare(texts)
        lengths = np.array(prepared.lengths)[prepared.inverse]
        operations = len(texts) * _operations_per_sentence(encoder, lengths)
        multiply = _fastest_matmul()
        timed = methods | {"peak": lambda _: _repeat_matmul(multiply, operations)}
        *speeds, peak = measure(timed, texts, rounds, on_progress)
        results = []
        for speed in speeds:
            name, median = speed.method, speed.median()
            p50, p99 = _latency(encoders.get(name), methods[name], texts)
            results.append(
                MethodResult(
                    method=name,
                    sentences_per_second=median.sentences_per_second,
                    ratio=median.ratio,
                    min_ratio=median.min_ratio,
                    max_ratio=median.max_ratio,
                    min_cosine=cosines.get(name),
                    peak_share=_peak_share(speed, peak) if name in cosines and "int8" not in name else None,
                    p50_ms=p50,
                    p99_ms=p99,
                )
            )
    return BenchmarkResult(
        model=model or "BERT-base shape, random weights",
        parameters=sum(parameter.numel() for parameter in encoder.sentence_transformer.parameters()),
        tokens_per_sentence=float(lengths.mean()),
        sentences=len(texts),
        rounds=rounds,
        threads=threads(),
        peak_gflops=peak.median().sentences_per_second * operations / len(texts) / 1e9,
        methods=results,
    )


def _peak_share(speed: RoundSpeeds, peak: RoundSpeeds) -> float:
    """Return the median over rounds of the speed as a share of the peak."""
    pairs = zip(speed.sentences_per_second, peak.sentences_per_second, strict=True)
    return float(np.median([actual / possible for actual, possible in pairs]))


def _bert_base() -> TorchEncoder:
    """Return random weights with the built-in tokenizer, so that token counts are those of real Korean text."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(builtin_directory(), local_files_only=True)
    return untrained(
        tokenizer, layers=12, hidden_size=768, heads=12, dropout=0.0, pooling="mean", max_length=512, seed=0
    )


def _methods(
    encoder: TorchEncoder, texts: list[str], folder: Path
) -> tuple[dict[str, EncodeFunction], dict[str, Encoder]]:
    """Return all methods by name, and the encoder of those that are kosbert's."""
    reference = SentenceTransformer(str(encoder.save(folder / "torch")), device="cpu")
    best_size = min(_BATCH_SIZES, key=lambda size: _seconds(lambda: _encode_reference(reference, texts[:256], size)))
    # Quality is not measured here, so the gate lets everything pass.
    gate_pairs = [ScoredPair(first, second, float(number)) for number, (first, second) in enumerate(pairwise(texts))]
    onnx_float32 = load(export(encoder, folder / "onnx").path)
    onnx_int8 = load(export(encoder, folder / "int8", int8=True, gate=("any", gate_pairs), max_drop=1e9).path)
    encoders: dict[str, Encoder] = {"torch, packed": encoder, "ONNX float32": onnx_float32, "ONNX int8": onnx_int8}
    for kosbert_encoder in encoders.values():
        kosbert_encoder.tune_token_budget()
    methods: dict[str, EncodeFunction] = {
        REFERENCE: lambda batch: _encode_reference(reference, batch, _BATCH_SIZE),
        f"sentence-transformers, batches of {best_size}": lambda batch: _encode_reference(reference, batch, best_size),
        "ONNX float32, padded batches of 32 in input order": lambda batch: _encode_unsorted(onnx_float32, batch),
    }
    encoders[BUILTIN] = load(BUILTIN)
    return methods | {name: loaded.encode for name, loaded in encoders.items()}, encoders


def _encode_reference(model: SentenceTransformer, texts: list[str], batch_size: int) -> NDArray[np.float32]:
    return np.asarray(model.encode(texts, batch_size=batch_size, show_progress_bar=False), np.float32)


def _encode_unsorted(encoder: Encoder, texts: list[str]) -> NDArray[np.float32]:
    """Encode batches of a fixed size, padded to their longest sentence, as simple ONNX servers do."""
    assert isinstance(encoder, OnnxEncoder)
    prepared = encoder.prepare(texts)
    ids = [prepared.inputs[index] for index in prepared.inverse]
    starts = range(0, len(ids), _BATCH_SIZE)
    return np.concatenate([encoder.forward(ids[start : start + _BATCH_SIZE]) for start in starts])


def _seconds(function: Callable[[], object]) -> float:
    """Return the time of the second call."""
    function()
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def _latency(encoder: Encoder | None, encode: EncodeFunction, texts: list[str]) -> tuple[float, float]:
    """Return median and 99th percentile of the milliseconds for one short sentence, after warm-up."""
    short = sorted(texts, key=len)[len(texts) // 4]
    times: list[float] = []
    max_calls, min_calls = _WARMUP_CALLS + _LATENCY_CALLS, 2 * _WARMUP_CALLS
    while len(times) < max_calls and (sum(times) < 1000 * _LATENCY_SECONDS or len(times) < min_calls):
        started = time.perf_counter()
        encoder.encode(short) if encoder else encode([short])
        times.append(1000 * (time.perf_counter() - started))
    p50, p99 = np.quantile(times[_WARMUP_CALLS:], (0.5, 0.99))
    return float(p50), float(p99)


def _operations_per_sentence(encoder: TorchEncoder, lengths: NDArray[np.integer[Any]]) -> float:
    """Return the mean floating-point operations of a sentence: two per weight and token, and the attention."""
    backbone = encoder.sentence_transformer[0]
    linear_layers = [module for module in backbone.modules() if isinstance(module, torch.nn.Linear)]
    weights = sum(layer.weight.numel() for layer in linear_layers) - _pooler_weights(backbone)
    config = backbone.config
    attention = 4 * config.num_hidden_layers * config.hidden_size * float((lengths.astype(float) ** 2).mean())
    return float(2 * weights * lengths.mean() + attention)


def _pooler_weights(backbone: Any) -> int:
    """Return the size of BERT's pooler, which sentence embeddings do not use."""
    named = backbone.named_parameters()
    return sum(parameter.numel() for name, parameter in named if "pooler" in name and parameter.ndim == 2)


def _fastest_matmul() -> Callable[[], object]:
    """Return a large float32 matrix product with torch's default library or oneDNN, whichever is faster here."""
    first, second = torch.ones(_MATRIX_SIZE, _MATRIX_SIZE), torch.ones(_MATRIX_SIZE, _MATRIX_SIZE)
    output = torch.empty(_MATRIX_SIZE, _MATRIX_SIZE)

    def default_matmul() -> Tensor:
        return torch.mm(first, second, out=output)

    def onednn_matmul() -> Tensor:
        with torch.inference_mode():
            return onednn_linear(first, second)

    functions = [default_matmul, onednn_matmul] if has_onednn() else [default_matmul]
    times = [[_seconds(function) for function in functions] for _ in range(9)]
    return functions[int(np.median(times, axis=0).argmin())]


def _repeat_matmul(multiply: Callable[[], object], operations: float) -> None:
    """Run as many matrix products as make up the operations."""
    for _ in range(max(1, round(operations / (2 * _MATRIX_SIZE**3)))):
        multiply()
