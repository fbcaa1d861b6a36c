"""From a name or a file to records: `load` reads a split, `read_file` a user's file, `read_records` either.

read_records("korsts-test")
read_records("my.csv", columns={"sentence1": "질문", "sentence2": "답", "score": "점수"})
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kosbert.data.locate import available, locate
from kosbert.data.readers import Maker, Reader, labeled, labeled_pair, reader, scored, sentence, triplet
from kosbert.data.records import Record
from kosbert.data.registry import resolve
from kosbert.data.tables import Table, user_format
from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.files import offline
from kosbert.progress import ProgressCallback

ROLES = ("anchor", "positive", "negative", "sentence1", "sentence2", "score", "label", "text")
"""What a column of a user's file can be used for."""


@dataclass(frozen=True)
class Source:
    """The files of a split or a user's file, not yet read. `rows` is the published row count, if there is one."""

    name: str
    paths: list[Path]
    read: Reader
    rows: int | None = None

    def records(self) -> Iterator[Record]:
        """Yield the records; at the end the row count must be the published one."""
        count = 0
        for record in self.read(self.paths):
            yield record
            count += 1
        check_row_count(self, count)


def check_row_count(source: Source, count: int) -> None:
    """Raise if a split has not the published number of rows."""
    if source.rows is not None and count != source.rows:
        files = ", ".join(map(str, source.paths)) or "the generator"
        raise KosbertError(
            f"{files} has {count:,} rows but {source.name} has {source.rows:,}: "
            "the file is truncated or from another release; get it again"
        )


def open_split(
    reference: str,
    *,
    data_dir: Path | None = None,
    download: bool | None = None,
    on_progress: ProgressCallback | None = None,
) -> Source:
    """Locate the files of a split; the arguments are those of `load`."""
    dataset, name = resolve(reference)
    split = dataset.splits[name]
    paths = locate(dataset, name, data_dir=data_dir, download=download, on_progress=on_progress)
    return Source(f"{dataset.name}-{name}", paths, split.read, split.rows)


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
    return list(open_split(reference, data_dir=data_dir, download=download, on_progress=on_progress).records())


def read_records(
    references: str | Sequence[str],
    *,
    columns: Mapping[str, str] | None = None,
    encoding: str = "",
    sheet: str = "",
    data_dir: Path | None = None,
    on_progress: ProgressCallback | None = None,
) -> list[Record]:
    """Read splits (`korsts-train`) and user files (`my.tsv`), one after the other.

    Args:
        references: one name or path, or several.
        columns: role -> column name, for files (see `read_file`).
        encoding: of text files; detected by default.
        sheet: of .xlsx files; the first by default.
        data_dir: where to look for data sets first.
        on_progress: called while files are downloaded.
    """
    sources = open_sources(
        references, columns=columns, encoding=encoding, sheet=sheet, data_dir=data_dir, on_progress=on_progress
    )
    return [record for source in sources for record in source.records()]


def open_sources(
    references: str | Sequence[str],
    *,
    columns: Mapping[str, str] | None = None,
    encoding: str = "",
    sheet: str = "",
    data_dir: Path | None = None,
    on_progress: ProgressCallback | None = None,
) -> Iterator[Source]:
    """Yield the sources behind names and paths; the arguments are those of `read_records`."""
    for reference in [references] if isinstance(references, str) else references:
        path = Path(reference)
        if path.is_file():
            yield open_file(path, columns, encoding=encoding, sheet=sheet)
        elif path.suffix and not path.name.startswith("."):  # no data set has a dot in its name
            raise UsageError(f"there is no file {reference}: give a path that exists or the name of a split")
        else:
            yield _open_split(reference, data_dir, on_progress)


def _open_split(reference: str, data_dir: Path | None, on_progress: ProgressCallback | None) -> Source:
    dataset, split = resolve(reference)
    try:
        return open_split(reference, data_dir=data_dir, on_progress=on_progress)
    except KosbertError as error:
        # Missing data that could not have been downloaded is wrong usage; a failed download is failed work.
        downloadable = dataset.downloadable and not offline()
        if downloadable or available(dataset, split, data_dir):
            raise
        raise UsageError(str(error)) from error


def read_file(
    path: str | Path, columns: Mapping[str, str] | None = None, *, encoding: str = "", sheet: str = ""
) -> list[Record]:
    """Read a user's file into records.

    The columns decide the kind of record: `anchor, positive, negative` give triplets; `sentence1, sentence2` with
    `score` or `label` give pairs; `text` with or without `label` gives sentences.

    Args:
        path: a file that `Table` reads (.csv, .tsv, .json, .jsonl, .parquet, .txt, .xlsx).
        columns: role (`sentence1`, `score`, …) -> the column name in the file, where they differ.
        encoding: of the text; detected by default.
        sheet: of an .xlsx file; the first by default.
    """
    return list(open_file(Path(path), columns, encoding=encoding, sheet=sheet).records())


def open_file(path: Path, columns: Mapping[str, str] | None = None, *, encoding: str = "", sheet: str = "") -> Source:
    """Open a user's file; the arguments are those of `read_file`."""
    columns = columns or {}
    for role in columns:
        if role not in ROLES:
            raise UsageError(f"{role!r} is not a role that a column can have: {did_you_mean(role, ROLES)}")
    format = user_format(path, encoding=encoding, sheet=sheet)
    first = next(Table(path, format).rows(), None)
    if first is None:
        raise KosbertError(f"{path} has no rows: give a file with at least one")
    return Source(str(path), [path], reader(format, _maker(path, set(map(str, first.fields)), columns)))


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
