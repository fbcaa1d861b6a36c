"""How far does a method get that understands nothing? The bar for everything that is trained.

    kosbert study baselines

Character n-grams, fitted on the sentences of the training split, scored on the test split: on the sample set always, on
KorSTS when it is at hand.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert import data
from kosbert.data.leakage import Overlap, overlap
from kosbert.data.records import ScoredPair
from kosbert.evaluation.baselines import CharacterTfidf
from kosbert.evaluation.statistics import Interval, spearman_interval
from kosbert.evaluation.sts import paired_cosine

SETS = {"sample": ("sample-sts-train", "sample-sts-test"), "KorSTS": ("korsts-train", "korsts-test")}


@dataclass(frozen=True)
class Baseline:
    """What one data set gave: the score with its interval, what leaks, and every single prediction."""

    name: str
    train: str
    test: str
    spearman: Interval | None
    leaks: list[Overlap]
    pairs: list[ScoredPair]
    predictions: NDArray[np.float64]

    def summary(self) -> dict[str, Any]:
        """The numbers without the predictions, for JSON."""
        return {
            "name": self.name,
            "train": self.train,
            "test": self.test,
            "pairs": len(self.pairs),
            "spearman": asdict(self.spearman) if self.spearman else None,
            "leaks": [asdict(each) for each in self.leaks],
        }


def run(folder: Path | None = None) -> list[Baseline]:
    """Score the baseline on every set that is at hand, without using the network."""
    found = []
    for name, (train, test) in SETS.items():
        if all(data.available(*data.resolve(each), folder) for each in (train, test)):
            found.append(_score(name, train, test, folder))
    return found


def _score(name: str, train: str, test: str, folder: Path | None) -> Baseline:
    fitting = data.load(train, folder=folder, download=False)
    pairs = [row for row in data.load(test, folder=folder, download=False) if isinstance(row, ScoredPair)]
    encoder = CharacterTfidf([text for row in fitting for text in data.sentences_of(row)])
    predictions = paired_cosine(
        encoder.encode([pair.sentence1 for pair in pairs]), encoder.encode([pair.sentence2 for pair in pairs])
    )
    gold = np.array([pair.score for pair in pairs])
    return Baseline(
        name, train, test, spearman_interval(predictions, gold), overlap(fitting, pairs), pairs, predictions
    )
