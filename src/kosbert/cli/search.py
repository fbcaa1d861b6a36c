"""`kosbert search`: the sentences of an index that are nearest to a query in meaning."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Column, Table

from kosbert.cli.output import JsonOption, out, print_json, whole

if TYPE_CHECKING:
    from kosbert.search.explain import Explanation, WordEffect
    from kosbert.search.hits import Hit


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.", show_default=False)],
    directory: Annotated[
        Path, typer.Option("--index", metavar="DIR", help="From kosbert index build.", show_default=False)
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="How many hits.")] = 10,
    where: Annotated[
        str, typer.Option("--filter", help="Metadata to ask for: 'source=news,year>=2020'.", show_default=False)
    ] = "",
    hybrid: Annotated[bool, typer.Option("--hybrid", help="Also count common words (BM25).")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show which words made a hit similar.")] = False,
    model: Annotated[
        str, typer.Option(help="Where the index's model is now, if it has moved.", show_default=False)
    ] = "",
    json: JsonOption = False,
) -> None:
    """Search by meaning: kosbert search "배송이 늦어요" --index DIR."""
    from kosbert.search.explain import explain as explained
    from kosbert.search.index import Index

    index = Index.load(directory, model or None)
    hits = index.search(query, k, where=where, hybrid=hybrid)
    reasons = explained(index.encoder, query, [hit.text for hit in hits]) if explain and hits else []
    index.close()
    if json:
        rows = [asdict(hit) for hit in hits]
        if explain:
            rows = [row | {"explanation": asdict(reason)} for row, reason in zip(rows, reasons, strict=True)]
        print_json({"query": query, "index": str(directory), "hits": rows})
        return
    if not hits:
        out.print("nothing fulfills the filter" if where else "nothing found")
        return
    _show(hits, hybrid=hybrid)
    for hit, reason in zip(hits, reasons, strict=False):
        _show_reason(hit, reason)


def _show(hits: list["Hit"], *, hybrid: bool) -> None:
    fields = list(dict.fromkeys(name for hit in hits for name in hit.metadata))
    numbers = ("cosine", "by meaning", "by words", "BM25") if hybrid else ("cosine",)
    table = Table(
        *(Column(name, justify="right") for name in numbers),
        *map(whole, ("id", "text", *map(escape, fields))),
        box=box.SIMPLE,
        pad_edge=False,
    )
    for hit in hits:
        cells = [f"{hit.cosine:.3f}"]
        if hybrid:
            score = "–" if hit.words_score is None else f"{hit.words_score:.2f}"
            cells += [_rank(hit.vector_rank), _rank(hit.words_rank), score]
        shown = [str(hit.metadata.get(name, "")) for name in fields]
        table.add_row(*cells, *map(escape, (hit.id, hit.text, *shown)))
    out.print(table)


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def _show_reason(hit: "Hit", reason: "Explanation") -> None:
    out.print(f"[bold]{escape(hit.id)}[/] {escape(hit.text)}", soft_wrap=True, highlight=False)
    if hit.words_rank is not None or hit.score != hit.cosine:
        parts = [
            f"{name} 1/(60+{rank}) = {1 / (60 + rank):.4f}"
            for name, rank in (("meaning", hit.vector_rank), ("words", hit.words_rank))
            if rank is not None
        ]
        out.print(f"  score {hit.score:.4f} = {' + '.join(parts)}", highlight=False, soft_wrap=True)
    for name, effects in (("query", reason.query), ("hit", reason.hit)):
        out.print(f"  {name:<6}{_words(effects)}", highlight=False, soft_wrap=True)


def _words(effects: list["WordEffect"]) -> str:
    """The words with their effects; the two that did most stand out."""
    most = sorted((each.effect for each in effects), reverse=True)[:2]
    shown = []
    for each in effects:
        text = f"{escape(each.word)} [dim]{each.effect:+.2f}[/]"
        shown.append(f"[green]{text}[/]" if each.effect > 0 and each.effect in most else text)
    return "  ".join(shown)
