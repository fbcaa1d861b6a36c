"""Published scores to compare with, each with its source and its caveats.

    published_scores("korsts-test")     # the order of training data, SimCSE in Korean, multilingual models
    published_scores("speed")           # sentences per second in the Sentence-BERT paper

The numbers are in `published_scores.json` as printed; numbers that could not be confirmed at their source are left out.
Besides splits such as `korsts-test` there are `sts-average`, `senteval-average` and `speed`.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from kosbert.data.registry import resolve
from kosbert.errors import UsageError


@dataclass(frozen=True)
class PublishedScore:
    """One published score. Correlations and accuracies are raw (0.855), whatever scale they were printed on."""

    dataset: str
    model: str
    metric: str
    value: float
    std: float | None
    table: str
    source: str
    url: str
    caveat: str
    by_epoch: tuple[float, ...] = ()
    """The score after every epoch, where it was published; `value` is that of the selected one."""


@cache
def all_published_scores() -> tuple[PublishedScore, ...]:
    """Load all published scores, in the order of the file."""
    tables = json.loads((files("kosbert.evaluation") / "published_scores.json").read_text(encoding="utf-8"))["tables"]
    scores = []
    for table in tables:
        for row in table["rows"]:
            caveat = " ".join(filter(None, (table["caveat"], row.get("caveat"))))
            stds = row.get("stds", [None] * len(row["values"]))
            for (dataset, metric), value, std in zip(table["columns"], row["values"], stds, strict=True):
                if value is None:
                    continue
                scores.append(
                    PublishedScore(
                        dataset,
                        row["model"],
                        metric,
                        value=round(value / table["scale"], 6),
                        std=None if std is None else round(std / table["scale"], 6),
                        table=table["name"],
                        source=table["source"],
                        url=table["url"],
                        caveat=caveat,
                        by_epoch=tuple(round(score / table["scale"], 6) for score in row.get("by_epoch", ())),
                    )
                )
    return tuple(scores)


def published_scores(dataset: str, metric: str = "") -> list[PublishedScore]:
    """Return the published scores of a split (`korsts` means its default split), of one metric or of all."""
    try:
        resolved, split = resolve(dataset)
        dataset = f"{resolved.name}-{split}"
    except UsageError:
        pass  # `speed` and the averages are not datasets, and a user's file has no published scores
    return [score for score in all_published_scores() if score.dataset == dataset and metric in ("", score.metric)]
