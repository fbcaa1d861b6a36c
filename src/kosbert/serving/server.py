"""`kosbert serve`: the application in uvicorn, in this process or in several workers.

SIGTERM finishes the requests in progress and stops. SIGHUP reloads model, index and keys without dropping a request.
With several workers, a supervisor restarts workers that die.
"""

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess

from kosbert.errors import KosbertError, UsageError
from kosbert.model import hardware
from kosbert.model.directory import find_model
from kosbert.serving.app import build_app
from kosbert.serving.keys import KEYS_VARIABLE, ApiKeys
from kosbert.serving.metrics import MULTIPROC_VARIABLE
from kosbert.serving.service import Service
from kosbert.serving.settings import ServerSettings

logger = logging.getLogger(__name__)

_SHUTDOWN_GRACE = 30  # seconds beyond the request timeout that a shutdown waits for responses to be sent


def serve(settings: ServerSettings) -> None:
    """Serve until a signal stops the process."""
    configure_logging()
    if settings.workers == 1:
        app = build_app(Service.open(settings))
        with _listen(settings) as listener, contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(_uvicorn_config(settings, app)).run([listener])
        return
    # Check here, so that a mistake is reported once and not by every worker.
    ApiKeys.read(settings.keys, os.environ.get(KEYS_VARIABLE))
    find_model(settings.model)
    # More threads than cores in total would slow all workers down.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, hardware.threads() // settings.workers)))
    with _listen(settings) as listener, tempfile.TemporaryDirectory(prefix="kosbert-metrics-") as directory:
        os.environ[MULTIPROC_VARIABLE] = directory
        _Supervisor(_uvicorn_config(settings, partial(_worker_app, settings), factory=True), [listener]).run()


def _worker_app(settings: ServerSettings) -> FastAPI:
    """Build the application of a worker. If it cannot load, all workers stop: the next one would fail as well."""
    configure_logging()
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the default action would end the process while it loads
    try:
        return build_app(Service.open(settings))
    except KosbertError as error:
        logger.error("cannot start: %s", error)
        sys.exit(STARTUP_FAILURE)


class _Supervisor(Multiprocess):
    """uvicorn's supervisor, but SIGHUP is forwarded to the workers, which reload without closing connections."""

    def handle_hup(self) -> None:
        for process in self.processes:
            if process.pid is not None:
                os.kill(process.pid, signal.SIGHUP)

    def keep_subprocess_alive(self) -> None:
        pids_before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        for pid in pids_before - {process.pid for process in self.processes}:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]  # or its requests would count as in progress forever


def _uvicorn_config(settings: ServerSettings, app: object, *, factory: bool = False) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        factory=factory, workers=settings.workers, ws="none", lifespan="on", log_config=None, access_log=False,
        server_header=False, timeout_graceful_shutdown=round(settings.limits.timeout) + _SHUTDOWN_GRACE,
        timeout_worker_healthcheck=_SHUTDOWN_GRACE,
    )  # fmt: skip


@contextlib.contextmanager
def _listen(settings: ServerSettings) -> Iterator[socket.socket]:
    """Open the listening socket and print the address."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is given; else the second packet of a response can wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with listener:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
            listener.listen()  # before the address is printed: readers may connect at once
        except OSError as error:
            raise UsageError(
                f"cannot listen on {settings.host} port {settings.port} ({error.strerror or error}): "
                "choose another --port or --host"
            ) from None
        listener.set_inheritable(True)
        port = listener.getsockname()[1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        print(f"Serving {settings.model} at http://{host}:{port}", flush=True)
        if not settings.is_local and settings.keys is None and not os.environ.get(KEYS_VARIABLE):
            logger.warning("anyone who can reach %s port %d can use this server: set --keys", settings.host, port)
        yield listener


class JsonFormatter(logging.Formatter):
    """One JSON document per log record; the dict in `extra={"fields": {…}}` is merged into it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the JSON line of a record."""
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False, default=str)


def configure_logging() -> None:
    """Log to standard error as JSON lines. Keys are never logged, texts only with --log-texts."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("kosbert.serving").setLevel(logging.INFO)
