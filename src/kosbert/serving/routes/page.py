"""The web page, the study report and the API description.

Files are read once at startup: no path from a request reaches the file system. Nothing is loaded from other servers.
"""

import html
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse, Response

from kosbert.serving.errors import ApiError
from kosbert.serving.settings import ServerSettings

_MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_COMMON_POLICY = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    f"{_COMMON_POLICY}"
)
# A report is one file with inline scripts. The sandbox runs them in an opaque origin, without access to this server.
_REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    f"sandbox allow-scripts allow-downloads; {_COMMON_POLICY}"
)


def page_routes(settings: ServerSettings) -> APIRouter:
    """Return the routes of the page (/), its files (/page/…) and the report (/report)."""
    router = APIRouter(include_in_schema=False)
    contents = _read_page_files()
    report = settings.report.read_text(encoding="utf-8") if settings.report else None

    @router.get("/")
    async def page() -> Response:
        return _file_response(contents, "index.html")

    @router.get("/page/{name}")
    async def page_file(name: str) -> Response:
        return _file_response(contents, name)

    @router.get("/report")
    async def study_report() -> Response:
        if report is None:
            raise ApiError(404, "this server has no report: start it with --report FILE", code="no_report")
        return HTMLResponse(report, headers={"content-security-policy": _REPORT_POLICY})

    return router


def _read_page_files() -> dict[str, str]:
    directory = files("kosbert.serving") / "page"
    if not directory.is_dir():
        return {}
    return {
        file.name: file.read_text(encoding="utf-8")
        for file in directory.iterdir()
        if file.name.rpartition(".")[2] in _MEDIA_TYPES
    }


def _file_response(contents: dict[str, str], name: str) -> Response:
    if name not in contents:
        raise ApiError(404, "this page does not exist: start at /", code="not_found")
    headers = {"content-security-policy": _PAGE_POLICY, "cache-control": "no-cache"}
    return Response(contents[name], media_type=_MEDIA_TYPES[name.rpartition(".")[2]], headers=headers)


def docs_route(app: FastAPI) -> APIRouter:
    """Return /docs, a plain list of the endpoints. FastAPI's own page loads its scripts from a CDN."""
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    async def docs() -> Response:
        return HTMLResponse(_render_docs(app.openapi()), headers={"content-security-policy": _PAGE_POLICY})

    return router


def _render_docs(document: dict[str, Any]) -> str:
    sections = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            fields = "".join(
                f"<li><code>{html.escape(name)}</code>{'' if name in body.get('required', ()) else ' (optional)'} "
                f"{html.escape(field.get('description', ''))}</li>"
                for name, field in body.get("properties", {}).items()
            )
            sections.append(
                f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>"
                f"<p>{html.escape(operation.get('description', ''))}</p><ul>{fields}</ul>"
            )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>kosbert: endpoints</title>'
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/page/page.css">'
        '<main><h1>kosbert: endpoints</h1><p><a href="/openapi.json">OpenAPI document</a></p>'
        f"{''.join(sections)}</main></html>"
    )
