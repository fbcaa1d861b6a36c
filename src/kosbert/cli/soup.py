"""`kosbert soup`: average the weights of models."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from kosbert.cli.output import DataDirOption, EncodingOption, JsonOption, SheetOption, err, out, print_json, wrapped


def soup(
    models: Annotated[list[str], typer.Argument(help="Model directories of one backbone.", show_default=False)],
    directory: Annotated[Path, typer.Option("--out", help="Directory of the averaged model.", show_default=False)],
    dev: Annotated[
        list[str] | None,
        typer.Option("--dev", help="Select models on this set; may be repeated.  [default: korsts-dev]"),
    ] = None,
    weights: Annotated[
        list[float] | None,
        typer.Option("--weight", help="One per model: average all, with no selection.", show_default=False),
    ] = None,
    encoding: EncodingOption = "",
    sheet: SheetOption = "",
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Average the weights of models where that improves dev: kosbert soup runs/seed-*/model --out runs/soup."""
    from kosbert.evaluation.evaluate import read_set
    from kosbert.training.soup import soup as make_soup

    options: Any = {"encoding": encoding, "sheet": sheet, "data_dir": data_dir}
    dev_sets = {name: read_set(name, **options).pairs for name in dev or ["korsts-dev"]}
    with err.status("evaluating averages"):
        result = make_soup(models, dev_sets, directory, weights=weights)
    if json:
        print_json(
            {"model": str(result.path), "ingredients": result.ingredients, "dev": result.dev, "score": result.score},
        )
        return
    table = Table(
        wrapped("model"),
        "dev Spearman ×100",
        "averaged",
        title=f"{'evaluated' if weights else 'selected'} on {', '.join(dev_sets)}",
    )
    for name, score in result.dev.items():
        table.add_row(name, f"{100 * score:.2f}", "yes" if name in result.ingredients else "no")
    table.add_row("soup", f"{100 * result.score:.2f}", "")
    out.print(table)
    out.print(f"Model: {result.path}", soft_wrap=True)
