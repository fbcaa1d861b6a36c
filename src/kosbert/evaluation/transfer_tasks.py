"""Transfer tasks: their data, the features built from embeddings, and the metric reported besides accuracy.

The splits of a task decide how it is scored (SentEval, senteval/tools/validation.py): `all` by nested cross-validation,
`train` and `test` with cross-validation on train, `train`, `dev` and `test` with selection on dev.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from sklearn.decomposition import TruncatedSVD
from sklearn.model_selection import train_test_split

from kosbert import data
from kosbert.data.records import LabeledPair, LabeledSentence, sentences_of
from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.evaluation.logistic_regression import Features
from kosbert.model.encoder import SupportsEncode
from kosbert.progress import ProgressCallback, ProgressEvent

Example: TypeAlias = LabeledSentence | LabeledPair
TaskRows: TypeAlias = Mapping[str, Sequence[Example]]
"""Rows by split: all, or train and test, or train, dev and test."""
FeatureKind: TypeAlias = Literal["u", "|u-v|, u*v", "u, v, |u-v|, u*v"]
Splitter: TypeAlias = Callable[[TaskRows, int], TaskRows]

SPARSE_DIMENSIONS = 256
CHUNK = 8_192  # sentences between two progress events


@dataclass(frozen=True)
class TransferTask:
    """One task of a suite.

    Args:
        name: as in published tables, in lower case.
        suite: en (SentEval) or ko.
        sources: the dataset of each split; of several alternatives the first that is available is used.
        features: what the classifier sees of a row: the embedding u, or a combination of u and v for pairs.
        f1: the class whose F1 is reported, or `macro` for the mean of all.
        split: makes train and test from data without splits, with a seed.
    """

    name: str
    suite: Literal["en", "ko"]
    sources: tuple[Mapping[str, str], ...]
    features: FeatureKind = "u"
    f1: str = ""
    split: Splitter = lambda rows, seed: rows

    def load(
        self, data_dir: Path | None = None, *, limit: int | None = None, seed: int = 0
    ) -> tuple[list[str], TaskRows]:
        """Load without downloading; return the names of the datasets and at most `limit` random rows per split."""
        failure: KosbertError | None = None
        for source in self.sources:
            try:
                loaded = {split: _load_examples(reference, data_dir) for split, reference in source.items()}
            except KosbertError as error:
                failure = failure or error  # the first alternative is the one to recommend
                continue
            splits = self.split(loaded, seed)
            return list(source.values()), {split: _sample(rows, limit, seed) for split, rows in splits.items()}
        raise failure or UsageError(f"the task {self.name} names no data; give it at least one split")


class TaskEmbeddings:
    """Embeddings of sentences; each sentence is encoded once, however many tasks use it."""

    def __init__(self, encoder: SupportsEncode, seed: int = 0) -> None:
        self._encoder, self._seed = encoder, seed
        self._cache: dict[str, NDArray[np.float32]] = {}

    def encode(
        self, sentences: Sequence[str], task: str = "encode", on_progress: ProgressCallback | None = None
    ) -> dict[str, NDArray[np.float32]]:
        """Return the embedding of each distinct sentence.

        Sparse vectors of many thousand dimensions are reduced to 256 by truncated SVD, fitted on all sentences of the
        task, which SentEval shows to its `prepare` as well; no label is seen.
        """
        distinct = dict.fromkeys(sentences)
        uncached = [text for text in distinct if text not in self._cache]
        chunks = list(self._encode_chunks(uncached, task, on_progress))
        if chunks and issparse(chunks[0]):
            rows = vstack(chunks).astype(np.float32)
            size = min(SPARSE_DIMENSIONS, *(length - 1 for length in rows.shape))
            reduced = TruncatedSVD(size, random_state=self._seed).fit_transform(rows)
            return dict(zip(uncached, reduced, strict=True))  # not cached: the axes are those of this task
        for start, chunk in zip(range(0, len(uncached), CHUNK), chunks, strict=True):
            if not np.isfinite(chunk).all():
                raise KosbertError("the model returned vectors with NaN or infinity; train it again with a lower lr")
            self._cache |= zip(uncached[start : start + CHUNK], np.asarray(chunk, np.float32), strict=True)
        return {text: self._cache[text] for text in distinct}

    def _encode_chunks(self, texts: list[str], task: str, on_progress: ProgressCallback | None) -> Iterator[Any]:
        for start in range(0, len(texts), CHUNK):
            yield self._encoder.encode(texts[start : start + CHUNK])
            if on_progress:
                done = min(start + CHUNK, len(texts))
                on_progress(ProgressEvent(task, done, len(texts), "sentences", level=1))


def build_features(
    kind: FeatureKind, embeddings: Mapping[str, NDArray[np.float32]], rows: Sequence[Example]
) -> Features:
    """Return the classifier's input for each row, (n, features)."""
    u = np.stack([embeddings[sentences_of(row)[0]] for row in rows])
    if kind == "u":
        return u
    v = np.stack([embeddings[sentences_of(row)[-1]] for row in rows])
    combined = [np.abs(u - v), u * v]
    return np.concatenate(combined if kind == "|u-v|, u*v" else [u, v, *combined], axis=1)


def _load_examples(reference: str, data_dir: Path | None) -> list[Example]:
    rows = data.load(reference, data_dir=data_dir, download=False)
    return [row for row in rows if isinstance(row, LabeledSentence | LabeledPair)]


def _sample(rows: Sequence[Example], limit: int | None, seed: int) -> Sequence[Example]:
    if limit is None or len(rows) <= limit:
        return rows
    return [rows[index] for index in np.sort(np.random.default_rng(seed).permutation(len(rows))[:limit])]


def stratified_split(max_rows: int, test_share: float) -> Splitter:
    """Return a splitter: at most `max_rows` distinct rows, a share of them for test, each class in proportion."""

    def split(splits: TaskRows, seed: int) -> TaskRows:
        rows = list({sentences_of(row): row for row in splits["all"]}.values())
        if len(rows) > max_rows:
            labels = [row.label for row in rows]
            rows, _ = train_test_split(rows, train_size=max_rows, stratify=labels, random_state=seed)
        labels = [row.label for row in rows]
        train, test = train_test_split(rows, test_size=test_share, stratify=labels, random_state=seed)
        return {"train": train, "test": test}

    return split


def paraphrase_pairs(splits: TaskRows, seed: int) -> TaskRows:
    """Build pairs from ParaKQC's groups of paraphrases: half within a group, half across two groups.

    The file keeps a topic and a type of utterance together in blocks of 50 groups. Each block gives a fifth of its
    groups to test, and the two groups of a negative pair are of one block, so that the topic alone decides nothing.
    Each of the ten sentences of a group is in exactly one positive pair.
    """
    generator = np.random.default_rng(seed)
    groups: dict[int, list[str]] = {}
    for row in splits["all"]:
        groups.setdefault(int(row.label), []).append(sentences_of(row)[0])
    pairs: dict[str, list[Example]] = {"train": [], "test": []}
    for block in sorted({number // 50 for number in groups}):
        numbers = generator.permutation([number for number in sorted(groups) if number // 50 == block])
        cut = round(0.8 * len(numbers))
        for split, part in (("train", numbers[:cut]), ("test", numbers[cut:])):
            for number, negative_number in zip(part, np.roll(part, 1), strict=True):
                group, negatives = (
                    generator.permutation(groups[index]).reshape(2, -1) for index in (number, negative_number)
                )
                pairs[split] += [LabeledPair(str(a), str(b), "same") for a, b in zip(*group, strict=True)]
                pairs[split] += [
                    LabeledPair(str(a), str(b), "other") for a, b in zip(group[0], negatives[1], strict=True)
                ]
    return pairs


_PAIR: FeatureKind = "|u-v|, u*v"  # senteval/mrpc.py
_INFERENCE: FeatureKind = "u, v, |u-v|, u*v"  # senteval/snli.py


def _splits(name: str, *splits: str, test: str = "test") -> tuple[Mapping[str, str]]:
    """Return the splits of a dataset; `test` names the split to test on if the real test is not published."""
    return ({split: f"{name}-{test if split == 'test' else split}" for split in splits},)


TASKS = (
    TransferTask("mr", "en", _splits("mr", "all")),
    TransferTask("cr", "en", _splits("cr", "all")),
    TransferTask("subj", "en", _splits("subj", "all")),
    TransferTask("mpqa", "en", _splits("mpqa", "all")),
    TransferTask("sst", "en", _splits("sst", "train", "dev", "test")),
    TransferTask("trec", "en", _splits("trec", "train", "test")),
    TransferTask("mrpc", "en", _splits("mrpc", "train", "test"), _PAIR, f1="1"),
    # nsmc-part holds a part of the official train and, as `valid`, a part of the official test.
    TransferTask(
        "nsmc", "ko", (*_splits("nsmc", "train", "test"), *_splits("nsmc-part", "train", "test", test="valid"))
    ),
    # 45,654 titles without a test split; testing on 4,000 gives an interval of about one point.
    TransferTask("ynat", "ko", ({"all": "ynat-train"},), split=stratified_split(max_rows=20_000, test_share=0.2)),
    TransferTask("3i4k", "ko", _splits("3i4k", "train", "test")),
    # The labels of BEEP!'s test split are not published.
    TransferTask("beep", "ko", _splits("beep", "train", "test", test="dev"), f1="macro"),
    TransferTask("sentineg", "ko", _splits("sentineg", "train", "dev", "test")),
    TransferTask("parakqc", "ko", ({"all": "parakqc"},), _PAIR, f1="same", split=paraphrase_pairs),
    TransferTask("klue-nli", "ko", _splits("klue-nli", "train", "test", test="dev"), _INFERENCE, f1="macro"),
)


def suite_tasks(suite: str, names: Sequence[str] = ()) -> list[TransferTask]:
    """Return the tasks of a suite, or only those named."""
    if suite not in {task.suite for task in TASKS}:
        raise UsageError(f"there is no suite {suite!r}: give en or ko")
    tasks = {task.name: task for task in TASKS if task.suite == suite}
    for name in names:
        if name not in tasks:
            raise UsageError(f"the suite {suite} has no task {name!r}: {did_you_mean(name, tasks)}")
    return [task for task in tasks.values() if not names or task.name in names]
