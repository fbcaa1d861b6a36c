"""The user's own files: CSV, TSV, JSON, JSON Lines, Parquet or plain text, with columns named by the user.

    read_file("my.csv", columns={"sentence1": "질문", "sentence2": "답", "score": "점수"})

The kind of rows follows from the roles that are there: `anchor, positive, negative` give triplets; `sentence1,
sentence2` with `score` or `label` give pairs; `text` with or without `label` gives sentences.
"""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path

from kosbert.data.readers import (
    Maker,
    Parser,
    comma_separated,
    json_lines,
    json_list,
    labeled,
    labeled_pair,
    parquet,
    plain_lines,
    scored,
    sentence,
    tab_separated,
    triplet,
)
from kosbert.data.records import Record
from kosbert.errors import UsageError, did_you_mean

PARSERS: dict[str, Parser] = {
    ".csv": comma_separated(),
    ".tsv": tab_separated(),
    ".json": json_list(),
    ".jsonl": json_lines(),
    ".ndjson": json_lines(),
    ".parquet": parquet(),
    ".txt": plain_lines(),
}
"""How a file is read, by its ending."""
ROLES = ("anchor", "positive", "negative", "sentence1", "sentence2", "score", "label", "text")


def read_file(path: str | Path, columns: Mapping[str, str] | None = None) -> list[Record]:
    """Read the user's own file; `columns` maps our roles (`sentence1`, `score`, …) to the file's column names."""
    path, columns = Path(path), dict(columns or {})
    for role in columns:
        if role not in ROLES:
            raise UsageError(f"{role!r} is not a role that a column can have: {did_you_mean(role, ROLES)}")
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in PARSERS:
        raise UsageError(
            f"{path.name} has no known ending: use one of {', '.join(PARSERS)}, all but Parquet also as .gz"
        )
    rows = PARSERS[suffix](path)
    first = next(rows, None)
    if first is None:
        raise UsageError(f"{path} has no rows: give a file with at least one")
    make = _maker(path, set(map(str, first.fields)), columns)
    return [make(row) for row in chain([first], rows)]


def _maker(path: Path, present: set[str], columns: dict[str, str]) -> Maker:
    """Choose the kind of record by the roles that the file can fill."""
    for role, column in columns.items():
        if column not in present:
            raise UsageError(f"{path.name} has no column {column!r} for {role}: {did_you_mean(column, present)}")
    name = {role: columns.get(role, role) for role in ROLES}
    has = {role for role, column in name.items() if column in present}
    if {"anchor", "positive", "negative"} <= has:
        return triplet(name["anchor"], name["positive"], name["negative"])
    if {"sentence1", "sentence2", "score"} <= has:
        return scored(name["sentence1"], name["sentence2"], name["score"])
    if {"sentence1", "sentence2", "label"} <= has:
        return labeled_pair(name["sentence1"], name["sentence2"], name["label"], labels=())
    if {"text", "label"} <= has:
        return labeled(name["text"], name["label"])
    if "text" in has:
        return sentence(name["text"])
    raise UsageError(
        f"{path.name} has the columns {', '.join(sorted(present))}: say which are sentence1, sentence2 and score "
        "(or label; or text; or anchor, positive and negative)"
    )
