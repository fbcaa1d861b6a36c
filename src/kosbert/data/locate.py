"""Find the files of a data set: in the user's data directory, then in the cache, then by a verified download."""

import os
from pathlib import Path

from kosbert.data.download import fetch, verify
from kosbert.data.registry import Dataset, File
from kosbert.errors import KosbertError
from kosbert.files import cache_root, offline
from kosbert.progress import ProgressCallback


def user_data_dir() -> Path | None:
    """Return the user's data directory (`KOSBERT_DATA`), if one is set."""
    directory = os.environ.get("KOSBERT_DATA")
    return Path(directory).expanduser() if directory else None


def cache_dir() -> Path:
    """Return the directory of downloaded data sets."""
    return cache_root() / "data"


class MissingFileError(KosbertError):
    """A file of a data set is missing and could not be downloaded."""


def find(file: File, data_dir: Path | None = None) -> Path | None:
    """Return the local path of a file, plain or gzipped: `data_dir` or `KOSBERT_DATA` first, then the cache."""
    for root in (data_dir or user_data_dir(), cache_dir()):
        if root is not None:
            for path in (root / file.path, root / f"{file.path}.gz"):
                if path.is_file():
                    return path
    return None


def available(dataset: Dataset, split: str, data_dir: Path | None = None) -> bool:
    """Return whether a split can be read without a download."""
    return all(find(file, data_dir) for file in dataset.split(split)[1].files)


def verified(file: File, path: Path) -> bool | None:
    """Return whether a local file has the published bytes; None if the publisher gives no checksum."""
    if not file.checksum or file.member:
        return None
    gzipped = path.name == f"{Path(file.path).name}.gz"  # compressed by the user; the checksum is of the content
    return verify(path, file.checksum, gzipped=gzipped)


def locate(
    dataset: Dataset,
    split: str,
    *,
    data_dir: Path | None = None,
    download: bool | None = None,
    on_progress: ProgressCallback | None = None,
) -> list[Path]:
    """Return the files of a split; missing ones are downloaded unless `download` is False or the user is offline."""
    if data_dir is not None and not data_dir.is_dir():
        raise KosbertError(f"the data directory {data_dir} does not exist: create it or give another with --data-dir")
    download = not offline() if download is None else download
    paths = []
    for file in dataset.split(split)[1].files:
        path = find(file, data_dir)
        if path is None and download and file.url:
            target = cache_dir() / file.path
            path = fetch(file.url, target, checksum=file.checksum, member=file.member, on_progress=on_progress)
        if path is None:
            raise MissingFileError(_missing_message(dataset, file))
        paths.append(path)
    return paths


def _missing_message(dataset: Dataset, file: File) -> str:
    """Return an error message with the three ways to provide a file."""
    download = f"run `kosbert data fetch {dataset.name}`" if dataset.downloadable else f"get it from {dataset.home}"
    advice = f" ({dataset.how_to_get})" if dataset.how_to_get else ""
    return (
        f"{file.path} of {dataset.name} is missing: {download}{advice}, or put it at {cache_dir() / file.path}, "
        f"or set KOSBERT_DATA (or --data-dir) to a directory that contains {file.path}"
    )
