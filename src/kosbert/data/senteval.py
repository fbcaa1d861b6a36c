"""Readers for the layouts that only SentEval uses: one file a class, labels before text, scores beside the pairs."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from kosbert.data.readers import Reader, lines
from kosbert.data.records import LabeledSentence, Record, ScoredPair
from kosbert.errors import KosbertError


def one_file_a_class(labels: Sequence[str], *, encoding: str = "utf-8") -> Reader:
    """MR, CR, SUBJ, MPQA: the n-th file holds the sentences of the n-th label."""

    def read(paths: Sequence[Path]) -> Iterator[Record]:
        for path, label in zip(paths, labels, strict=True):
            for _, text in lines(path, encoding):
                yield LabeledSentence(text.strip(), label)

    return read


def trec(paths: Sequence[Path]) -> Iterator[Record]:
    """TREC: `LABEL:detail question`; the six coarse labels are the task."""
    for path in paths:
        for number, text in lines(path, "latin-1"):
            label, colon, rest = text.partition(":")
            question = rest.partition(" ")[2]
            if not colon or not question:
                raise KosbertError(f"{path}, line {number}: no `LABEL:detail question` here: {text[:40]!r}")
            yield LabeledSentence(question, label)


def sts_year(paths: Sequence[Path]) -> Iterator[Record]:
    """STS12 to STS16: pairs in one file, scores in the next; `source` is the sub-task.

    A pair with an empty score was sent out but never annotated (STS15 and STS16); it is no part of the data set.
    """
    for pairs, scores in zip(paths[::2], paths[1::2], strict=True):
        subtask = pairs.name.removeprefix("STS.input.").removesuffix(".gz").removesuffix(".txt")
        gold = list(lines(scores))
        texts = list(lines(pairs))
        if len(gold) != len(texts):
            raise KosbertError(f"{pairs} has {len(texts)} lines and {scores} has {len(gold)}: get both again")
        for (number, text), (_, score) in zip(texts, gold, strict=True):
            if not score.strip():
                continue
            fields = text.split("\t")
            if len(fields) < 2:
                raise KosbertError(f"{pairs}, line {number}: {len(fields)} field where 2 are expected")
            try:
                yield ScoredPair(fields[0], fields[1], float(score), subtask)
            except ValueError:
                raise KosbertError(f"{scores}, line {number}: {score!r} where a number is expected") from None
