"""scikit-learn: `SentenceVectors` is a transformer for a `Pipeline`.

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
classifier = make_pipeline(SentenceVectors(), LogisticRegression())
classifier.fit(["배송이 빨라요", "너무 늦어요"], [1, 0])
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kosbert.errors import UsageError
from kosbert.model import load_any
from kosbert.search.encoding import unit_vectors


class SentenceVectors(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Normalized embeddings of a kosbert model. `fit` only loads the model.

    Args:
        model: builtin, a directory, a Hugging Face name or a baseline. A name, not an object, so that the step can be
            cloned, searched over and pickled.
    """

    def __init__(self, model: str = "builtin") -> None:
        self.model = model

    def fit(self, sentences: Iterable[str], y: Any = None) -> "SentenceVectors":
        """Load the model."""
        self.encoder_ = load_any(self.model)
        self.n_features_out_ = unit_vectors(self.encoder_, ["문장"]).shape[1]
        return self

    def transform(self, sentences: Iterable[str]) -> NDArray[np.float32]:
        """Return the embeddings of sentences, (n, dim)."""
        check_is_fitted(self)
        if isinstance(sentences, str):
            raise UsageError("one string is not a list of sentences: give a list")
        return unit_vectors(self.encoder_, [str(sentence) for sentence in sentences])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the column names for `set_output`."""
        check_is_fitted(self)
        return np.array([f"dimension{number}" for number in range(self.n_features_out_)], dtype=object)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the model; `__setstate__` loads it again."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "encoder_"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "n_features_out_" in state:
            self.encoder_ = load_any(self.model)
