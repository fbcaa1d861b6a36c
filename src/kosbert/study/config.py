"""A study as its YAML file says it: a question, rows, stages, presets; checked, and never guessed at.

    study = Study.named("order")                             # one of those that come with the package
    study = Study.read("my-study.yaml")                      # or your own, of the same shape

`rows` are what is compared. `grid` multiplies them: each of its axes gives a name and values to lay over the recipe.
"""

from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from kosbert.errors import UsageError, did_you_mean


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


Names = Annotated[list[str], BeforeValidator(_as_list)]


class Row(_Strict):
    """One row of the table: a chain of stages, or an encoder that is not trained."""

    name: str
    stages: list[str] = Field([], description="names of the study's stages, in order; none: the backbone as it is")
    encoder: str = Field("", description="instead of training: tfidf, random, random-words, static:FILE")
    cross_encoder: dict[str, Any] = Field({}, description="instead: settings of a cross-encoder, trained on sts")
    vectors: dict[str, Any] = Field({}, description="what is done to the vectors: dim or pca, kind (int8, binary)")
    over: dict[str, Any] = Field({}, description="what this row changes in the recipe")
    published: str = Field("", description="the published model beside which it stands")
    seeds: int | None = Field(None, ge=1, description="fewer than the study's, where the seed changes nothing")


class Probe(_Strict):
    """NLI accuracy: which rows a softmax over frozen vectors learns from, and which it is scored on."""

    train: Names
    test: Names
    limit: int = Field(6000, ge=100)


class Preset(_Strict):
    """How large a study is made: backbone, data, seeds, and whatever else it lays over the recipe."""

    about: str
    seeds: int = Field(3, ge=1)
    backbone: Annotated[list[Any], BeforeValidator(_as_list)] = Field(description="the first that is at hand")
    data: dict[str, Names]
    dev: Names
    test: Names
    topics: Names = Field([], description="labeled sentences for the map; the first that is at hand")
    probe: Probe | None = None
    over: dict[str, Any] = {}


class Elsewhere(_Strict):
    """Something that this study leaves out, with the command that measures it."""

    what: str
    command: str


class Study(_Strict):
    """A question and everything that is trained to answer it."""

    name: str = Field(pattern=r"^[\w-]+$")
    question: str
    about: str = ""
    recipe: dict[str, Any] = {}
    stages: dict[str, dict[str, Any]] = {}
    rows: list[Row] = Field(min_length=1)
    grid: dict[str, dict[str, dict[str, Any]]] = {}
    not_measured: list[Elsewhere] = []
    published: str = Field("", description="the split whose published figures stand beside ours")
    presets: dict[str, Preset] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> "Study":
        for row in self.rows:
            for stage in row.stages:
                if stage not in self.stages:
                    raise ValueError(f"row {row.name}: there is no stage {stage!r}; {did_you_mean(stage, self.stages)}")
        names = [row.name for row in self.every_row()]
        if len(set(names)) < len(names):
            raise ValueError(f"two rows have the same name ({', '.join(names)})")
        return self

    def every_row(self) -> list[Row]:
        """The rows, multiplied by the grid; a row that is not trained is not multiplied."""
        found = []
        for row in self.rows:
            axes = [list(axis.items()) for axis in self.grid.values()] if row.stages else []
            for point in product(*axes):
                over: dict[str, Any] = {}
                for _, change in point:
                    over = laid_over(over, change)
                name = ", ".join([*([row.name] if row.name else []), *(value for value, _ in point)])
                published = row.published.format(*(value for value, _ in point))
                change = {"name": name, "over": laid_over(over, row.over), "published": published}
                found.append(row.model_copy(update=change))
        return found

    def preset(self, name: str) -> Preset:
        """A preset by its name."""
        if name not in self.presets:
            raise UsageError(f"the study {self.name} has no preset {name!r}: {did_you_mean(name, self.presets)}")
        return self.presets[name]

    @classmethod
    def named(cls, name: str) -> "Study":
        """A study that comes with the package."""
        if name not in shipped():
            raise UsageError(f"there is no study {name!r}: {did_you_mean(name, shipped())}")
        return cls._parse((files("kosbert.study") / "configs" / f"{name}.yaml").read_text(encoding="utf-8"), name)

    @classmethod
    def read(cls, path: str | Path) -> "Study":
        """A study of the user's own."""
        try:
            return cls._parse(Path(path).read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the study {path} cannot be read ({error}): give the path of a YAML file") from None

    @classmethod
    def _parse(cls, text: str, where: str) -> "Study":
        try:
            return cls.model_validate(yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise UsageError(f"{where} is not YAML ({' '.join(str(error).split())}): correct it") from None
        except ValidationError as error:
            first = sorted(error.errors(), key=lambda each: each["type"] != "extra_forbidden")[0]
            place = ".".join(map(str, first["loc"]))
            message = first["msg"].removeprefix("Value error, ")
            raise UsageError(f"{where}: {place + ': ' if place else ''}{message}; see docs/studies.md") from None


def shipped() -> list[str]:
    """Names of the studies that come with the package."""
    folder = files("kosbert.study") / "configs"
    return sorted(each.name.removesuffix(".yaml") for each in folder.iterdir() if each.name.endswith(".yaml"))


def laid_over(below: Any, above: Any) -> Any:
    """Mappings merge key by key; all else is replaced.

    >>> laid_over({"train": {"lr": 1, "max_grad_norm": 2}}, {"train": {"lr": 3}})
    {'train': {'lr': 3, 'clip': 2}}
    """
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {key: laid_over(below.get(key), value) for key, value in above.items()}
    return above
