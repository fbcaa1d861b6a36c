"""The page, the report and the description of the endpoints. Files are read once at the start: no path from a request
reaches the file system, and nothing is loaded from elsewhere.
"""

import html
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse, Response

from kosbert.serving.errors import ApiError
from kosbert.serving.settings import Settings

_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_SHUT = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE_POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; {_SHUT}"
)
# A report is one file with its scripts inside. In the sandbox they run, but as a stranger to the server they came from.
_REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    f"sandbox allow-scripts allow-downloads; {_SHUT}"
)


def page_routes(settings: Settings) -> APIRouter:
    """The page at /, its files below /page, and the report."""
    router = APIRouter(include_in_schema=False)
    texts = _page_files()
    report = settings.report.read_text(encoding="utf-8") if settings.report else None

    @router.get("/")
    async def page() -> Response:
        return _file(texts, "index.html")

    @router.get("/page/{name}")
    async def page_file(name: str) -> Response:
        return _file(texts, name)

    @router.get("/report")
    async def study_report() -> Response:
        if report is None:
            raise ApiError(404, "there is no report: start the server with --report FILE", code="no_report")
        return HTMLResponse(report, headers={"content-security-policy": _REPORT_POLICY})

    return router


def _page_files() -> dict[str, str]:
    folder = files("kosbert.serving") / "page"
    if not folder.is_dir():
        return {}
    return {
        each.name: each.read_text(encoding="utf-8")
        for each in folder.iterdir()
        if each.name.rpartition(".")[2] in _KINDS
    }


def _file(texts: dict[str, str], name: str) -> Response:
    if name not in texts:
        raise ApiError(404, "there is no such page: begin at /", code="not_found")
    headers = {"content-security-policy": _PAGE_POLICY, "cache-control": "no-cache"}
    return Response(texts[name], media_type=_KINDS[name.rpartition(".")[2]], headers=headers)


def docs_route(app: FastAPI) -> APIRouter:
    """/docs: the endpoints as a plain page, because FastAPI's own loads its scripts from somebody else's server."""
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    async def docs() -> Response:
        return HTMLResponse(_described(app.openapi()), headers={"content-security-policy": _PAGE_POLICY})

    return router


def _described(document: dict[str, Any]) -> str:
    rows = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            fields = "".join(
                f"<li><code>{html.escape(name)}</code>{'' if name in body.get('required', ()) else ' (optional)'} "
                f"{html.escape(field.get('description', ''))}</li>"
                for name, field in body.get("properties", {}).items()
            )
            rows.append(
                f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>"
                f"<p>{html.escape(operation.get('description', ''))}</p><ul>{fields}</ul>"
            )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>kosbert: endpoints</title>'
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/page/page.css">'
        '<main><h1>kosbert: endpoints</h1><p><a href="/openapi.json">OpenAPI document</a></p>'
        f"{''.join(rows)}</main></html>"
    )
