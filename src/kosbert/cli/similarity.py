"""`kosbert similarity`: compare sentences on the command line."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from kosbert.cli.output import JsonOption, ModelOption, out, print_json, wrapped
from kosbert.errors import UsageError

_BAR_WIDTH = 20  # characters of the bar for a cosine of 1


def similarity(
    sentence: Annotated[str, typer.Argument(help="A sentence.")],
    others: Annotated[list[str], typer.Argument(help="One or more sentences to compare it with.")],
    model: ModelOption = "builtin",
    dim: Annotated[
        int | None, typer.Option(min=1, help="Truncate embeddings to this many dimensions.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compare a sentence with others: kosbert similarity "비가 많이 온다" "폭우가 쏟아진다" "주식이 올랐다"."""
    from kosbert.model import load
    from kosbert.model.similarity import similarity_matrix

    if not all(text.strip() for text in (sentence, *others)):
        raise UsageError("one of the sentences is empty: give words in quotation marks")
    vectors = load(model).encode([sentence, *others], truncate_dim=dim)
    cosines = similarity_matrix(vectors[:1], vectors[1:])[0]
    if json:
        scores = [
            {"text": text, "cosine": round(float(cosine), 6)} for text, cosine in zip(others, cosines, strict=True)
        ]
        print_json({"model": model, "sentence": sentence, "others": scores})
        return
    table = Table(wrapped("sentence"), "cosine", "", title=escape(sentence), title_style="bold")
    for text, cosine in zip(others, cosines, strict=True):
        table.add_row(escape(text), f"{cosine:.3f}", "█" * max(0, round(_BAR_WIDTH * float(cosine))))
    out.print(table)
