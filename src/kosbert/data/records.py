"""The kinds of rows that every data set is read into. Text is kept exactly as published."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sentence:
    """One line of a corpus."""

    text: str


@dataclass(frozen=True, slots=True)
class LabeledSentence:
    """A sentence with its class: sentiment, topic, intent, or the number of its paraphrase group."""

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
    """Two sentences with a similarity on the data set's own scale (0 to 5 for every STS set here).

    `source` names the sub-corpus; `votes` are the single annotators' scores where the publisher gives them.
    """

    sentence1: str
    sentence2: str
    score: float
    source: str = ""
    votes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Triplet:
    """An anchor, a sentence that follows from it, and one that does not."""

    anchor: str
    positive: str
    negative: str


Pair = LabeledPair | ScoredPair
Record = Sentence | LabeledSentence | LabeledPair | ScoredPair | Triplet


def sentences_of(record: Record) -> tuple[str, ...]:
    """Every sentence of a row, in order."""
    match record:
        case Sentence(text) | LabeledSentence(text, _):
            return (text,)
        case Triplet(anchor, positive, negative):
            return (anchor, positive, negative)
        case _:
            return (record.sentence1, record.sentence2)
