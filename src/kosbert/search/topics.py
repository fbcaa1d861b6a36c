"""What a group of sentences is about: the nouns that are frequent in it and rare elsewhere.

By class-based TF-IDF (Grootendorst 2022, BERTopic): a group is one document; a noun t of group c weighs
tf(t, c) × log(1 + A / f(t)), where tf is its share of the group's nouns, f its frequency in all groups and A the
average number of nouns of a group.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from kosbert.search.clustering import Labels
from kosbert.search.lexical import best_analyzer, tokens_of
from kosbert.text import clean

_WORD = re.compile(r"[^\W_]+")
# Particles and the endings of 하다 and 이다, long ones first: what follows a noun in an eojeol.
_AFTER_NOUN = re.compile(
    "(?:에서는|으로는|에게서|이라고|입니다|합니다|했습니다|습니다|까지|부터|에게|한테|께서|에서|으로|이나|이랑|처럼|보다|마다|조차|마저"
    "|하고|하는|했다|한다|하다|해요|했어요|하게|이다|이고|이며|은|는|이|가|을|를|에|와|과|도|의|만|로|랑|나)$"
)


def nouns(texts: Sequence[str]) -> list[list[str]]:
    """The nouns of each text, by kiwipiepy; without it, eojeols without what may follow a noun."""
    if best_analyzer() == "morphemes":
        return [
            [token.form for token in tokens if token.tag in ("NNG", "NNP", "SL") and len(token.form) > 1]
            for tokens in tokens_of(texts)
        ]
    return [[stem for word in _WORD.findall(clean(text)) if len(stem := _stem(word)) > 1] for text in texts]


def _stem(word: str) -> str:
    """An eojeol without a particle, unless less than two characters would be left."""
    stem = _AFTER_NOUN.sub("", word)
    return stem if len(stem) > 1 else word


def label_groups(texts: Sequence[str], labels: Labels, *, most: int = 4) -> list[list[str]]:
    """The nouns that tell each group from the others, best first."""
    groups = int(labels.max(initial=-1)) + 1
    counts: list[Counter[str]] = [Counter() for _ in range(groups)]
    inside = np.flatnonzero(labels >= 0).tolist()
    for place, found in zip(inside, nouns([texts[place] for place in inside]), strict=True):
        counts[labels[place]].update(set(found))  # once a sentence: one that repeats a word is not about it more
    everywhere: Counter[str] = sum(counts, Counter())
    average = everywhere.total() / max(1, groups)

    def weigh(count: Counter[str]) -> list[str]:
        total = max(1, count.total())
        weights = {word: times / total * np.log1p(average / everywhere[word]) for word, times in count.items()}
        return sorted(weights, key=lambda word: (-weights[word], word))[:most]

    return [weigh(count) for count in counts]
