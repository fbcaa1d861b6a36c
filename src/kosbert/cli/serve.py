"""`kosbert serve`: the model over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from kosbert.errors import UsageError


def serve(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="builtin, a directory or a Hugging Face name.")
    ] = "builtin",
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 for any that is free.")] = 8080,
    index: Annotated[
        Path | None, typer.Option(metavar="DIR", help="An index for /search and /cluster.", show_default=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A study's report to show at /report.", show_default=False)
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="API keys, one a line; or set KOSBERT_API_KEYS.", show_default=False),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes, each with its own copy of the model.")] = 1,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="A web page's origin that may use the server.", show_default=False),
    ] = None,
    max_body: Annotated[int, typer.Option(help="Bytes of a request.")] = 4 * 2**20,
    max_texts: Annotated[int, typer.Option(help="Texts of a request.")] = 2_048,
    max_tokens: Annotated[int, typer.Option(help="Tokens of a request.")] = 32_768,
    max_queue: Annotated[int, typer.Option(help="Tokens that wait for the model.")] = 131_072,
    max_requests: Annotated[int, typer.Option(help="Requests at once, each worker.")] = 256,
    max_rate: Annotated[float, typer.Option(help="Requests a second of a key, each worker; 0 for no limit.")] = 0,
    timeout: Annotated[float, typer.Option(help="Seconds for an answer.")] = 60,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Write the texts of requests into the log.")] = False,
) -> None:
    """Serve a model over HTTP: OpenAI's API, text-embeddings-inference's, search, and a page to try it."""
    try:
        from kosbert.serving.server import serve as run
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette", "prometheus_client", "orjson"):
            raise
        raise UsageError(f"serving needs {error.name}: pip install 'kosbert[serve]'") from None
    from kosbert.serving.limits import Limits
    from kosbert.serving.settings import Settings

    limits = Limits(max_body, max_texts, max_tokens, max_queue, max_requests, max_rate, timeout)
    run(Settings(model, host, port, index, report, keys, workers, tuple(cors or ()), log_texts, limits))
