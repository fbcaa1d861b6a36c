"""`kosbert train`: train a recipe into a model directory."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kosbert.cli.output import DataDirOption, JsonOption, out, print_json
from kosbert.errors import UsageError
from kosbert.progress import progress_bars


def train(
    recipe: Annotated[
        str, typer.Argument(help="Name of a recipe (see --list), e.g. nli-sts, or a YAML file.", show_default=False)
    ] = "",
    directory: Annotated[
        Path | None, typer.Option("--out", help="Run directory; runs/NAME by default.", show_default=False)
    ] = None,
    overlays: Annotated[
        list[str] | None,
        typer.Option("--with", help="Apply an overlay, by name or file; may be repeated.", show_default=False),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Set one value: train.lr=3e-5.", show_default=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out exactly where it stopped.")] = False,
    time_budget: Annotated[
        float | None, typer.Option(min=1, help="Seconds of training; the schedule is fitted to them.")
    ] = None,
    checkpoint_every: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds between two checkpoints; by default they take at most 2% of the time.",
            show_default=False,
        ),
    ] = None,
    trackers: Annotated[
        list[str] | None, typer.Option("--track", help="Log curves to tensorboard or wandb.", show_default=False)
    ] = None,
    list_recipes: Annotated[bool, typer.Option("--list", help="List the recipes and overlays, and exit.")] = False,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Train a sentence encoder from a recipe: any backbone, any order of stages."""
    if list_recipes:
        _list(json)
        return
    if not recipe:
        raise UsageError("no recipe given: name one of `kosbert train --list`, for example nli-sts")
    from kosbert.training import Recipe
    from kosbert.training import train as run

    loaded = Recipe.load(recipe, overlays or (), settings or ())
    is_rank_zero = int(os.environ.get("RANK", "0")) == 0
    with progress_bars(enabled=is_rank_zero) as on_progress:
        result = run(
            loaded,
            directory or Path("runs") / loaded.name,
            resume=resume,
            time_budget=time_budget,
            data_dir=data_dir,
            checkpoint_every=checkpoint_every,
            on_progress=on_progress,
            trackers=trackers or (),
        )
    if not is_rank_zero:
        return
    if json:
        print_json({"model": str(result.path), "scores": result.scores})
        return
    table = Table("data", "Pearson ×100", "Spearman ×100", title=f"{loaded.name}: cosine vs. human scores")
    for name, scores in result.scores.items():
        cells = ("undefined" if value is None else f"{100 * value:.2f}" for value in scores.values())
        table.add_row(name, *cells)
    out.print(table)
    out.print(f"Model: {result.path}", soft_wrap=True)


def _list(json: bool) -> None:
    from kosbert.recipes import shipped_recipes

    recipes = shipped_recipes()
    if json:
        print_json([{"name": item.name, "kind": item.kind, "description": item.description} for item in recipes])
        return
    table = Table("name", "kind", "description")
    for item in recipes:
        table.add_row(item.name, item.kind, item.description)
    out.print(table)
    out.print("kosbert train NAME [--with OVERLAY]")
