"""`kosbert data`: which data sets exist, get them, look at them, check them against each other."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from kosbert import data
from kosbert.cli.output import DataDirOption, JsonOption, download_progress, err, out, print_json, whole
from kosbert.data.locate import find, locate, verified
from kosbert.data.registry import Dataset
from kosbert.errors import KosbertError

app = typer.Typer(help="Data sets: list, fetch, show, check for leakage.", no_args_is_help=True)
OfflineOption = Annotated[bool, typer.Option("--offline", help="Never use the network.")]


@app.command("list")
def list_(
    task: Annotated[str, typer.Option(help="Only this task: sts, nli, classification, paraphrase, corpus.")] = "",
    language: Annotated[str, typer.Option(help="Only this language: ko, en.")] = "",
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """List the data sets: task, splits with row counts, license, and whether they are here."""
    chosen = [
        each
        for each in data.datasets().values()
        if task in ("", *each.task.split(", ")) and language in ("", each.language)
    ]
    if json:
        print_json([_described(dataset, data_dir) for dataset in chosen])
        return
    heads = (whole("name"), "task", "lang", whole("splits (rows)"), "license", "here")
    table = Table(*heads, title=f"{len(chosen)} data sets")
    for dataset in chosen:
        splits = ", ".join(f"{name} {split.rows:,}" if split.rows else name for name, split in dataset.splits.items())
        here = sum(data.available(dataset, name, data_dir) for name in dataset.splits)
        mark = "yes" if here == len(dataset.splits) else f"{here} of {len(dataset.splits)}" if here else "no"
        table.add_row(dataset.name, dataset.task, dataset.language, splits, dataset.license, mark)
    out.print(table)


def _described(dataset: Dataset, data_dir: Path | None) -> dict[str, Any]:
    """A data set as JSON: everything the registry knows, and where each file is."""
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
                "here": data.available(dataset, name, data_dir),
                "files": [
                    asdict(file) | {"found": str(path) if (path := find(file, data_dir)) else None}
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
    """Download data sets from their public homes, verified by checksum; goes on where an earlier call stopped."""
    wanted = []
    for name in names:
        dataset, split = data.resolve(name)
        wanted += [(dataset, each) for each in (dataset.splits if name == dataset.name else [split])]
    found: dict[str, list[dict[str, Any]]] = {}
    with download_progress() as progress:
        for dataset, split in wanted:
            download = False if offline else None
            paths = locate(dataset, split, folder=data_dir, download=download, progress=progress)
            found[f"{dataset.name}-{split}"] = [
                {"path": str(path), "verified": verified(file, path)}
                for file, path in zip(dataset.splits[split].files, paths, strict=True)
            ]
    wrong = [file["path"] for files in found.values() for file in files if file["verified"] is False]
    if json:
        print_json(found)
    else:
        _print_files(found)
    if wrong:
        raise KosbertError(f"{wrong[0]} is not the file that was published: remove it, then run the same command")


def _print_files(found: dict[str, list[dict[str, Any]]]) -> None:
    verdicts = {True: "as published", False: "[red]not the published bytes[/]", None: "no checksum published"}
    for reference, files in found.items():
        if not files:
            out.print(f"{reference}: made on the spot, nothing to fetch")
        for file in files:
            out.print(f"{reference}: {file['path']} ({verdicts[file['verified']]})", soft_wrap=True, highlight=False)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A data set (korsts) or a split (korsts-test).", show_default=False)],
    split: Annotated[str, typer.Option(help="Which split; the data set's default without it.")] = "",
    head: Annotated[int | None, typer.Option(min=0, help="How many rows; 5 in a table, all with --json.")] = None,
    offline: OfflineOption = False,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a split holds: its rows, exactly as published."""
    dataset, chosen = data.resolve(name)
    if split:
        chosen, _ = dataset.split(split)
    reference = f"{dataset.name}-{chosen}"
    with download_progress() as progress:
        rows = data.load(reference, folder=data_dir, download=False if offline else None, progress=progress)
    if json:
        shown = rows if head is None else rows[:head]
        print_json({"name": dataset.name, "split": chosen, "count": len(rows), "rows": [asdict(row) for row in shown]})
        return
    shown = rows[: 5 if head is None else head]
    out.print(f"[bold]{reference}[/]: {len(rows):,} rows. {dataset.description}")
    out.print(f"{dataset.license} · {dataset.home}\n", style="dim")
    if shown:
        table = Table(*map(whole, asdict(shown[0])))
        for row in shown:
            table.add_row(*(escape(str(cell)) for cell in asdict(row).values()))
        out.print(table)


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="A split, e.g. what you train on.", show_default=False)],
    against: Annotated[str, typer.Option(help="Another split, e.g. what you report on.", show_default=False)],
    near: Annotated[float, typer.Option(min=0.3, max=1.0, help="Similarity that counts as a near-duplicate.")] = 0.8,
    examples: Annotated[int, typer.Option(min=0, help="How many examples of each kind.")] = 3,
    offline: OfflineOption = False,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Check two splits for leakage: sentences and pairs that are in both, exactly, normalized, nearly."""
    from kosbert.data.leakage import overlap  # brings scipy

    with download_progress() as progress:
        download = False if offline else None
        first, second = (
            data.load(each, folder=data_dir, download=download, progress=progress) for each in (name, against)
        )
    with err.status("comparing"):
        found = overlap(first, second, near=near, examples=examples)
    if json:
        print_json({"name": name, "against": against, "near": near, "overlap": [asdict(each) for each in found]})
        return
    table = Table("unit", "level", "in both", f"of {against}", "share", title=f"{name} against {against}")
    for each in found:
        share = f"{each.count / each.total:.1%}" if each.total else "–"
        table.add_row(each.unit, each.level, f"{each.count:,}", f"{each.total:,}", share)
    out.print(table)
    for each in found:
        for example in each.examples:
            theirs, ours = (escape(" / ".join(texts)) for texts in (example.against, example.rows))
            out.print(f"[dim]{each.level} {each.unit} ({example.similarity:.2f}):[/] {theirs} [dim]↔[/] {ours}")
