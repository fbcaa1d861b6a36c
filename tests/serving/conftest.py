"""Fixtures: a tiny exported model, a server for it in a thread, and `kosbert serve` as a separate process."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="pip install 'kosbert[serve]'")
pytest.importorskip("uvicorn", reason="pip install 'kosbert[serve]'")
pytest.importorskip("prometheus_client", reason="pip install 'kosbert[serve]'")
pytest.importorskip("onnx", reason="the tiny model is exported: pip install 'kosbert[onnx]'")
httpx = pytest.importorskip("httpx")


@pytest.fixture(scope="session")
def model_directory(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from kosbert.export import export

    return export(tiny_bert, tmp_path_factory.mktemp("served") / "tiny").path


@pytest.fixture(scope="session")
def encoder(model_directory: Path):
    from kosbert.model import load

    return load(model_directory)


@pytest.fixture(scope="session")
def index_directory(model_directory: Path, tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Path:
    from kosbert.search import Index

    index = Index(str(model_directory), lexical="bigrams")
    texts = [*sentences, *(f"{text} {number}" for number in range(4) for text in sentences)]
    index.add(texts, metadata=[{"year": 2000 + number} for number in range(len(texts))])
    return index.save(tmp_path_factory.mktemp("served") / "index")


@contextlib.contextmanager
def _running(settings) -> Iterator[str]:
    """Serve in a thread of this process on a free port; yield the URL."""
    import uvicorn

    from kosbert.serving.app import build_app
    from kosbert.serving.service import Service

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        build_app(Service.open(settings)),
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=20,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=60)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def running():
    """`with running(settings) as url`: start a separate server."""
    return _running


@pytest.fixture(scope="session")
def address(model_directory: Path, index_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server with an index, a report and default limits, but a long timeout for busy machines."""
    from kosbert.serving.settings import Limits, ServerSettings

    report = tmp_path_factory.mktemp("served") / "report.html"
    report.write_text("<!doctype html><title>보고서</title>", encoding="utf-8")
    settings = ServerSettings(str(model_directory), index=index_directory, report=report, limits=Limits(timeout=600))
    with _running(settings) as url:
        yield url


@pytest.fixture(scope="session")
def client(address: str) -> Iterator["httpx.Client"]:
    with httpx.Client(base_url=address, timeout=600) as client:
        yield client


class ServerProcess:
    """`kosbert serve` as users start it."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        command = [sys.executable, "-c", "from kosbert.cli import main; main()", "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", env=os.environ | environment
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.address = line.split()[-1] if line else ""
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.lines.append(line)

    def wait_until_ready(self) -> None:
        self.wait_for(lambda: httpx.get(f"{self.address}/ready").status_code == 200)

    def wait_for(self, condition: Callable[[], bool], seconds: float = 300) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, "".join(self.lines)
            with contextlib.suppress(httpx.TransportError):
                if condition():
                    return
            time.sleep(0.05)
        raise AssertionError("".join(self.lines))

    def stop(self, sign: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(sign)
        code = self.process.wait(timeout=300)
        self._reader.join(timeout=10)
        return code


@pytest.fixture
def start() -> Iterator[Callable[..., ServerProcess]]:
    started: list[ServerProcess] = []

    def run(*arguments: str, **environment: str) -> ServerProcess:
        started.append(ServerProcess(*arguments, **environment))
        return started[-1]

    yield run
    for process in started:
        process.stop(signal.SIGKILL)
