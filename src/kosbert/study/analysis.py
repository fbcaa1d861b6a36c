"""Where a difference comes from: slices of the test set, single pairs to look at, and a map of the vectors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from kosbert import data
from kosbert.data.records import LabeledSentence, ScoredPair
from kosbert.evaluation.evaluate import read_set
from kosbert.evaluation.slices import slice_scores
from kosbert.model.encoder import SupportsEncode
from kosbert.study.plan import Plan, Run
from kosbert.study.scoring import as_it_is, encoder_of
from kosbert.study.store import Store, StoredRun, read_json, stored_run, write_json

Floats = NDArray[np.float64]
_SENTENCES, _PAIRS = 420, 90  # on the map: enough to see groups, few enough to see points
_EACH_WAY = 5  # pairs to look at on which a row wins, and on which it loses


def sliced(runs: Sequence[StoredRun], name: str, data_dir: Path | None) -> list[dict[str, Any]]:
    """Spearman by source, length and overlap: for each slice the mean over seeds of every row."""
    pairs = read_set(name, folder=data_dir).pairs
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        for each in slice_scores(pairs, run.predictions(name), resamples=2):  # the intervals are not shown
            empty: dict[str, Any] = {"kind": each.kind, "name": each.name, "pairs": each.pairs, "rows": {}}
            entry = found.setdefault((each.kind, each.name), empty)
            entry["rows"].setdefault(run.row, []).append(each.spearman.value if each.spearman else None)
    for entry in found.values():
        rows: dict[str, list[float | None]] = entry["rows"]
        entry["rows"] = {
            row: None if None in values else float(np.mean([each for each in values if each is not None]))
            for row, values in rows.items()
        }
    return list(found.values())


def on_the_gold_scale(predictions: Floats, gold: Floats) -> Floats:
    """What a model says, in the units of the human scores: the pair that it ranks k-th gets the k-th human score.

    Spearman sees ranks alone, and this shows the very ranks in units that can be read.
    """
    order = np.sort(np.asarray(gold, np.float64))
    places = rankdata(predictions) - 1
    return np.asarray(np.interp(places, np.arange(len(order)), order), np.float64)


def examples(
    runs: Sequence[StoredRun], best: str, other: str, name: str, data_dir: Path | None, *, with_texts: bool = True
) -> list[dict[str, Any]]:
    """The pairs on which the best row is nearer to people than another row, and those on which it is farther off."""
    pairs = read_set(name, folder=data_dir).pairs
    gold = runs[0].gold(name)
    said = {
        row: np.mean([on_the_gold_scale(run.predictions(name), gold) for run in runs if run.row == row], axis=0)
        for row in (best, other)
    }
    gain = np.abs(said[other] - gold) - np.abs(said[best] - gold)
    order = np.argsort(gain, kind="stable")
    chosen = [("wins", number) for number in order[::-1][:_EACH_WAY]] + [
        ("loses", number) for number in order[:_EACH_WAY]
    ]
    return [
        {
            "kind": kind,
            "pair": int(number) + 1,
            **({"sentence1": pairs[number].sentence1, "sentence2": pairs[number].sentence2} if with_texts else {}),
            "source": pairs[number].source,
            "gold": float(gold[number]),
            "best": float(said[best][number]),
            "other": float(said[other][number]),
        }
        for kind, number in chosen
        if (gain[number] > 0) == (kind == "wins")
    ]


def sentence_map(plan: Plan, best: str, store: Store, data_dir: Path | None) -> dict[str, Any] | None:
    """Two-dimensional places of a sample of sentences, before training and after the best row's; None without models.

    Colored by topic where a set with topics is at hand. Else the sentences of test pairs: a line joins a pair, in one
    color where people find it alike and in another where they do not.
    """
    done = (run for run in plan.runs if stored_run(store.run(plan.name, run.name), run.identity))
    run = next((run for run in done if run.row == best), None)
    if run is None or run.cross_encoder:
        return None
    cache = store.study(plan.name) / "map.json"
    if cache.is_file() and read_json(cache)["identity"] == run.identity:
        return dict(read_json(cache))
    sample = _topics(plan, data_dir) or _pairs(plan.settings.test[0], data_dir)
    panels = []
    for title, encoder in _before_and_after(run, store, data_dir):
        panels.append({"title": title, "points": flat(encoder.encode(sample["sentences"])).round(3).tolist()})
    found = {"identity": run.identity, "panels": panels, **{key: sample[key] for key in ("groups", "lines", "names")}}
    found |= {"colored_by": sample["colored_by"], "sentences": len(sample["sentences"])}
    write_json(cache, found)
    return found


def _before_and_after(run: Run, store: Store, data_dir: Path | None) -> list[tuple[str, SupportsEncode]]:
    made = encoder_of(run, store, data_dir)
    if not run.stages:
        return [(run.row, made)]
    return [("the backbone, untouched", as_it_is(run.recipe, data_dir)), (f"after {run.row}, seed {run.seed}", made)]


def flat(vectors: Any) -> Floats:
    """Two dimensions for the eye: t-SNE of the cosines, from a fixed start (van der Maaten and Hinton 2008)."""
    from sklearn.manifold import TSNE

    vectors = np.asarray(vectors.toarray() if hasattr(vectors, "toarray") else vectors, np.float32)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    perplexity = min(30.0, (len(unit) - 1) / 3)
    placed = TSNE(2, perplexity=perplexity, init="pca", random_state=0, n_jobs=1).fit_transform(unit)
    return np.asarray(placed, np.float64)


def _topics(plan: Plan, data_dir: Path | None) -> dict[str, Any] | None:
    for name in plan.settings.topics:
        dataset, split = data.resolve(name)
        if not data.available(dataset, split, data_dir):
            continue
        rows = [row for row in data.load(name, folder=data_dir) if isinstance(row, LabeledSentence)]
        names = sorted({row.label for row in rows})
        draw = np.random.default_rng(0)
        chosen = []
        for label in names:
            own = [row for row in rows if row.label == label]
            share = min(len(own), _SENTENCES // len(names))
            chosen += [own[number] for number in draw.permutation(len(own))[:share]]
        return {
            "sentences": [row.text for row in chosen],
            "groups": [names.index(row.label) for row in chosen],
            "lines": [],
            "names": names,
            "colored_by": f"topic of {name}",
        }
    return None


def _pairs(name: str, data_dir: Path | None) -> dict[str, Any]:
    """Pairs that people find alike, and pairs that they do not."""
    every = read_set(name, folder=data_dir).pairs
    low, high = np.quantile([pair.score for pair in every], [0.25, 0.75])
    draw = np.random.default_rng(0)
    chosen: list[tuple[ScoredPair, int]] = []
    for group in (0, 1):
        own = [pair for pair in every if (pair.score >= high, pair.score <= low)[group]]
        chosen += [(own[number], group) for number in draw.permutation(len(own))[: _PAIRS // 2]]
    return {
        "sentences": [text for pair, _ in chosen for text in (pair.sentence1, pair.sentence2)],
        "groups": [group for _, group in chosen for _ in range(2)],
        "lines": [(2 * number, 2 * number + 1, group) for number, (_, group) in enumerate(chosen)],
        "names": [f"alike (score {high:.1f} and above)", f"not alike (score {low:.1f} and below)"],
        "colored_by": f"human score of {name}; a line joins the two sentences of a pair",
    }
