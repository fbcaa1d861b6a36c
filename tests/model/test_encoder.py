"""The Encoder answers like sentence-transformers, in any form of input, and keeps its manners on bad input."""

import json
import logging
import threading

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, StaticEmbedding, Transformer

from kosbert.errors import KosbertError, UsageError
from kosbert.model import METRICS, Encoder, load
from kosbert.model import encoder as encoder_module
from kosbert.model.packing import is_packed


@pytest.fixture(scope="module")
def encoder(tiny_bert) -> Encoder:
    return load(tiny_bert)


@pytest.fixture(scope="module")
def reference(tiny_bert) -> SentenceTransformer:
    backbone = Transformer(str(tiny_bert))
    return SentenceTransformer(modules=[backbone, Pooling(32, "mean")], device="cpu")


def test_vectors_equal_those_of_sentence_transformers(encoder, reference, sentences):
    vectors = encoder.encode(sentences)
    assert vectors.dtype == np.float32
    assert vectors.shape == (8, 32) == (len(sentences), encoder.dim)
    np.testing.assert_allclose(vectors, reference.encode(sentences), atol=1e-5)


@pytest.mark.parametrize(
    "form", [list, tuple, iter, np.array, lambda s: np.array(s, dtype=object), lambda s: (x for x in s)]
)
def test_every_form_of_input(form, encoder, sentences):
    np.testing.assert_array_equal(encoder.encode(form(sentences)), encoder.encode(sentences))


def test_one_string_gives_one_vector(encoder, sentences):
    vector = encoder.encode(sentences[0])
    assert vector.shape == (32,)
    np.testing.assert_allclose(vector, encoder.encode(sentences)[0], atol=1e-5)


def test_nothing_and_the_empty_string(encoder):
    assert encoder.encode([]).shape == (0, 32)
    assert encoder.encode([], dim=8, output="torch").shape == (0, 8)
    assert encoder.encode(iter(())).shape == (0, 32)
    assert np.isfinite(encoder.encode(["", " ", "\u200b", "😀", "\ud83d"])).all()
    assert np.isfinite(encoder.encode(["\ud83d 눈"], clean=False)).all()


def test_order_and_repeats_survive_windows_and_budgets(encoder, sentences, monkeypatch):
    texts = [sentences[index % 7] for index in (np.arange(30) * 37) % 11]
    expected = np.stack([encoder.encode(text) for text in sentences])[[sentences.index(text) for text in texts]]
    for window in (1, 4, 100):
        monkeypatch.setattr(encoder_module, "windows", lambda s, w=window: _windows(s, w))
        for budget in (1, 20, 10_000):
            found = encoder.encode(iter(texts), token_budget=budget)
            np.testing.assert_allclose(found, expected, atol=1e-5)


_windows = encoder_module.windows


def test_a_stream_is_read_only_as_far_as_it_is_used(encoder, monkeypatch):
    monkeypatch.setattr(encoder_module, "windows", lambda s: _windows(s, 10))
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield "비가 온다."

    stream = encoder.encode_stream(endless())
    assert next(stream).shape == (10, 32)
    assert len(taken) == 10


def test_equal_sentences_are_computed_once(encoder, monkeypatch):
    seen = []
    original = SentenceTransformer.preprocess
    monkeypatch.setattr(
        SentenceTransformer,
        "preprocess",
        lambda self, texts, **kw: (seen.extend(texts), original(self, texts, **kw))[1],
    )
    encoder.encode(["비가 온다.", "눈", "비가 온다."])
    assert sorted(seen) == ["눈", "비가 온다."]


def test_normalize_and_dim(encoder, sentences):
    whole = encoder.encode(sentences)
    np.testing.assert_allclose(np.linalg.norm(encoder.encode(sentences, normalize=True), axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(sentences, dim=8), whole[:, :8], atol=1e-6)
    short = encoder.encode(sentences, dim=8, normalize=True)  # shortened first, so its length is 1 again
    np.testing.assert_allclose(np.linalg.norm(short, axis=1), 1, atol=1e-6)
    tensor = encoder.encode(sentences, output="torch")
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.float32
    np.testing.assert_array_equal(tensor.numpy(), whole)


def test_text_is_cleaned_unless_told_not_to(encoder):
    clean, dirty = "비가 온다.", "비가\u200b  온다．"
    np.testing.assert_allclose(encoder.encode(dirty), encoder.encode(clean), atol=1e-6)
    assert np.abs(encoder.encode(dirty, clean=False) - encoder.encode(clean)).max() > 1e-3


def test_one_warning_names_how_many_were_cut(encoder, caplog):
    long = "비가 온다. " * 100
    with caplog.at_level(logging.WARNING):
        vectors = encoder.encode([long, "눈", long, long + "눈"], token_budget=10)
    assert [record.message.split(" of ")[0] for record in caplog.records if "kosbert" in record.name] == ["3"]
    assert "64" in caplog.text
    np.testing.assert_allclose(vectors[0], vectors[3], atol=1e-5)
    caplog.clear()
    encoder.encode(["비가 온다."])
    assert not [record for record in caplog.records if "kosbert" in record.name]  # others may log from their threads


@pytest.mark.parametrize(
    ("sentences", "problem"),
    [
        (["눈", None], "sentence 1 is a NoneType"),
        (["눈", "비", 3.5], "sentence 2 is a float"),
        ([b"abc"], "sentence 0 is a bytes"),
        ([["눈"]], "sentence 0 is a list"),
        (b"abc", "bytes is not a list"),
        (7, "int is not a list"),
        ({"눈": "비"}, "dict is not a list"),  # would silently be its keys
        (None, "NoneType is not a list"),
        (np.array([["눈"]]), "array of shape"),
    ],
)
def test_wrong_input_is_named_in_one_sentence(encoder, sentences, problem):
    with pytest.raises(UsageError, match=problem) as caught:
        encoder.encode(sentences)
    assert "\n" not in str(caught.value)
    assert "; give" in str(caught.value)


@pytest.mark.parametrize("options", [{"dim": 0}, {"dim": 33}, {"token_budget": 0}, {"output": "list"}])
def test_wrong_options(encoder, options):
    with pytest.raises(UsageError):
        encoder.encode(["눈"], **options)


@pytest.mark.parametrize("metric", METRICS)
def test_similarity_equals_sentence_transformers(encoder, reference, sentences, metric):
    reference.similarity_fn_name = metric
    vectors = encoder.encode(sentences)
    expected = reference.similarity(vectors, vectors[:3]).numpy()
    for left, right in (
        (sentences, sentences[:3]),
        (vectors, vectors[:3]),
        (torch.from_numpy(vectors), iter(sentences[:3])),
    ):
        found = encoder.similarity(left, right, metric)
        assert found.shape == (8, 3)
        np.testing.assert_allclose(found, expected, atol=2e-3 if metric == "euclidean" else 1e-4, rtol=1e-4)
    assert encoder.similarity("눈", "비").shape == (1, 1)
    assert (encoder.similarity(sentences, sentences, metric).argmax(1) == np.arange(8)).all() or metric == "dot"


def test_similarity_known_answers(encoder):
    left, right = [[3.0, 4.0]], [[6.0, 8.0], [4.0, -3.0], [0.0, 0.0]]
    np.testing.assert_allclose(encoder.similarity(left, right), [[1, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(left, right, "dot"), [[50, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(left, right, "euclidean"), [[-5, -np.sqrt(50), -5]], atol=1e-5)
    np.testing.assert_allclose(encoder.similarity(left, right, "manhattan"), [[-7, -8, -7]], atol=1e-5)


def test_similarity_refuses_what_cannot_be_compared(encoder):
    for left, right, metric in (
        ("눈", "비", "cosin"),
        (np.ones((2, 3)), np.ones((2, 4)), "cosine"),
        (np.ones((2, 3, 4)), "비", "cosine"),
        ([[1.0, 2.0], [3.0]], "비", "cosine"),
        (7, "비", "cosine"),
    ):
        with pytest.raises(UsageError):
            encoder.similarity(left, right, metric)


def test_saved_model_loads_everywhere_with_equal_vectors(tiny_roberta, sentences, tmp_path):
    for pooling in ("mean", "max", "cls", "first-last"):
        original = load(tiny_roberta, pooling=pooling)
        expected = original.encode(sentences)
        target = original.save(tmp_path / pooling, card={"seed": 1, "data": "예"})
        assert not list(target.rglob("*.bin"))
        stock = SentenceTransformer(str(target), device="cpu")
        assert not is_packed(stock)
        assert np.abs(stock.encode(sentences) - expected).max() < 1e-5
        again = load(target)
        assert np.abs(again.encode(sentences) - expected).max() < 1e-5
        assert (
            again.card == {"seed": 1, "data": "예"} == json.loads((target / "kosbert.json").read_text(encoding="utf-8"))
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cls", "first-last", "max", "mean"]  # no litter


def test_stock_model_with_projection_and_prompt_loads_here(tiny_bert, sentences, tmp_path):
    modules = [Transformer(str(tiny_bert)), Pooling(32, ("cls", "mean")), Dense(64, 16), Normalize()]
    stock = SentenceTransformer(modules=modules, device="cpu", prompts={"비": "비가 온다. "}, default_prompt_name="비")
    stock.save(str(tmp_path / "stock"))
    encoder = load(tmp_path / "stock")
    assert is_packed(encoder.sentence_transformer)
    assert encoder.dim == 16
    assert np.abs(encoder.encode(sentences) - stock.encode(sentences)).max() < 1e-5


def test_saving_replaces_a_model_but_nothing_else(tiny_bert, tmp_path, monkeypatch):
    encoder = load(tiny_bert)
    encoder.save(tmp_path / "model", card={"try": 1})
    encoder.save(tmp_path / "model", card={"try": 2})
    assert load(tmp_path / "model").card == {"try": 2}
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(UsageError, match="is not a model"):
        encoder.save(tmp_path / "photos")
    with pytest.raises(UsageError, match="cannot be written as JSON"):
        encoder.save(tmp_path / "other", card={"model": encoder})
    monkeypatch.setattr(SentenceTransformer, "save", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        encoder.save(tmp_path / "model", card={"try": 3})
    assert load(tmp_path / "model").card == {"try": 2}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "photos"]


def test_threads_take_turns(encoder, sentences):
    expected = encoder.encode(sentences)
    results, failures = [], []

    def work():
        try:
            results.extend(encoder.encode(sentences) for _ in range(5))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(results) == 20
    assert all(np.allclose(result, expected, atol=1e-5) for result in results)


def test_encoding_in_the_middle_of_training_uses_no_dropout(tiny_bert, sentences):
    encoder = load(tiny_bert)
    expected = encoder.encode(sentences)
    encoder.sentence_transformer.train()
    state = torch.get_rng_state()
    np.testing.assert_array_equal(encoder.encode(sentences), expected)
    assert encoder.sentence_transformer.training
    assert torch.equal(torch.get_rng_state(), state)


def test_progress_goes_to_standard_error(encoder, sentences, capsys):
    encoder.encode(sentences, progress=True)
    captured = capsys.readouterr()
    assert "encoding" in captured.err
    assert captured.out == ""


def test_errors_are_kosbert_errors():
    assert issubclass(UsageError, KosbertError)


def test_a_model_without_a_transformer_works_too(tiny_bert, sentences, tmp_path):
    tokenizer = load(tiny_bert).tokenizer.backend_tokenizer
    stock = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu")
    stock.save(str(tmp_path / "static"))
    encoder = load(tmp_path / "static")
    assert encoder.max_length is None
    assert encoder.dim == 16
    found = encoder.encode([*sentences, "비가 온다. " * 100])
    np.testing.assert_allclose(found, stock.encode([*sentences, "비가 온다. " * 100]), atol=1e-5)
