"""A backbone that starts from nothing: a WordPiece tokenizer trained on text, and a small BERT with random weights."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel, BertTokenizerFast

from kosbert.errors import UsageError
from kosbert.model.encoder import Encoder
from kosbert.model.loading import load
from kosbert.text import clean

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def new_tokenizer(sentences: Iterable[str], vocabulary: int) -> BertTokenizerFast:
    """Train WordPiece on sentences: the same ones give the same tokens, with the same numbers, in every process.

    Hangul syllables stay whole (a BERT normaliser that strips accents splits them into letters).
    """
    texts = list(dict.fromkeys(clean(sentence) for sentence in sentences))
    tokenizer = _empty_tokenizer({})
    # The trainer numbers the inner characters (##가) as it meets them, in the random order of a hash table, and breaks
    # ties by number: each process would get another vocabulary. Named beforehand, their numbers are fixed.
    inner = [f"##{character}" for character in _inner_characters(tokenizer, texts)]
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=[*_SPECIAL, *inner], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    numbers = tokenizer.get_vocab()
    if len(numbers) <= len(_SPECIAL):
        raise UsageError("there is no text to train a tokenizer on: name a data set that has rows")
    tokenizer = _empty_tokenizer(numbers)  # one in which ##가 is an ordinary token again
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, numbers[token]) for token in ("[CLS]", "[SEP]")],
    )
    return BertTokenizerFast(tokenizer_object=tokenizer, do_lower_case=True, strip_accents=False)


def _empty_tokenizer(numbers: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=64))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


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
    hidden: int,
    heads: int,
    vocabulary: int,
    dropout: float,
    pooling: str,
    max_length: int,
    seed: int,
) -> Encoder:
    """An untrained encoder of the given shape, reproducible by its seed."""
    if hidden % heads:
        raise UsageError(f"hidden {hidden} cannot be shared by {heads} heads: make it a multiple of them")
    tokenizer = new_tokenizer(sentences, vocabulary)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
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
        encoder = load(Path(folder), pooling=pooling, max_length=max_length)
    encoder.source = f"new {layers}x{hidden}"
    return encoder
