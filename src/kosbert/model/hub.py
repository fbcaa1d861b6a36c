"""Models on the Hugging Face hub: from `NAME` or `NAME@REVISION` to a directory with safetensors.

Downloads go to the hub's own cache, without pickles, code and the weights of other frameworks. A repository that has
its weights only as pickle is converted once (`pickled_weights`), from the official conversion if there is one.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from kosbert.errors import KosbertError, UsageError
from kosbert.files import cache_root, disk_error, offline, offline_variable
from kosbert.model.pickled_weights import (
    WEIGHTS_INDEX,
    convert,
    folders_without_safetensors,
    is_weights_pickle,
    link_safetensors,
    missing_pickles,
)

# Enough for every encoder; pickles and the ONNX and TensorFlow copies of the weights are not downloaded.
_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_CONVERTER = "SFconvertbot"  # the hub's own account; its pull request has the same weights as safetensors
_CONVERSION_TITLE = "Adding `safetensors` variant of this model"
_TIMEOUT = 20.0  # seconds until the hub must have answered


def split_revision(name: str) -> tuple[str, str | None]:
    """Return repository and revision of `NAME@REVISION`; the revision is None if there is no @."""
    repository, at, revision = name.partition("@")
    if at and not revision:
        raise UsageError(f"{name} ends with @: give a branch, a tag or a commit after it, or leave it out")
    return repository, revision or None


def hub_directory(name: str, *, download: bool = True) -> Path:
    """Return the directory of a model on the hub; what is not cached is downloaded, unless the user is offline.

    Args:
        name: a Hugging Face name; `@` and a branch, tag, commit or `refs/pr/N` may follow.
        download: False uses the network for nothing.
    """
    repository, revision = split_revision(name)
    with _one_sentence(name):
        snapshot = _snapshot(repository, revision, _FILES, download=download)
        if '"model.onnx"' in _card(snapshot):  # kosbert export has written it; other ONNX files are not for kosbert
            return _snapshot(repository, revision, [*_FILES, "model.onnx"], download=download)
        if not folders_without_safetensors(snapshot):
            return snapshot
        target = cache_root() / "converted" / repository.replace("/", "--") / snapshot.name
        if target.is_dir():
            return target
        if missing_pickles(snapshot):
            if not download or offline():
                raise FileNotFoundError(f"the weights of {name} are not in the cache")
            if revision is None and _use_official_conversion(repository, snapshot, target):
                return target
            _download_pickles(repository, snapshot)
        return convert(snapshot, target, {"repository": repository, "commit": snapshot.name})


def _snapshot(repository: str, revision: str | None, patterns: list[str], *, download: bool = True) -> Path:
    """Return the directory of a commit in the hub's cache; without an answer of the hub what is cached is enough."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RevisionNotFoundError

    reason: Exception | None = None
    if download and not offline():
        try:
            # snapshot_download would wait for an answer without a limit.
            info = HfApi().model_info(repository, revision=revision, timeout=_TIMEOUT)
            names = [sibling.rfilename for sibling in info.siblings or ()]
            files = [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
            cached = _complete_snapshot(repository, revision, info.sha, files)
            return cached or Path(snapshot_download(repository, revision=revision, allow_patterns=patterns))
        except (HFValidationError, RevisionNotFoundError):
            raise
        except Exception as error:
            reason = error
    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=patterns, local_files_only=True))
    except LocalEntryNotFoundError as error:
        raise reason or error from None


def _complete_snapshot(repository: str, revision: str | None, commit: str | None, files: Iterable[str]) -> Path | None:
    """Return the cached directory of a commit if it has all files: then nothing is downloaded, and no bar is shown."""
    from huggingface_hub import try_to_load_from_cache

    paths = {file: try_to_load_from_cache(repository, file, revision=revision) for file in files}
    if not all(isinstance(path, str) for path in paths.values()):
        return None
    snapshots = {Path(str(path).removesuffix(file)) for file, path in paths.items()}
    (snapshot,) = snapshots if len(snapshots) == 1 else (None,)
    return snapshot if snapshot and snapshot.name == commit else None


def _card(directory: Path) -> str:
    file = directory / "kosbert.json"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _use_official_conversion(repository: str, snapshot: Path, target: Path) -> bool:
    """Download the pull request with safetensors, if it was made from the very same pickles; return whether it was."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        discussions = HfApi().get_repo_discussions(
            repository, author=_CONVERTER, discussion_type="pull_request", discussion_status="open"
        )
        references = [
            discussion.git_reference
            for discussion in discussions
            if discussion.author == _CONVERTER and discussion.title == _CONVERSION_TITLE
        ]
        if not references or references[0] is None:
            return False
        commit = HfApi().model_info(repository, revision=references[0], timeout=_TIMEOUT).sha
        pickles, conversion = (_lfs_checksums(repository, revision) for revision in (snapshot.name, commit))
    except HfHubHTTPError:  # the repository has no discussions
        return False
    pickles = {path: digest for path, digest in pickles.items() if is_weights_pickle(path)}
    if not pickles or any(conversion.get(path) != digest for path, digest in pickles.items()):
        return False  # main has changed since the conversion
    weights = _snapshot(repository, commit, ["*.safetensors", "*.safetensors.index.json"])
    folders = [folder.relative_to(snapshot) for folder in folders_without_safetensors(snapshot)]
    if not all(any((weights / folder).glob("model*.safetensors")) for folder in folders):
        return False
    origin = {"repository": repository, "commit": snapshot.name, "files": pickles}
    link_safetensors(snapshot, weights, target, origin | {"conversion": f"{references[0]}, commit {commit}"})
    return True


def _lfs_checksums(repository: str, commit: str | None) -> dict[str, str]:
    from huggingface_hub import HfApi

    entries: list[Any] = list(HfApi().list_repo_tree(repository, recursive=True, revision=commit))
    return {entry.path: entry.lfs.sha256 for entry in entries if getattr(entry, "lfs", None)}


def _download_pickles(repository: str, snapshot: Path) -> None:
    """Download the pickled weights that are missing, next to the other files of the commit."""
    from huggingface_hub import HfApi, snapshot_download

    folders = [folder.relative_to(snapshot).as_posix() for folder in folders_without_safetensors(snapshot)]
    entries = HfApi().list_repo_tree(repository, recursive=True, revision=snapshot.name)
    paths = [
        entry.path
        for entry in entries
        if is_weights_pickle(entry.path) and (Path(entry.path).parent.as_posix() in folders)
    ]
    if not paths:
        raise UsageError(
            f"{repository} has weights neither as safetensors nor as pytorch_model.bin, so it cannot be loaded with "
            "torch: choose another model"
        )
    patterns = [*paths, *(f"{folder}/{WEIGHTS_INDEX}" if folder != "." else WEIGHTS_INDEX for folder in folders)]
    snapshot_download(repository, revision=snapshot.name, allow_patterns=patterns)


@contextmanager
def _one_sentence(name: str) -> Iterator[None]:
    """Turn every error of the hub and of the network into one sentence with the fix."""
    try:
        yield
    except KosbertError:
        raise
    except Exception as error:
        raise _explained(name, error) from error


def _explained(name: str, error: Exception) -> KosbertError:
    from huggingface_hub import errors

    repository, revision = split_revision(name)
    status = getattr(getattr(error, "response", None), "status_code", None)
    match error:
        case errors.HFValidationError():
            return UsageError(f"there is no directory {name}; give a directory, a Hugging Face name or builtin")
        case errors.GatedRepoError():
            return KosbertError(
                f"{repository} is gated: accept its conditions on https://huggingface.co/{repository}, "
                "then run `hf auth login`; the next attempt will load it"
            )
        case errors.RepositoryNotFoundError():
            return UsageError(
                f"{repository} is neither a directory nor a public model on the hub: check the spelling; a private "
                "model needs `hf auth login`"
            )
        case errors.RevisionNotFoundError():
            return UsageError(
                f"{repository} has no revision {revision}: give a branch, a tag or a commit, or leave out the @"
            )
        case _ if status in (401, 403):
            return KosbertError(f"the hub denies access to {repository}: run `hf auth login`; or choose another model")
        case _ if offline() and isinstance(error, FileNotFoundError):
            return KosbertError(
                f"the model {name} is neither a directory nor in the cache, and {offline_variable()} forbids "
                "downloads; unset it, give a directory, or use builtin"
            )
        case OSError() if error.errno is not None and not isinstance(error, ConnectionError | FileNotFoundError):
            return disk_error(error, cache_root())
        case _ if status is not None:
            return KosbertError(f"the hub answered with status {status} for {name}; try again later")
        case _:
            return KosbertError(
                f"the model {name} is not in the cache, and its download failed ({type(error).__name__}); check the "
                "network and run the same command again, which resumes the download"
            )
