"""Every endpoint: the response, and the same vectors as plain `encode`."""

import base64
import json
import re

import numpy as np
import pytest

from kosbert import __version__
from kosbert.search.explain import explain


def normalized(encoder, texts, dim=None):
    return encoder.encode(texts, normalize_embeddings=True, truncate_dim=dim)


def test_embeddings(client, encoder, sentences) -> None:
    response = client.post("/v1/embeddings", json={"model": "tiny", "input": sentences}).json()
    assert response["object"] == "list"
    assert response["model"] == "tiny"
    assert [item["index"] for item in response["data"]] == list(range(len(sentences)))
    np.testing.assert_allclose(
        [item["embedding"] for item in response["data"]], normalized(encoder, sentences), atol=1e-5
    )
    tokens = encoder.prepare(sentences).tokens
    assert response["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}


def test_embeddings_truncated_to_dimensions_as_base64(client, encoder) -> None:
    body = {"model": "tiny", "input": "비가 온다.", "dimensions": 8, "encoding_format": "base64", "user": "나"}
    response = client.post("/v1/embeddings", json=body).json()
    vector = np.frombuffer(base64.b64decode(response["data"][0]["embedding"]), "<f4")
    np.testing.assert_allclose(vector, normalized(encoder, ["비가 온다."], 8)[0], atol=1e-5)


def test_embeddings_of_token_ids(client, encoder, sentences) -> None:
    """With or without the special tokens, one list or several."""
    with_special = [encoder.tokenizer.encode(text).ids for text in sentences[:3]]
    without_special = [encoder.tokenizer.encode(text, add_special_tokens=False).ids for text in sentences[:3]]
    expected = normalized(encoder, sentences[:3])
    for token_lists in (with_special, without_special):
        response = client.post("/v1/embeddings", json={"model": "tiny", "input": token_lists}).json()
        np.testing.assert_allclose([item["embedding"] for item in response["data"]], expected, atol=1e-5)
    response = client.post("/v1/embeddings", json={"model": "tiny", "input": without_special[0]}).json()
    np.testing.assert_allclose(response["data"][0]["embedding"], expected[0], atol=1e-5)
    long = client.post("/v1/embeddings", json={"model": "tiny", "input": [7] * 500})
    assert long.headers["x-truncated-texts"] == "1"
    assert long.json()["usage"]["total_tokens"] == encoder.max_length


def test_unknown_model_gives_404(client) -> None:
    response = client.post("/v1/embeddings", json={"model": "text-embedding-3-small", "input": "글"})
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
    assert "tiny" in response.json()["error"]["message"]


def test_models(client) -> None:
    (model,) = client.get("/v1/models").json()["data"]
    assert model["id"] == "tiny"
    assert model["owned_by"] == "kosbert"
    assert model["created"] > 1_700_000_000


def test_embed(client, encoder, sentences) -> None:
    response = client.post("/embed", json={"inputs": sentences}).json()
    np.testing.assert_allclose(response, normalized(encoder, sentences), atol=1e-5)
    (raw,) = client.post("/embed", json={"inputs": sentences[0], "normalize": False, "dimensions": 5}).json()
    np.testing.assert_allclose(raw, encoder.encode(sentences[0])[:5], atol=1e-5)


def test_long_text_is_truncated_and_counted_in_a_header(client, encoder) -> None:
    text = "오늘은 날씨가 매우 좋다. " * 30
    response = client.post("/embed", json={"inputs": [text, "비"]})
    assert response.headers["x-truncated-texts"] == "1"
    np.testing.assert_allclose(response.json(), normalized(encoder, [text, "비"]), atol=1e-5)
    rejected = client.post("/embed", json={"inputs": text, "truncate": False})
    assert rejected.status_code == 413
    assert "x-truncated-texts" not in client.post("/embed", json={"inputs": "비", "truncate": False}).headers


def test_similarity_and_compare(client, encoder, sentences) -> None:
    body = {"inputs": {"source_sentence": sentences[0], "sentences": sentences[1:]}}
    cosines = encoder.similarity(sentences, sentences)
    np.testing.assert_allclose(client.post("/similarity", json=body).json(), cosines[0, 1:], atol=1e-5)
    response = client.post("/compare", json={"sentences": sentences}).json()["cosines"]
    np.testing.assert_allclose(response, cosines, atol=1e-5)


@pytest.mark.parametrize(("left", "right"), [("비가 온다.", "눈이 온다."), ("비", "한 남자가 기타를 연주한다.")])
def test_explain(client, encoder, left: str, right: str) -> None:
    response = client.post("/explain", json={"left": left, "right": right}).json()
    (expected,) = explain(encoder, left, [right])
    assert response["cosine"] == pytest.approx(expected.cosine, abs=1e-5)
    for side, effects in (("left", expected.query), ("right", expected.hit)):
        assert [item["word"] for item in response[side]] == [effect.word for effect in effects]
        assert [item["effect"] for item in response[side]] == pytest.approx([e.effect for e in effects], abs=1e-5)


def test_search(client, sentences) -> None:
    response = client.post("/search", json={"query": sentences[2], "k": 3}).json()["hits"]
    assert len(response) == 3
    assert response[0]["text"] == sentences[2]
    assert response[0]["score"] == pytest.approx(1, abs=1e-5)
    assert response[0]["metadata"] == {"year": 2002}
    filtered = client.post("/search", json={"query": sentences[2], "filter": "year>2010"}).json()["hits"]
    assert all(hit["metadata"]["year"] > 2010 for hit in filtered)
    invalid = client.post("/search", json={"query": "글", "filter": "yaer=1"})
    assert invalid.status_code == 400
    assert "did you mean year" in invalid.json()["error"]["message"]


def test_hybrid_search(client, sentences) -> None:
    pytest.importorskip("bm25s")
    response = client.post("/search", json={"query": sentences[2], "hybrid": True, "k": 1}).json()["hits"]
    assert response[0]["text"] == sentences[2]
    assert response[0]["score"] == pytest.approx(2 / 61)


def test_cluster(client) -> None:
    response = client.post("/cluster", json={"n_clusters": 4}).json()
    assert len(response["points"]) == 40
    assert sum(cluster["size"] for cluster in response["clusters"]) == 40
    assert [cluster["id"] for cluster in response["clusters"]] == [0, 1, 2, 3]
    assert {point["cluster"] for point in response["points"]} == {0, 1, 2, 3}
    assert all(0 <= point["x"] <= 1 and 0 <= point["y"] <= 1 for point in response["points"])
    assert all(1 <= len(cluster["representatives"]) <= 3 for cluster in response["clusters"])
    assert client.post("/cluster", json={"n_clusters": 4}).json() == response
    assert client.post("/cluster", json={"n_clusters": 77}).status_code == 400  # 40 sentences
    assert client.post("/cluster", json={"method": "hdbscan"}).status_code == 200


def test_info(client, encoder) -> None:
    response = client.get("/info").json()
    assert response["model"] == "tiny"
    assert response["dimensions"] == encoder.dim
    assert response["max_length"] == encoder.max_length
    assert response["backend"] == "onnx"
    assert response["version"] == __version__
    assert response["index"] == {"sentences": 40, "fields": ["year"], "hybrid": True, "backend": "exact"}
    assert response["limits"] == {"max_body_bytes": 4 * 2**20, "max_texts": 2048, "max_tokens": 32768}
    assert (response["report"], response["requires_key"]) == (True, False)


def test_health_ready_metrics(client) -> None:
    assert client.get("/health").json() == {"status": "alive"}
    assert client.get("/ready").json() == {"status": "ready"}
    client.post("/embed", json={"inputs": "비가 온다."})
    text = client.get("/metrics").text
    assert re.search(r'kosbert_requests_total\{path="/embed",status="200"\} [1-9]', text)
    assert re.search(r"kosbert_tokens_total [1-9]", text)
    assert "kosbert_batch_texts_bucket" in text
    client.get("/nothing/at/all")
    assert 'path="/nothing/at/all"' not in client.get("/metrics").text  # labels are bounded


def test_docs_load_nothing_from_other_servers(client) -> None:
    document = client.get("/openapi.json").json()
    docs = client.get("/docs").text
    for path in ("/v1/embeddings", "/embed", "/similarity", "/compare", "/explain", "/search", "/cluster", "/info"):
        assert path in document["paths"]
        assert path in docs
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", docs)
    assert "422" not in json.dumps(document)


def test_report(client) -> None:
    response = client.get("/report")
    assert "보고서" in response.text
    assert "sandbox" in response.headers["content-security-policy"]


def test_every_response_has_security_headers(client) -> None:
    for response in (client.get("/health"), client.get("/nothing"), client.post("/embed", content=b"{")):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert response.headers["cache-control"] == "no-store"
        assert re.fullmatch("[0-9a-f]{16}", response.headers["x-request-id"])
    assert client.get("/health", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert client.get("/health", headers={"x-request-id": "a b;{}"}).headers["x-request-id"] != "a b;{}"


def test_unknown_paths_and_methods(client) -> None:
    for response, status in (
        (client.get("/nothing"), 404),
        (client.get("/page/..%2f..%2fetc%2fpasswd"), 404),
        (client.get("/page/%2e%2e/app.py"), 404),
        (client.get("/embed"), 405),
        (client.put("/embed"), 405),
        (client.post("/health", json={}), 405),
    ):
        assert response.status_code == status
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    assert "POST" in client.get("/embed").headers["allow"]
