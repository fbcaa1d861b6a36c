"""Fewer layers and PCA: the result is a normal model with the expected weights."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import kosbert
from kosbert.errors import UsageError
from kosbert.model.compress import fewer_layers, kept_layers, with_pca
from kosbert.model.from_scratch import new_backbone
from kosbert.model.similarity import unit
from kosbert.model.torch_loading import load_torch

SUBJECTS = ("남자가", "여자가", "아이가", "고양이가", "사람이")
OBJECTS = ("기타를", "노래를", "음식을", "물을", "책을", "영화를")
VERBS = ("본다", "좋다", "한다", "간다")
TEXTS = [f"{subject} {noun} {verb}" for subject in SUBJECTS for noun in OBJECTS for verb in VERBS]


@pytest.fixture(scope="module")
def five_layers(tmp_path_factory, sentences):
    shape = {"layers": 5, "hidden_size": 32, "heads": 2, "vocab_size": 300, "dropout": 0.0}
    encoder = new_backbone(sentences, **shape, pooling="cls", max_length=32, seed=0)
    return encoder.save(tmp_path_factory.mktemp("five") / "model")


def test_kept_layers_are_evenly_spaced():
    assert kept_layers(12, 4) == [0, 4, 7, 11]
    assert kept_layers(12, 6) == [0, 2, 4, 7, 9, 11]
    assert kept_layers(12, 12) == list(range(12))
    assert kept_layers(12, 1) == [11]
    for total in range(1, 25):
        assert all(len(set(kept_layers(total, layers))) == layers for layers in range(1, total + 1))


@pytest.mark.parametrize("pooling", [None, "mean", "first-last"])
def test_student_has_the_weights_of_the_kept_layers(five_layers, sentences, tmp_path, pooling):
    teacher = kosbert.load(five_layers).sentence_transformer[0].model
    student = fewer_layers(five_layers, 3, pooling=pooling, max_length=16)
    layers = student.sentence_transformer[0].model.encoder.layer
    for layer, number in zip(layers, (0, 2, 4), strict=True):
        expected = teacher.encoder.layer[number].state_dict()
        assert all(torch.equal(value, expected[name]) for name, value in layer.state_dict().items())
    path = student.save(tmp_path / "student")
    stock = SentenceTransformer(str(path))
    assert len(stock[0].model.encoder.layer) == 3
    np.testing.assert_allclose(stock.encode(sentences), student.encode(sentences), atol=1e-5)
    np.testing.assert_array_equal(kosbert.load(path).encode(sentences), student.encode(sentences))
    assert np.abs(student.encode(sentences) - kosbert.load(five_layers, pooling=pooling).encode(sentences)).max() > 1e-3


def test_all_layers_give_the_same_model(tiny_roberta, sentences):
    expected = kosbert.load(tiny_roberta).encode(sentences)
    np.testing.assert_array_equal(fewer_layers(tiny_roberta, 2).encode(sentences), expected)


def test_zero_layers_average_the_embeddings(tiny_bert, sentences, tmp_path):
    encoder = fewer_layers(tiny_bert, 0, pooling="mean")
    model = encoder.sentence_transformer
    tokens = model.tokenizer(sentences[:1], return_tensors="pt")
    with torch.no_grad():
        expected = model[0].model.embeddings(input_ids=tokens["input_ids"]).mean(1).numpy()
    np.testing.assert_allclose(encoder.encode(sentences[:1]), expected, atol=1e-5)
    loaded = kosbert.load(encoder.save(tmp_path / "words"))
    np.testing.assert_allclose(loaded.encode(sentences), encoder.encode(sentences), atol=1e-6)


def test_too_many_layers_are_an_error(tiny_bert):
    with pytest.raises(UsageError, match="has 2 layers: give from 0 to 2 for layers, not 3"):
        fewer_layers(tiny_bert, 3)


def cosines(vectors):
    vectors = unit(vectors)
    return vectors @ vectors.T


def test_pca_with_all_axes_keeps_cosines_and_with_few_beats_truncation(tiny_bert):
    encoder = load_torch(tiny_bert)
    original = encoder.encode(TEXTS)
    rotated = with_pca(encoder, TEXTS, encoder.dim)
    np.testing.assert_allclose(cosines(rotated.encode(TEXTS)), cosines(original), atol=1e-5)
    reduced = with_pca(encoder, TEXTS, 4)
    assert reduced.dim == 4
    error = np.abs(cosines(reduced.encode(TEXTS)) - cosines(original)).mean()
    assert error < 0.8 * np.abs(cosines(original[:, :4]) - cosines(original)).mean()


def test_pca_keeps_the_default_prompt(tiny_bert):
    encoder = load_torch(tiny_bert)
    encoder.sentence_transformer.prompts["query"] = "내일 아침 질문: "
    encoder.sentence_transformer.default_prompt_name = "query"
    rotated = with_pca(encoder, TEXTS, encoder.dim)
    np.testing.assert_allclose(cosines(rotated.encode(TEXTS)), cosines(encoder.encode(TEXTS)), atol=1e-5)


def test_pca_is_the_best_approximation_of_its_rank(tiny_bert):
    encoder = load_torch(tiny_bert)
    vectors = unit(encoder.encode(TEXTS))
    weight = with_pca(encoder, TEXTS, 5).sentence_transformer[-1].linear.weight.detach().numpy()
    left, values, right = np.linalg.svd(vectors, full_matrices=False)
    best = (left[:, :5] * values[:5]) @ right[:5]
    np.testing.assert_allclose(vectors @ weight.T @ weight, best, atol=1e-4)


def test_pca_model_is_saved_and_loaded(tiny_bert, tmp_path):
    reduced = with_pca(load_torch(tiny_bert), TEXTS, 6)
    reduced.save(tmp_path / "reduced")
    np.testing.assert_allclose(kosbert.load(tmp_path / "reduced").encode(TEXTS), reduced.encode(TEXTS), atol=1e-5)


def test_impossible_pca_is_an_error(tiny_bert):
    encoder = load_torch(tiny_bert)
    with pytest.raises(UsageError, match="dim 0 is impossible"):
        with_pca(encoder, TEXTS, 0)
    with pytest.raises(UsageError, match="2 sentences are too few for 3 axes: give more text"):
        with_pca(encoder, ["하나", "둘", "하나"], 3)
