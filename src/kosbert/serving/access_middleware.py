"""What a request must pass before an endpoint sees it: host, key, rate, kind, concurrency, size, time.

A client that goes away takes its request with it: the endpoint is cancelled, and its texts leave the queue.
"""

import asyncio
import contextlib
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kosbert.serving.errors import ApiError, too_large
from kosbert.serving.request_middleware import RequestContext, respond
from kosbert.serving.service import Service
from kosbert.serving.settings import LOOPBACK

_OPEN = frozenset({"/", "/health", "/ready", "/docs", "/openapi.json", "/report"})
_SWALLOWED = 32 * 2**20  # bytes of a body that are read although they are too many
_PATIENCE = 10  # seconds for the body of a request that is refused anyway


class _GoneError(Exception):
    """The client went away."""


class AccessMiddleware:
    """The layer around the endpoints."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self._service = app, service
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI wants it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._admit(scope, headers)
        except ApiError as error:
            await self._refuse(error, headers, receive, send)
            return
        if scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        self._under_way += 1
        try:
            await self._answer(scope, receive, send)
        finally:
            self._under_way -= 1

    def _admit(self, scope: Scope, headers: Headers) -> None:
        """Everything that can be told from the head of a request."""
        service, account = self._service, scope["account"]
        path, method = scope["path"], scope["method"]
        self._check_host(headers)
        if method == "GET" and (path in _OPEN or path.startswith("/page/")):
            return
        self._check_client(scope, headers, account)
        if method != "POST":
            return
        if service.closing:
            raise ApiError(503, "the server is shutting down: try another, or later", code="closing", retry_after=5)
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise ApiError(415, "this is not announced as JSON: send Content-Type: application/json", code="not_json")
        if self._under_way >= service.settings.limits.requests:
            raise ApiError(429, "too many requests at once: try again later", code="too_many", retry_after=1)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > service.settings.limits.body_bytes:
            raise self._body_too_large()

    def _check_host(self, headers: Headers) -> None:
        """A web page may point a name of its own at 127.0.0.1 (DNS rebinding); the browser then tells that name."""
        if not self._service.settings.local or self._service.keys:
            return
        host = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
        if host.strip("[]") not in LOOPBACK:
            raise ApiError(
                403, "this server is for its own machine: ask for it as 127.0.0.1, or start it with --keys",
                code="wrong_host",
            )  # fmt: skip

    def _check_client(self, scope: Scope, headers: Headers, account: RequestContext) -> None:
        client = str((scope.get("client") or ("",))[0])
        if self._service.keys:
            account.key = self._service.keys.number(headers.get("authorization", ""))
            if account.key is None:
                raise ApiError(
                    401, "the API key is missing or wrong: send Authorization: Bearer KEY", code="invalid_api_key"
                )
            client = f"key {account.key}"
        delay = self._service.rates.delay(client)
        if delay:
            raise ApiError(429, "too many requests a second: try again later", code="rate_limit", retry_after=delay)

    def _body_too_large(self) -> ApiError:
        most = self._service.settings.limits.body_bytes
        return too_large(f"the body is too large: send at most {most:,} bytes a request", code="body_too_large")

    async def _refuse(self, error: ApiError, headers: Headers, receive: Receive, send: Send) -> None:
        """Answer without an endpoint, after the body: a client that still sends would not see the answer."""
        if "expect" not in headers:  # such a client waits to be told before it sends
            with contextlib.suppress(ApiError, _GoneError, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._body(receive)
        await respond(send, error)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body and run the endpoint, in the time that a request has."""
        begun = finished = False
        body: bytes | None = None

        async def sending(message: Message) -> None:
            nonlocal begun, finished
            begun = True
            finished = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            async with asyncio.timeout(self._service.settings.limits.seconds):
                body = await self._body(receive)
                await self._unless_gone(scope, body, receive, sending, lambda: finished)
        except ApiError as error:
            await respond(send, error)
        except _GoneError:
            return
        except TimeoutError:
            if body is None:
                await respond(send, ApiError(408, "the body came too slowly: send it faster", code="slow_body"))
            elif not begun:
                await respond(
                    send, ApiError(504, "the answer took too long: send less at once, or try later", code="timeout")
                )

    async def _body(self, receive: Receive) -> bytes:
        """The whole body, counted as it comes, because what is announced may be a lie; too much of it is not kept."""
        parts: list[bytes] = []
        size, more = 0, True
        while more and size <= _SWALLOWED:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _GoneError
            part = message.get("body", b"")
            more = message.get("more_body", False)
            size += len(part)
            if size <= self._service.settings.limits.body_bytes:
                parts.append(part)
        if size > self._service.settings.limits.body_bytes:
            raise self._body_too_large()
        return b"".join(parts)

    async def _unless_gone(
        self, scope: Scope, body: bytes, receive: Receive, send: Send, finished: Callable[[], bool]
    ) -> None:
        """Run the endpoint, and cancel it when the client goes away before it is answered."""
        task = asyncio.current_task()
        assert task is not None
        unread = [body]
        gone = False

        async def watch() -> Message:
            nonlocal gone
            while (message := await receive())["type"] != "http.disconnect":
                pass
            if not finished():
                gone = True
                task.cancel()
            return message

        watcher = asyncio.create_task(watch())

        async def receiving() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await asyncio.shield(watcher)

        try:
            await self.app(scope, receiving, send)
        except asyncio.CancelledError:
            if not gone:
                raise
            task.uncancel()
        finally:
            watcher.cancel()
