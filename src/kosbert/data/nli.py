"""Convert NLI rows to pairs and triplets for ranking losses.

Deterministic: the rows of a premise are grouped in file order, also when they are not adjacent.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Literal

from kosbert.data.records import LabeledPair, Triplet

Combine = Literal["all", "zip", "first"]


def nli_triplets(rows: Iterable[LabeledPair], *, combine: Combine = "all", symmetric: bool = False) -> list[Triplet]:
    """Return triplets of premise, entailed hypothesis, contradicting hypothesis (SimCSE §5, SBERT §3.1).

    Args:
        rows: NLI rows in any order. Neutral rows are ignored; a premise needs an entailment and a contradiction.
        combine: how to combine several hypotheses of a premise. `all`: every entailment with every contradiction;
            `zip`: the first with the first, the second with the second; `first`: one triplet per premise.
        symmetric: also add (entailment, premise, contradiction), as the sentence-transformers NLI scripts do for
            MultipleNegativesRankingLoss.
    """
    triplets = []
    for premise, entailed, contradicting in _by_premise(rows):
        limit = 1 if combine == "first" else None
        combinations = zip if combine == "zip" else product
        for positive, negative in combinations(entailed[:limit], contradicting[:limit]):
            triplets.append(Triplet(premise, positive, negative))
            if symmetric:
                triplets.append(Triplet(positive, premise, negative))
    return triplets


def nli_pairs(rows: Iterable[LabeledPair], *, symmetric: bool = False) -> list[tuple[str, str]]:
    """Return distinct pairs of premise and entailed hypothesis; `symmetric` adds each pair reversed."""
    pairs = [(premise, positive) for premise, entailed, _ in _by_premise(rows) for positive in entailed]
    if symmetric:
        pairs += [(positive, premise) for premise, positive in pairs]
    return list(dict.fromkeys(pairs))


def _by_premise(rows: Iterable[LabeledPair]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each premise with its distinct entailed and contradicting hypotheses, in order of first occurrence.

    Hypotheses that equal their premise or have both labels are useless for training and skipped.
    """
    groups: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for row in rows:
        entailed, contradicting = groups.setdefault(row.sentence1, ({}, {}))
        if row.label == "entailment" and row.sentence2 != row.sentence1:
            entailed[row.sentence2] = None
        elif row.label == "contradiction" and row.sentence2 != row.sentence1:
            contradicting[row.sentence2] = None
    for premise, (entailed, contradicting) in groups.items():
        both = entailed.keys() & contradicting.keys()
        yield (
            premise,
            [text for text in entailed if text not in both],
            [text for text in contradicting if text not in both],
        )
