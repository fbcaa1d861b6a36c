"""`SentenceVectors` in real scikit-learn pipelines."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from kosbert.errors import UsageError

TEXTS = ["배송이 정말 빨라요", "배송이 아주 빨라요", "포장이 너무 나빠요", "포장이 아주 나빠요"] * 5
CLASSES = [1, 1, 0, 0] * 5


def test_pipeline_search_and_pickle() -> None:
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline

    from kosbert.integrations.sklearn import SentenceVectors

    step = SentenceVectors("random-words")
    assert clone(step).get_params() == {"model": "random-words"}
    with pytest.raises(NotFittedError):
        step.transform(TEXTS)
    pipeline = make_pipeline(step, LogisticRegression())
    assert pipeline.fit(TEXTS, CLASSES).score(TEXTS, CLASSES) == 1
    assert list(pipeline.predict(["배송이 정말 나빠요", "포장이 너무 나빠요"]))[1] == 0
    assert cross_val_score(pipeline, TEXTS, CLASSES, cv=2).mean() == 1
    search = GridSearchCV(pipeline, {"sentencevectors__model": ["random", "random-words"]}, cv=2).fit(TEXTS, CLASSES)
    assert search.best_params_["sentencevectors__model"] in ("random", "random-words")
    vectors = step.fit(TEXTS).transform(np.array(TEXTS, dtype=object))
    assert vectors.shape == (20, 256)
    assert len(step.get_feature_names_out()) == 256
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert step.transform([]).shape == (0, 256)
    again = pickle.loads(pickle.dumps(pipeline))
    assert list(again.predict(TEXTS)) == list(pipeline.predict(TEXTS))
    frame = clone(step).set_output(transform="pandas").fit_transform(TEXTS)
    assert frame.shape == (20, 256)
    with pytest.raises(UsageError, match="one string"):
        step.transform("글")


def test_embeddings_are_those_of_the_model(tiny_bert: Path, sentences: list[str]) -> None:
    from kosbert.integrations.sklearn import SentenceVectors
    from kosbert.model import load

    vectors = SentenceVectors(str(tiny_bert)).fit_transform(sentences)
    assert np.allclose(vectors, load(tiny_bert).encode(sentences, normalize_embeddings=True), atol=1e-5)
