"""Compute the summary of a study from the files of the store: scores, comparisons, costs, and the answer."""

import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.evaluation.published_scores import published_scores
from kosbert.evaluation.significance import seed_statistics
from kosbert.study.analysis import example_pairs, slice_scores
from kosbert.study.config import Variant, builtin_studies
from kosbert.study.plan import StudyPlan
from kosbert.study.runner import StudyOutcome, stage_cost
from kosbert.study.significance import SeedPairBootstrap
from kosbert.study.store import StoredRun, StudyContext
from kosbert.study.summary import (
    DatasetChecksum,
    EvalSet,
    NotMeasured,
    Provenance,
    PublishedScores,
    PublishedSource,
    SeedMean,
    StageCounts,
    StudySummary,
    VariantScores,
    VariantSummary,
)

CLEAR_GAP = 3.0  # points; a larger difference that is not significant is an open question and not called a tie


def summarize(context: StudyContext, outcome: StudyOutcome, *, with_texts: bool = True) -> StudySummary:
    """Return everything that the report shows except the figures.

    Args:
        context: plan, store and data directory.
        outcome: runs that failed or did not start.
        with_texts: include the sentences of the example pairs.
    """
    plan, runs = context.plan, context.finished_runs()
    summary = StudySummary(
        study=plan.study.name,
        preset=plan.preset_name,
        question=plan.study.question,
        description=plan.study.description,
        preset_description=plan.preset.description,
        differences=plan.preset.differences,
        synthetic_data=any(name.startswith("sample-") for name in plan.preset.test),
        command=study_command(plan),
        not_measured=_not_measured(plan),
        provenance=_provenance(runs),
        backbone=_backbone_name(plan.backbone),
        preferred_backbone=_backbone_name(plan.backbone_override or plan.preset.backbone[0]),
        seeds=len(plan.seeds),
        limit=plan.limit,
        settings=list(plan.settings),
        variants=_variants(context, runs, outcome),
        eval_sets=_eval_sets(context, runs),
        published_scores=_published_sources(plan),
        stages=StageCounts(distinct=len(plan.stages()), total=sum(len(run.stages) for run in plan.runs)),
        failed_runs=outcome.failed,
        runs_not_started=outcome.not_started,
        datasets={
            name: DatasetChecksum.model_validate(checksum) for run in plan.runs for name, checksum in run.data().items()
        },
    )
    order = ranking(summary)
    if len(order) > 1:
        name = summary.test_sets[0].name
        summary.examples = example_pairs(runs, order[0], order[1], name, context.data_dir, with_texts=with_texts)
    summary.answer = answer(summary)
    summary.facts = _facts(summary, plan)
    return summary


def _provenance(runs: Sequence[StoredRun]) -> Provenance | None:
    """Return the provenance of the first run, with a backbone if there is one."""
    records = [run.record["provenance"] for run in runs]
    record = next((record for record in records if record.get("backbone")), records[0] if records else None)
    return Provenance.model_validate(record) if record else None


def study_command(plan: StudyPlan) -> str:
    """Return the command that runs this study."""
    parts = [_base_command(plan), f"--preset {plan.preset_name}"]
    parts += [f"--backbone {plan.backbone_override}"] if plan.backbone_override else []
    parts += [f"--seeds {len(plan.seeds)}"] if plan.seeds != plan.preset.first_seeds() else []
    parts += [f"--set {shlex.quote(setting)}" for setting in plan.settings]
    parts += [f"--limit {plan.limit}"] if plan.limit else []
    return " ".join(parts)


def _base_command(plan: StudyPlan) -> str:
    name = plan.study.name
    return f"kosbert study {name}" if name in builtin_studies() else f"kosbert study run {name}.yaml"


def _backbone_name(backbone: Any) -> str:
    if isinstance(backbone, str):
        return backbone
    if "from" in backbone:
        return f"{backbone['layers']} layers of {backbone['from']}"
    layers, dim = backbone.get("layers", 4), backbone.get("hidden_size", 256)
    return f"a new model with {layers} layers and {dim} dimensions"


def _eval_sets(context: StudyContext, runs: Sequence[StoredRun]) -> list[EvalSet]:
    """Score every test and dev set; only test sets are compared and sliced."""
    plan = context.plan
    if not runs:
        return []
    planned = {variant.name: _planned_seeds(plan, variant) for variant in plan.variants}
    eval_sets = []
    for name in dict.fromkeys((*plan.preset.test, *plan.preset.dev)):
        is_test = name in plan.preset.test
        gold = runs[0].gold(name)
        predictions = _predictions(runs, name)
        bootstrap = SeedPairBootstrap(predictions, gold, planned_seeds=planned)
        eval_sets.append(
            EvalSet(
                name=name,
                split="test" if is_test else "dev",
                pairs=len(gold),
                scores={variant: _scores(runs, variant, name, bootstrap) for variant in bootstrap.variants},
                undefined=[variant for variant in predictions if variant not in bootstrap.variants],
                comparisons=bootstrap.comparisons() if is_test else [],
                slices=slice_scores(runs, name, context.data_dir) if is_test else [],
                published=published_metrics(plan, name),
            )
        )
    return eval_sets


def _planned_seeds(plan: StudyPlan, variant: Variant) -> int:
    return min(variant.seeds or len(plan.seeds), len(plan.seeds))


def _predictions(runs: Sequence[StoredRun], name: str) -> dict[str, dict[int, NDArray[np.float64]]]:
    predictions: dict[str, dict[int, NDArray[np.float64]]] = {}
    for run in runs:
        predictions.setdefault(run.variant, {})[run.seed] = run.predictions(name)
    return predictions


def _scores(runs: Sequence[StoredRun], variant: str, name: str, bootstrap: SeedPairBootstrap) -> VariantScores:
    per_run = [run.scores[name] for run in runs if run.variant == variant]
    metrics: dict[str, SeedMean | None] = {}
    for metric in per_run[0]:
        values = [scores[metric] for scores in per_run]
        metrics[metric] = None if None in values else _seed_mean(values)
    return VariantScores(seeds=bootstrap.seeds(variant), spearman=bootstrap.mean(variant), metrics=metrics)


def _seed_mean(values: Sequence[float]) -> SeedMean:
    result = seed_statistics(values)
    return SeedMean(seeds=result.runs, mean=result.mean, std=result.std, ci_low=result.low, ci_high=result.high)


def _variants(context: StudyContext, runs: Sequence[StoredRun], outcome: StudyOutcome) -> list[VariantSummary]:
    plan = context.plan
    failed = {run.variant for run in plan.runs if run.name in outcome.failed}
    published = _published_by_variant(plan)
    counted: set[str] = set()
    variants = {
        variant.name: VariantSummary(
            name=variant.name,
            stages=list(variant.stages) or (["cross-encoder"] if variant.cross_encoder else []),
            planned_seeds=_planned_seeds(plan, variant),
            failed=variant.name in failed,
            steps=None,
            seconds_per_seed=None,
            new_seconds=0.0,
            nli_accuracy=_nli_accuracy(runs, variant.name),
            bytes_per_vector=_bytes_per_vector(runs, variant.name),
            published=published.get(variant.name, {}),
            published_dev=published_dev(plan, variant),
        )
        for variant in plan.variants
    }
    seconds_per_seed: dict[str, list[float]] = {}
    for run in plan.runs:
        variant = variants[run.variant]
        costs = {stage.key: stage_cost(stage.key, context.store) for stage in run.stages}
        if run.cross_encoder:
            stored = context.finished_run(run)
            costs = {run.name: stored.record.get("cost", {}) if stored else {}}
        seconds = [cost["seconds"] for cost in costs.values() if cost.get("seconds") is not None]
        if costs and len(seconds) == len(costs):
            seconds_per_seed.setdefault(run.variant, []).append(sum(seconds))
            variant.steps = sum(cost["steps"] for cost in costs.values() if cost["steps"]) or None
        for key, cost in costs.items():
            if key not in counted and cost.get("seconds"):
                counted.add(key)
                variant.new_seconds += cost["seconds"]
    for name, values in seconds_per_seed.items():
        variants[name].seconds_per_seed = float(np.mean(values))
    return list(variants.values())


def _nli_accuracy(runs: Sequence[StoredRun], variant: str) -> SeedMean | None:
    values = [run.scores["nli"]["accuracy"] for run in runs if run.variant == variant and "nli" in run.scores]
    return _seed_mean(values) if values else None


def _bytes_per_vector(runs: Sequence[StoredRun], variant: str) -> int | None:
    sizes = [run.scores["size"]["bytes"] for run in runs if run.variant == variant and "size" in run.scores]
    return sizes[-1] if sizes else None


def _published_by_variant(plan: StudyPlan) -> dict[str, dict[str, float]]:
    """Return the published scores of each variant's published model, by metric."""
    if not plan.study.published_scores:
        return {}
    models = {variant.name: variant.published_model for variant in plan.variants if variant.published_model}
    rows = published_scores(plan.study.published_scores)
    by_variant = {name: {row.metric: row.value for row in rows if row.model == model} for name, model in models.items()}
    return {name: metrics for name, metrics in by_variant.items() if metrics}


def published_dev(plan: StudyPlan, variant: Variant) -> list[float]:
    """Return the published dev Spearman of each epoch, if it was measured on the set that selects our checkpoints."""
    rows = published_scores(plan.preset.dev[0], "cosine_spearman") if len(plan.preset.dev) == 1 else []
    return next((list(row.by_epoch) for row in rows if row.model == variant.published_model), [])


def _published_sources(plan: StudyPlan) -> PublishedScores | None:
    """Return where the published scores of the variants come from."""
    dataset = plan.study.published_scores
    sources: dict[str, PublishedSource] = {}
    for row in published_scores(dataset) if dataset else ():
        for variant in plan.variants:
            if variant.published_model and row.model == variant.published_model:
                source = sources.setdefault(row.source, PublishedSource(name=row.source, url=row.url, caveats={}))
                names = source.caveats.setdefault(row.caveat, [])
                if variant.name not in names:
                    names.append(variant.name)
    return PublishedScores(dataset=dataset, sources=list(sources.values())) if sources else None


def published_metrics(plan: StudyPlan, name: str) -> dict[str, dict[str, float]]:
    """Return all eight correlations and their average on a set, where the sources of our variants published them."""
    models = {variant.published_model for variant in plan.variants}
    sources = {row.source for row in published_scores(plan.study.published_scores) if row.model in models}
    metrics: dict[str, dict[str, float]] = {}
    for row in published_scores(name):
        if row.source in sources:
            metrics.setdefault(row.model, {})[row.metric] = row.value
    return {model: values for model, values in metrics.items() if "average" in values}


def _not_measured(plan: StudyPlan) -> list[NotMeasured]:
    """Return what the study leaves out, and the other presets, each with its command."""
    return list(plan.study.not_measured) + [
        NotMeasured(what=preset.description, command=f"{_base_command(plan)} --preset {name}")
        for name, preset in plan.study.presets.items()
        if name != plan.preset_name
    ]


def _facts(summary: StudySummary, plan: StudyPlan) -> dict[str, str]:
    tests = ", ".join(f"{test.name} ({test.pairs:,} pairs)" for test in summary.test_sets)
    seeds = finished_seeds(summary).removesuffix(" seeds").removesuffix(" seed")
    if not isinstance(plan.preset.seeds, int):
        seeds += f" ({', '.join(map(str, plan.seeds))})"
    return {"preset": summary.preset, "backbone": summary.backbone, "seeds": seeds, "test": tests}


def ranking(summary: StudySummary) -> list[str]:
    """Return the variants of the first test set, best mean first."""
    scores = summary.test_sets[0].scores if summary.test_sets else {}
    return sorted(scores, key=lambda variant: -scores[variant].spearman.mean)


def tied_with_best(summary: StudySummary) -> list[str]:
    """Return the best variant of the first test set and those not significantly worse, best first."""
    order = ranking(summary)
    if not order:
        return []
    tied = {
        comparison.second if comparison.first == order[0] else comparison.first
        for comparison in summary.test_sets[0].comparisons
        if order[0] in (comparison.first, comparison.second) and not comparison.significant
    }
    return [order[0], *(variant for variant in order[1:] if variant in tied)]


def answer(summary: StudySummary) -> str:
    """Return the answer in one sentence; a difference that is not significant is never called a win."""
    order, best = ranking(summary), tied_with_best(summary)
    if not order:
        return "No run has finished, so there is no answer yet."
    test = summary.test_sets[0]
    means = {variant: 100 * test.scores[variant].spearman.mean for variant in order}
    where = f"Spearman on {test.name}, {test.pairs:,} pairs, {finished_seeds(summary)}"
    rest = [variant for variant in order if variant not in best]
    if len(order) == 1:
        text = f"{order[0]} reaches {means[order[0]]:.1f} ({where})"
    elif len(best) == 1:
        text = (
            f"{best[0]} is best with {means[best[0]]:.1f}, significantly better than every other variant; the next is "
            f"{rest[0]} with {means[rest[0]]:.1f} ({where})"
        )
    else:
        names = _join([f"{variant} ({means[variant]:.1f})" for variant in best])
        close = means[best[0]] - means[best[-1]] < CLEAR_GAP
        text = f"{names} are tied ({where})" if close else f"{names} cannot be distinguished (n.s.; {where})"
        if rest and _all_better(summary, best, rest):
            text += f"; {'both' if len(best) == 2 else 'all'} are significantly better than {_join(rest)}"
        elif rest:
            text += f"; {best[0]} is significantly better than {_join(rest)}"
    if summary.limit:
        text += f"; a shortened run, with at most {summary.limit:,} rows of every training source"
    return text + ("; the sample set says nothing about real Korean." if summary.synthetic_data else ".")


def finished_seeds(summary: StudySummary) -> str:
    """Return how many seeds finished, over the variants that were planned with several."""
    scores = summary.test_sets[0].scores if summary.test_sets else {}
    counts = [
        len(scores[variant.name].seeds)
        for variant in summary.variants
        if variant.planned_seeds > 1 and variant.name in scores
    ]
    fewest, most = min(counts, default=1), max(counts, default=1)
    if most == 1:
        return "one seed"
    return f"{most} seeds" if fewest == most else f"{fewest} to {most} seeds"


def _all_better(summary: StudySummary, best: Sequence[str], rest: Sequence[str]) -> bool:
    """Return whether each of the best variants is significantly better than each of the rest."""
    wins = {
        (comparison.winner, comparison.second if comparison.winner == comparison.first else comparison.first)
        for comparison in summary.test_sets[0].comparisons
    }
    return all((better, worse) in wins for better in best for worse in rest)


def _join(names: Sequence[str]) -> str:
    """Join names for a sentence.

    >>> _join(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def selected_on_dev(summary: StudySummary) -> str:
    """Return the variant with the best dev score, the one that may be selected; test must not select."""
    dev = summary.dev_set
    if dev is None or not dev.scores:
        return ""
    scores = dev.scores
    return max(scores, key=lambda variant: scores[variant].spearman.mean)
