"""`kosbert serve`: serve a model over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from kosbert.errors import UsageError


def serve(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="builtin, a directory or a Hugging Face name.")
    ] = "builtin",
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 to accept other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 for any free port.")] = 8080,
    index: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Search index for /search and /cluster.", show_default=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Study report to serve at /report.", show_default=False)
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="API keys, one per line; or set KOSBERT_API_KEYS.", show_default=False),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes, each with its own copy of the model.")] = 1,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Website whose scripts may call the server.", show_default=False),
    ] = None,
    max_body: Annotated[int, typer.Option(help="Bytes per request.")] = 4 * 2**20,
    max_texts: Annotated[int, typer.Option(help="Texts per request.")] = 2_048,
    max_tokens: Annotated[int, typer.Option(help="Tokens per request.")] = 32_768,
    max_queue: Annotated[int, typer.Option(help="Tokens waiting for the model.")] = 131_072,
    max_requests: Annotated[int, typer.Option(help="Concurrent requests per worker.")] = 256,
    max_rate: Annotated[float, typer.Option(help="Requests per second, key and worker; 0 for no limit.")] = 0,
    timeout: Annotated[float, typer.Option(help="Seconds per request.")] = 60,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Log the texts of requests.")] = False,
) -> None:
    """Serve a model over HTTP: APIs of OpenAI and text-embeddings-inference, search, and a web page."""
    try:
        from kosbert.serving.server import serve as run
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette", "prometheus_client", "orjson"):
            raise
        raise UsageError(f"serving needs {error.name}: pip install 'kosbert[serve]'") from None
    from kosbert.serving.settings import Limits, ServerSettings

    limits = Limits(max_body, max_texts, max_tokens, max_queue, max_requests, max_rate, timeout)
    run(ServerSettings(model, host, port, index, report, keys, workers, tuple(cors or ()), log_texts, limits))
