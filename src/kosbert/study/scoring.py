"""Score one run: predictions for every pair of every set, the eight correlations, and NLI accuracy where asked."""

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.data.records import LabeledPair, ScoredPair, sentences_of
from kosbert.errors import UsageError
from kosbert.evaluation.evaluate import read_set
from kosbert.evaluation.sts import (
    encode_pairs,
    gold_scores,
    paired_cosine,
    pearson,
    spearman,
    sts_metrics,
)
from kosbert.model import load_any
from kosbert.model.compress import fewer_layers, with_pca
from kosbert.model.directory import find_model
from kosbert.model.encoder import SupportsEncode
from kosbert.model.from_scratch import new_backbone
from kosbert.model.torch_encoder import TorchEncoder
from kosbert.model.torch_loading import load_torch
from kosbert.study.config import Probe
from kosbert.study.plan import Run
from kosbert.study.provenance import lineage
from kosbert.study.store import Store, read_json, whole_folder, write_json, write_predictions
from kosbert.text import clean
from kosbert.training.columns import read_rows
from kosbert.training.recipe import FewerLayers, NewBackbone, Recipe

Predicted = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]


def score_run(run: Run, study: str, store: Store, data_dir: Path | None) -> None:
    """Write the folder of a run whose stages are all trained."""
    sets = {name: read_set(name, folder=data_dir).pairs for name in dict.fromkeys((*run.dev, *run.test))}
    scores: dict[str, Any] = {}
    predicted: Predicted = {}
    cost: dict[str, Any] = {}  # stages know their own
    if run.cross_encoder:
        start = time.monotonic()
        for name, values in _cross_encoder(run, sets, data_dir).items():
            gold = gold_scores(sets[name])
            predicted[name] = gold, values
            scores[name] = {"cosine_pearson": pearson(values, gold), "cosine_spearman": spearman(values, gold)}
        cost = {"seconds": time.monotonic() - start, "steps": None}
    else:
        encoder = encoder_of(run, store, data_dir)
        if "pca" in run.vectors:
            encoder = _with_axes(encoder, run, data_dir)
        for name, pairs in sets.items():
            vectors, gold = encode_pairs(encoder, pairs), gold_scores(pairs)
            size = bytes_of(vectors[0], run.vectors)
            vectors = compressed(vectors[0], run.vectors), compressed(vectors[1], run.vectors)
            predicted[name] = gold, paired_cosine(*vectors)
            scores[name] = sts_metrics(*vectors, gold)
        scores["size"] = {"bytes": size}
        if run.probe:
            options = run.stages[-1].recipe.stages[0].options
            scores["nli"] = {"accuracy": nli_accuracy(encoder, run.probe, options["concatenation"], data_dir)}
    record = {
        "identity": run.identity,
        "study": study,
        "row": run.row,
        "seed": run.seed,
        "model": str(model_of(run, store)),
        "stages": [{"label": each.label, "hash": each.key, "start": each.start} for each in run.stages],
        "recipes": [each.recipe.model_dump(mode="json") for each in run.stages],
        "data": run.data(),
        "cost": cost,
        "lineage": lineage(),
    }
    curves = [
        {"stage": each.label, "points": points}
        for each in run.stages
        for points in read_json(store.stage(each.key) / "curves.json").values()
    ]
    with whole_folder(store.run(study, run.name)) as folder:
        write_json(folder / "run.json", record)
        write_json(folder / "curves.json", curves)
        write_json(folder / "scores.json", scores)
        write_predictions(
            folder / "predictions", {name: (g.tolist(), p.tolist()) for name, (g, p) in predicted.items()}
        )


def model_of(run: Run, store: Store) -> Path | str:
    """The directory, or the name, of what a run made."""
    if run.stages:
        return store.stage(run.stages[-1].key) / "model"
    return run.encoder or ("cross-encoder" if run.cross_encoder else str(run.recipe.backbone))


def encoder_of(run: Run, store: Store, data_dir: Path | None) -> SupportsEncode:
    """What a run made, ready to encode: the last stage's model, an encoder that is not trained, or the backbone."""
    if run.stages:
        return load_torch(store.stage(run.stages[-1].key) / "model")
    return load_any(run.encoder, data_dir=data_dir) if run.encoder else as_it_is(run.recipe, data_dir)


def as_it_is(recipe: Recipe, data_dir: Path | None) -> SupportsEncode:
    """The backbone of a recipe before any training."""
    shape: dict[str, Any] = {"pooling": recipe.pooling, "max_length": recipe.max_length}
    if isinstance(recipe.backbone, NewBackbone):
        rows = read_rows(recipe.backbone.text, None, data_dir)
        texts = [text for row in rows for text in sentences_of(row)]
        return new_backbone(texts, **recipe.backbone.model_dump(exclude={"text"}), **shape, seed=recipe.seed)
    if isinstance(recipe.backbone, FewerLayers):
        return fewer_layers(recipe.backbone.source, recipe.backbone.layers, **shape)
    return load_torch(recipe.backbone, **shape)


def _with_axes(encoder: SupportsEncode, run: Run, data_dir: Path | None) -> SupportsEncode:
    """Vectors on their main axes, which are fitted to the study's text and to no set that is scored."""
    if not isinstance(encoder, TorchEncoder):
        raise UsageError(f"row {run.row}: pca needs a model")
    rows = read_rows(run.vectors["text"], None, data_dir)
    return with_pca(encoder, [text for row in rows for text in sentences_of(row)], int(run.vectors["pca"]))


def compressed(vectors: Any, how: dict[str, Any]) -> Any:
    """Vectors as they would be stored: cut to `dim` dimensions, as `int8`, or as bits (`binary`).

    int8 gives each dimension 255 steps between its extremes over these sentences, as sentence-transformers does with
    the sentences that it is given to calibrate on. The cosine of ±1 is the share of equal bits.
    """
    if not how:
        return vectors
    vectors = np.asarray(vectors)[:, : how.get("dim")]
    match how.get("kind", "float32"):
        case "float32":
            return vectors
        case "int8":
            low, high = vectors.min(axis=0), vectors.max(axis=0)
            step = np.where(high > low, (high - low) / 255, 1)
            return (np.round((vectors - low) / step) * step + low).astype(np.float32)
        case "binary":
            return np.where(vectors > 0, 1.0, -1.0).astype(np.float32)
    raise UsageError(f"vectors cannot be made {how['kind']}: choose float32, int8 or binary")


def bytes_of(vectors: Any, how: dict[str, Any]) -> int | None:
    """Bytes of one stored vector; None for sparse ones, which differ."""
    if not isinstance(vectors, np.ndarray):
        return None
    dim = int(how.get("dim") or vectors.shape[1])
    return {"float32": 4 * dim, "int8": dim, "binary": -(-dim // 8)}[how.get("kind", "float32")]


def nli_accuracy(encoder: SupportsEncode, probe: Probe, concatenation: str, data_dir: Path | None) -> float:
    """Share of NLI rows that a softmax over the concatenation of frozen vectors gets right.

    The classifier that a model was trained with is dropped after training. This one has its shape, is fitted to
    convergence, and so says what the vectors hold, not how far that classifier had come.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    parts = []
    for names in (probe.train, probe.test):
        rows = [row for row in read_rows(names, None, data_dir) if isinstance(row, LabeledPair)]
        if len(rows) > probe.limit:
            chosen = np.random.default_rng(0).permutation(len(rows))[: probe.limit]
            rows = [rows[number] for number in np.sort(chosen)]
        vectors = encoder.encode([row.sentence1 for row in rows] + [row.sentence2 for row in rows])
        u, v = vectors[: len(rows)], vectors[len(rows) :]
        part = {"u": u, "v": v, "|u-v|": np.abs(u - v), "u*v": u * v}
        parts.append((np.hstack([part[name] for name in concatenation.split(",")]), [row.label for row in rows]))
    (features, labels), (held_out, wanted) = parts
    scaler = StandardScaler().fit(features)
    model = LogisticRegression(max_iter=200).fit(scaler.transform(features), labels)
    return float(model.score(scaler.transform(held_out), wanted))


def _cross_encoder(
    run: Run, sets: Mapping[str, Sequence[ScoredPair]], data_dir: Path | None
) -> dict[str, NDArray[np.float64]]:
    """Train a cross-encoder on the same backbone and let it score every pair; it has no vectors to keep."""
    from sentence_transformers import CrossEncoder

    from kosbert.model.torch_encoder import quiet_transformers
    from kosbert.training.cross_encoder import train_cross_encoder

    settings = dict(run.cross_encoder)
    rows = read_rows(settings.pop("rows"), None, data_dir)
    pairs = [row for row in rows if isinstance(row, ScoredPair)]
    with tempfile.TemporaryDirectory() as folder:
        plain, made = Path(folder) / "backbone", Path(folder) / "cross-encoder"
        if isinstance(run.recipe.backbone, NewBackbone):
            as_it_is(run.recipe, data_dir).save(plain)  # type: ignore[attr-defined]
        else:
            shutil.copytree(find_model(str(run.recipe.backbone)), plain)
        (plain / "modules.json").unlink(missing_ok=True)  # its transformer alone, without the pooling
        with quiet_transformers():
            train_cross_encoder(plain, pairs, sets[run.dev[0]], out=made, seed=run.seed, **settings)
            model = CrossEncoder(str(made), local_files_only=True)
        found = {}
        for name, each in sets.items():
            texts = [(clean(pair.sentence1), clean(pair.sentence2)) for pair in each]
            found[name] = np.asarray(model.predict(texts, show_progress_bar=False), np.float64)
    return found
