"""Score vectors on named sets and compare two models: what `kosbert evaluate` and `kosbert compare` print.

korsts = read_set("korsts-test")                         # or the path of a file with sentence1, sentence2, score
evaluate(encode_pairs(model, korsts.pairs), korsts)
compare_on([korsts, klue], first_model, second_model)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kosbert.data.loading import ROLES, read_records
from kosbert.data.records import Record, ScoredPair
from kosbert.errors import UsageError
from kosbert.evaluation.published_scores import PublishedScore, published_scores
from kosbert.evaluation.significance import Difference, Interval, Verdict, compare, intervals, verdicts
from kosbert.evaluation.slices import HumanAgreement, Slice, human_agreement, slices
from kosbert.evaluation.sts import (
    COEFFICIENTS,
    Subtasks,
    Vectors,
    check_vectors,
    encode_pairs,
    gold_scores,
    paired_cosine,
    sts_metrics,
    subtasks,
)
from kosbert.model.encoder import SupportsEncode
from kosbert.progress import ProgressCallback


@dataclass(frozen=True)
class ScoredSet:
    """Pairs to be scored on, under the name that the user gave."""

    name: str
    pairs: Sequence[ScoredPair]


def read_set(
    reference: str,
    *,
    folder: Path | None = None,
    columns: Mapping[str, str] | None = None,
    on_progress: ProgressCallback | None = None,
) -> ScoredSet:
    """Read a split such as `korsts-test`, or the user's own file; `columns` names its columns by our roles."""
    rows = read_records(reference, data_dir=folder, columns=columns, on_progress=on_progress)
    pairs = [row for row in rows if isinstance(row, ScoredPair)]
    if not pairs and Path(reference).is_file():
        raise UsageError(f"{reference} has no score column: call it score, or say which it is with --column score=NAME")
    if not pairs:
        raise UsageError(f"{reference} has no scored pairs: give a set for similarity, such as korsts-test")
    return ScoredSet(reference, pairs)


def parse_columns(settings: Iterable[str]) -> dict[str, str]:
    """Turn `score=점수` and the like into the columns of `read_set`."""
    columns = {}
    for setting in settings:
        role, equals, column = setting.partition("=")
        if not equals or not column:
            raise UsageError(
                f"{setting!r} names no column: write ROLE=NAME, with one of {', '.join(ROLES)} as the role"
            )
        columns[role] = column
    return columns


@dataclass(frozen=True)
class Evaluation:
    """Everything about one model on one set. Intervals are of the cosine's correlations."""

    name: str
    pairs: int
    correlations: dict[str, float | None]
    pearson: Interval | None
    spearman: Interval | None
    subtasks: Subtasks | None
    slices: list[Slice] | None
    human: HumanAgreement | None
    published: list[PublishedScore]


def evaluate(
    vectors: tuple[Vectors, Vectors],
    scored: ScoredSet,
    *,
    cut: bool = False,
    training: Iterable[Record] | None = None,
    resamples: int = 2_000,
    seed: int = 0,
) -> Evaluation:
    """Score the two sides' vectors; with `cut` also by slices and beside people, with `training` by what leaked."""
    check_vectors(*vectors, len(scored.pairs))
    gold = gold_scores(scored.pairs)
    cosines = paired_cosine(*vectors)
    sure = intervals(cosines, gold, resamples=resamples, seed=seed)
    sources = [pair.source for pair in scored.pairs]
    return Evaluation(
        scored.name,
        len(gold),
        sts_metrics(*vectors, gold),
        sure["pearson"],
        sure["spearman"],
        subtasks(cosines, gold, sources) if len(set(sources)) > 1 else None,
        slices(scored.pairs, cosines, training=training, seed=seed) if cut or training is not None else None,
        human_agreement(scored.pairs, seed=seed) if cut else None,
        published_scores(scored.name),
    )


@dataclass(frozen=True)
class Comparison:
    """Two models on one set; without a difference where a correlation is undefined."""

    name: str
    pairs: int
    difference: Difference | None
    verdict: Verdict | None


LEAST = 4
"""Pairs without which Williams' and Steiger's tests say nothing."""


def compare_on(
    sets: Sequence[ScoredSet],
    first: SupportsEncode,
    second: SupportsEncode,
    *,
    coefficient: str = "spearman",
    resamples: int = 10_000,
    seed: int = 0,
) -> list[Comparison]:
    """Compare the cosines of two models on the same pairs, and judge all sets together (Holm's correction)."""
    if coefficient not in COEFFICIENTS:
        raise UsageError(f"{coefficient!r} is no coefficient: choose {' or '.join(COEFFICIENTS)}")
    found: dict[str, Difference | None] = {}
    for scored in sets:
        if len(scored.pairs) < LEAST:
            raise UsageError(f"{scored.name} has {len(scored.pairs)} pairs: to compare models takes {LEAST} or more")
        ours, theirs = _cosines(first, scored.pairs), _cosines(second, scored.pairs)
        gold = gold_scores(scored.pairs)
        found[scored.name] = compare(ours, theirs, gold, coefficient, resamples=resamples, seed=seed)
    judged = verdicts(found)
    return [Comparison(each.name, len(each.pairs), found[each.name], judged[each.name]) for each in sets]


def _cosines(encoder: SupportsEncode, pairs: Sequence[ScoredPair]) -> NDArray[np.float64]:
    vectors = encode_pairs(encoder, pairs)
    check_vectors(*vectors, len(pairs))
    return paired_cosine(*vectors)


def read_vectors(path: Path) -> NDArray[np.floating]:
    """Read the vectors of one side from an `.npy` file; pickled objects are refused."""
    try:
        vectors = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: give an existing .npy file with one vector a sentence") from error
    except (ValueError, EOFError) as error:
        raise UsageError(f"{path} holds no array of numbers: save one with numpy.save(path, vectors)") from error
    if not isinstance(vectors, np.ndarray) or vectors.dtype.kind not in "fiu":
        raise UsageError(f"{path} holds no array of numbers: save one with numpy.save(path, vectors)")
    return vectors
