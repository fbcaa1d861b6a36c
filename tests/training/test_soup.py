"""A soup is the average where that is better, and never worse than its best ingredient."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from kosbert.data.records import ScoredPair
from kosbert.errors import UsageError
from kosbert.model.torch_loading import load_torch
from kosbert.training.soup import average, greedy, soup


@given(some.lists(some.floats(-10, 10), min_size=1, max_size=6), some.floats(-10, 10))
def test_never_worse_than_the_best(values, target):
    states = [{"w": torch.tensor([value], dtype=torch.float64)} for value in values]

    def score(state):
        return -abs(float(state["w"]) - target)

    chosen, best, own = greedy(states, score)
    assert own == [score(state) for state in states]
    assert best >= max(own)
    assert best == score(average([states[number] for number in chosen]))
    assert len(set(chosen)) == len(chosen)


def test_whole_numbers_are_not_averaged():
    made = average(
        [{"ids": torch.tensor([1]), "w": torch.tensor([1.0])}, {"ids": torch.tensor([9]), "w": torch.tensor([2.0])}]
    )
    assert made["ids"].tolist() == [1]
    assert made["w"].tolist() == [1.5]


def test_shares_weigh():
    states = [{"w": torch.tensor([0.0])}, {"w": torch.tensor([5.0])}]
    assert average(states, [4, 1])["w"].tolist() == [1.0]


@pytest.fixture
def variants(tiny_bert, tmp_path):
    """The tiny model pushed into opposite directions: the average is the model itself."""
    paths = []
    for sign in (1, -1):
        encoder = load_torch(tiny_bert)
        draw = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in encoder.sentence_transformer.parameters():
                parameter += sign * 0.3 * torch.randn(parameter.shape, generator=draw)
        paths.append(encoder.save(tmp_path / f"variant{sign}", {"scores": {"dev": 1}, "seed": sign}))
    return paths


def test_the_average_of_two_directions(variants, tiny_bert, sentences, tmp_path):
    plain = load_torch(tiny_bert)
    cosines = plain.similarity(sentences, sentences)
    pairs = [
        ScoredPair(sentences[one], sentences[two], float(cosines[one, two]))
        for one, two in itertools.combinations(range(len(sentences)), 2)
    ]
    made = soup(variants, {"dev": pairs}, tmp_path / "soup")
    assert len(made.ingredients) == 2
    assert made.score > max(made.dev.values())
    assert made.score == pytest.approx(1)
    loaded = load_torch(made.path)
    np.testing.assert_allclose(loaded.encode(sentences), plain.encode(sentences), atol=1e-5)
    assert "scores" not in loaded.card
    assert loaded.card["soup"]["ingredients"] == made.ingredients


def test_with_shares_nothing_is_chosen(variants, tiny_bert, sentences, tmp_path):
    pairs = [ScoredPair(sentences[0], other, float(number)) for number, other in enumerate(sentences[1:])]
    made = soup([variants[0], tiny_bert], {"dev": pairs}, tmp_path / "soup", weights=[1, 3])
    loaded, plain, pushed = (load_torch(each).sentence_transformer for each in (made.path, tiny_bert, variants[0]))
    for name, value in loaded.state_dict().items():
        torch.testing.assert_close(value, 0.25 * pushed.state_dict()[name] + 0.75 * plain.state_dict()[name])
    assert load_torch(made.path).card["soup"]["weights"] == [1, 3]
    for wrong in ([1], [1, 0], [1, float("nan")], [1, float("inf")]):
        with pytest.raises(UsageError, match="2 models need as many weights above 0"):
            soup(variants, {"dev": pairs}, tmp_path / "other", weights=wrong)


def test_what_cannot_be_mixed(variants, tiny_roberta, tmp_path, sentences):
    with pytest.raises(UsageError, match="two models or more"):
        soup(variants[:1], {}, tmp_path / "soup")
    with pytest.raises(UsageError, match="differ in shapes or vocabulary"):
        soup([variants[0], tiny_roberta], {}, tmp_path / "soup")
    for number, change in enumerate(({"pooling": "cls"}, {"max_length": 16})):
        other = load_torch(variants[1], **change).save(tmp_path / f"other{number}")
        with pytest.raises(UsageError, match="differ in pooling or max_length"):
            soup([variants[0], other], {}, tmp_path / "soup")
    assert not (tmp_path / "soup").exists()
