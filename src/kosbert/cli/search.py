"""`kosbert search`: semantic search in an index."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Column, Table

from kosbert.cli.output import JsonOption, out, print_json, wrapped

if TYPE_CHECKING:
    from kosbert.search.explain import Explanation, WordEffect
    from kosbert.search.hits import Hit


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The text to search for.", show_default=False)],
    directory: Annotated[
        Path, typer.Option("--index", metavar="DIR", help="From kosbert index build.", show_default=False)
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="Number of hits.")] = 10,
    where: Annotated[
        str, typer.Option("--filter", help="Filter on metadata: 'source=news,year>=2020'.", show_default=False)
    ] = "",
    hybrid: Annotated[bool, typer.Option("--hybrid", help="Combine with BM25.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show the effect of each word.")] = False,
    model: Annotated[
        str, typer.Option(help="New path of the index's model, if it has moved.", show_default=False)
    ] = "",
    json: JsonOption = False,
) -> None:
    """Search an index by meaning: kosbert search "배송이 늦어요" --index DIR."""
    from kosbert.search.explain import explain as explain_hits
    from kosbert.search.index import Index

    index = Index.load(directory, model or None)
    hits = index.search(query, k, where=where, hybrid=hybrid)
    explanations = explain_hits(index.encoder, query, [hit.text for hit in hits]) if explain and hits else []
    index.close()
    if json:
        documents = [asdict(hit) for hit in hits]
        for document, explanation in zip(documents, explanations, strict=False):
            document["explanation"] = asdict(explanation)
        print_json({"query": query, "index": str(directory), "hits": documents})
        return
    if not hits:
        out.print("no sentence matches the filter" if where else "no hits")
        return
    _print_hits(hits, hybrid=hybrid)
    for hit, explanation in zip(hits, explanations, strict=False):
        _print_explanation(hit, explanation)


def _print_hits(hits: list["Hit"], *, hybrid: bool) -> None:
    fields = list(dict.fromkeys(name for hit in hits for name in hit.metadata))
    numbers = ("cosine", "dense rank", "BM25 rank", "BM25") if hybrid else ("cosine",)
    table = Table(
        *(Column(name, justify="right") for name in numbers),
        *map(wrapped, ("id", "text", *map(escape, fields))),
        box=box.SIMPLE,
        pad_edge=False,
    )
    for hit in hits:
        cells = [f"{hit.cosine:.3f}"]
        if hybrid:
            score = "–" if hit.bm25_score is None else f"{hit.bm25_score:.2f}"
            cells += [_rank(hit.dense_rank), _rank(hit.bm25_rank), score]
        metadata = [str(hit.metadata.get(name, "")) for name in fields]
        table.add_row(*cells, *map(escape, (hit.id, hit.text, *metadata)))
    out.print(table)


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def _print_explanation(hit: "Hit", explanation: "Explanation") -> None:
    out.print(f"[bold]{escape(hit.id)}[/] {escape(hit.text)}", soft_wrap=True, highlight=False)
    if hit.bm25_rank is not None or hit.score != hit.cosine:
        terms = [
            f"{name} 1/(60+{rank}) = {1 / (60 + rank):.4f}"
            for name, rank in (("dense", hit.dense_rank), ("BM25", hit.bm25_rank))
            if rank is not None
        ]
        out.print(f"  score {hit.score:.4f} = {' + '.join(terms)}", highlight=False, soft_wrap=True)
    for name, effects in (("query", explanation.query), ("hit", explanation.hit)):
        out.print(f"  {name:<6}{_format_effects(effects)}", highlight=False, soft_wrap=True)


def _format_effects(effects: list["WordEffect"]) -> str:
    """Format words with their effects; the two largest are green."""
    largest = sorted((word.effect for word in effects), reverse=True)[:2]
    formatted = []
    for word in effects:
        text = f"{escape(word.word)} [dim]{word.effect:+.2f}[/]"
        formatted.append(f"[green]{text}[/]" if word.effect > 0 and word.effect in largest else text)
    return "  ".join(formatted)
