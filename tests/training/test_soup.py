"""A greedy soup is never worse on dev than its best model; a weighted one averages all models."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kosbert.data.records import ScoredPair
from kosbert.errors import UsageError
from kosbert.model.torch_loading import load_torch
from kosbert.training.soup import average, greedy, soup


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=6), st.floats(-10, 10))
def test_greedy_is_never_worse_than_the_best_model(values, target):
    states = [{"w": torch.tensor([value], dtype=torch.float64)} for value in values]

    def score(state):
        return -abs(float(state["w"]) - target)

    chosen, best, single_scores = greedy(states, score)
    assert single_scores == [score(state) for state in states]
    assert best >= max(single_scores)
    assert best == score(average([states[number] for number in chosen]))
    assert len(set(chosen)) == len(chosen)


def test_integer_tensors_are_not_averaged():
    result = average(
        [{"ids": torch.tensor([1]), "w": torch.tensor([1.0])}, {"ids": torch.tensor([9]), "w": torch.tensor([2.0])}]
    )
    assert result["ids"].tolist() == [1]
    assert result["w"].tolist() == [1.5]


def test_average_with_weights():
    states = [{"w": torch.tensor([0.0])}, {"w": torch.tensor([5.0])}]
    assert average(states, [4, 1])["w"].tolist() == [1.0]


@pytest.fixture
def variants(tiny_bert, tmp_path):
    """Return two models with opposite perturbations; their average is the tiny model."""
    paths = []
    for sign in (1, -1):
        encoder = load_torch(tiny_bert)
        draw = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in encoder.sentence_transformer.parameters():
                parameter += sign * 0.3 * torch.randn(parameter.shape, generator=draw)
        paths.append(encoder.save(tmp_path / f"variant{sign}", {"scores": {"dev": 1}, "seed": sign}))
    return paths


def test_soup_of_opposite_perturbations_is_the_original_model(variants, tiny_bert, sentences, tmp_path):
    plain = load_torch(tiny_bert)
    cosines = plain.similarity(sentences, sentences)
    pairs = [
        ScoredPair(sentences[first], sentences[second], float(cosines[first, second]))
        for first, second in itertools.combinations(range(len(sentences)), 2)
    ]
    result = soup(variants, {"dev": pairs}, tmp_path / "soup")
    assert len(result.ingredients) == 2
    assert result.score > max(result.dev.values())
    assert result.score == pytest.approx(1)
    loaded = load_torch(result.path)
    np.testing.assert_allclose(loaded.encode(sentences), plain.encode(sentences), atol=1e-5)
    assert "scores" not in loaded.card
    assert loaded.card["soup"]["ingredients"] == result.ingredients


def test_with_weights_all_models_are_averaged(variants, tiny_bert, sentences, tmp_path):
    pairs = [ScoredPair(sentences[0], sentence, float(number)) for number, sentence in enumerate(sentences[1:])]
    result = soup([variants[0], tiny_bert], {"dev": pairs}, tmp_path / "soup", weights=[1, 3])
    loaded, plain, pushed = (load_torch(path).sentence_transformer for path in (result.path, tiny_bert, variants[0]))
    for name, value in loaded.state_dict().items():
        torch.testing.assert_close(value, 0.25 * pushed.state_dict()[name] + 0.75 * plain.state_dict()[name])
    assert load_torch(result.path).card["soup"]["weights"] == [1, 3]
    for wrong in ([1], [1, 0], [1, float("nan")], [1, float("inf")]):
        with pytest.raises(UsageError, match="2 models need as many weights above 0"):
            soup(variants, {"dev": pairs}, tmp_path / "other", weights=wrong)


def test_incompatible_models_are_usage_errors(variants, tiny_roberta, tmp_path, sentences):
    with pytest.raises(UsageError, match="two models or more"):
        soup(variants[:1], {}, tmp_path / "soup")
    with pytest.raises(UsageError, match="differ in shapes or vocabulary"):
        soup([variants[0], tiny_roberta], {}, tmp_path / "soup")
    for number, change in enumerate(({"pooling": "cls"}, {"max_length": 16})):
        incompatible = load_torch(variants[1], **change).save(tmp_path / f"other{number}")
        with pytest.raises(UsageError, match="differ in pooling or max_length"):
            soup([variants[0], incompatible], {}, tmp_path / "soup")
    assert not (tmp_path / "soup").exists()
