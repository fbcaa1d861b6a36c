"""Output of commands: one JSON document or a table on standard output, everything else on standard error."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
ModelOption = Annotated[str, typer.Option("--model", "-m", help="builtin, a model directory or a Hugging Face name.")]
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", envvar="KOSBERT_DATA", help="Directory with the data sets.", show_default=False),
]
EncodingOption = Annotated[
    str, typer.Option("--encoding", help="Of text files: cp949, utf-16, …; detected by default.", show_default=False)
]
SheetOption = Annotated[str, typer.Option("--sheet", help="Of .xlsx files; the first by default.", show_default=False)]


class _PipeConsole(Console):
    def on_broken_pipe(self) -> None:
        """Raise for the command group to handle: with rich's own handler `kosbert … | head` exits with an error."""
        raise BrokenPipeError


out = _PipeConsole()
err = Console(stderr=True)


def wrapped(name: str) -> Column:
    """Return a table column that wraps long cells. By default rich truncates them with an ellipsis."""
    return Column(name, overflow="fold")


def print_json(document: Any) -> None:
    """Print one JSON document: Hangul stays readable, NaN raises an error."""
    print(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))
