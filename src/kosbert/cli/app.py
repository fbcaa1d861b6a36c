"""The `kosbert` command: its subcommands, exit codes and error messages.

Exit codes: 0 success, 1 the command failed, 2 wrong usage. A user mistake is reported in one sentence with the fix.
"""

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import kosbert
from kosbert.cli import (
    bench,
    cluster,
    data,
    diagnose,
    doctor,
    encode,
    evaluate,
    export,
    index,
    mine,
    search,
    serve,
    similarity,
    soup,
    study,
    train,
    transfer,
)
from kosbert.errors import KosbertError

_INTERRUPTED = "kosbert: interrupted; run the same command again to resume (train: add --resume)"


class _CommandGroup(TyperGroup):
    """Handle interrupts, closed pipes and file errors the same way for every command."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            print(_INTERRUPTED, file=sys.stderr)
            raise typer.Exit(130) from None
        except BrokenPipeError:  # `kosbert … | head` is not an error
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discard the rest of the output
            raise typer.Exit(0) from None
        except OSError as error:
            path, reason = error.filename or "a file", error.strerror or error
            raise KosbertError(f"{path} cannot be read or written ({reason}): check path and permissions") from error
        return result


app = typer.Typer(
    name="kosbert",
    cls=_CommandGroup,
    help="Korean sentence embeddings: train, evaluate, search, serve.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(study.app, name="study")
app.add_typer(data.app, name="data")
app.add_typer(index.app, name="index")
app.command("search")(search.search)
app.command("cluster")(cluster.cluster)
app.command("mine")(mine.mine)
app.command("similarity")(similarity.similarity)
app.command("encode")(encode.encode)
app.command("train")(train.train)
app.command("soup")(soup.soup)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(evaluate.compare)
app.command("transfer")(transfer.transfer)
app.command("diagnose")(diagnose.diagnose)
app.command("export")(export.export)
app.command("verify")(export.verify)
app.command("serve")(serve.serve)
app.command("bench")(bench.bench)
app.command("doctor")(doctor.doctor)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"kosbert {kosbert.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; the entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # Windows consoles and the C locale cannot print Hangul
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        app()
    except KosbertError as error:
        print(f"kosbert: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
