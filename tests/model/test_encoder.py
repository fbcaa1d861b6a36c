"""`Encoder.encode` and its relatives: equal to sentence-transformers, any input type, clear errors."""

import json
import logging
import threading

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, StaticEmbedding, Transformer

from kosbert.errors import UsageError
from kosbert.model import METRICS, Encoder, TorchEncoder, load
from kosbert.model import encoder as encoder_module
from kosbert.model.packing import is_packed

split_into_windows = encoder_module.windows


@pytest.fixture(scope="module")
def encoder(tiny_bert) -> Encoder:
    return load(tiny_bert)


@pytest.fixture(scope="module")
def reference(tiny_bert) -> SentenceTransformer:
    backbone = Transformer(str(tiny_bert))
    return SentenceTransformer(modules=[backbone, Pooling(32, "mean")], device="cpu")


def test_embeddings_equal_those_of_sentence_transformers(encoder, reference, sentences):
    vectors = encoder.encode(sentences)
    assert vectors.dtype == np.float32
    assert vectors.shape == (8, 32) == (len(sentences), encoder.dim)
    np.testing.assert_allclose(vectors, reference.encode(sentences), atol=1e-5)


@pytest.mark.parametrize(
    "convert", [list, tuple, iter, np.array, lambda s: np.array(s, dtype=object), lambda s: (x for x in s)]
)
def test_input_may_be_any_iterable(convert, encoder, sentences):
    np.testing.assert_array_equal(encoder.encode(convert(sentences)), encoder.encode(sentences))


def test_one_string_gives_one_vector(encoder, sentences):
    vector = encoder.encode(sentences[0])
    assert vector.shape == (32,)
    np.testing.assert_allclose(vector, encoder.encode(sentences)[0], atol=1e-5)


def test_empty_list_and_empty_strings(encoder):
    assert encoder.encode([]).shape == (0, 32)
    assert encoder.encode([], truncate_dim=8, convert_to_tensor=True).shape == (0, 8)
    assert encoder.encode(iter(())).shape == (0, 32)
    assert np.isfinite(encoder.encode(["", " ", "\u200b", "😀", "\ud83d"])).all()
    assert np.isfinite(encoder.encode(["\ud83d 눈"], clean=False)).all()


def test_order_and_repeats_are_kept_with_any_window_and_batch(encoder, sentences, monkeypatch):
    texts = [sentences[index % 7] for index in (np.arange(30) * 37) % 11]
    expected = np.stack([encoder.encode(text) for text in sentences])[[sentences.index(text) for text in texts]]
    for window in (1, 4, 100):
        monkeypatch.setattr(encoder_module, "windows", lambda texts, size=window: split_into_windows(texts, size))
        for options in ({"token_budget": 1}, {"token_budget": 20}, {"batch_size": 1}, {"batch_size": 3}, {}):
            np.testing.assert_allclose(encoder.encode(iter(texts), **options), expected, atol=1e-5)


def test_stream_reads_only_as_far_as_it_is_used(encoder, monkeypatch):
    monkeypatch.setattr(encoder_module, "windows", lambda texts: split_into_windows(texts, 10))
    read = []

    def endless():
        while True:
            read.append(1)
            yield "비가 온다."

    stream = encoder.encode_stream(endless())
    assert next(stream).shape == (10, 32)
    assert len(read) == 10


def test_equal_sentences_are_tokenized_and_computed_once(encoder, monkeypatch):
    tokenized, computed = [], []
    tokenize, forward = TorchEncoder._tokenize, TorchEncoder.forward
    monkeypatch.setattr(
        TorchEncoder, "_tokenize", lambda self, texts, prompt: tokenized.extend(texts) or tokenize(self, texts, prompt)
    )
    monkeypatch.setattr(TorchEncoder, "forward", lambda self, batch: computed.extend(batch) or forward(self, batch))
    encoder.encode(["비가 온다.", "눈", "비가 온다."])
    assert sorted(tokenized) == ["눈", "비가 온다."]
    assert len(computed) == 2


def test_prepare_gives_the_inputs_of_forward(encoder, sentences):
    prepared = encoder.prepare([*sentences, sentences[0], "비가 온다. " * 100])
    assert len(prepared.inputs) == len(prepared.lengths) == 9
    assert prepared.truncated == 1
    assert prepared.tokens == sum(prepared.lengths) + prepared.lengths[0]
    vectors = encoder.forward(list(prepared.inputs))[prepared.inverse]
    np.testing.assert_allclose(vectors[:8], encoder.encode(sentences), atol=1e-5)


def test_normalize_and_truncate(encoder, sentences):
    vectors = encoder.encode(sentences)
    normalized = encoder.encode(sentences, normalize_embeddings=True)
    np.testing.assert_allclose(np.linalg.norm(normalized, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(sentences, truncate_dim=8), vectors[:, :8], atol=1e-6)
    both = encoder.encode(sentences, truncate_dim=8, normalize_embeddings=True)  # truncated first, then normalized
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), 1, atol=1e-6)
    assert not encoder.normalizes
    assert "normalized" not in repr(encoder)


def test_result_types_are_those_of_sentence_transformers(encoder, reference, sentences):
    vectors = encoder.encode(sentences)
    for options in ({"convert_to_tensor": True}, {"convert_to_numpy": False}, {}):
        for texts in (sentences, sentences[0]):
            ours, theirs = encoder.encode(texts, **options), reference.encode(texts, **options)
            assert type(ours) is type(theirs)
            assert len(ours) == len(theirs)
    np.testing.assert_array_equal(encoder.encode(sentences, convert_to_tensor=True).numpy(), vectors)
    np.testing.assert_array_equal(torch.stack(encoder.encode(sentences, convert_to_numpy=False)).numpy(), vectors)


def test_device_of_a_call(encoder, sentences):
    expected = encoder.encode(sentences)
    np.testing.assert_array_equal(encoder.encode(sentences, device="cpu"), expected)
    np.testing.assert_array_equal(encoder.encode(sentences, device=torch.device("cpu")), expected)
    with pytest.raises(UsageError, match="device nowhere cannot be used"):
        encoder.encode(sentences, device="nowhere")
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="device cuda cannot be used"):
            encoder.encode(sentences, device="cuda")
    assert encoder.device == torch.device("cpu")
    assert is_packed(encoder.sentence_transformer)
    np.testing.assert_array_equal(encoder.encode(sentences), expected)


def test_text_is_cleaned_by_default(encoder):
    clean, dirty = "비가 온다.", "비가\u200b  온다．"
    np.testing.assert_allclose(encoder.encode(dirty), encoder.encode(clean), atol=1e-6)
    assert np.abs(encoder.encode(dirty, clean=False) - encoder.encode(clean)).max() > 1e-3


def test_one_warning_counts_the_truncated_sentences(encoder, caplog):
    long = "비가 온다. " * 100
    with caplog.at_level(logging.WARNING):
        vectors = encoder.encode([long, "눈", long, long + "눈"], token_budget=10)
    assert [record.message.split(" of ")[0] for record in caplog.records if "kosbert" in record.name] == ["3"]
    assert "more than 64 tokens and were truncated" in caplog.text
    np.testing.assert_allclose(vectors[0], vectors[3], atol=1e-5)
    caplog.clear()
    encoder.encode(["비가 온다."])
    assert not [record for record in caplog.records if "kosbert" in record.name]  # others may log from their threads


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (["눈", None], "sentence 1 is a NoneType"),
        (["눈", "비", 3.5], "sentence 2 is a float"),
        ([b"abc"], "sentence 0 is a bytes"),
        ([["눈"]], "sentence 0 is a list"),
        (b"abc", "bytes is not a list"),
        (7, "int is not a list"),
        ({"눈": "비"}, "dict is not a list"),  # iterating would silently use its keys
        (None, "NoneType is not a list"),
        (np.array([["눈"]]), "array of shape"),
    ],
)
def test_wrong_input_is_a_one_sentence_error(encoder, sentences, message):
    with pytest.raises(UsageError, match=message) as caught:
        encoder.encode(sentences)
    assert "\n" not in str(caught.value)
    assert "; give" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"truncate_dim": 0}, "truncate_dim 0 is impossible"),
        ({"truncate_dim": 33}, "give 1 to 32"),
        ({"token_budget": 0}, "token_budget 0 is impossible"),
        ({"batch_size": 0}, "batch_size 0 is impossible"),
        ({"prompt_name": "quary"}, "did you mean query"),
    ],
)
def test_wrong_options_are_errors(encoder, options, message):
    with pytest.raises(UsageError, match=message):
        encoder.encode(["눈"], **options)


@pytest.mark.parametrize("include_prompt", [True, False])
def test_prompts_equal_those_of_sentence_transformers(tiny_bert, sentences, tmp_path, include_prompt):
    stock = SentenceTransformer(
        modules=[Transformer(str(tiny_bert)), Pooling(32, "mean", include_prompt=include_prompt)], device="cpu",
        prompts={"query": "내일: ", "document": "오늘 아침: ", "비": "비가 온다. "}, default_prompt_name="비",
    )  # fmt: skip
    stock.save(str(tmp_path / "stock"))
    stock = SentenceTransformer(str(tmp_path / "stock"), device="cpu")
    encoder = load(tmp_path / "stock")
    assert encoder.prompts["query"] == "내일: "
    assert encoder.default_prompt_name == "비"
    for options in (
        {},
        {"prompt_name": "query"},
        {"prompt": "눈 "},
        {"prompt": ""},
        {"prompt": "눈 ", "prompt_name": "비"},
    ):
        np.testing.assert_allclose(encoder.encode(sentences, **options), stock.encode(sentences, **options), atol=1e-5)
    np.testing.assert_allclose(encoder.encode_query(sentences), stock.encode_query(sentences), atol=1e-5)
    np.testing.assert_allclose(
        encoder.encode_document(sentences, normalize_embeddings=True, batch_size=2),
        stock.encode_document(sentences, normalize_embeddings=True),
        atol=1e-5,
    )


@pytest.mark.parametrize("metric", METRICS)
def test_similarity_equals_that_of_sentence_transformers(encoder, reference, sentences, metric):
    reference.similarity_fn_name = metric
    vectors = encoder.encode(sentences)
    expected = reference.similarity(vectors, vectors[:3]).numpy()
    tensor = torch.from_numpy(vectors)
    for left, right in (
        (sentences, sentences[:3]),
        (vectors, vectors[:3]),
        (tensor, iter(sentences[:3])),
        (list(tensor), list(vectors[:3])),
    ):
        scores = encoder.similarity(left, right, metric)
        assert scores.shape == (8, 3)
        assert isinstance(scores, np.ndarray if isinstance(left, np.ndarray) or left is sentences else torch.Tensor)
        np.testing.assert_allclose(scores, expected, atol=2e-3 if metric == "euclidean" else 1e-4, rtol=1e-4)
    pairwise = encoder.similarity_pairwise(vectors[:4], vectors[4:], metric)
    np.testing.assert_allclose(pairwise, reference.similarity_pairwise(vectors[:4], vectors[4:]), atol=1e-4, rtol=1e-4)
    assert encoder.similarity("눈", "비").shape == (1, 1)


def test_default_metric_is_that_of_the_model(tiny_bert):
    encoder = load(tiny_bert)
    left, right = np.array([[3.0, 4.0]]), np.array([[6.0, 8.0]])
    assert float(encoder.similarity(left, right)[0][0]) == pytest.approx(1)
    encoder.sentence_transformer.similarity_fn_name = "dot"
    assert encoder.similarity_fn_name == "dot"
    assert encoder.similarity(left, right).item() == 50


def test_similarity_of_known_vectors(encoder):
    left, right = [[3.0, 4.0]], [[6.0, 8.0], [4.0, -3.0], [0.0, 0.0]]
    np.testing.assert_allclose(encoder.similarity(left, right), [[1, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(left, right, "dot"), [[50, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(left, right, "euclidean"), [[-5, -np.sqrt(50), -5]], atol=1e-5)
    np.testing.assert_allclose(encoder.similarity(left, right, "manhattan"), [[-7, -8, -7]], atol=1e-5)


def test_incomparable_vectors_are_errors(encoder):
    for left, right, metric in (
        ("눈", "비", "cosin"),
        (np.ones((2, 3)), np.ones((2, 4)), "cosine"),
        (np.ones((2, 3, 4)), "비", "cosine"),
        ([[1.0, 2.0], [3.0]], "비", "cosine"),
        (7, "비", "cosine"),
    ):
        with pytest.raises(UsageError):
            encoder.similarity(left, right, metric)
    with pytest.raises(UsageError, match="2 and 3 embeddings are not pairs"):
        encoder.similarity_pairwise(np.ones((2, 4)), np.ones((3, 4)))


def test_dimension_under_all_its_names(encoder):
    assert encoder.dim == encoder.get_embedding_dimension() == encoder.get_sentence_embedding_dimension() == 32
    assert encoder.max_seq_length == encoder.max_length == 64


def test_saved_model_loads_in_sentence_transformers_with_equal_embeddings(tiny_roberta, sentences, tmp_path):
    card = {"seed": 1, "data": "예"}
    for pooling in ("mean", "max", "cls", "first-last"):
        original = load(tiny_roberta, pooling=pooling)
        expected = original.encode(sentences)
        target = original.save(tmp_path / pooling, card=card)
        assert not list(target.rglob("*.bin"))
        stock = SentenceTransformer(str(target), device="cpu")
        assert not is_packed(stock)
        assert np.abs(stock.encode(sentences) - expected).max() < 1e-5
        loaded = load(target)
        assert np.abs(loaded.encode(sentences) - expected).max() < 1e-5
        assert loaded.card == card == json.loads((target / "kosbert.json").read_text(encoding="utf-8"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cls",
        "first-last",
        "max",
        "mean",
    ]  # no temporary files


def test_model_of_sentence_transformers_with_projection_and_prompt(tiny_bert, sentences, tmp_path):
    modules = [Transformer(str(tiny_bert)), Pooling(32, ("cls", "mean")), Dense(64, 16), Normalize()]
    stock = SentenceTransformer(modules=modules, device="cpu", prompts={"비": "비가 온다. "}, default_prompt_name="비")
    stock.save(str(tmp_path / "stock"))
    encoder = load(tmp_path / "stock")
    assert is_packed(encoder.sentence_transformer)
    assert encoder.dim == 16
    assert encoder.normalizes
    assert "normalized" in repr(encoder)
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


def test_threads_can_share_an_encoder(encoder, sentences):
    expected = encoder.encode(sentences)
    results, errors = [], []

    def work():
        try:
            results.extend(encoder.encode(sentences) for _ in range(5))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(results) == 20
    assert all(np.allclose(result, expected, atol=1e-5) for result in results)


def test_encoding_during_training_uses_no_dropout(tiny_bert, sentences):
    encoder = load(tiny_bert)
    expected = encoder.encode(sentences)
    encoder.sentence_transformer.train()
    state = torch.get_rng_state()
    np.testing.assert_array_equal(encoder.encode(sentences), expected)
    assert encoder.sentence_transformer.training
    assert torch.equal(torch.get_rng_state(), state)


def test_progress_bar_is_on_standard_error(encoder, sentences, capsys):
    encoder.encode(sentences, show_progress_bar=True)
    captured = capsys.readouterr()
    assert "encoding" in captured.err
    assert captured.out == ""


def test_model_without_a_transformer(tiny_bert, sentences, tmp_path):
    tokenizer = load(tiny_bert).tokenizer.backend_tokenizer
    stock = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu")
    stock.save(str(tmp_path / "static"))
    encoder = load(tmp_path / "static")
    assert encoder.max_length is None
    assert encoder.dim == 16
    texts = [*sentences, "비가 온다. " * 100]
    np.testing.assert_allclose(encoder.encode(texts), stock.encode(texts), atol=1e-5)
