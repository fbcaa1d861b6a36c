"""Evaluate and compare models on STS datasets: the results that `kosbert evaluate` and `kosbert compare` print.

korsts = read_set("korsts-test")                         # or the path of a file with sentence1, sentence2, score
evaluate(encode_pairs(model, korsts.pairs), korsts)
compare_models([korsts, klue], first_model, second_model)
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
from kosbert.evaluation.significance import (
    ConfidenceInterval,
    CorrelationDifference,
    SignificanceResult,
    compare,
    correlation_intervals,
    decide_winners,
)
from kosbert.evaluation.slices import HumanAgreement, SliceScore, human_agreement, score_slices
from kosbert.evaluation.sts import (
    COEFFICIENTS,
    Embeddings,
    SubtaskScores,
    check_embeddings,
    encode_pairs,
    gold_scores,
    paired_cosine,
    sts_metrics,
    subtask_scores,
)
from kosbert.model.encoder import SupportsEncode
from kosbert.progress import ProgressCallback, ProgressEvent

MIN_PAIRS_TO_COMPARE = 4
"""Williams' and Steiger's tests are undefined for fewer pairs."""


@dataclass(frozen=True)
class STSDataset:
    """Scored pairs under the name that the user gave: a split or a file."""

    name: str
    pairs: Sequence[ScoredPair]


def read_set(
    reference: str,
    *,
    data_dir: Path | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str = "",
    sheet: str = "",
    on_progress: ProgressCallback | None = None,
) -> STSDataset:
    """Read the scored pairs of a split such as `korsts-test` or of a file; the options are those of `read_records`."""
    rows = read_records(
        reference, data_dir=data_dir, columns=columns, encoding=encoding, sheet=sheet, on_progress=on_progress
    )
    pairs = [row for row in rows if isinstance(row, ScoredPair)]
    if not pairs and Path(reference).is_file():
        raise UsageError(f"{reference} has no score column: name it score, or give its name with --column score=NAME")
    if not pairs:
        raise UsageError(f"{reference} has no scored pairs: give an STS dataset, such as korsts-test")
    return STSDataset(reference, pairs)


def parse_columns(settings: Iterable[str]) -> dict[str, str]:
    """Parse settings such as `score=점수` into the `columns` of `read_set`."""
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
class EvaluationResult:
    """Scores of one model on one dataset. The intervals are those of the cosine's correlations."""

    dataset: str
    pairs: int
    correlations: dict[str, float | None]
    cosine_pearson: ConfidenceInterval | None
    cosine_spearman: ConfidenceInterval | None
    subtasks: SubtaskScores | None
    slices: list[SliceScore] | None
    human_agreement: HumanAgreement | None
    published_scores: list[PublishedScore]


def evaluate(
    embeddings: tuple[Embeddings, Embeddings],
    dataset: STSDataset,
    *,
    slices: bool = False,
    training: Iterable[Record] | None = None,
    resamples: int = 2_000,
    seed: int = 0,
) -> EvaluationResult:
    """Score the embeddings of first and second sentences.

    Args:
        embeddings: of the first and of the second sentences, (pairs, dim) each.
        dataset: the pairs with their gold scores.
        slices: also score by source, length and overlap, and report the agreement of annotators.
        training: training rows; also score with and without the pairs that leaked from them.
        resamples: bootstrap resamples of the intervals.
        seed: seed of the resampling.
    """
    check_embeddings(*embeddings, len(dataset.pairs))
    gold = gold_scores(dataset.pairs)
    cosines = paired_cosine(*embeddings)
    intervals = correlation_intervals(cosines, gold, resamples=resamples, seed=seed)
    sources = [pair.source for pair in dataset.pairs]
    sliced = slices or training is not None
    return EvaluationResult(
        dataset=dataset.name,
        pairs=len(gold),
        correlations=sts_metrics(*embeddings, gold),
        cosine_pearson=intervals["pearson"],
        cosine_spearman=intervals["spearman"],
        subtasks=subtask_scores(cosines, gold, sources) if len(set(sources)) > 1 else None,
        slices=score_slices(dataset.pairs, cosines, training=training, seed=seed) if sliced else None,
        human_agreement=human_agreement(dataset.pairs, seed=seed) if slices else None,
        published_scores=published_scores(dataset.name),
    )


@dataclass(frozen=True)
class ComparisonResult:
    """Two models on one dataset; difference and result are None if a correlation is undefined."""

    dataset: str
    pairs: int
    difference: CorrelationDifference | None
    result: SignificanceResult | None


def compare_models(
    datasets: Sequence[STSDataset],
    first: SupportsEncode,
    second: SupportsEncode,
    *,
    coefficient: str = "spearman",
    resamples: int = 10_000,
    seed: int = 0,
    on_progress: ProgressCallback | None = None,
) -> list[ComparisonResult]:
    """Compare the cosines of two models on the same pairs, with Holm's correction over the datasets."""
    if coefficient not in COEFFICIENTS:
        raise UsageError(f"{coefficient!r} is no coefficient: choose {' or '.join(COEFFICIENTS)}")
    differences: dict[str, CorrelationDifference | None] = {}
    for done, dataset in enumerate(datasets):
        if len(dataset.pairs) < MIN_PAIRS_TO_COMPARE:
            raise UsageError(
                f"{dataset.name} has {len(dataset.pairs)} pairs: comparing models takes {MIN_PAIRS_TO_COMPARE} or more"
            )
        if on_progress:
            on_progress(ProgressEvent("compare", done, len(datasets), "datasets"))
        first_cosines, second_cosines = (_cosines(encoder, dataset.pairs) for encoder in (first, second))
        gold = gold_scores(dataset.pairs)
        differences[dataset.name] = compare(
            first_cosines, second_cosines, gold, coefficient, resamples=resamples, seed=seed
        )
    if on_progress:
        on_progress(ProgressEvent("compare", len(datasets), len(datasets), "datasets"))
    results = decide_winners(differences)
    return [
        ComparisonResult(dataset.name, len(dataset.pairs), differences[dataset.name], results[dataset.name])
        for dataset in datasets
    ]


def _cosines(encoder: SupportsEncode, pairs: Sequence[ScoredPair]) -> NDArray[np.float64]:
    embeddings = encode_pairs(encoder, pairs)
    check_embeddings(*embeddings, len(pairs))
    return paired_cosine(*embeddings)


def read_vectors(path: Path) -> NDArray[np.floating]:
    """Read the embeddings of one side from an `.npy` file; pickled objects are refused."""
    try:
        vectors = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: give an existing .npy file with one vector per sentence") from error
    except (ValueError, EOFError) as error:
        raise UsageError(f"{path} holds no array of numbers: save one with numpy.save(path, vectors)") from error
    if not isinstance(vectors, np.ndarray) or vectors.dtype.kind not in "fiu":
        raise UsageError(f"{path} holds no array of numbers: save one with numpy.save(path, vectors)")
    return vectors
