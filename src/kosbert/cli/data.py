"""`kosbert data`: list, download and show data sets, and check them for leakage."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from kosbert import data
from kosbert.cli.output import DataDirOption, JsonOption, out, print_json, wrapped
from kosbert.data.loading import open_split
from kosbert.data.locate import find, locate, verified
from kosbert.data.registry import Dataset
from kosbert.errors import KosbertError
from kosbert.progress import progress_bars

app = typer.Typer(help="Data sets: list, download, show, check for leakage.", no_args_is_help=True)
OfflineOption = Annotated[bool, typer.Option("--offline", help="Do not download anything.")]


@app.command("list")
def list_(
    task: Annotated[str, typer.Option(help="Only this task: sts, nli, classification, paraphrase, corpus.")] = "",
    language: Annotated[str, typer.Option(help="Only this language: ko, en.")] = "",
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """List the data sets: task, splits with row counts, license, and whether they are available locally."""
    datasets = [
        dataset
        for dataset in data.datasets().values()
        if task in ("", *dataset.task.split(", ")) and language in ("", dataset.language)
    ]
    if json:
        print_json([_to_dict(dataset, data_dir) for dataset in datasets])
        return
    columns = (wrapped("name"), "task", "lang", wrapped("splits (rows)"), "license", "local")
    table = Table(*columns, title=f"{len(datasets)} data sets")
    for dataset in datasets:
        splits = ", ".join(f"{name} {split.rows:,}" if split.rows else name for name, split in dataset.splits.items())
        local = sum(data.available(dataset, name, data_dir) for name in dataset.splits)
        total = len(dataset.splits)
        status = "yes" if local == total else f"{local} of {total}" if local else "no"
        table.add_row(dataset.name, dataset.task, dataset.language, splits, dataset.license, status)
    out.print(table)


def _to_dict(dataset: Dataset, data_dir: Path | None) -> dict[str, Any]:
    """Return a data set as JSON: its registry entry, and where each file is."""
    return {
        "name": dataset.name,
        "task": dataset.task,
        "language": dataset.language,
        "description": dataset.description,
        "home": dataset.home,
        "license": dataset.license,
        "citation": dataset.citation,
        "default": dataset.default,
        "splits": {
            name: {
                "rows": split.rows,
                "task": split.task or dataset.task,
                "local": data.available(dataset, name, data_dir),
                "files": [
                    asdict(file) | {"local_path": str(path) if (path := find(file, data_dir)) else None}
                    for file in split.files
                ],
            }
            for name, split in dataset.splits.items()
        },
    }


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets (korsts) or splits (korsts-test).", show_default=False)],
    offline: OfflineOption = False,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Download data sets and verify their checksums; resumes an interrupted download."""
    splits = []
    for name in names:
        dataset, split = data.resolve(name)
        splits += [(dataset, member) for member in (dataset.splits if name == dataset.name else [split])]
    files_by_split: dict[str, list[dict[str, Any]]] = {}
    with progress_bars() as on_progress:
        for dataset, split in splits:
            download = False if offline else None
            paths = locate(dataset, split, data_dir=data_dir, download=download, on_progress=on_progress)
            files_by_split[f"{dataset.name}-{split}"] = [
                {"path": str(path), "verified": verified(file, path)}
                for file, path in zip(dataset.splits[split].files, paths, strict=True)
            ]
    wrong = [file["path"] for files in files_by_split.values() for file in files if file["verified"] is False]
    if json:
        print_json(files_by_split)
    else:
        _print_files(files_by_split)
    if wrong:
        raise KosbertError(f"{wrong[0]} differs from the published file: remove it, then run the same command")


def _print_files(files_by_split: dict[str, list[dict[str, Any]]]) -> None:
    verdicts = {True: "checksum verified", False: "[red]differs from the published file[/]", None: "no checksum"}
    for reference, files in files_by_split.items():
        if not files:
            out.print(f"{reference}: generated, nothing to download")
        for file in files:
            out.print(f"{reference}: {file['path']} ({verdicts[file['verified']]})", soft_wrap=True, highlight=False)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A data set (korsts) or a split (korsts-test).", show_default=False)],
    split: Annotated[str, typer.Option(help="Split; the default split of the data set if omitted.")] = "",
    head: Annotated[int | None, typer.Option(min=0, help="Number of rows; 5 in a table, all with --json.")] = None,
    offline: OfflineOption = False,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Show the rows of a split, exactly as published."""
    dataset, split_name = data.resolve(name)
    if split:
        split_name, _ = dataset.split(split)
    reference = f"{dataset.name}-{split_name}"
    with progress_bars() as on_progress:
        rows = data.load(reference, data_dir=data_dir, download=False if offline else None, on_progress=on_progress)
    if json:
        shown = rows if head is None else rows[:head]
        document = {"name": dataset.name, "split": split_name, "count": len(rows)}
        print_json(document | {"rows": [asdict(row) for row in shown]})
        return
    shown = rows[: 5 if head is None else head]
    out.print(f"[bold]{reference}[/]: {len(rows):,} rows. {dataset.description}")
    out.print(f"{dataset.license} · {dataset.home}\n", style="dim")
    if shown:
        table = Table(*map(wrapped, asdict(shown[0])))
        for row in shown:
            table.add_row(*(escape(str(cell)) for cell in asdict(row).values()))
        out.print(table)


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="A split, e.g. your training data.", show_default=False)],
    against: Annotated[str, typer.Option(help="The held-out split, e.g. your test set.", show_default=False)],
    near: Annotated[float, typer.Option(min=0.3, max=1.0, help="Similarity that counts as a near-duplicate.")] = 0.8,
    examples: Annotated[int, typer.Option(min=0, help="Number of examples per level.")] = 3,
    offline: OfflineOption = False,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Check two splits for leakage: sentences and pairs that are in both, exactly, normalized, nearly."""
    from kosbert.data.leakage import overlap  # imports scipy

    with progress_bars() as on_progress:
        download = False if offline else None
        rows, held_out = (
            open_split(reference, data_dir=data_dir, download=download, on_progress=on_progress)
            for reference in (name, against)
        )
        overlaps = overlap(
            rows.records(), held_out.records(), near=near, examples=examples, total=rows.rows, on_progress=on_progress
        )
    if json:
        document = {"name": name, "against": against, "near": near}
        print_json(document | {"overlap": [asdict(level) for level in overlaps]})
        return
    table = Table("unit", "level", "in both", f"of {against}", "share", title=f"{name} against {against}")
    for level in overlaps:
        share = f"{level.count / level.total:.1%}" if level.total else "–"
        table.add_row(level.unit, level.level, f"{level.count:,}", f"{level.total:,}", share)
    out.print(table)
    for level in overlaps:
        for example in level.examples:
            held_out_text, row_text = (escape(" / ".join(texts)) for texts in (example.held_out, example.rows))
            similarity = f"[dim]{level.level} {level.unit} ({example.similarity:.2f}):[/]"
            out.print(f"{similarity} {held_out_text} [dim]↔[/] {row_text}")
