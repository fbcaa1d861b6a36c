"""From a study to its runs: chains of stages, each stage with a hash of everything that decides what it makes.

Two runs that begin alike share their stages: for a seed, NLI, STS, NLI→STS and STS→NLI are four trainings and not six.
The hash holds what a stage starts from (the backbone's weights or the stage before), the rows it sees, loss,
options, settings, pooling, length, seed, and the dev rows that choose its checkpoint; so studies share stages as well.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kosbert.errors import KosbertError, UsageError
from kosbert.model.directory import BUILTIN_MODELS, builtin_directory, directory_checksum, find_model
from kosbert.study.config import Preset, Probe, Row, Study, laid_over
from kosbert.training.columns import read_rows
from kosbert.training.distillation import teacher_checksums
from kosbert.training.recipe import FewerLayers, NewBackbone, Recipe

Fingerprint = dict[str, Any]


@dataclass(frozen=True)
class PlannedStage:
    """One training: a recipe of one stage. `start` is the hash of the stage before, or nothing for the backbone."""

    key: str
    label: str
    recipe: Recipe
    start: str
    dropout: float | None  # set in the backbone before the first stage
    data: dict[str, Fingerprint] = field(repr=False)

    @property
    def kind(self) -> str:
        """What makes two stages take equally long: everything but seed and start, which has the backbone's shape."""
        return _digest(self.recipe.model_dump(mode="json", exclude={"seed"}))


@dataclass(frozen=True)
class Run:
    """One row with one seed: the stages that lead to its model, and what it is scored on."""

    name: str
    row: str
    seed: int
    recipe: Recipe  # of the backbone as it is, without data: what a run without stages is scored with
    stages: tuple[PlannedStage, ...]
    encoder: str
    cross_encoder: dict[str, Any]
    vectors: dict[str, Any]
    dev: tuple[str, ...]
    test: tuple[str, ...]
    probe: Probe | None
    sets: dict[str, Fingerprint] = field(repr=False)
    identity: str
    """Hash of all that decides its scores; a stored run with another one is done again."""

    def data(self) -> dict[str, Fingerprint]:
        """Every set of rows that it learns from, is chosen on or is scored on, with its checksum."""
        return {name: each for stage in self.stages for name, each in stage.data.items()} | self.sets


@dataclass(frozen=True)
class Plan:
    """The runs of a study, seed by seed: whatever stops it, the seeds that are done are complete."""

    study: Study
    preset: str
    seeds: int
    backbone: Any
    rows: tuple[Row, ...]
    runs: tuple[Run, ...]
    instead: str = ""
    """The backbone that was named instead of the preset's."""

    @property
    def name(self) -> str:
        """Name of its folder in the store."""
        return "-".join([self.study.name, self.preset, *([_slug(self.instead)] if self.instead else [])])

    @property
    def settings(self) -> Preset:
        """The preset itself."""
        return self.study.presets[self.preset]

    def stages(self) -> list[PlannedStage]:
        """Every stage once, each after the one that it starts from."""
        return list({stage.key: stage for run in self.runs for stage in run.stages}.values())


def plan(
    study: Study, preset: str, *, seeds: int | None = None, backbone: str = "", data_dir: Path | None = None
) -> Plan:
    """Expand a study. Reads the data, because its rows are part of every hash.

    Args:
        study: what is asked.
        preset: how large: quick, real, paper.
        seeds: how many, instead of the preset's.
        backbone: a model's name or directory, instead of the preset's.
        data_dir: a folder with the data sets' files; by default `KOSBERT_DATA`.
    """
    chosen = study.preset(preset)
    seeds = seeds or chosen.seeds
    begin = backbone or next((each for each in chosen.backbone if at_hand(each)), chosen.backbone[-1])
    rows = study.every_row()
    runs = []
    for seed in range(1, seeds + 1):
        for number, row in enumerate(rows, 1):
            if seed <= (row.seeds or seeds):
                name = f"{number:02d}-{_slug(row.name)}-seed-{seed}"
                runs.append(_run(study, chosen, row, seed, name, begin, data_dir))
    return Plan(study, preset, seeds, begin, tuple(rows), tuple(runs), backbone)


def _run(study: Study, preset: Preset, row: Row, seed: int, name: str, backbone: Any, data_dir: Path | None) -> Run:
    where = f"{study.name}, row {row.name}"
    document = laid_over(laid_over({**study.recipe, "stages": study.stages}, preset.over), row.over)
    stages, dropout = document.pop("stages"), document.pop("dropout", None)
    document = {"backbone": backbone, **document, "seed": seed, "dev": preset.dev}
    document["backbone"] = _backbone(document["backbone"], backbone, preset.data, dropout)
    chain: list[PlannedStage] = []
    for label in row.stages:
        recipe = _one_stage({**document, "teacher": backbone}, stages[label], preset.data, f"{where}, stage {label}")
        start = chain[-1].key if chain else ""
        fingerprints = _fingerprints(recipe, data_dir)
        identity = start or backbone_identity(recipe, data_dir)
        content = recipe.model_dump(mode="json", exclude={"backbone", "test"})
        key = _digest([identity, dropout, content, fingerprints])
        chain.append(PlannedStage(key, label, recipe, start, dropout, fingerprints))
    as_it_is = Recipe.parse({**document, "name": "backbone", "stages": [_NOTHING]}, where)
    encoder, cross_encoder = _not_trained(row, preset.data)
    probe = preset.probe if any("concatenation" in stages[label].get("options", {}) for label in row.stages) else None
    made_by: Any = chain[-1].key if chain else [encoder, cross_encoder]
    if not chain and not encoder:
        made_by = [made_by, seed, backbone_identity(as_it_is, data_dir), as_it_is.pooling, as_it_is.max_length]
    if encoder or cross_encoder:
        made_by = [made_by, _read_by(encoder, cross_encoder, data_dir)]
    vectors = row.vectors
    if "pca" in vectors:
        if "text" not in preset.data:
            raise UsageError(f"{where}: pca needs data under the name text")
        vectors = vectors | {"text": preset.data["text"]}
        made_by = [made_by, fingerprint(tuple(preset.data["text"]), (), data_dir)]
    sets = {each: fingerprint((each,), (), data_dir) for each in (*preset.dev, *preset.test)}
    asked = probe.model_dump() if probe else None
    if probe and asked:
        asked["rows"] = [fingerprint(tuple(names), (), data_dir) for names in (probe.train, probe.test)]
    identity = _digest([made_by, vectors, sets, asked])
    return Run(
        name, row.name, seed, as_it_is, tuple(chain), encoder, cross_encoder, vectors, tuple(preset.dev),
        tuple(preset.test), probe, sets, identity,
    )  # fmt: skip


def _backbone(wanted: Any, chosen: Any, roles: dict[str, list[str]], dropout: float | None) -> Any:
    """A row's own backbone, with data sets for roles; `{from: backbone, layers: 2}` is of the study's own."""
    if not isinstance(wanted, dict):
        return wanted
    if wanted.get("from") == "backbone":
        return wanted | {"from": chosen}
    if "text" in wanted:
        new = wanted | {"text": _references(wanted["text"], roles)}
        return new if dropout is None else new | {"dropout": dropout}
    return wanted


def _not_trained(row: Row, roles: dict[str, list[str]]) -> tuple[str, dict[str, Any]]:
    """An encoder or a cross-encoder with data sets for roles: `tfidf:sts`, `{rows: sts}`."""
    kind, colon, role = row.encoder.partition(":")
    encoder = f"{kind}:{roles[role][0]}" if colon and role in roles else row.encoder
    settings = dict(row.cross_encoder)
    return encoder, settings | {"rows": _references(settings["rows"], roles)} if settings else settings


def _read_by(encoder: str, cross_encoder: dict[str, Any], data_dir: Path | None) -> Any:
    """Checksums of what an encoder that is not trained in stages reads: its split, its file, its rows."""
    kind, _, rest = encoder.partition(":")
    if kind == "static" and (file := Path(rest).expanduser()).is_file():
        return hashlib.sha256(file.read_bytes()).hexdigest()
    names = cross_encoder["rows"] if cross_encoder else [rest] if kind == "tfidf" and rest else []
    return fingerprint(tuple(names), (), data_dir) if names else None


_NOTHING = {"name": "nothing", "data": "none", "loss": "simcse", "steps": 1}  # a recipe must have a stage


def _one_stage(document: dict[str, Any], stage: dict[str, Any], roles: dict[str, list[str]], where: str) -> Recipe:
    """The recipe of one stage, with data sets for roles and all settings in one place: equal work, equal recipe."""
    stage = dict(stage)
    sources = stage.pop("data")
    sources = [{"rows": each} if isinstance(each, str) else each for each in _listed(sources)]
    for source in sources:
        source["rows"] = _references(_listed(source["rows"]), roles)
        if source.get("teacher") == "backbone":
            source["teacher"] = document["teacher"]
        for other in ("without", "translations"):
            if other in source:
                source[other] = _references(_listed(source[other]), roles)
    train = document.get("train", {}) | stage.pop("train", {})
    loss_fns = [stage.get("loss", ""), *(source.get("loss", "") for source in sources)]
    name = "-and-".join(dict.fromkeys(filter(None, loss_fns)))
    document = {key: value for key, value in document.items() if key != "teacher"}
    made = {**document, "name": name, "train": train, "stages": [{**stage, "name": name, "data": sources}]}
    recipe = Recipe.parse(made, where)
    whole = recipe.train.model_dump()  # with its defaults: a default written out is no other stage
    return Recipe.parse({**made, "train": whole}, where)


def _listed(value: Any) -> list[Any]:
    """As a list, with copies of the mappings in it."""
    values = value if isinstance(value, list) else [value]
    return [dict(each) if isinstance(each, dict) else each for each in values]


def _references(names: Sequence[str], roles: dict[str, list[str]]) -> list[str]:
    return [reference for name in _listed(names) for reference in roles.get(name, [name])]


def at_hand(backbone: Any) -> bool:
    """Whether a backbone can be had without asking the network."""
    if not isinstance(backbone, str):
        return True
    if backbone in BUILTIN_MODELS:
        try:
            builtin_directory(backbone)
        except KosbertError:
            return False
        return True
    return Path(backbone).is_dir()


def _fingerprints(recipe: Recipe, data_dir: Path | None) -> dict[str, Fingerprint]:
    """What the rows behind a stage are, by name."""
    groups: list[tuple[tuple[str, ...], tuple[tuple[str, str], ...]]] = [((each,), ()) for each in recipe.dev]
    for source in recipe.stages[0].data:
        groups.append((tuple(source.rows), tuple(sorted(source.columns.items()))))
        groups += [(tuple(other), ()) for other in (source.exclude, source.translations) if other]
    found = {" + ".join(names): fingerprint(names, columns, data_dir) for names, columns in groups}
    for source in recipe.stages[0].data:
        for teacher in source.teacher:
            weights = _digest(teacher_checksums(teacher)) if Path(teacher).suffix == ".onnx" else _weights(teacher)
            found[f"teacher {teacher}"] = {"sha256": weights}
    return found


@cache
def fingerprint(names: tuple[str, ...], columns: tuple[tuple[str, str], ...], data_dir: Path | None) -> Fingerprint:
    """Rows and their SHA-256, so that other data is another stage whatever its file is called."""
    rows = read_rows(names, dict(columns), data_dir)
    digest = hashlib.sha256("\n".join(map(repr, rows)).encode("utf-8", "surrogatepass")).hexdigest()
    return {"rows": len(rows), "sha256": digest}


def backbone_identity(recipe: Recipe, data_dir: Path | None) -> str:
    """A hash of what training starts from: the weights that are there, or all that decides new ones."""
    backbone = recipe.backbone
    if isinstance(backbone, NewBackbone):
        text = fingerprint(tuple(backbone.text), (), data_dir)
        return _digest([backbone.model_dump(), text, recipe.max_length, recipe.seed])
    if isinstance(backbone, FewerLayers):
        return _digest([_weights(backbone.source), backbone.layers])
    return _weights(backbone)


@cache
def _weights(name: str) -> str:
    """A hash of a model's files, wherever they lie; its card is no part of what it computes."""
    return directory_checksum(find_model(name))


def _digest(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def _slug(name: str) -> str:
    """A name for a folder: letters, digits and hyphens.

    >>> _slug("NLI→STS")
    'nli-sts'
    """
    return re.sub(r"[^a-z0-9가-힣]+", "-", name.lower()).strip("-") or "row"
