"""`kosbert serve` as a real process: shut down, hot swap, a killed worker, mistakes, and what it imports."""

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

from kosbert.serving.server import _listening
from kosbert.serving.settings import Settings

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

WAIT = httpx.Timeout(120)


def lines(process) -> list[dict]:
    return [json.loads(line) for line in process.lines]


async def ask_on(address: str, texts: list[str], clients: int, answers: list, enough: asyncio.Event) -> list[str]:
    """Clients that ask until it is enough; gives the requests that got no answer."""
    lost = []

    async def one(client: httpx.AsyncClient, number: int) -> None:
        while not enough.is_set():
            text = texts[(number + len(answers)) % len(texts)]
            try:
                found = await client.post("/embed", json={"inputs": text})
            except httpx.TransportError as error:
                lost.append(repr(error))
                return
            answers.append((text, found.status_code, found.json()))

    async with httpx.AsyncClient(base_url=address, timeout=WAIT) as client:
        await asyncio.gather(*(one(client, number) for number in range(clients)))
    return lost


def test_who_reads_the_address_can_connect_at_once(capsys) -> None:
    with _listening(Settings(port=0)) as listener:
        address = capsys.readouterr().out.split()[-1]
        assert address.endswith(f":{listener.getsockname()[1]}")
        socket.create_connection(listener.getsockname(), timeout=5).close()


def test_a_short_answer_waits_for_no_acknowledgement() -> None:
    """An answer is two packets; with Nagle's algorithm the second waits for the client's delayed acknowledgement."""

    async def delayed() -> list[int]:
        found: list[int] = []

        class Connection(asyncio.Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:
                connection = transport.get_extra_info("socket")
                found.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                transport.close()

        with _listening(Settings(port=0)) as listener:
            server = await asyncio.get_running_loop().create_server(Connection, sock=listener)
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            await reader.read()
            writer.close()
            server.close()
        return found

    assert asyncio.run(delayed()) == [1]


def test_what_was_taken_is_answered_before_it_ends(start, model_directory: Path, encoder, sentences) -> None:
    """SIGTERM comes while every client has a large request under way, and none has asked again."""
    process = start(str(model_directory))
    process.wait_until_ready()
    texts = sentences * 60

    async def work() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=process.address, timeout=WAIT) as client:
            asking = [asyncio.create_task(client.post("/embed", json={"inputs": texts})) for _ in range(8)]

            def taken() -> bool:
                return "kosbert_requests_under_way 9.0" in httpx.get(f"{process.address}/metrics").text

            while not taken() and not any(each.done() for each in asking):
                await asyncio.sleep(0.005)
            process.process.send_signal(signal.SIGTERM)
            return await asyncio.gather(*asking)

    expected = encoder.encode(texts, normalize_embeddings=True)
    for found in asyncio.run(work()):
        assert found.status_code == 200
        np.testing.assert_allclose(found.json(), expected, atol=1e-5)
    assert process.stop() in (0, -signal.SIGTERM)
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{process.address}/health")
    assert all("traceback" not in each for each in lines(process))


def test_another_model_without_a_dropped_request(
    start, model_directory: Path, tiny_roberta: Path, tmp_path: Path, encoder, sentences
) -> None:
    """The directory gets other files while clients ask; SIGHUP; every answer is of the old model or of the new."""
    from kosbert.export import export
    from kosbert.model import load

    other = export(tiny_roberta, tmp_path / "other").path
    served = tmp_path / "served"
    shutil.copytree(model_directory, served)
    process = start(str(served))
    process.wait_until_ready()

    answers: list = []

    async def more_answers() -> None:
        before = len(answers)
        while len(answers) < before + 20:
            await asyncio.sleep(0.01)

    async def work() -> list[str]:
        enough = asyncio.Event()
        asking = asyncio.create_task(ask_on(process.address, sentences, 6, answers, enough))
        await more_answers()
        shutil.rmtree(served)
        shutil.copytree(other, served)
        process.process.send_signal(signal.SIGHUP)
        await asyncio.to_thread(process.wait_for, lambda: any('"event": "reloaded"' in each for each in process.lines))
        await more_answers()
        (served / "model.onnx").write_bytes(b"broken")
        process.process.send_signal(signal.SIGHUP)
        await asyncio.to_thread(process.wait_for, lambda: any("not reloaded" in each for each in process.lines))
        await more_answers()
        enough.set()
        return await asking

    lost = asyncio.run(work())
    assert not lost
    assert {status for _, status, _ in answers} == {200}
    old = dict(zip(sentences, encoder.encode(sentences, normalize_embeddings=True), strict=True))
    new = dict(zip(sentences, load(other).encode(sentences, normalize_embeddings=True), strict=True))
    kinds = []
    for text, _, (vector,) in answers:
        fits = [np.allclose(vector, each[text], atol=1e-5) for each in (old, new)]
        assert fits.count(True) == 1
        kinds.append(fits.index(True))
    assert set(kinds) == {0, 1}
    assert kinds[-1] == 1  # the broken one was refused, the new one goes on


def test_a_killed_worker_comes_back(start, model_directory: Path) -> None:
    process = start(str(model_directory), "--workers", "2")
    process.wait_until_ready()

    def workers() -> set[int]:
        found = subprocess.run(
            ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.process.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        return {int(line.split()[0]) for line in found.stdout.splitlines() if "spawn_main" in line}

    process.wait_for(
        lambda: sum('"event": "ready"' in each for each in process.lines) == 2
    )  # both, before one is killed
    before = workers()
    assert len(before) == 2
    os.kill(min(before), signal.SIGKILL)
    process.wait_for(lambda: len(workers()) == 2 and workers() != before)
    process.wait_for(lambda: httpx.post(f"{process.address}/embed", json={"inputs": "비"}).status_code == 200)
    assert "kosbert_requests_total" in httpx.get(f"{process.address}/metrics").text  # of all workers together
    process.wait_for(lambda: sum('"event": "ready"' in each for each in process.lines) == 3)
    process.process.send_signal(signal.SIGHUP)
    process.wait_for(lambda: sum('"event": "reloaded"' in each for each in process.lines) == 2)
    assert process.stop() == 0


def test_keys_and_logs(start, model_directory: Path) -> None:
    process = start(str(model_directory), KOSBERT_API_KEYS="a-long-enough-key-1,a-long-enough-key-2")
    process.wait_until_ready()
    assert httpx.post(f"{process.address}/embed", json={"inputs": "비밀"}).status_code == 401
    headers = {"authorization": "Bearer a-long-enough-key-2", "x-request-id": "mine-1"}
    assert httpx.post(f"{process.address}/embed", json={"inputs": "비밀"}, headers=headers).status_code == 200
    process.stop()
    found = [each for each in lines(process) if each.get("path") == "/embed"]
    assert [each["status"] for each in found] == [401, 200]
    assert found[1]["request_id"] == "mine-1"
    assert found[1]["key"] == 2
    assert "비밀" not in "".join(process.lines)
    assert "long-enough" not in "".join(process.lines)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("/nowhere/at/all",), 2, "give a directory"),
        (("{model}", "--index", "/nowhere"), 2, "holds no index"),
        (("{model}", "--keys", "/nowhere"), 2, "cannot be read"),
        (("{model}", "--max-tokens", "0"), 2, "impossible"),
        (("{model}", "--host", "256.0.0.1"), 2, "cannot listen"),
        (("/nowhere/at/all", "--workers", "2"), 2, "give a directory"),
    ],
)
def test_a_mistake_is_one_sentence(model_directory: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    given = [each.format(model=model_directory) for each in arguments]
    command = [sys.executable, "-c", "from kosbert.cli import main; main()", "serve", "--port", "0", *given]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, check=False)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_workers_that_cannot_load_end_all(start, model_directory: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(model_directory, broken)
    (broken / "model.onnx").write_bytes(b"broken")
    process = start(str(broken), "--workers", "2")
    process.process.wait(timeout=300)
    process.stop()
    assert any("cannot start" in each["event"] for each in lines(process))


def test_serving_an_exported_model_imports_no_torch(model_directory: Path, index_directory: Path) -> None:
    code = f"""
import asyncio, sys, httpx
from pathlib import Path
from kosbert.serving.app import build_app
from kosbert.serving.service import Service
from kosbert.serving.settings import Settings

async def main():
    service = Service.open(Settings({str(model_directory)!r}, index=Path({str(index_directory)!r})))
    service.gatherer.start()
    transport = httpx.ASGITransport(build_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for path, body in (("/embed", {{"inputs": "비"}}), ("/search", {{"query": "비"}}),
                           ("/explain", {{"left": "비가", "right": "눈이"}})):
            assert (await client.post(path, json=body)).status_code == 200
    await service.close()

asyncio.run(main())
print(sorted({{"torch", "transformers", "sentence_transformers", "sklearn"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_a_missing_extra_is_named() -> None:
    code = """
import sys
sys.modules["uvicorn"] = None
sys.argv = ["kosbert", "serve"]
from kosbert.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert "pip install 'kosbert[serve]'" in done.stderr
    assert "Traceback" not in done.stderr
