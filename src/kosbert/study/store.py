"""The store: stages, runs and reports of all studies as plain files.

STORE/stages/HASH/            recipe.json  curves.json  model/  stage.json (checksums of the data, provenance, cost)
STORE/STUDY-PRESET/           study.json  summary.json  report.html  report.md  figures/
STORE/STUDY-PRESET/runs/RUN/  run.json (stages, provenance)  curves.json  scores.json  predictions/SET.tsv

All writes are atomic, so an interrupted study leaves no partial files.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.files import atomic_directory, disk_error, try_lock, write_text
from kosbert.study.plan import PlannedRun, StudyPlan
from kosbert.study.summary import Machine, Provenance

_LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Store:
    """A directory of studies."""

    root: Path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the store's lock: two studies at once would train the same stage into the same directory."""
        self.root.mkdir(parents=True, exist_ok=True)
        busy = f"another study is running in {self.root}: wait for it, or choose another --store"
        with try_lock(self.root / ".lock", busy):
            yield

    def stage(self, key: str) -> Path:
        """Return the directory of a stage."""
        return self.root / "stages" / key

    def study(self, name: str) -> Path:
        """Return the directory of a study."""
        return self.root / name

    def run(self, study: str, run: str) -> Path:
        """Return the directory of a run."""
        return self.root / study / "runs" / run

    def names(self) -> list[str]:
        """Return the names of the studies in the store."""
        return sorted(path.parent.name for path in self.root.glob("*/study.json"))

    def find(self, name: str) -> Path:
        """Return the directory of a study; `order` is enough for `order-quick` if it is the only match."""
        names = self.names()
        matches = [name] if name in names else [match for match in names if match.startswith(f"{name}-")]
        if len(matches) != 1:
            hint = did_you_mean(name, matches or names) if names else "run one first: kosbert study order"
            raise UsageError(f"there is no study {name!r} in {self.root}: {hint}")
        return self.root / matches[0]


@dataclass(frozen=True)
class StoredRun:
    """A finished run in the store."""

    directory: Path
    record: dict[str, Any]
    scores: dict[str, Any]

    @property
    def variant(self) -> str:
        """Its variant."""
        return str(self.record["variant"])

    @property
    def seed(self) -> int:
        """Its seed."""
        return int(self.record["seed"])

    def curves(self) -> list[dict[str, Any]]:
        """Return the curve of each stage in order: `{"stage": …, "points": […]}`."""
        curves: list[dict[str, Any]] = read_json(self.directory / "curves.json")
        return curves

    def predictions(self, name: str) -> NDArray[np.float64]:
        """Return the predicted similarity of every pair of a set, bit for bit."""
        return _column(predictions_file(self.directory / "predictions", name), 1)

    def gold(self, name: str) -> NDArray[np.float64]:
        """Return the human scores of the same pairs."""
        return _column(predictions_file(self.directory / "predictions", name), 0)


@dataclass(frozen=True)
class StudyContext:
    """A plan, the store that it runs in, and the directory with its data files."""

    plan: StudyPlan
    store: Store
    data_dir: Path | None = None

    @property
    def directory(self) -> Path:
        """The directory of the study."""
        return self.store.study(self.plan.name)

    def finished_run(self, run: PlannedRun) -> StoredRun | None:
        """Return the stored result of a run, if there is one and it is up to date."""
        return stored_run(self.store.run(self.plan.name, run.name), run.key)

    def finished_runs(self) -> list[StoredRun]:
        """Return the results of all finished runs in the order of the plan."""
        return [stored for run in self.plan.runs if (stored := self.finished_run(run))]


def predictions_file(directory: Path, name: str) -> Path:
    """Return the predictions file of a set. The set may be a user's file; then its path becomes the file name."""
    return directory / (re.sub(r"[^\w.-]+", "-", name).strip("-") + ".tsv")


def _column(path: Path, number: int) -> NDArray[np.float64]:
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    return np.array([float(line.split("\t")[number]) for line in lines])


def write_predictions(directory: Path, sets: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
    """Write gold and predicted scores as text. `repr` of a float is exact: it reads back to the same bits."""
    directory.mkdir()
    for name, (gold, predicted) in sets.items():
        lines = [f"{float(g)!r}\t{float(p)!r}" for g, p in zip(gold, predicted, strict=True)]
        predictions_file(directory, name).write_text("\n".join(["gold\tpredicted", *lines]) + "\n", encoding="utf-8")


def stored_run(directory: Path, key: str = "") -> StoredRun | None:
    """Load a finished run; None if there is none, or if its key is not `key`."""
    try:
        record, scores = read_json(directory / "run.json"), read_json(directory / "scores.json")
    except FileNotFoundError:
        return None
    return None if key and record["key"] != key else StoredRun(directory, record, scores)


def stored_runs(study: Path) -> list[StoredRun]:
    """Load all finished runs of a study, ordered by variant."""
    directories = sorted(path for path in (study / "runs").glob("[0-9]*") if path.is_dir())
    return [run for run in map(stored_run, directories) if run]


@contextmanager
def replace_directory(path: Path) -> Iterator[Path]:
    """Yield an empty directory that replaces `path` atomically when the block ends without an error."""
    for leftover in path.parent.glob(f".{path.name}-*"):  # of a process that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        with atomic_directory(path, replace=True) as directory:
            yield directory
    except OSError as error:
        raise disk_error(error, path) from error


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically; NaN is refused."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON; the error of a damaged file names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise KosbertError(f"{path} is damaged ({error}): delete its directory and run the command again") from None


@cache
def current_provenance() -> Provenance:
    """Return versions of the code and its libraries, and the machine; stored with every stage and run."""
    import torch

    from kosbert.model.precision import training_dtype
    from kosbert.model.torch_loading import best_device

    return Provenance(
        kosbert=version("kosbert"),
        source_sha256=_source_checksum(),
        python=platform.python_version(),
        libraries={name: version(name) for name in _LIBRARIES},
        machine=Machine(
            system=platform.system(),
            architecture=platform.machine(),
            cpus=os.cpu_count(),
            threads=torch.get_num_threads(),
            training_dtype=str(training_dtype(torch.device(best_device()))).removeprefix("torch."),
            gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        ),
        command="kosbert " + " ".join(sys.argv[1:]) if Path(sys.argv[0]).stem in ("kosbert", "__main__") else "",
    )


def _source_checksum() -> str:
    """Return the SHA-256 of kosbert's source files."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
