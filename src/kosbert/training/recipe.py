"""A recipe: a backbone and the stages through which it is trained; the API, the YAML and the command line in one.

    Recipe.load("recipes/nli-sts.yaml", overlays=["recipes/small.yaml"], settings=["train.lr=3e-5"])

An unknown key is an error that names the nearest one, so that a typing error never trains something else.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from kosbert.errors import UsageError
from kosbert.losses import LOSSES


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | Mapping) else value


def _as_shares(value: Any) -> Any:
    return {value: 1.0} if isinstance(value, str) and value else value or {}


Names = Annotated[list[str], BeforeValidator(_as_list)]
Shares = Annotated[dict[str, Annotated[float, Field(gt=0)]], BeforeValidator(_as_shares)]


class NewBackbone(_Strict):
    """A small transformer that starts from nothing, with a WordPiece tokenizer trained on `text`."""

    text: Names = Field(description="what the tokenizer learns from: data sets, roles or files")
    layers: int = Field(4, ge=1)
    hidden_size: int = Field(256, ge=8)
    heads: int = Field(4, ge=1)
    vocab_size: int = Field(8000, ge=100)
    dropout: float = Field(0.1, ge=0, lt=1)


class FewerLayers(_Strict):
    """A trained model with only some of its layers, evenly spaced: a student that starts from what it knows."""

    model_config = ConfigDict(serialize_by_alias=True)

    source: str = Field(alias="from", description="a directory or a hub name")
    layers: int = Field(ge=0, description="0: the word vectors alone")


def _kind_of_backbone(value: Any) -> str:
    if isinstance(value, Mapping):
        return "FewerLayers" if "from" in value else "NewBackbone"
    return type(value).__name__ if isinstance(value, NewBackbone | FewerLayers) else "str"


Backbone = Annotated[
    Annotated[str, Tag("str")]
    | Annotated[NewBackbone, Tag("NewBackbone")]
    | Annotated[FewerLayers, Tag("FewerLayers")],
    Discriminator(_kind_of_backbone),
]


class Settings(_Strict):
    """How a stage is trained. Given under `train` they hold for all stages; a stage may set its own."""

    batch_size: int = Field(16, ge=1)
    lr: float = Field(2e-5, gt=0)
    warmup: float = Field(0.1, ge=0, le=1, description="share of the steps in which the learning rate rises")
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    weight_decay: float = Field(0.01, ge=0)
    max_grad_norm: float = Field(1.0, gt=0, description="largest norm of the gradient")
    precision: Literal["auto", "float32"] = Field("auto", description="auto: bfloat16 where hardware multiplies it")
    group_by_length: bool = Field(
        False, description="batches of sentences of similar length: faster, slightly less random"
    )
    evals_per_epoch: int = Field(
        4, ge=0, description="how often dev is scored in an epoch; 0: at the end of the stage only"
    )
    patience: int = Field(0, ge=0, description="stop after so many dev scores without a better one; 0: never")


class Source(_Strict):
    """Where a stage's rows come from, and what is asked of them if it differs from the stage."""

    rows: Names = Field(description="data sets (klue-nli-train), roles of the recipe (nli) or files")
    loss: str = ""
    options: dict[str, Any] = {}
    batch_size: int | None = Field(None, ge=1)
    weight: float = Field(1.0, gt=0, description="how much its loss counts")
    teacher: Shares = Field(
        {}, description="for distillation: a model, or an ONNX file that reads strings; several with their shares"
    )
    columns: dict[str, str] = Field({}, description="for files: our roles (sentence1, score) → their column names")
    exclude: Names = Field([], description="data sets: rows that share a sentence with one of them are left out")
    min_chars: int = Field(0, ge=0, description="characters: rows with a shorter sentence are left out")
    max_chars: int | None = Field(None, ge=1, description="characters: rows with a longer sentence are left out")
    limit: int | None = Field(None, ge=1, description="only so many rows, drawn with the seed")
    same_batch: bool = Field(False, description="for distillation: the sentences of a row meet in a batch")
    translations: Names = Field(
        [], description="for distillation: the same rows in the language that the teacher reads"
    )
    augment: int = Field(0, ge=0, description="for distillation: edited copies of each sentence, in the same batch")
    nearest_neighbors: int = Field(
        0, ge=0, description="for distillation: similar sentences of the rows, in the same batch"
    )


def _as_sources(value: Any) -> Any:
    """`data: nli` and `data: [nli, {rows: sts}]` are short for lists of sources."""
    value = _as_list(value)
    return [{"rows": item} if isinstance(item, str) else item for item in value] if isinstance(value, list) else value


class Stage(_Strict):
    """One stretch of training: data, loss, length, and settings that differ from the recipe's."""

    name: str = Field(pattern=r"^[\w-]+$")
    data: Annotated[list[Source], BeforeValidator(_as_sources)] = Field(min_length=1)
    loss: str = ""
    options: dict[str, Any] = {}
    epochs: float | None = Field(None, gt=0)
    steps: int | None = Field(None, ge=1)
    train: dict[str, Any] = {}

    @model_validator(mode="after")
    def _check(self) -> "Stage":
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("give epochs or steps, one of them")
        for source in self.data:
            name = source.loss or self.loss
            if not name:
                raise ValueError(f"give a loss, one of {', '.join(LOSSES)}")
            if name not in LOSSES:
                raise ValueError(f"there is no loss {name!r}; {_nearest(name, LOSSES)}")
        return self


class Recipe(_Strict):
    """Everything that decides what a training run makes."""

    name: str = Field(pattern=r"^[\w-]+$")
    backbone: Backbone
    stages: list[Stage] = Field(min_length=1)
    data: dict[str, Names] = Field({}, description="roles: nli, sts, … → data sets, so that an overlay can change them")
    pooling: Literal["mean", "max", "cls", "first-last"] = "mean"
    max_length: int = Field(128, ge=4)
    seed: int = Field(42, ge=0)
    train: Settings = Settings()
    dev: Names = Field([], description="scored during training; chooses the checkpoint")
    test: Names = Field([], description="scored once, at the end")

    @model_validator(mode="after")
    def _check(self) -> "Recipe":
        names = [stage.name for stage in self.stages]
        if len(set(names)) < len(names):
            raise ValueError(f"two stages have the same name ({', '.join(names)})")
        for number, stage in enumerate(self.stages):
            try:
                self.settings(stage)
            except ValidationError as error:
                raise ValueError(_first_mistake(error, ("stages", number, "train"))) from None
        return self

    def settings(self, stage: Stage) -> Settings:
        """The settings of a stage: its own, over the recipe's."""
        return Settings.model_validate(self.train.model_dump() | stage.train)

    def references(self, names: Sequence[str]) -> list[str]:
        """Data sets and files behind names, which may be roles."""
        return [reference for name in names for reference in self.data.get(name, [name])]

    @classmethod
    def load(cls, path: str | Path, overlays: Sequence[str | Path] = (), settings: Sequence[str] = ()) -> "Recipe":
        """Read a recipe, lay other files over it, and set single values (`train.lr=3e-5`, `stages.0.epochs=2`)."""
        document: dict[str, Any] = {}
        for each in (path, *overlays):
            document = _laid_over(document, _read(Path(each)))
        for setting in settings:
            _set(document, setting)
        return cls.parse(document, str(path))

    @classmethod
    def parse(cls, document: Mapping[str, Any], where: str = "recipe") -> "Recipe":
        """Check a recipe given as plain values; the first mistake becomes one sentence."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise UsageError(f"{where}: {_first_mistake(error)}") from None


class _Loader(yaml.SafeLoader):
    """Safe YAML that takes 3e-5 for a number; YAML 1.1 wants 3.0e-5 and gives a string."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError:
        raise UsageError(f"there is no recipe {path}: give the path of a YAML file") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path} is not a readable YAML file ({' '.join(str(error).split())})") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} holds no keys and values: see the recipes folder for examples")
    return document


def _laid_over(below: Any, above: Any) -> Any:
    """Mappings merge key by key, and a mapping over a list applies to every item of it; all else is replaced."""
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {key: _laid_over(below.get(key), value) for key, value in above.items()}
    if isinstance(below, list) and isinstance(above, dict):
        return [_laid_over(item, above) for item in below]
    return above


def _set(document: dict[str, Any], setting: str) -> None:
    path, equals, text = setting.partition("=")
    if not equals:
        raise UsageError(f"--set {setting}: write it as key=value, for example train.lr=3e-5")
    try:
        value = yaml.load(text, _Loader)
    except yaml.YAMLError:
        value = text
    *parents, last = path.split(".")
    place: Any = document
    for key in parents:
        if isinstance(place, list) and key.isdigit() and int(key) < len(place):
            place = place[int(key)]
        elif isinstance(place, dict):
            place = place.setdefault(key, {})
        else:
            raise UsageError(f"--set {setting}: there is nothing at {key!r} in the recipe")
    if isinstance(place, list) and last.isdigit() and int(last) < len(place):
        place[int(last)] = value
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise UsageError(f"--set {setting}: there is nothing at {last!r} in the recipe")


def _nearest(word: str, choices: Iterable[str]) -> str:
    close = get_close_matches(word, list(choices), n=1, cutoff=0)
    return f"the nearest is {close[0]!r}"


def _first_mistake(error: ValidationError, above: Sequence[int | str] = ()) -> str:
    """The first mistake as one sentence: where it stands and what is wrong; for an unknown key the nearest one."""
    mistakes = sorted(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    first = mistakes[0]
    place = [*above, *first["loc"]]
    where = ".".join(str(part) for part in place if part != "str" and part not in _KINDS)
    if first["type"] == "extra_forbidden":
        known = _known_keys(place[:-1])
        return f"there is no key {where!r}; {_nearest(str(place[-1]), known)} (of {', '.join(sorted(known))})"
    message = first["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


_KINDS: dict[int | str, type[BaseModel]] = {"NewBackbone": NewBackbone, "FewerLayers": FewerLayers}
_BELOW: dict[int | str, type[BaseModel]] = {"stages": Stage, "data": Source, "train": Settings, **_KINDS}


def _known_keys(place: Sequence[int | str]) -> list[str]:
    """The keys that are allowed at a place in the recipe."""
    model: type[BaseModel] = Recipe
    for part in place:
        model = _BELOW.get(part, model)
    return [field.alias or name for name, field in model.model_fields.items()]
