"""Retrieval scores: recall@k, MRR and nDCG@k, of an index against exact search and of a model on ParaKQC."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kosbert import data
from kosbert.data.records import LabelledSentence
from kosbert.search.blocks import nearest_rows
from kosbert.search.encoding import load_encoder, unit_vectors
from kosbert.search.fusion import fuse
from kosbert.search.index import Index
from kosbert.search.lexical import Lexical, analyse, best_analyser

if TYPE_CHECKING:
    from kosbert.evaluation.sts import Encodes


@dataclass(frozen=True)
class RetrievalScores:
    """Averages over queries, such as {"recall@10": 0.97}."""

    queries: int
    measures: dict[str, float]


def recall(found: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Share of what is relevant, of k at most, that is among the first k."""
    return len(set(found[:k]) & set(relevant)) / min(k, len(relevant))


def reciprocal_rank(found: Sequence[str], relevant: Collection[str]) -> float:
    """One by the place of the first relevant hit, 0 without any."""
    return next((1 / place for place, each in enumerate(found, start=1) if each in relevant), 0.0)


def ndcg(found: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Discounted gain of the first k, as a share of what the best order would gain (Järvelin and Kekäläinen 2002)."""
    discounts = 1 / np.log2(np.arange(2, k + 2))
    gain = sum(discounts[place] for place, each in enumerate(found[:k]) if each in relevant)
    return float(gain / discounts[: min(k, len(relevant))].sum())


def score(found: Sequence[Sequence[str]], relevant: Sequence[Collection[str]], ks: Sequence[int]) -> RetrievalScores:
    """Average the measures over queries."""
    measures = {
        f"recall@{k}": float(np.mean([recall(*each, k) for each in zip(found, relevant, strict=True)])) for k in ks
    }
    measures["mrr"] = float(np.mean([reciprocal_rank(*each) for each in zip(found, relevant, strict=True)]))
    most = max(ks)
    measures[f"ndcg@{most}"] = float(np.mean([ndcg(*each, most) for each in zip(found, relevant, strict=True)]))
    return RetrievalScores(len(found), measures)


def against_exact(directory: Path, *, queries: int = 1_000, k: int = 10, seed: int = 0) -> RetrievalScores:
    """How much of what exact search finds an index finds, with some of its own sentences as queries.

    The exact search compares the model's own float32 vectors, so that what int8 loses counts as well.
    """
    index = Index.load(directory)
    texts = index.texts()
    exact = Index(index.encoder)
    exact.add(texts, ids=index.ids())
    chosen = np.random.default_rng(seed).choice(len(texts), min(queries, len(texts)), replace=False)
    vectors = unit_vectors(index.encoder, [texts[place] for place in chosen])
    found, truth = index.nearest(vectors, k)[0], exact.nearest(vectors, k)[0]
    index.close()
    return score(found, truth, (1, k))


def on_parakqc(
    model: str, *, folder: Path | None = None, hybrid: bool = False, k: int = 10, progress: bool = False
) -> dict[str, RetrievalScores]:
    """Search for each of the 10,000 sentences of ParaKQC: the other nine of its group are what should be found."""
    rows = [row for row in data.load("parakqc", folder=folder) if isinstance(row, LabelledSentence)]
    return paraphrases(load_encoder(model, folder), rows, hybrid=hybrid, k=k, progress=progress)


def paraphrases(
    encoder: "Encodes", rows: Sequence[LabelledSentence], *, hybrid: bool = False, k: int = 10, progress: bool = False
) -> dict[str, RetrievalScores]:
    """Search for each sentence among all others; relevant are those with its label.

    Args:
        encoder: what makes the vectors.
        rows: sentences, labelled with the number of their group.
        hybrid: also score words alone (BM25), and both together.
        k: how deep to look.
        progress: show a progress bar on standard error.
    """
    texts = [row.text for row in rows]
    groups: dict[str, set[str]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(row.label, set()).add(str(place))
    relevant = [groups[row.label] - {str(place)} for place, row in enumerate(rows)]
    depth = 5 * k if hybrid else k
    vectors = unit_vectors(encoder, texts, progress=progress)
    by_meaning = [
        [place for place in order if place != own][:depth]
        for own, order in enumerate(nearest_rows(vectors, vectors, depth + 1)[0].tolist())
    ]
    orders = {"meaning": by_meaning}
    if hybrid:
        words = analyse(best_analyser(), texts)
        lexical = Lexical.build(words)
        orders["words"] = [
            [place for place in lexical.best(query, depth + 1) if place != own][:depth]
            for own, query in enumerate(words)
        ]
        orders["both"] = [list(fuse(*pair)) for pair in zip(by_meaning, orders["words"], strict=True)]
    return {
        name: score([list(map(str, order[:k])) for order in found], relevant, (1, k)) for name, found in orders.items()
    }
