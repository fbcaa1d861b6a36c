"""New backbones: reproducible by seed, the same in every process, loadable by sentence-transformers."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer

from kosbert.errors import UsageError
from kosbert.model import TorchEncoder, load
from kosbert.model.from_scratch import new_backbone, new_tokenizer

SHAPE = {
    "layers": 2,
    "hidden_size": 32,
    "heads": 2,
    "vocab_size": 300,
    "dropout": 0.1,
    "pooling": "mean",
    "max_length": 20,
}
TEXTS = [f"{number}번째 문장은 {word}에 대한 것이다." for number in range(40) for word in ("날씨", "음식", "Café")]


def make(seed=0, **changes) -> TorchEncoder:
    return new_backbone(TEXTS, **{**SHAPE, **changes}, seed=seed)


def test_seed_determines_the_weights():
    states = []
    for seed, global_seed in ((1, 5), (1, 6), (2, 5)):
        torch.manual_seed(global_seed)
        states.append(make(seed).sentence_transformer.state_dict())
        assert torch.initial_seed() == global_seed  # the global generator is not changed
    first, same_seed, other_seed = states
    assert all(torch.equal(first[name], same_seed[name]) for name in first)
    assert any(not torch.equal(first[name], other_seed[name]) for name in first)


SCRIPT = """
import hashlib, json, sys
from kosbert.model.from_scratch import new_tokenizer
vocab = new_tokenizer(json.loads(sys.stdin.read()), 300).get_vocab()
print(hashlib.sha256(json.dumps(sorted(vocab.items())).encode()).hexdigest())
"""


@pytest.mark.slow
def test_vocabulary_is_the_same_in_another_process():
    """The trainer of tokenizers numbers tokens in the random order of a hash table; training could not be resumed."""
    texts = json.dumps(TEXTS)
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=texts, capture_output=True, encoding="utf-8", check=True
    )
    vocab = new_tokenizer(TEXTS, 300).get_vocab()
    assert process.stdout.strip() == hashlib.sha256(json.dumps(sorted(vocab.items())).encode()).hexdigest()
    assert new_tokenizer(TEXTS[::-1], 300).get_vocab() == vocab  # the order of the sentences does not matter


def test_hangul_syllables_are_not_decomposed():
    tokenizer = new_tokenizer(TEXTS, 300)
    tokens = tokenizer.tokenize("문장은 Café에")
    assert "".join(token.removeprefix("##") for token in tokens) == "문장은café에"
    assert all("가" <= letter <= "힣" or letter.isascii() or letter == "é" for letter in "".join(tokens))
    assert tokenizer.unk_token not in tokens
    assert tokenizer.tokenize("##문") == tokenizer.tokenize("# # 문")  # ##문 is a continuation, not a word
    assert tokenizer("문장")["input_ids"][0] == tokenizer.cls_token_id
    assert set(tokenizer.all_special_tokens) == {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    assert len(tokenizer) <= 300


@pytest.mark.parametrize("pooling", ["mean", "cls", "first-last"])
def test_sentence_transformers_loads_it(tmp_path, pooling, capfd):
    encoder = make(pooling=pooling)
    captured = capfd.readouterr()
    assert "shards" not in captured.err
    assert "LOAD REPORT" not in captured.out + captured.err
    path = encoder.save(tmp_path / "model")
    capfd.readouterr()
    stock = SentenceTransformer(str(path))
    assert "MISSING" not in capfd.readouterr().err
    np.testing.assert_allclose(stock.encode(TEXTS[:5]), encoder.encode(TEXTS[:5]), atol=1e-5)
    np.testing.assert_array_equal(load(path).encode(TEXTS[:5]), encoder.encode(TEXTS[:5]))
    assert stock.max_seq_length == 20


def test_impossible_shapes_are_errors():
    with pytest.raises(UsageError, match="hidden_size 33 cannot be divided among 2 heads"):
        make(hidden_size=33)
    with pytest.raises(UsageError, match="no text to train a tokenizer on"):
        new_tokenizer(["", " "], 300)


def test_rare_character_does_not_hide_its_word(tmp_path):
    texts = [*TEXTS * 50, "날씨龘"]
    tokenizer = new_tokenizer([f"{text} {number % 100}" for number, text in enumerate(texts)], 300)
    assert "龘" not in tokenizer.get_vocab()
    expected = [*tokenizer.tokenize("날씨"), "[UNK]", *tokenizer.tokenize("날씨")]
    assert tokenizer.tokenize("날씨龘날씨") == expected
    assert tokenizer.tokenize("날씨👍날씨") == expected
    tokenizer.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).tokenize("날씨👍날씨") == expected
