"""How much faster packing is than padding: `encode`, and a training step, on the CPU of this machine.

    python benchmarks/packing.py                       # both shapes, about a minute for each comparison
    python benchmarks/packing.py --shape small --seconds 20 --only train
    python benchmarks/packing.py --threads 1 --cpu-time    # on a busy machine: does not count what others compute

The ways of one comparison take turns on the same sentences; a ratio is that of two neighbors in time, and the table
gives its median and quartiles. Weights are random and the vocabulary is synthetic, because only shapes matter here:
sentence lengths are drawn as KorSTS has them (log-normal, 14 tokens on average, 29 at the 95th percentile). `encode`
gets 256 sentences: there, sorting by characters as sentence-transformers does leaves 1.4 times the tokens, as on real
KorSTS with a 32,000-piece vocabulary (1.33 to 1.39 for 256 to 4,096 sentences).
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

SHAPES = {"small": (6, 384), "base": (12, 768)}  # layers, hidden size; heads of 32 and of 64 as in MiniLM and BERT
VOCABULARY = 32_000
PAIRS = 16
Ways = dict[str, Callable[[int], None]]


def build(directory: Path, layers: int, hidden: int) -> SentenceTransformer:
    """A BERT with random weights and a vocabulary of made-up words, one token each."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = {token: index for index, token in enumerate([*special, *(f"w{n}" for n in range(VOCABULARY - 5))])}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
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
    """Sentences whose number of tokens, with [CLS] and [SEP], is distributed as in KorSTS."""
    lengths = np.clip(np.rint(random.lognormal(2.5, 0.528, count)), 3, 128).astype(int)
    return [" ".join(f"w{n}" for n in random.integers(0, VOCABULARY - 5, length - 2)) for length in lengths]


def encode_ways(model: SentenceTransformer, plain: SentenceTransformer) -> Ways:
    """sentence-transformers' encode as it is, the same with a packed model, ours padded, and ours."""
    texts = {}

    def of(round_number: int) -> list[str]:
        if round_number not in texts:
            texts.clear()
            texts[round_number] = sentences(256, np.random.default_rng(round_number))
        return texts[round_number]

    def stock(number: int) -> None:
        plain.encode(of(number), batch_size=32)

    def ours_padded(number: int) -> None:
        TorchEncoder(plain).encode(of(number))

    def ours(number: int) -> None:
        TorchEncoder(model).encode(of(number))

    return {"sentence-transformers, batch 32": stock, "token budget, padded": ours_padded, "token budget, packed": ours}


def train_ways(model: SentenceTransformer) -> Ways:
    """One step on 16 pairs: tokenize, forward, loss, backward, AdamW (fused, the trainer's default)."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    stock_loss, joined_loss = st_losses.CosineSimilarityLoss(model), CosineSimilarityLoss(model)

    def step(number: int, packed: bool, loss_function: Callable[..., torch.Tensor]) -> None:
        (pack if packed else unpack)(model)
        random = np.random.default_rng(number)
        columns = [sentences(PAIRS, random), sentences(PAIRS, random)]
        labels = torch.from_numpy(random.random(PAIRS)).float()
        model.train()
        loss_function([model.preprocess(column) for column in columns], labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return {
        "padded": lambda number: step(number, False, stock_loss),
        "packed": lambda number: step(number, True, stock_loss),
        "packed, one forward": lambda number: step(number, True, joined_loss),
    }


def compare(ways: Ways, items: int, seconds: float, clock: Callable[[], float]) -> list[dict[str, float | str | int]]:
    """Let the ways take turns until the time is up; speeds, and ratios to the first way."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way(0)  # warm up: memory, thread pools
    end = time.perf_counter() + seconds
    number = 1
    while time.perf_counter() < end or number < 4:
        names = list(ways)
        for name in names if number % 2 else reversed(names):  # no way is always first
            start = clock()
            ways[name](number)
            took[name].append(clock() - start)
        number += 1
    first = next(iter(took.values()))
    rows = []
    for name, times in took.items():
        ratios = [base / own for base, own in zip(first, times, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        rows.append({"way": name, "per_second": items / statistics.median(times), "ratio": middle,
                     "low": low, "high": high, "rounds": len(times)})  # fmt: skip
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
            plain = SentenceTransformer(
                modules=[Transformer(directory), Pooling(SHAPES[shape][1], "mean")], device="cpu"
            )
        if not pack(model):
            sys.exit("this model cannot be packed here")
        for kind, items in (("encode", 256), ("train", PAIRS)):
            if options.only in (None, kind):
                ways = encode_ways(model, plain) if kind == "encode" else train_ways(model)
                result[f"{kind} {shape}"] = compare(ways, items, options.seconds, clock)
    if options.json:
        print(json.dumps({"threads": torch.get_num_threads(), "torch": torch.__version__, **result}, indent=2))
        return
    for title, rows in result.items():
        unit = "sentences/s" if title.startswith("encode") else "pairs/s"
        print(f"\n{title} ({rows[0]['rounds']} rounds, {torch.get_num_threads()} threads)")
        for row in rows:
            spread = f"{row['ratio']:.2f}x ({row['low']:.2f} to {row['high']:.2f})"
            print(f"  {row['way']:<32} {row['per_second']:8.1f} {unit:<12} {spread}")


if __name__ == "__main__":
    main()
