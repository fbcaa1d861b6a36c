"""Record types of all data sets. Text is kept exactly as published."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an unlabeled corpus."""

    text: str


@dataclass(frozen=True, slots=True)
class LabeledSentence:
    """A sentence with a class: sentiment, topic, intent, or the id of its paraphrase group."""

    text: str
    label: str


@dataclass(frozen=True, slots=True)
class LabeledPair:
    """Two sentences with a class: NLI (entailment, neutral, contradiction) or paraphrase (0, 1).

    For NLI, `sentence1` is the premise and `sentence2` the hypothesis.
    """

    sentence1: str
    sentence2: str
    label: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two sentences with a similarity score on the scale of the data set (0 to 5 for all registered STS sets).

    `source` is the sub-corpus; `votes` are the scores of the individual annotators, if published.
    """

    sentence1: str
    sentence2: str
    score: float
    source: str = ""
    votes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Triplet:
    """An anchor, a similar sentence and a dissimilar one."""

    anchor: str
    positive: str
    negative: str


Pair = LabeledPair | ScoredPair
Record = Sentence | LabeledSentence | LabeledPair | ScoredPair | Triplet


def sentences_of(record: Record) -> tuple[str, ...]:
    """Return the sentences of a record, in order."""
    match record:
        case Sentence(text) | LabeledSentence(text, _):
            return (text,)
        case Triplet(anchor, positive, negative):
            return (anchor, positive, negative)
        case _:
            return (record.sentence1, record.sentence2)
