"""Bad input of every kind: never a 500, never a hang, always OpenAI's error shape."""

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
def test_the_openapi_document_is_kept(document, path: str, mode: str) -> None:
    """What it allows is answered as it says, what it forbids is refused."""
    kind = schemathesis.GenerationMode(mode)
    # What the document allows may still be refused: a blank text, another model's name, too many dimensions.
    without = [schemathesis.checks.positive_data_acceptance]

    @given(case=document[path]["POST"].as_strategy(generation_mode=kind))
    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    def ask(case) -> None:
        case.call_and_validate(excluded_checks=without, timeout=600)

    ask()


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/ready", "/info", "/metrics"])
def test_what_takes_nothing_keeps_the_openapi_document(document, path: str) -> None:
    document[path]["GET"].Case().call_and_validate(timeout=600)


def check_refused(found: httpx.Response) -> None:
    assert 400 <= found.status_code < 500, (found.status_code, found.text[:300])
    error = found.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "Traceback" not in found.text
    assert len(found.text) < 1_000


BAD = {
    "nothing": b"",
    "half": b'{"inputs": ',
    "not json": "안녕".encode(),
    "two documents": b'{"inputs": "a"} {"inputs": "b"}',
    "nan": b'{"inputs": "a", "input": "a", "query": "a", "dimensions": NaN, "k": NaN, "count": NaN, "x": NaN}',
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
    "wrong types": b'{"inputs": {"a": [1, null]}, "input": [null], "query": 5, "sentences": 1, "count": []}',
    "mixed list": b'{"model": "tiny", "input": ["a", 1], "inputs": ["a", 1], "sentences": [1, "a"], "count": "a"}',
    "not an object": b'["a"]',
    "null": b"null",
}  # fmt: skip


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("name", BAD)
def test_bad_bodies(client: httpx.Client, path: str, name: str) -> None:
    found = client.post(path, content=BAD[name], headers=JSON)
    if path == "/cluster" and name in ("large number", "huge exponent"):
        return  # every field of it is optional and unknown ones are ignored
    check_refused(found)


@pytest.mark.parametrize("path", ENDPOINTS)
def test_ten_megabytes(client: httpx.Client, path: str) -> None:
    body = json.dumps({"inputs": "가" * 3_300_000, "input": "가"}, ensure_ascii=False).encode()
    found = client.post(path, content=body, headers=JSON)
    assert found.status_code == 413
    check_refused(found)


@pytest.mark.parametrize("text", ["", " \n\t", "\u3000"], ids=["empty", "blank", "wide blank"])
def test_blank_texts(client: httpx.Client, text: str) -> None:
    for path, body in (
        ("/v1/embeddings", {"model": "tiny", "input": ["비", text]}),
        ("/embed", {"inputs": text}),
        ("/similarity", {"inputs": {"source_sentence": text, "sentences": ["비"]}}),
        ("/compare", {"sentences": ["비", text]}),
        ("/explain", {"left": "비", "right": text}),
        ("/search", {"query": text}),
    ):
        found = client.post(path, json=body)
        assert found.status_code == 400
        check_refused(found)


strange = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60)


@given(texts=st.lists(strange, min_size=1, max_size=4))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_text_is_answered_or_refused(client: httpx.Client, texts: list[str]) -> None:
    found = client.post("/embed", json={"inputs": texts})
    if found.status_code == 200:
        assert len(found.json()) == len(texts)
    else:
        assert found.status_code == 400
        assert any(not text.strip() for text in texts)


@given(body=st.binary(max_size=200))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes_are_refused(client: httpx.Client, body: bytes) -> None:
    check_refused(client.post("/embed", content=body, headers=JSON))


def test_an_error_inside_tells_nothing(running, model_directory, monkeypatch: pytest.MonkeyPatch) -> None:
    from kosbert.serving.model_runner import ModelRunner
    from kosbert.serving.settings import Settings

    with running(Settings(str(model_directory))) as url:
        monkeypatch.setattr(ModelRunner, "prepare", lambda *_: 1 / 0)
        found = httpx.post(f"{url}/embed", json={"inputs": "비"}, timeout=60)
        assert found.status_code == 500
        assert found.json()["error"]["code"] == "internal"
        assert "Zero" not in found.text
        assert found.headers["x-request-id"]
        monkeypatch.undo()
        assert httpx.post(f"{url}/embed", json={"inputs": "비"}, timeout=60).status_code == 200
