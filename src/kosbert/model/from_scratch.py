"""A backbone that starts from nothing: a WordPiece tokenizer trained on text, and a small BERT with random weights."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from kosbert.errors import UsageError
from kosbert.model.torch_encoder import TorchEncoder
from kosbert.model.torch_loading import load_torch
from kosbert.text import clean

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_COVERAGE = (
    0.9998  # of the text's characters; the rest, thousands of them, would each take two places in the vocabulary
)


def new_tokenizer(sentences: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Train WordPiece on sentences: the same ones give the same tokens, with the same numbers, in every process.

    Hangul syllables stay whole (a BERT normalizer that strips accents splits them into letters), and a character that
    is too rare to be learned is an unknown word of its own, so that the word around it is still read.
    """
    texts = list(dict.fromkeys(clean(sentence) for sentence in sentences))
    characters = _frequent_characters(texts)
    tokenizer = _empty_tokenizer({}, characters)
    # The trainer numbers the inner characters (##가) as it meets them, in the random order of a hash table, and breaks
    # ties by number: each process would get another vocabulary. Named beforehand, their numbers are fixed.
    inner = [f"##{character}" for character in _inner_characters(tokenizer, texts) if character in characters]
    trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, special_tokens=[*_SPECIAL, *inner], show_progress=False)
    rare = re.compile(f"[^{re.escape(''.join(sorted(characters)))}\\s]")
    tokenizer.train_from_iterator((rare.sub(" ", _lowered(text)) for text in texts), trainer)
    numbers = tokenizer.get_vocab()
    if len(numbers) <= len(_SPECIAL):
        raise UsageError("there is no text to train a tokenizer on: name a data set that has rows")
    tokenizer = _empty_tokenizer(numbers, characters)  # one in which ##가 is an ordinary token again
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, numbers[token]) for token in ("[CLS]", "[SEP]")],
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **dict(zip(names, _SPECIAL, strict=True)))


def _empty_tokenizer(numbers: dict[str, int], characters: set[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=64))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    splits: list[Any] = [pre_tokenizers.BertPreTokenizer()]
    if characters:
        splits.append(pre_tokenizers.Split(Regex(f"[^{_ranges(characters)}]"), "isolated"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _lowered(text: str) -> str:
    return str(normalizers.BertNormalizer(lowercase=True, strip_accents=False).normalize_str(text))


def _frequent_characters(texts: Sequence[str]) -> set[str]:
    """The most frequent characters that make up nearly all of the text; of equals, all or none."""
    counts = Counter(character for text in texts for character in _lowered(text) if not character.isspace())
    allowed = (1 - _COVERAGE) * counts.total()
    frequent = set(counts)
    for count in sorted(set(counts.values())):
        equals = [character for character, found in counts.items() if found == count]
        allowed -= count * len(equals)
        if allowed < 0:
            break
        frequent.difference_update(equals)
    return frequent


def _ranges(characters: set[str]) -> str:
    """Characters as ranges of a regular expression's class, by number: no sign has a meaning of its own."""
    ranges: list[list[int]] = []
    for number in sorted(map(ord, characters)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges)


def _inner_characters(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    """The characters that stand anywhere but at the start of a word, sorted."""
    found: set[str] = set()
    for text in texts:
        words = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text))
        found.update(*(word[1:] for word, _ in words))
    return sorted(found)


def new_backbone(
    sentences: Iterable[str],
    *,
    layers: int,
    hidden_size: int,
    heads: int,
    vocab_size: int,
    dropout: float,
    pooling: str,
    max_length: int,
    seed: int,
) -> TorchEncoder:
    """An untrained encoder of the given shape with a tokenizer of its own, reproducible by its seed."""
    tokenizer = new_tokenizer(sentences, vocab_size)
    return untrained(
        tokenizer, layers=layers, hidden_size=hidden_size, heads=heads, dropout=dropout, pooling=pooling,
        max_length=max_length, seed=seed,
    )  # fmt: skip


def untrained(
    tokenizer: PreTrainedTokenizerFast,
    *,
    layers: int,
    hidden_size: int,
    heads: int,
    dropout: float,
    pooling: str,
    max_length: int,
    seed: int,
) -> TorchEncoder:
    """An encoder of the given shape with random weights, behind a tokenizer."""
    if hidden_size % heads:
        raise UsageError(f"hidden_size {hidden_size} cannot be shared by {heads} heads: make it a multiple of them")
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden_size,
        max_position_embeddings=max(max_length, 128),
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        pad_token_id=tokenizer.pad_token_id,
        architectures=["BertModel"],
    )
    with TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # With BERT's own pooling layer, which nothing uses: AutoModel would make a random one whenever it loads.
        # Written by hand, because the model's save_pretrained writes nothing in any but the first of several processes.
        save_file(BertModel(config).state_dict(), Path(folder) / "model.safetensors", metadata={"format": "pt"})
        config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        encoder = load_torch(Path(folder), pooling=pooling, max_length=max_length)
    encoder.source = f"new {layers}x{hidden_size}"
    return encoder
