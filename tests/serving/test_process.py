"""`kosbert serve` as a process: shutdown, reload, a killed worker, user mistakes, and imports."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest

from kosbert.serving.server import _listen
from kosbert.serving.settings import ServerSettings

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")

TIMEOUT = httpx.Timeout(120)


def log_documents(process) -> list[dict]:
    return [json.loads(line) for line in process.lines]


async def send_until(stop: asyncio.Event, address: str, texts: list[str], clients: int, responses: list) -> list[str]:
    """Send requests until `stop` is set; return the errors of requests without a response."""
    errors = []

    async def send(client: httpx.AsyncClient, number: int) -> None:
        while not stop.is_set():
            text = texts[(number + len(responses)) % len(texts)]
            try:
                response = await client.post("/embed", json={"inputs": text})
            except httpx.TransportError as error:
                errors.append(repr(error))
                return
            responses.append((text, response.status_code, response.json()))

    async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT) as client:
        await asyncio.gather(*(send(client, number) for number in range(clients)))
    return errors


def test_printed_address_accepts_connections(capsys) -> None:
    with _listen(ServerSettings(port=0)) as listener:
        address = capsys.readouterr().out.split()[-1]
        assert address.endswith(f":{listener.getsockname()[1]}")
        socket.create_connection(listener.getsockname(), timeout=5).close()


def test_connections_have_tcp_nodelay() -> None:
    """A response is two packets; with Nagle's algorithm the second waits for the client's delayed ACK."""

    async def connect() -> list[int]:
        nodelay: list[int] = []

        class Connection(asyncio.Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:
                connection = transport.get_extra_info("socket")
                nodelay.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                transport.close()

        with _listen(ServerSettings(port=0)) as listener:
            server = await asyncio.get_running_loop().create_server(Connection, sock=listener)
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            await reader.read()
            writer.close()
            server.close()
        return nodelay

    assert asyncio.run(connect()) == [1]


def test_sigterm_finishes_requests_in_progress(start, model_directory: Path, encoder, sentences) -> None:
    """SIGTERM arrives while every client has a large request in progress."""
    process = start(str(model_directory))
    process.wait_until_ready()
    texts = sentences * 60

    async def work() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=process.address, timeout=TIMEOUT) as client:
            requests = [asyncio.create_task(client.post("/embed", json={"inputs": texts})) for _ in range(8)]

            def all_in_progress() -> bool:
                return "kosbert_requests_in_progress 9.0" in httpx.get(f"{process.address}/metrics").text

            while not all_in_progress() and not any(request.done() for request in requests):
                await asyncio.sleep(0.005)
            process.process.send_signal(signal.SIGTERM)
            return await asyncio.gather(*requests)

    expected = encoder.encode(texts, normalize_embeddings=True)
    for response in asyncio.run(work()):
        assert response.status_code == 200
        np.testing.assert_allclose(response.json(), expected, atol=1e-5)
    assert process.stop() in (0, -signal.SIGTERM)
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{process.address}/health")
    assert all("traceback" not in document for document in log_documents(process))


def test_sighup_reloads_the_model_without_dropping_requests(
    start, model_directory: Path, tiny_roberta: Path, tmp_path: Path, encoder, sentences
) -> None:
    """The model directory is replaced while clients send requests: every response is of the old or the new model."""
    from kosbert.export import export
    from kosbert.model import load

    new_model = export(tiny_roberta, tmp_path / "new").path
    directory = tmp_path / "served"
    shutil.copytree(model_directory, directory)
    process = start(str(directory))
    process.wait_until_ready()

    responses: list = []

    async def more_responses() -> None:
        before = len(responses)
        while len(responses) < before + 20:
            await asyncio.sleep(0.01)

    async def work() -> list[str]:
        stop = asyncio.Event()
        clients = asyncio.create_task(send_until(stop, process.address, sentences, 6, responses))
        await more_responses()
        shutil.rmtree(directory)
        shutil.copytree(new_model, directory)
        process.process.send_signal(signal.SIGHUP)
        await asyncio.to_thread(process.wait_for, lambda: any('"event": "reloaded"' in line for line in process.lines))
        await more_responses()
        (directory / "model.onnx").write_bytes(b"broken")
        process.process.send_signal(signal.SIGHUP)
        await asyncio.to_thread(process.wait_for, lambda: any("reload failed" in line for line in process.lines))
        await more_responses()
        stop.set()
        return await clients

    assert not asyncio.run(work())
    assert {status for _, status, _ in responses} == {200}
    old = dict(zip(sentences, encoder.encode(sentences, normalize_embeddings=True), strict=True))
    new = dict(zip(sentences, load(new_model).encode(sentences, normalize_embeddings=True), strict=True))
    models = []
    for text, _, (vector,) in responses:
        matches = [np.allclose(vector, expected[text], atol=1e-5) for expected in (old, new)]
        assert matches.count(True) == 1
        models.append(matches.index(True))
    assert set(models) == {0, 1}
    assert models[-1] == 1  # the broken model was not loaded


def test_killed_worker_is_restarted(start, model_directory: Path) -> None:
    process = start(str(model_directory), "--workers", "2")
    process.wait_until_ready()

    def worker_pids() -> set[int]:
        output = subprocess.run(
            ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.process.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        return {int(line.split()[0]) for line in output.stdout.splitlines() if "spawn_main" in line}

    process.wait_for(
        lambda: sum('"event": "ready"' in line for line in process.lines) == 2
    )  # both, before one is killed
    before = worker_pids()
    assert len(before) == 2
    os.kill(min(before), signal.SIGKILL)
    process.wait_for(lambda: len(worker_pids()) == 2 and worker_pids() != before)
    process.wait_for(lambda: httpx.post(f"{process.address}/embed", json={"inputs": "비"}).status_code == 200)
    assert "kosbert_requests_total" in httpx.get(f"{process.address}/metrics").text  # the sum of all workers
    process.wait_for(lambda: sum('"event": "ready"' in line for line in process.lines) == 3)
    process.process.send_signal(signal.SIGHUP)
    process.wait_for(lambda: sum('"event": "reloaded"' in line for line in process.lines) == 2)
    assert process.stop() == 0


def test_keys_and_texts_are_not_logged(start, model_directory: Path) -> None:
    process = start(str(model_directory), KOSBERT_API_KEYS="a-long-enough-key-1,a-long-enough-key-2")
    process.wait_until_ready()
    assert httpx.post(f"{process.address}/embed", json={"inputs": "비밀"}).status_code == 401
    headers = {"authorization": "Bearer a-long-enough-key-2", "x-request-id": "mine-1"}
    assert httpx.post(f"{process.address}/embed", json={"inputs": "비밀"}, headers=headers).status_code == 200
    process.stop()
    requests = [document for document in log_documents(process) if document.get("path") == "/embed"]
    assert [request["status"] for request in requests] == [401, 200]
    assert requests[1]["request_id"] == "mine-1"
    assert requests[1]["key"] == 2
    assert "비밀" not in "".join(process.lines)
    assert "long-enough" not in "".join(process.lines)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("/nowhere/at/all",), 2, "give a directory"),
        (("{model}", "--index", "/nowhere"), 2, "holds no index"),
        (("{model}", "--keys", "/nowhere"), 2, "cannot be read"),
        (("{model}", "--max-tokens", "0"), 2, "greater than 0"),
        (("{model}", "--host", "256.0.0.1"), 2, "cannot listen"),
        (("/nowhere/at/all", "--workers", "2"), 2, "give a directory"),
    ],
)
def test_user_mistake_gives_one_sentence(
    model_directory: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    options = [argument.format(model=model_directory) for argument in arguments]
    command = [sys.executable, "-c", "from kosbert.cli import main; main()", "serve", "--port", "0", *options]
    result = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, check=False)
    assert result.returncode == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_workers_that_cannot_load_stop_the_server(start, model_directory: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(model_directory, broken)
    (broken / "model.onnx").write_bytes(b"broken")
    process = start(str(broken), "--workers", "2")
    process.process.wait(timeout=300)
    process.stop()
    assert any("cannot start" in document["event"] for document in log_documents(process))


def test_serving_an_exported_model_imports_no_torch(model_directory: Path, index_directory: Path) -> None:
    code = f"""
import asyncio, sys, httpx
from pathlib import Path
from kosbert.serving.app import build_app
from kosbert.serving.service import Service
from kosbert.serving.settings import ServerSettings

async def main():
    service = Service.open(ServerSettings({str(model_directory)!r}, index=Path({str(index_directory)!r})))
    service.batcher.start()
    transport = httpx.ASGITransport(build_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for path, body in (("/embed", {{"inputs": "비"}}), ("/search", {{"query": "비"}}),
                           ("/explain", {{"left": "비가", "right": "눈이"}})):
            assert (await client.post(path, json=body)).status_code == 200
    await service.close()

asyncio.run(main())
print(sorted({{"torch", "transformers", "sentence_transformers", "sklearn"}} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


def test_missing_extra_is_named() -> None:
    code = """
import sys
sys.modules["uvicorn"] = None
sys.argv = ["kosbert", "serve"]
from kosbert.cli import main
main()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert result.returncode == 2
    assert "pip install 'kosbert[serve]'" in result.stderr
    assert "Traceback" not in result.stderr
