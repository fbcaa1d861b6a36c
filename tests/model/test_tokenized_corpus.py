"""Batches cut from sentences tokenized once are those that the model itself makes."""

import numpy as np
import pytest
import torch

from kosbert.model import load, tokenized_corpus
from kosbert.model.packing import is_packed, unpack
from kosbert.model.tokenized_corpus import TokenizedCorpus
from kosbert.text import clean


@pytest.fixture(params=["bert", "roberta"])
def directory(request):
    return request.getfixturevalue(f"tiny_{request.param}")


@pytest.fixture(params=["packed", "padded"])
def model(directory, request):
    found = load(directory, max_length=12, device="cpu").sentence_transformer  # the longest sentence is cut off
    if request.param == "padded":
        unpack(found)
    assert is_packed(found) == (request.param == "packed")
    return found


def test_batches_are_those_of_the_model(model, sentences, monkeypatch):
    monkeypatch.setattr(tokenized_corpus, "_BLOCK", 3)
    sentences = [*sentences, "ｗｉｄｅ\u200b  비가 온다", ""]
    made = TokenizedCorpus(model, sentences)
    for numbers in ([0], [5, 0, 4], [3, 3, 1], [9], list(range(len(sentences)))):
        expected = model.preprocess([clean(sentences[number]) for number in numbers])
        found = made.batch(np.array(numbers))
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            if isinstance(value, torch.Tensor):
                assert found[key].dtype == value.dtype, key
                assert torch.equal(found[key], value), key
            else:
                assert found[key] == value, key
    assert made.lengths.max() == 12
    with torch.inference_mode():
        ours, theirs = (model(each)["sentence_embedding"] for each in (made.batch(np.arange(8)),
                        model.preprocess([clean(each) for each in sentences[:8]])))  # fmt: skip
    assert torch.equal(ours, theirs)
