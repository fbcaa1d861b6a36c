"""Every repository layout loads by name, gives the embeddings of sentence-transformers, and can be exported."""

import json

import numpy as np
import pytest
from hub_repositories import SENTENCES, layouts
from sentence_transformers import SentenceTransformer

import kosbert
from kosbert import data
from kosbert.export import export

KOBERT = "skt/kobert-base-v1"  # read as in pretraining, unlike in sentence-transformers: see the last test
SAVED_KEYS = {
    *("word_embedding_dimension", "pooling_mode_cls_token", "pooling_mode_mean_tokens", "pooling_mode_max_tokens"),
    *("pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"),
    "include_prompt",
}


@pytest.fixture(scope="module")
def pairs():
    return data.load("sample-sts-dev")[:60]


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.mark.parametrize("name", layouts())
def test_model_of_the_hub(name, hub, repository_files, tmp_path, pairs):
    hub.add(name, repository_files(name))
    encoder = kosbert.load(name)
    embeddings = encoder.encode(SENTENCES)
    assert not hub.downloads(r"training_args|optimizer|fp16|\.ot$|\.h5$|\.msgpack$")

    stock = SentenceTransformer(
        name, device="cpu", cache_folder=str(tmp_path / "stock"), model_kwargs={"dtype": "float32"}
    )
    if name != KOBERT:
        np.testing.assert_allclose(embeddings, stock.encode(SENTENCES), atol=1e-5)
    assert encoder.max_length == stock.max_seq_length
    assert encoder.prompts == stock.prompts

    saved = encoder.save(tmp_path / "saved")
    modules = json.loads((saved / "modules.json").read_text(encoding="utf-8"))
    assert all(module["type"].startswith("sentence_transformers.models.") for module in modules)
    pooling = json.loads((saved / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
    assert set(pooling) == SAVED_KEYS
    settings = json.loads((saved / "sentence_bert_config.json").read_text(encoding="utf-8"))
    assert settings == {"max_seq_length": encoder.max_length, "do_lower_case": False}
    np.testing.assert_allclose(SentenceTransformer(str(saved), device="cpu").encode(SENTENCES), embeddings, atol=1e-5)

    # int8 includes the export to float32, which fails if the graph differs from the model by 1e-3.
    int8 = export(encoder, tmp_path / "int8", int8=True, gate=("sample-sts-dev", pairs), max_drop=20)
    assert cosines(kosbert.load(int8.path).encode(SENTENCES), embeddings).min() > 0.98


def test_kobert_gets_the_tokens_of_its_pretraining(hub, repository_files, tmp_path, caplog):
    """Known answer: KoBERT's own tokenizer encodes a sentence as [2, …, 3], [CLS] first, and pads on the right."""
    hub.add(KOBERT, repository_files(KOBERT))
    encoder = kosbert.load(KOBERT)
    assert "kosbert puts [CLS] first" in caplog.text
    for tokenizer in (encoder.tokenizer, kosbert.load(encoder.save(tmp_path / "saved")).tokenizer):
        batch = tokenizer(["비가 온다.", "눈"], padding=True)["input_ids"]
        assert [ids[0] for ids in batch] == [2, 2]
        assert (batch[0][-1], batch[1][-1]) == (3, 1)
