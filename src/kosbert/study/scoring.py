"""Score one run: predictions for every pair of every set, the eight STS metrics, and NLI accuracy with a probe."""

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kosbert.data.loading import read_records
from kosbert.data.records import LabeledPair, Record, ScoredPair, sentences_of
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
from kosbert.model.directory import find_model, model_origin
from kosbert.model.encoder import SupportsEncode
from kosbert.model.from_scratch import new_backbone
from kosbert.model.torch_encoder import TorchEncoder
from kosbert.model.torch_loading import load_torch
from kosbert.study.config import Probe
from kosbert.study.plan import PlannedRun
from kosbert.study.store import (
    Store,
    StudyContext,
    current_provenance,
    read_json,
    replace_directory,
    write_json,
    write_predictions,
)
from kosbert.text import clean
from kosbert.training.recipe import FewerLayers, NewBackbone, Recipe

_origin = cache(model_origin)
Row = TypeVar("Row", bound=Record)
Predictions = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]


def score_run(run: PlannedRun, context: StudyContext) -> None:
    """Score a run whose stages are trained, and write its directory."""
    store, data_dir = context.store, context.data_dir
    sets = {name: read_set(name, data_dir=data_dir).pairs for name in dict.fromkeys((*run.dev, *run.test))}
    scores: dict[str, Any] = {}
    predictions: Predictions = {}
    cost: dict[str, Any] = {}  # of a cross-encoder; stages record their own
    if run.cross_encoder:
        start = time.monotonic()
        for name, predicted in _cross_encoder_scores(run, sets, data_dir).items():
            gold = gold_scores(sets[name])
            predictions[name] = gold, predicted
            scores[name] = {"cosine_pearson": pearson(predicted, gold), "cosine_spearman": spearman(predicted, gold)}
        cost = {"seconds": time.monotonic() - start, "steps": None}
    else:
        encoder = run_encoder(run, store, data_dir)
        if "pca" in run.compress:
            encoder = _with_pca(encoder, run, data_dir)
        for name, pairs in sets.items():
            vectors, gold = encode_pairs(encoder, pairs), gold_scores(pairs)
            size = bytes_per_vector(vectors[0], run.compress)
            vectors = compress(vectors[0], run.compress), compress(vectors[1], run.compress)
            predictions[name] = gold, paired_cosine(*vectors)
            scores[name] = sts_metrics(*vectors, gold)
        scores["size"] = {"bytes": size}
        if run.probe:
            options = run.stages[-1].recipe.stages[0].options
            scores["nli"] = {"accuracy": nli_accuracy(encoder, run.probe, options["concatenation"], data_dir)}
    record = {
        "key": run.key,
        "study": context.plan.name,
        "variant": run.variant,
        "seed": run.seed,
        "model": str(model_path(run, store)),
        "stages": [{"label": stage.label, "key": stage.key, "parent": stage.parent} for stage in run.stages],
        "recipes": [stage.recipe.model_dump(mode="json") for stage in run.stages],
        "data": run.data(),
        "cost": cost,
        "provenance": current_provenance().model_dump() | {"backbone": backbone_origin(run)},
    }
    curves = [
        {"stage": stage.label, "points": points}
        for stage in run.stages
        for points in read_json(store.stage(stage.key) / "curves.json").values()
    ]
    with replace_directory(store.run(context.plan.name, run.name)) as directory:
        write_json(directory / "run.json", record)
        write_json(directory / "curves.json", curves)
        write_json(directory / "scores.json", scores)
        write_predictions(directory / "predictions", predictions)


def backbone_origin(run: PlannedRun) -> dict[str, str] | None:
    """Return name and commit (or checksum) of a run's backbone; None for a new one and for encoders without one."""
    backbone = run.base_recipe.backbone
    if run.encoder or isinstance(backbone, NewBackbone):
        return None
    return _origin(backbone.source if isinstance(backbone, FewerLayers) else backbone)


def model_path(run: PlannedRun, store: Store) -> Path | str:
    """Return the directory, or the name, of the model of a run."""
    if run.stages:
        return store.stage(run.stages[-1].key) / "model"
    return run.encoder or ("cross-encoder" if run.cross_encoder else str(run.base_recipe.backbone))


def run_encoder(run: PlannedRun, store: Store, data_dir: Path | None) -> SupportsEncode:
    """Load the encoder of a run: the last stage's model, a baseline encoder, or the backbone without training."""
    if run.stages:
        return load_torch(store.stage(run.stages[-1].key) / "model")
    if run.encoder:
        return load_any(run.encoder, data_dir=data_dir)
    return untrained_encoder(run.base_recipe, data_dir)


def untrained_encoder(recipe: Recipe, data_dir: Path | None) -> SupportsEncode:
    """Load the backbone of a recipe before any training."""
    shape: dict[str, Any] = {"pooling": recipe.pooling, "max_length": recipe.max_length}
    if isinstance(recipe.backbone, NewBackbone):
        rows = read_records(recipe.backbone.text, data_dir=data_dir)
        texts = [text for row in rows for text in sentences_of(row)]
        return new_backbone(texts, **recipe.backbone.model_dump(exclude={"text"}), **shape, seed=recipe.seed)
    if isinstance(recipe.backbone, FewerLayers):
        return fewer_layers(recipe.backbone.source, recipe.backbone.layers, **shape)
    return load_torch(recipe.backbone, **shape)


def _with_pca(encoder: SupportsEncode, run: PlannedRun, data_dir: Path | None) -> SupportsEncode:
    """Project embeddings on their principal components, fitted to the study's text and to no set that is scored."""
    if not isinstance(encoder, TorchEncoder):
        raise UsageError(f"variant {run.variant}: pca needs a model")
    rows = _sample(read_records(run.compress["text"], data_dir=data_dir), run.compress.get("limit"), run.seed)
    return with_pca(encoder, [text for row in rows for text in sentences_of(row)], int(run.compress["pca"]))


def _sample(rows: list[Row], limit: int | None, seed: int) -> list[Row]:
    """Return at most `limit` random rows, in their order."""
    if limit is None or limit >= len(rows):
        return rows
    return [rows[index] for index in np.sort(np.random.default_rng(seed).permutation(len(rows))[:limit])]


def compress(vectors: Any, options: dict[str, Any]) -> Any:
    """Return vectors as they would be stored: truncated to `truncate_dim`, in the `precision` int8 or binary.

    int8 divides the range of each dimension over these sentences into 255 steps, as sentence-transformers does with its
    calibration embeddings. The cosine of ±1 vectors is the share of equal bits, rescaled.
    """
    if not options:
        return vectors
    vectors = np.asarray(vectors)[:, : options.get("truncate_dim")]
    match options.get("precision", "float32"):
        case "float32":
            return vectors
        case "int8":
            low, high = vectors.min(axis=0), vectors.max(axis=0)
            step = np.where(high > low, (high - low) / 255, 1)
            return (np.round((vectors - low) / step) * step + low).astype(np.float32)
        case "binary":
            return np.where(vectors > 0, 1.0, -1.0).astype(np.float32)
    raise UsageError(f"there is no precision {options['precision']!r}: choose float32, int8 or binary")


def bytes_per_vector(vectors: Any, options: dict[str, Any]) -> int | None:
    """Return the bytes of one stored vector; None for sparse vectors, whose sizes differ."""
    if not isinstance(vectors, np.ndarray):
        return None
    dim = int(options.get("truncate_dim") or vectors.shape[1])
    return {"float32": 4 * dim, "int8": dim, "binary": -(-dim // 8)}[options.get("precision", "float32")]


def nli_accuracy(encoder: SupportsEncode, probe: Probe, concatenation: str, data_dir: Path | None) -> float:
    """Return the NLI accuracy of a softmax classifier over the concatenation of frozen embeddings.

    The classifier used in training is dropped afterwards. This one has the same shape and is fitted to convergence, so
    it measures what the embeddings contain, not how far that classifier had come.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    parts = []
    for names in (probe.train, probe.test):
        rows = [row for row in read_records(names, data_dir=data_dir) if isinstance(row, LabeledPair)]
        rows = _sample(rows, probe.limit, seed=0)
        vectors = encoder.encode([row.sentence1 for row in rows] + [row.sentence2 for row in rows])
        u, v = vectors[: len(rows)], vectors[len(rows) :]
        blocks = {"u": u, "v": v, "|u-v|": np.abs(u - v), "u*v": u * v}
        parts.append((np.hstack([blocks[name] for name in concatenation.split(",")]), [row.label for row in rows]))
    (train_features, train_labels), (test_features, test_labels) = parts
    scaler = StandardScaler().fit(train_features)
    model = LogisticRegression(max_iter=200).fit(scaler.transform(train_features), train_labels)
    return float(model.score(scaler.transform(test_features), test_labels))


def _cross_encoder_scores(
    run: PlannedRun, sets: Mapping[str, Sequence[ScoredPair]], data_dir: Path | None
) -> dict[str, NDArray[np.float64]]:
    """Train a cross-encoder on the same backbone and score every pair with it; it has no embeddings to store."""
    from sentence_transformers import CrossEncoder

    from kosbert.model.torch_encoder import quiet_transformers
    from kosbert.training.cross_encoder import train_cross_encoder

    settings = dict(run.cross_encoder)
    rows = _sample(read_records(settings.pop("rows"), data_dir=data_dir), settings.pop("limit", None), run.seed)
    train_pairs = [row for row in rows if isinstance(row, ScoredPair)]
    with tempfile.TemporaryDirectory() as directory:
        backbone, out = Path(directory) / "backbone", Path(directory) / "cross-encoder"
        if isinstance(run.base_recipe.backbone, NewBackbone):
            untrained_encoder(run.base_recipe, data_dir).save(backbone)  # type: ignore[attr-defined]
        else:
            shutil.copytree(find_model(str(run.base_recipe.backbone)), backbone)
        (backbone / "modules.json").unlink(missing_ok=True)  # the transformer alone, without pooling
        with quiet_transformers():
            train_cross_encoder(backbone, train_pairs, sets[run.dev[0]], out=out, seed=run.seed, **settings)
            model = CrossEncoder(str(out), local_files_only=True)
        predictions = {}
        for name, pairs in sets.items():
            texts = [(clean(pair.sentence1), clean(pair.sentence2)) for pair in pairs]
            predictions[name] = np.asarray(model.predict(texts, show_progress_bar=False), np.float64)
    return predictions
