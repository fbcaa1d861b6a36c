"""Transfer: how well a linear classifier does on frozen sentence vectors, by the protocol of SentEval.

Conneau and Kiela 2018, SentEval; facebookresearch/SentEval, senteval/tools/validation.py with usepytorch=False and
kfold=10: logistic regression as it is, nothing standardized, its strength chosen where the test rows cannot be seen.
What differs: scikit-learn stops its solver after 100 steps, ours goes on until it has converged; and an accuracy over
folds is that of all rows together, not the mean of rounded ones.

    from kosbert.model import load_any
    outcome = transfer(load_any("builtin"), "ko")
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from kosbert.data.locate import MissingFileError
from kosbert.data.records import sentences_of
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation.logistic_regression import CHOOSING, BatchedLogisticRegression, Labels
from kosbert.evaluation.transfer_tasks import Example, Matrix, Parts, Task, Vectors, features_of, suite
from kosbert.model.encoder import SupportsEncode

SEED = 1111  # senteval/engine.py, params.seed
FOLDS = 10
# What a row weighs against the penalty: `regs` of InnerKFoldClassifier and SplitClassifier, then of KFoldClassifier.
STRENGTHS = tuple(2.0**power for power in range(-2, 4))
STRENGTHS_BY_FOLD = tuple(2.0**power for power in range(-1, 6))
Progress: TypeAlias = Callable[[str, str, int, int], None]
"""Called with the task, what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class Prediction:
    """What a classifier says about the test rows, the accuracy by which it was chosen, and what was chosen."""

    labels: Labels
    dev_accuracy: float
    strengths: list[float]


def nested_folds(features: Matrix, labels: Labels, *, seed: int = SEED) -> Prediction:
    """Rows without a split: each fold is tested by a classifier that cross-validation on the others has chosen."""
    model = BatchedLogisticRegression(features, labels, int(labels.max()) + 1)
    outer = _folds(labels, seed)
    kept = np.stack([_mask(train, len(labels)) for train, _ in outer], axis=1)
    number = min(_number_of_folds(labels[train]) for train, _ in outer)
    inner = [(train[a], train[b]) for train, _ in outer for a, b in _folds(labels[train], seed, number)]
    scores = _fold_scores(model, labels, inner, STRENGTHS).reshape(len(STRENGTHS), len(outer), -1)
    by_strength = scores.mean(axis=2).round(4)  # (strengths, outer folds)
    chosen = np.array(STRENGTHS)[by_strength.argmax(axis=0)]
    found = model.predict(model.fit(kept, chosen))
    predicted = np.empty_like(labels)
    for fold, (_, test) in enumerate(outer):
        predicted[test] = found[test, fold]
    return Prediction(predicted, float(by_strength.max(axis=0).mean()), chosen.tolist())


def folds_of_train(features: Matrix, labels: Labels, test: Matrix, *, seed: int = SEED) -> Prediction:
    """Train and test: cross-validation on train chooses, all of train teaches."""
    model = BatchedLogisticRegression(features, labels, int(labels.max()) + 1)
    scores = _fold_scores(model, labels, _folds(labels, seed), STRENGTHS_BY_FOLD).mean(axis=1).round(4)
    chosen = STRENGTHS_BY_FOLD[int(scores.argmax())]
    weights = model.fit(np.ones((len(labels), 1), np.bool_), chosen)
    return Prediction(model.predict(weights, test)[:, 0], float(scores.max()), [chosen])


def chosen_on_dev(
    features: Matrix, labels: Labels, dev: Matrix, dev_labels: Labels,
    test: Matrix,
) -> Prediction:  # fmt: skip
    """Train, dev and test: dev chooses, train teaches."""
    model = BatchedLogisticRegression(features, labels, int(labels.max()) + 1)
    weights = model.fit(np.ones((len(labels), len(STRENGTHS)), np.bool_), np.array(STRENGTHS))
    scores = (model.predict(weights, dev) == dev_labels[:, None]).mean(axis=0).round(4)
    best = int(scores.argmax())
    return Prediction(model.predict(weights, test)[:, best], float(scores.max()), [STRENGTHS[best]])


def _number_of_folds(labels: Labels) -> int:
    return max(2, min(FOLDS, int(np.bincount(labels).max())))  # ten, but for a handful of rows


def _folds(labels: Labels, seed: int, number: int = FOLDS) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    number = min(number, _number_of_folds(labels))
    with warnings.catch_warnings():  # a class with fewer rows than folds is in some folds only, as in SentEval
        warnings.simplefilter("ignore", UserWarning)
        return list(StratifiedKFold(number, shuffle=True, random_state=seed).split(labels, labels))


def _mask(indices: NDArray[np.intp], rows: int) -> NDArray[np.bool_]:
    mask = np.zeros(rows, np.bool_)
    mask[indices] = True
    return mask


def _fold_scores(
    model: BatchedLogisticRegression,
    labels: Labels,
    folds: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]],
    strengths: Sequence[float],
) -> NDArray[np.float64]:
    """Accuracy on the held-out rows, (strengths, folds); a weaker penalty starts from the stronger one's optimum."""
    kept, held = (np.stack([_mask(fold[side], len(labels)) for fold in folds], axis=1) for side in (0, 1))
    scores, weights = [], None
    for strength in strengths:
        weights = model.fit(kept, strength, weights, tolerance=CHOOSING)
        hits = model.predict(weights) == labels[:, None]
        scores.append((hits & held).sum(axis=0) / held.sum(axis=0))
    return np.stack(scores)


@dataclass(frozen=True)
class Accuracy:
    """A share of rows with its 95% interval."""

    value: float
    low: float
    high: float
    rows: int

    @classmethod
    def of(cls, hits: NDArray[np.bool_]) -> "Accuracy":
        """From which rows are right, by Wilson's score interval, which stays within 0 and 1."""
        n, share, z = len(hits), float(hits.mean()), 1.959964
        center = (share + z * z / (2 * n)) / (1 + z * z / n)
        reach = z * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))) / (1 + z * z / n)
        return cls(share, center - reach, center + reach, n)


@dataclass(frozen=True)
class Score:
    """What a task gave. `unseen` leaves out the test rows whose text is in train, None where there are none."""

    task: str
    data: list[str]
    accuracy: Accuracy
    unseen: Accuracy | None
    f1: float | None
    dev_accuracy: float
    strengths: list[float]
    train_rows: int
    seconds: dict[str, float]


@dataclass(frozen=True)
class Outcome:
    """The scores of a suite, and for each task without data the sentence that says how to get it."""

    scores: list[Score]
    missing: dict[str, str]

    @property
    def average(self) -> float | None:
        """The mean accuracy over the tasks, if none is missing."""
        return None if self.missing else float(np.mean([score.accuracy.value for score in self.scores]))


def transfer(
    encoder: SupportsEncode,
    name: str,
    *,
    tasks: Sequence[str] = (),
    folder: Path | None = None,
    limit: int | None = None,
    seed: int = SEED,
    report: Progress = lambda task, step, done, total: None,
) -> Outcome:
    """Score an encoder on a suite, `en` or `ko`; tasks whose data is not here are named and do not stop the others.

    Args:
        encoder: anything with `encode`.
        name: the suite.
        tasks: only these tasks of it.
        folder: where the data is; `KOSBERT_DATA` without it.
        limit: draw only so many rows of each part, for a quick look.
        seed: of folds and draws; SentEval's own by default.
        report: called as the work goes on.
    """
    vectors, scores, missing = Vectors(encoder, seed), [], {}
    for task in suite(name, tasks):
        try:
            splits, parts = task.load(folder, limit=limit, seed=seed)
        except MissingFileError as error:  # any other trouble with a file is not its absence
            missing[task.name] = str(error)
            continue
        scores.append(score_task(task, splits, parts, vectors, seed=seed, report=report))
    if not scores:
        raise KosbertError(next(iter(missing.values())))
    return Outcome(scores, missing)


def score_task(
    task: Task, splits: list[str], parts: Parts, vectors: Vectors, *, seed: int = SEED,
    report: Progress = lambda task, step, done, total: None,
) -> Score:  # fmt: skip
    """Encode, choose, classify and count, by the protocol that the parts of the task ask for."""
    started = time.perf_counter()
    # SentEval sorts by length, so the folds of a seed depend on it (senteval/binary.py, trec.py, mrpc.py).
    parts = {part: sorted(rows, key=_length_and_label) for part, rows in parts.items()}
    texts = [text for rows in parts.values() for row in rows for text in sentences_of(row)]
    known = vectors.of(texts, lambda done, total: report(task.name, "encoding", done, total))
    encoded = time.perf_counter()
    report(task.name, "classifying", 0, 1)
    classes = sorted({row.label for rows in parts.values() for row in rows})
    x = {part: features_of(task.features, known, rows) for part, rows in parts.items()}
    y = {part: np.array([classes.index(row.label) for row in rows]) for part, rows in parts.items()}
    teaching, testing = ("all", "all") if "all" in parts else ("train", "test")
    if len(np.unique(y[teaching])) < 2:
        raise UsageError(f"the rows of {task.name} are all of one class: give a larger limit")
    if "all" in parts:
        found = nested_folds(x["all"], y["all"], seed=seed)
    elif "dev" in parts:
        found = chosen_on_dev(x["train"], y["train"], x["dev"], y["dev"], x["test"])
    else:
        found = folds_of_train(x["train"], y["train"], x["test"], seed=seed)
    hits = found.labels == y[testing]
    seen = {sentences_of(row) for row in parts.get("train", ())}
    unseen = np.array([sentences_of(row) not in seen for row in parts[testing]])
    report(task.name, "classifying", 1, 1)
    return Score(
        task=task.name,
        data=splits,
        accuracy=Accuracy.of(hits),
        unseen=Accuracy.of(hits[unseen]) if 0 < unseen.sum() < len(hits) else None,
        f1=_f1(y[testing], found.labels, task.f1, classes),
        dev_accuracy=found.dev_accuracy,
        strengths=found.strengths,
        train_rows=len(parts[teaching]),
        seconds={"encoding": encoded - started, "classifying": time.perf_counter() - encoded},
    )


def _length_and_label(row: Example) -> tuple[tuple[int, ...], str]:
    return tuple(len(text.split()) for text in sentences_of(row)), row.label


def _f1(gold: Labels, predicted: Labels, kind: str, classes: list[str]) -> float | None:
    if not kind:
        return None
    if kind == "macro":
        return float(f1_score(gold, predicted, average="macro", zero_division=0))
    return float(f1_score(gold == classes.index(kind), predicted == classes.index(kind), zero_division=0))
