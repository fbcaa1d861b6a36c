"""What a stage is trained on: rows read once and fingerprinted, checked, tokenized, with their loss."""

import hashlib
import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from kosbert.data.leakage import without
from kosbert.data.records import Record, ScoredPair, sentences_of
from kosbert.data.registry import references
from kosbert.distributed import in_the_first
from kosbert.errors import UsageError, did_you_mean
from kosbert.losses import LOSSES, Loss, build
from kosbert.model.tokenized_corpus import TokenizedCorpus
from kosbert.training.augmentation import edited
from kosbert.training.columns import Examples, examples, read_rows
from kosbert.training.distillation import Reading, joint_vectors
from kosbert.training.loop import TrainDataset
from kosbert.training.nearest_neighbors import neighbors
from kosbert.training.recipe import Recipe, Source, Stage


class DataModule:
    """The rows that a recipe names, each read once; `fingerprints` go into the model's card."""

    def __init__(self, recipe: Recipe, folder: Path | None, reading: Reading | None = None) -> None:
        self._recipe, self._folder, self._reading = recipe, folder, reading
        self._rows: dict[str, list[Record]] = {}
        self._made: dict[str, Examples] = {}
        self.fingerprints: dict[str, dict[str, Any]] = {}

    def rows(self, names: Sequence[str], columns: dict[str, str] | None = None) -> list[Record]:
        """The rows behind data sets, roles or files, one after the other."""
        self._check_names(names)
        sources = self._recipe.references(names)
        name = " + ".join(sources) + "".join(f", {role}: {column}" for role, column in (columns or {}).items())
        if name not in self._rows:
            self._rows[name] = rows = read_rows(sources, columns, self._folder)
            digest = hashlib.sha256("\n".join(map(repr, rows)).encode("utf-8", "surrogatepass")).hexdigest()
            self.fingerprints[name] = {"rows": len(rows), "sha256": digest}
        return self._rows[name]

    def _check_names(self, names: Sequence[str]) -> None:
        roles, known = self._recipe.data, set(references())
        for name in names:
            if name not in roles and name not in known and not Path(name).suffix:
                raise UsageError(f"there is no role, data set or file {name!r}: {did_you_mean(name, [*roles, *known])}")

    def sentences(self, names: Sequence[str]) -> list[str]:
        """Every sentence of the rows behind some names."""
        return [text for row in self.rows(names) for text in sentences_of(row)]

    def scored_pairs(self, names: Sequence[str]) -> dict[str, list[ScoredPair]]:
        """STS pairs by reference, to evaluate on."""
        found = {}
        for reference in self._recipe.references(names):
            rows = self.rows([reference])
            pairs = [row for row in rows if isinstance(row, ScoredPair)]
            if not rows or len(pairs) < len(rows):
                raise UsageError(f"{reference} has no scored pairs to evaluate on: name an STS set")
            found[reference] = pairs
        return found

    def check(self, model: SentenceTransformer) -> None:
        """See that every stage's data, loss and options fit each other, before the first of them is trained."""
        for stage in self._recipe.stages:
            for source in stage.data:
                self._examples(source, stage)
                self._translations(source)  # read here, as all rows are: a run is known by what it has read
                self._build_loss(source, stage, model, model.get_embedding_dimension())
        self.scored_pairs(self._recipe.test)

    def lessons(self, stage: Stage, model: SentenceTransformer) -> list[TrainDataset]:
        """The sources of a stage, ready to be trained on.

        Sources that ask for the same loss share it, and so its layers: there is one projection to a teacher.
        """
        found: dict[str, Loss] = {}
        lessons = []
        for source in stage.data:
            made = self._examples(source, stage)
            labels, dimension = made.labels, 0
            if source.teacher:
                labels = self._taught(source, made.columns)
                dimension = labels.shape[-1]
                if source.nearest_neighbors:
                    made, labels = _beside_neighbors(made, labels, source.nearest_neighbors, self._recipe.seed)
            key = json.dumps([source.loss or stage.loss, source.options, dimension], sort_keys=True)
            if key not in found:
                found[key] = self._build_loss(source, stage, model, dimension)
            lessons.append(self._lesson(source, stage, model, made.columns, labels, found[key]))
        return lessons

    def _taught(self, source: Source, columns: Sequence[Sequence[str]]) -> NDArray[Any]:
        """The teacher's vectors, (rows, dimension), or with several columns (rows, columns, dimension)."""
        read = self._translations(source)
        numbers: dict[str, int] = {}  # the teacher reads each distinct sentence once
        places = [
            [numbers.setdefault(text, len(numbers)) for text in (read.get(text, text) for text in column)]
            for column in columns
        ]
        with torch.random.fork_rng(devices=[]):  # a teacher that is loaded may draw numbers, a cached one does not
            # In the first process; the others find them there.
            in_the_first(partial(joint_vectors, source.teacher, list(numbers), self._reading))
            vectors = joint_vectors(source.teacher, list(numbers))
        if len(places) == 1 and len(vectors) == len(places[0]):
            return vectors  # on disk, and they may stay there
        found: NDArray[Any] = vectors[np.array(places[0] if len(places) == 1 else places).T]
        return found

    def _translations(self, source: Source) -> dict[str, str]:
        """What the teacher reads for each sentence that has a translation."""
        if not source.translations:
            return {}
        texts, others = self.sentences(source.rows), self.sentences(source.translations)
        if len(texts) != len(others):
            raise UsageError(
                f"{', '.join(source.translations)} has {len(others)} sentences and {', '.join(source.rows)} has "
                f"{len(texts)}: translations must be the same rows in the same order"
            )
        return dict(zip(texts, others, strict=True))

    def _lesson(
        self,
        source: Source,
        stage: Stage,
        model: SentenceTransformer,
        texts: Sequence[Sequence[str]],
        labels: NDArray[Any] | None,
        loss_fn: Loss,
    ) -> TrainDataset:
        numbers: dict[str, int] = {}  # each distinct sentence is tokenized once
        columns = tuple(
            np.fromiter((numbers.setdefault(text, len(numbers)) for text in column), np.int64, len(column))
            for column in texts
        )
        return TrainDataset(
            tokens=TokenizedCorpus(model, list(numbers)),
            columns=columns,
            labels=labels,
            loss=loss_fn,
            batch_size=source.batch_size or self._recipe.settings(stage).batch_size,
            weight=source.weight,
        )

    def _examples(self, source: Source, stage: Stage) -> Examples:
        """The rows of a source as its loss needs them, those that it asks for, cut to its limit."""
        name = source.loss or stage.loss
        where = f"stage {stage.name}, data {', '.join(source.rows)}"
        if (name == "distillation") != bool(source.teacher):
            raise UsageError(f"{where}: distillation, and nothing else, needs a teacher; name a model or an ONNX file")
        if not source.teacher and (
            source.augment or source.same_batch or source.translations or source.nearest_neighbors
        ):
            raise UsageError(
                f"{where}: only distillation knows edited, neighbors, together and translations; drop them"
            )
        if source.nearest_neighbors and (source.augment or source.same_batch):
            raise UsageError(f"{where}: neighbors stand beside single sentences; drop edited and together")
        needs = LOSSES[name].needs
        key = f"{needs} {source.model_dump_json()}"
        if key not in self._made:
            rows = self.rows(source.rows, source.columns)
            if source.exclude:
                rows = without(rows, self.rows(source.exclude), groups=needs == "pairs")
            most = source.max_chars or math.inf
            rows = [row for row in rows if all(source.min_chars <= len(text) <= most for text in sentences_of(row))]
            made = examples(rows, "rows" if source.same_batch else needs, where)
            if source.limit and source.limit < len(made):
                order = np.random.default_rng(self._recipe.seed).permutation(len(made))
                made = made.take(np.sort(order[: source.limit]))
            if source.augment:
                copies = edited(made.columns[0], source.augment, seed=self._recipe.seed)
                made = Examples((*made.columns, *copies))
            self._made[key] = made
        return self._made[key]

    def _build_loss(self, source: Source, stage: Stage, model: SentenceTransformer, teacher_dimension: int) -> Loss:
        name = source.loss or stage.loss
        options = {**stage.options, **source.options}
        if source.teacher:
            options.setdefault("teacher_dimension", teacher_dimension)
        try:
            return build(name, model, **options)
        except UsageError as error:
            raise UsageError(f"stage {stage.name}: {error}") from None
        except (TypeError, ValueError) as error:  # a word where a number belongs
            raise UsageError(f"stage {stage.name}: an option of {name} has a wrong value ({error})") from None

    def time_shares(self, budget: float | None) -> list[float | None]:
        """The seconds of each stage: a budget shared by the rows that each would be trained on."""
        stages = self._recipe.stages
        if budget is None:
            return [None] * len(stages)
        work = []
        for stage in stages:
            rows = sum(len(self._examples(source, stage)) for source in stage.data)
            batch_size = self._recipe.settings(stage).batch_size
            work.append(stage.steps * batch_size if stage.steps else rows * (stage.epochs or 1))
        return [budget * each / sum(work) for each in work]


def _beside_neighbors(
    made: Examples, vectors: NDArray[Any], count: int, seed: int
) -> tuple[Examples, NDArray[np.float16]]:
    """Each sentence with its neighbors, as the teacher's vectors have them: columns, and vectors for every column."""
    (texts,) = made.columns
    if len(texts) <= count:
        raise UsageError(f"{len(texts)} sentences have no {count} neighbors each: ask for fewer")
    places = np.column_stack([np.arange(len(texts)), neighbors(vectors, count, seed=seed)])
    return Examples(tuple(tuple(texts[place] for place in column) for column in places.T)), vectors[places]
