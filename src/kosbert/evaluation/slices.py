"""Where does a score come from? The same correlation on parts of a set, and how well people do.

    slices(pairs, cosines)                                   # by source, by length, by lexical overlap
    slices(pairs, cosines, training=data.load("korsts-train"))   # also: pairs that leaked, and without them
    human_ceiling(pairs)                                     # one annotator against the others

The correlation of a whole set is not the average of its slices: a slice has a narrower range of scores, and the set
also rewards telling the sources apart. So compare a slice of one model with the same slice of another.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kosbert.data.leakage import overlap
from kosbert.data.records import Record, ScoredPair
from kosbert.evaluation.significance import Interval, confidence_limits, intervals
from kosbert.evaluation.sts import correlation, gold_scores

FEWEST = 10  # pairs; a correlation of fewer says nothing, so it is left undefined


@dataclass(frozen=True)
class Slice:
    """The cosine's correlations on some of the pairs."""

    kind: str
    name: str
    pairs: int
    pearson: Interval | None
    spearman: Interval | None


def slices(
    pairs: Sequence[ScoredPair],
    predictions: NDArray[np.floating],
    *,
    training: Iterable[Record] | None = None,
    resamples: int = 1_000,
    seed: int = 0,
) -> list[Slice]:
    """Cut a set by source, by length, by lexical overlap and, if training rows are given, by what leaked."""
    gold = gold_scores(pairs)
    found = []
    for kind, name, chosen in _cuts(pairs, training):
        scores: dict[str, Interval | None] = {"pearson": None, "spearman": None}
        if chosen.sum() >= FEWEST:
            scores = intervals(predictions[chosen], gold[chosen], resamples=resamples, seed=seed)
        found.append(Slice(kind, name, int(chosen.sum()), scores["pearson"], scores["spearman"]))
    return found


def _cuts(
    pairs: Sequence[ScoredPair], training: Iterable[Record] | None
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Every slice as its kind, its name and which pairs are in it."""
    sources = np.array([pair.source for pair in pairs])
    if len(set(sources)) > 1:
        for source in dict.fromkeys(sources.tolist()):
            yield "source", source or "(none)", sources == source
    lengths = np.array([len(pair.sentence1) + len(pair.sentence2) for pair in pairs], float)
    for name, chosen in terciles(lengths, ("short", "medium", "long"), "{:.0f} characters"):
        yield "length", name, chosen
    shared = np.array([bigram_overlap(pair.sentence1, pair.sentence2) for pair in pairs])
    for name, chosen in terciles(shared, ("little", "some", "much"), "{:.2f}"):
        yield "overlap", name, chosen
    if training is not None:
        whole, part = leaked(pairs, training)
        yield "leakage", "without pairs seen in training", ~whole
        yield "leakage", "only pairs seen in training", whole
        yield "leakage", "without sentences seen in training", ~part
        yield "leakage", "only sentences seen in training", part


def terciles(values: NDArray[np.float64], names: Sequence[str], unit: str) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Cut at the terciles. Equal values stay together, so parts may differ in size; an empty part is left out."""
    low, high = np.quantile(values, [1 / 3, 2 / 3], method="inverted_cdf")
    labels = (f"up to {unit.format(low)}", f"up to {unit.format(high)}", f"above {unit.format(high)}")
    chosen = (values <= low, (values > low) & (values <= high), values > high)
    for name, label, here in zip(names, labels, chosen, strict=True):
        if here.any():
            yield f"{name}: {label}", here


def bigram_overlap(first: str, second: str) -> float:
    """Jaccard similarity of the sets of two adjacent characters, without white space; of two empty sets, 1."""
    a, b = (_bigrams("".join(text.split())) for text in (first, second))
    return len(a & b) / len(a | b) if a | b else 1.0


def _bigrams(text: str) -> set[str]:
    return {text[place : place + 2] for place in range(len(text) - 1)} or ({text} if text else set())


def leaked(pairs: Sequence[ScoredPair], training: Iterable[Record]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which pairs are in the training rows as a whole, and which with at least one sentence, exactly or nearly.

    Matches are those of `kosbert.data.leakage` at its level `near`, which includes the exact ones.
    """
    sentences: set[str] = set()
    whole: set[frozenset[str]] = set()
    for found in overlap(training, pairs, examples=2 * len(pairs)):
        for match in found.examples:
            if found.unit == "pair":
                whole.add(frozenset(match.held_out))
            else:
                sentences.update(match.held_out)
    return (
        np.array([frozenset((pair.sentence1, pair.sentence2)) in whole for pair in pairs], bool),
        np.array([pair.sentence1 in sentences or pair.sentence2 in sentences for pair in pairs], bool),
    )


@dataclass(frozen=True)
class HumanAgreement:
    """How well one annotator agrees with the mean of the others, over the pairs that have votes."""

    pairs: int
    votes: int
    pearson: Interval
    spearman: Interval


def human_agreement(
    pairs: Sequence[ScoredPair], *, draws: int = 1_000, seed: int = 0, level: float = 0.95
) -> HumanAgreement | None:
    """Correlate one person's votes with the mean of the others' votes; None without votes, or if they are constant.

    The file does not say who voted, and the voters differ from pair to pair, so nobody can be left out by name. Instead
    one vote of each pair is drawn at random and compared with the mean of the rest, over all pairs at once; the value
    is the mean over `draws` such draws. For the interval each draw also resamples the pairs, so it holds both the
    choice of voters and that of pairs.

    It is what a person reaches, not the most that is possible: the mean of several votes is less noisy than one vote,
    so a model that predicts it well can pass this "ceiling".
    """
    voted = [pair for pair in pairs if len(pair.votes) > 1]
    if len(voted) < FEWEST:
        return None
    generator = np.random.default_rng(seed)
    counts = np.array([len(pair.votes) for pair in voted])
    votes = np.full((len(voted), counts.max()), np.nan)
    for row, pair in enumerate(voted):
        votes[row, : len(pair.votes)] = pair.votes
    totals = np.nansum(votes, axis=1)

    values: dict[str, list[float]] = {"pearson": [], "spearman": []}
    resampled: dict[str, list[float]] = {"pearson": [], "spearman": []}
    for _ in range(draws):
        one = votes[np.arange(len(voted)), generator.integers(0, counts)]
        others = (totals - one) / (counts - 1)
        picks = generator.integers(0, len(voted), len(voted))
        for name in values:
            for found, x, y in ((values, one, others), (resampled, one[picks], others[picks])):
                score = correlation(name, x, y)
                if score is not None:
                    found[name].append(score)
    if not values["pearson"] or not resampled["pearson"]:
        return None
    scores = {}
    for name in values:
        value = float(np.mean(values[name]))
        scores[name] = Interval(value, *confidence_limits(np.array(resampled[name]), value, level=level))
    return HumanAgreement(len(voted), int(counts.sum()), scores["pearson"], scores["spearman"])
