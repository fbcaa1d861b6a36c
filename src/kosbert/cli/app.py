"""The `kosbert` command: its verbs, its exit codes, its way of saying what went wrong.

Exit codes: 0 done, 1 the work failed, 2 the call was wrong. A user's mistake is one sentence with the fix.
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

_STOPPED = "kosbert: stopped; the same command goes on from what is saved (train: add --resume)"


class _Commands(TyperGroup):
    """The commands, with what may happen to any of them said in our words and not in typer's."""

    def invoke(self, ctx: Any) -> Any:
        try:
            found = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            print(_STOPPED, file=sys.stderr)
            raise typer.Exit(130) from None
        except BrokenPipeError:  # `kosbert … | head` is not an error
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left has nowhere to go
            raise typer.Exit(0) from None
        except OSError as error:
            file, why = error.filename or "a file", error.strerror or error
            raise KosbertError(f"{file} cannot be read or written ({why}): check the path and its rights") from error
        return found


app = typer.Typer(
    name="kosbert",
    cls=_Commands,
    help="Korean sentence embeddings: train, compare, prove, ship.",
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


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"kosbert {kosbert.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; the entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # Windows consoles and the C locale would refuse Hangul
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        app()
    except KosbertError as error:
        print(f"kosbert: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
