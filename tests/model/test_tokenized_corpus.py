"""Features from token ids equal those of `SentenceTransformer.preprocess`."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kosbert.model import TorchEncoder, load, tokenized_corpus, word_tokens
from kosbert.model.packing import is_packed, unpack
from kosbert.model.tokenized_corpus import TokenizedCorpus, feature_names, features_from_ids, hash_sentences
from kosbert.model.torch_loading import load_torch
from kosbert.model.word_tokens import splits_at_spaces, tokenize_by_words
from kosbert.text import clean


@pytest.fixture(params=["bert", "roberta"])
def directory(request):
    return request.getfixturevalue(f"tiny_{request.param}")


@pytest.fixture(params=["packed", "padded"])
def model(directory, request):
    model = load(directory, max_length=12, device="cpu").sentence_transformer  # truncates the longest sentence
    if request.param == "padded":
        unpack(model)
    assert is_packed(model) == (request.param == "packed")
    return model


def assert_equal_features(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            assert actual[name].dtype == value.dtype, name
            assert torch.equal(actual[name], value), name
        else:
            assert actual[name] == value, name


@pytest.mark.parametrize("prompt", ["", "내일 아침: "])
def test_batches_equal_those_of_preprocess(model, sentences, monkeypatch, prompt):
    for module in (tokenized_corpus, word_tokens):
        monkeypatch.setattr(module, "_BLOCK", 3)
    if prompt:
        model.prompts, model.default_prompt_name = {"query": prompt}, "query"
    sentences = [*sentences, "ｗｉｄｅ\u200b  비가 온다", ""]
    corpus = TokenizedCorpus(model, sentences)
    for numbers in ([0], [5, 0, 4], [3, 3, 1], [9], list(range(len(sentences)))):
        expected = model.preprocess([clean(sentences[number]) for number in numbers], prompt=prompt or None)
        assert_equal_features(corpus.batch(np.array(numbers)), expected)
    assert corpus.lengths.max() == 12
    with torch.inference_mode():
        features = model.preprocess([clean(sentence) for sentence in sentences[:8]], prompt=prompt or None)
        expected = model(features)["sentence_embedding"]
        assert torch.equal(model(corpus.batch(np.arange(8)))["sentence_embedding"], expected)


def test_features_from_ids_equal_those_of_preprocess(model, sentences):
    prepared = TorchEncoder(model).prepare(sentences)
    expected = model.preprocess(sentences)
    assert_equal_features(features_from_ids(model, prepared.inputs, feature_names(model)), expected)
    assert prepared.truncated == 1
    assert prepared.lengths == [min(length, 12) for length in map(len, model.tokenizer(sentences)["input_ids"])]


@pytest.mark.parametrize("include_prompt", [True, False])
@pytest.mark.parametrize("layout", ["packed", "right", "left"])
def test_training_and_encode_see_the_same_tokens_with_a_default_prompt(
    tiny_bert, sentences, tmp_path, layout, include_prompt
):
    """A saved model with a default prompt, loaded as a recipe loads it: the pooling mode is named again."""
    encoder = load(tiny_bert, device="cpu", backend="torch")
    encoder.sentence_transformer.prompts = {"query": "내일 아침 "}
    encoder.sentence_transformer.default_prompt_name = "query"
    encoder.sentence_transformer.set_pooling_include_prompt(include_prompt)
    encoder.save(tmp_path / "model")
    encoder = load_torch(tmp_path / "model", pooling="mean", max_length=12, device="cpu")
    model = encoder.sentence_transformer
    assert [module.include_prompt for module in model if hasattr(module, "include_prompt")] == [include_prompt]
    if layout != "packed":
        unpack(model)
        model.tokenizer.padding_side = layout
    seen = []

    def record(module, arguments):
        ids, mask = arguments[0]["input_ids"], arguments[0].get("attention_mask")
        if mask is None:
            rows = ids[0].split(arguments[0]["cu_seq_lens_q"].diff().tolist())
        else:
            rows = [row[kept.bool()] for row, kept in zip(ids, mask, strict=True)]
        seen.append(sorted(tuple(row.tolist()) for row in rows))

    model[0].register_forward_pre_hook(record)
    expected = encoder.encode(sentences, batch_size=len(sentences), token_budget=10_000)
    with torch.inference_mode():
        features = TokenizedCorpus(model, sentences).batch(np.arange(len(sentences)))
        vectors = model(features)["sentence_embedding"].numpy()
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert seen[0] == seen[1]
    prompt = model.tokenizer("내일 아침", add_special_tokens=False)["input_ids"]
    assert all(row[1 : 1 + len(prompt)] == tuple(prompt) for row in seen[1])


words = st.text("가나오늘 비눈.[]漢é\u0301İ👨\u200dA　\n", max_size=6) | st.sampled_from(
    ["날씨는", "[MASK]", "[SEP]", "가" * 120]
)
texts = st.lists(words, max_size=80).map(" ".join)


@cache
def bert_tokenizer(directory):
    return load_torch(directory).sentence_transformer.tokenizer


@given(st.lists(texts, min_size=1, max_size=12), st.sampled_from([4, 5, 16, 64]), st.sampled_from([2, 10_000]))
def test_tokens_of_words_are_the_tokens_of_the_sentence(tiny_bert, sentences, max_length, block):
    tokenizer = bert_tokenizer(tiny_bert)
    assert splits_at_spaces(tokenizer)
    sentences = [clean(sentence) for sentence in sentences]
    expected = tokenizer(sentences, truncation=True, max_length=max_length)["input_ids"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_tokens, "_BLOCK", block)
        blocks = list(tokenize_by_words(tokenizer, sentences, max_length))
    lengths, ids = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    assert [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] == expected


def test_other_tokenizers_take_whole_sentences(tiny_bert, tiny_roberta):
    assert not splits_at_spaces(load_torch(tiny_roberta).sentence_transformer.tokenizer)
    tokenizer = load_torch(tiny_bert).sentence_transformer.tokenizer
    tokenizer.add_tokens(["오늘 날씨"])  # a token across words
    assert not splits_at_spaces(tokenizer)


def test_hashes_are_equal_for_equal_sentences_only():
    sentences = [[2, 5, 3], [2, 3, 5], [5, 2, 3], [2, 5], [2, 5, 3], [], [0], [0, 0], []]
    lengths = np.array([len(sentence) for sentence in sentences])
    hashes = hash_sentences(np.array([token for sentence in sentences for token in sentence]), lengths).tolist()
    for first, first_hash in zip(sentences, hashes, strict=True):
        assert [first == second for second in sentences] == [first_hash == second_hash for second_hash in hashes]
    assert hashes[:2] == hash_sentences(np.array([2, 5, 3, 2, 3, 5], np.int32), np.array([3, 3])).tolist()
    assert hashes[0] == -5686370150999792221  # in every process
