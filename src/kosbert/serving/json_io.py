"""Strict JSON parsing and fast JSON responses.

pydantic's parser rejects what Python's json module accepts: lone surrogates, NaN, unlimited numbers and nesting.
Vectors are serialized by orjson: 0.007 ms for 256 floats where pydantic takes 0.05 and Python 0.3, and half the bytes.
Serialization runs on the event loop: with a slower one, a request of 2,000 texts would block all others.
"""

from typing import Any, TypeVar

import orjson
from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json, to_json

from kosbert.serving.errors import ApiError, bad_request


class RequestBody(BaseModel):
    """Base class of request bodies. Types are not coerced; unknown fields are ignored, as OpenAI's API does."""

    model_config = ConfigDict(strict=True, extra="ignore")


BodyT = TypeVar("BodyT", bound=RequestBody)


async def read_json(request: Request, body_type: type[BodyT]) -> BodyT:
    """Parse and validate the body of a request; AccessMiddleware has checked its size and content type."""
    try:
        document = from_json(await request.body(), allow_inf_nan=False, cache_strings="none")
    except ValueError as error:
        reason = " ".join(str(error).split())[:120]
        raise bad_request(
            f"the body is not valid JSON ({reason}): send one JSON document in UTF-8", code="invalid_json"
        ) from None
    try:
        return body_type.model_validate(document)
    except ValidationError as error:
        raise _validation_error(error) from None


def _validation_error(error: ValidationError) -> ApiError:
    """Describe the first validation error, without the value: logs and screens may have other readers."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    # Every branch of a union reports an error; they share only the field.
    location = [str(part) for part in first["loc"] if isinstance(part, int) or str(part).isidentifier()]
    param = ".".join(location[:1] if len(error.errors()) > 1 else location)
    message = first["msg"][0].lower() + first["msg"][1:]
    return bad_request(f"{param or 'the body'}: {message}; see /docs for the expected fields", param=param or None)


def json_response(document: Any, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(to_json(document), media_type="application/json", headers=headers)


def json_response_float32(document: Any, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response with float32 arrays, each number with as many digits as float32 needs."""
    content = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(content, media_type="application/json", headers=headers)


def openapi_body(body_type: type[RequestBody]) -> dict[str, Any]:
    """Return the OpenAPI description of a request body, with all references inlined."""
    schema = body_type.model_json_schema()
    definitions = schema.pop("$defs", {})
    content = {"application/json": {"schema": _inline_refs(schema, definitions)}}
    return {"requestBody": {"required": True, "content": content}}


def _inline_refs(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inline_refs(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inline_refs(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {name: _inline_refs(value, definitions) for name, value in schema.items()}
