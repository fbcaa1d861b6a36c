"""Configuration of a study: the question, the variants to compare, their training stages and the presets.

    study = StudyConfig.builtin("order")        # ships with the package
    study = StudyConfig.load("my-study.yaml")   # a file of your own, see docs/studies.md

`grid` multiplies the trained variants: each axis maps a name to recipe overrides.
"""

from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from kosbert.errors import UsageError, did_you_mean
from kosbert.study.summary import NotMeasured
from kosbert.training.config import Names, StrictModel, YamlLoader, as_list, dotted, first_error, merge


class Variant(StrictModel):
    """One variant to compare: a chain of training stages, or an encoder that is not trained."""

    name: str
    stages: list[str] = Field([], description="names of the study's stages, in order; none: the backbone as it is")
    encoder: str = Field("", description="an encoder without training: tfidf, random, random-words, static:FILE")
    cross_encoder: dict[str, Any] = Field({}, description="settings of a cross-encoder that is trained on `rows`")
    compress: dict[str, Any] = Field({}, description="embedding compression: truncate_dim or pca, precision")
    overrides: dict[str, Any] = Field({}, description="recipe keys that this variant changes")
    published_model: str = Field("", description="the published model to show next to this variant")
    seeds: int | None = Field(None, ge=1, description="fewer seeds than the study, where the seed changes nothing")


class Probe(StrictModel):
    """NLI accuracy of a softmax classifier on frozen embeddings: the sets that it is trained and tested on."""

    train: Names
    test: Names
    limit: int = Field(6000, ge=100, description="rows of each set at most")


class Preset(StrictModel):
    """One setup of a study: backbone, data, seeds and recipe overrides."""

    description: str
    differences: list[str] = Field([], description="what differs from the published experiment that this repeats, why")
    seeds: Annotated[int, Field(ge=1)] | Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = Field(
        3, description="how many seeds (1, 2, …), or a list of them"
    )
    variants: list[str] = Field([], description="names of the variants to compare; all of them by default")
    published_models: dict[str, str] = Field({}, description="variant → published model, if not the variant's")
    backbone: Annotated[list[Any], BeforeValidator(as_list)] = Field(description="the first one available locally")
    data: dict[str, Names] = Field(description="data sets by the role that stages refer to")
    dev: Names
    test: Names
    topics: Names = Field([], description="labeled sentences for the embedding map; the first set available locally")
    probe: Probe | None = None
    overrides: dict[str, Any] = Field({}, description="recipe keys that this preset changes")
    cross_encoder: dict[str, Any] = Field({}, description="settings that it changes of variants with a cross-encoder")

    def first_seeds(self, count: int | None = None) -> tuple[int, ...]:
        """Return the seeds, or the first `count` of them; a list that is too short is continued after its highest.

        >>> Preset(description="", seeds=[777], backbone="", data={}, dev=[], test=[]).first_seeds(3)
        (777, 778, 779)
        """
        seeds = list(range(1, self.seeds + 1)) if isinstance(self.seeds, int) else list(self.seeds)
        count = count or len(seeds)
        return tuple(seeds[:count] + list(range(max(seeds) + 1, max(seeds) + 1 + count - len(seeds))))


class StudyConfig(StrictModel):
    """A study: its question and everything that is trained to answer it."""

    name: str = Field(pattern=r"^[\w-]+$")
    question: str
    description: str = ""
    recipe: dict[str, Any] = Field({}, description="recipe keys of all variants")
    stages: dict[str, dict[str, Any]] = Field({}, description="training stages by label, as in a recipe")
    variants: list[Variant] = Field(min_length=1)
    grid: dict[str, dict[str, dict[str, Any]]] = Field({}, description="axis → label → recipe overrides")
    not_measured: list[NotMeasured] = Field([], description="listed in the report with their commands")
    published_scores: str = Field("", description="the data set whose published scores are shown next to ours")
    presets: dict[str, Preset] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> "StudyConfig":
        for variant in self.variants:
            for stage in variant.stages:
                if stage not in self.stages:
                    hint = did_you_mean(stage, self.stages)
                    raise ValueError(f"variant {variant.name}: there is no stage {stage!r}; {hint}")
        names = [variant.name for variant in self.all_variants()]
        if len(set(names)) < len(names):
            raise ValueError(f"two variants have the same name ({', '.join(names)})")
        for preset_name, preset in self.presets.items():
            for name in (*preset.variants, *preset.published_models):
                if name not in names:
                    raise ValueError(f"preset {preset_name}: there is no variant {name!r}; {did_you_mean(name, names)}")
            if not isinstance(preset.seeds, int) and len(set(preset.seeds)) < len(preset.seeds):
                raise ValueError(f"preset {preset_name}: a seed occurs twice")
        return self

    def all_variants(self) -> list[Variant]:
        """Return the variants multiplied by the grid; a variant without training stages is not multiplied."""
        variants = []
        for variant in self.variants:
            axes = [list(axis.items()) for axis in self.grid.values()] if variant.stages else []
            for point in product(*axes):
                overrides: dict[str, Any] = {}
                for _, change in point:
                    overrides = merge(overrides, change)
                labels = [label for label, _ in point]
                update = {
                    "name": ", ".join([*([variant.name] if variant.name else []), *labels]),
                    "overrides": merge(overrides, variant.overrides),
                    "published_model": variant.published_model.format(*labels),
                }
                variants.append(variant.model_copy(update=update))
        return variants

    def variants_of(self, preset: Preset) -> list[Variant]:
        """Return the variants that a preset compares, with its published models."""
        return [
            variant.model_copy(
                update={"published_model": preset.published_models.get(variant.name, variant.published_model)}
            )
            for variant in self.all_variants()
            if not preset.variants or variant.name in preset.variants
        ]

    def preset(self, name: str) -> Preset:
        """Return a preset by name."""
        if name not in self.presets:
            raise UsageError(f"the study {self.name} has no preset {name!r}: {did_you_mean(name, self.presets)}")
        return self.presets[name]

    @classmethod
    def builtin(cls, name: str) -> "StudyConfig":
        """Load a study that ships with the package."""
        if name not in builtin_studies():
            raise UsageError(f"there is no study {name!r}: {did_you_mean(name, builtin_studies())}")
        return cls._parse((files("kosbert.study") / "configs" / f"{name}.yaml").read_text(encoding="utf-8"), name)

    @classmethod
    def load(cls, path: str | Path) -> "StudyConfig":
        """Load a study from a YAML file."""
        try:
            return cls._parse(Path(path).read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the study {path} cannot be read ({error}): give the path of a YAML file") from None

    @classmethod
    def _parse(cls, text: str, source: str) -> "StudyConfig":
        try:
            return cls.model_validate(yaml.load(text, YamlLoader))
        except yaml.YAMLError as error:
            raise UsageError(f"{source} is not valid YAML ({' '.join(str(error).split())}): correct it") from None
        except ValidationError as error:
            location, message, _ = first_error(error)
            where = f"{dotted(location)}: " if location else ""
            raise UsageError(f"{source}: {where}{message}; see docs/studies.md") from None


def builtin_studies() -> list[str]:
    """Return the names of the studies that ship with the package."""
    directory = files("kosbert.study") / "configs"
    return sorted(file.name.removesuffix(".yaml") for file in directory.iterdir() if file.name.endswith(".yaml"))
