"""What a model costs to run here: every way of running it, in turns, on the same sentences, beside the machine's limit.

    kosbert bench                       # the shape of BERT-base with random weights, because only shapes matter here
    kosbert bench runs/nli-sts/model    # a model of your own

A ratio is taken within a round, of two measurements that are neighbors in time, so that what slows the whole machine
down slows both. So is the share of the limit: large matrix products with as many operations as the sentences need have
a turn in every round. The vectors of every way are held against sentence-transformers' own.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from kosbert.benchmark.efficiency import measure
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
from kosbert.progress import ProgressEvent

Way = Callable[[list[str]], NDArray[np.float32]]
FIRST = "sentence-transformers, as it comes"
_WARM, _LATENCIES = 20, 200  # calls with one sentence: not counted, and counted
_PATIENCE = 20.0  # seconds after which fewer will do
_BATCHES = (8, 16, 32, 64, 128)
_SIDE = 1536  # of a matrix product that runs at full speed


@dataclass(frozen=True)
class Cost:
    """One way: sentences a second, how often the first way fits in, how near its vectors are to the first way's."""

    way: str
    sentences_per_second: float
    ratio: float
    lowest: float
    highest: float
    least_cosine: float | None
    share_of_limit: float | None
    p50_milliseconds: float
    p99_milliseconds: float


@dataclass(frozen=True)
class Bench:
    """A table, and what it was measured on."""

    model: str
    parameters: int
    tokens_per_sentence: float
    sentences: int
    rounds: int
    threads: int
    limit_gflops: float
    costs: list[Cost]

    def document(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def bench(
    sentences: Sequence[str],
    model: str | None = None,
    *,
    rounds: int = 5,
    report: Callable[[str, int, int], None] | None = None,
) -> Bench:
    """Measure every way of running a model; without one, the shape of BERT-base with random weights."""
    texts = list(sentences)
    torch.set_num_threads(threads())
    with tempfile.TemporaryDirectory() as folder:
        encoder = load_torch(model, device="cpu") if model else _bert_base()
        ways, encoders = _ways(encoder, texts, Path(folder))
        reference = unit(ways[FIRST](texts))
        own = {name: unit(way(texts)) for name, way in ways.items() if name != "builtin"}
        prepared = encoder.prepare(texts)
        lengths = np.array(prepared.lengths)[prepared.inverse]
        operations = len(texts) * _operations(encoder, lengths)
        product = _fastest_product()

        def on_progress(event: ProgressEvent) -> None:
            if report:
                report(event.task, event.done, event.total or 0)

        methods = ways | {"the limit": lambda _: _products(product, operations)}
        *speeds, limit = measure(methods, texts, rounds, on_progress)
        costs = []
        for each in speeds:
            middle = each.median()
            cosine = float((own[each.method] * reference).sum(axis=1).min()) if each.method in own else None
            exact = each.method in own and "int8" not in each.method
            pairs = zip(each.sentences_per_second, limit.sentences_per_second, strict=True)
            share = float(np.median([own / most for own, most in pairs])) if exact else None
            p50, p99 = _latency(encoders.get(each.method), ways[each.method], texts)
            speeds_and_ratios = middle.sentences_per_second, middle.ratio, middle.min_ratio, middle.max_ratio
            costs.append(Cost(each.method, *speeds_and_ratios, cosine, share, p50, p99))
    size = sum(each.numel() for each in encoder.sentence_transformer.parameters())
    name = model or "the shape of BERT-base, random weights"
    gflops = limit.median().sentences_per_second * operations / len(texts) / 1e9
    return Bench(name, size, float(lengths.mean()), len(texts), rounds, threads(), gflops, costs)


def _bert_base() -> TorchEncoder:
    """Random weights behind the built-in tokenizer, so that sentences have the length of real Korean text."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(builtin_directory(), local_files_only=True)
    shape: dict[str, Any] = {"layers": 12, "hidden": 768, "heads": 12, "dropout": 0.0}
    return untrained(tokenizer, **shape, pooling="mean", max_length=512, seed=0)


def _ways(encoder: TorchEncoder, texts: list[str], folder: Path) -> tuple[dict[str, Way], dict[str, Encoder]]:
    """Every way of encoding, and for those that are encoders of ours the encoder."""
    stock = SentenceTransformer(str(encoder.save(folder / "torch")), device="cpu")
    best = min(_BATCHES, key=lambda size: _seconds(lambda: _stock(stock, texts[:256], size)))
    # What int8 costs in quality is not measured here: the gate lets everything through.
    gate = (
        "any",
        [ScoredPair(one, other, float(n)) for n, (one, other) in enumerate(pairwise(texts))],
    )
    plain = load(export(encoder, folder / "onnx").path)
    whole = load(export(encoder, folder / "int8", int8=True, gate=gate, max_drop=1e9).path)
    encoders: dict[str, Encoder] = {"packed, torch": encoder, "ONNX, float32": plain, "ONNX, int8": whole}
    for each in encoders.values():
        each.tune_token_budget()
    ways: dict[str, Way] = {
        FIRST: lambda given: _stock(stock, given, 32),
        f"sentence-transformers, batches of {best}": lambda given: _stock(stock, given, best),
        "ONNX, float32, batches of 32 in the order given": lambda given: _fixed(plain, given),
    }
    encoders["builtin"] = load(BUILTIN)
    return ways | {name: each.encode for name, each in encoders.items()}, encoders


def _stock(model: SentenceTransformer, texts: list[str], size: int) -> NDArray[np.float32]:
    return np.asarray(model.encode(texts, batch_size=size, show_progress_bar=False), np.float32)


def _fixed(encoder: Encoder, texts: list[str]) -> NDArray[np.float32]:
    """Batches of a fixed size, padded to their longest, as simple ONNX servers do."""
    assert isinstance(encoder, OnnxEncoder)
    prepared = encoder.prepare(texts)
    ids = [prepared.inputs[index] for index in prepared.inverse]
    return np.concatenate([encoder.forward(ids[start : start + 32]) for start in range(0, len(ids), 32)])


def _seconds(run: Callable[[], object]) -> float:
    run()
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _latency(encoder: Encoder | None, way: Way, texts: list[str]) -> tuple[float, float]:
    """Milliseconds for one short sentence, warm: the median, and what one in a hundred exceeds."""
    short = sorted(texts, key=len)[len(texts) // 4]
    took: list[float] = []
    while len(took) < _WARM + _LATENCIES and (sum(took) < 1000 * _PATIENCE or len(took) < 2 * _WARM):
        started = time.perf_counter()
        encoder.encode(short) if encoder else way([short])
        took.append(1000 * (time.perf_counter() - started))
    return float(np.quantile(took[_WARM:], 0.5)), float(np.quantile(took[_WARM:], 0.99))


def _operations(encoder: TorchEncoder, lengths: NDArray[np.integer[Any]]) -> float:
    """Floating-point operations of a sentence on average: two for a weight and token, and the attention."""
    backbone = encoder.sentence_transformer[0]
    layers = [each for each in backbone.modules() if isinstance(each, torch.nn.Linear)]
    weights = sum(each.weight.numel() for each in layers) - _pooler(backbone)
    config = backbone.config
    attention = 4 * config.num_hidden_layers * config.hidden_size * float((lengths.astype(float) ** 2).mean())
    return float(2 * weights * lengths.mean() + attention)


def _pooler(backbone: Any) -> int:
    """BERT's own pooling layer, which nothing uses."""
    return sum(each.numel() for name, each in backbone.named_parameters() if "pooler" in name and each.ndim == 2)


def _fastest_product() -> Callable[[], object]:
    """A large matrix product in float32 by whichever of torch's libraries is faster on this processor."""
    first, second = torch.ones(_SIDE, _SIDE), torch.ones(_SIDE, _SIDE)
    into = torch.empty(_SIDE, _SIDE)

    def by_default() -> Tensor:
        return torch.mm(first, second, out=into)

    def by_onednn() -> Tensor:
        with torch.inference_mode():
            return onednn_linear(first, second)

    ways = [by_default, by_onednn] if has_onednn() else [by_default]
    took = [[_seconds(way) for way in ways] for _ in range(9)]
    return ways[int(np.median(took, axis=0).argmin())]


def _products(product: Callable[[], object], operations: float) -> None:
    """Large matrix products with so many operations."""
    for _ in range(max(1, round(operations / (2 * _SIDE**3)))):
        product()
