import pytest
import torch

from kosbert.losses.forward import embed

FIRST = ["비가 온다", "오늘 날씨가 맑다", "고양이가 잔다"]
SECOND = ["눈이 온다", "내일 날씨가 흐리다", "비가 온다"]


@pytest.mark.parametrize("layout", ["flat", "padded"])
@pytest.mark.parametrize("training", [True, False])
def test_one_forward_equals_one_call_per_column_without_dropout(tiny, tokens, layout, training):
    for module in tiny.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    tiny.train(training)
    columns = [tokens(FIRST, layout), tokens(SECOND, layout)]
    for joined, column in zip(embed(tiny, columns), columns, strict=True):
        torch.testing.assert_close(joined, tiny(dict(column))["sentence_embedding"], atol=1e-6, rtol=1e-5)


def test_flat_and_padded_layouts_give_the_same_embeddings(tiny, tokens):
    tiny.eval()
    flat, padded = (embed(tiny, [tokens(FIRST, layout), tokens(SECOND, layout)]) for layout in ("flat", "padded"))
    torch.testing.assert_close(torch.cat(flat), torch.cat(padded), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("layout", ["flat", "padded"])
def test_all_columns_are_embedded_in_one_call(table, layouts, layout):
    model = table([[float(row), 1.0] for row in range(6)])
    make = getattr(layouts, layout)
    u, v, w = embed(model, [make([[0], [1]]), make([[2], [3]]), make([[4], [5]])])
    assert model.calls == [6]
    assert torch.cat([u, v, w])[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_columns_of_very_different_width_are_embedded_separately(table, layouts):
    model = table([[float(row), 1.0] for row in range(4)])
    u, v = embed(model, [layouts.padded([[0], [1]]), layouts.padded([[2] * 9, [3] * 9])])
    assert model.calls == [2, 2]
    assert torch.cat([u, v])[:, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("layout", ["flat", "padded"])
def test_a_repeated_sentence_is_encoded_once_and_collects_all_gradients(table, layouts, layout):
    model = table([[1.0, 2.0], [3.0, 4.0]])
    make = getattr(layouts, layout)
    u, v = embed(model, [make([[0], [1], [0]]), make([[1], [0], [0]])])
    assert model.calls == [2]
    assert torch.equal(u, model.rows[[0, 1, 0]])
    assert torch.equal(v, model.rows[[1, 0, 0]])
    torch.cat([u, v]).sum().backward()
    assert model.rows.grad.tolist() == [[4.0, 4.0], [2.0, 2.0]]


def test_with_dropout_repeated_sentences_have_different_masks(table, column):
    model = table([[1.0] * 64], dropout=0.5)
    (vectors,) = embed(model, [column(0, 0)])
    assert model.calls == [2]
    assert not torch.equal(vectors[0], vectors[1])
    model.eval()
    embed(model, [column(0, 0)])
    assert model.calls == [2, 1]


def test_embed_does_not_change_the_features(tiny, tokens):
    columns = [tokens(FIRST, "padded"), tokens(SECOND, "padded")]
    before = [set(column) for column in columns]
    embed(tiny, columns[:1])
    embed(tiny, columns)
    assert [set(column) for column in columns] == before
