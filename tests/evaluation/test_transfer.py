"""SentEval's protocol: equal to a plain implementation with scikit-learn, without leaks, with known answers."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from kosbert.data.records import LabeledPair, LabeledSentence
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation import transfer as transfer_module
from kosbert.evaluation import transfer_tasks
from kosbert.evaluation.logistic_regression import BatchedLogisticRegression
from kosbert.evaluation.transfer import (
    C_GRID,
    C_GRID_KFOLD,
    cross_validation_on_train,
    nested_cross_validation,
    score_task,
    selection_on_dev,
    transfer,
)
from kosbert.evaluation.transfer_tasks import TASKS, TaskEmbeddings, TransferTask
from kosbert.model.baselines import RandomWords


class BagOfWords:
    """An encoder that counts a few words; records the sentences that it encoded."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words, self.encoded = list(words), []

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        self.encoded += sentences
        return np.array([[text.split().count(word) for word in self.words] for text in sentences], np.float32)


def noisy_features(rows: int, dim: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return features with different scales and a mean that is not 0, and labels that they predict poorly."""
    generator = np.random.default_rng(seed)
    features = (generator.standard_normal((rows, dim)) * np.linspace(0.2, 3, dim) + 1).astype(np.float32)
    scores = features @ generator.standard_normal((dim, classes)) + 3 * generator.standard_normal((rows, classes))
    return features, scores.argmax(axis=1)


def sklearn_fit(features: np.ndarray, labels: np.ndarray, c: float) -> LogisticRegression:
    return LogisticRegression(C=c, tol=1e-9, max_iter=10_000).fit(features.astype(np.float64), labels)


def folds(labels: np.ndarray, number: int = 10) -> list:
    return list(StratifiedKFold(number, shuffle=True, random_state=1111).split(labels, labels))


def sklearn_selection(features: np.ndarray, labels: np.ndarray, c_grid: Sequence[float], number: int = 10) -> float:
    """Return the C with the best mean over the folds, rounded as SentEval rounds; the first of equals."""
    means = []
    for c in c_grid:
        scores = [
            sklearn_fit(features[a], labels[a], c).score(features[b], labels[b]) for a, b in folds(labels, number)
        ]
        means.append(round(100 * np.mean(scores), 2))
    return c_grid[int(np.argmax(means))]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("c", [0.25, 32.0])
def test_batched_regression_has_the_optimum_of_sklearn(classes: int, c: float) -> None:
    features, labels = noisy_features(150, 8, classes)
    masks = np.ones((150, 2), bool)
    masks[::5, 1] = False  # the second regression sees four rows of five
    model = BatchedLogisticRegression(features, labels, classes)
    weights = model.fit(masks, c)
    logits = (model._rows @ weights.reshape(9, -1)).reshape(150, 2, -1).numpy()
    for problem in (0, 1):
        reference = sklearn_fit(features[masks[:, problem]], labels[masks[:, problem]], c)
        expected = reference.decision_function(features.astype(np.float64)).reshape(150, -1)
        expected = expected - expected.mean(axis=1, keepdims=True) if classes > 2 else expected
        assert np.abs(logits[:, problem] - expected).max() < 0.002 * np.abs(expected).max()
        assert np.array_equal(model.predict(weights, features)[:, problem], reference.predict(features))


def test_regressions_of_a_batch_may_have_different_c() -> None:
    features, labels = noisy_features(100, 5, 3)
    model = BatchedLogisticRegression(features, labels, 3)
    together = model.fit(np.ones((100, 3), bool), np.array([0.25, 1.0, 8.0]))
    for index, c in enumerate((0.25, 1.0, 8.0)):
        single = model.fit(np.ones((100, 1), bool), c)
        assert abs(together[:, index] - single[:, 0]).max() < 0.01 * abs(single).max()


@pytest.mark.parametrize("classes", [2, 3])
def test_nested_cross_validation_equals_a_plain_loop(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_module, "FOLDS", 4)  # the plain loop still fits 100 times
    features, labels = noisy_features(60, 3, classes)
    expected, c_values = np.empty_like(labels), []
    for train, test in folds(labels, 4):
        c_values.append(sklearn_selection(features[train], labels[train], C_GRID, 4))
        expected[test] = sklearn_fit(features[train], labels[train], c_values[-1]).predict(features[test])
    predictions = nested_cross_validation(features, labels)
    assert predictions.c_values == c_values
    assert np.array_equal(predictions.labels, expected)
    assert 0.4 < (predictions.labels == labels).mean() < 0.95  # neither chance nor perfect: the comparison is useful


@pytest.mark.parametrize("classes", [2, 3])
def test_cross_validation_on_train_equals_a_plain_loop(classes: int) -> None:
    features, labels = noisy_features(200, 6, classes)
    c = sklearn_selection(features[:120], labels[:120], C_GRID_KFOLD)
    predictions = cross_validation_on_train(features[:120], labels[:120], features[120:])
    assert predictions.c_values == [c]
    expected = sklearn_fit(features[:120], labels[:120], c).predict(features[120:])
    assert np.array_equal(predictions.labels, expected)


@pytest.mark.parametrize("classes", [2, 3])
def test_selection_on_dev_equals_a_plain_loop(classes: int) -> None:
    features, labels = noisy_features(240, 20, classes)
    fits = [sklearn_fit(features[:80], labels[:80], c) for c in C_GRID]
    scores = [fit.score(features[80:160], labels[80:160]) for fit in fits]
    assert len(set(scores)) > 1
    best = int(np.argmax(np.round(scores, 4)))
    predictions = selection_on_dev(features[:80], labels[:80], features[80:160], labels[80:160], features[160:])
    assert predictions.c_values == [C_GRID[best]]
    assert predictions.dev_accuracy == pytest.approx(scores[best], abs=1e-4)
    assert np.array_equal(predictions.labels, fits[best].predict(features[160:]))


def test_nothing_leaks_from_the_test_rows() -> None:
    """With more features than rows a classifier memorizes all its rows, so a leak would score 100."""
    generator = np.random.default_rng(0)
    features, labels = generator.standard_normal((300, 400)).astype(np.float32), generator.integers(0, 2, 300)
    model = BatchedLogisticRegression(features, labels, 2)
    assert (model.predict(model.fit(np.ones((300, 1), bool), 8.0))[:, 0] == labels).all()
    assert 0.4 < (nested_cross_validation(features, labels).labels == labels).mean() < 0.6
    assert nested_cross_validation(features, labels).dev_accuracy < 0.62


def synthetic_reviews(rows: int = 200, wrong: int = 10) -> list[LabeledSentence]:
    """Return reviews whose label depends on one word; one of five has the wrong label."""
    reviews = []
    for number in range(rows):
        good = number % 2 == 0
        label = "positive" if good != (number % wrong in (0, wrong // 2)) else "negative"
        reviews.append(LabeledSentence(f"영화 {'최고' if good else '최악'} {number}", label))
    return reviews


def test_accuracy_of_a_task_with_a_known_answer() -> None:
    """A bag of words sees the decisive word, so it is right wherever the label is."""
    encoder = BagOfWords(["영화", "최고", "최악"])
    rows = synthetic_reviews()
    score = score_task(TransferTask("synthetic", "ko", ()), ["synthetic"], {"all": rows}, TaskEmbeddings(encoder))
    right = sum((row.label == "positive") == ("최고" in row.text) for row in rows)
    assert right == 160
    assert score.accuracy.value == pytest.approx(0.8)
    assert score.accuracy.rows == 200
    assert len(score.c_values) == 10
    assert len(encoder.encoded) == len(set(encoder.encoded)) == 200
    assert score.unseen is None
    assert score.f1 is None


def test_accuracy_on_unseen_rows_is_reported() -> None:
    train = [
        LabeledSentence(f"{'최고' if n % 2 else '최악'} {n}편", "positive" if n % 2 else "negative") for n in range(100)
    ]
    test = [*train[:30], *(LabeledSentence(f"최고 {number}", "negative") for number in range(10))]
    score = score_task(
        TransferTask("synthetic", "ko", (), f1="negative"),
        [],
        {"train": train, "test": test},
        TaskEmbeddings(BagOfWords(["최고"])),
    )
    assert (score.accuracy.value, score.accuracy.rows) == (0.75, 40)
    assert score.unseen is not None
    assert (score.unseen.value, score.unseen.rows) == (0.0, 10)
    assert score.f1 == pytest.approx(2 * 15 / (15 + 25))  # recall 15 of 25, precision 1


def test_pair_task_with_dev_split_and_macro_f1() -> None:
    words = ["비", "눈", "해"]
    rows = [LabeledPair(a, b, "same" if a == b else "other") for a in words for b in words] * 12
    task = TransferTask("pairs", "ko", (), "|u-v|, u*v", f1="macro")
    score = score_task(task, [], {"train": rows, "dev": rows, "test": rows}, TaskEmbeddings(BagOfWords(words)))
    assert score.accuracy.value == score.f1 == score.dev_accuracy == 1.0
    embeddings = TaskEmbeddings(BagOfWords(words))
    first_only = score_task(TransferTask("pairs", "ko", ()), [], {"train": rows, "test": rows}, embeddings)
    assert first_only.accuracy.value == pytest.approx(2 / 3)  # the first sentence alone predicts nothing


def test_sentences_are_encoded_once_across_tasks() -> None:
    encoder = BagOfWords(["비"])
    embeddings = TaskEmbeddings(encoder)
    embeddings.encode(["비", "눈", "비"])
    assert list(embeddings.encode(["눈", "해"])) == ["눈", "해"]
    assert encoder.encoded == ["비", "눈", "해"]


def test_sparse_vectors_are_reduced_to_256_dimensions() -> None:
    class SparseEncoder:
        def encode(self, sentences: Sequence[str]) -> csr_matrix:
            return csr_matrix(np.eye(600)[[int(text) for text in sentences]])

    embeddings = TaskEmbeddings(SparseEncoder()).encode([str(number) for number in range(500)])
    assert {vector.shape for vector in embeddings.values()} == {(256,)}


def test_nan_vectors_raise_an_error() -> None:
    class BrokenEncoder:
        def encode(self, sentences: Sequence[str]) -> np.ndarray:
            return np.full((len(sentences), 2), np.nan)

    with pytest.raises(KosbertError, match="NaN or infinity"):
        TaskEmbeddings(BrokenEncoder()).encode(["비"])


SAMPLE = TransferTask(
    "sample", "ko", ({"train": "sample-nli-dev", "test": "sample-nli-test"},), "u, v, |u-v|, u*v", f1="macro"
)
NO_DATA = TransferTask("no-data", "ko", ({"all": "cr"},))


@pytest.fixture
def small_suite(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """A suite of one task on the sample set and one whose data is missing."""
    monkeypatch.setattr(transfer_tasks, "TASKS", (SAMPLE, NO_DATA))
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path))
    monkeypatch.delenv("KOSBERT_DATA", raising=False)


@pytest.mark.usefixtures("small_suite")
def test_tasks_without_data_are_skipped() -> None:
    events = []
    result = transfer(RandomWords(64), "ko", on_progress=events.append)
    assert [score.task for score in result.scores] == ["sample"]
    assert result.scores[0].accuracy.rows == 600
    assert result.average is None
    assert "get it from https://github.com/facebookresearch/SentEval" in result.missing["no-data"]
    assert [(event.task, event.done, event.level) for event in events if event.level == 0][-1] == ("transfer", 2, 0)
    assert {event.task for event in events if event.level == 1} == {"sample"}
    again = transfer(RandomWords(64), "ko", tasks=["sample"])
    assert again.scores[0].accuracy == result.scores[0].accuracy
    assert again.average == again.scores[0].accuracy.value
    with pytest.raises(KosbertError, match="is missing"):
        transfer(RandomWords(64), "ko", tasks=["no-data"])


@pytest.mark.usefixtures("small_suite")
def test_limit_samples_rows_of_each_split() -> None:
    result = transfer(RandomWords(16), "ko", tasks=["sample"], limit=60)
    assert (result.scores[0].train_rows, result.scores[0].accuracy.rows) == (60, 60)
    embeddings = TaskEmbeddings(BagOfWords(["최고"]))
    few = score_task(TransferTask("few", "ko", ()), [], {"all": synthetic_reviews(11)}, embeddings)
    assert len(few.c_values) == 6  # as many folds as the larger class has rows
    with pytest.raises(UsageError, match="give a larger limit"):
        transfer(RandomWords(16), "ko", tasks=["sample"], limit=1)


@pytest.mark.real_data
@pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])
def test_every_task_on_real_data(task: TransferTask) -> None:
    try:
        sources, rows = task.load(limit=300)
    except KosbertError as error:
        pytest.skip(str(error))
    score = score_task(task, sources, rows, TaskEmbeddings(RandomWords(64)))
    assert 0.1 < score.accuracy.low < score.accuracy.value < score.accuracy.high < 1
    assert (score.f1 is not None) == bool(task.f1)
    assert np.isin(score.c_values, C_GRID + C_GRID_KFOLD).all()
