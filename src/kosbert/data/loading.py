"""From a name or a file to records: `load` reads a split, `read_file` a user's file, `read_records` either.

read_records("korsts-test")
read_records("my.csv", columns={"sentence1": "질문", "sentence2": "답", "score": "점수"})
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from kosbert.data.locate import available, locate
from kosbert.data.readers import Maker, labeled, labeled_pair, scored, sentence, triplet
from kosbert.data.records import Record
from kosbert.data.registry import resolve
from kosbert.data.tables import Table
from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.files import offline
from kosbert.progress import ProgressCallback

ROLES = ("anchor", "positive", "negative", "sentence1", "sentence2", "score", "label", "text")
"""What a column of a user's file can be used for."""


def load(
    reference: str,
    *,
    data_dir: Path | None = None,
    download: bool | None = None,
    on_progress: ProgressCallback | None = None,
) -> list[Record]:
    """Read all rows of a split such as `korsts-test`; the row count must be the published one.

    Args:
        reference: a data set (its default split) or a split.
        data_dir: where to look for the files first; `KOSBERT_DATA` by default.
        download: whether missing files may be downloaded; by default unless `KOSBERT_OFFLINE` is set.
        on_progress: called while files are downloaded.
    """
    dataset, name = resolve(reference)
    split = dataset.splits[name]
    paths = locate(dataset, name, data_dir=data_dir, download=download, on_progress=on_progress)
    records = list(split.read(paths))
    if split.rows is not None and len(records) != split.rows:
        source = ", ".join(map(str, paths)) or "the generator"
        raise KosbertError(
            f"{source} has {len(records):,} rows but {dataset.name}-{name} has {split.rows:,}: "
            "the file is truncated or from another release; get it again"
        )
    return records


def read_records(
    references: str | Sequence[str],
    *,
    columns: Mapping[str, str] | None = None,
    data_dir: Path | None = None,
    on_progress: ProgressCallback | None = None,
) -> list[Record]:
    """Read splits (`korsts-train`) and user files (`my.tsv`), one after the other.

    Args:
        references: one name or path, or several.
        columns: role -> column name, for files (see `read_file`).
        data_dir: where to look for data sets first.
        on_progress: called while files are downloaded.
    """
    if isinstance(references, str):
        references = [references]
    records: list[Record] = []
    for reference in references:
        path = Path(reference)
        if path.is_file():
            records += read_file(path, columns)
        elif path.suffix and not path.name.startswith("."):  # no data set has a dot in its name
            raise UsageError(f"there is no file {reference}: give a path that exists or the name of a split")
        else:
            records += _load_split(reference, data_dir, on_progress)
    return records


def _load_split(reference: str, data_dir: Path | None, on_progress: ProgressCallback | None) -> list[Record]:
    dataset, split = resolve(reference)
    try:
        return load(reference, data_dir=data_dir, on_progress=on_progress)
    except KosbertError as error:
        # Missing data that could not have been downloaded is wrong usage; a broken file or download is failed work.
        downloadable = dataset.downloadable and not offline()
        if downloadable or available(dataset, split, data_dir):
            raise
        raise UsageError(str(error)) from error


def read_file(path: str | Path, columns: Mapping[str, str] | None = None) -> list[Record]:
    """Read a user's file into records.

    The columns decide the kind of record: `anchor, positive, negative` give triplets; `sentence1, sentence2` with
    `score` or `label` give pairs; `text` with or without `label` gives sentences.

    Args:
        path: a file that `Table` reads (.csv, .tsv, .json, .jsonl, .parquet, .txt).
        columns: role (`sentence1`, `score`, …) -> the column name in the file, where they differ.
    """
    path, columns = Path(path), dict(columns or {})
    for role in columns:
        if role not in ROLES:
            raise UsageError(f"{role!r} is not a role that a column can have: {did_you_mean(role, ROLES)}")
    rows = Table(path).rows()
    first = next(rows, None)
    if first is None:
        raise UsageError(f"{path} has no rows: give a file with at least one")
    make = _maker(path, set(map(str, first.fields)), columns)
    return [make(row) for row in chain([first], rows)]


def _maker(path: Path, present: set[str], columns: Mapping[str, str]) -> Maker:
    """Choose the kind of record by the columns that a file has."""
    for role, column in columns.items():
        if column not in present:
            raise UsageError(f"{path.name} has no column {column!r} for {role}: {did_you_mean(column, present)}")
    names = {role: columns.get(role, role) for role in ROLES}
    roles = {role for role, column in names.items() if column in present}
    if {"anchor", "positive", "negative"} <= roles:
        return triplet(names["anchor"], names["positive"], names["negative"])
    if {"sentence1", "sentence2", "score"} <= roles:
        return scored(names["sentence1"], names["sentence2"], names["score"])
    if {"sentence1", "sentence2", "label"} <= roles:
        return labeled_pair(names["sentence1"], names["sentence2"], names["label"], labels=())
    if {"text", "label"} <= roles:
        return labeled(names["text"], names["label"])
    if "text" in roles:
        return sentence(names["text"])
    raise UsageError(
        f"{path.name} has the columns {', '.join(sorted(present))}: say which are sentence1, sentence2 and score "
        "(or label; or text; or anchor, positive and negative)"
    )
