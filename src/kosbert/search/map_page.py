"""A map of sentences as one web page: no server, no network, nothing but itself. Point at a dot to read its sentence.

The page is built from `map_page.html` beside this file. Everything of the user's reaches it as JSON whose < > & are
written as escapes, and is shown as text, never as markup.
"""

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kosbert.search.backends.base import Vectors
from kosbert.search.clustering import Labels

MOST = 3_000
"""Sentences on a map; of more, a random choice is drawn."""


def layout(vectors: Vectors, seed: int) -> NDArray[np.float64]:
    """A place in the unit square for each vector, near ones near each other (t-SNE), (n, 2)."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    size = len(vectors)
    if size < 5:
        places = np.stack([np.arange(size), np.zeros(size)], axis=1).astype(np.float64)
    else:
        reduced = PCA(min(50, *vectors.shape), random_state=seed).fit_transform(vectors)
        perplexity = min(30.0, (size - 1) / 3)
        places = TSNE(2, init="pca", perplexity=perplexity, random_state=seed).fit_transform(reduced).astype(np.float64)
    places -= places.min(axis=0)
    return np.asarray(places / max(float(places.max(initial=0)), 1e-9))


def write_map(
    path: Path, vectors: Vectors, texts: Sequence[str], labels: Labels, topics: Sequence[Sequence[str]], *,
    title: str, seed: int = 0,
) -> None:  # fmt: skip
    """Write the page."""
    chosen = np.arange(len(texts))
    if len(chosen) > MOST:
        chosen = np.sort(np.random.default_rng(seed).choice(len(texts), MOST, replace=False))
    places = layout(vectors[chosen], seed)
    content = {
        "points": [
            [round(float(x) * 1_000, 1), round(float(y) * 1_000, 1), int(labels[place]), texts[place]]
            for (x, y), place in zip(places, chosen.tolist(), strict=True)
        ],
        "groups": [
            {"name": " · ".join(topic) or f"{number + 1}", "size": int((labels == number).sum())}
            for number, topic in enumerate(topics)
        ],
        "rest": int((labels < 0).sum()),
        "sentences": len(texts),
    }
    encoded = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        encoded = encoded.replace(sign, f"\\u{ord(sign):04x}")
    page = (files("kosbert.search") / "map_page.html").read_text(encoding="utf-8")
    page = page.replace("{{title}}", html.escape(title)).replace("{{content}}", encoded)
    draft = path.with_name(f".{path.name}.part")
    draft.write_text(page, encoding="utf-8", newline="\n")
    draft.replace(path)
