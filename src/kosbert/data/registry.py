"""Registry of data sets: description, splits with files, row counts and readers; look-up by name.

The entries are in `catalogue.py`. A split is referred to as `korsts-test`, `klue-sts-dev`, `sick-r` (default split), …
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from kosbert.data.readers import Reader
from kosbert.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class File:
    """A file of a data set. The data directory may also contain it gzipped, with `.gz` added to its name.

    Args:
        path: relative to the data directory.
        url: its public address, if it has one.
        checksum: `sha256:…` or `git:…` (a git blob name) of what `url` serves; without a URL, that of the file itself,
            from `published.sha256`.
        member: the file to extract if `url` is an archive.
    """

    path: str
    url: str = ""
    checksum: str = ""
    member: str = ""

    def __post_init__(self) -> None:
        if not self.url and self.path in _published_checksums():
            object.__setattr__(self, "checksum", f"sha256:{_published_checksums()[self.path]}")


@cache
def _published_checksums() -> Mapping[str, str]:
    """Return the checksums of files without a URL; the list has the format of `sha256sum`."""
    lines = (files("kosbert.data") / "published.sha256").read_text(encoding="utf-8").splitlines()
    return {path: digest for digest, _, path in (line.partition("  ") for line in lines)}


@dataclass(frozen=True)
class Split:
    """A part of a data set. A split without files is generated.

    `rows` is checked whenever the split is read; None if the publisher gives no exact number.
    """

    rows: int | None
    files: tuple[File, ...]
    read: Reader
    task: str = ""


@dataclass(frozen=True)
class Dataset:
    """A data set, as shown by `kosbert data list`."""

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
        """Return a split by name, or the default one."""
        name = name or self.default
        if name not in self.splits:
            raise UsageError(f"{self.name} has no split {name!r}: {did_you_mean(name, self.splits)}")
        return name, self.splits[name]

    @property
    def downloadable(self) -> bool:
        """Whether every file has a URL."""
        return all(file.url for split in self.splits.values() for file in split.files)


def datasets() -> Mapping[str, Dataset]:
    """Return the registered data sets by name."""
    from kosbert.data.catalogue import CATALOGUE  # the entries need the classes above

    return CATALOGUE


def get(name: str) -> Dataset:
    """Return a data set by name; the error for a wrong name suggests similar ones."""
    registered = datasets()
    if name not in registered:
        raise UsageError(f"there is no data set {name!r}: {did_you_mean(name, registered)}")
    return registered[name]


def resolve(reference: str) -> tuple[Dataset, str]:
    """Return the data set and the split name of a reference such as `klue-sts-dev`."""
    registered = datasets()
    if reference in registered:
        return registered[reference], registered[reference].split()[0]
    for name, dataset in registered.items():
        if reference.startswith(f"{name}-") and reference.removeprefix(f"{name}-") in dataset.splits:
            return dataset, reference.removeprefix(f"{name}-")
    raise UsageError(f"there is no data set or split {reference!r}: {did_you_mean(reference, references())}")


def references() -> Iterator[str]:
    """Yield every name that `resolve` accepts."""
    for name, dataset in datasets().items():
        yield name
        yield from (f"{name}-{split}" for split in dataset.splits)
