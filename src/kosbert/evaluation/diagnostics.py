"""Diagnostics: which Korean phenomena a model distinguishes, and how its embeddings use their space.

    diagnosis = diagnose(model)
    diagnosis.phenomena[0].accuracy      # of the negation items, with its interval
    diagnosis.space.uniformity

A minimal pair is an anchor, a paraphrase and a sentence with a different meaning. It passes if the paraphrase has the
higher cosine with the anchor: an accuracy that needs no threshold and does not depend on the model's scale. A tie does
not pass, so chance is 50% minus half of the ties, and a model that maps everything to one vector gets 0. Ties are
counted: many of them mean that the model does not see the difference. Methods that only see the surface score far below
chance where meaning changes.

The space is measured on vectors of length 1, because that is what cosines see. The numbers depend on the sentences and,
for principal components, on how many there are: compare models on the same sentences only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags_array, issparse
from scipy.sparse.linalg import eigsh

from kosbert.data.minimal_pairs import MinimalPair, load_minimal_pairs
from kosbert.data.records import LabeledPair, Record, ScoredPair, Triplet
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation.resampling import draw_counts
from kosbert.evaluation.significance import ConfidenceInterval, confidence_limits, wilson_interval
from kosbert.evaluation.sts import Embeddings, paired_cosine, paired_distance, paired_dot
from kosbert.model.encoder import SupportsEncode

MAX_SENTENCES = 4_000  # 8 million pairs, and principal components in a second or two
TIE = 1e-6  # closer cosines differ only by float32 rounding
SAME_MEANING = 4.0  # STS scores (of 5) from which two sentences count as paraphrases

_BLOCK = 512


@dataclass(frozen=True, slots=True)
class MinimalPairResult:
    """A minimal pair with the cosines of its anchor with the paraphrase and with the changed sentence."""

    item: MinimalPair
    paraphrase_cosine: float
    changed_cosine: float

    @property
    def margin(self) -> float:
        """Return how much higher the cosine of the paraphrase is."""
        return self.paraphrase_cosine - self.changed_cosine

    @property
    def passed(self) -> bool:
        """Return whether the paraphrase has the higher cosine."""
        return self.margin > TIE

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON."""
        cosines = {"paraphrase_cosine": self.paraphrase_cosine, "changed_cosine": self.changed_cosine}
        return asdict(self.item) | cosines


@dataclass(frozen=True)
class PhenomenonResult:
    """The minimal pairs of one phenomenon: accuracy, mean cosines, and the mean margin between them."""

    phenomenon: str
    count: int
    passed: int
    tied: int
    accuracy: ConfidenceInterval
    paraphrase_cosine: float
    changed_cosine: float
    margin: ConfidenceInterval
    items: tuple[MinimalPairResult, ...]

    def worst(self, limit: int) -> list[MinimalPairResult]:
        """Return the failed items with the lowest margins."""
        failed = (item for item in self.items if not item.passed)
        return sorted(failed, key=lambda item: item.margin)[:limit]

    def to_dict(self, examples: int = 0) -> dict[str, Any]:
        """Return the result as JSON, with the worst items instead of all."""
        fields = {key: value for key, value in vars(self).items() if key != "items"}
        fields |= {"accuracy": asdict(self.accuracy), "margin": asdict(self.margin)}
        return fields | {"worst": [item.to_dict() for item in self.worst(examples)]}


@dataclass(frozen=True)
class EmbeddingSpaceStats:
    """Geometry of the embeddings on the unit sphere; None with too few sentences or no variance.

    `alignment` is over `positive_pairs` pairs, everything else over `sentences`. `iso_score` is 1 where the variance
    is the same in every direction and 0 where all of it is in one.
    """

    sentences: int
    dimensions: int
    positive_pairs: int
    alignment: float | None
    uniformity: float | None
    mean_cosine: float | None
    top_1_variance: float | None
    top_10_variance: float | None
    iso_score: float | None


@dataclass(frozen=True)
class Diagnosis:
    """The result of each phenomenon, of all items together, and the geometry of the space."""

    phenomena: tuple[PhenomenonResult, ...]
    overall: PhenomenonResult | None
    space: EmbeddingSpaceStats

    def to_dict(self, examples: int = 0) -> dict[str, Any]:
        """Return the diagnosis as JSON, with `examples` of the worst items per phenomenon."""
        return {
            "phenomena": [result.to_dict(examples) for result in self.phenomena],
            "overall": self.overall.to_dict() if self.overall else None,
            "space": asdict(self.space),
        }


def diagnose(
    encoder: SupportsEncode,
    pairs: Sequence[MinimalPair] | None = None,
    sentences: Iterable[str] | None = None,
    positives: Sequence[tuple[str, str]] | None = None,
) -> Diagnosis:
    """Test an encoder on minimal pairs and measure its space; every distinct sentence is encoded once.

    Args:
        encoder: anything with `encode`.
        pairs: minimal pairs; the built-in ones by default.
        sentences: for uniformity and anisotropy; by default the anchors of the minimal pairs, which are about
            different topics. More than MAX_SENTENCES are sampled at equal distances.
        positives: paraphrases, for alignment; by default each anchor with its paraphrase.
    """
    items = load_minimal_pairs() if pairs is None else list(pairs)
    corpus = _evenly_spaced(list(dict.fromkeys([item.anchor for item in items] if sentences is None else sentences)))
    paraphrases = [(item.anchor, item.paraphrase) for item in items] if positives is None else list(positives)
    item_texts = [text for item in items for text in (item.anchor, item.paraphrase, item.changed)]
    texts = dict.fromkeys([*item_texts, *corpus, *(text for pair in paraphrases for text in pair)])
    if not texts:
        raise UsageError("there is nothing to diagnose: give minimal pairs or sentences")
    row_of = {text: row for row, text in enumerate(texts)}
    embeddings = _normalize(_encode(encoder, list(texts)))

    def rows(texts: Iterable[str]) -> Embeddings:
        return embeddings[[row_of[text] for text in texts]]

    anchors = rows(item.anchor for item in items)
    paraphrase_cosines = paired_cosine(anchors, rows(item.paraphrase for item in items)).tolist()
    changed_cosines = paired_cosine(anchors, rows(item.changed for item in items)).tolist()
    results = [
        MinimalPairResult(item, paraphrase_cosine, changed_cosine)
        for item, paraphrase_cosine, changed_cosine in zip(items, paraphrase_cosines, changed_cosines, strict=True)
    ]
    names = dict.fromkeys(item.phenomenon for item in items)
    return Diagnosis(
        tuple(_phenomenon(name, [result for result in results if result.item.phenomenon == name]) for name in names),
        _phenomenon("all", results) if results else None,
        space_stats(rows(corpus), rows(first for first, _ in paraphrases), rows(second for _, second in paraphrases)),
    )


def positive_pairs(rows: Iterable[Record]) -> list[tuple[str, str]]:
    """Return the paraphrases of a dataset: STS pairs from SAME_MEANING on, entailments, paraphrases, triplets.

    SimCSE (Gao et al. 2021, section 5) measures alignment on the pairs of STS-B above 4 and uniformity on all of its
    sentences; here 4 itself counts too, which the guidelines call "mostly equivalent".
    """
    pairs = []
    for row in rows:
        match row:
            case Triplet():
                pairs.append((row.anchor, row.positive))
            case ScoredPair() if row.score >= SAME_MEANING:
                pairs.append((row.sentence1, row.sentence2))
            case LabeledPair() if row.label in ("entailment", "1"):
                pairs.append((row.sentence1, row.sentence2))
    return pairs


def _phenomenon(name: str, items: Sequence[MinimalPairResult]) -> PhenomenonResult:
    count, passed = len(items), sum(item.passed for item in items)
    margins = np.array([item.margin for item in items])
    mean_margin = float(margins.mean())
    resampled = np.concatenate([margins @ counts for counts in draw_counts(count, 2_000, seed=0)]) / count
    return PhenomenonResult(
        phenomenon=name,
        count=count,
        passed=passed,
        tied=int((np.abs(margins) <= TIE).sum()),
        accuracy=wilson_interval(passed, count),
        paraphrase_cosine=float(np.mean([item.paraphrase_cosine for item in items])),
        changed_cosine=float(np.mean([item.changed_cosine for item in items])),
        margin=ConfidenceInterval(mean_margin, *confidence_limits(resampled, mean_margin)),
        items=tuple(items),
    )


# Geometry of the space; all rows below have length 1, or are all zeros.


def space_stats(sentences: Embeddings, first: Embeddings, second: Embeddings) -> EmbeddingSpaceStats:
    """Measure the space on embeddings of sentences and of paraphrases (`first[i]` and `second[i]`)."""
    count, dimensions = sentences.shape
    variance = principal_variance(sentences) if count > 1 else None
    if variance and variance.total < 1e-12:  # all vectors are equal
        variance = None
    return EmbeddingSpaceStats(
        sentences=count,
        dimensions=dimensions,
        positive_pairs=first.shape[0],
        alignment=alignment(first, second),
        uniformity=uniformity(sentences),
        mean_cosine=mean_cosine(sentences),
        top_1_variance=float(variance.largest[0]) / variance.total if variance else None,
        top_10_variance=float(variance.largest.sum()) / variance.total if variance else None,
        iso_score=iso_score(variance, dimensions) if variance else None,
    )


def alignment(first: Embeddings, second: Embeddings) -> float | None:
    """Return the mean squared distance of paraphrases, 0 to 4: lower is better (Wang & Isola 2020, α = 2)."""
    return float(np.mean(paired_distance(first, second, 2) ** 2)) if first.shape[0] else None


def uniformity(vectors: Embeddings) -> float | None:
    """Return log mean exp(-2 ‖x - y‖²) over all pairs, -8 to 0: lower is more uniform (Wang & Isola 2020, t = 2)."""
    count = vectors.shape[0]
    if count < 2:
        return None
    squares = paired_dot(vectors, vectors)
    total = 0.0
    for start in range(0, count, _BLOCK):
        rows = slice(start, start + _BLOCK)
        distances = squares[rows, None] + squares - 2 * _dot_products(vectors[rows], vectors)  # (block, count)
        total += float(np.exp(-2 * np.maximum(distances, 0)).sum())
    return float(np.log((total - count) / (count * (count - 1))))  # without each vector's pair with itself


def mean_cosine(vectors: Embeddings) -> float | None:
    """Return the mean cosine over all pairs: 0 without a preferred direction (anisotropy, Ethayarajh 2019)."""
    count = vectors.shape[0]
    if count < 2:
        return None
    total = np.asarray(vectors.sum(axis=0)).ravel()
    # ‖Σx‖² is the sum of all dot products; subtract those of the vectors with themselves.
    return float((total @ total - paired_dot(vectors, vectors).sum()) / (count * (count - 1)))


@dataclass(frozen=True)
class PrincipalVariance:
    """Variances λ of the principal components: their sum, the sum of their squares, the largest in descending order."""

    total: float
    squares: float
    largest: NDArray[np.float64]


def principal_variance(vectors: Embeddings, components: int = 10) -> PrincipalVariance:
    """Compute the variances of the principal components, of which only the largest need an eigendecomposition.

    The sums are the trace and the squared norm of the matrix. For TF-IDF on KorSTS dev this takes 3 s
    instead of 14 s.
    """
    count, dimensions = vectors.shape
    if issparse(vectors) or dimensions > count:
        # XXᵀ has the eigenvalues of XᵀX and is the smaller of the two; double centering it centers the vectors.
        gram = _dot_products(vectors, vectors)
        means = gram.mean(axis=0)
        matrix = gram - means - means[:, None] + means.mean()
    else:
        centered = np.asarray(vectors) - np.mean(vectors, axis=0)
        matrix = centered.T @ centered
    matrix = matrix / (count - 1)
    size = len(matrix)
    if size <= 20 * components:
        eigenvalues = np.linalg.eigvalsh(matrix)[-components:]
    else:
        start = np.random.default_rng(0).normal(size=size)  # fixed, so that every call gives the same result
        eigenvalues = eigsh(matrix, k=components, which="LA", v0=start, ncv=8 * components, return_eigenvectors=False)
    largest = np.maximum(np.sort(np.asarray(eigenvalues, np.float64))[::-1], 0)
    return PrincipalVariance(float(np.trace(matrix)), float((matrix**2).sum()), largest)


def iso_score(variance: PrincipalVariance, dimensions: int) -> float | None:
    """Return how evenly all dimensions are used, 0 to 1 (IsoScore, Rudman et al. 2022).

    The published steps reduce to (p - 1) / (d - 1), where p = (Σλ)² / Σλ² is the effective number of dimensions.
    """
    if dimensions < 2:
        return None
    return (variance.total**2 / variance.squares - 1) / (dimensions - 1)


def _dot_products(a: Embeddings, b: Embeddings) -> NDArray[np.float64]:
    """Return all dot products as a dense array, (rows of a, rows of b)."""
    product: Any = a @ b.T
    return np.asarray(product.toarray() if issparse(product) else product, np.float64)


def _normalize(vectors: Embeddings) -> Embeddings:
    """Scale rows to length 1 in float64; a row of zeros stays."""
    norms = np.sqrt(paired_dot(vectors, vectors))
    scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    return csr_matrix(diags_array(scale) @ vectors) if issparse(vectors) else vectors * scale[:, None]


def _encode(encoder: SupportsEncode, texts: list[str]) -> Embeddings:
    """Return one finite float64 row per text, dense or sparse."""
    encoded = encoder.encode(texts)
    vectors: Embeddings = (
        csr_matrix(encoded, dtype=np.float64) if issparse(encoded) else np.asarray(encoded, np.float64)
    )
    if vectors.ndim != 2 or vectors.shape[0] != len(texts):
        raise KosbertError(
            f"the model returned vectors of shape {vectors.shape} for {len(texts)} sentences: "
            "use one that returns one row per sentence"
        )
    if not np.isfinite(vectors.data if issparse(vectors) else vectors).all():
        raise KosbertError("the model returned vectors with NaN or infinity: train it again or use another one")
    return vectors


def _evenly_spaced(texts: list[str]) -> list[str]:
    """Sample at most MAX_SENTENCES at equal distances: datasets are sorted by source, and each gets its share."""
    if len(texts) <= MAX_SENTENCES:
        return texts
    return [texts[number * len(texts) // MAX_SENTENCES] for number in range(MAX_SENTENCES)]
