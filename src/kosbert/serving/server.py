"""`kosbert serve`: uvicorn around the application, in this process or in several.

SIGTERM finishes what was taken and ends. SIGHUP loads model, index and keys again without dropping a request. With
several workers a supervisor starts a worker that died anew.
"""

import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from functools import partial

import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess

from kosbert.errors import KosbertError, UsageError
from kosbert.model import hardware
from kosbert.model.directory import find_model
from kosbert.serving.app import build_app
from kosbert.serving.keys import ENVIRONMENT, Keys
from kosbert.serving.logs import log_as_json
from kosbert.serving.metrics import SHARED
from kosbert.serving.service import Service
from kosbert.serving.settings import Settings

logger = logging.getLogger(__name__)

_GRACE = 30  # seconds beyond a request's own time-out that a shutdown waits for answers to be sent


def serve(settings: Settings) -> None:
    """Serve until a signal ends it."""
    log_as_json()
    if settings.workers == 1:
        app = build_app(Service.open(settings))
        with _listening(settings) as listener, contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(_config(settings, app)).run([listener])
        return
    Keys.read(settings.keys, os.environ.get(ENVIRONMENT))
    find_model(settings.model)  # a mistake is told here once, and not by every worker
    # Workers that compute with more threads than there are cores wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, hardware.threads() // settings.workers)))
    with _listening(settings) as listener, tempfile.TemporaryDirectory(prefix="kosbert-metrics-") as folder:
        os.environ[SHARED] = folder
        _Supervisor(_config(settings, partial(_application, settings), factory=True), [listener]).run()


def _application(settings: Settings) -> FastAPI:
    """What a worker process serves; a worker that cannot load ends all of them, because the next could not either."""
    log_as_json()
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it is loading already; it would end the process
    try:
        return build_app(Service.open(settings))
    except KosbertError as error:
        logger.error("cannot start: %s", error)
        sys.exit(STARTUP_FAILURE)


class _Supervisor(Multiprocess):
    """uvicorn's, but SIGHUP is for the workers, who change their model without closing a connection."""

    def handle_hup(self) -> None:
        for process in self.processes:
            if process.pid is not None:
                os.kill(process.pid, signal.SIGHUP)

    def keep_subprocess_alive(self) -> None:
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        for pid in before - {process.pid for process in self.processes}:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]  # else its requests stay under way for ever


def _config(settings: Settings, app: object, *, factory: bool = False) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        factory=factory, workers=settings.workers, ws="none", lifespan="on", log_config=None, access_log=False,
        server_header=False, timeout_graceful_shutdown=round(settings.limits.seconds) + _GRACE,
        timeout_worker_healthcheck=_GRACE,
    )  # fmt: skip


@contextlib.contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """A socket that listens; a port that is taken is one clear sentence."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named, asyncio turns Nagle's delay off: else the second packet of an answer may wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with listener:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
            listener.listen()  # before the address is told: who reads it may ask at once
        except OSError as error:
            raise UsageError(
                f"cannot listen on {settings.host} port {settings.port} ({error.strerror or error}): "
                "give another --port or --host"
            ) from None
        listener.set_inheritable(True)
        port = listener.getsockname()[1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        print(f"kosbert serves {settings.model} at http://{host}:{port}", flush=True)
        if not settings.local and settings.keys is None and not os.environ.get(ENVIRONMENT):
            logger.warning("everybody who reaches %s port %d can use this server: give --keys", settings.host, port)
        yield listener
