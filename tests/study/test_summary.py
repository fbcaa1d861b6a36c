"""The summary: its answer never overstates a difference, its JSON validates, its schema is current."""

import json
from pathlib import Path

import pytest

from kosbert.errors import KosbertError
from kosbert.study.summarize import answer, ranking, tied_with_best
from kosbert.study.summary import (
    EvalSet,
    PairwiseComparison,
    StageCounts,
    StudySummary,
    VariantMean,
    VariantScores,
    VariantSummary,
    load_summary,
    summary_schema,
)

RESULTS = Path(__file__).parents[2] / "results"


def make_summary(means, winners, synthetic_data=False, seeds=3):
    """Return a summary with the given mean scores; `winners` maps (first, second) to the better one or None."""
    scores = {
        name: VariantScores(
            seeds=list(range(seeds)),
            spearman=VariantMean(per_seed=[mean] * seeds, mean=mean, std=0.0, ci_low=mean, ci_high=mean),
            metrics={},
        )
        for name, mean in means.items()
    }
    comparisons = [
        PairwiseComparison(
            first=first, second=second, difference=means[first] - means[second], ci_low=0.0, ci_high=0.0,
            p_value=0.001 if winner else 0.5, seeds=seeds, significant=winner is not None, winner=winner,
        )
        for (first, second), winner in winners.items()
    ]  # fmt: skip
    test = EvalSet(
        name="korsts-test", split="test", pairs=1379, scores=scores, undefined=[], comparisons=comparisons, published={}
    )
    variants = [
        VariantSummary(
            name=name, stages=[], planned_seeds=seeds, failed=False, steps=None, seconds_per_seed=None, new_seconds=0.0,
            nli_accuracy=None, bytes_per_vector=None, published={},
        )
        for name in means
    ]  # fmt: skip
    return StudySummary(
        study="x", preset="quick", question="?", description="", preset_description="", synthetic_data=synthetic_data,
        command="", not_measured=[], provenance=None, backbone="", preferred_backbone="", seeds=seeds,
        variants=variants, eval_sets=[test] if means else [], published_scores=None,
        stages=StageCounts(distinct=0, total=0), failed_runs={}, runs_not_started=[], datasets={},
    )  # fmt: skip


def test_answer_names_a_significant_winner():
    text = answer(make_summary({"a": 0.80, "b": 0.85}, {("a", "b"): "b"}))
    assert text == (
        "b is best with 85.0, significantly better than every other variant; the next is a with 80.0 "
        "(Spearman on korsts-test, 1,379 pairs, 3 seeds)."
    )


def test_answer_names_two_tied_variants_that_both_beat_the_rest():
    winners = {("a", "b"): None, ("a", "c"): "a", ("b", "c"): "b"}
    text = answer(make_summary({"a": 0.85, "b": 0.849, "c": 0.7}, winners, synthetic_data=True, seeds=1))
    assert text == (
        "a (85.0) and b (84.9) are tied (Spearman on korsts-test, 1,379 pairs, one seed); both are significantly "
        "better than c; the sample set says nothing about real Korean."
    )


def test_ties_are_not_transitive():
    winners = {("a", "b"): None, ("a", "c"): "a", ("b", "c"): None}
    summary = make_summary({"a": 0.85, "b": 0.84, "c": 0.83}, winners)
    assert tied_with_best(summary) == ["a", "b"]
    assert answer(summary).endswith("; a is significantly better than c.")


def test_large_difference_without_significance_is_not_called_a_tie():
    text = answer(make_summary({"a": 0.763, "b": 0.636}, {("a", "b"): None}, seeds=3))
    assert text == (
        "a (76.3) and b (63.6) cannot be distinguished (n.s.; Spearman on korsts-test, 1,379 pairs, 3 seeds)."
    )


def test_answer_counts_only_finished_seeds():
    winners = {("a", "b"): None, ("a", "tfidf"): "a"}
    summary = make_summary({"a": 0.8, "b": 0.7, "tfidf": 0.6}, winners, seeds=5)
    summary.variants[2].planned_seeds = 1
    scores = summary.eval_sets[0].scores
    scores["b"].seeds, scores["tfidf"].seeds = [1, 2], [1]
    assert "1,379 pairs, 2 to 5 seeds" in answer(summary)
    scores["a"].seeds = scores["b"].seeds = [1]
    assert "1,379 pairs, one seed" in answer(summary)


def test_answer_with_equal_scores_one_variant_or_none():
    equal = make_summary({"a": 0.8, "b": 0.8}, {("a", "b"): None})
    assert answer(equal).startswith("a (80.0) and b (80.0) are tied")
    assert answer(make_summary({"a": 0.8}, {})).startswith("a reaches 80.0")
    assert answer(make_summary({}, {})).startswith("No run has finished")


def test_summary_of_finished_study(finished, data_files):
    _, summary, page = finished
    assert summary.command.startswith("kosbert study run tiny.yaml --preset quick")  # not a built-in study
    paths = {str(data_files / name) for name in ("sts.tsv", "nli.tsv", "dev.tsv", "test.tsv")}
    assert paths <= set(summary.datasets)
    assert all(len(checksum.sha256) == 64 for checksum in summary.datasets.values())
    test, dev = summary.eval_sets
    assert (test.split, dev.split, test.pairs) == ("test", "dev", 40)
    assert len(test.comparisons) == 10
    assert dev.comparisons == []  # dev selects checkpoints and is not tested
    assert set(test.scores) == set(summary.variant_names) == set(ranking(summary))
    score = test.scores["STS"].spearman
    assert score.mean == pytest.approx(sum(score.per_seed) / 2)
    variants = {variant.name: variant for variant in summary.variants}
    assert variants["STS"].published == {"cosine_pearson": 0.816, "cosine_spearman": 0.814}
    assert variants["NLI→STS"].steps == variants["NLI"].steps + variants["STS"].steps
    assert variants["no fine-tuning"].seconds_per_seed is None
    assert load_summary(page.parent) == summary


def test_unknown_field_is_an_error(finished, tmp_path):
    _, _, page = finished
    content = json.loads((page.parent / "summary.json").read_text(encoding="utf-8"))
    (tmp_path / "summary.json").write_text(json.dumps(content | {"rows": []}), encoding="utf-8")
    with pytest.raises(KosbertError, match="does not match schema version 1"):
        load_summary(tmp_path)


def test_schema_file_is_current():
    """Update it with: kosbert study schema > results/summary.schema.json."""
    assert json.loads((RESULTS / "summary.schema.json").read_text(encoding="utf-8")) == summary_schema()
