"""Every endpoint: what it answers, and that the numbers are those of plain `encode`."""

import base64
import json
import re

import numpy as np
import pytest

from kosbert import __version__
from kosbert.search.explain import explain


def unit(encoder, texts, dim=None):
    return encoder.encode(texts, normalize_embeddings=True, truncate_dim=dim)


def test_embeddings(client, encoder, sentences) -> None:
    found = client.post("/v1/embeddings", json={"model": "tiny", "input": sentences}).json()
    assert found["object"] == "list"
    assert found["model"] == "tiny"
    assert [each["index"] for each in found["data"]] == list(range(len(sentences)))
    np.testing.assert_allclose([each["embedding"] for each in found["data"]], unit(encoder, sentences), atol=1e-5)
    tokens = encoder.prepare(sentences).tokens
    assert found["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}


def test_embeddings_of_one_text_shortened_and_packed(client, encoder) -> None:
    wanted = {"model": "tiny", "input": "비가 온다.", "dimensions": 8, "encoding_format": "base64", "user": "나"}
    found = client.post("/v1/embeddings", json=wanted).json()
    vector = np.frombuffer(base64.b64decode(found["data"][0]["embedding"]), "<f4")
    np.testing.assert_allclose(vector, unit(encoder, ["비가 온다."], 8)[0], atol=1e-5)


def test_embeddings_of_token_ids(client, encoder, sentences) -> None:
    """With or without the special tokens, one list or several."""
    whole = [encoder.tokenizer.encode(text).ids for text in sentences[:3]]
    bare = [encoder.tokenizer.encode(text, add_special_tokens=False).ids for text in sentences[:3]]
    expected = unit(encoder, sentences[:3])
    for lists in (whole, bare):
        found = client.post("/v1/embeddings", json={"model": "tiny", "input": lists}).json()
        np.testing.assert_allclose([each["embedding"] for each in found["data"]], expected, atol=1e-5)
    found = client.post("/v1/embeddings", json={"model": "tiny", "input": bare[0]}).json()
    np.testing.assert_allclose(found["data"][0]["embedding"], expected[0], atol=1e-5)
    long = client.post("/v1/embeddings", json={"model": "tiny", "input": [7] * 500})
    assert long.headers["x-truncated-texts"] == "1"
    assert long.json()["usage"]["total_tokens"] == encoder.max_length


def test_a_wrong_model_is_not_answered_with_another(client) -> None:
    found = client.post("/v1/embeddings", json={"model": "text-embedding-3-small", "input": "글"})
    assert found.status_code == 404
    assert found.json()["error"]["code"] == "model_not_found"
    assert "tiny" in found.json()["error"]["message"]


def test_models(client) -> None:
    (model,) = client.get("/v1/models").json()["data"]
    assert model["id"] == "tiny"
    assert model["owned_by"] == "kosbert"
    assert model["created"] > 1_700_000_000


def test_embed(client, encoder, sentences) -> None:
    found = client.post("/embed", json={"inputs": sentences}).json()
    np.testing.assert_allclose(found, unit(encoder, sentences), atol=1e-5)
    (raw,) = client.post("/embed", json={"inputs": sentences[0], "normalize": False, "dimensions": 5}).json()
    np.testing.assert_allclose(raw, encoder.encode(sentences[0])[:5], atol=1e-5)


def test_a_long_text_is_cut_and_the_client_told(client, encoder) -> None:
    text = "오늘은 날씨가 매우 좋다. " * 30
    found = client.post("/embed", json={"inputs": [text, "비"]})
    assert found.headers["x-truncated-texts"] == "1"
    np.testing.assert_allclose(found.json(), unit(encoder, [text, "비"]), atol=1e-5)
    refused = client.post("/embed", json={"inputs": text, "truncate": False})
    assert refused.status_code == 413
    assert "x-truncated-texts" not in client.post("/embed", json={"inputs": "비", "truncate": False}).headers


def test_similarity_and_compare(client, encoder, sentences) -> None:
    wanted = {"inputs": {"source_sentence": sentences[0], "sentences": sentences[1:]}}
    cosines = encoder.similarity(sentences, sentences)
    np.testing.assert_allclose(client.post("/similarity", json=wanted).json(), cosines[0, 1:], atol=1e-5)
    found = client.post("/compare", json={"sentences": sentences}).json()["cosines"]
    np.testing.assert_allclose(found, cosines, atol=1e-5)


@pytest.mark.parametrize(("left", "right"), [("비가 온다.", "눈이 온다."), ("비", "한 남자가 기타를 연주한다.")])
def test_explain(client, encoder, left: str, right: str) -> None:
    found = client.post("/explain", json={"left": left, "right": right}).json()
    (expected,) = explain(encoder, left, [right])
    assert found["cosine"] == pytest.approx(expected.cosine, abs=1e-5)
    for side, effects in (("left", expected.query), ("right", expected.hit)):
        assert [each["word"] for each in found[side]] == [each.word for each in effects]
        assert [each["effect"] for each in found[side]] == pytest.approx([e.effect for e in effects], abs=1e-5)


def test_search(client, sentences) -> None:
    found = client.post("/search", json={"query": sentences[2], "k": 3}).json()["hits"]
    assert len(found) == 3
    assert found[0]["text"] == sentences[2]
    assert found[0]["score"] == pytest.approx(1, abs=1e-5)
    assert found[0]["metadata"] == {"year": 2002}
    only = client.post("/search", json={"query": sentences[2], "filter": "year>2010"}).json()["hits"]
    assert all(hit["metadata"]["year"] > 2010 for hit in only)
    wrong = client.post("/search", json={"query": "글", "filter": "yaer=1"})
    assert wrong.status_code == 400
    assert "did you mean year" in wrong.json()["error"]["message"]


def test_hybrid_search(client, sentences) -> None:
    pytest.importorskip("bm25s")
    found = client.post("/search", json={"query": sentences[2], "hybrid": True, "k": 1}).json()["hits"]
    assert found[0]["text"] == sentences[2]
    assert found[0]["score"] == pytest.approx(2 / 61)


def test_cluster(client) -> None:
    found = client.post("/cluster", json={"count": 4}).json()
    assert len(found["points"]) == 40
    assert sum(group["size"] for group in found["groups"]) == 40
    assert [group["number"] for group in found["groups"]] == [0, 1, 2, 3]
    assert {point["group"] for point in found["points"]} == {0, 1, 2, 3}
    assert all(0 <= point["x"] <= 1 and 0 <= point["y"] <= 1 for point in found["points"])
    assert all(1 <= len(group["examples"]) <= 3 for group in found["groups"])
    assert client.post("/cluster", json={"count": 4}).json() == found
    assert client.post("/cluster", json={"count": 77}).status_code == 400  # 40 sentences
    assert client.post("/cluster", json={"method": "hdbscan"}).status_code == 200


def test_info(client, encoder) -> None:
    found = client.get("/info").json()
    assert found["model"] == "tiny"
    assert found["dimensions"] == encoder.dim
    assert found["max_length"] == encoder.max_length
    assert found["backend"] == "onnx"
    assert found["version"] == __version__
    assert found["index"] == {"sentences": 40, "fields": ["year"], "hybrid": True, "backend": "exact"}
    assert found["limits"] == {"body_bytes": 4 * 2**20, "texts": 2048, "tokens": 32768}
    assert (found["report"], found["keys"]) == (True, False)


def test_health_ready_metrics(client) -> None:
    assert client.get("/health").json() == {"status": "alive"}
    assert client.get("/ready").json() == {"status": "ready"}
    client.post("/embed", json={"inputs": "비가 온다."})
    text = client.get("/metrics").text
    assert re.search(r'kosbert_requests_total\{path="/embed",status="200"\} [1-9]', text)
    assert re.search(r"kosbert_tokens_total [1-9]", text)
    assert "kosbert_batch_texts_bucket" in text
    client.get("/nothing/at/all")
    assert 'path="/nothing/at/all"' not in client.get("/metrics").text  # paths are the client's: they would fill memory


def test_docs_load_nothing_from_elsewhere(client) -> None:
    document = client.get("/openapi.json").json()
    docs = client.get("/docs").text
    for path in ("/v1/embeddings", "/embed", "/similarity", "/compare", "/explain", "/search", "/cluster", "/info"):
        assert path in document["paths"]
        assert path in docs
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", docs)
    assert "422" not in json.dumps(document)


def test_report(client) -> None:
    found = client.get("/report")
    assert "보고서" in found.text
    assert "sandbox" in found.headers["content-security-policy"]


def test_security_headers_on_everything(client) -> None:
    for found in (client.get("/health"), client.get("/nothing"), client.post("/embed", content=b"{")):
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert found.headers["cache-control"] == "no-store"
        assert re.fullmatch("[0-9a-f]{16}", found.headers["x-request-id"])
    assert client.get("/health", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert client.get("/health", headers={"x-request-id": "a b;{}"}).headers["x-request-id"] != "a b;{}"


def test_unknown_addresses_and_methods(client) -> None:
    for found, status in (
        (client.get("/nothing"), 404),
        (client.get("/page/..%2f..%2fetc%2fpasswd"), 404),
        (client.get("/page/%2e%2e/app.py"), 404),
        (client.get("/embed"), 405),
        (client.put("/embed"), 405),
        (client.post("/health", json={}), 405),
    ):
        assert found.status_code == status
        assert set(found.json()["error"]) == {"message", "type", "param", "code"}
    assert "POST" in client.get("/embed").headers["allow"]
