"""`kosbert study`: questions answered with evidence and a report."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kosbert import data
from kosbert.cli.output import DataDirOption, JsonOption, err, out, print_json, whole

app = typer.Typer(help="Studies: a question, its runs, a report.", no_args_is_help=True)


@app.callback()
def _studies() -> None:
    pass


@app.command()
def baselines(
    directory: Annotated[Path, typer.Option("--out", help="Where the report goes.")] = Path("studies/baselines"),
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """How far does a method get that understands nothing? The bar for everything that is trained."""
    from kosbert.study.baselines import run
    from kosbert.study.report import write_report

    if not json:
        _show_sample()
    with err.status("scoring character n-grams"):
        found = run(data_dir)
        report = write_report(found, directory)
    if json:
        print_json({"report": str(report), "baselines": [each.summary() for each in found]})
        return
    table = Table("data", "pairs", "Spearman ×100", "95% interval", "leaked pairs", title="Character n-grams, TF-IDF")
    for each in found:
        score = each.spearman
        leaked = next(leak.count for leak in each.leaks if (leak.unit, leak.level) == ("pair", "normalised"))
        interval = f"{100 * score.low:.1f} to {100 * score.high:.1f}" if score else "–"
        table.add_row(
            each.test,
            f"{len(each.pairs):,}",
            f"{100 * score.value:.2f}" if score else "undefined",
            interval,
            str(leaked),
        )
    out.print(table)
    if len(found) == 1:
        out.print(
            "The sample set is for trying and testing. For KorSTS: kosbert data fetch korsts, or set KOSBERT_DATA."
        )
    out.print(f"Report: {report}", soft_wrap=True)


def _show_sample() -> None:
    """A few rows of the sample set, one a phenomenon."""
    pairs = data.load("sample-sts-test")
    table = Table(
        whole("phenomenon"),
        whole("sentence 1"),
        whole("sentence 2"),
        "score",
        title="The sample set: written by a grammar, labelled by construction",
    )
    seen = set()
    for pair in pairs:
        if isinstance(pair, data.ScoredPair) and pair.source not in seen:
            seen.add(pair.source)
            table.add_row(pair.source, pair.sentence1, pair.sentence2, f"{pair.score:.1f}")
    out.print(table)
