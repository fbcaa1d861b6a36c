"""The store: plain files in folders that explain themselves, shared by all studies that are given the same one.

STORE/stages/HASH/            recipe.json  curves.json  model/  stage.json (hashes of data, lineage, cost)
STORE/backbones/NAME/         copies of backbones with another dropout
STORE/STUDY-PRESET/           study.json  summary.json  report.html  report.md  figures/
STORE/STUDY-PRESET/runs/RUN/  run.json (stages, lineage)  curves.json  scores.json  predictions/SET.tsv

Whatever is written is written whole or not at all, so that a killed study leaves nothing half.
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.files import try_lock


@dataclass(frozen=True)
class Store:
    """A folder of studies."""

    root: Path

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else works here meanwhile: two studies would train the same stage into the same folder."""
        self.root.mkdir(parents=True, exist_ok=True)
        busy = f"another study works in {self.root}: wait for it, or choose another --store"
        with try_lock(self.root / ".lock", busy):
            yield

    def stage(self, key: str) -> Path:
        """The folder of a stage."""
        return self.root / "stages" / key

    def study(self, name: str) -> Path:
        """The folder of a study."""
        return self.root / name

    def run(self, study: str, run: str) -> Path:
        """The folder of a run."""
        return self.root / study / "runs" / run

    def names(self) -> list[str]:
        """The studies that are here."""
        return sorted(each.parent.name for each in self.root.glob("*/study.json"))

    def find(self, name: str) -> Path:
        """The folder of a study that must be here; `order` will do for `order-quick` where there is only one."""
        known = self.names()
        fitting = [each for each in known if name == each or each.startswith(f"{name}-")]
        exact = [each for each in fitting if each == name]
        if len(exact or fitting) != 1:
            hint = did_you_mean(name, fitting or known) if known else "run one first: kosbert study order"
            raise UsageError(f"there is no study {name!r} in {self.root}: {hint}")
        return self.root / (exact or fitting)[0]


@dataclass(frozen=True)
class StoredRun:
    """A finished run as it lies in the store."""

    folder: Path
    record: dict[str, Any]
    scores: dict[str, Any]

    @property
    def row(self) -> str:
        """The row of the table that it belongs to."""
        return str(self.record["row"])

    @property
    def seed(self) -> int:
        """Its seed."""
        return int(self.record["seed"])

    def curves(self) -> list[dict[str, Any]]:
        """The curve of each stage in order: `{"stage": …, "points": […]}`."""
        found: list[dict[str, Any]] = read_json(self.folder / "curves.json")
        return found

    def predictions(self, name: str) -> NDArray[np.float64]:
        """Predicted similarity of every pair of a set, to the last digit."""
        return _column(predictions_file(self.folder / "predictions", name), 1)

    def gold(self, name: str) -> NDArray[np.float64]:
        """The human scores of the same pairs."""
        return _column(predictions_file(self.folder / "predictions", name), 0)


def predictions_file(folder: Path, name: str) -> Path:
    """Where the predictions for a set are; a set may be a user's file, whose path is then part of the name."""
    return folder / (re.sub(r"[^\w.-]+", "-", name).strip("-") + ".tsv")


def _column(path: Path, number: int) -> NDArray[np.float64]:
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    return np.array([float(line.split("\t")[number]) for line in lines])


def write_predictions(folder: Path, sets: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
    """Gold and predicted scores as text; Python writes a float so that it is read back to the same bits."""
    folder.mkdir()
    for name, (gold, predicted) in sets.items():
        lines = [f"{float(g)!r}\t{float(p)!r}" for g, p in zip(gold, predicted, strict=True)]
        predictions_file(folder, name).write_text("\n".join(["gold\tpredicted", *lines]) + "\n", encoding="utf-8")


def stored_run(folder: Path, identity: str = "") -> StoredRun | None:
    """A finished run, if it is there and (when an identity is given) still the one that is wanted."""
    try:
        record, scores = read_json(folder / "run.json"), read_json(folder / "scores.json")
    except FileNotFoundError:
        return None
    return None if identity and record["identity"] != identity else StoredRun(folder, record, scores)


def stored_runs(study: Path) -> list[StoredRun]:
    """Every finished run of a study, in the order of its rows."""
    folders = sorted(each for each in (study / "runs").glob("[0-9]*") if each.is_dir())
    return [run for run in map(stored_run, folders) if run]


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A new folder to write into, which takes the place of `target` at the end, or is gone if anything fails."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for left_over in target.parent.glob(f".{target.name}-*"):  # of a process that was killed
        shutil.rmtree(left_over, ignore_errors=True)
    workshop = Path(mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        fresh = workshop / "fresh"
        fresh.mkdir()
        yield fresh
        if target.exists():
            target.rename(workshop / "old")
        fresh.rename(target)
    except OSError as error:
        raise KosbertError(f"{target} cannot be written ({error}): make room, then run the same command") from error
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def write_json(path: Path, content: Any) -> None:
    """Write JSON beside its place and rename it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    text = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)


def read_json(path: Path) -> Any:
    """Read JSON; a damaged file is named."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise KosbertError(f"{path} is damaged ({error}): remove its folder and run the same command") from None
