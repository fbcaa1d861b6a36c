"""What a client is told when something is wrong: OpenAI's error shape, one sentence with the fix, never a traceback."""

import math
from typing import Any

from pydantic_core import to_json

# OpenAI's clients choose their exception by status and show the type.
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """A request that is answered with an error.

    Args:
        status: of HTTP.
        message: one sentence that ends with the fix.
        code: a word that programs can compare.
        param: the field of the request that is wrong.
        retry_after: seconds after which it is worth trying again.
    """

    def __init__(
        self, status: int, message: str, *, code: str, param: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param, self.retry_after = status, message, code, param, retry_after

    @property
    def document(self) -> dict[str, Any]:
        """The answer's body."""
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    @property
    def body(self) -> bytes:
        """The answer's body as JSON."""
        return to_json(self.document)

    @property
    def headers(self) -> dict[str, str]:
        """What goes with it."""
        found = {}
        if self.retry_after is not None:
            found["retry-after"] = str(max(1, math.ceil(self.retry_after)))
        if self.status == 401:
            found["www-authenticate"] = "Bearer"
        return found


def internal() -> ApiError:
    """Whatever else goes wrong; the log has it under the request's id."""
    return ApiError(500, "the server failed on this request: try again, or report the request id", code="internal")


def wrong(message: str, *, param: str | None = None, code: str = "invalid_value") -> ApiError:
    """The call was wrong."""
    return ApiError(400, message, code=code, param=param)


def too_large(message: str, *, param: str | None = None, code: str = "too_large") -> ApiError:
    """The call was right but for its size."""
    return ApiError(413, message, code=code, param=param)
