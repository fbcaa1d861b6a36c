"""API errors in OpenAI's format: one sentence that ends with the fix, never a traceback."""

import math
from typing import Any

from pydantic_core import to_json

# OpenAI's clients choose the exception class by status and display the type.
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """A request that gets an error response.

    Args:
        status: HTTP status.
        message: one sentence that ends with the fix.
        code: machine-readable identifier.
        param: the request field that is wrong.
        retry_after: seconds to wait before a retry.
    """

    def __init__(
        self, status: int, message: str, *, code: str, param: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param, self.retry_after = status, message, code, param, retry_after

    @property
    def document(self) -> dict[str, Any]:
        """The response body."""
        error_type = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": error_type, "param": self.param, "code": self.code}}

    @property
    def body(self) -> bytes:
        """The response body as JSON."""
        return to_json(self.document)

    @property
    def headers(self) -> dict[str, str]:
        """Additional response headers."""
        headers = {}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, math.ceil(self.retry_after)))
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        return headers


def internal_error() -> ApiError:
    """Return the error for unexpected failures; the log has the traceback under the request id."""
    return ApiError(
        500, "the server failed on this request: try again, or report the request id", code="internal_error"
    )


def bad_request(message: str, *, param: str | None = None, code: str = "invalid_value") -> ApiError:
    """Return a 400 error."""
    return ApiError(400, message, code=code, param=param)


def too_large(message: str, *, param: str | None = None, code: str = "too_large") -> ApiError:
    """Return a 413 error."""
    return ApiError(413, message, code=code, param=param)


def shutting_down() -> ApiError:
    """Return the 503 error of a server that is stopping."""
    return ApiError(
        503, "the server is shutting down: retry later or use another server", code="shutting_down", retry_after=5
    )
