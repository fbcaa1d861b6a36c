"""Measure the speedup of packing over padding on the CPU, for `encode` and for a training step.

    python benchmarks/packing.py                                          # both shapes, one minute per comparison
    python benchmarks/packing.py --shape small --seconds 20 --only train  # quick
    python benchmarks/packing.py --threads 1 --cpu-time                   # CPU time, for a busy machine

The methods alternate on the same sentences. A ratio compares two consecutive measurements; the table gives its median
and quartiles. Weights are random and the vocabulary is synthetic, because only shapes matter. Sentence lengths follow
KorSTS (log-normal, 14 tokens on average, 29 at the 95th percentile). `encode` gets 256 sentences: sorted by characters,
as sentence-transformers does, padding gives 1.4 times the tokens, as on real KorSTS with a vocabulary of 32,000 (1.33
to 1.39 for 256 to 4,096 sentences).
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses as st_losses
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from kosbert.losses.cosine_similarity import CosineSimilarityLoss
from kosbert.model import TorchEncoder, pack, unpack

SHAPES = {"small": (6, 384), "base": (12, 768)}  # layers, hidden size; head size 32 and 64 as in MiniLM and BERT
VOCABULARY = 32_000
PAIRS = 16
Methods = dict[str, Callable[[int], None]]


def build(directory: Path, layers: int, hidden: int) -> SentenceTransformer:
    """Return a BERT with random weights and a vocabulary of synthetic words, one token each."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {token: index for index, token in enumerate([*special, *(f"w{n}" for n in range(VOCABULARY - 5))])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=128, **names).save_pretrained(directory)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=12,
        intermediate_size=4 * hidden,
    )  # fmt: skip
    torch.manual_seed(0)
    BertModel(config).save_pretrained(directory)
    backbone = Transformer(str(directory))
    return SentenceTransformer(modules=[backbone, Pooling(hidden, "mean")], device="cpu")


def sentences(count: int, random: np.random.Generator) -> list[str]:
    """Return sentences with KorSTS's distribution of token counts, including [CLS] and [SEP]."""
    lengths = np.clip(np.rint(random.lognormal(2.5, 0.528, count)), 3, 128).astype(int)
    return [" ".join(f"w{n}" for n in random.integers(0, VOCABULARY - 5, length - 2)) for length in lengths]


def encode_methods(packed_model: SentenceTransformer, padded_model: SentenceTransformer) -> Methods:
    """Return encode functions: sentence-transformers' own, ours with padding, ours packed."""
    texts_of_round: dict[int, list[str]] = {}

    def texts(round_number: int) -> list[str]:
        if round_number not in texts_of_round:
            texts_of_round.clear()
            texts_of_round[round_number] = sentences(256, np.random.default_rng(round_number))
        return texts_of_round[round_number]

    def sentence_transformers(round_number: int) -> None:
        padded_model.encode(texts(round_number), batch_size=32)

    def padded(round_number: int) -> None:
        TorchEncoder(padded_model).encode(texts(round_number))

    def packed(round_number: int) -> None:
        TorchEncoder(packed_model).encode(texts(round_number))

    return {
        "sentence-transformers, batch 32": sentence_transformers,
        "token budget, padded": padded,
        "token budget, packed": packed,
    }


def train_methods(model: SentenceTransformer) -> Methods:
    """Return training steps on 16 pairs: tokenize, forward, loss, backward, AdamW (fused, the trainer's default)."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    st_loss, kosbert_loss = st_losses.CosineSimilarityLoss(model), CosineSimilarityLoss(model)

    def step(round_number: int, packed: bool, loss_function: Callable[..., torch.Tensor]) -> None:
        (pack if packed else unpack)(model)
        random = np.random.default_rng(round_number)
        columns = [sentences(PAIRS, random), sentences(PAIRS, random)]
        labels = torch.from_numpy(random.random(PAIRS)).float()
        model.train()
        loss_function([model.preprocess(column) for column in columns], labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return {
        "padded": lambda round_number: step(round_number, False, st_loss),
        "packed": lambda round_number: step(round_number, True, st_loss),
        "packed, one forward": lambda round_number: step(round_number, True, kosbert_loss),
    }


def compare(
    methods: Methods, items: int, seconds: float, clock: Callable[[], float]
) -> list[dict[str, float | str | int]]:
    """Alternate the methods until the time is up; return speeds and ratios to the first method."""
    times: dict[str, list[float]] = {name: [] for name in methods}
    for method in methods.values():
        method(0)  # warm up: memory, thread pools
    end = time.perf_counter() + seconds
    round_number = 1
    while time.perf_counter() < end or round_number < 4:
        names = list(methods)
        for name in names if round_number % 2 else reversed(names):  # alternate the order
            start = clock()
            methods[name](round_number)
            times[name].append(clock() - start)
        round_number += 1
    baseline = next(iter(times.values()))
    rows = []
    for name, method_times in times.items():
        ratios = [base / time_ for base, time_ in zip(baseline, method_times, strict=True)]
        lower, median, upper = statistics.quantiles(ratios, n=4)
        rows.append({"method": name, "per_second": items / statistics.median(method_times), "ratio": median,
                     "lower": lower, "upper": upper, "rounds": len(method_times)})  # fmt: skip
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=[*SHAPES, "both"], default="both")
    parser.add_argument("--only", choices=["encode", "train"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    transformers_logging.disable_progress_bar()
    if options.threads:
        torch.set_num_threads(options.threads)
    clock = time.process_time if options.cpu_time else time.perf_counter
    result = {}
    for shape in SHAPES if options.shape == "both" else [options.shape]:
        with tempfile.TemporaryDirectory() as directory:
            model = build(Path(directory), *SHAPES[shape])
            padded_model = SentenceTransformer(
                modules=[Transformer(directory), Pooling(SHAPES[shape][1], "mean")], device="cpu"
            )
        if not pack(model):
            sys.exit("this model cannot be packed on this machine")
        for kind, items in (("encode", 256), ("train", PAIRS)):
            if options.only in (None, kind):
                methods = encode_methods(model, padded_model) if kind == "encode" else train_methods(model)
                result[f"{kind} {shape}"] = compare(methods, items, options.seconds, clock)
    if options.json:
        print(json.dumps({"threads": torch.get_num_threads(), "torch": torch.__version__, **result}, indent=2))
        return
    for title, rows in result.items():
        unit = "sentences/s" if title.startswith("encode") else "pairs/s"
        print(f"\n{title} ({rows[0]['rounds']} rounds, {torch.get_num_threads()} threads)")
        for row in rows:
            spread = f"{row['ratio']:.2f}x ({row['lower']:.2f} to {row['upper']:.2f})"
            print(f"  {row['method']:<32} {row['per_second']:8.1f} {unit:<12} {spread}")


if __name__ == "__main__":
    main()
