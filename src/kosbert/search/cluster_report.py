"""What `kosbert cluster` reports of a file: groups with topics, typical sentences, outliers and stability."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kosbert.errors import UsageError
from kosbert.model import load_any
from kosbert.search.clustering import Settings, centers, group, outliers, stability
from kosbert.search.encoding import unit_vectors
from kosbert.search.rows import read_rows
from kosbert.search.topics import label_groups


@dataclass(frozen=True)
class Group:
    """Sentences that belong together; `stability` is from 0 to 1, None where it was not measured."""

    size: int
    topic: list[str]
    representatives: list[str]
    cohesion: float
    stability: float | None


@dataclass(frozen=True)
class Grouped:
    """The groups of a file, the largest first, and for each sentence its line and the number of its group or -1."""

    method: str
    sentences: int
    groups: list[Group]
    outliers: list[str]
    unassigned: int
    stability: float | None
    lines: list[int]
    assignments: list[int]
    map: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def cluster(
    file: Path,
    *,
    settings: Settings,
    model: str = "builtin",
    text_column: str = "text",
    representatives: int = 3,
    resamples: int = 5,
    page: Path | None = None,
    progress: bool = False,
    report: Callable[[str], Any] | None = None,
) -> Grouped:
    """Group the sentences of a file.

    Args:
        file: any that `read_rows` reads.
        settings: how to group.
        model: what encodes.
        text_column: the column of the sentences.
        representatives: typical sentences that are shown of each group.
        resamples: how often to group anew, to see how stable the groups are; 0 for not at all.
        page: where to write a map of the sentences, as a web page of its own.
        progress: show a progress bar while encoding, on standard error.
        report: told what is being done.
    """
    if page and (page.suffix.lower() not in (".html", ".htm") or not page.parent.is_dir()):
        raise UsageError(f"the map is a web page: give a name that ends in .html in a folder that exists, not {page}")
    say = report or (lambda _: None)
    rows = read_rows(file, text=text_column)
    vectors = unit_vectors(load_any(model), rows.texts, progress=progress)
    say("grouping")
    labels = group(vectors, settings)
    say("naming the groups")
    topics = label_groups(rows.texts, labels)
    say("grouping again, to see what is stable")
    stable = stability(vectors, labels, settings, resamples=resamples) if resamples else [None] * len(topics)
    found = []
    for number, middle in enumerate(centers(vectors, labels)):
        inside = np.flatnonzero(labels == number)
        cosines = vectors[inside] @ middle
        typical = _different(
            [rows.texts[inside[place]] for place in np.argsort(-cosines, kind="stable")], representatives
        )
        found.append(Group(len(inside), topics[number], typical, float(cosines.mean()), stable[number]))
    far = outliers(vectors, labels)
    if page:
        say("drawing the map")
        from kosbert.search.map_page import write_map

        write_map(page, vectors, rows.texts, labels, topics, title=file.name, seed=settings.seed)
    sizes = np.array([each.size for each in found], np.float64)
    overall = float(np.average(np.array(stable, np.float64), weights=sizes)) if resamples and len(found) else None
    return Grouped(
        settings.method, len(labels), found, [rows.texts[place] for place in far[:50]], int((labels < 0).sum()),
        overall, rows.lines, labels.tolist(), str(page) if page else "",
    )  # fmt: skip


def _different(texts: list[str], most: int) -> list[str]:
    """The first few texts, each once."""
    return list(dict.fromkeys(texts))[:most]
