"""`kosbert evaluate` and `kosbert compare`: scores with confidence intervals, and significant differences."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from kosbert.cli.output import DataDirOption, EncodingOption, JsonOption, SheetOption, err, out, print_json
from kosbert.errors import KosbertError, UsageError
from kosbert.progress import ProgressEvent, progress_bars

if TYPE_CHECKING:
    from kosbert.evaluation.evaluate import ComparisonResult, EvaluationResult, STSDataset
    from kosbert.evaluation.significance import ConfidenceInterval, SeedStatistics
    from kosbert.evaluation.slices import SliceScore
    from kosbert.evaluation.sts import SubtaskScores
    from kosbert.model.encoder import SupportsEncode

OnOption = Annotated[
    list[str] | None,
    typer.Option("--on", metavar="SET...", help="Splits (korsts-test) or files with sentence1, sentence2 and score."),
]
ColumnOption = Annotated[
    list[str] | None, typer.Option("--column", help="Column of a file for a role: score=점수; may be repeated.")
]
SeedOption = Annotated[int, typer.Option(help="Seed of the resampling.")]
SEMEVAL = ("sts12", "sts13", "sts14", "sts15", "sts16")


def evaluate(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="builtin (the default), a directory, a Hugging Face name or a baseline (tfidf); a quoted pattern "
            "'runs/seed-*' gives mean and std over seeds.",
            show_default=False,
        ),
    ] = None,
    on: OnOption = None,
    vectors: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A.npy B.npy", help="Vectors of the first and second sentences, instead of a model."),
    ] = None,
    slices: Annotated[
        bool, typer.Option("--slices", help="Also score by source, length and overlap; show human agreement.")
    ] = False,
    training: Annotated[
        str, typer.Option(metavar="SPLIT", help="Also score with and without pairs leaked from this training split.")
    ] = "",
    column: ColumnOption = None,
    encoding: EncodingOption = "",
    sheet: SheetOption = "",
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples of the intervals.")] = 2_000,
    seed: SeedOption = 0,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Score a model on STS datasets: kosbert evaluate MODEL --on korsts-test klue-sts-dev."""
    from kosbert.data.loading import read_records
    from kosbert.evaluation.evaluate import evaluate as score
    from kosbert.evaluation.evaluate import read_vectors
    from kosbert.evaluation.sts import encode_pairs

    arguments = arguments or []
    if not vectors and (not arguments or _is_dataset(arguments[0])):
        arguments = ["builtin", *arguments]
    model_count = 0 if vectors else 1
    models = _models(arguments, model_count, "MODEL, or --vectors A.npy B.npy")
    datasets = _datasets(on, arguments[model_count:], column, data_dir, encoding=encoding, sheet=sheet)
    if vectors and len(datasets) > 1:
        raise UsageError(
            f"one pair of vector files fits one set, not {len(datasets)}: give --vectors with a single --on"
        )
    training_rows = read_records(training, encoding=encoding, sheet=sheet, data_dir=data_dir) if training else None
    settings: dict[str, Any] = {"slices": slices, "training": training_rows, "resamples": resamples, "seed": seed}
    runs: dict[str, list[EvaluationResult]] = {}
    if vectors:
        embeddings = read_vectors(vectors[0]), read_vectors(vectors[1])
        runs["vectors"] = [score(embeddings, datasets[0], **settings)]
    for model in _expand_pattern(models[0]) if models else ():
        encoder = _load_encoder(model, data_dir)
        runs[model] = []
        with progress_bars() as on_progress:
            for done, dataset in enumerate(datasets):
                on_progress(ProgressEvent(f"evaluate {Path(model).name}", done, len(datasets), "datasets"))
                runs[model].append(score(encode_pairs(encoder, dataset.pairs), dataset, **settings))
            on_progress(ProgressEvent(f"evaluate {Path(model).name}", len(datasets), len(datasets), "datasets"))
    if json:
        print_json(_document(runs))
        return
    for model, results in runs.items():
        _print_results(model, results)
    if len(runs) > 1:
        _print_seed_statistics(models[0], runs)
    _print_published_scores(runs)


def compare(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="A B", help="Two models.", show_default=False)
    ] = None,
    on: OnOption = None,
    coefficient: Annotated[str, typer.Option(help="spearman or pearson.")] = "spearman",
    column: ColumnOption = None,
    encoding: EncodingOption = "",
    sheet: SheetOption = "",
    resamples: Annotated[int, typer.Option(min=100, help="Resamples of bootstrap and randomization test.")] = 10_000,
    seed: SeedOption = 0,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Compare two models on the same pairs: kosbert compare A B --on korsts-test klue-sts-dev."""
    from kosbert.evaluation.evaluate import compare_models

    first, second = _models(arguments or [], 2, "two models, A and B")
    datasets = _datasets(on, (arguments or [])[2:], column, data_dir, encoding=encoding, sheet=sheet)
    encoders = [_load_encoder(model, data_dir) for model in (first, second)]
    with progress_bars() as on_progress:
        results = compare_models(
            datasets, *encoders, coefficient=coefficient, resamples=resamples, seed=seed, on_progress=on_progress
        )
    if json:
        document = {"first": first, "second": second, "coefficient": coefficient}
        print_json(document | {"results": [asdict(result) for result in results]})
        return
    _print_comparisons(first, second, coefficient, results)


def _is_dataset(argument: str) -> bool:
    """Return whether an argument is a dataset and not a model, as in `evaluate --on korsts-test klue-sts-dev`."""
    from kosbert.data.registry import references

    if argument.endswith(".onnx"):  # an ONNX model that takes strings
        return False
    return Path(argument).is_file() or (not Path(argument).exists() and argument in set(references()))


def _models(arguments: Sequence[str], count: int, expected: str) -> Sequence[str]:
    """Take the models from the front of the arguments; what follows them are more datasets (`--on a b c`)."""
    if len(arguments) < count:
        raise UsageError(f"there is no model to evaluate: give {expected}, before --on")
    return arguments[:count]


def _expand_pattern(model: str) -> list[str]:
    """Return the model, or the directories that match a pattern: runs with different seeds."""
    if not any(character in model for character in "*?[") or Path(model).exists():
        return [model]
    root, pattern = Path(model).anchor, model.removeprefix(Path(model).anchor)
    directories = sorted(str(path) for path in Path(root).glob(pattern) if path.is_dir())
    if not directories:
        raise UsageError(f"no directory matches {model}: give a pattern of model directories")
    return directories


def _datasets(
    on: Iterable[str] | None, more: Iterable[str], column: Iterable[str] | None, data_dir: Path | None,
    *, encoding: str, sheet: str,
) -> list["STSDataset"]:  # fmt: skip
    """Read the datasets of `--on`, each once; a value may hold several, separated by commas."""
    from kosbert.evaluation.evaluate import parse_columns, read_set

    values = [*(on or ()), *more]
    names = (name.strip() for value in values for name in ([value] if Path(value).is_file() else value.split(",")))
    references = dict.fromkeys(name for name in names if name)
    if not references:
        raise UsageError("there is no dataset to evaluate on: give --on with splits or files, e.g. --on korsts-test")
    columns = parse_columns(column or ())
    with progress_bars() as on_progress:
        return [
            read_set(
                reference, data_dir=data_dir, columns=columns, encoding=encoding, sheet=sheet, on_progress=on_progress
            )
            for reference in references
        ]


def _load_encoder(name: str, data_dir: Path | None) -> "SupportsEncode":
    from kosbert.model import load_any

    try:
        with err.status(f"loading {name}"):
            return load_any(name, data_dir=data_dir)
    except UsageError:
        raise
    except KosbertError as error:
        if Path(name).exists():  # the name is right, the model is damaged
            raise
        raise UsageError(str(error)) from error


def _document(runs: dict[str, list["EvaluationResult"]]) -> dict[str, Any]:
    """Build the JSON of `evaluate`: one model with its results, or several with statistics over seeds."""
    models = [{"model": model, "results": [asdict(result) for result in results]} for model, results in runs.items()]
    if len(models) == 1:
        return models[0]
    return {
        "models": models,
        "seeds": {
            dataset: {metric: statistics and asdict(statistics) for metric, statistics in metrics.items()}
            for dataset, metrics in _seed_statistics(runs).items()
        },
    }


def _seed_statistics(runs: dict[str, list["EvaluationResult"]]) -> dict[str, dict[str, "SeedStatistics | None"]]:
    """Return mean, std and interval over the runs, by dataset and metric; None if one of the scores is undefined."""
    from kosbert.evaluation.significance import seed_statistics

    by_dataset: dict[str, dict[str, SeedStatistics | None]] = {}
    for results in zip(*runs.values(), strict=True):
        metrics = by_dataset[results[0].dataset] = {}
        for metric in results[0].correlations:
            scores = [score for result in results if (score := result.correlations[metric]) is not None]
            metrics[metric] = seed_statistics(scores) if len(scores) == len(results) else None
    return by_dataset


def _percent(score: float | None) -> str:
    return "undefined" if score is None else f"{100 * score:.2f}"


def _range(interval: "ConfidenceInterval | None") -> str:
    return "–" if interval is None else f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"


def _heading(metric: str) -> str:
    """Turn `euclidean_pearson` into `Euclidean Pearson`."""
    return " ".join(word if word in ("cosine", "dot", "average") else word.capitalize() for word in metric.split("_"))


def _table(title: str, *headings: str) -> Table:
    """Make a table without a frame; columns whose heading starts with > are aligned to the right."""
    table = Table(title=title or None, box=box.SIMPLE, collapse_padding=True, pad_edge=False)
    for heading in headings:
        table.add_column(heading.removeprefix(">"), justify="right" if heading.startswith(">") else "left")
    return table


def _print_results(model: str, results: Sequence["EvaluationResult"]) -> None:
    table = _table(model, "×100", *(f">{result.dataset}" for result in results))
    table.add_row("pairs", *(f"{result.pairs:,}" for result in results))
    for metric in results[0].correlations:
        table.add_row(_heading(metric), *(_percent(result.correlations[metric]) for result in results))
        if metric == "cosine_pearson":
            table.add_row("  95% CI", *(_range(result.cosine_pearson) for result in results), style="dim")
        if metric == "cosine_spearman":
            table.add_row("  95% CI", *(_range(result.cosine_spearman) for result in results), style="dim")
    out.print(table)
    for result in results:
        if result.subtasks and result.dataset.removesuffix("-test") in SEMEVAL:
            _print_subtasks(result.dataset, result.subtasks)
        if result.slices:
            _print_slices(result.dataset, result.slices)
        if result.human_agreement:
            agreement = result.human_agreement
            out.print(
                f"[bold]{result.dataset}[/]: one annotator against the others ({agreement.pairs:,} pairs): Spearman "
                f"{_percent(agreement.spearman.value)} ({_range(agreement.spearman)}), Pearson "
                f"{_percent(agreement.pearson.value)} ({_range(agreement.pearson)})",
                highlight=False,
            )


def _print_subtasks(dataset: str, scores: "SubtaskScores") -> None:
    table = _table(f"{dataset} by subtask, cosine ×100", "subtask", ">pairs", ">Pearson", ">Spearman")
    aggregates = {"all (pooled)": scores.all, "mean": scores.mean, "weighted mean": scores.weighted_mean}
    for number, (name, score) in enumerate((scores.by_subtask | aggregates).items(), start=1):
        cells = (f"{score.pairs:,}", _percent(score.pearson), _percent(score.spearman))
        table.add_row(name, *cells, end_section=number == len(scores.by_subtask))
    out.print(table)


def _print_slices(dataset: str, slices: Sequence["SliceScore"]) -> None:
    headings = ("slice", "", ">pairs", ">Pearson", ">Spearman", ">95% CI")
    table = _table(f"{dataset} by slice, cosine ×100", *headings)
    for index, part in enumerate(slices):
        is_first = index == 0 or slices[index - 1].kind != part.kind
        is_last = index + 1 < len(slices) and slices[index + 1].kind != part.kind
        scores = (_percent(interval.value if interval else None) for interval in (part.pearson, part.spearman))
        cells = (f"{part.pairs:,}", *scores, _range(part.spearman))
        table.add_row(part.kind if is_first else "", part.name, *cells, end_section=is_last)
    out.print(table)


def _print_seed_statistics(pattern: str, runs: dict[str, list["EvaluationResult"]]) -> None:
    headings = ("dataset", "metric", ">mean", ">std", ">95% CI (t)")
    table = _table(f"{pattern}: {len(runs)} runs, ×100", *headings)
    for dataset, metrics in _seed_statistics(runs).items():
        for metric in ("cosine_pearson", "cosine_spearman", "average"):
            statistics = metrics[metric]
            cells = ["undefined", "–", "–"]
            if statistics and statistics.low is not None and statistics.high is not None:
                interval = f"{100 * statistics.low:.2f} to {100 * statistics.high:.2f}"
                cells = [_percent(statistics.mean), _percent(statistics.std), interval]
            table.add_row(dataset, _heading(metric), *cells)
    out.print(table)


def _print_published_scores(runs: dict[str, list["EvaluationResult"]]) -> None:
    """Print our scores above published ones of the same datasets, by the metric that all of them report."""
    first_results = next(iter(runs.values()))
    published: dict[tuple[str, str], dict[str, str]] = {}
    for result in first_results:
        for score in result.published_scores:
            if score.metric == "cosine_spearman":
                std = "" if score.std is None else f" ± {_percent(score.std)}"
                row = published.setdefault((score.model, score.source), {})
                row[result.dataset] = _percent(score.value) + std
    if not published:
        return
    sources = list(dict.fromkeys(source for _, source in published))
    headings = ("cosine Spearman ×100", *(f">{result.dataset}" for result in first_results), "source")
    table = _table("Published scores", *headings)
    for model, results in runs.items():
        scores = (_percent(result.correlations["cosine_spearman"]) for result in results)
        name = Path(model).name if Path(model).is_dir() else model
        table.add_row(name, *scores, "this run", style="bold", end_section=model == list(runs)[-1])
    for (model, source), row in published.items():
        cells = (row.get(result.dataset, "–") for result in first_results)
        table.add_row(model, *cells, f"({sources.index(source) + 1})")
    out.print(table)
    for number, source in enumerate(sources, start=1):
        out.print(f"({number}) {source}", style="dim", highlight=False)
    out.print("Caveats of each score: see --json.", style="dim")


def _print_comparisons(first: str, second: str, coefficient: str, results: Sequence["ComparisonResult"]) -> None:
    table = _table("", "dataset", ">pairs", ">A", ">B", ">A - B", ">95% CI", ">p", "result")
    labels = {"first": "[green]A is better[/]", "second": "[green]B is better[/]", "tie": "tie"}
    for comparison in results:
        cells = ["undefined"] * 2 + ["–"] * 3 + ["undefined"]
        if comparison.difference and comparison.result:
            difference, result = comparison.difference, comparison.result
            cells = [
                *map(_percent, (difference.first, difference.second, difference.interval.value)),
                _range(difference.interval),
                f"{result.holm_p:.4f}",
                labels[result.winner],
            ]
        table.add_row(comparison.dataset, f"{comparison.pairs:,}", *cells)
    out.print(f"A: {first}\nB: {second}", highlight=False, soft_wrap=True)
    out.print(table)
    out.print(
        f"{coefficient.capitalize()} of the cosine ×100. CI: BCa bootstrap of the difference over pairs. "
        "p: randomization test that swaps the models' predictions pair by pair, with Holm's correction over "
        f"{len(results)} dataset(s). Tie: the difference is not significant.",
        style="dim",
        highlight=False,
    )
