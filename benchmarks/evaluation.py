"""Measure the cost of confidence intervals: scoring KorSTS test against encoding it with a small model.

    KOSBERT_DATA=/path/to/data python benchmarks/evaluation.py     # about two minutes
    python benchmarks/evaluation.py --cpu-time --threads 1         # CPU time, for a busy machine
    python benchmarks/evaluation.py --rounds 2                     # quick, on the sample set

The model has MiniLM's shape (6 layers of 384) and random weights, because only speed matters. Without KorSTS the sample
set is used. Encoding and scoring alternate; the table gives medians and quartiles. Scoring is everything `kosbert
evaluate` does after encoding: eight correlations, two BCa intervals from 2,000 resamples, results per source. Then:
10,000 bootstrap resamples of 1,379 pairs, against one scipy call per resample.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
import torch
from scipy.stats import spearmanr
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from kosbert import data
from kosbert.evaluation.evaluate import STSDataset, evaluate
from kosbert.evaluation.resampling import bootstrap
from kosbert.evaluation.sts import encode_pairs, gold_scores, paired_cosine
from kosbert.model import load


def build(directory: Path, sentences: list[str]) -> None:
    """Save a MiniLM-shaped BERT with random weights and a vocabulary learned from the sentences."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(sentences, trainers.WordPieceTrainer(vocab_size=8_000, special_tokens=special))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=128, **names).save_pretrained(directory)
    torch.manual_seed(0)
    shape = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    BertModel(BertConfig(vocab_size=tokenizer.get_vocab_size(), **shape)).save_pretrained(directory)


def quartiles(values: list[float]) -> str:
    lower, median, upper = statistics.quantiles(values, n=4)
    return f"{median:8.3f} s   ({lower:.3f} to {upper:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--cpu-time", action="store_true", help="measure CPU time instead of wall-clock time")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    clock: Callable[[], float] = time.process_time if options.cpu_time else time.perf_counter

    def timed(function: Callable[[], object]) -> float:
        start = clock()
        function()
        return clock() - start

    available = data.available(*data.resolve("korsts-test"))
    name = "korsts-test" if available else "sample-sts-test"
    pairs = [row for row in data.load(name) if isinstance(row, data.ScoredPair)]
    with tempfile.TemporaryDirectory() as directory:
        build(Path(directory), [text for pair in pairs for text in data.sentences_of(pair)])
        model = load(directory, device="cpu")
    vectors = encode_pairs(model, pairs)
    dataset = STSDataset(name, pairs)
    encode_times, score_times = [], []
    for _ in range(options.rounds):
        encode_times.append(timed(lambda: encode_pairs(model, pairs)))
        score_times.append(timed(lambda: evaluate(vectors, dataset)))
    ratios = [score / encode for encode, score in zip(encode_times, score_times, strict=True)]
    lower, median, upper = statistics.quantiles(ratios, n=4)
    clock_name = "CPU time" if options.cpu_time else "wall clock"
    print(f"{name}, {len(pairs):,} pairs, {torch.get_num_threads()} threads, {options.rounds} rounds, {clock_name}")
    print(f"encoding with 6 layers of 384   {quartiles(encode_times)}")
    print(f"scoring with intervals          {quartiles(score_times)}")
    print(f"scoring / encoding              {median:8.1%}     ({lower:.1%} to {upper:.1%})")

    generator = np.random.default_rng(0)
    cosines, gold = paired_cosine(*vectors), gold_scores(pairs)
    cosines, gold = cosines[:1_379], gold[:1_379]
    vectorized = [timed(lambda: bootstrap([cosines], gold, ["spearman"], resamples=10_000, seed=0)) for _ in range(3)]

    def scipy_resamples() -> None:
        for _ in range(500):
            rows = generator.integers(0, len(gold), len(gold))
            spearmanr(cosines[rows], gold[rows])

    scipy_times = [20 * timed(scipy_resamples) for _ in range(3)]
    print(f"10,000 resampled Spearmans      {statistics.median(vectorized):8.3f} s")
    print(f"  one scipy call per resample   {statistics.median(scipy_times):8.3f} s   (extrapolated from 500)")
    print(f"  ratio                         {statistics.median(scipy_times) / statistics.median(vectorized):8.1f}")


if __name__ == "__main__":
    main()
