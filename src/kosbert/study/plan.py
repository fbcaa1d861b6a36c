"""Expand a study into runs: chains of training stages, each identified by a hash of everything that determines it.

Runs with a common prefix share stages: per seed, NLI, STS, NLI→STS and STS→NLI need four trainings, not six. The hash
covers the start (weights of the backbone, or the parent stage), the training rows, loss and options, settings, pooling,
length, seed, and the dev rows that select the checkpoint. Different studies therefore share stages too.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kosbert.data.columns import read_columns
from kosbert.errors import KosbertError, UsageError
from kosbert.files import sha256_file
from kosbert.model.directory import BUILTIN_MODELS, builtin_directory, directory_checksum, find_model
from kosbert.study.config import Preset, Probe, StudyConfig, Variant
from kosbert.study.settings import changed_preset, changed_recipe, parse_settings
from kosbert.training.config import merge
from kosbert.training.distillation import teacher_checksums
from kosbert.training.recipe import FewerLayers, NewBackbone, Recipe

Checksum = dict[str, Any]  # {"rows": …, "sha256": …}; a teacher has no rows


@dataclass(frozen=True)
class PlannedStage:
    """One training run of a single-stage recipe. `parent` is the key of the stage before; empty for the backbone."""

    key: str
    label: str
    recipe: Recipe
    parent: str
    data: dict[str, Checksum] = field(repr=False)

    @property
    def cost_key(self) -> str:
        """Hash shared by stages that take equally long: all but seed and start, whose shape is the backbone's."""
        return _digest(self.recipe.model_dump(mode="json", exclude={"seed"}))


@dataclass(frozen=True)
class PlannedRun:
    """One variant with one seed: the stages that lead to its model, and the sets that it is scored on."""

    name: str
    variant: str
    seed: int
    base_recipe: Recipe  # the backbone without training
    stages: tuple[PlannedStage, ...]
    encoder: str
    cross_encoder: dict[str, Any]
    compress: dict[str, Any]
    dev: tuple[str, ...]
    test: tuple[str, ...]
    probe: Probe | None
    eval_sets: dict[str, Checksum] = field(repr=False)
    key: str
    """Hash of everything that determines its scores; a stored run with another key is outdated."""

    def data(self) -> dict[str, Checksum]:
        """Return the checksums of all sets that it is trained, selected or scored on."""
        return {name: checksum for stage in self.stages for name, checksum in stage.data.items()} | self.eval_sets


@dataclass(frozen=True)
class StudyPlan:
    """The runs of a study, ordered by seed: if it is interrupted, the finished seeds are complete."""

    study: StudyConfig
    preset_name: str
    preset: Preset  # with the data, dev and test sets of the settings
    seeds: tuple[int, ...]
    backbone: Any
    variants: tuple[Variant, ...]
    runs: tuple[PlannedRun, ...]
    backbone_override: str = ""
    """The backbone that the user chose instead of the preset's."""
    settings: tuple[str, ...] = ()
    """Values of `--set`."""
    limit: int | None = None
    """Rows of every training source at most."""

    @property
    def name(self) -> str:
        """Name of its directory in the store; a shortened or changed study never overwrites the real one."""
        suffixes = [_slug(self.backbone_override)] if self.backbone_override else []
        suffixes += [f"limit-{self.limit}"] if self.limit else []
        suffixes += [f"set-{_digest(sorted(self.settings))[:6]}"] if self.settings else []
        return "-".join([self.study.name, self.preset_name, *suffixes])

    def stages(self) -> list[PlannedStage]:
        """Return the distinct stages, parents first."""
        return list({stage.key: stage for run in self.runs for stage in run.stages}.values())


def plan_study(
    study: StudyConfig,
    preset: str,
    *,
    seeds: int | None = None,
    backbone: str = "",
    settings: Sequence[str] = (),
    limit: int | None = None,
    data_dir: Path | None = None,
) -> StudyPlan:
    """Expand a study into runs. Reads the data, because every hash covers its rows.

    Args:
        study: the study.
        preset: one of its presets, such as quick, real or paper.
        seeds: number of seeds, if not the preset's.
        backbone: name or directory of a model, if not the preset's.
        settings: `key=value` changes of every variant, see `kosbert.study.settings`.
        limit: shorten the study to this many random rows of every training source; dev and test sets stay complete.
        data_dir: directory with the data files; `KOSBERT_DATA` by default.
    """
    config = study.preset(preset)
    changes = parse_settings(settings, study, config)
    config = changed_preset(config, changes)
    recipe = changed_recipe(merge({**study.recipe, "stages": study.stages}, config.overrides), changes)
    chosen_seeds = config.first_seeds(seeds)
    chosen = backbone or next((name for name in config.backbone if is_local(name)), config.backbone[-1])
    variants = study.variants_of(config)
    runs = []
    for index, seed in enumerate(chosen_seeds):
        for number, variant in enumerate(variants, 1):
            if index < (variant.seeds or len(chosen_seeds)):
                name = f"{number:02d}-{_slug(variant.name)}-seed-{seed}"
                document = merge(recipe, variant.overrides) | {"seed": seed}
                where = f"{study.name}, variant {variant.name}"
                runs.append(_plan_run(document, config, variant, name, chosen, limit, data_dir, where))
    return StudyPlan(
        study, preset, config, chosen_seeds, chosen, tuple(variants), tuple(runs), backbone, tuple(settings), limit
    )


def _plan_run(
    document: dict[str, Any], preset: Preset, variant: Variant, name: str, backbone: Any, limit: int | None,
    data_dir: Path | None, where: str,
) -> PlannedRun:  # fmt: skip
    seed = document["seed"]
    stages = document.pop("stages")
    document = {"backbone": backbone, **document, "dev": preset.dev}
    document["backbone"] = _resolve_backbone(document["backbone"], backbone, preset.data)
    chain: list[PlannedStage] = []
    for label in variant.stages:
        stage_document = {**document, "teacher": backbone}
        recipe = _stage_recipe(stage_document, stages[label], preset.data, limit, f"{where}, stage {label}")
        parent = chain[-1].key if chain else ""
        checksums = _stage_checksums(recipe, data_dir)
        start = parent or backbone_checksum(recipe, data_dir)
        content = recipe.model_dump(mode="json", exclude={"backbone", "test"})
        key = _digest([start, content, checksums])
        chain.append(PlannedStage(key, label, recipe, parent, checksums))
    base_recipe = Recipe.parse({**document, "name": "backbone", "stages": [_PLACEHOLDER_STAGE]}, where)
    encoder, cross_encoder = _untrained(variant, preset, limit)
    probe = (
        preset.probe if any("concatenation" in stages[label].get("options", {}) for label in variant.stages) else None
    )
    model_key: Any = chain[-1].key if chain else [encoder, cross_encoder]
    if not chain and not encoder:
        shape = [base_recipe.pooling, base_recipe.max_length]
        model_key = [model_key, seed, backbone_checksum(base_recipe, data_dir), *shape]
    if encoder or cross_encoder:
        model_key = [model_key, _untrained_checksum(encoder, cross_encoder, data_dir)]
    compress = variant.compress
    if "pca" in compress:
        if "text" not in preset.data:
            raise UsageError(f"{where}: pca needs data under the name text")
        compress = compress | {"text": preset.data["text"]}
        if limit:
            compress = compress | {"limit": max(limit, int(compress["pca"]))}  # an axis needs a sentence
        model_key = [model_key, data_checksum(tuple(preset.data["text"]), (), data_dir)]
    eval_sets = {split: data_checksum((split,), (), data_dir) for split in (*preset.dev, *preset.test)}
    probe_key = probe.model_dump() if probe else None
    if probe and probe_key:
        probe_key["rows"] = [data_checksum(tuple(names), (), data_dir) for names in (probe.train, probe.test)]
    key = _digest([model_key, compress, eval_sets, probe_key])
    return PlannedRun(
        name, variant.name, seed, base_recipe, tuple(chain), encoder, cross_encoder, compress, tuple(preset.dev),
        tuple(preset.test), probe, eval_sets, key,
    )  # fmt: skip


def _resolve_backbone(backbone: Any, default: Any, roles: dict[str, list[str]]) -> Any:
    """Return a backbone with data sets in place of roles; `{from: backbone, layers: 2}` refers to the default one."""
    if not isinstance(backbone, dict):
        return backbone
    if backbone.get("from") == "backbone":
        return backbone | {"from": default}
    if "text" in backbone:
        return backbone | {"text": _resolve_roles(backbone["text"], roles)}
    return backbone


def _untrained(variant: Variant, preset: Preset, limit: int | None) -> tuple[str, dict[str, Any]]:
    """Return encoder and cross-encoder with data sets in place of roles: `tfidf:sts`, `{rows: sts}`."""
    kind, colon, role = variant.encoder.partition(":")
    encoder = f"{kind}:{preset.data[role][0]}" if colon and role in preset.data else variant.encoder
    if not variant.cross_encoder:
        return encoder, {}
    settings = {**variant.cross_encoder, **preset.cross_encoder} | ({"limit": limit} if limit else {})
    return encoder, settings | {"rows": _resolve_roles(settings["rows"], preset.data)}


def _untrained_checksum(encoder: str, cross_encoder: dict[str, Any], data_dir: Path | None) -> Any:
    """Return the checksum of what an encoder outside the stages reads: its split, file or rows."""
    kind, _, argument = encoder.partition(":")
    if kind == "static" and (path := Path(argument).expanduser()).is_file():
        return sha256_file(path)
    names = cross_encoder["rows"] if cross_encoder else [argument] if kind == "tfidf" and argument else []
    return data_checksum(tuple(names), (), data_dir) if names else None


_PLACEHOLDER_STAGE = {"name": "none", "data": "none", "loss": "simcse", "steps": 1}  # a recipe needs a stage


def _stage_recipe(
    document: dict[str, Any], stage: dict[str, Any], roles: dict[str, list[str]], limit: int | None, where: str
) -> Recipe:
    """Return the recipe of one stage in normal form, so that equal training gives an equal recipe.

    Roles become data sets, and the stage's settings are merged into `train`.
    """
    stage = dict(stage)
    sources: list[dict[str, Any]] = [
        {"rows": source} if isinstance(source, str) else source for source in _as_list(stage.pop("data"))
    ]
    for source in sources:
        source["rows"] = _resolve_roles(_as_list(source["rows"]), roles)
        if limit:
            source["limit"] = min(limit, source.get("limit") or limit)
        if source.get("teacher") == "backbone":
            source["teacher"] = document["teacher"]
        for key in ("exclude", "translations"):
            if key in source:
                source[key] = _resolve_roles(_as_list(source[key]), roles)
    train = document.get("train", {}) | stage.pop("train", {})
    losses = [stage.get("loss", ""), *(source.get("loss", "") for source in sources)]
    name = "-and-".join(dict.fromkeys(filter(None, losses)))
    document = {key: value for key, value in document.items() if key != "teacher"}
    document |= {"name": name, "train": train, "stages": [{**stage, "name": name, "data": sources}]}
    recipe = Recipe.parse(document, where)
    settings = recipe.train.model_dump()  # with defaults: writing out a default must not change the hash
    return Recipe.parse({**document, "train": settings}, where)


def _as_list(value: Any) -> list[Any]:
    """Return the value as a list, with copies of the mappings in it."""
    values = value if isinstance(value, list) else [value]
    return [dict(item) if isinstance(item, dict) else item for item in values]


def _resolve_roles(names: Sequence[str], roles: dict[str, list[str]]) -> list[str]:
    return [reference for name in _as_list(names) for reference in roles.get(name, [name])]


def is_local(backbone: Any) -> bool:
    """Return whether a backbone is available without a download."""
    if not isinstance(backbone, str):
        return True
    if backbone in BUILTIN_MODELS:
        try:
            builtin_directory(backbone)
        except KosbertError:
            return False
        return True
    return Path(backbone).is_dir()


def _stage_checksums(recipe: Recipe, data_dir: Path | None) -> dict[str, Checksum]:
    """Return the checksums of the rows and teachers behind a stage, by name."""
    checksums = {name: data_checksum((name,), (), data_dir) for name in recipe.dev}
    for source in recipe.stages[0].data:
        columns, options = tuple(sorted(source.columns.items())), (source.encoding, source.sheet)
        checksums[" + ".join(source.rows)] = data_checksum(tuple(source.rows), columns, data_dir, *options)
        for names in (source.exclude, source.translations):
            if names:
                checksums[" + ".join(names)] = data_checksum(tuple(names), (), data_dir)
    for source in recipe.stages[0].data:
        for teacher in source.teacher:
            is_graph = Path(teacher).suffix == ".onnx"
            digest = _digest(teacher_checksums(teacher)) if is_graph else _model_checksum(teacher)
            checksums[f"teacher {teacher}"] = {"sha256": digest}
    return checksums


@cache
def data_checksum(
    names: tuple[str, ...],
    columns: tuple[tuple[str, str], ...],
    data_dir: Path | None,
    encoding: str = "",
    sheet: str = "",
) -> Checksum:
    """Return the number of rows and their SHA-256: the content identifies data, not the file name."""
    rows = read_columns(names, columns=dict(columns), encoding=encoding, sheet=sheet, data_dir=data_dir)
    return rows.fingerprint()


def backbone_checksum(recipe: Recipe, data_dir: Path | None) -> str:
    """Return a hash of what training starts from: existing weights, or everything that determines new ones."""
    backbone = recipe.backbone
    if isinstance(backbone, NewBackbone):
        text = data_checksum(tuple(backbone.text), (), data_dir)
        return _digest([backbone.model_dump(), text, recipe.max_length, recipe.seed])
    if isinstance(backbone, FewerLayers):
        return _digest([_model_checksum(backbone.source), backbone.layers])
    return _model_checksum(backbone)


@cache
def _model_checksum(name: str) -> str:
    """Return a path-independent checksum of a model without its card."""
    return directory_checksum(find_model(name))


def _digest(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def _slug(name: str) -> str:
    """Return a name for a directory: letters, digits and hyphens.

    >>> _slug("NLI→STS")
    'nli-sts'
    """
    return re.sub(r"[^a-z0-9가-힣]+", "-", name.lower()).strip("-") or "variant"
