"""ASGI middleware: RequestMiddleware around AccessMiddleware around the routes.

RequestMiddleware adds the request id, security headers, the log line and the metrics to every request.
AccessMiddleware checks host, API key, rate, content type, concurrency and size, and enforces the timeout. If the client
disconnects, it cancels the route, and the request's texts leave the queue.
"""

import asyncio
import contextlib
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kosbert.serving.errors import ApiError, internal_error, shutting_down, too_large
from kosbert.serving.metrics import Metrics
from kosbert.serving.service import RequestContext, Service
from kosbert.serving.settings import LOOPBACK_HOSTS

logger = logging.getLogger(__name__)

# Only ids that are safe in logs and shells are accepted from the client.
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CLIENT_CLOSED_REQUEST = 499  # nginx's status for a client that disconnected before the response

_SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}

_PUBLIC_PATHS = frozenset({"/", "/health", "/ready", "/docs", "/openapi.json", "/report"})
_MAX_DISCARDED_BYTES = 32 * 2**20  # read and discarded from a body that is too large
_REJECTED_BODY_TIMEOUT = 10  # seconds to receive the body of a rejected request
_MAX_TRACKED_CLIENTS = 10_000  # of the rate limiter; the least recently seen is dropped


class RequestMiddleware:
    """The outermost layer.

    Args:
        app: the application inside.
        metrics: metrics to update.
        paths: paths with their own metrics label; all other paths share one label.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: frozenset[str]) -> None:
        self.app, self._metrics, self._paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        client_id = Headers(scope=scope).get("x-request-id", "")
        context = RequestContext(client_id if _REQUEST_ID.fullmatch(client_id) else secrets.token_hex(8))
        scope.setdefault("state", {})["context"] = context  # request.state.context in the routes
        status, start = _CLIENT_CLOSED_REQUEST, time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers["x-request-id"] = context.request_id
            await send(message)

        self._metrics.in_progress.inc()
        try:
            await self.app(scope, receive, send_with_headers)
        except Exception:
            logger.exception("request failed", extra={"fields": {"request_id": context.request_id}})
            if status == _CLIENT_CLOSED_REQUEST:
                await _send_error(send_with_headers, internal_error())
        finally:
            self._metrics.in_progress.dec()
            self._record(scope, context, status, time.perf_counter() - start)

    def _record(self, scope: Scope, context: RequestContext, status: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self._paths else "other"
        self._metrics.requests.labels(path, status).inc()
        self._metrics.request_seconds.labels(path).observe(seconds)
        fields = {
            "request_id": context.request_id,
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "duration_ms": round(seconds * 1_000, 2),
            "texts": context.texts,
            "tokens": context.tokens,
            "key": context.key,
            "client": (scope.get("client") or ("",))[0],
        }
        if context.content:
            fields["content"] = context.content
        logger.info("request", extra={"fields": fields})


class AccessMiddleware:
    """The layer around the routes."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self._service = app, service
        self._limits = service.settings.limits
        self._rate_limiter = RateLimiter(self._limits.max_rate) if self._limits.max_rate else None
        self._in_progress = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_headers(scope, headers)
        except ApiError as error:
            # A client sends its whole body before it reads the response, unless it sent "Expect: 100-continue".
            if "expect" not in headers:
                with contextlib.suppress(ApiError, _ClientDisconnectedError, TimeoutError):
                    async with asyncio.timeout(_REJECTED_BODY_TIMEOUT):
                        await self._read_body(receive)
            await _send_error(send, error)
            return
        if scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        self._in_progress += 1
        try:
            await self._run_route(scope, receive, send)
        finally:
            self._in_progress -= 1

    def _check_headers(self, scope: Scope, headers: Headers) -> None:
        """Raise ApiError if the request can be rejected without reading its body."""
        service, path, method = self._service, scope["path"], scope["method"]
        # DNS rebinding: a website can resolve its own name to 127.0.0.1, but the browser sends that name as Host.
        # Not Starlette's TrustedHostMiddleware: it answers in plain text instead of OpenAI's error format, and it
        # cannot follow a reload that adds or removes keys (with keys, any host name is allowed).
        if service.settings.is_local and not service.keys:
            host = re.sub(r":\d*$", "", headers.get("host", ""))
            if host.strip("[]") not in LOOPBACK_HOSTS:
                raise ApiError(
                    403, "this server only accepts requests to its own host name: use 127.0.0.1, or start it with "
                    "--keys", code="invalid_host",
                )  # fmt: skip
        if method == "GET" and (path in _PUBLIC_PATHS or path.startswith("/page/")):
            return
        client = str((scope.get("client") or ("",))[0])
        if service.keys:
            key = scope["state"]["context"].key = service.keys.match(headers.get("authorization", ""))
            if key is None:
                raise ApiError(
                    401, "the API key is missing or invalid: send Authorization: Bearer KEY", code="invalid_api_key"
                )
            client = f"key {key}"
        if self._rate_limiter and (delay := self._rate_limiter.delay(client)):
            raise ApiError(
                429, "too many requests per second: retry later", code="rate_limit_exceeded", retry_after=delay
            )
        if method != "POST":
            return
        if service.closing:
            raise shutting_down()
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise ApiError(
                415, "the content type must be JSON: send Content-Type: application/json", code="unsupported_media_type"
            )
        if self._in_progress >= self._limits.max_requests:
            raise ApiError(429, "too many concurrent requests: retry later", code="too_many_requests", retry_after=1)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._limits.max_body_bytes:
            raise self._body_too_large()

    def _body_too_large(self) -> ApiError:
        limit = self._limits.max_body_bytes
        return too_large(f"the body is too large: send at most {limit:,} bytes per request", code="body_too_large")

    async def _read_body(self, receive: Receive) -> bytes:
        """Return the body. Bytes are counted as they arrive (Content-Length is not trusted), excess is discarded."""
        limit = self._limits.max_body_bytes
        chunks: list[bytes] = []
        size, more_body = 0, True
        while more_body and size <= _MAX_DISCARDED_BYTES:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientDisconnectedError
            chunk = message.get("body", b"")
            more_body = message.get("more_body", False)
            size += len(chunk)
            if size <= limit:
                chunks.append(chunk)
        if size > limit:
            raise self._body_too_large()
        return b"".join(chunks)

    async def _run_route(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body and run the route within the timeout."""
        started = finished = False
        body: bytes | None = None

        async def tracking_send(message: Message) -> None:
            nonlocal started, finished
            started = True
            finished = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            async with asyncio.timeout(self._limits.timeout):
                body = await self._read_body(receive)
                await self._run_until_disconnect(scope, body, receive, tracking_send, lambda: finished)
        except ApiError as error:
            await _send_error(send, error)
        except _ClientDisconnectedError:
            return
        except TimeoutError:
            if body is None:
                await _send_error(
                    send, ApiError(408, "the body arrived too slowly: send it faster", code="request_timeout")
                )
            elif not started:
                await _send_error(
                    send, ApiError(504, "the request timed out: send fewer texts, or retry later", code="timeout")
                )

    async def _run_until_disconnect(
        self, scope: Scope, body: bytes, receive: Receive, send: Send, finished: Callable[[], bool]
    ) -> None:
        """Run the route, and cancel it if the client disconnects before the response is finished."""
        task = asyncio.current_task()
        assert task is not None
        unread = [body]
        disconnected = False

        async def watch() -> Message:
            nonlocal disconnected
            while (message := await receive())["type"] != "http.disconnect":
                pass
            if not finished():
                disconnected = True
                task.cancel()
            return message

        watcher = asyncio.create_task(watch())

        async def receive_body() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await asyncio.shield(watcher)

        try:
            await self.app(scope, receive_body, send)
        except asyncio.CancelledError:
            if not disconnected:
                raise
            task.uncancel()
        finally:
            watcher.cancel()


class _ClientDisconnectedError(Exception):
    """The client disconnected while it was sending the body."""


class RateLimiter:
    """Token bucket per client: `rate` requests per second, with bursts of up to twice that.

    >>> now = [0.0]
    >>> limiter = RateLimiter(1, clock=lambda: now[0])
    >>> [limiter.delay("가") for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, max(1.0, 2 * rate), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client: (requests left, time)

    def delay(self, client: str) -> float:
        """Return the seconds that a client must wait, or 0 after counting a request that may pass."""
        now = self._clock()
        remaining, updated = self._buckets.pop(client, (self._burst, now))
        remaining = min(self._burst, remaining + (now - updated) * self._rate)
        allowed = remaining >= 1
        self._buckets[client] = (remaining - allowed, now)
        if len(self._buckets) > _MAX_TRACKED_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - remaining) / self._rate


async def _send_error(send: Send, error: ApiError) -> None:
    """Send an error response from outside the routes."""
    headers = {"content-type": "application/json", "content-length": str(len(error.body)), **error.headers}
    raw_headers = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw_headers})
    await send({"type": "http.response.body", "body": error.body})
