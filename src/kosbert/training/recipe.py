"""Recipe: a backbone and its training stages. The same schema for Python, YAML files and the command line.

    Recipe.load("nli-sts", overlays=["sample"], settings=["train.lr=3e-5"])

Recipes are addressed by name (`kosbert train --list`) or by path.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from kosbert.data.nli import TripletChoice
from kosbert.errors import UsageError, did_you_mean
from kosbert.losses import LOSSES
from kosbert.recipes import find_recipe
from kosbert.training.config import Names, StrictModel, as_list, dotted, first_error, merge, read_yaml, set_value
from kosbert.training.lora import Lora


def _as_weights(value: Any) -> Any:
    return {value: 1.0} if isinstance(value, str) and value else value or {}


TeacherWeights = Annotated[dict[str, Annotated[float, Field(gt=0)]], BeforeValidator(_as_weights)]


class NewBackbone(StrictModel):
    """A small transformer with random weights and a WordPiece tokenizer trained on `text`."""

    text: Names = Field(description="training text of the tokenizer: data sets, roles or files")
    layers: int = Field(4, ge=1)
    hidden_size: int = Field(256, ge=8)
    heads: int = Field(4, ge=1)
    vocab_size: int = Field(8000, ge=100)
    dropout: float = Field(0.1, ge=0, lt=1)


class FewerLayers(StrictModel):
    """A trained model with some of its layers, evenly spaced: the initialization of a student."""

    model_config = ConfigDict(serialize_by_alias=True)

    source: str = Field(alias="from", description="a directory or a hub name")
    layers: int = Field(ge=0, description="0: the word embeddings only")


def _backbone_tag(value: Any) -> str:
    if isinstance(value, Mapping):
        return "FewerLayers" if "from" in value else "NewBackbone"
    return type(value).__name__ if isinstance(value, NewBackbone | FewerLayers) else "str"


Backbone = Annotated[
    Annotated[str, Tag("str")]
    | Annotated[NewBackbone, Tag("NewBackbone")]
    | Annotated[FewerLayers, Tag("FewerLayers")],
    Discriminator(_backbone_tag),
]


class TrainingArguments(StrictModel):
    """Hyperparameters. Under `train` they apply to all stages; a stage may override them."""

    batch_size: int = Field(16, ge=1)
    lr: float = Field(2e-5, gt=0)
    warmup: float = Field(0.1, ge=0, le=1, description="fraction of the steps with a rising learning rate")
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    weight_decay: float = Field(0.01, ge=0)
    max_grad_norm: float = Field(1.0, gt=0, description="gradient clipping")
    precision: Literal["auto", "float32"] = Field("auto", description="auto: bfloat16 where the hardware supports it")
    group_by_length: bool | None = Field(
        None,
        description="batches of sentences of similar length: faster with padding, slightly less random; null: for "
        "models that are padded",
    )
    no_duplicates: bool = Field(
        False, description="no text occurs twice in a batch, as with sentence-transformers' no_duplicates sampler"
    )
    evals_per_epoch: int = Field(4, ge=0, description="dev evaluations per epoch; 0: only at the end of the stage")
    patience: int = Field(0, ge=0, description="stop after this many evaluations without a better score; 0: never")

    @model_validator(mode="after")
    def _check(self) -> "TrainingArguments":
        if self.no_duplicates and self.group_by_length:
            raise ValueError("no_duplicates and group_by_length exclude each other: set one of them to false")
        return self


class DataSource(StrictModel):
    """Rows of a stage, with a loss, options and filters of their own."""

    rows: Names = Field(description="data sets (klue-nli-train), roles of the recipe (nli) or files")
    loss: str = ""
    options: dict[str, Any] = Field({})
    batch_size: int | None = Field(None, ge=1)
    weight: float = Field(1.0, gt=0, description="factor of its loss")
    teacher: TeacherWeights = Field(
        {}, description="for distillation: a model, or an ONNX file that takes strings; several with their weights"
    )
    columns: dict[str, str] = Field({}, description="for files: our column names (sentence1, score) → theirs")
    encoding: str = Field("", description="for text files: cp949, utf-16, …; detected by default")
    sheet: str = Field("", description="for .xlsx files: the name of a sheet; the first by default")
    exclude: Names = Field([], description="data sets: rows that share a sentence with one of them are left out")
    min_chars: int = Field(0, ge=0, description="rows with a shorter sentence are left out")
    max_chars: int | None = Field(None, ge=1, description="rows with a longer sentence are left out")
    limit: int | None = Field(None, ge=1, description="a random sample of this many rows, drawn with the seed")
    triplets: TripletChoice = Field(
        "all", description="for NLI rows: all triplets of a premise, one random triplet, or that of its last hypotheses"
    )
    both_directions: bool = Field(
        False, description="for NLI rows: also swap premise and hypothesis, and anchor and positive of each triplet"
    )
    same_batch: bool = Field(False, description="for distillation: keep the sentences of a row in the same batch")
    translations: Names = Field([], description="for distillation: the same rows in the language of the teacher")
    augment: int = Field(0, ge=0, description="for distillation: edited copies of each sentence, in the same batch")
    nearest_neighbors: int = Field(
        0, ge=0, description="for distillation: similar sentences of the rows, in the same batch"
    )


def _as_sources(value: Any) -> Any:
    """Expand `data: nli` and `data: [nli, {rows: sts}]` to lists of sources."""
    value = as_list(value)
    return [{"rows": item} if isinstance(item, str) else item for item in value] if isinstance(value, list) else value


class Stage(StrictModel):
    """One training stage: data, loss, length, and arguments that differ from the recipe's."""

    name: str = Field(pattern=r"^[\w-]+$")
    data: Annotated[list[DataSource], BeforeValidator(_as_sources)] = Field(min_length=1)
    loss: str = ""
    options: dict[str, Any] = Field({})
    epochs: float | None = Field(None, gt=0)
    steps: int | None = Field(None, ge=1)
    train: dict[str, Any] = Field({})

    @model_validator(mode="after")
    def _check(self) -> "Stage":
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("give epochs or steps, one of them")
        for source in self.data:
            name = source.loss or self.loss
            if not name:
                raise ValueError(f"give a loss, one of {', '.join(LOSSES)}")
            if name not in LOSSES:
                raise ValueError(f"there is no loss {name!r}; {did_you_mean(name, LOSSES)}")
        return self


class Recipe(StrictModel):
    """Everything that determines the result of a training run."""

    name: str = Field(pattern=r"^[\w-]+$")
    backbone: Backbone
    stages: list[Stage] = Field(min_length=1)
    data: dict[str, Names] = Field({}, description="roles (nli, sts, …) → data sets, so that an overlay can swap them")
    pooling: Literal["mean", "max", "cls", "first-last"] = "mean"
    max_length: int = Field(128, ge=4)
    dropout: float | None = Field(
        None, ge=0, lt=1, description="dropout of the backbone, also in the saved model; null: as the backbone has it"
    )
    attn_implementation: Literal["sdpa", "eager", "flash_attention_2", "flash_attention_3"] | None = Field(
        None, description="attention of transformers; null: ours, which needs no padding, or sdpa"
    )
    gradient_checkpointing: bool = Field(
        False, description="keep only the inputs of each layer and compute it again in the backward pass: less memory"
    )
    lora: Lora | None = Field(None, description="train low-rank updates of the weights instead of the weights")
    seed: int = Field(42, ge=0)
    train: TrainingArguments = TrainingArguments()
    dev: Names = Field([], description="evaluated during training; selects the checkpoint")
    test: Names = Field([], description="evaluated once, at the end")

    @model_validator(mode="after")
    def _check(self) -> "Recipe":
        names = [stage.name for stage in self.stages]
        if len(set(names)) < len(names):
            raise ValueError(f"two stages have the same name ({', '.join(names)})")
        for number, stage in enumerate(self.stages):
            try:
                self.training_arguments(stage)
            except ValidationError as error:
                raise ValueError(_error_message(error, ("stages", number, "train"))) from None
        return self

    def training_arguments(self, stage: Stage) -> TrainingArguments:
        """Return the arguments of a stage: its own over those of the recipe."""
        return TrainingArguments.model_validate(self.train.model_dump() | stage.train)

    def references(self, names: Sequence[str]) -> list[str]:
        """Return the data sets and files behind names; a name may be a role."""
        return [reference for name in names for reference in self.data.get(name, [name])]

    @classmethod
    def load(cls, name: str | Path, overlays: Sequence[str | Path] = (), settings: Sequence[str] = ()) -> "Recipe":
        """Load a recipe by name or path.

        Args:
            name: a shipped recipe (`nli-sts`, `builtin/6-sts`) or the path of a YAML file.
            overlays: overlays applied in order, by name (`sample`) or path.
            settings: single values (`train.lr=3e-5`, `stages.0.epochs=2`), applied last.
        """
        document: dict[str, Any] = {}
        for reference in (name, *overlays):
            document = merge(document, read_yaml(*_locate(reference)))
        for setting in settings:
            set_value(document, setting)
        return cls.parse(document, str(name))

    @classmethod
    def parse(cls, document: Mapping[str, Any], where: str = "recipe") -> "Recipe":
        """Validate a recipe given as plain values; the first mistake becomes one sentence."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise UsageError(f"{where}: {_error_message(error)}") from None


def _locate(reference: str | Path) -> tuple[Path, str]:
    """Return the path of a recipe or an overlay, and the error message in case it does not exist."""
    path = Path(reference)
    if isinstance(reference, Path) or path.suffix in (".yaml", ".yml") or path.is_file():
        return path, f"there is no recipe {path}: give the path of a YAML file, or a name of `kosbert train --list`"
    return find_recipe(reference), ""


_MODELS: dict[int | str, type[BaseModel]] = {"NewBackbone": NewBackbone, "FewerLayers": FewerLayers}
_FIELD_MODELS: dict[int | str, type[BaseModel]] = {
    "stages": Stage, "data": DataSource, "train": TrainingArguments, "lora": Lora, **_MODELS,
}  # fmt: skip


def _error_message(error: ValidationError, prefix: Sequence[int | str] = ()) -> str:
    """Return the first error as one sentence: where it is and what is wrong; for an unknown key the nearest one."""
    location, message, unknown_key = first_error(error)
    location = [*prefix, *location]
    where = dotted([part for part in location if part != "str" and part not in _MODELS])
    if unknown_key:
        return f"there is no key {where!r}; {did_you_mean(str(location[-1]), _allowed_keys(location[:-1]))}"
    return f"{where}: {message}" if where else message


def _allowed_keys(location: Sequence[int | str]) -> list[str]:
    """Return the keys that are allowed at a location in the recipe."""
    model: type[BaseModel] = Recipe
    for part in location:
        model = _FIELD_MODELS.get(part, model)
    return [field.alias or name for name, field in model.model_fields.items()]
