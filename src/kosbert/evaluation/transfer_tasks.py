"""The transfer tasks as data: where the rows are, what becomes of a row's vectors, what is reported beside accuracy.

Which parts a task has decides how it is scored (SentEval, senteval/tools/validation.py): `all` by nested
cross-validation, `train` and `test` with cross-validation on train, `train`, `dev` and `test` with the choice on dev.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from sklearn.decomposition import TruncatedSVD
from sklearn.model_selection import train_test_split

from kosbert import data
from kosbert.data.records import LabeledPair, LabeledSentence, sentences_of
from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.model.encoder import SupportsEncode

Example: TypeAlias = LabeledSentence | LabeledPair
Parts: TypeAlias = Mapping[str, Sequence[Example]]
Matrix: TypeAlias = NDArray[np.float32]
Features: TypeAlias = Literal["u", "|u-v|, u*v", "u, v, |u-v|, u*v"]
Arrange: TypeAlias = Callable[[Parts, int], Parts]

SPARSE_DIMENSIONS = 256
CHUNK = 8_192  # sentences between two reports of progress


@dataclass(frozen=True)
class Task:
    """One task of a suite.

    `splits` names the data of each part; where there are several, the first that is here is taken. `arrange` makes
    parts from rows that come without. `f1` names the class whose F1 is reported, or `macro` for the mean of all.
    """

    name: str
    suite: Literal["en", "ko"]
    splits: tuple[Mapping[str, str], ...]
    features: Features = "u"
    f1: str = ""
    arrange: Arrange = lambda parts, seed: parts

    def load(self, folder: Path | None = None, *, limit: int | None = None, seed: int = 0) -> tuple[list[str], Parts]:
        """The names of the splits and their rows, without a download; `limit` draws that many rows of each part."""
        failure: KosbertError | None = None
        for splits in self.splits:
            try:
                rows = {part: _examples(reference, folder) for part, reference in splits.items()}
            except KosbertError as error:
                failure = failure or error  # the first choice is what a user should get
                continue
            parts = self.arrange(rows, seed)
            return list(splits.values()), {part: _some(rows, limit, seed) for part, rows in parts.items()}
        raise failure or UsageError(f"the task {self.name} names no data; give it at least one split")


class Vectors:
    """The vectors of sentences, each sentence encoded once, however many tasks it is in."""

    def __init__(self, encoder: SupportsEncode, seed: int = 0) -> None:
        self._encoder, self._seed = encoder, seed
        self._known: dict[str, Matrix] = {}

    def of(
        self, sentences: Sequence[str], report: Callable[[int, int], None] = lambda done, total: None
    ) -> dict[str, Matrix]:
        """A vector for each distinct sentence.

        Sparse vectors of many thousand dimensions are brought down to 256 by their singular vectors. These are found
        over all sentences of the task, which SentEval shows to its `prepare` as well; no label is seen.
        """
        distinct = dict.fromkeys(sentences)
        new = [text for text in distinct if text not in self._known]
        blocks = []
        for start in range(0, len(new), CHUNK):
            report(start, len(new))
            blocks.append(self._encoder.encode(new[start : start + CHUNK]))
        if blocks and issparse(blocks[0]):
            rows = vstack(blocks).astype(np.float32)
            size = min(SPARSE_DIMENSIONS, *(length - 1 for length in rows.shape))
            reduced = TruncatedSVD(size, random_state=self._seed).fit_transform(rows)
            return dict(zip(new, reduced, strict=True))  # axes of one task mean nothing in another: not kept
        for start, block in zip(range(0, len(new), CHUNK), blocks, strict=True):
            if not np.isfinite(block).all():
                raise KosbertError("the model gives vectors that are not numbers (NaN); train it again with a lower lr")
            self._known |= zip(new[start : start + CHUNK], np.asarray(block, np.float32), strict=True)
        return {text: self._known[text] for text in distinct}


def features_of(kind: Features, vectors: Mapping[str, NDArray[np.float32]], rows: Sequence[Example]) -> Matrix:
    """What the classifier sees of each row, (n, features)."""
    u = np.stack([vectors[sentences_of(row)[0]] for row in rows])
    if kind == "u":
        return u
    v = np.stack([vectors[sentences_of(row)[-1]] for row in rows])
    between = [np.abs(u - v), u * v]
    return np.concatenate(between if kind == "|u-v|, u*v" else [u, v, *between], axis=1)


def _examples(reference: str, folder: Path | None) -> list[Example]:
    rows = data.load(reference, data_dir=folder, download=False)
    return [row for row in rows if isinstance(row, LabeledSentence | LabeledPair)]


def _some(rows: Sequence[Example], limit: int | None, seed: int) -> Sequence[Example]:
    if limit is None or len(rows) <= limit:
        return rows
    return [rows[index] for index in np.sort(np.random.default_rng(seed).permutation(len(rows))[:limit])]


def held_out(most: int, share: float) -> Arrange:
    """Split rows without a split: at most so many distinct ones, a share of them for test, each class in proportion."""

    def arrange(parts: Parts, seed: int) -> Parts:
        rows = list({sentences_of(row): row for row in parts["all"]}.values())
        if len(rows) > most:
            rows, _ = train_test_split(rows, train_size=most, stratify=[row.label for row in rows], random_state=seed)
        train, test = train_test_split(rows, test_size=share, stratify=[row.label for row in rows], random_state=seed)
        return {"train": train, "test": test}

    return arrange


def paraphrase_pairs(parts: Parts, seed: int) -> Parts:
    """Pairs from ParaKQC's groups of sentences that say the same: half of one group, half of two.

    The file keeps a topic and a kind of utterance together in runs of 50 groups. Each run gives a fifth of its groups
    to test, and the two groups of a pair that is no paraphrase are of one run, so that the topic alone decides nothing.
    Each of the ten sentences of a group is once in a paraphrase.
    """
    generator = np.random.default_rng(seed)
    groups: dict[int, list[str]] = {}
    for row in parts["all"]:
        groups.setdefault(int(row.label), []).append(sentences_of(row)[0])
    made: dict[str, list[Example]] = {"train": [], "test": []}
    for run in sorted({number // 50 for number in groups}):
        numbers = generator.permutation([number for number in sorted(groups) if number // 50 == run])
        cut = round(0.8 * len(numbers))
        for part, side in (("train", numbers[:cut]), ("test", numbers[cut:])):
            for number, other in zip(side, np.roll(side, 1), strict=True):
                ours, theirs = (generator.permutation(groups[each]).reshape(2, -1) for each in (number, other))
                made[part] += [LabeledPair(str(a), str(b), "same") for a, b in zip(*ours, strict=True)]
                made[part] += [LabeledPair(str(a), str(b), "other") for a, b in zip(ours[0], theirs[1], strict=True)]
    return made


_PAIR: Features = "|u-v|, u*v"  # senteval/mrpc.py
_INFERENCE: Features = "u, v, |u-v|, u*v"  # senteval/snli.py


def _own(name: str, *parts: str, test: str = "test") -> tuple[Mapping[str, str]]:
    """The splits of a data set under their own names; `test` is the one that stands in for a missing test."""
    return ({part: f"{name}-{test if part == 'test' else part}" for part in parts},)


TASKS = (
    Task("mr", "en", _own("mr", "all")),
    Task("cr", "en", _own("cr", "all")),
    Task("subj", "en", _own("subj", "all")),
    Task("mpqa", "en", _own("mpqa", "all")),
    Task("sst", "en", _own("sst", "train", "dev", "test")),
    Task("trec", "en", _own("trec", "train", "test")),
    Task("mrpc", "en", _own("mrpc", "train", "test"), _PAIR, f1="1"),
    # nsmc-part holds a part of the official train and, as `valid`, a part of the official test.
    Task("nsmc", "ko", (*_own("nsmc", "train", "test"), *_own("nsmc-part", "train", "test", test="valid"))),
    # 45,654 titles without a test of their own; 4,000 to test on give an interval of about one point.
    Task("ynat", "ko", ({"all": "ynat-train"},), arrange=held_out(most=20_000, share=0.2)),
    Task("3i4k", "ko", _own("3i4k", "train", "test")),
    Task("beep", "ko", _own("beep", "train", "test", test="dev"), f1="macro"),  # test's labels are not published
    Task("sentineg", "ko", _own("sentineg", "train", "dev", "test")),
    Task("parakqc", "ko", ({"all": "parakqc"},), _PAIR, f1="same", arrange=paraphrase_pairs),
    Task("klue-nli", "ko", _own("klue-nli", "train", "test", test="dev"), _INFERENCE, f1="macro"),
)


def suite(name: str, wanted: Sequence[str] = ()) -> list[Task]:
    """The tasks of a suite, or those of them that are wanted."""
    if name not in {task.suite for task in TASKS}:
        raise UsageError(f"there is no suite {name!r}: give en or ko")
    tasks = {task.name: task for task in TASKS if task.suite == name}
    for task in wanted:
        if task not in tasks:
            raise UsageError(f"the suite {name} has no task {task!r}: {did_you_mean(task, tasks)}")
    return [task for task in tasks.values() if not wanted or task.name in wanted]
