"""Transfer evaluation: accuracy of a linear classifier on frozen embeddings, by the protocol of SentEval.

Conneau and Kiela 2018, SentEval; facebookresearch/SentEval, senteval/tools/validation.py with usepytorch=False and
kfold=10: logistic regression without standardization, with C selected without looking at the test rows.
Two differences: scikit-learn stops its solver after 100 steps, ours runs until it has converged; and an accuracy over
folds is that of all rows together, not the mean of rounded ones.

    from kosbert.model import load_any
    result = transfer(load_any("builtin"), "ko")
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from kosbert.data.locate import MissingFileError
from kosbert.data.records import sentences_of
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation.logistic_regression import SELECTION_TOLERANCE, BatchedLogisticRegression, Features, Labels
from kosbert.evaluation.significance import wilson_interval
from kosbert.evaluation.transfer_tasks import (
    Example,
    TaskEmbeddings,
    TaskRows,
    TransferTask,
    build_features,
    suite_tasks,
)
from kosbert.model.encoder import SupportsEncode
from kosbert.progress import ProgressCallback, ProgressEvent

SEED = 1111  # senteval/engine.py, params.seed
FOLDS = 10
# Inverse regularization strengths: `regs` of InnerKFoldClassifier and SplitClassifier, and of KFoldClassifier.
C_GRID = tuple(2.0**power for power in range(-2, 4))
C_GRID_KFOLD = tuple(2.0**power for power in range(-1, 6))
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Indices of training rows and of held-out rows."""


@dataclass(frozen=True)
class Predictions:
    """Predicted labels of the test rows, the accuracy on held-out rows, and the selected values of C."""

    labels: Labels
    dev_accuracy: float
    c_values: list[float]


def nested_cross_validation(features: Features, labels: Labels, *, seed: int = SEED) -> Predictions:
    """Test each fold with a classifier whose C was selected by cross-validation on the other folds."""
    model = BatchedLogisticRegression(features, labels, int(labels.max()) + 1)
    outer = _folds(labels, seed)
    masks = np.stack([_mask(train, len(labels)) for train, _ in outer], axis=1)
    inner_count = min(_fold_count(labels[train]) for train, _ in outer)
    inner = [
        (train[inner_train], train[held_out])
        for train, _ in outer
        for inner_train, held_out in _folds(labels[train], seed, inner_count)
    ]
    accuracies = _fold_accuracies(model, labels, inner, C_GRID).reshape(len(C_GRID), len(outer), -1)
    by_c = accuracies.mean(axis=2).round(4)  # (values of C, outer folds)
    selected = np.array(C_GRID)[by_c.argmax(axis=0)]
    fold_labels = model.predict(model.fit(masks, selected))
    predicted = np.empty_like(labels)
    for fold, (_, test) in enumerate(outer):
        predicted[test] = fold_labels[test, fold]
    return Predictions(predicted, float(by_c.max(axis=0).mean()), selected.tolist())


def cross_validation_on_train(features: Features, labels: Labels, test: Features, *, seed: int = SEED) -> Predictions:
    """Select C by cross-validation on train, then fit on all of train."""
    model = BatchedLogisticRegression(features, labels, int(labels.max()) + 1)
    by_c = _fold_accuracies(model, labels, _folds(labels, seed), C_GRID_KFOLD).mean(axis=1).round(4)
    selected = C_GRID_KFOLD[int(by_c.argmax())]
    weights = model.fit(np.ones((len(labels), 1), np.bool_), selected)
    return Predictions(model.predict(weights, test)[:, 0], float(by_c.max()), [selected])


def selection_on_dev(
    features: Features, labels: Labels, dev: Features, dev_labels: Labels, test: Features
) -> Predictions:
    """Fit on train for every C and select the best on dev."""
    model = BatchedLogisticRegression(features, labels, int(labels.max()) + 1)
    weights = model.fit(np.ones((len(labels), len(C_GRID)), np.bool_), np.array(C_GRID))
    by_c = (model.predict(weights, dev) == dev_labels[:, None]).mean(axis=0).round(4)
    best = int(by_c.argmax())
    return Predictions(model.predict(weights, test)[:, best], float(by_c.max()), [C_GRID[best]])


def _fold_count(labels: Labels) -> int:
    return max(2, min(FOLDS, int(np.bincount(labels).max())))  # fewer than ten for a handful of rows


def _folds(labels: Labels, seed: int, count: int = FOLDS) -> list[Fold]:
    count = min(count, _fold_count(labels))
    with warnings.catch_warnings():  # a class with fewer rows than folds is in some folds only, as in SentEval
        warnings.simplefilter("ignore", UserWarning)
        return list(StratifiedKFold(count, shuffle=True, random_state=seed).split(labels, labels))


def _mask(indices: NDArray[np.intp], rows: int) -> NDArray[np.bool_]:
    mask = np.zeros(rows, np.bool_)
    mask[indices] = True
    return mask


def _fold_accuracies(
    model: BatchedLogisticRegression, labels: Labels, folds: Sequence[Fold], c_grid: Sequence[float]
) -> NDArray[np.float64]:
    """Return accuracies on the held-out rows, (values of C, folds); each C starts from the optimum of the last."""
    train, held_out = (np.stack([_mask(fold[side], len(labels)) for fold in folds], axis=1) for side in (0, 1))
    accuracies, weights = [], None
    for c in c_grid:
        weights = model.fit(train, c, weights, tolerance=SELECTION_TOLERANCE)
        correct = model.predict(weights) == labels[:, None]
        accuracies.append((correct & held_out).sum(axis=0) / held_out.sum(axis=0))
    return np.stack(accuracies)


@dataclass(frozen=True)
class Accuracy:
    """Accuracy over some rows with its 95% Wilson interval."""

    value: float
    low: float
    high: float
    rows: int

    @classmethod
    def from_correct(cls, correct: NDArray[np.bool_]) -> "Accuracy":
        """Compute the accuracy from a mask of correctly classified rows."""
        interval = wilson_interval(int(correct.sum()), len(correct))
        return cls(interval.value, interval.low, interval.high, len(correct))


@dataclass(frozen=True)
class TaskScore:
    """The result of one task. `unseen` is the accuracy without test rows whose text is in train, None without any."""

    task: str
    data: list[str]
    accuracy: Accuracy
    unseen: Accuracy | None
    f1: float | None
    dev_accuracy: float
    c_values: list[float]
    train_rows: int
    seconds: dict[str, float]


@dataclass(frozen=True)
class TransferResult:
    """The scores of a suite, and for each task whose data is missing the sentence that says how to get it."""

    scores: list[TaskScore]
    missing: dict[str, str]

    @property
    def average(self) -> float | None:
        """Return the mean accuracy over the tasks; None if one is missing."""
        return None if self.missing else float(np.mean([score.accuracy.value for score in self.scores]))


def transfer(
    encoder: SupportsEncode,
    suite: str,
    *,
    tasks: Sequence[str] = (),
    data_dir: Path | None = None,
    limit: int | None = None,
    seed: int = SEED,
    on_progress: ProgressCallback | None = None,
) -> TransferResult:
    """Score an encoder on a suite, `en` or `ko`. Tasks whose data is missing are listed and skipped.

    Args:
        encoder: anything with `encode`.
        suite: en or ko.
        tasks: only these tasks.
        data_dir: the directory of the data; `KOSBERT_DATA` by default.
        limit: use at most this many rows per split, for a quick look.
        seed: seed of folds and samples; SentEval's by default.
        on_progress: called with the tasks that are done (level 0) and the sentences of each task (level 1).
    """
    embeddings = TaskEmbeddings(encoder, seed)
    selected = suite_tasks(suite, tasks)
    scores: list[TaskScore] = []
    missing: dict[str, str] = {}
    for done, task in enumerate(selected):
        if on_progress:
            on_progress(ProgressEvent("transfer", done, len(selected), "tasks"))
        try:
            sources, rows = task.load(data_dir, limit=limit, seed=seed)
        except MissingFileError as error:  # a damaged file is an error, a missing one is not
            missing[task.name] = str(error)
            continue
        scores.append(score_task(task, sources, rows, embeddings, seed=seed, on_progress=on_progress))
    if not scores:
        raise KosbertError(next(iter(missing.values())))
    if on_progress:
        on_progress(ProgressEvent("transfer", len(selected), len(selected), "tasks"))
    return TransferResult(scores, missing)


def score_task(
    task: TransferTask,
    sources: list[str],
    rows: TaskRows,
    embeddings: TaskEmbeddings,
    *,
    seed: int = SEED,
    on_progress: ProgressCallback | None = None,
) -> TaskScore:
    """Encode the rows of a task and classify them by the protocol that fits its splits."""
    started = time.perf_counter()
    # SentEval sorts by length, so the folds of a seed depend on it (senteval/binary.py, trec.py, mrpc.py).
    rows = {split: sorted(examples, key=_length_and_label) for split, examples in rows.items()}
    texts = [text for examples in rows.values() for example in examples for text in sentences_of(example)]
    vectors = embeddings.encode(texts, task.name, on_progress)
    encoded = time.perf_counter()
    classes = sorted({example.label for examples in rows.values() for example in examples})
    x = {split: build_features(task.features, vectors, examples) for split, examples in rows.items()}
    y = {split: np.array([classes.index(example.label) for example in examples]) for split, examples in rows.items()}
    train_split, test_split = ("all", "all") if "all" in rows else ("train", "test")
    if len(np.unique(y[train_split])) < 2:
        raise UsageError(f"the rows of {task.name} are all of one class: give a larger limit")
    if "all" in rows:
        predictions = nested_cross_validation(x["all"], y["all"], seed=seed)
    elif "dev" in rows:
        predictions = selection_on_dev(x["train"], y["train"], x["dev"], y["dev"], x["test"])
    else:
        predictions = cross_validation_on_train(x["train"], y["train"], x["test"], seed=seed)
    correct = predictions.labels == y[test_split]
    train_texts = {sentences_of(example) for example in rows.get("train", ())}
    unseen = np.array([sentences_of(example) not in train_texts for example in rows[test_split]])
    return TaskScore(
        task=task.name,
        data=sources,
        accuracy=Accuracy.from_correct(correct),
        unseen=Accuracy.from_correct(correct[unseen]) if 0 < unseen.sum() < len(correct) else None,
        f1=_f1(y[test_split], predictions.labels, task.f1, classes),
        dev_accuracy=predictions.dev_accuracy,
        c_values=predictions.c_values,
        train_rows=len(rows[train_split]),
        seconds={"encoding": encoded - started, "classifying": time.perf_counter() - encoded},
    )


def _length_and_label(example: Example) -> tuple[tuple[int, ...], str]:
    return tuple(len(text.split()) for text in sentences_of(example)), example.label


def _f1(gold: Labels, predicted: Labels, kind: str, classes: list[str]) -> float | None:
    if not kind:
        return None
    if kind == "macro":
        return float(f1_score(gold, predicted, average="macro", zero_division=0))
    return float(f1_score(gold == classes.index(kind), predicted == classes.index(kind), zero_division=0))
