"""What others have published, to stand beside our scores: every number with its source and its caveat.

    anchors("korsts-test")          # the orders of training data, SimCSE in Korean, multilingual models
    anchors("speed")                # sentences per second in the Sentence-BERT paper

The figures are in `anchors.json`, as printed; a figure that could not be confirmed at its source is not there. Beside
`korsts-test` and the other splits there are `sts-average`, `senteval-average` and `speed`.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from kosbert.data.registry import resolve
from kosbert.errors import UsageError


@dataclass(frozen=True)
class PublishedScore:
    """One published figure. Correlations and accuracies are raw (0.855), whatever scale they were printed on."""

    dataset: str
    model: str
    measure: str
    value: float
    deviation: float | None
    table: str
    source: str
    address: str
    caveat: str


@cache
def all_published_scores() -> tuple[PublishedScore, ...]:
    """All published figures, in the order of the file."""
    tables = json.loads((files("kosbert.evaluation") / "published_scores.json").read_text(encoding="utf-8"))["tables"]
    found = []
    for table in tables:
        for row in table["rows"]:
            caveat = " ".join(filter(None, (table["caveat"], row.get("caveat"))))
            spreads = row.get("deviations", [None] * len(row["values"]))
            for (dataset, measure), value, spread in zip(table["columns"], row["values"], spreads, strict=True):
                if value is None:
                    continue
                raw = round(value / table["scale"], 6)
                deviation = None if spread is None else round(spread / table["scale"], 6)
                origin = (table["name"], table["source"], table["address"], caveat)
                found.append(PublishedScore(dataset, row["model"], measure, raw, deviation, *origin))
    return tuple(found)


def published_scores(dataset: str, measure: str = "") -> list[PublishedScore]:
    """Published figures for a split (`korsts` is its default split, `korsts-test`), of one measure or of all."""
    try:
        known, split = resolve(dataset)
        dataset = f"{known.name}-{split}"
    except UsageError:
        pass  # `speed` and the averages are no data sets, and a user's file has no anchors
    return [each for each in all_published_scores() if each.dataset == dataset and measure in ("", each.measure)]
