import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kosbert.losses.features import count, join, sentence_ids, take

sentence = st.lists(st.integers(1, 9), min_size=1, max_size=6)
columns_of_sentences = st.lists(st.lists(sentence, min_size=1, max_size=4), min_size=1, max_size=3)
no_deadline = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def assert_same(features, expected):
    assert features.keys() == expected.keys()
    for key, value in features.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, expected[key]), key
            assert value.dtype == expected[key].dtype, key
        else:
            assert value == expected[key], key


@no_deadline
@given(columns=columns_of_sentences)
def test_joined_flat_columns_are_the_batch_of_all_sentences(layouts, columns):
    joined = join([layouts.flat(column) for column in columns])
    assert_same(joined, layouts.flat([ids for column in columns for ids in column]))


@no_deadline
@given(columns=columns_of_sentences)
def test_joined_padded_columns_are_the_batch_of_all_sentences_unless_too_much_padding(layouts, columns):
    joined = join([layouts.padded(column) for column in columns])
    sentences = [ids for column in columns for ids in column]
    separate = sum(len(column) * max(map(len, column)) for column in columns)
    if len(sentences) * max(map(len, sentences)) > 1.5 * separate:
        assert joined is None
    else:
        assert_same(joined, layouts.padded(sentences))


@no_deadline
@given(data=st.data(), sentences=st.lists(sentence, min_size=1, max_size=6), layout=st.sampled_from(["flat", "padded"]))
def test_take_gives_the_batch_of_those_sentences(layouts, data, sentences, layout):
    make = getattr(layouts, layout)
    chosen = data.draw(st.lists(st.integers(0, len(sentences) - 1), min_size=1, max_size=8))
    assert_same(take(make(sentences), chosen), make([sentences[index] for index in chosen]))


@no_deadline
@given(sentences=st.lists(sentence, min_size=1, max_size=6))
def test_sentence_ids_are_equal_exactly_for_equal_sentences_in_both_layouts(layouts, sentences):
    ids = sentence_ids(layouts.flat(sentences))
    assert torch.equal(ids, sentence_ids(layouts.padded(sentences)))
    assert count(layouts.flat(sentences)) == count(layouts.padded(sentences)) == len(sentences) == len(ids)
    equal = [[first == second for second in sentences] for first in sentences]
    assert (ids[:, None] == ids[None]).tolist() == equal


def test_sentence_ids_of_a_bag_of_tokens():
    bag = {"input_ids": torch.tensor([5, 6, 7, 5, 6]), "offsets": torch.tensor([0, 2, 3])}
    first, second, third = sentence_ids(bag).tolist()
    assert first == third != second


@pytest.mark.parametrize(("rows", "device", "joins"), [(10, "cpu", True), (100, "cpu", False), (100, "cuda", True)])
def test_small_batches_and_gpus_prefer_one_call_to_less_padding(layouts, rows, device, joins):
    wide, narrow = layouts.padded([[1] * 30] * rows), layouts.padded([[1] * 20] * rows)  # 1.2 times the tokens
    assert (join([wide, narrow], device_type=device) is not None) == joins


@pytest.mark.parametrize("layout", ["flat", "padded"])
def test_columns_that_differ_in_more_than_their_tokens_are_not_joined(layouts, layout):
    first, second = getattr(layouts, layout)([[1, 2]]), getattr(layouts, layout)([[3, 4]])
    assert join([first, second]) is not None
    assert join([first, {**second, "prompt_length": 1}]) is None
    assert join([{**first, "prompt_length": 2}, {**second, "prompt_length": 1}]) is None
    assert join([{**first, "prompt_length": 1}, {**second, "prompt_length": 1}])["prompt_length"] == 1


def test_padding_uses_the_padding_id_of_the_tokenizer(layouts):
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
    monkeypatch.setattr("kosbert.losses.features.hash_sentences", None)
    ids = torch.tensor([7, 8])
    assert torch.equal(sentence_ids({**layouts.flat([[1], [1]]), "sentence_ids": ids}), ids)
