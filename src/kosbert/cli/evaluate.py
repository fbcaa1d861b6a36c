"""`kosbert evaluate` and `kosbert compare`: scores with intervals, and whether a difference is one."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from kosbert.cli.output import DataDirOption, JsonOption, err, out, print_json
from kosbert.errors import KosbertError, UsageError
from kosbert.progress import progress_bars

if TYPE_CHECKING:
    from kosbert.evaluation.evaluate import Comparison, Evaluation, ScoredSet
    from kosbert.evaluation.significance import Interval, Seeds
    from kosbert.evaluation.slices import Slice
    from kosbert.evaluation.sts import Subtasks
    from kosbert.model.encoder import SupportsEncode

OnOption = Annotated[
    list[str] | None,
    typer.Option("--on", metavar="SET...", help="Splits (korsts-test) or files with sentence1, sentence2 and score."),
]
ColumnOption = Annotated[
    list[str] | None, typer.Option("--column", help="A file's column by its role: score=점수; may be repeated.")
]
SeedOption = Annotated[int, typer.Option(help="Seed of the resampling.")]
SEMEVAL = ("sts12", "sts13", "sts14", "sts15", "sts16")


def evaluate(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="builtin (the default), a directory, a hub name or a baseline (tfidf); 'runs/seed-*', quoted, for the "
            "mean and spread.",
            show_default=False,
        ),
    ] = None,
    on: OnOption = None,
    vectors: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A.npy B.npy", help="Vectors of the first and second sentences, instead of a model."),
    ] = None,
    slices: Annotated[
        bool, typer.Option("--slices", help="Also by source, length and overlap, and beside people.")
    ] = False,
    training: Annotated[
        str, typer.Option(metavar="SPLIT", help="Also with and without what leaked from this training split.")
    ] = "",
    column: ColumnOption = None,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples of the intervals.")] = 2_000,
    seed: SeedOption = 0,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Score a model on similarity sets: kosbert evaluate MODEL --on korsts-test klue-sts-dev."""
    from kosbert.data.loading import read_records
    from kosbert.evaluation.evaluate import evaluate as score
    from kosbert.evaluation.evaluate import read_vectors
    from kosbert.evaluation.sts import encode_pairs

    names = names or []
    if not vectors and (not names or _is_a_set(names[0])):
        names = ["builtin", *names]
    wanted = 0 if vectors else 1
    models = _models(names, wanted, "MODEL, or --vectors A.npy B.npy")
    sets = _sets(on, names[wanted:], column, data_dir)
    if vectors and len(sets) > 1:
        raise UsageError(f"one pair of vector files fits one set, not {len(sets)}: give --vectors with a single --on")
    rows = read_records(training, data_dir=data_dir) if training else None
    settings: dict[str, Any] = {"cut": slices, "training": rows, "resamples": resamples, "seed": seed}
    runs: dict[str, list[Evaluation]] = {}
    if vectors:
        runs["vectors"] = [score((read_vectors(vectors[0]), read_vectors(vectors[1])), sets[0], **settings)]
    for model in _runs(models[0]) if models else ():
        encoder = _encoder(model, data_dir)
        runs[model] = []
        for each in sets:
            with err.status(f"{model}: {each.name}"):
                runs[model].append(score(encode_pairs(encoder, each.pairs), each, **settings))
    if json:
        print_json(_document(runs))
        return
    for model, evaluations in runs.items():
        _print_evaluations(model, evaluations)
    if len(runs) > 1:
        _print_seeds(models[0], runs)
    _print_anchors(runs)


def compare(
    names: Annotated[list[str] | None, typer.Argument(metavar="A B", help="Two models.", show_default=False)] = None,
    on: OnOption = None,
    coefficient: Annotated[str, typer.Option(help="spearman or pearson.")] = "spearman",
    column: ColumnOption = None,
    resamples: Annotated[int, typer.Option(min=100, help="Resamples of the bootstrap and of the test.")] = 10_000,
    seed: SeedOption = 0,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Compare two models on the same pairs: kosbert compare A B --on korsts-test klue-sts-dev."""
    from kosbert.evaluation.evaluate import compare_on

    first, second = _models(names or [], 2, "two models, A and B")
    sets = _sets(on, (names or [])[2:], column, data_dir)
    encoders = [_encoder(model, data_dir) for model in (first, second)]
    with err.status(f"comparing {first} with {second}"):
        found = compare_on(sets, *encoders, coefficient=coefficient, resamples=resamples, seed=seed)
    if json:
        print_json(
            {"first": first, "second": second, "coefficient": coefficient, "sets": [asdict(each) for each in found]}
        )
        return
    _print_comparisons(first, second, coefficient, found)


def _is_a_set(name: str) -> bool:
    """Whether what stands where a model might is one more set: kosbert evaluate --on korsts-test klue-sts-dev."""
    from kosbert.data.registry import references

    if name.endswith(".onnx"):  # a model that reads strings
        return False
    return Path(name).is_file() or (not Path(name).exists() and name in set(references()))


def _models(names: Sequence[str], wanted: int, what: str) -> Sequence[str]:
    """Take the models from the front of the arguments; what follows them are more sets (`--on a b c`)."""
    if len(names) < wanted:
        raise UsageError(f"say what to evaluate: give {what}, before --on")
    return names[:wanted]


def _runs(model: str) -> list[str]:
    """One model, or all that fit a pattern: runs that differ in their seed."""
    if not any(sign in model for sign in "*?[") or Path(model).exists():
        return [model]
    start, pattern = Path(model).anchor, model.removeprefix(Path(model).anchor)
    found = sorted(str(path) for path in Path(start).glob(pattern) if path.is_dir())
    if not found:
        raise UsageError(f"no directory fits {model}: give a pattern of model directories")
    return found


def _sets(
    on: Iterable[str] | None, more: Iterable[str], column: Iterable[str] | None, data_dir: Path | None
) -> list["ScoredSet"]:
    """Read what `--on` names, each once; a value may hold several, with commas."""
    from kosbert.evaluation.evaluate import parse_columns, read_set

    values = [*(on or ()), *more]
    parts = (part.strip() for value in values for part in ([value] if Path(value).is_file() else value.split(",")))
    references = dict.fromkeys(part for part in parts if part)
    if not references:
        raise UsageError("say what to evaluate on: give --on with splits or files, e.g. --on korsts-test")
    columns = parse_columns(column or ())
    with progress_bars() as on_progress:
        return [read_set(each, folder=data_dir, columns=columns, on_progress=on_progress) for each in references]


def _encoder(name: str, data_dir: Path | None) -> "SupportsEncode":
    from kosbert.model import load_any

    try:
        with err.status(f"loading {name}"):
            return load_any(name, data_dir=data_dir)
    except UsageError:
        raise
    except KosbertError as error:
        if Path(name).exists():  # the name is right and what it names is broken
            raise
        raise UsageError(str(error)) from error


def _document(runs: dict[str, list["Evaluation"]]) -> dict[str, Any]:
    """The JSON of `evaluate`: one model with its sets, or several with their mean and spread."""
    models = [{"model": model, "sets": [asdict(each) for each in evaluations]} for model, evaluations in runs.items()]
    if len(models) == 1:
        return models[0]
    return {
        "models": models,
        "seeds": {
            name: {measure: seeds and asdict(seeds) for measure, seeds in measures.items()}
            for name, measures in _over_seeds(runs).items()
        },
    }


def _over_seeds(runs: dict[str, list["Evaluation"]]) -> dict[str, dict[str, "Seeds | None"]]:
    from kosbert.evaluation.significance import over_seeds

    found: dict[str, dict[str, Seeds | None]] = {}
    for same_set in zip(*runs.values(), strict=True):
        found[same_set[0].name] = {
            measure: over_seeds(scores)
            if None not in (scores := [each.correlations[measure] for each in same_set])
            else None
            for measure in same_set[0].correlations
        }
    return found


def _hundred(value: float | None) -> str:
    return "undefined" if value is None else f"{100 * value:.2f}"


def _range(interval: "Interval | None") -> str:
    return "–" if interval is None else f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"


def _heading(measure: str) -> str:
    """`euclidean_pearson` → `Euclidean Pearson`."""
    return " ".join(word if word in ("cosine", "dot", "average") else word.capitalize() for word in measure.split("_"))


def _table(title: str, *headings: str) -> Table:
    """A table without frame; a heading that begins with > is of a column of numbers."""
    table = Table(title=title or None, box=box.SIMPLE, collapse_padding=True, pad_edge=False)
    for heading in headings:
        table.add_column(heading.removeprefix(">"), justify="right" if heading.startswith(">") else "left")
    return table


def _print_evaluations(model: str, evaluations: Sequence["Evaluation"]) -> None:
    table = _table(model, "×100", *(f">{each.name}" for each in evaluations))
    table.add_row("pairs", *(f"{each.pairs:,}" for each in evaluations))
    for measure in evaluations[0].correlations:
        table.add_row(_heading(measure), *(_hundred(each.correlations[measure]) for each in evaluations))
        if measure == "cosine_pearson":
            table.add_row("  95% interval", *(_range(each.pearson) for each in evaluations), style="dim")
        if measure == "cosine_spearman":
            table.add_row("  95% interval", *(_range(each.spearman) for each in evaluations), style="dim")
    out.print(table)
    for each in evaluations:
        if each.subtasks and each.name.removesuffix("-test") in SEMEVAL:
            _print_subtasks(each.name, each.subtasks)
        if each.slices:
            _print_slices(each.name, each.slices)
        if each.human:
            out.print(
                f"[bold]{each.name}[/]: one annotator against the others ({each.human.pairs:,} pairs): Spearman "
                f"{_hundred(each.human.spearman.value)} ({_range(each.human.spearman)}), Pearson "
                f"{_hundred(each.human.pearson.value)} ({_range(each.human.pearson)})",
                highlight=False,
            )


def _print_subtasks(name: str, found: "Subtasks") -> None:
    table = _table(f"{name} by sub-task, cosine ×100", "sub-task", ">pairs", ">Pearson", ">Spearman")
    whole = {"all (pooled)": found.all, "mean": found.mean, "weighted mean": found.weighted_mean}
    for number, (part, scores) in enumerate((found.parts | whole).items(), start=1):
        cells = (f"{scores.pairs:,}", _hundred(scores.pearson), _hundred(scores.spearman))
        table.add_row(part, *cells, end_section=number == len(found.parts))
    out.print(table)


def _print_slices(name: str, found: Sequence["Slice"]) -> None:
    headings = ("slice", "", ">pairs", ">Pearson", ">Spearman", ">95% interval")
    table = _table(f"{name} by slices, cosine ×100", *headings)
    for place, each in enumerate(found):
        new = place == 0 or found[place - 1].kind != each.kind
        last = place + 1 < len(found) and found[place + 1].kind != each.kind
        scores = (_hundred(score.value if score else None) for score in (each.pearson, each.spearman))
        cells = (f"{each.pairs:,}", *scores, _range(each.spearman))
        table.add_row(each.kind if new else "", each.name, *cells, end_section=last)
    out.print(table)


def _print_seeds(pattern: str, runs: dict[str, list["Evaluation"]]) -> None:
    headings = ("set", "measure", ">mean", ">std", ">95% t-interval")
    table = _table(f"{pattern}: {len(runs)} runs, ×100", *headings)
    for name, measures in _over_seeds(runs).items():
        for measure in ("cosine_pearson", "cosine_spearman", "average"):
            seeds = measures[measure]
            cells = ["undefined", "–", "–"]
            if seeds and seeds.deviation is not None and seeds.low is not None and seeds.high is not None:
                spread = f"{100 * seeds.low:.2f} to {100 * seeds.high:.2f}"
                cells = [_hundred(seeds.mean), _hundred(seeds.deviation), spread]
            table.add_row(name, _heading(measure), *cells)
    out.print(table)


def _print_anchors(runs: dict[str, list["Evaluation"]]) -> None:
    """Put what others have published on the same sets below our own rows, by the measure that all of them give."""
    sets = next(iter(runs.values()))
    published: dict[tuple[str, str], dict[str, str]] = {}
    for each in sets:
        for anchor in each.published:
            if anchor.measure == "cosine_spearman":
                spread = "" if anchor.deviation is None else f" ± {_hundred(anchor.deviation)}"
                row = published.setdefault((anchor.model, anchor.source), {})
                row[each.name] = _hundred(anchor.value) + spread
    if not published:
        return
    sources = list(dict.fromkeys(source for _, source in published))
    headings = ("cosine Spearman ×100", *(f">{each.name}" for each in sets), "source")
    table = _table("Published, for scale", *headings)
    for model, evaluations in runs.items():
        scores = (_hundred(each.correlations["cosine_spearman"]) for each in evaluations)
        name = Path(model).name if Path(model).is_dir() else model
        table.add_row(name, *scores, "this run", style="bold", end_section=model == list(runs)[-1])
    for (model, source), row in published.items():
        table.add_row(model, *(row.get(each.name, "–") for each in sets), f"({sources.index(source) + 1})")
    out.print(table)
    for number, source in enumerate(sources, start=1):
        out.print(f"({number}) {source}", style="dim", highlight=False)
    out.print("Each with its own caveats: see --json.", style="dim")


def _print_comparisons(first: str, second: str, coefficient: str, found: Sequence["Comparison"]) -> None:
    table = _table("", "set", ">pairs", ">A", ">B", ">A - B", ">95% interval", ">p (Holm)", "verdict")
    words = {"first": "[green]A is better[/]", "second": "[green]B is better[/]", "tie": "tie"}
    for each in found:
        cells = ["undefined"] * 2 + ["–"] * 3 + ["undefined"]
        if each.difference and each.verdict:
            scores = (each.difference.first, each.difference.second, each.difference.interval.value)
            sure = (_range(each.difference.interval), f"{each.verdict.p:.4f}", words[each.verdict.winner])
            cells = [*map(_hundred, scores), *sure]
        table.add_row(each.name, f"{each.pairs:,}", *cells)
    out.print(f"A: {first}\nB: {second}", highlight=False, soft_wrap=True)
    out.print(table)
    out.print(
        f"{coefficient.capitalize()} of the cosine ×100. Interval: BCa bootstrap of the difference over pairs. "
        f"p: swapping the models' predictions pair by pair, corrected over {len(found)} set(s) by Holm. "
        "A tie is a difference that these pairs cannot tell from none.",
        style="dim",
        highlight=False,
    )
