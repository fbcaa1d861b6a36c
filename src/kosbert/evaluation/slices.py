"""Scores on parts of a dataset (source, length, lexical overlap, leakage), and agreement between annotators.

    score_slices(pairs, cosines)                             # by source, by length, by lexical overlap
    score_slices(pairs, cosines, training=data.load("korsts-train"))   # also with and without leaked pairs
    human_agreement(pairs)                                   # one annotator against the others

The correlation of a dataset is not the average of its slices: a slice has a narrower range of scores, and the whole
dataset also rewards separating the sources. So compare a slice of one model with the same slice of another.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kosbert.data.leakage import overlap
from kosbert.data.records import Record, ScoredPair
from kosbert.evaluation.significance import ConfidenceInterval, confidence_limits, correlation_intervals
from kosbert.evaluation.sts import correlation, gold_scores

MIN_PAIRS = 10
"""Smaller slices get no correlation, because it would mean nothing."""


@dataclass(frozen=True)
class SliceScore:
    """Correlations of the cosine on one slice, for example kind "source", name "boxers-news"."""

    kind: str
    name: str
    pairs: int
    pearson: ConfidenceInterval | None
    spearman: ConfidenceInterval | None


def score_slices(
    pairs: Sequence[ScoredPair],
    predictions: NDArray[np.floating],
    *,
    training: Iterable[Record] | None = None,
    resamples: int = 1_000,
    seed: int = 0,
) -> list[SliceScore]:
    """Score a dataset by source, length, lexical overlap and, if training rows are given, leakage."""
    gold = gold_scores(pairs)
    results = []
    for kind, name, mask in _slices(pairs, training):
        intervals: dict[str, ConfidenceInterval | None] = {"pearson": None, "spearman": None}
        if mask.sum() >= MIN_PAIRS:
            intervals = correlation_intervals(predictions[mask], gold[mask], resamples=resamples, seed=seed)
        results.append(SliceScore(kind, name, int(mask.sum()), intervals["pearson"], intervals["spearman"]))
    return results


def _slices(
    pairs: Sequence[ScoredPair], training: Iterable[Record] | None
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Yield the kind, the name and the mask of each slice."""
    sources = np.array([pair.source for pair in pairs])
    if len(set(sources)) > 1:
        for source in dict.fromkeys(sources.tolist()):
            yield "source", source or "(none)", sources == source
    lengths = np.array([len(pair.sentence1) + len(pair.sentence2) for pair in pairs], float)
    for name, mask in terciles(lengths, ("short", "medium", "long"), "{:.0f} characters"):
        yield "length", name, mask
    overlaps = np.array([bigram_overlap(pair.sentence1, pair.sentence2) for pair in pairs])
    for name, mask in terciles(overlaps, ("low", "medium", "high"), "{:.2f}"):
        yield "overlap", name, mask
    if training is not None:
        pair_leaked, sentence_leaked = leaked_pairs(pairs, training)
        yield "leakage", "without pairs seen in training", ~pair_leaked
        yield "leakage", "only pairs seen in training", pair_leaked
        yield "leakage", "without sentences seen in training", ~sentence_leaked
        yield "leakage", "only sentences seen in training", sentence_leaked


def terciles(values: NDArray[np.float64], names: Sequence[str], unit: str) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Split at the terciles. Equal values stay together, so sizes may differ; an empty part is left out."""
    low, high = np.quantile(values, [1 / 3, 2 / 3], method="inverted_cdf")
    ranges = (f"up to {unit.format(low)}", f"up to {unit.format(high)}", f"above {unit.format(high)}")
    masks = (values <= low, (values > low) & (values <= high), values > high)
    for name, label, mask in zip(names, ranges, masks, strict=True):
        if mask.any():
            yield f"{name}: {label}", mask


def bigram_overlap(first: str, second: str) -> float:
    """Return the Jaccard similarity of character bigrams, white space ignored; 1 for two empty texts."""
    a, b = (_bigrams("".join(text.split())) for text in (first, second))
    return len(a & b) / len(a | b) if a | b else 1.0


def _bigrams(text: str) -> set[str]:
    return {text[start : start + 2] for start in range(len(text) - 1)} or ({text} if text else set())


def leaked_pairs(
    pairs: Sequence[ScoredPair], training: Iterable[Record]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return two masks: pairs that are in the training rows, and pairs with at least one sentence in them.

    Matches are those of `kosbert.data.leakage` at level `near`, which includes exact matches.
    """
    sentences: set[str] = set()
    both: set[frozenset[str]] = set()
    for report in overlap(training, pairs, examples=2 * len(pairs)):
        for match in report.examples:
            if report.unit == "pair":
                both.add(frozenset(match.held_out))
            else:
                sentences.update(match.held_out)
    return (
        np.array([frozenset((pair.sentence1, pair.sentence2)) in both for pair in pairs], bool),
        np.array([pair.sentence1 in sentences or pair.sentence2 in sentences for pair in pairs], bool),
    )


@dataclass(frozen=True)
class HumanAgreement:
    """Correlation of one annotator with the mean of the others, over the pairs that have votes."""

    pairs: int
    votes: int
    pearson: ConfidenceInterval
    spearman: ConfidenceInterval


def human_agreement(
    pairs: Sequence[ScoredPair], *, draws: int = 1_000, seed: int = 0, level: float = 0.95
) -> HumanAgreement | None:
    """Correlate one annotator's votes with the mean of the others; None without votes, or if they are constant.

    The data does not identify annotators, and they differ from pair to pair, so none can be left out by name. Instead
    one vote per pair is drawn at random and compared with the mean of the rest, over all pairs at once; the value is
    the mean over `draws` such draws. For the interval each draw also resamples the pairs, so it covers both the choice
    of annotators and that of pairs.

    This is what a person reaches and not an upper bound: the mean of several votes is less noisy than one vote, so a
    model that predicts it well can exceed this "ceiling".
    """
    voted = [pair for pair in pairs if len(pair.votes) > 1]
    if len(voted) < MIN_PAIRS:
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
        vote = votes[np.arange(len(voted)), generator.integers(0, counts)]
        mean_of_rest = (totals - vote) / (counts - 1)
        rows = generator.integers(0, len(voted), len(voted))
        for name in values:
            for scores, x, y in ((values, vote, mean_of_rest), (resampled, vote[rows], mean_of_rest[rows])):
                score = correlation(name, x, y)
                if score is not None:
                    scores[name].append(score)
    if not values["pearson"] or not resampled["pearson"]:
        return None
    intervals = {}
    for name in values:
        value = float(np.mean(values[name]))
        limits = confidence_limits(np.array(resampled[name]), value, level=level)
        intervals[name] = ConfidenceInterval(value, *limits)
    return HumanAgreement(len(voted), int(counts.sum()), intervals["pearson"], intervals["spearman"])
