"""Details behind a difference: scores by slice of the test set, example pairs, and a 2-D map of the embeddings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from scipy.stats import rankdata

from kosbert import data
from kosbert.data.records import LabeledSentence, ScoredPair
from kosbert.evaluation.evaluate import read_set
from kosbert.evaluation.slices import score_slices
from kosbert.model.encoder import SupportsEncode
from kosbert.study.plan import PlannedRun, StudyPlan
from kosbert.study.runner import missing_stages
from kosbert.study.scoring import run_encoder, untrained_encoder
from kosbert.study.store import StoredRun, StudyContext, read_json, write_json
from kosbert.study.summary import Example, SliceScores

Floats = NDArray[np.float64]
_MAP_SENTENCES, _MAP_PAIRS = 420, 90  # enough to see groups, few enough to see points
_EXAMPLES = 5  # pairs that the best variant gets right, and as many that it gets wrong


def slice_scores(runs: Sequence[StoredRun], name: str, data_dir: Path | None) -> list[SliceScores]:
    """Return Spearman by source, length and overlap: for each slice the mean over seeds of every variant."""
    pairs = read_set(name, data_dir=data_dir).pairs
    per_seed: dict[tuple[str, str, int], dict[str, list[float | None]]] = {}
    for run in runs:
        for part in score_slices(pairs, run.predictions(name), resamples=2):  # the intervals are not shown
            variants = per_seed.setdefault((part.kind, part.name, part.pairs), {})
            variants.setdefault(run.variant, []).append(part.spearman.value if part.spearman else None)
    return [
        SliceScores(kind=kind, name=label, pairs=size, spearman={key: _mean(values) for key, values in scores.items()})
        for (kind, label, size), scores in per_seed.items()
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if len(defined) == len(values) else None


def to_gold_scale(predictions: Floats, gold: Floats) -> Floats:
    """Express ranks on the scale of the human scores: the pair ranked k-th gets the k-th human score.

    Spearman depends on ranks only; this shows the same ranks in readable units.
    """
    sorted_gold = np.sort(np.asarray(gold, np.float64))
    ranks = rankdata(predictions) - 1
    return np.asarray(np.interp(ranks, np.arange(len(sorted_gold)), sorted_gold), np.float64)


def example_pairs(
    runs: Sequence[StoredRun], best: str, runner_up: str, name: str, data_dir: Path | None, *, with_texts: bool = True
) -> list[Example]:
    """Return the pairs where the best variant is much closer to the human score than the runner-up, and vice versa."""
    pairs = read_set(name, data_dir=data_dir).pairs
    gold = runs[0].gold(name)
    scaled = {
        variant: np.mean([to_gold_scale(run.predictions(name), gold) for run in runs if run.variant == variant], axis=0)
        for variant in (best, runner_up)
    }
    gain = np.abs(scaled[runner_up] - gold) - np.abs(scaled[best] - gold)
    order = np.argsort(gain, kind="stable")
    return [
        Example(
            closer="best" if gain[index] > 0 else "runner_up",
            pair=int(index) + 1,
            sentence1=pairs[index].sentence1 if with_texts else None,
            sentence2=pairs[index].sentence2 if with_texts else None,
            source=pairs[index].source,
            gold=float(gold[index]),
            best=float(scaled[best][index]),
            runner_up=float(scaled[runner_up][index]),
        )
        for expect_gain, indices in ((True, order[::-1][:_EXAMPLES]), (False, order[:_EXAMPLES]))
        for index in indices
        if (gain[index] > 0) == expect_gain
    ]


class MapPanel(BaseModel):
    """One panel of the map: 2-D positions of the sentences in one model."""

    title: str
    points: list[tuple[float, float]]


class EmbeddingMap(BaseModel):
    """The t-SNE map of a sample of sentences, before and after training."""

    run_key: str
    panels: list[MapPanel]
    groups: list[int]
    links: list[tuple[int, int, int]]  # (sentence, sentence, group)
    group_names: list[str]
    colored_by: str
    sentences: int


def embedding_map(context: StudyContext, variant: str) -> EmbeddingMap | None:
    """Return the map of a variant, cached in the store; None if none of its runs has a model.

    Colored by topic if a set with topics is available locally. Otherwise it shows test pairs: a line links the two
    sentences, colored by whether people rated them similar.
    """
    runs = [run for run in context.plan.runs if run.variant == variant and context.finished_run(run)]
    cache = context.directory / "map.json"
    if cache.is_file() and read_json(cache)["run_key"] in {run.key for run in runs}:
        return EmbeddingMap.model_validate(read_json(cache))
    run = next((run for run in runs if not missing_stages(run, context.store)), None)  # `prune` deletes models
    if run is None or run.cross_encoder:
        return None
    sample = _topic_sample(context.plan, context.data_dir)
    sample = sample or _pair_sample(context.plan.preset.test[0], context.data_dir)
    sentences = sample.pop("sentences")
    panels = [
        MapPanel(title=title, points=project(encoder.encode(sentences)).round(3).tolist())
        for title, encoder in _before_and_after(run, context)
    ]
    result = EmbeddingMap(run_key=run.key, panels=panels, sentences=len(sentences), **sample)
    write_json(cache, result.model_dump(mode="json"))
    return result


def _before_and_after(run: PlannedRun, context: StudyContext) -> list[tuple[str, SupportsEncode]]:
    encoder = run_encoder(run, context.store, context.data_dir)
    if not run.stages:
        return [(run.variant, encoder)]
    before = untrained_encoder(run.base_recipe, context.data_dir)
    return [("backbone, no fine-tuning", before), (f"after {run.variant}, seed {run.seed}", encoder)]


def project(vectors: Any) -> Floats:
    """Project to two dimensions with t-SNE on normalized vectors, deterministically (van der Maaten & Hinton 2008)."""
    from sklearn.manifold import TSNE

    vectors = np.asarray(vectors.toarray() if hasattr(vectors, "toarray") else vectors, np.float32)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    perplexity = min(30.0, (len(unit) - 1) / 3)
    positions = TSNE(2, perplexity=perplexity, init="pca", random_state=0, n_jobs=1).fit_transform(unit)
    return np.asarray(positions, np.float64)


def _topic_sample(plan: StudyPlan, data_dir: Path | None) -> dict[str, Any] | None:
    """Sample the first topic set that is available locally, equally from every topic."""
    for name in plan.preset.topics:
        dataset, split = data.resolve(name)
        if not data.available(dataset, split, data_dir):
            continue
        rows = [row for row in data.load(name, data_dir=data_dir) if isinstance(row, LabeledSentence)]
        labels = sorted({row.label for row in rows})
        rng = np.random.default_rng(0)
        sample = []
        for label in labels:
            candidates = [row for row in rows if row.label == label]
            count = min(len(candidates), _MAP_SENTENCES // len(labels))
            sample += [candidates[index] for index in rng.permutation(len(candidates))[:count]]
        return {
            "sentences": [row.text for row in sample],
            "groups": [labels.index(row.label) for row in sample],
            "links": [],
            "group_names": labels,
            "colored_by": f"topic of {name}",
        }
    return None


def _pair_sample(name: str, data_dir: Path | None) -> dict[str, Any]:
    """Sample similar and dissimilar test pairs: the upper and the lower quarter of the human scores."""
    pairs = read_set(name, data_dir=data_dir).pairs
    low, high = np.quantile([pair.score for pair in pairs], [0.25, 0.75])
    rng = np.random.default_rng(0)
    sample: list[tuple[ScoredPair, int]] = []
    for group in (0, 1):
        candidates = [pair for pair in pairs if (pair.score >= high, pair.score <= low)[group]]
        sample += [(candidates[index], group) for index in rng.permutation(len(candidates))[: _MAP_PAIRS // 2]]
    return {
        "sentences": [text for pair, _ in sample for text in (pair.sentence1, pair.sentence2)],
        "groups": [group for _, group in sample for _ in range(2)],
        "links": [(2 * number, 2 * number + 1, group) for number, (_, group) in enumerate(sample)],
        "group_names": [f"similar (score {high:.1f} or higher)", f"dissimilar (score {low:.1f} or lower)"],
        "colored_by": f"human score of {name}; a line links the two sentences of a pair",
    }
