"""Invalid input of every kind: never a 500, never a hang, always OpenAI's error format."""

import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

schemathesis = pytest.importorskip("schemathesis")

ENDPOINTS = ("/v1/embeddings", "/embed", "/similarity", "/compare", "/explain", "/search", "/cluster")
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def document(address: str):
    return schemathesis.openapi.from_url(f"{address}/openapi.json")


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("path", ENDPOINTS)
def test_posts_follow_the_openapi_document(document, path: str, mode: str) -> None:
    """What the document allows gets the documented response; what it forbids is rejected."""
    generation_mode = schemathesis.GenerationMode(mode)
    # Valid by the schema but still rejected: a blank text, another model's name, too many dimensions.
    excluded_checks = [schemathesis.checks.positive_data_acceptance]

    @given(case=document[path]["POST"].as_strategy(generation_mode=generation_mode))
    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    def send(case) -> None:
        case.call_and_validate(excluded_checks=excluded_checks, timeout=600)

    send()


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/ready", "/info", "/metrics"])
def test_gets_follow_the_openapi_document(document, path: str) -> None:
    document[path]["GET"].Case().call_and_validate(timeout=600)


def check_rejected(response: httpx.Response) -> None:
    assert 400 <= response.status_code < 500, (response.status_code, response.text[:300])
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "Traceback" not in response.text
    assert len(response.text) < 1_000


INVALID_BODIES = {
    "nothing": b"",
    "half": b'{"inputs": ',
    "not json": "안녕".encode(),
    "two documents": b'{"inputs": "a"} {"inputs": "b"}',
    "nan": b'{"inputs": "a", "input": "a", "query": "a", "dimensions": NaN, "k": NaN, "n_clusters": NaN, "x": NaN}',
    "infinity": b'{"inputs": "a", "extra": -Infinity}',
    "lone surrogate": b'{"inputs": "\\ud800", "input": "\\udfff", "query": "\\ud83d"}',
    "invalid utf-8": b'{"inputs": "\xff\xfe", "input": "\xc3\x28"}',
    "overlong utf-8": b'{"inputs": "\xc0\xaf"}',
    "utf-16": '{"inputs": "가"}'.encode("utf-16"),
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"inputs":' * 50_000,
    "deep and closed": b'{"inputs": ' + b"[" * 3_000 + b"]" * 3_000 + b"}",
    "huge number": b'{"model": "tiny", "input": [' + b"9" * 5_000 + b'], "inputs": 1' + b"0" * 5_000 + b"}",
    "large number": b'{"model": "tiny", "input": [99999999999999999999999], "k": 99999999999999999999999}',
    "huge exponent": b'{"inputs": 1e999999, "dimensions": 1e400}',
    "wrong types": b'{"inputs": {"a": [1, null]}, "input": [null], "query": 5, "sentences": 1, "n_clusters": []}',
    "mixed list": b'{"model": "tiny", "input": ["a", 1], "inputs": ["a", 1], "sentences": [1, "a"], "n_clusters": "a"}',
    "not an object": b'["a"]',
    "null": b"null",
}  # fmt: skip


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("name", INVALID_BODIES)
def test_invalid_bodies_are_rejected(client: httpx.Client, path: str, name: str) -> None:
    response = client.post(path, content=INVALID_BODIES[name], headers=JSON)
    if path == "/cluster" and name in ("large number", "huge exponent"):
        return  # all its fields are optional, and unknown ones are ignored
    check_rejected(response)


@pytest.mark.parametrize("path", ENDPOINTS)
def test_ten_megabytes_give_413(client: httpx.Client, path: str) -> None:
    body = json.dumps({"inputs": "가" * 3_300_000, "input": "가"}, ensure_ascii=False).encode()
    response = client.post(path, content=body, headers=JSON)
    assert response.status_code == 413
    check_rejected(response)


@pytest.mark.parametrize("text", ["", " \n\t", "\u3000"], ids=["empty", "blank", "wide blank"])
def test_blank_texts_are_rejected(client: httpx.Client, text: str) -> None:
    for path, body in (
        ("/v1/embeddings", {"model": "tiny", "input": ["비", text]}),
        ("/embed", {"inputs": text}),
        ("/similarity", {"inputs": {"source_sentence": text, "sentences": ["비"]}}),
        ("/compare", {"sentences": ["비", text]}),
        ("/explain", {"left": "비", "right": text}),
        ("/search", {"query": text}),
    ):
        response = client.post(path, json=body)
        assert response.status_code == 400
        check_rejected(response)


any_text = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60)


@given(texts=st.lists(any_text, min_size=1, max_size=4))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_text_is_encoded_or_rejected(client: httpx.Client, texts: list[str]) -> None:
    response = client.post("/embed", json={"inputs": texts})
    if response.status_code == 200:
        assert len(response.json()) == len(texts)
    else:
        assert response.status_code == 400
        assert any(not text.strip() for text in texts)


@given(body=st.binary(max_size=200))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes_are_rejected(client: httpx.Client, body: bytes) -> None:
    check_rejected(client.post("/embed", content=body, headers=JSON))


def test_internal_errors_expose_no_details(running, model_directory, monkeypatch: pytest.MonkeyPatch) -> None:
    from kosbert.model.onnx_encoder import OnnxEncoder
    from kosbert.serving.settings import ServerSettings

    with running(ServerSettings(str(model_directory))) as url:
        monkeypatch.setattr(OnnxEncoder, "prepare", lambda *_: 1 / 0)
        response = httpx.post(f"{url}/embed", json={"inputs": "비"}, timeout=60)
        assert response.status_code == 500
        assert response.json()["error"]["code"] == "internal_error"
        assert "Zero" not in response.text
        assert response.headers["x-request-id"]
        monkeypatch.undo()
        assert httpx.post(f"{url}/embed", json={"inputs": "비"}, timeout=60).status_code == 200
