"""Types of `summary.json`, the machine-readable result of a study, and its JSON schema.

    summary = load_summary(Path("studies/order-quick"))
    summary.answer, summary.test_sets[0].scores["NLI→STS"].spearman.mean

`StudySummary` is written by studies that compare STS scores, `EfficiencySummary` by `kosbert study efficiency`. Both
carry `schema_version`. `kosbert study schema` prints the JSON schema; a copy is in `results/summary.schema.json`.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from kosbert.errors import KosbertError

SCHEMA_VERSION = 1


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class SeedMean(_Model):
    """Mean over seeds; the interval is Student's t over the seeds, None for a single seed."""

    seeds: int
    mean: float
    std: float | None
    ci_low: float | None
    ci_high: float | None


class VariantMean(_Model):
    """Mean over seeds whose 95% interval covers both sources of variance, seeds and test pairs."""

    per_seed: list[float]
    mean: float
    std: float | None
    ci_low: float
    ci_high: float


class VariantScores(_Model):
    """Scores of one variant on one evaluation set."""

    seeds: list[int] = Field(description="the seeds that finished")
    spearman: VariantMean = Field(description="Spearman correlation of the cosine similarity")
    metrics: dict[str, SeedMean | None] = Field(description="every STS metric by name; None where it is undefined")


class PairwiseComparison(_Model):
    """Difference of two variants (first minus second) after Holm's correction."""

    first: str
    second: str
    difference: float
    ci_low: float
    ci_high: float
    p_value: float = Field(description="Holm-corrected over all pairs of variants")
    seeds: int = Field(description="matched pairs of seeds")
    significant: bool
    winner: str | None = Field(description="the better variant, None where the difference is not significant")


class SliceScores(_Model):
    """Spearman within one part of a test set, mean over seeds."""

    kind: str = Field(description="source, length or overlap")
    name: str
    pairs: int
    spearman: dict[str, float | None] = Field(description="by variant")


class EvalSet(_Model):
    """One evaluation set with the scores of every variant."""

    name: str
    split: Literal["test", "dev"] = Field(description="dev selects checkpoints; only test sets are compared")
    pairs: int
    scores: dict[str, VariantScores] = Field(description="by variant")
    undefined: list[str] = Field(description="variants whose correlation is undefined")
    comparisons: list[PairwiseComparison]
    slices: list[SliceScores] = []
    published: dict[str, dict[str, float]] = Field(description="all eight correlations of published models")


class Example(_Model):
    """One test pair on which the two best variants disagree."""

    closer: Literal["best", "runner_up"] = Field(description="which of the two is closer to the human score")
    pair: int = Field(description="position in the test set, from 1")
    sentence1: str | None = Field(None, description="left out of a published report")
    sentence2: str | None = None
    source: str
    gold: float
    best: float = Field(description="rank of the best variant on the scale of the human scores, mean over seeds")
    runner_up: float


class VariantSummary(_Model):
    """One variant: what was trained, at what cost, and what is published about it."""

    name: str
    stages: list[str]
    planned_seeds: int
    failed: bool
    steps: int | None = Field(description="training steps of one seed")
    seconds_per_seed: float | None = Field(description="training time of all its stages, mean over seeds")
    new_seconds: float = Field(description="training time of the stages that no variant above shares, all seeds")
    nli_accuracy: SeedMean | None
    bytes_per_vector: int | None
    published: dict[str, float] = Field(description="published scores of the corresponding model, by metric")
    published_dev: list[float] = Field([], description="published dev Spearman after each epoch of the last stage")


class PublishedSource(_Model):
    """Where published scores come from, with the variants that each caveat applies to."""

    name: str
    url: str
    caveats: dict[str, list[str]]


class PublishedScores(_Model):
    """The data set and the sources of `VariantSummary.published`."""

    dataset: str
    sources: list[PublishedSource]


class StageCounts(_Model):
    """Stages of all runs, and how many of them are distinct; a distinct stage is trained once."""

    distinct: int
    total: int


class DatasetChecksum(_Model):
    """Checksum of the rows that were read, or of a teacher's weights (which has no rows)."""

    rows: int | None = None
    sha256: str


class NotMeasured(_Model):
    """Something that the study leaves out, with the command that measures it."""

    what: str
    command: str


class Machine(_Model):
    """The machine, without its name."""

    system: str
    architecture: str
    cpus: int | None
    threads: int
    training_dtype: str | None = None
    gpu: str | None


class Provenance(_Model):
    """Code, libraries and machine behind a number."""

    kosbert: str
    source_sha256: str = Field(description="checksum of kosbert's source files; a version covers many commits")
    python: str
    libraries: dict[str, str]
    machine: Machine
    command: str
    backbone: dict[str, str] | None = Field(None, description="its name, and its commit on the hub or its checksum")


class ReportSummary(_Model):
    """What every report starts and ends with."""

    schema_version: Literal[1] = 1
    study: str
    preset: str
    question: str
    answer: str = ""
    description: str
    preset_description: str
    differences: list[str] = Field([], description="what differs from the published experiment that this repeats")
    synthetic_data: bool = Field(description="whether the test data is the built-in sample set")
    command: str
    facts: dict[str, str] = {}
    not_measured: list[NotMeasured]
    provenance: Provenance | None


class StudySummary(ReportSummary):
    """Result of a study that compares STS scores."""

    kind: Literal["sts"] = "sts"
    backbone: str
    preferred_backbone: str = Field(description="the first of the preset; differs from `backbone` if it was missing")
    seeds: int
    limit: int | None = Field(None, description="rows of every training source at most, in a shortened study")
    settings: list[str] = Field([], description="changes of the preset, as key=value")
    variants: list[VariantSummary]
    eval_sets: list[EvalSet]
    published_scores: PublishedScores | None
    stages: StageCounts
    failed_runs: dict[str, str] = Field(description="error message by run")
    runs_not_started: list[str] = Field(description="runs that the time budget did not allow")
    examples: list[Example] = []
    datasets: dict[str, DatasetChecksum]

    @property
    def test_sets(self) -> list[EvalSet]:
        """The sets that are reported."""
        return [eval_set for eval_set in self.eval_sets if eval_set.split == "test"]

    @property
    def dev_set(self) -> EvalSet | None:
        """The first set that selects checkpoints."""
        return next((eval_set for eval_set in self.eval_sets if eval_set.split == "dev"), None)

    @property
    def variant_names(self) -> list[str]:
        """Names of the variants in the order of the study."""
        return [variant.name for variant in self.variants]


class MethodSpeed(_Model):
    """Speed of one inference method: medians over rounds, the ratio to the first method within each round."""

    method: str
    sentences_per_second: float
    ratio: float
    min_ratio: float
    max_ratio: float


class EfficiencySummary(ReportSummary):
    """Result of `kosbert study efficiency`."""

    kind: Literal["efficiency"] = "efficiency"
    model: str
    sentences: int
    dataset: str
    rounds: int
    methods: list[MethodSpeed]


Summary = Annotated[StudySummary | EfficiencySummary, Field(discriminator="kind")]
_SUMMARY: TypeAdapter[StudySummary | EfficiencySummary] = TypeAdapter(Summary)


def load_summary(directory: Path) -> StudySummary | EfficiencySummary:
    """Read and validate the `summary.json` of a study directory."""
    path = directory / "summary.json"
    try:
        return _SUMMARY.validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise KosbertError(
            f"{path} does not match schema version {SCHEMA_VERSION} ({where}: {first['msg']}): run the study again"
        ) from None


def summary_schema() -> dict[str, Any]:
    """Return the JSON schema of `summary.json`."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_SUMMARY.json_schema()}
