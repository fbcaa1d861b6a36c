"""Training data of a recipe: read and filter rows, convert them to columns, add teacher embeddings, tokenize."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from kosbert.data.columns import Columns, read_columns
from kosbert.data.leakage import exclude_overlap
from kosbert.data.records import ScoredPair
from kosbert.data.registry import references
from kosbert.distributed import on_rank_zero
from kosbert.errors import UsageError, did_you_mean
from kosbert.losses import LOSSES, Loss, build
from kosbert.losses.features import Features
from kosbert.model.tokenized_corpus import TokenizedCorpus
from kosbert.progress import ProgressCallback
from kosbert.training.augmentation import edited_copies, nearest_neighbors
from kosbert.training.columns import NLIOptions, TrainColumns, to_columns
from kosbert.training.distillation import combined_embeddings
from kosbert.training.recipe import DataSource, Recipe, Stage


@dataclass(frozen=True)
class TrainDataset:
    """One data source of a stage, ready for training: tokenized columns, labels, loss."""

    corpus: TokenizedCorpus
    columns: tuple[NDArray[np.integer[Any]], ...]  # sentence numbers in `corpus`, (rows,) per column
    labels: NDArray[Any] | None
    loss: Loss
    batch_size: int
    weight: float

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens per row, all columns together."""
        return self.tokens(np.arange(len(self.columns[0])))

    def tokens(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return the tokens of some rows, all columns together."""
        total: NDArray[np.int64] = sum(
            (self.corpus.lengths[column[rows]] for column in self.columns), np.zeros(1, np.int64)
        )
        return total

    def features(self, rows: NDArray[np.integer[Any]]) -> list[Features]:
        """Return one batch of features per column, with sentence ids so that the loss need not hash the tokens."""
        batches = []
        for column in self.columns:
            ids = torch.from_numpy(self.corpus.sentence_ids[column[rows]])
            batches.append(self.corpus.batch(column[rows]) | {"sentence_ids": ids})
        return batches


class DataModule:
    """All data of a recipe, each data set read once.

    Args:
        recipe: names the data.
        data_dir: directory with the files of the data sets; by default `KOSBERT_DATA`.
        on_progress: called while a teacher encodes.
    """

    def __init__(self, recipe: Recipe, data_dir: Path | None, on_progress: ProgressCallback | None = None) -> None:
        self._recipe, self._data_dir, self._on_progress = recipe, data_dir, on_progress
        self._rows: dict[str, Columns] = {}
        self._columns: dict[str, TrainColumns] = {}
        self.fingerprints: dict[str, dict[str, Any]] = {}  # row counts and checksums, for the model card

    def rows(
        self, names: Sequence[str], columns: dict[str, str] | None = None, *, encoding: str = "", sheet: str = ""
    ) -> Columns:
        """Return the rows of data sets, roles or files, concatenated."""
        self._check_names(names)
        sources = self._recipe.references(names)
        name = " + ".join(sources) + "".join(f", {role}: {column}" for role, column in (columns or {}).items())
        name += "".join(f", {option}" for option in (encoding, sheet) if option)
        if name not in self._rows:
            self._rows[name] = rows = read_columns(
                sources, columns=columns, encoding=encoding, sheet=sheet, data_dir=self._data_dir
            )
            self.fingerprints[name] = rows.fingerprint()
        return self._rows[name]

    def _check_names(self, names: Sequence[str]) -> None:
        roles, data_sets = self._recipe.data, set(references())
        for name in names:
            if name not in roles and name not in data_sets and not Path(name).suffix:
                raise UsageError(
                    f"there is no role, data set or file {name!r}: {did_you_mean(name, [*roles, *data_sets])}"
                )

    def sentences(self, names: Sequence[str]) -> list[str]:
        """Return every sentence of some data sets, roles or files."""
        return list(self.rows(names).texts())

    def scored_pairs(self, names: Sequence[str]) -> dict[str, list[ScoredPair]]:
        """Return the STS pairs to evaluate on, by data set."""
        pairs_by_name = {}
        for reference in self._recipe.references(names):
            pairs = self.rows([reference]).scored_pairs()
            if not pairs:
                raise UsageError(f"{reference} has no scored pairs to evaluate on: name an STS set")
            pairs_by_name[reference] = pairs
        return pairs_by_name

    def check(self, model: SentenceTransformer) -> None:
        """Check that data, loss and options of every stage fit together, before the first stage is trained."""
        for stage in self._recipe.stages:
            for source in stage.data:
                self._columns_of(source, stage)
                self._translations(source)  # reads all rows now, so that `fingerprints` is complete
                self._build_loss(source, stage, model, model.get_embedding_dimension())
        self.scored_pairs(self._recipe.test)

    def train_datasets(self, stage: Stage, model: SentenceTransformer) -> list[TrainDataset]:
        """Return the data sources of a stage, ready for training.

        Sources with the same loss and options share one loss and its layers, such as the projection to the teacher.
        """
        losses: dict[str, Loss] = {}
        datasets = []
        for source in stage.data:
            columns = self._columns_of(source, stage)
            labels, teacher_dimension = columns.labels, 0
            if source.teacher:
                labels = self._teacher_embeddings(source, columns)
                teacher_dimension = labels.shape[-1]
                if source.nearest_neighbors:
                    columns, labels = _add_neighbors(columns, labels, source.nearest_neighbors, self._recipe.seed)
            key = json.dumps([source.loss or stage.loss, source.options, teacher_dimension], sort_keys=True)
            if key not in losses:
                losses[key] = self._build_loss(source, stage, model, teacher_dimension)
            batch_size = source.batch_size or self._recipe.training_arguments(stage).batch_size
            columns = columns.compact()
            corpus = TokenizedCorpus(model, columns.sentences)
            datasets.append(TrainDataset(corpus, columns.numbers, labels, losses[key], batch_size, source.weight))
        return datasets

    def _teacher_embeddings(self, source: DataSource, columns: TrainColumns) -> NDArray[Any]:
        """Return the teacher's embeddings, (rows, dimension), or with several columns (rows, columns, dimension)."""
        columns = columns.compact()
        translations = self._translations(source)
        sentences = list(columns.sentences)
        numbers: dict[str, int] = {}  # the teacher encodes each distinct sentence once
        number_of = np.array(
            [numbers.setdefault(translations.get(text, text), len(numbers)) for text in sentences], np.int64
        )
        with torch.random.fork_rng(devices=[]):  # loading a teacher may draw random numbers; reading the cache does not
            on_rank_zero(partial(combined_embeddings, source.teacher, list(numbers), self._on_progress))
            vectors = combined_embeddings(source.teacher, list(numbers))  # the other ranks read the cache
        if len(columns.numbers) == 1 and len(vectors) == len(columns):
            return vectors  # keep them memory-mapped
        indices = columns.numbers[0] if len(columns.numbers) == 1 else np.stack(columns.numbers, axis=1)
        embeddings: NDArray[Any] = vectors[number_of[indices]]
        return embeddings

    def _translations(self, source: DataSource) -> dict[str, str]:
        """Return what the teacher encodes in place of each sentence that has a translation."""
        if not source.translations:
            return {}
        texts, translated = self.sentences(source.rows), self.sentences(source.translations)
        if len(texts) != len(translated):
            raise UsageError(
                f"{', '.join(source.translations)} has {len(translated)} sentences and {', '.join(source.rows)} has "
                f"{len(texts)}: translations must be the same rows in the same order"
            )
        return dict(zip(texts, translated, strict=True))

    def _columns_of(self, source: DataSource, stage: Stage) -> TrainColumns:
        """Return the rows of a source after its filters, as its loss takes them."""
        loss_class = self._loss_class(source, stage)
        where = f"stage {stage.name}, data {', '.join(source.rows)}"
        key = f"{loss_class.row_type} {source.model_dump_json()}"
        if key not in self._columns:
            rows = self.rows(source.rows, source.columns, encoding=source.encoding, sheet=source.sheet)
            if source.exclude:
                rows = exclude_overlap(rows, self.rows(source.exclude), groups=loss_class.row_type == "pairs")
            if source.min_chars or source.max_chars:
                characters = rows.sentences.characters()
                fits = characters >= source.min_chars
                rows = rows.keep_sentences(fits & (characters <= source.max_chars) if source.max_chars else fits)
            row_type = "rows" if source.same_batch else loss_class.row_type
            nli = NLIOptions(source.triplets, source.both_directions, self._recipe.seed)
            columns = to_columns(rows, row_type, where, nli)
            if source.limit and source.limit < len(columns):
                order = np.random.default_rng(self._recipe.seed).permutation(len(columns))
                columns = columns.select(np.sort(order[: source.limit]))
            if source.augment:
                copies = edited_copies(columns.texts[0], source.augment, seed=self._recipe.seed)
                columns = TrainColumns.from_texts((*columns.texts, *copies))
            self._columns[key] = columns
        return self._columns[key]

    def _loss_class(self, source: DataSource, stage: Stage) -> type[Loss]:
        """Return the loss of a source; options of distillation with another loss are an error."""
        name = source.loss or stage.loss
        where = f"stage {stage.name}, data {', '.join(source.rows)}"
        if (name == "distillation") != bool(source.teacher):
            raise UsageError(f"{where}: distillation needs a teacher and other losses take none: name a model")
        if not source.teacher and (
            source.augment or source.same_batch or source.translations or source.nearest_neighbors
        ):
            raise UsageError(
                f"{where}: augment, nearest_neighbors, same_batch and translations are for distillation only: drop them"
            )
        if source.nearest_neighbors and (source.augment or source.same_batch):
            raise UsageError(
                f"{where}: nearest_neighbors cannot be combined with augment or same_batch: drop one of them"
            )
        return LOSSES[name]

    def _build_loss(self, source: DataSource, stage: Stage, model: SentenceTransformer, teacher_dimension: int) -> Loss:
        name = source.loss or stage.loss
        options = {**stage.options, **source.options}
        if source.teacher:
            options.setdefault("teacher_dimension", teacher_dimension)
        try:
            return build(name, model, **options)
        except UsageError as error:
            raise UsageError(f"stage {stage.name}: {error}") from None
        except (TypeError, ValueError) as error:  # a word in place of a number
            raise UsageError(f"stage {stage.name}: an option of {name} has a wrong value ({error})") from None

    def stage_budgets(self, time_budget: float | None) -> list[float | None]:
        """Return the seconds for each stage: the time budget divided in proportion to the rows trained on."""
        stages = self._recipe.stages
        if time_budget is None:
            return [None] * len(stages)
        work = []
        for stage in stages:
            rows = sum(len(self._columns_of(source, stage)) for source in stage.data)
            batch_size = self._recipe.training_arguments(stage).batch_size
            work.append(stage.steps * batch_size if stage.steps else rows * (stage.epochs or 1))
        return [time_budget * stage_work / sum(work) for stage_work in work]


def _add_neighbors(
    columns: TrainColumns, vectors: NDArray[Any], count: int, seed: int
) -> tuple[TrainColumns, NDArray[np.float16]]:
    """Add the nearest neighbors of each sentence as columns; return the columns and their teacher embeddings."""
    (numbers,) = columns.numbers
    if len(numbers) <= count:
        raise UsageError(f"{len(numbers)} sentences do not have {count} neighbors each: lower nearest_neighbors")
    rows = np.column_stack([np.arange(len(numbers)), nearest_neighbors(vectors, count, seed=seed)])
    return TrainColumns(columns.sentences, tuple(numbers[rows].T)), vectors[rows]
