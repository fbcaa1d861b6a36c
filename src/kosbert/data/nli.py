"""NLI rows become what the ranking objectives learn from: pairs and triplets. Every rule is an argument.

Deterministic: rows of one premise are gathered in the order of the file, whatever lies between them.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Literal

from kosbert.data.records import LabeledPair, Triplet

Combine = Literal["all", "zip", "first"]


def nli_triplets(rows: Iterable[LabeledPair], *, combine: Combine = "all", symmetric: bool = False) -> list[Triplet]:
    """Premise, entailed hypothesis, contradicting hypothesis; neutral rows take no part (SimCSE §5, SBERT §3.1).

    Args:
        rows: NLI rows in any order. A premise without an entailment or without a contradiction gives nothing.
        combine: how several hypotheses of one premise meet. `all`: every entailment with every contradiction;
            `zip`: the first with the first, the second with the second; `first`: one triplet a premise.
        symmetric: also the triplet that starts from the entailment (entailment, premise, contradiction), as the
            sentence-transformers NLI scripts do for MultipleNegativesRankingLoss.
    """
    triplets = []
    for premise, entailed, contradicting in _by_premise(rows):
        most = 1 if combine == "first" else None
        meet = zip if combine == "zip" else product
        for positive, negative in meet(entailed[:most], contradicting[:most]):
            triplets.append(Triplet(premise, positive, negative))
            if symmetric:
                triplets.append(Triplet(positive, premise, negative))
    return triplets


def nli_pairs(rows: Iterable[LabeledPair], *, symmetric: bool = False) -> list[tuple[str, str]]:
    """Premise and entailed hypothesis, every combination once; `symmetric` adds each pair the other way round."""
    pairs = [(premise, positive) for premise, entailed, _ in _by_premise(rows) for positive in entailed]
    if symmetric:
        pairs += [(positive, premise) for premise, positive in pairs]
    return list(dict.fromkeys(pairs))


def _by_premise(rows: Iterable[LabeledPair]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each premise with its distinct entailed and contradicting hypotheses, in the order of their first occurrence.

    A hypothesis that equals its premise, or that one premise has under both labels, teaches nothing and is left out.
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
