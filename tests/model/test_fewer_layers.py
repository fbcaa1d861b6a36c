"""Some layers of a trained model: which, and that the result is a model like any other."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from kosbert.errors import UsageError
from kosbert.model import load
from kosbert.model.fewer_layers import fewer_layers, kept
from kosbert.model.from_scratch import new_backbone


@pytest.fixture(scope="module")
def five_layers(tmp_path_factory, sentences):
    shape = {"layers": 5, "hidden_size": 32, "heads": 2, "vocab_size": 300, "dropout": 0.0}
    encoder = new_backbone(sentences, **shape, pooling="cls", max_length=32, seed=0)
    return encoder.save(tmp_path_factory.mktemp("five") / "model")


def test_which_layers_stay():
    assert kept(12, 4) == [0, 4, 7, 11]
    assert kept(12, 6) == [0, 2, 4, 7, 9, 11]
    assert kept(12, 12) == list(range(12))
    assert kept(12, 1) == [11]
    assert all(len(set(kept(every, some))) == some for every in range(1, 25) for some in range(1, every + 1))


@pytest.mark.parametrize("pooling", [None, "mean", "first-last"])
def test_the_layers_are_the_models(five_layers, sentences, tmp_path, pooling):
    whole = load(five_layers).sentence_transformer[0].model
    student = fewer_layers(five_layers, 3, pooling=pooling, max_length=16)
    layers = student.sentence_transformer[0].model.encoder.layer
    for mine, number in zip(layers, (0, 2, 4), strict=True):
        theirs = whole.encoder.layer[number].state_dict()
        assert all(torch.equal(value, theirs[name]) for name, value in mine.state_dict().items())
    path = student.save(tmp_path / "student")
    plain = SentenceTransformer(str(path))
    assert len(plain[0].model.encoder.layer) == 3
    np.testing.assert_allclose(plain.encode(sentences), student.encode(sentences), atol=1e-5)
    np.testing.assert_array_equal(load(path).encode(sentences), student.encode(sentences))
    assert np.abs(student.encode(sentences) - load(five_layers, pooling=pooling).encode(sentences)).max() > 1e-3


def test_all_layers_are_the_model(tiny_roberta, sentences):
    np.testing.assert_array_equal(fewer_layers(tiny_roberta, 2).encode(sentences), load(tiny_roberta).encode(sentences))


def test_no_layer_is_the_average_of_the_word_vectors(tiny_bert, sentences, tmp_path):
    words = fewer_layers(tiny_bert, 0, pooling="mean")
    model = words.sentence_transformer
    tokens = model.tokenizer(sentences[:1], return_tensors="pt")
    with torch.no_grad():
        expected = model[0].model.embeddings(input_ids=tokens["input_ids"]).mean(1).numpy()
    np.testing.assert_allclose(words.encode(sentences[:1]), expected, atol=1e-5)
    again = load(words.save(tmp_path / "words"))
    np.testing.assert_allclose(again.encode(sentences), words.encode(sentences), atol=1e-6)


def test_too_many(tiny_bert):
    with pytest.raises(UsageError, match="has 2 layers: give from 0 to 2 for layers, not 3"):
        fewer_layers(tiny_bert, 3)
