"""What a model understands of Korean, and how it uses its space.

    diagnosis = diagnose(model)
    diagnosis.findings[0].share          # of the negation items: how many pass, with its interval
    diagnosis.space.uniformity

An item of the minimal pairs passes if the paraphrase is nearer to the anchor than the sentence with another meaning:
an accuracy that needs no threshold and does not depend on the model's scale. A tie does not pass, so chance is 50%
less half of the ties, and a model that gives one vector to everything gets 0. Ties are counted: many of them say that
the model does not see the difference. Methods that see only the surface are far below chance where meaning changes.

The numbers of the space are those of vectors of length 1, because cosines see nothing else. They depend on the
sentences and, those of the principal components, on how many there are: compare models on the same sentences only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags_array, issparse
from scipy.sparse.linalg import eigsh
from scipy.stats import binomtest

from kosbert.data.minimal_pairs import MinimalPair, load_minimal_pairs
from kosbert.data.records import LabeledPair, Record, ScoredPair, Triplet
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation.resampling import draw_counts
from kosbert.evaluation.significance import Interval, confidence_limits
from kosbert.evaluation.sts import Vectors, paired_cosine, paired_distance, paired_dot
from kosbert.model.encoder import SupportsEncode

LARGEST_SAMPLE = 4_000  # sentences: 8 million pairs, and principal components in a second or two
TIE = 1e-6  # cosines this near differ by the rounding of float32; a tie does not pass
SAME_MEANING = 4.0  # of 5, from which on two sentences of an STS set count as saying the same

_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Outcome:
    """An item of the minimal pairs with the cosines that a model gave it."""

    item: MinimalPair
    kept: float
    changed: float

    @property
    def margin(self) -> float:
        """How much nearer the sentence with the same meaning is."""
        return self.kept - self.changed

    @property
    def passed(self) -> bool:
        """Whether the sentence with the same meaning is nearer."""
        return self.margin > TIE

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self.item) | {"similarity_kept": self.kept, "similarity_changed": self.changed}


@dataclass(frozen=True)
class Finding:
    """A phenomenon: how many items pass, and how far apart the two similarities are on average."""

    phenomenon: str
    count: int
    passed: int
    tied: int
    share: Interval
    similarity_kept: float
    similarity_changed: float
    margin: Interval
    outcomes: tuple[Outcome, ...]

    def worst(self, most: int) -> list[Outcome]:
        """Those of the items that fail which are furthest from passing."""
        failed = (outcome for outcome in self.outcomes if not outcome.passed)
        return sorted(failed, key=lambda outcome: outcome.margin)[:most]

    def to_dict(self, examples: int = 0) -> dict[str, Any]:
        """As JSON, with the worst items instead of all of them."""
        shown = {key: value for key, value in vars(self).items() if key != "outcomes"}
        shown |= {"share": asdict(self.share), "margin": asdict(self.margin)}
        return shown | {"worst": [outcome.to_dict() for outcome in self.worst(examples)]}


@dataclass(frozen=True)
class Space:
    """How the vectors lie on the sphere; None where there are too few sentences or no variance.

    `alignment` is over `positives` pairs, the rest over `sentences`. `iso_score` is 1 where the variance is the same
    in every direction and 0 where all of it is in one.
    """

    sentences: int
    dimensions: int
    positives: int
    alignment: float | None
    uniformity: float | None
    mean_cosine: float | None
    top_1_share: float | None
    top_10_share: float | None
    iso_score: float | None


@dataclass(frozen=True)
class Diagnosis:
    """All findings, their sum, and the space."""

    findings: tuple[Finding, ...]
    overall: Finding | None
    space: Space

    def to_dict(self, examples: int = 0) -> dict[str, Any]:
        """As JSON, with so many of the worst items a phenomenon."""
        return {
            "phenomena": [finding.to_dict(examples) for finding in self.findings],
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
        pairs: minimal pairs; ours by default.
        sentences: for uniformity and anisotropy; by default the anchors of the minimal pairs, which are about
            different things. Of more than LARGEST_SAMPLE, every so-many-th is taken.
        positives: pairs that say the same, for alignment; by default each anchor with what keeps its meaning.
    """
    items = load_minimal_pairs() if pairs is None else list(pairs)
    corpus = _spread(list(dict.fromkeys([item.anchor for item in items] if sentences is None else sentences)))
    same = [(item.anchor, item.kept) for item in items] if positives is None else list(positives)
    triples = [text for item in items for text in (item.anchor, item.kept, item.changed)]
    place = {text: row for row, text in enumerate(dict.fromkeys([*triples, *corpus, *(t for p in same for t in p)]))}
    if not place:
        raise UsageError("there is nothing to diagnose: give minimal pairs or sentences")
    vectors = _unit(_encoded(encoder, list(place)))

    def rows(texts: Iterable[str]) -> Vectors:
        return vectors[[place[text] for text in texts]]

    anchors = rows(item.anchor for item in items)
    kept, changed = (
        paired_cosine(anchors, rows(texts)).tolist()
        for texts in ([item.kept for item in items], [item.changed for item in items])
    )
    outcomes = [Outcome(*each) for each in zip(items, kept, changed, strict=True)]
    names = dict.fromkeys(item.phenomenon for item in items)
    findings = (_finding(name, [each for each in outcomes if each.item.phenomenon == name]) for name in names)
    return Diagnosis(
        tuple(findings),
        _finding("all", outcomes) if outcomes else None,
        measure(rows(corpus), rows(one for one, _ in same), rows(other for _, other in same)),
    )


def positives_of(rows: Iterable[Record]) -> list[tuple[str, str]]:
    """Pairs of a data set that say the same: STS from SAME_MEANING on, entailments, paraphrases, triplets.

    SimCSE (Gao et al. 2021, section 5) measures alignment on the pairs of STS-B above 4 and uniformity on all of its
    sentences; we count the 4 itself, which the guidelines call "mostly equivalent".
    """
    found = []
    for row in rows:
        match row:
            case Triplet():
                found.append((row.anchor, row.positive))
            case ScoredPair() if row.score >= SAME_MEANING:
                found.append((row.sentence1, row.sentence2))
            case LabeledPair() if row.label in ("entailment", "1"):
                found.append((row.sentence1, row.sentence2))
    return found


# ---------------------------------------------------------------- minimal pairs


def _finding(name: str, outcomes: Sequence[Outcome]) -> Finding:
    count, passed = len(outcomes), sum(outcome.passed for outcome in outcomes)
    margins = np.array([outcome.margin for outcome in outcomes])
    center = float(margins.mean())
    drawn = np.concatenate([margins @ counts for counts in draw_counts(count, 2_000, seed=0)]) / count
    return Finding(
        name,
        count,
        passed,
        int((np.abs(margins) <= TIE).sum()),
        wilson(passed, count),
        float(np.mean([outcome.kept for outcome in outcomes])),
        float(np.mean([outcome.changed for outcome in outcomes])),
        Interval(center, *confidence_limits(drawn, center)),
        tuple(outcomes),
    )


def wilson(successes: int, trials: int, level: float = 0.95) -> Interval:
    """A share with its score interval (Wilson 1927), which holds at 0 and 1, where a bootstrap has no width."""
    found = binomtest(successes, trials).proportion_ci(level, method="wilson")
    return Interval(successes / trials, float(found.low), float(found.high))


# ---------------------------------------------------------------- the space; rows are of length 1 (or all zero)


def measure(sentences: Vectors, first: Vectors, second: Vectors) -> Space:
    """Describe the space by vectors of sentences and by those of pairs that say the same."""
    count, dimensions = sentences.shape
    variance = principal(sentences) if count > 1 else None
    if variance and variance.total < 1e-12:  # all vectors are one
        variance = None
    return Space(
        count,
        dimensions,
        first.shape[0],
        alignment(first, second),
        uniformity(sentences),
        mean_cosine(sentences),
        float(variance.largest[0]) / variance.total if variance else None,
        float(variance.largest.sum()) / variance.total if variance else None,
        iso_score(variance, dimensions) if variance else None,
    )


def alignment(first: Vectors, second: Vectors) -> float | None:
    """Mean squared distance of pairs that say the same, 0 to 4: less is better (Wang & Isola 2020, α = 2)."""
    return float(np.mean(paired_distance(first, second, 2) ** 2)) if first.shape[0] else None


def uniformity(vectors: Vectors) -> float | None:
    """Log of the mean of exp(-2 ‖x - y‖²) over all pairs, -8 to 0: less is better spread (Wang & Isola 2020, t = 2)."""
    count = vectors.shape[0]
    if count < 2:
        return None
    squares = _dots(vectors, slice(None), diagonal=True)
    total = 0.0
    for start in range(0, count, _BLOCK):
        rows = slice(start, start + _BLOCK)
        distances = squares[rows, None] + squares - 2 * _dots(vectors, rows)  # (block, count)
        total += float(np.exp(-2 * np.maximum(distances, 0)).sum())
    return float(np.log((total - count) / (count * (count - 1))))  # without each vector's pair with itself


def mean_cosine(vectors: Vectors) -> float | None:
    """Mean cosine over all pairs: 0 in a space without a preferred direction (anisotropy, Ethayarajh 2019)."""
    count = vectors.shape[0]
    if count < 2:
        return None
    center = np.asarray(vectors.sum(axis=0)).ravel()
    # ‖Σx‖² is the sum of all dot products; those of the vectors with themselves are taken off.
    return float((center @ center - _dots(vectors, slice(None), diagonal=True).sum()) / (count * (count - 1)))


@dataclass(frozen=True)
class Variance:
    """Along the principal components: the sum λ₁ + λ₂ + …, the sum of squares, and the ten largest, largest first."""

    total: float
    squares: float
    largest: NDArray[np.float64]


def principal(vectors: Vectors, most: int = 10) -> Variance:
    """The variances of the principal components, of which only the largest need computing.

    The sums are the trace and the squared norm of the matrix; all eigenvalues of TF-IDF on KorSTS dev took 14 s, not 3.
    """
    count, dimensions = vectors.shape
    if issparse(vectors) or dimensions > count:
        # XXᵀ has the eigenvalues of XᵀX and is the smaller of the two; centring it is centring the vectors.
        gram = _dots(vectors, slice(None))
        means = gram.mean(axis=0)
        matrix = gram - means - means[:, None] + means.mean()
    else:
        centered = np.asarray(vectors) - np.mean(vectors, axis=0)
        matrix = centered.T @ centered
    matrix = matrix / (count - 1)
    size = len(matrix)
    if size <= 20 * most:
        found = np.linalg.eigvalsh(matrix)[-most:]
    else:
        start = np.random.default_rng(0).normal(size=size)  # given, so that every call gives the same
        found = eigsh(matrix, k=most, which="LA", v0=start, ncv=8 * most, return_eigenvectors=False)
    largest = np.maximum(np.sort(np.asarray(found, np.float64))[::-1], 0)
    return Variance(float(np.trace(matrix)), float((matrix**2).sum()), largest)


def iso_score(variance: Variance, dimensions: int) -> float | None:
    """How evenly all dimensions are used, 0 to 1 (IsoScore, Rudman et al. 2022).

    The published steps reduce to (p - 1) / (d - 1), where p = (Σλ)² / Σλ² is the number of dimensions in use.
    """
    if dimensions < 2:
        return None
    return (variance.total**2 / variance.squares - 1) / (dimensions - 1)


def _dots(vectors: Vectors, rows: slice, *, diagonal: bool = False) -> NDArray[np.float64]:
    """Dot products of some vectors with all, (rows, n); or of each of them with itself, (rows,)."""
    chosen = vectors[rows]
    if diagonal:
        return paired_dot(chosen, chosen)
    product: Any = chosen @ vectors.T
    return np.asarray(product.toarray() if issparse(product) else product, np.float64)


def _unit(vectors: Vectors) -> Vectors:
    """Rows of length 1 in float64; a row of zeros stays."""
    norms = np.sqrt(_dots(vectors, slice(None), diagonal=True))
    scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    return csr_matrix(diags_array(scale) @ vectors) if issparse(vectors) else vectors * scale[:, None]


def _encoded(encoder: SupportsEncode, texts: list[str]) -> Vectors:
    """One finite float64 row a text, dense or sparse."""
    found = encoder.encode(texts)
    vectors: Vectors = csr_matrix(found, dtype=np.float64) if issparse(found) else np.asarray(found, np.float64)
    if vectors.ndim != 2 or vectors.shape[0] != len(texts):
        raise KosbertError(
            f"the model gave vectors of shape {vectors.shape} for {len(texts)} sentences: use one that gives one each"
        )
    if not np.isfinite(vectors.data if issparse(vectors) else vectors).all():
        raise KosbertError("the model gave vectors with NaN or infinity: train it again or use another one")
    return vectors


def _spread(texts: list[str]) -> list[str]:
    """At most LARGEST_SAMPLE, at equal distances: data sets are sorted by source, and each should have its share."""
    if len(texts) <= LARGEST_SAMPLE:
        return texts
    return [texts[place * len(texts) // LARGEST_SAMPLE] for place in range(LARGEST_SAMPLE)]
