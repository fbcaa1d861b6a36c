"""Retrieval scores: recall@k, MRR and nDCG@k, of an index against exact search, and of a model by what it finds."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kosbert import data
from kosbert.data.records import LabeledPair, LabeledSentence
from kosbert.errors import UsageError, did_you_mean
from kosbert.search.encoding import load_encoder, unit_vectors
from kosbert.search.fusion import fuse
from kosbert.search.index import Index
from kosbert.search.lexical import Lexical, analyze, best_analyzer
from kosbert.search.topk import nearest_rows

if TYPE_CHECKING:
    from kosbert.model.encoder import SupportsEncode


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


def score(orders: Sequence[Sequence[str]], relevant: Sequence[Collection[str]], ks: Sequence[int]) -> RetrievalScores:
    """Average the measures over queries."""
    measures = {
        f"recall@{k}": float(np.mean([recall(*each, k) for each in zip(orders, relevant, strict=True)])) for k in ks
    }
    measures["mrr"] = float(np.mean([reciprocal_rank(*each) for each in zip(orders, relevant, strict=True)]))
    most = max(ks)
    measures[f"ndcg@{most}"] = float(np.mean([ndcg(*each, most) for each in zip(orders, relevant, strict=True)]))
    return RetrievalScores(len(orders), measures)


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
    orders, truth = index.nearest(vectors, k)[0], exact.nearest(vectors, k)[0]
    index.close()
    return score(orders, truth, (1, k))


SETS = ("parakqc", "klue-nli", "kornli")
"""What a model can be scored on: find paraphrases, or what a statement entails."""


def on_set(
    model: str, name: str, *, folder: Path | None = None, hybrid: bool = False, k: int = 10, progress: bool = False
) -> dict[str, RetrievalScores]:
    """Score a model by what it finds.

    parakqc: for each of 10,000 sentences the other nine of its group. klue-nli (dev) and kornli (test): for each
    premise the sentences that it entails, among all hypotheses, those that contradict it included.
    """
    if name not in SETS:
        raise UsageError(f"there is no retrieval set {name!r}: {did_you_mean(name, SETS)}")
    encoder = load_encoder(model, folder)
    if name == "parakqc":
        sentences = [row for row in data.load(name, data_dir=folder) if isinstance(row, LabeledSentence)]
        return paraphrases(encoder, sentences, hybrid=hybrid, k=k, progress=progress)
    split = "klue-nli-dev" if name == "klue-nli" else "kornli-test"
    pairs = [row for row in data.load(split, data_dir=folder) if isinstance(row, LabeledPair)]
    return entailments(encoder, pairs, hybrid=hybrid, k=k, progress=progress)


def paraphrases(
    encoder: "SupportsEncode",
    rows: Sequence[LabeledSentence],
    *,
    hybrid: bool = False,
    k: int = 10,
    progress: bool = False,
) -> dict[str, RetrievalScores]:
    """Search for each sentence among all others; relevant are those with its label. See `found` for the arguments."""
    groups: dict[str, set[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(row.label, set()).add(place)
    relevant = [groups[row.label] - {place} for place, row in enumerate(rows)]
    texts = [row.text for row in rows]
    return found(encoder, texts, texts, relevant, own=range(len(rows)), hybrid=hybrid, k=k, progress=progress)


def entailments(
    encoder: "SupportsEncode", rows: Sequence[LabeledPair], *, hybrid: bool = False, k: int = 10, progress: bool = False
) -> dict[str, RetrievalScores]:
    """Search with each premise among all hypotheses; relevant are those that it entails."""
    places = {text: place for place, text in enumerate(dict.fromkeys(row.sentence2 for row in rows))}
    entailed: dict[str, set[int]] = {}
    for row in rows:
        if row.label == "entailment":
            entailed.setdefault(row.sentence1, set()).add(places[row.sentence2])
    own = [places.get(premise, -1) for premise in entailed]  # a hypothesis that is the premise itself is no find
    wanted = [relevant - {place} for relevant, place in zip(entailed.values(), own, strict=True)]
    kept = [number for number, relevant in enumerate(wanted) if relevant]
    premises = list(entailed)
    return found(
        encoder, [premises[number] for number in kept], list(places), [wanted[number] for number in kept],
        own=[own[number] for number in kept], hybrid=hybrid, k=k, progress=progress,
    )  # fmt: skip


def found(
    encoder: "SupportsEncode",
    queries: Sequence[str],
    texts: Sequence[str],
    relevant: Sequence[Collection[int]],
    *,
    own: Sequence[int],
    hybrid: bool = False,
    k: int = 10,
    progress: bool = False,
) -> dict[str, RetrievalScores]:
    """Search for each query among the texts, and score the orders.

    Args:
        encoder: what makes the vectors.
        queries: what is searched for.
        texts: what is searched.
        relevant: for each query the places of the texts that should be found.
        own: for each query its own place among the texts, which does not count; -1 where it is not there.
        hybrid: also score words alone (BM25), and both together.
        k: how deep to look.
        progress: show a progress bar on standard error.
    """
    depth = 5 * k if hybrid else k
    vectors = unit_vectors(encoder, texts, progress=progress)
    asked = vectors if queries is texts else unit_vectors(encoder, queries, progress=progress)
    places = nearest_rows(asked, vectors, depth + 1)[0].tolist()
    orders = {"meaning": _but_own(places, own, depth)}
    if hybrid:
        words = analyze(best_analyzer(), texts)
        lexical = Lexical.build(words)
        asked_words = words if queries is texts else analyze(best_analyzer(), queries)
        orders["words"] = _but_own([list(lexical.best(each, depth + 1)) for each in asked_words], own, depth)
        orders["both"] = [list(fuse(*pair)) for pair in zip(orders["meaning"], orders["words"], strict=True)]
    names = [set(map(str, each)) for each in relevant]
    return {name: score([list(map(str, each[:k])) for each in order], names, (1, k)) for name, order in orders.items()}


def _but_own(orders: Sequence[Sequence[int]], own: Sequence[int], depth: int) -> list[list[int]]:
    return [[each for each in order if each != place][:depth] for order, place in zip(orders, own, strict=True)]
