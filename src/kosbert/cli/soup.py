"""`kosbert soup`: average models that were trained alike."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kosbert.cli.output import DataDirOption, JsonOption, err, out, print_json, whole


def soup(
    models: Annotated[list[str], typer.Argument(help="Model directories of one backbone.", show_default=False)],
    directory: Annotated[Path, typer.Option("--out", help="Where the average goes.", show_default=False)],
    dev: Annotated[
        list[str] | None, typer.Option("--dev", help="Choose on this set; may be repeated.  [default: korsts-dev]")
    ] = None,
    share: Annotated[
        list[float] | None,
        typer.Option("--share", help="Of each model in turn: mix all by these and choose nothing.", show_default=False),
    ] = None,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Average the weights of models where that is better on dev: kosbert soup runs/seed-*/model --out runs/soup."""
    from kosbert.evaluation.evaluate import read_set
    from kosbert.training.soup import soup as cook

    sets = {name: read_set(name, folder=data_dir).pairs for name in dev or ["korsts-dev"]}
    with err.status("tasting"):
        made = cook(models, sets, directory, shares=share)
    if json:
        print_json(
            {"model": str(made.path), "ingredients": made.ingredients, "dev": made.dev, "score": made.score},
        )
        return
    table = Table(
        whole("model"),
        "dev Spearman ×100",
        "in the soup",
        title=f"{'scored' if share else 'chosen'} on {', '.join(sets)}",
    )
    for name, score in made.dev.items():
        table.add_row(name, f"{100 * score:.2f}", "yes" if name in made.ingredients else "no")
    table.add_row("the soup", f"{100 * made.score:.2f}", "")
    out.print(table)
    out.print(f"Model: {made.path}", soft_wrap=True)
