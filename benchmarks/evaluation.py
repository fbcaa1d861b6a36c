"""What intervals cost: scoring KorSTS test with them, against encoding it with a small model.

    KOSBERT_DATA=/path/to/data python benchmarks/evaluation.py     # about two minutes
    python benchmarks/evaluation.py --cpu-time --threads 1         # on a busy machine: not what others compute

The model has the shape of MiniLM (6 layers of 384) and random weights: only its speed matters here. Without KorSTS the
sample set stands in. Encoding and scoring take turns; the table gives medians and quartiles. Scoring is everything that
`kosbert evaluate` does after encoding: eight correlations, two BCa intervals from 2,000 resamples, the sources. Below
it, what 10,000 resamples of 1,379 pairs take, and the same with one call of scipy a resample.
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
    """A MiniLM-shaped BERT with random weights and a vocabulary learned from the sentences."""
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
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:8.3f} s   ({low:.3f} to {high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--cpu-time", action="store_true", help="measure this process's CPU time, not the wall clock")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    clock: Callable[[], float] = time.process_time if arguments.cpu_time else time.perf_counter

    def timed(work: Callable[[], object]) -> float:
        start = clock()
        work()
        return clock() - start

    here = data.available(*data.resolve("korsts-test"))
    name = "korsts-test" if here else "sample-sts-test"
    pairs = [row for row in data.load(name) if isinstance(row, data.ScoredPair)]
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), [text for pair in pairs for text in data.sentences_of(pair)])
        model = load(folder, device="cpu")
    vectors = encode_pairs(model, pairs)
    scored = STSDataset(name, pairs)
    encoding, scoring = [], []
    for _ in range(arguments.rounds):
        encoding.append(timed(lambda: encode_pairs(model, pairs)))
        scoring.append(timed(lambda: evaluate(vectors, scored)))
    ratios = [later / first for first, later in zip(encoding, scoring, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    kind = "CPU time" if arguments.cpu_time else "wall clock"
    print(f"{name}, {len(pairs):,} pairs, {torch.get_num_threads()} threads, {arguments.rounds} rounds, {kind}")
    print(f"encoding with 6 layers of 384   {quartiles(encoding)}")
    print(f"scoring with intervals          {quartiles(scoring)}")
    print(f"scoring / encoding              {middle:8.1%}     ({low:.1%} to {high:.1%})")

    generator = np.random.default_rng(0)
    cosines, gold = paired_cosine(*vectors), gold_scores(pairs)
    cosines, gold = cosines[:1_379], gold[:1_379]
    fast = [timed(lambda: bootstrap([cosines], gold, ["spearman"], resamples=10_000, seed=0)) for _ in range(3)]

    def plain() -> None:
        for _ in range(500):
            picks = generator.integers(0, len(gold), len(gold))
            spearmanr(cosines[picks], gold[picks])

    slow = [20 * timed(plain) for _ in range(3)]
    print(f"10,000 resampled Spearmans      {statistics.median(fast):8.3f} s")
    print(f"  one scipy call a resample     {statistics.median(slow):8.3f} s   (from 500 of them)")
    print(f"  ratio                         {statistics.median(slow) / statistics.median(fast):8.1f}")


if __name__ == "__main__":
    main()
