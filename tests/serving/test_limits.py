"""Every limit is reached, and answers with its own status code, in OpenAI's shape, with the fix."""

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
from kosbert.serving.limits import MOST_CHARACTERS, Limits, Rates
from kosbert.serving.model_runner import ModelRunner
from kosbert.serving.settings import Settings


@pytest.fixture
def serve(model_directory: Path, running) -> Iterator[Callable[..., httpx.Client]]:
    """Start a server with some limits, and give a client of it."""
    with contextlib.ExitStack() as stack:

        def start(**limits: float) -> httpx.Client:
            url = stack.enter_context(running(Settings(str(model_directory), limits=Limits(**limits))))
            return stack.enter_context(httpx.Client(base_url=url, timeout=120))

        yield start


class Held:
    """A model that has begun, and computes nothing until it may go."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    found = Held()
    plain = ModelRunner.forward
    loading = threading.current_thread()

    def wait(self: ModelRunner, tokens):
        if threading.current_thread() is not loading:
            found.begun.set()
            assert found.go.wait(300)
        return plain(self, tokens)

    monkeypatch.setattr(ModelRunner, "forward", wait)
    yield found
    found.go.set()


def check(found: httpx.Response, status: int, code: str) -> None:
    assert found.status_code == status, found.text
    error = found.json()["error"]
    assert error["code"] == code
    assert ":" in error["message"]  # what is wrong: the fix
    assert set(error) == {"message", "type", "param", "code"}
    if status == 429:
        assert int(found.headers["retry-after"]) >= 1


def in_background(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_body(serve) -> None:
    client = serve(body_bytes=1_000)
    check(client.post("/embed", json={"inputs": "가" * 1_000}), 413, "body_too_large")
    assert client.post("/embed", json={"inputs": "가" * 100}).status_code == 200

    def pieces() -> Iterator[bytes]:  # without a length: counted as it comes
        yield b'{"inputs": "'
        for _ in range(500):
            yield b"aaaa "
        yield b'"}'

    check(client.post("/embed", content=pieces(), headers={"content-type": "application/json"}), 413, "body_too_large")
    large = json.dumps({"inputs": "a" * 10_000_000})
    check(client.post("/embed", content=large, headers={"content-type": "application/json"}), 413, "body_too_large")
    assert client.post("/embed", json={"inputs": "가"}).status_code == 200


def test_texts_tokens_and_characters(serve) -> None:
    client = serve(texts=3, tokens=40, queue_tokens=40)
    check(client.post("/embed", json={"inputs": ["비"] * 4}), 413, "too_large")
    check(client.post("/v1/embeddings", json={"model": "tiny", "input": [[5]] * 4}), 413, "too_large")
    check(client.post("/embed", json={"inputs": ["오늘은 날씨가 매우 좋다. " * 9]}), 413, "too_large")
    check(client.post("/v1/embeddings", json={"model": "tiny", "input": [5] * 60}), 413, "too_large")
    check(client.post("/embed", json={"inputs": "a" * (MOST_CHARACTERS + 1)}), 413, "too_large")
    check(client.post("/v1/embeddings", json={"model": "tiny", "input": [5] * (MOST_CHARACTERS + 1)}), 413, "too_large")
    check(client.post("/explain", json={"left": "비 " * 200, "right": "눈 " * 200}), 413, "too_large")
    assert client.post("/embed", json={"inputs": ["비"] * 3}).status_code == 200


def test_sentences_to_compare(client) -> None:
    for count in (1, 51):
        check(client.post("/compare", json={"sentences": ["비"] * count}), 400, "invalid_value")


def test_queue(serve, held) -> None:
    client = serve(tokens=30, queue_tokens=30)
    threads = [in_background(lambda: client.post("/embed", json={"inputs": "비가 온다."}))]
    wait_until(held.begun.is_set)
    threads += [in_background(lambda: client.post("/embed", json={"inputs": "비가 온다."})) for _ in range(5)]
    wait_until(lambda: "kosbert_queue_tokens 30.0" in client.get("/metrics").text)
    check(client.post("/embed", json={"inputs": "비"}), 429, "queue_full")
    held.go.set()
    for thread in threads:
        thread.join(60)
    assert client.post("/embed", json={"inputs": "비가 온다."}).status_code == 200


def test_requests_at_once(serve, held) -> None:
    client = serve(requests=2)
    threads = [in_background(lambda: client.post("/embed", json={"inputs": "비"})) for _ in range(2)]
    wait_until(lambda: "kosbert_requests_under_way 3.0" in client.get("/metrics").text)
    check(client.post("/embed", json={"inputs": "비"}), 429, "too_many")
    assert client.get("/health").status_code == 200
    held.go.set()
    for thread in threads:
        thread.join(60)
    assert client.post("/embed", json={"inputs": "비"}).status_code == 200


def test_rate_of_an_address(serve) -> None:
    client = serve(rate=0.02)
    assert client.post("/embed", json={"inputs": "비"}).status_code == 200
    refused = client.post("/embed", json={"inputs": "비"})
    check(refused, 429, "rate_limit")
    assert 30 <= int(refused.headers["retry-after"]) <= 50
    assert client.get("/health").status_code == 200


def test_time(serve, held) -> None:
    client = serve(seconds=0.3)
    check(client.post("/embed", json={"inputs": "비"}), 504, "timeout")
    held.go.set()


def test_a_body_that_comes_too_slowly(serve) -> None:
    client = serve(seconds=0.5)
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=60) as slow:
        slow.sendall(
            b"POST /embed HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"
        )
        assert slow.recv(1_000).startswith(b"HTTP/1.1 408")


def test_a_client_that_goes_away_costs_nothing(serve, held, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    counted = ModelRunner.forward

    def count(self: ModelRunner, tokens):
        found = counted(self, tokens)
        computed.append(len(tokens))
        return found

    client = serve()
    monkeypatch.setattr(ModelRunner, "forward", count)
    first = in_background(lambda: client.post("/embed", json={"inputs": "비"}))
    wait_until(held.begun.is_set)
    for _ in range(5):
        with pytest.raises(httpx.TimeoutException):
            httpx.post(f"{client.base_url}/embed", json={"inputs": ["눈"] * 50}, timeout=0.3)
    wait_until(lambda: "kosbert_requests_under_way 2.0" in client.get("/metrics").text)
    held.go.set()
    first.join(60)
    assert sum(computed) == 1
    assert 'path="/embed",status="499"} 5.0' in client.get("/metrics").text


def test_kind_of_body(client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        found = client.post("/embed", content=b'{"inputs": "a"}', headers={"content-type": kind})
        check(found, 415, "not_json")
    fine = {"content-type": "application/json; charset=utf-8"}
    assert client.post("/embed", content='{"inputs": "비"}'.encode(), headers=fine).status_code == 200


def test_no_index_and_no_report(serve) -> None:
    client = serve()
    check(client.post("/search", json={"query": "비"}), 404, "no_index")
    check(client.post("/cluster", json={}), 404, "no_index")
    check(client.get("/report"), 404, "no_report")
    assert client.get("/info").json()["index"] is None


def test_a_foreign_name_for_this_machine(client) -> None:
    """DNS rebinding: a page's own name that points to 127.0.0.1."""
    check(client.get("/info", headers={"host": "attacker.example"}), 403, "wrong_host")
    check(client.post("/embed", json={"inputs": "비"}, headers={"host": "attacker.example:8080"}), 403, "wrong_host")
    assert client.get("/info", headers={"host": "localhost:8080"}).status_code == 200


def test_no_cross_origin_unless_asked(client, running, model_directory: Path) -> None:
    origin = {"origin": "https://page.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in client.options("/embed", headers=origin).headers
    with running(Settings(str(model_directory), cors=("https://page.example",))) as url:
        asked = httpx.options(f"{url}/embed", headers=origin)
        assert asked.headers["access-control-allow-origin"] == "https://page.example"
        other = httpx.options(f"{url}/embed", headers=origin | {"origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers


def test_impossible_settings(tmp_path: Path) -> None:
    for call, message in (
        (lambda: Limits(texts=0), "impossible"),
        (lambda: Limits(seconds=float("nan")), "impossible"),
        (lambda: Limits(rate=-1), "impossible"),
        (lambda: Limits(tokens=10, queue_tokens=5), "--max-queue"),
        (lambda: Settings(port=70_000), "no port"),
        (lambda: Settings(workers=0), "workers"),
        (lambda: Settings(cors=("example.org",)), "https://example.org"),
        (lambda: Settings(report=tmp_path / "none.html"), "no report"),
    ):
        with pytest.raises(UsageError, match=message):
            call()


def test_rates_of_several_clients() -> None:
    now = [0.0]
    rates = Rates(2, clock=lambda: now[0])
    assert [rates.delay("가") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    assert rates.delay("나") == 0
    now[0] = 0.5
    assert rates.delay("가") == 0
    assert rates.delay("가") > 0
    now[0] = 1_000
    assert [rates.delay("가") for _ in range(5)][-2:] == [0, 0.5]
    for number in range(20_000):
        rates.delay(str(number))
    assert len(rates._left) == 10_000


def test_shutting_down(model_directory: Path) -> None:
    """While it drains, /ready says so and nothing new is taken."""
    from kosbert.serving.app import build_app
    from kosbert.serving.service import Service

    service = Service.open(Settings(str(model_directory)))
    app = build_app(service)

    async def work() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            service.gatherer.start()
            assert (await client.get("/ready")).status_code == 200
            await service.close()
            for found in (await client.get("/ready"), await client.post("/embed", json={"inputs": "비"})):
                check(found, 503, "closing")
            assert (await client.get("/health")).status_code == 200

    asyncio.run(work())
