"""Readers of published data sets: a table format and a function that turns a row into a record.

    read = reader(TSV, scored("sentence1", "sentence2", "score", source="filename"))
    for pair in read([Path("korsts/sts-test.tsv")]): ...

A malformed row is an error with file and line; no row is ever dropped silently. The last three readers are for layouts
that only SentEval uses.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kosbert.data.records import LabeledPair, LabeledSentence, Record, ScoredPair, Sentence, Triplet
from kosbert.data.tables import TEXT, Row, Table, TableFormat
from kosbert.errors import KosbertError

NLI_LABELS = ("entailment", "neutral", "contradiction")

Reader = Callable[[Sequence[Path]], Iterator[Record]]


@dataclass(frozen=True)
class Maker:
    """A function from a row to a record, with the columns it takes, so that `data.columns` can read them directly.

    Args:
        make: converts a row.
        kind: the type of the records.
        texts: the columns of the sentences, in the order of `sentences_of`.
        label: the column of the label.
        labels: the allowed labels, or codes in the file and their names; empty: any.
    """

    make: Callable[[Row], Record]
    kind: type[Record]
    texts: tuple[str, ...]
    label: str = ""
    labels: Sequence[str] | Mapping[str, str] = ()

    def __call__(self, row: Row) -> Record:
        """Convert a row."""
        return self.make(row)


@dataclass(frozen=True)
class TableReader:
    """Reads the files of a split, one after the other."""

    format: TableFormat
    make: Maker

    def __call__(self, paths: Sequence[Path]) -> Iterator[Record]:
        """Yield the records of the files."""
        for path in paths:
            for row in Table(path, self.format).rows():
                yield self.make(row)


def reader(format: TableFormat, make: Maker) -> TableReader:
    """Return a reader for the files of a split."""
    return TableReader(format, make)


# --- makers: a row becomes a record ---------------------------------------------------------------------------------


def scored(
    sentence1: str = "sentence1",
    sentence2: str = "sentence2",
    score: str = "score",
    *,
    source: str = "",
    votes: str = "",
    max_score: float = 5.0,
) -> Maker:
    """Return a maker of STS rows; a score outside 0 to `max_score` is an error."""

    def make(row: Row) -> ScoredPair:
        value = row.number(score)
        if not 0 <= value <= max_score:
            raise row.error(f"score {value} is outside 0 to {max_score:g}")
        return ScoredPair(
            row.text(sentence1),
            row.text(sentence2),
            value,
            row.text(source) if source else "",
            tuple(map(float, row.get(votes))) if votes else (),
        )

    return Maker(make, ScoredPair, (sentence1, sentence2))


def labeled_pair(
    sentence1: str = "sentence1",
    sentence2: str = "sentence2",
    label: str = "label",
    *,
    labels: Sequence[str] = NLI_LABELS,
    source: str = "",
) -> Maker:
    """Return a maker of NLI or paraphrase rows; a label outside `labels` is an error."""

    def make(row: Row) -> LabeledPair:
        value = _checked(row, row.text(label), labels)
        return LabeledPair(row.text(sentence1), row.text(sentence2), value, row.text(source) if source else "")

    return Maker(make, LabeledPair, (sentence1, sentence2), label, labels)


def labeled(text: str = "text", label: str = "label", *, labels: Sequence[str] | Mapping[str, str] = ()) -> Maker:
    """Return a maker of classification rows; `labels` lists the allowed ones, or maps codes in the file to names."""

    def make(row: Row) -> LabeledSentence:
        value = _checked(row, row.text(label), labels)
        return LabeledSentence(row.text(text), labels[value] if isinstance(labels, Mapping) else value)

    return Maker(make, LabeledSentence, (text,), label, labels)


def _checked(row: Row, label: str, labels: Iterable[str]) -> str:
    allowed = list(labels)
    if allowed and label not in allowed:
        raise row.error(f"label {label!r} is not one of {', '.join(allowed)}")
    return label


def sentence(text: str = "text") -> Maker:
    """Return a maker of rows of an unlabeled corpus."""
    return Maker(lambda row: Sentence(row.text(text)), Sentence, (text,))


def triplet(anchor: str = "anchor", positive: str = "positive", negative: str = "negative") -> Maker:
    """Return a maker of triplets."""
    texts = (anchor, positive, negative)
    return Maker(lambda row: Triplet(*map(row.text, texts)), Triplet, texts)


# --- SentEval: one file per class, labels before the text, scores in a second file ----------------------------------


def one_file_per_class(labels: Sequence[str], *, encoding: str = "utf-8") -> Reader:
    """MR, CR, SUBJ, MPQA: the n-th file holds the sentences of the n-th label."""
    format = TableFormat("text", encoding=encoding)

    def read(paths: Sequence[Path]) -> Iterator[Record]:
        for path, label in zip(paths, labels, strict=True):
            for _, text in Table(path, format).lines():
                yield LabeledSentence(text.strip(), label)

    return read


def trec(paths: Sequence[Path]) -> Iterator[Record]:
    """TREC: `LABEL:detail question`; the six coarse labels are the task."""
    for path in paths:
        for number, text in Table(path, TableFormat("text", encoding="latin-1")).lines():
            label, colon, rest = text.partition(":")
            question = rest.partition(" ")[2]
            if not colon or not question:
                raise KosbertError(f"{path}, line {number}: {text[:40]!r} where `LABEL:detail question` is expected")
            yield LabeledSentence(question, label)


def sts_year(paths: Sequence[Path]) -> Iterator[Record]:
    """STS12 to STS16: pairs in one file, scores in the next; `source` is the sub-task.

    A pair with an empty score was sent out but never annotated (STS15 and STS16); it is not part of the data set.
    """
    for pair_file, score_file in zip(paths[::2], paths[1::2], strict=True):
        subtask = pair_file.name.removeprefix("STS.input.").removesuffix(".gz").removesuffix(".txt")
        scores = list(Table(score_file, TEXT).lines())
        pairs = list(Table(pair_file, TEXT).lines())
        if len(scores) != len(pairs):
            raise KosbertError(
                f"{pair_file} has {len(pairs)} lines and {score_file} has {len(scores)}: get both files again"
            )
        for (number, pair), (_, score) in zip(pairs, scores, strict=True):
            if not score.strip():
                continue
            sentences = pair.split("\t")
            if len(sentences) < 2:
                raise KosbertError(f"{pair_file}, line {number}: {len(sentences)} field where 2 are expected")
            try:
                yield ScoredPair(sentences[0], sentences[1], float(score), subtask)
            except ValueError:
                raise KosbertError(f"{score_file}, line {number}: {score!r} where a number is expected") from None
