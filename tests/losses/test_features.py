import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kosbert.losses.features import count, join, sentence_ids, take

sentence = st.lists(st.integers(1, 9), min_size=1, max_size=6)
columns_of_sentences = st.lists(st.lists(sentence, min_size=1, max_size=4), min_size=1, max_size=3)
unhurried = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def same(one, other):
    assert one.keys() == other.keys()
    for key, value in one.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, other[key]), key
            assert value.dtype == other[key].dtype, key
        else:
            assert value == other[key], key


@unhurried
@given(columns=columns_of_sentences)
def test_joined_flat_columns_are_the_batch_of_all_sentences(layouts, columns):
    joined = join([layouts.flat(column) for column in columns])
    same(joined, layouts.flat([each for column in columns for each in column]))


@unhurried
@given(columns=columns_of_sentences)
def test_joined_padded_columns_are_the_batch_of_all_sentences_unless_too_much_padding(layouts, columns):
    joined = join([layouts.padded(column) for column in columns])
    everyone = [each for column in columns for each in column]
    separate = sum(len(column) * max(map(len, column)) for column in columns)
    if len(everyone) * max(map(len, everyone)) > 1.1 * separate:
        assert joined is None
    else:
        same(joined, layouts.padded(everyone))


@unhurried
@given(data=st.data(), sentences=st.lists(sentence, min_size=1, max_size=6), layout=st.sampled_from(["flat", "padded"]))
def test_taking_sentences_gives_the_batch_of_those_sentences(layouts, data, sentences, layout):
    make = getattr(layouts, layout)
    chosen = data.draw(st.lists(st.integers(0, len(sentences) - 1), min_size=1, max_size=8))
    same(take(make(sentences), chosen), make([sentences[place] for place in chosen]))


@unhurried
@given(sentences=st.lists(sentence, min_size=1, max_size=6))
def test_fingerprints_are_equal_exactly_for_equal_sentences_in_both_layouts(layouts, sentences):
    prints = sentence_ids(layouts.flat(sentences))
    assert torch.equal(prints, sentence_ids(layouts.padded(sentences)))
    assert count(layouts.flat(sentences)) == count(layouts.padded(sentences)) == len(sentences) == len(prints)
    equal = [[one == other for other in sentences] for one in sentences]
    assert (prints[:, None] == prints[None]).tolist() == equal


def test_fingerprints_of_a_bag_of_tokens():
    bag = {"input_ids": torch.tensor([5, 6, 7, 5, 6]), "offsets": torch.tensor([0, 2, 3])}
    first, second, third = sentence_ids(bag).tolist()
    assert first == third != second


@pytest.mark.parametrize("layout", ["flat", "padded"])
def test_columns_that_differ_in_more_than_their_tokens_are_not_joined(layouts, layout):
    one, other = getattr(layouts, layout)([[1, 2]]), getattr(layouts, layout)([[3, 4]])
    assert join([one, other]) is not None
    assert join([one, {**other, "prompt_length": 1}]) is None
    assert join([{**one, "prompt_length": 2}, {**other, "prompt_length": 1}]) is None
    assert join([{**one, "prompt_length": 1}, {**other, "prompt_length": 1}])["prompt_length"] == 1


def test_padding_uses_the_id_of_the_tokenizer(layouts):
    wide, narrow = layouts.padded([[5] * 10]), layouts.padded([[6] * 9])
    joined = join([wide, narrow], padding_id=1)
    assert joined["input_ids"][1].tolist() == [6] * 9 + [1]
    assert joined["attention_mask"][1].tolist() == [1] * 9 + [0]


@pytest.mark.parametrize("layout", ["flat", "padded"])
def test_carried_sentence_ids_are_joined_and_selected_with_the_sentences(layouts, layout):
    make = getattr(layouts, layout)
    columns = [{**batch, "sentence_ids": sentence_ids(batch)} for batch in (make([[1, 2], [3, 4]]), make([[5, 6]]))]
    joined = join(columns)
    hashed = sentence_ids({key: value for key, value in joined.items() if key != "sentence_ids"})
    assert torch.equal(joined["sentence_ids"], hashed)
    assert torch.equal(sentence_ids(take(joined, [2, 0])), hashed[[2, 0]])


def test_carried_sentence_ids_are_not_hashed_again(layouts, monkeypatch):
    monkeypatch.setattr("kosbert.losses.features.hash_tokens", None)
    ids = torch.tensor([7, 8])
    assert torch.equal(sentence_ids({**layouts.flat([[1], [1]]), "sentence_ids": ids}), ids)
