"""A new backbone: a WordPiece tokenizer trained on text, and a small BERT with random weights."""

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

_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Share of the text's characters that the vocabulary covers; each of the thousands of rarer ones would take two tokens.
_COVERAGE = 0.9998


def new_tokenizer(sentences: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Train a WordPiece tokenizer; the same sentences give the same vocabulary in every process.

    Hangul syllables are not decomposed (a BERT normalizer that strips accents would do that), and a rare character
    becomes an [UNK] of its own, so that the rest of its word is still tokenized.
    """
    texts = list(dict.fromkeys(clean(sentence) for sentence in sentences))
    characters = _frequent_characters(texts)
    tokenizer = _empty_tokenizer({}, characters)
    # The trainer numbers the continuation characters (##가) in the random order of a hash table and breaks ties by
    # number, so every process would get another vocabulary. As special tokens their numbers are fixed.
    continuations = [
        f"##{character}" for character in _continuation_characters(tokenizer, texts) if character in characters
    ]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=[*_SPECIAL_TOKENS, *continuations], show_progress=False
    )
    rare = re.compile(f"[^{re.escape(''.join(sorted(characters)))}\\s]")
    tokenizer.train_from_iterator((rare.sub(" ", _lowercase(text)) for text in texts), trainer)
    vocab = tokenizer.get_vocab()
    if len(vocab) <= len(_SPECIAL_TOKENS):
        raise UsageError("there is no text to train a tokenizer on: name a data set that has rows")
    tokenizer = _empty_tokenizer(vocab, characters)  # in which ##가 is an ordinary token again
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocab[token]) for token in ("[CLS]", "[SEP]")],
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **dict(zip(names, _SPECIAL_TOKENS, strict=True)))


def _empty_tokenizer(vocab: dict[str, int], characters: set[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=64))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    splits: list[Any] = [pre_tokenizers.BertPreTokenizer()]
    if characters:
        splits.append(pre_tokenizers.Split(Regex(f"[^{_ranges(characters)}]"), "isolated"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _lowercase(text: str) -> str:
    return str(normalizers.BertNormalizer(lowercase=True, strip_accents=False).normalize_str(text))


def _frequent_characters(texts: Sequence[str]) -> set[str]:
    """Return the most frequent characters that cover `_COVERAGE` of the text; of equally frequent ones, all or none."""
    counts = Counter(character for text in texts for character in _lowercase(text) if not character.isspace())
    remaining = (1 - _COVERAGE) * counts.total()
    frequent = set(counts)
    for count in sorted(set(counts.values())):
        equally_frequent = [character for character, frequency in counts.items() if frequency == count]
        remaining -= count * len(equally_frequent)
        if remaining < 0:
            break
        frequent.difference_update(equally_frequent)
    return frequent


def _ranges(characters: set[str]) -> str:
    """Return the characters as code point ranges for a character class, so that none needs escaping."""
    ranges: list[list[int]] = []
    for number in sorted(map(ord, characters)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges)


def _continuation_characters(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    """Return the characters that occur after the start of a word, sorted."""
    characters: set[str] = set()
    for text in texts:
        words = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text))
        characters.update(*(word[1:] for word, _ in words))
    return sorted(characters)


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
    """Return an untrained encoder with a tokenizer trained on the sentences; the seed makes it reproducible."""
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
    """Return an encoder of this shape with random weights for an existing tokenizer."""
    if hidden_size % heads:
        raise UsageError(f"hidden_size {hidden_size} cannot be divided among {heads} heads: make it a multiple of them")
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
        # With BERT's own pooler, which is not used: without it AutoModel would create a random one on every load.
        # Not with save_pretrained, which writes nothing in processes other than rank 0.
        save_file(BertModel(config).state_dict(), Path(folder) / "model.safetensors", metadata={"format": "pt"})
        config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        encoder = load_torch(Path(folder), pooling=pooling, max_length=max_length)
    encoder.source = f"new {layers}x{hidden_size}"
    return encoder
