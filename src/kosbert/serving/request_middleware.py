"""What goes with every request, whatever happens inside: an id, security headers, a line in the log, the metrics."""

import logging
import re
import secrets
import time
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kosbert.serving.errors import ApiError, internal
from kosbert.serving.metrics import Metrics

logger = logging.getLogger(__name__)

# Only what cannot confuse a log or a shell is taken over from the client.
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CLIENT_GONE = 499  # nginx's number: nobody was there to be answered

_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}


@dataclass
class RequestContext:
    """What is remembered of a request until it is logged."""

    request_id: str
    texts: int = 0
    tokens: int = 0
    key: int | None = None
    content: list[str] = field(default_factory=list)  # stays empty unless texts are to be logged


class RequestMiddleware:
    """The outermost layer; `paths` are those that metrics tell apart."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: frozenset[str]) -> None:
        self.app, self._metrics, self._paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI wants it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        account = RequestContext(given if _ID.fullmatch(given) else secrets.token_hex(8))
        scope["account"] = account
        status, started = _CLIENT_GONE, time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers["x-request-id"] = account.request_id
            await send(message)

        self._metrics.under_way.inc()
        try:
            await self.app(scope, receive, sending)
        except Exception:
            logger.exception("a request failed", extra={"fields": {"request_id": account.request_id}})
            if status == _CLIENT_GONE:
                await respond(sending, internal())
        finally:
            self._metrics.under_way.dec()
            self._record(scope, account, status, time.perf_counter() - started)

    def _record(self, scope: Scope, account: RequestContext, status: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self._paths else "other"
        self._metrics.requests.labels(path, status).inc()
        self._metrics.seconds.labels(path).observe(seconds)
        fields = {
            "request_id": account.request_id,
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "milliseconds": round(seconds * 1_000, 2),
            "texts": account.texts,
            "tokens": account.tokens,
            "key": account.key,
            "client": (scope.get("client") or ("",))[0],
        }
        if account.content:
            fields["content"] = account.content
        logger.info("request", extra={"fields": fields})


async def respond(send: Send, error: ApiError) -> None:
    """Answer with an error, outside of any endpoint."""
    headers = {"content-type": "application/json", "content-length": str(len(error.body)), **error.headers}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": error.body})
