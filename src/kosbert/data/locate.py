"""Where the files of a data set are: the user's folder, then the cache, then a verified download."""

import os
from collections.abc import Callable
from pathlib import Path

from kosbert.data.download import fetch, verify
from kosbert.data.registry import Dataset, File
from kosbert.errors import KosbertError
from kosbert.files import cache_root

Progress = Callable[[str, int, int | None], None]
"""Called with a file's path, the bytes that are here and, where known, the bytes in all."""


def data_dir() -> Path | None:
    """The user's own data folder (`KOSBERT_DATA`), if one is set."""
    folder = os.environ.get("KOSBERT_DATA")
    return Path(folder).expanduser() if folder else None


def cache_dir() -> Path:
    """Where downloads go: `KOSBERT_CACHE`, or the platform's cache folder."""
    return cache_root() / "data"


def offline() -> bool:
    """Whether the user has forbidden the network (`KOSBERT_OFFLINE=1` or `HF_HUB_OFFLINE=1`)."""
    return any(
        os.environ.get(name, "").lower() in ("1", "true", "yes") for name in ("KOSBERT_OFFLINE", "HF_HUB_OFFLINE")
    )


class NotHereError(KosbertError):
    """A file of a data set is nowhere, and may not or cannot be downloaded."""


def find(file: File, folder: Path | None = None) -> Path | None:
    """A file that is here already, plain or gzipped: in `folder` or `KOSBERT_DATA` first, in the cache second."""
    for root in (folder or data_dir(), cache_dir()):
        if root is not None:
            for path in (root / file.path, root / f"{file.path}.gz"):
                if path.is_file():
                    return path
    return None


def available(dataset: Dataset, split: str, folder: Path | None = None) -> bool:
    """Whether a split can be read without a download."""
    return all(find(file, folder) for file in dataset.split(split)[1].files)


def verified(file: File, path: Path) -> bool | None:
    """Whether a file that is here has the published bytes; None where nothing was published to compare with."""
    if not file.checksum or file.member:
        return None
    packed = path.name == f"{Path(file.path).name}.gz"  # our own packing of the published bytes
    return verify(path, file.checksum, packed=packed)


def locate(
    dataset: Dataset,
    split: str,
    *,
    folder: Path | None = None,
    download: bool | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """The files of a split, downloading what is not here unless `download` is False or the user is offline."""
    if folder is not None and not folder.is_dir():
        raise KosbertError(f"the data folder {folder} does not exist: create it or give another with --data-dir")
    download = not offline() if download is None else download
    paths = []
    for file in dataset.split(split)[1].files:
        path = find(file, folder)
        if path is None and download and file.url:
            path = _download(file, progress)
        if path is None:
            raise NotHereError(_three_ways(dataset, file))
        paths.append(path)
    return paths


def _download(file: File, progress: Progress | None) -> Path:
    def report(done: int, total: int | None) -> None:
        if progress:
            progress(file.path, done, total)

    target = cache_dir() / file.path
    return fetch(file.url, target, checksum=file.checksum, member=file.member, progress=report)


def _three_ways(dataset: Dataset, file: File) -> str:
    fetching = f"run `kosbert data fetch {dataset.name}`" if dataset.downloadable else f"get it from {dataset.home}"
    advice = f" ({dataset.how_to_get})" if dataset.how_to_get else ""
    return (
        f"{file.path} of {dataset.name} is not here: {fetching}{advice}, or put it at {cache_dir() / file.path}, "
        f"or set KOSBERT_DATA (or --data-dir) to a folder that holds {file.path}"
    )
