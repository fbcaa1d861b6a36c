"""SentEval's protocol: equal to a plain, slow one with scikit-learn, without leaks, with known answers."""

import os
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from kosbert.data.records import LabeledPair, LabeledSentence
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation import transfer as protocol
from kosbert.evaluation import transfer_tasks as catalogue
from kosbert.evaluation.logistic_regression import BatchedLogisticRegression
from kosbert.evaluation.transfer import (
    STRENGTHS,
    STRENGTHS_BY_FOLD,
    Accuracy,
    chosen_on_dev,
    folds_of_train,
    nested_folds,
    score_task,
    transfer,
)
from kosbert.evaluation.transfer_tasks import TASKS, Task, Vectors
from kosbert.model.baselines import RandomWords

needs_data = pytest.mark.skipif(not os.environ.get("KOSBERT_DATA"), reason="KOSBERT_DATA is not set")


class BagOfWords:
    """Counts of a few words; remembers what it was asked."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words, self.asked = list(words), []

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        self.asked += sentences
        return np.array([[text.split().count(word) for word in self.words] for text in sentences], np.float32)


def noisy(rows: int, dim: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose class is hard to tell from their features, which have different scales and a mean that is not 0."""
    generator = np.random.default_rng(seed)
    features = (generator.standard_normal((rows, dim)) * np.linspace(0.2, 3, dim) + 1).astype(np.float32)
    scores = features @ generator.standard_normal((dim, classes)) + 3 * generator.standard_normal((rows, classes))
    return features, scores.argmax(axis=1)


def sklearn_fit(features: np.ndarray, labels: np.ndarray, strength: float) -> LogisticRegression:
    return LogisticRegression(C=strength, tol=1e-9, max_iter=10_000).fit(features.astype(np.float64), labels)


def folds(labels: np.ndarray, number: int = 10) -> list:
    return list(StratifiedKFold(number, shuffle=True, random_state=1111).split(labels, labels))


def sklearn_choice(features: np.ndarray, labels: np.ndarray, strengths: Sequence[float], number: int = 10) -> float:
    """The strength with the best mean over the folds, rounded as SentEval rounds; the first of equals."""
    means = []
    for strength in strengths:
        each = [
            sklearn_fit(features[a], labels[a], strength).score(features[b], labels[b])
            for a, b in folds(labels, number)
        ]
        means.append(round(100 * np.mean(each), 2))
    return strengths[int(np.argmax(means))]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("strength", [0.25, 32.0])
def test_the_optimum_is_that_of_sklearn(classes: int, strength: float) -> None:
    features, labels = noisy(150, 8, classes)
    kept = np.ones((150, 2), bool)
    kept[::5, 1] = False  # the second regression sees four rows of five
    model = BatchedLogisticRegression(features, labels, classes)
    weights = model.fit(kept, strength)
    logits = (model._rows @ weights.reshape(9, -1)).reshape(150, 2, -1).numpy()
    for problem in (0, 1):
        plain = sklearn_fit(features[kept[:, problem]], labels[kept[:, problem]], strength)
        expected = plain.decision_function(features.astype(np.float64)).reshape(150, -1)
        expected = expected - expected.mean(axis=1, keepdims=True) if classes > 2 else expected
        assert np.abs(logits[:, problem] - expected).max() < 0.002 * np.abs(expected).max()
        assert np.array_equal(model.predict(weights, features)[:, problem], plain.predict(features))


def test_strengths_may_differ_between_the_regressions() -> None:
    features, labels = noisy(100, 5, 3)
    model = BatchedLogisticRegression(features, labels, 3)
    together = model.fit(np.ones((100, 3), bool), np.array([0.25, 1.0, 8.0]))
    for index, strength in enumerate((0.25, 1.0, 8.0)):
        alone = model.fit(np.ones((100, 1), bool), strength)
        assert abs(together[:, index] - alone[:, 0]).max() < 0.01 * abs(alone).max()


@pytest.mark.parametrize("classes", [2, 3])
def test_nested_folds_are_those_of_a_plain_loop(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "FOLDS", 4)  # even so the plain loop fits 100 times
    features, labels = noisy(60, 3, classes)
    expected, strengths = np.empty_like(labels), []
    for train, test in folds(labels, 4):
        strengths.append(sklearn_choice(features[train], labels[train], STRENGTHS, 4))
        expected[test] = sklearn_fit(features[train], labels[train], strengths[-1]).predict(features[test])
    found = nested_folds(features, labels)
    assert found.strengths == strengths
    assert np.array_equal(found.labels, expected)
    assert 0.4 < (found.labels == labels).mean() < 0.95  # neither chance nor certainty: the comparison means something


@pytest.mark.parametrize("classes", [2, 3])
def test_folds_of_train_are_those_of_a_plain_loop(classes: int) -> None:
    features, labels = noisy(200, 6, classes)
    strength = sklearn_choice(features[:120], labels[:120], STRENGTHS_BY_FOLD)
    found = folds_of_train(features[:120], labels[:120], features[120:])
    assert found.strengths == [strength]
    assert np.array_equal(found.labels, sklearn_fit(features[:120], labels[:120], strength).predict(features[120:]))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_choice_on_dev_is_that_of_a_plain_loop(classes: int) -> None:
    features, labels = noisy(240, 20, classes)
    fits = [sklearn_fit(features[:80], labels[:80], strength) for strength in STRENGTHS]
    scores = [fit.score(features[80:160], labels[80:160]) for fit in fits]
    assert len(set(scores)) > 1
    best = int(np.argmax(np.round(scores, 4)))
    found = chosen_on_dev(features[:80], labels[:80], features[80:160], labels[80:160], features[160:])
    assert found.strengths == [STRENGTHS[best]]
    assert found.dev_accuracy == pytest.approx(scores[best], abs=1e-4)
    assert np.array_equal(found.labels, fits[best].predict(features[160:]))


def test_nothing_leaks_from_the_rows_that_are_tested() -> None:
    """With more features than rows a classifier knows every row it has seen, so a leak would score 100."""
    generator = np.random.default_rng(0)
    features, labels = generator.standard_normal((300, 400)).astype(np.float32), generator.integers(0, 2, 300)
    model = BatchedLogisticRegression(features, labels, 2)
    assert (model.predict(model.fit(np.ones((300, 1), bool), 8.0))[:, 0] == labels).all()
    assert 0.4 < (nested_folds(features, labels).labels == labels).mean() < 0.6
    assert nested_folds(features, labels).dev_accuracy < 0.62


def synthetic(rows: int = 200, wrong: int = 10) -> list[LabeledSentence]:
    """Reviews whose one telling word decides, but for each tenth, which is labeled wrongly."""
    made = []
    for number in range(rows):
        good = number % 2 == 0
        label = "positive" if good != (number % wrong in (0, wrong // 2)) else "negative"
        made.append(LabeledSentence(f"영화 {'최고' if good else '최악'} {number}", label))
    return made


def test_known_answer() -> None:
    """A bag of words reads the telling word, so it is right wherever the label is."""
    encoder = BagOfWords(["영화", "최고", "최악"])
    rows = synthetic()
    score = score_task(Task("synthetic", "ko", ()), ["synthetic"], {"all": rows}, Vectors(encoder))
    right = sum((row.label == "positive") == ("최고" in row.text) for row in rows)
    assert right == 160
    assert score.accuracy.value == pytest.approx(0.8)
    assert score.accuracy.rows == 200
    assert len(score.strengths) == 10
    assert len(encoder.asked) == len(set(encoder.asked)) == 200
    assert score.unseen is None
    assert score.f1 is None


def test_rows_that_are_in_train_are_counted_apart() -> None:
    train = [
        LabeledSentence(f"{'최고' if n % 2 else '최악'} {n}편", "positive" if n % 2 else "negative") for n in range(100)
    ]
    test = [*train[:30], *(LabeledSentence(f"최고 {number}", "negative") for number in range(10))]
    score = score_task(
        Task("synthetic", "ko", (), f1="negative"), [], {"train": train, "test": test}, Vectors(BagOfWords(["최고"]))
    )
    assert (score.accuracy.value, score.accuracy.rows) == (0.75, 40)
    assert score.unseen is not None
    assert (score.unseen.value, score.unseen.rows) == (0.0, 10)
    assert score.f1 == pytest.approx(2 * 15 / (15 + 25))  # 15 of 25 negatives found, nothing else called so


def test_pairs_with_dev_and_macro_f1() -> None:
    words = ["비", "눈", "해"]
    rows = [LabeledPair(a, b, "same" if a == b else "other") for a in words for b in words] * 12
    task = Task("pairs", "ko", (), "|u-v|, u*v", f1="macro")
    score = score_task(task, [], {"train": rows, "dev": rows, "test": rows}, Vectors(BagOfWords(words)))
    assert score.accuracy.value == score.f1 == score.dev_accuracy == 1.0
    linear = score_task(Task("pairs", "ko", ()), [], {"train": rows, "test": rows}, Vectors(BagOfWords(words)))
    assert linear.accuracy.value == pytest.approx(2 / 3)  # the first sentence alone tells nothing


def test_wilson() -> None:
    """Values of Newcombe 1998, Two-sided confidence intervals for the single proportion, table I, method 3."""
    found = Accuracy.of(np.arange(263) < 81)
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)
    none = Accuracy.of(np.zeros(20, bool))
    assert (round(none.low, 4), round(none.high, 4)) == (0.0, 0.1611)


def test_sentences_are_encoded_once_across_tasks() -> None:
    encoder = BagOfWords(["비"])
    vectors = Vectors(encoder)
    vectors.of(["비", "눈", "비"], lambda done, total: None)
    assert list(vectors.of(["눈", "해"], lambda done, total: None)) == ["눈", "해"]
    assert encoder.asked == ["비", "눈", "해"]


def test_sparse_vectors_are_brought_down() -> None:
    class Sparse:
        def encode(self, sentences: Sequence[str]) -> csr_matrix:
            return csr_matrix(np.eye(600)[[int(text) for text in sentences]])

    found = Vectors(Sparse()).of([str(number) for number in range(500)], lambda done, total: None)
    assert {row.shape for row in found.values()} == {(256,)}


def test_vectors_that_are_not_numbers() -> None:
    class Broken:
        def encode(self, sentences: Sequence[str]) -> np.ndarray:
            return np.full((len(sentences), 2), np.nan)

    with pytest.raises(KosbertError, match="not numbers"):
        Vectors(Broken()).of(["비"], lambda done, total: None)


SAMPLE = Task("sample", "ko", ({"train": "sample-nli-dev", "test": "sample-nli-test"},), "u, v, |u-v|, u*v", f1="macro")
NOWHERE = Task("nowhere", "ko", ({"all": "cr"},))


@pytest.fixture
def own_tasks(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """A suite of one task that needs no files and one whose file is not here."""
    monkeypatch.setattr(catalogue, "TASKS", (SAMPLE, NOWHERE))
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path))
    monkeypatch.delenv("KOSBERT_DATA", raising=False)


@pytest.mark.usefixtures("own_tasks")
def test_what_is_not_here_does_not_stop_the_others() -> None:
    steps = []
    outcome = transfer(RandomWords(64), "ko", report=lambda *step: steps.append(step))
    assert [score.task for score in outcome.scores] == ["sample"]
    assert outcome.scores[0].accuracy.rows == 600
    assert outcome.average is None
    assert "get it from https://github.com/facebookresearch/SentEval" in outcome.missing["nowhere"]
    assert steps[-1] == ("sample", "classifying", 1, 1)
    again = transfer(RandomWords(64), "ko", tasks=["sample"])
    assert again.scores[0].accuracy == outcome.scores[0].accuracy
    assert again.average == again.scores[0].accuracy.value
    with pytest.raises(KosbertError, match="is missing"):
        transfer(RandomWords(64), "ko", tasks=["nowhere"])


@pytest.mark.usefixtures("own_tasks")
def test_a_limit_draws_rows() -> None:
    outcome = transfer(RandomWords(16), "ko", tasks=["sample"], limit=60)
    assert (outcome.scores[0].train_rows, outcome.scores[0].accuracy.rows) == (60, 60)
    few = score_task(Task("few", "ko", ()), [], {"all": synthetic(11)}, Vectors(BagOfWords(["최고"])))
    assert len(few.strengths) == 6  # as many folds as the larger class has rows
    with pytest.raises(UsageError, match="give a larger limit"):
        transfer(RandomWords(16), "ko", tasks=["sample"], limit=1)


@needs_data
@pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])
def test_every_task_on_real_rows(task: Task) -> None:
    try:
        splits, parts = task.load(limit=300)
    except KosbertError as error:
        pytest.skip(str(error))
    score = score_task(task, splits, parts, Vectors(RandomWords(64)))
    assert 0.1 < score.accuracy.low < score.accuracy.value < score.accuracy.high < 1
    assert (score.f1 is not None) == bool(task.f1)
    assert np.isin(score.strengths, STRENGTHS + STRENGTHS_BY_FOLD).all()
