"""How commands print: one JSON document or a table to standard output, everything else to standard error."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
ModelOption = Annotated[str, typer.Option("--model", "-m", help="builtin, a directory or a Hugging Face name.")]
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", envvar="KOSBERT_DATA", help="A folder with the data sets' files.", show_default=False),
]


class _Piped(Console):
    def on_broken_pipe(self) -> None:
        """Let `kosbert … | head` end well: rich would call it an error."""
        raise BrokenPipeError


out = _Piped()
err = Console(stderr=True)


def whole(name: str) -> Column:
    """A column whose cells wrap and are never cut: rich would end a long Korean phrase with an ellipsis."""
    return Column(name, overflow="fold")


def print_json(document: Any) -> None:
    """Print one JSON document; Hangul stays readable, NaN is refused rather than written."""
    print(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))
