"""`kosbert train`: from a recipe to a model directory, with progress."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from kosbert.cli.output import DataDirOption, JsonOption, err, out, print_json

if TYPE_CHECKING:
    from kosbert.training.loop import Progress as Standing
    from kosbert.training.recipe import Stage


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe, e.g. recipes/nli-sts.yaml.", show_default=False)],
    directory: Annotated[
        Path | None, typer.Option("--out", help="A folder of its own; runs/NAME without it.", show_default=False)
    ] = None,
    overlay: Annotated[
        list[Path] | None,
        typer.Option("--with", help="Lay another file over the recipe; may be repeated.", show_default=False),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Set one value: train.lr=3e-5.", show_default=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on exactly where the run in --out stopped.")] = False,
    time_budget: Annotated[
        float | None, typer.Option(min=1, help="Seconds of training; the schedule is fitted to them.")
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(min=0, help="Seconds between two checkpoints.")] = 300.0,
    trackers: Annotated[
        list[str] | None, typer.Option("--track", help="Show the curves in tensorboard or wandb.", show_default=False)
    ] = None,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Train a sentence encoder as a recipe says: any backbone, any order of stages."""
    from kosbert.training import Recipe
    from kosbert.training import train as run

    chosen = Recipe.load(recipe, overlay or (), settings or ())
    target = directory or Path("runs") / chosen.name
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[standing]}"),
    )
    quiet = int(os.environ.get("RANK", "0")) > 0
    with Progress(*columns, console=err, disable=quiet) as bar:
        tasks: dict[str, Any] = {}

        def report(stage: "Stage", standing: "Standing", total: int, point: dict[str, float]) -> None:
            if stage.name not in tasks:
                tasks[stage.name] = bar.add_task(stage.name, total=total, standing="")
            best = "" if standing.best is None else f", best dev {100 * standing.best:.2f}"
            bar.update(tasks[stage.name], completed=standing.step, standing=f"loss {point['loss']:.4f}{best}")

        def reading(teacher: str, done: int, every: int) -> None:
            key = f"{teacher} {every}"
            if key not in tasks:
                tasks[key] = bar.add_task(f"{Path(teacher).name} reads", total=every, standing="sentences")
            bar.update(tasks[key], completed=done)

        trained = run(
            chosen,
            target,
            resume=resume,
            time_budget=time_budget,
            data_dir=data_dir,
            checkpoint_every=checkpoint_every,
            report=report,
            trackers=trackers or (),
            reading=reading,
        )
    if quiet:
        return
    if json:
        print_json({"model": str(trained.path), "scores": trained.scores})
        return
    table = Table("data", "Pearson ×100", "Spearman ×100", title=f"{chosen.name}: cosine against human scores")
    for name, scores in trained.scores.items():
        cells = ("undefined" if value is None else f"{100 * value:.2f}" for value in scores.values())
        table.add_row(name, *cells)
    out.print(table)
    out.print(f"Model: {trained.path}", soft_wrap=True)
