"""Every limit has its own status and code, in OpenAI's error format, and the message names the fix."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from kosbert.errors import UsageError
from kosbert.model.onnx_encoder import OnnxEncoder
from kosbert.serving.middleware import RateLimiter
from kosbert.serving.settings import MAX_CHARACTERS, Limits, ServerSettings


@pytest.fixture
def serve(model_directory: Path, running) -> Iterator[Callable[..., httpx.Client]]:
    """A function that starts a server with the given limits and returns a client."""
    with contextlib.ExitStack() as stack:

        def start(**limits: float) -> httpx.Client:
            url = stack.enter_context(running(ServerSettings(str(model_directory), limits=Limits(**limits))))
            return stack.enter_context(httpx.Client(base_url=url, timeout=120))

        yield start


class BlockedModel:
    """Events of a model whose forward pass blocks until `resume` is set."""

    def __init__(self) -> None:
        self.started, self.resume = threading.Event(), threading.Event()


@pytest.fixture
def blocked_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockedModel]:
    model = BlockedModel()
    forward = OnnxEncoder.forward
    main_thread = threading.current_thread()  # loads and warms up the model

    def wait(self: OnnxEncoder, batch):
        if threading.current_thread() is not main_thread:
            model.started.set()
            assert model.resume.wait(300)
        return forward(self, batch)

    monkeypatch.setattr(OnnxEncoder, "forward", wait)
    yield model
    model.resume.set()


def check_error(response: httpx.Response, status: int, code: str) -> None:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["code"] == code
    assert ":" in error["message"]  # what is wrong: the fix
    assert set(error) == {"message", "type", "param", "code"}
    if status == 429:
        assert int(response.headers["retry-after"]) >= 1


def in_background(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_body_size(serve) -> None:
    client = serve(max_body_bytes=1_000)
    headers = {"content-type": "application/json"}
    check_error(client.post("/embed", json={"inputs": "가" * 1_000}), 413, "body_too_large")
    assert client.post("/embed", json={"inputs": "가" * 100}).status_code == 200

    def chunks() -> Iterator[bytes]:  # sent without Content-Length
        yield b'{"inputs": "'
        for _ in range(500):
            yield b"aaaa "
        yield b'"}'

    check_error(client.post("/embed", content=chunks(), headers=headers), 413, "body_too_large")
    large = json.dumps({"inputs": "a" * 10_000_000})
    check_error(client.post("/embed", content=large, headers=headers), 413, "body_too_large")
    assert client.post("/embed", json={"inputs": "가"}).status_code == 200


def test_texts_tokens_and_characters(serve) -> None:
    client = serve(max_texts=3, max_tokens=40, max_queue_tokens=40)
    for path, body in (
        ("/embed", {"inputs": ["비"] * 4}),
        ("/v1/embeddings", {"model": "tiny", "input": [[5]] * 4}),
        ("/embed", {"inputs": ["오늘은 날씨가 매우 좋다. " * 9]}),
        ("/v1/embeddings", {"model": "tiny", "input": [5] * 60}),
        ("/embed", {"inputs": "a" * (MAX_CHARACTERS + 1)}),
        ("/v1/embeddings", {"model": "tiny", "input": [5] * (MAX_CHARACTERS + 1)}),
        ("/explain", {"left": "비 " * 200, "right": "눈 " * 200}),
    ):
        check_error(client.post(path, json=body), 413, "too_large")
    assert client.post("/embed", json={"inputs": ["비"] * 3}).status_code == 200


def test_number_of_sentences_to_compare(client) -> None:
    for count in (1, 51):
        check_error(client.post("/compare", json={"sentences": ["비"] * count}), 400, "invalid_value")


def test_queue_tokens(serve, blocked_model) -> None:
    client = serve(max_tokens=30, max_queue_tokens=30)
    threads = [in_background(lambda: client.post("/embed", json={"inputs": "비가 온다."}))]
    wait_until(blocked_model.started.is_set)
    threads += [in_background(lambda: client.post("/embed", json={"inputs": "비가 온다."})) for _ in range(5)]
    wait_until(lambda: "kosbert_queue_tokens 30.0" in client.get("/metrics").text)
    check_error(client.post("/embed", json={"inputs": "비"}), 429, "queue_full")
    blocked_model.resume.set()
    for thread in threads:
        thread.join(60)
    assert client.post("/embed", json={"inputs": "비가 온다."}).status_code == 200


def test_concurrent_requests(serve, blocked_model) -> None:
    client = serve(max_requests=2)
    threads = [in_background(lambda: client.post("/embed", json={"inputs": "비"})) for _ in range(2)]
    wait_until(lambda: "kosbert_requests_in_progress 3.0" in client.get("/metrics").text)
    check_error(client.post("/embed", json={"inputs": "비"}), 429, "too_many_requests")
    assert client.get("/health").status_code == 200
    blocked_model.resume.set()
    for thread in threads:
        thread.join(60)
    assert client.post("/embed", json={"inputs": "비"}).status_code == 200


def test_rate_limit_per_address(serve) -> None:
    client = serve(max_rate=0.02)
    assert client.post("/embed", json={"inputs": "비"}).status_code == 200
    rejected = client.post("/embed", json={"inputs": "비"})
    check_error(rejected, 429, "rate_limit_exceeded")
    assert 30 <= int(rejected.headers["retry-after"]) <= 50
    assert client.get("/health").status_code == 200


def test_timeout(serve, blocked_model) -> None:
    client = serve(timeout=0.3)
    check_error(client.post("/embed", json={"inputs": "비"}), 504, "timeout")
    blocked_model.resume.set()


def test_slow_body_gives_408(serve) -> None:
    client = serve(timeout=0.5)
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=60) as connection:
        connection.sendall(
            b"POST /embed HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"
        )
        assert connection.recv(1_000).startswith(b"HTTP/1.1 408")


def test_texts_of_a_disconnected_client_are_not_computed(serve, blocked_model, monkeypatch: pytest.MonkeyPatch) -> None:
    batch_sizes: list[int] = []
    forward = OnnxEncoder.forward

    def count(self: OnnxEncoder, batch):
        vectors = forward(self, batch)
        batch_sizes.append(len(batch))
        return vectors

    client = serve()
    monkeypatch.setattr(OnnxEncoder, "forward", count)
    first = in_background(lambda: client.post("/embed", json={"inputs": "비"}))
    wait_until(blocked_model.started.is_set)
    for _ in range(5):
        with pytest.raises(httpx.TimeoutException):
            httpx.post(f"{client.base_url}/embed", json={"inputs": ["눈"] * 50}, timeout=0.3)
    wait_until(lambda: "kosbert_requests_in_progress 2.0" in client.get("/metrics").text)
    blocked_model.resume.set()
    first.join(60)
    assert sum(batch_sizes) == 1
    assert 'path="/embed",status="499"} 5.0' in client.get("/metrics").text


def test_content_type_must_be_json(client) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        response = client.post("/embed", content=b'{"inputs": "a"}', headers={"content-type": content_type})
        check_error(response, 415, "unsupported_media_type")
    headers = {"content-type": "application/json; charset=utf-8"}
    assert client.post("/embed", content='{"inputs": "비"}'.encode(), headers=headers).status_code == 200


def test_missing_index_and_report_give_404(serve) -> None:
    client = serve()
    check_error(client.post("/search", json={"query": "비"}), 404, "no_index")
    check_error(client.post("/cluster", json={}), 404, "no_index")
    check_error(client.get("/report"), 404, "no_report")
    assert client.get("/info").json()["index"] is None


def test_unknown_host_name_is_rejected(client) -> None:
    """DNS rebinding: a website's own name that resolves to 127.0.0.1."""
    for host in ("attacker.example", "attacker.example:8080", "127.0.0.1.attacker.example", ""):
        check_error(client.get("/info", headers={"host": host}), 403, "invalid_host")
    check_error(client.post("/embed", json={"inputs": "비"}, headers={"host": "attacker.example"}), 403, "invalid_host")
    for host in ("localhost:8080", "localhost", "127.0.0.1", "[::1]:8080", "[::1]"):
        assert client.get("/info", headers={"host": host}).status_code == 200


def test_cross_origin_requests_need_cors_option(client, running, model_directory: Path) -> None:
    headers = {"origin": "https://page.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in client.options("/embed", headers=headers).headers
    with running(ServerSettings(str(model_directory), cors=("https://page.example",))) as url:
        allowed = httpx.options(f"{url}/embed", headers=headers)
        assert allowed.headers["access-control-allow-origin"] == "https://page.example"
        denied = httpx.options(f"{url}/embed", headers=headers | {"origin": "https://other.example"})
        assert "access-control-allow-origin" not in denied.headers


def test_invalid_settings_are_rejected(tmp_path: Path) -> None:
    for call, message in (
        (lambda: Limits(max_texts=0), "greater than 0"),
        (lambda: Limits(timeout=float("nan")), "greater than 0"),
        (lambda: Limits(max_rate=-1), "greater than 0"),
        (lambda: Limits(max_tokens=10, max_queue_tokens=5), "--max-queue"),
        (lambda: ServerSettings(port=70_000), "port 70000"),
        (lambda: ServerSettings(workers=0), "workers"),
        (lambda: ServerSettings(cors=("example.org",)), "https://example.org"),
        (lambda: ServerSettings(report=tmp_path / "none.html"), "does not exist"),
    ):
        with pytest.raises(UsageError, match=message):
            call()


def test_rate_limiter_of_several_clients() -> None:
    now = [0.0]
    limiter = RateLimiter(2, clock=lambda: now[0])
    assert [limiter.delay("가") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    assert limiter.delay("나") == 0
    now[0] = 0.5
    assert limiter.delay("가") == 0
    assert limiter.delay("가") > 0
    now[0] = 1_000
    assert [limiter.delay("가") for _ in range(5)][-2:] == [0, 0.5]
    for number in range(20_000):
        limiter.delay(str(number))
    assert len(limiter._buckets) == 10_000


def test_shutdown_rejects_new_requests(model_directory: Path) -> None:
    from kosbert.serving.app import build_app
    from kosbert.serving.service import Service

    service = Service.open(ServerSettings(str(model_directory)))
    app = build_app(service)

    async def work() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            service.batcher.start()
            assert (await client.get("/ready")).status_code == 200
            await service.close()
            for response in (await client.get("/ready"), await client.post("/embed", json={"inputs": "비"})):
                check_error(response, 503, "shutting_down")
            assert (await client.get("/health")).status_code == 200

    asyncio.run(work())
