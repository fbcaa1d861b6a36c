"""What data sets exist: a description, the splits with their files and row counts, and the reader that fits them.

The entries are in `catalogue.py`. A split is named `korsts-test`, `klue-sts-dev`, `sick-r` (its default split), …
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from kosbert.data.readers import Reader
from kosbert.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class File:
    """A file of a data set: its path below the data folder, its public home, its checksum.

    `checksum` is `sha256:…` or `git:…` (a git object name), of what `url` serves; without an address, that of the file
    itself, from the list beside this module. `member` names the file inside `url` when that is an archive. A data
    folder may also hold the file gzipped, with `.gz` added to its name.
    """

    path: str
    url: str = ""
    checksum: str = ""
    member: str = ""

    def __post_init__(self) -> None:
        if not self.url and self.path in _published():
            object.__setattr__(self, "checksum", f"sha256:{_published()[self.path]}")


@cache
def _published() -> Mapping[str, str]:
    """Checksums of files that have no address of their own, in the format of `sha256sum`."""
    lines = (files("kosbert.data") / "published.sha256").read_text(encoding="utf-8").splitlines()
    return {path: digest for digest, _, path in (line.partition("  ") for line in lines)}


@dataclass(frozen=True)
class Split:
    """A part of a data set. Without files it is made, not read.

    `rows` is checked whenever the split is read; it is None where the publisher names no exact number.
    """

    rows: int | None
    files: tuple[File, ...]
    read: Reader
    task: str = ""


@dataclass(frozen=True)
class Dataset:
    """One data set, as `kosbert data list` shows it."""

    name: str
    task: str
    language: str
    description: str
    home: str
    license: str
    citation: str
    splits: Mapping[str, Split] = field(repr=False)
    default: str = "test"
    how_to_get: str = ""

    def split(self, name: str = "") -> tuple[str, Split]:
        """A split by name, or the default one."""
        name = name or self.default
        if name not in self.splits:
            raise UsageError(f"{self.name} has no split {name!r}: {did_you_mean(name, self.splits)}")
        return name, self.splits[name]

    @property
    def downloadable(self) -> bool:
        """Whether every file has a public address."""
        return all(file.url for split in self.splits.values() for file in split.files)


def datasets() -> Mapping[str, Dataset]:
    """Every registered data set by name."""
    from kosbert.data.catalogue import CATALOGUE  # the entries need the classes above

    return CATALOGUE


def get(name: str) -> Dataset:
    """A data set by name; a wrong name is answered with the nearest ones."""
    known = datasets()
    if name not in known:
        raise UsageError(f"there is no data set {name!r}: {did_you_mean(name, known)}")
    return known[name]


def resolve(reference: str) -> tuple[Dataset, str]:
    """Split a reference such as `klue-sts-dev` into the data set and the name of the split."""
    known = datasets()
    if reference in known:
        return known[reference], known[reference].split()[0]
    for name, dataset in known.items():
        if reference.startswith(f"{name}-") and reference.removeprefix(f"{name}-") in dataset.splits:
            return dataset, reference.removeprefix(f"{name}-")
    raise UsageError(f"there is no data set or split {reference!r}: {did_you_mean(reference, references())}")


def references() -> Iterator[str]:
    """Every name that `resolve` understands."""
    for name, dataset in datasets().items():
        yield name
        yield from (f"{name}-{split}" for split in dataset.splits)
