"""PCA as a layer: the full turn changes no cosine, fewer axes keep more than the first dimensions do."""

import numpy as np
import pytest

import kosbert
from kosbert.errors import UsageError
from kosbert.model.pca import main_axes
from kosbert.model.similarity import unit
from kosbert.model.torch_loading import load_torch

WHO = ("남자가", "여자가", "아이가", "고양이가", "사람이")
WHAT = ("기타를", "노래를", "음식을", "물을", "책을", "영화를")
TEXTS = [f"{who} {what} {how}" for who in WHO for what in WHAT for how in ("본다", "좋다", "한다", "간다")]


def cosines(vectors):
    vectors = unit(vectors)
    return vectors @ vectors.T


def test_all_axes_change_nothing_and_few_keep_most(tiny_bert):
    encoder = load_torch(tiny_bert)
    before = encoder.encode(TEXTS)
    turned = main_axes(encoder, TEXTS, encoder.dim)
    np.testing.assert_allclose(cosines(turned.encode(TEXTS)), cosines(before), atol=1e-5)
    few = main_axes(encoder, TEXTS, 4)
    assert few.dim == 4
    lost = np.abs(cosines(few.encode(TEXTS)) - cosines(before)).mean()
    assert lost < 0.8 * np.abs(cosines(before[:, :4]) - cosines(before)).mean()


def test_the_prompt_stays(tiny_bert):
    encoder = load_torch(tiny_bert)
    encoder.sentence_transformer.prompts["query"] = "내일 아침 질문: "
    encoder.sentence_transformer.default_prompt_name = "query"
    turned = main_axes(encoder, TEXTS, encoder.dim)
    np.testing.assert_allclose(cosines(turned.encode(TEXTS)), cosines(encoder.encode(TEXTS)), atol=1e-5)


def test_the_dot_products_are_the_best_of_their_rank(tiny_bert):
    encoder = load_torch(tiny_bert)
    vectors = unit(encoder.encode(TEXTS))
    layer = main_axes(encoder, TEXTS, 5).sentence_transformer[-1].linear.weight.detach().numpy()
    left, values, right = np.linalg.svd(vectors, full_matrices=False)
    best = (left[:, :5] * values[:5]) @ right[:5]
    np.testing.assert_allclose(vectors @ layer.T @ layer, best, atol=1e-4)


def test_it_is_saved_and_loaded(tiny_bert, tmp_path):
    few = main_axes(load_torch(tiny_bert), TEXTS, 6)
    few.save(tmp_path / "few")
    np.testing.assert_allclose(kosbert.load(tmp_path / "few").encode(TEXTS), few.encode(TEXTS), atol=1e-5)


def test_mistakes(tiny_bert):
    encoder = load_torch(tiny_bert)
    with pytest.raises(UsageError, match="dim 0 is impossible"):
        main_axes(encoder, TEXTS, 0)
    with pytest.raises(UsageError, match="2 sentences cannot show 3 axes: give more text"):
        main_axes(encoder, ["하나", "둘", "하나"], 3)
