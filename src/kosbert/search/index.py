"""Semantic search: sentences with ids and metadata, and their vectors in a backend (exact, HNSW, binary, Milvus).

index = Index("builtin")                               # in memory; backend="hnsw" beyond some 100,000 sentences
index.add(["배송이 늦어요", "환불해 주세요"], metadata=[{"year": 2023}, {"year": 2024}])
index.search("언제 도착하나요?", k=5, where="year>=2023")
index.save("my-index")
index = Index.load("my-index")
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.model import load_any
from kosbert.model.batching import checked_texts
from kosbert.model.similarity import unit
from kosbert.progress import ProgressCallback
from kosbert.search import storage
from kosbert.search.backends.base import VectorBackend, Vectors, new_backend, open_backend
from kosbert.search.documents import Documents
from kosbert.search.encoding import ModelIdentity, check_vectors, identify, unit_blocks, unit_vectors
from kosbert.search.hits import Hit, dense_hits, hybrid_hits
from kosbert.search.lexical import ANALYZERS, LexicalIndex, analyze

if TYPE_CHECKING:
    from kosbert.model.encoder import SupportsEncode


class Index:
    """A collection of sentences for semantic search."""

    def __init__(
        self,
        model: "str | SupportsEncode" = "builtin",
        *,
        backend: str = "exact",
        precision: str = "float32",
        uri: str = "",
        lexical: str = "",
    ) -> None:
        """Create an empty index.

        Args:
            model: a name (builtin, a directory, a Hugging Face name, a baseline) or any object with `encode`.
            backend: exact, hnsw, binary or milvus.
            precision: float32, float16 or int8 (hnsw only).
            uri: http://host:19530, or the path of a local file that ends in .db (milvus only).
            lexical: analyzer for hybrid search: morphemes (needs kiwipiepy) or bigrams; "" for none.
        """
        if lexical and lexical not in ANALYZERS:
            raise UsageError(f"unknown lexical analyzer {lexical!r}: {did_you_mean(lexical, ANALYZERS)}")
        self.encoder = load_any(model) if isinstance(model, str) else model
        self.model: ModelIdentity = identify(self.encoder, model if isinstance(model, str) else "")
        self.backend, self.lexical = backend, lexical
        self._documents = Documents()
        self._vectors: VectorBackend = new_backend(backend, self.model.dim, precision=precision, uri=uri)
        self._bm25: LexicalIndex | None = None
        self._next_key, self._generation = 0, 0
        self._writable = True

    def __len__(self) -> int:
        return len(self._documents)

    def count(self) -> int:
        """Return the number of sentences."""
        return len(self)

    @property
    def fields(self) -> list[str]:
        """Metadata fields, for filters."""
        return self._documents.fields

    def texts(self) -> list[str]:
        """Return all sentences in insertion order."""
        return self._documents.texts

    def ids(self) -> list[str]:
        """Return all ids in insertion order."""
        return self._documents.ids_of(np.arange(len(self)))

    def vectors(self, rows: NDArray[np.integer[Any]]) -> Vectors:
        """Return the vectors of some rows (positions in insertion order), (n, dim)."""
        return self._vectors.vectors(self._documents.keys[rows])

    def add(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
        vectors: Any = None,
        on_progress: ProgressCallback | None = None,
    ) -> list[str]:
        """Add sentences and return their ids. On an error nothing is added.

        Args:
            texts: the sentences.
            ids: one per sentence; consecutive numbers by default.
            metadata: one mapping per sentence, for filters.
            vectors: precomputed vectors of the index's own model, (n, dim).
            on_progress: called with the progress of encoding.
        """
        return self._put(texts, ids, metadata, vectors, on_progress, replace=False)

    def upsert(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str],
        metadata: Sequence[Mapping[str, Any]] | None = None,
        vectors: Any = None,
        on_progress: ProgressCallback | None = None,
    ) -> list[str]:
        """Add sentences, replacing those whose id is already in the index, metadata included."""
        return self._put(texts, ids, metadata, vectors, on_progress, replace=True)

    def _put(
        self,
        texts: Sequence[str],
        ids: Sequence[str] | None,
        metadata: Sequence[Mapping[str, Any]] | None,
        vectors: Any,
        on_progress: ProgressCallback | None,
        *,
        replace: bool,
    ) -> list[str]:
        self._check_writable()
        if isinstance(texts, str):
            raise UsageError("one string is not a list of sentences: give a list")
        texts = list(checked_texts(texts, clean=False))
        keys = np.arange(self._next_key, self._next_key + len(texts), dtype=np.int64)
        new_ids = [str(id) for id in (keys.tolist() if ids is None else ids)]
        for name, values in (("ids", new_ids), ("metadata", metadata)):
            if values is not None and len(values) != len(texts):
                raise UsageError(f"{len(values)} {name} do not fit {len(texts)} sentences: give one per sentence")
        for id, count in Counter(new_ids).items():
            if count > 1:
                raise UsageError(f"the id {id!r} is given to {count} sentences: ids must be unique")
        old_keys = self._documents.keys_of(new_ids)
        if not replace and (old_keys >= 0).any():
            id = new_ids[int(np.argmax(old_keys >= 0))]
            raise UsageError(f"the id {id!r} is already in the index: upsert it, or give another id")
        tokens = analyze(self.lexical, texts) if self.lexical else None
        documents = self._documents.append(keys, new_ids, texts, metadata, tokens)
        if vectors is None:
            blocks = unit_blocks(self.encoder, texts, on_progress=on_progress)
        else:
            blocks = iter([unit(check_vectors(vectors, len(texts), self.model.dim))])
        self._next_key += len(texts)  # even if encoding fails: keys are never reused
        done = 0
        try:
            for block in blocks:
                self._vectors.add(keys[done : done + len(block)], block)
                done += len(block)
        except BaseException:
            self._vectors.remove(keys[:done])
            raise
        replaced = old_keys[old_keys >= 0]
        self._vectors.remove(replaced)
        self._documents = documents.drop(replaced) if len(replaced) else documents
        self._bm25 = None
        return new_ids

    def delete(self, ids: Sequence[str]) -> int:
        """Delete sentences by id and return how many. With an unknown id nothing is deleted."""
        self._check_writable()
        if isinstance(ids, str):
            raise UsageError("one string is not a list of ids: give a list")
        keys = self._documents.keys_of([str(id) for id in ids])
        if (keys < 0).any():
            id = ids[int(np.argmax(keys < 0))]
            raise UsageError(f"there is no id {id!r} in the index: nothing was deleted")
        keys = np.unique(keys)
        self._vectors.remove(keys)
        self._documents = self._documents.drop(keys)
        self._bm25 = None
        return len(keys)

    def search(
        self, query: str, k: int = 10, *, where: str = "", hybrid: bool = False, vector: Any = None
    ) -> list[Hit]:
        """Return the k sentences most similar to a query, best first.

        Args:
            query: the text to search for.
            k: maximum number of hits.
            where: a filter on metadata such as "source=news,year>=2020".
            hybrid: combine the ranking by cosine with the ranking by BM25 (reciprocal rank fusion).
            vector: the query's vector, (dim,), if it was encoded before.
        """
        self._check_query(k)
        if hybrid and not self.lexical:
            raise UsageError(
                "this index has no BM25 tokens: build it with --hybrid (in Python, Index(lexical='morphemes'))"
            )
        if vector is None:
            vector = unit_vectors(self.encoder, [query])
        else:
            vector = unit(check_vectors([vector], 1, self.model.dim))
        allowed = self._documents.keys_where(where) if where else None
        if allowed is not None and not len(allowed):
            return []
        if not hybrid:
            return dense_hits(self._documents, self._vectors, vector, k, allowed)
        tokens = analyze(self.lexical, [query])[0]
        return hybrid_hits(self._documents, self._vectors, self._built_bm25(), vector, tokens, k, allowed)

    def query(self, vectors: Any, k: int = 10, *, where: str = "") -> tuple[list[list[str]], Vectors]:
        """Return ids and cosines of the k nearest sentences of each of many query vectors, (n, dim)."""
        self._check_query(k)
        queries = unit(check_vectors(vectors, len(vectors), self.model.dim))
        allowed = self._documents.keys_where(where) if where else None
        keys, cosines = self._vectors.search(queries, k, allowed)
        return [self._documents.ids_of(rows[rows >= 0]) for rows in self._documents.rows_of(keys)], cosines

    def _check_query(self, k: int) -> None:
        if k < 1:
            raise UsageError(f"{k} hits are impossible: ask for 1 or more")
        if not len(self):
            raise UsageError("the index is empty: add sentences before you search")

    def _check_writable(self) -> None:
        if not self._writable:
            raise UsageError("this index was opened read-only: edit it with `with Index.edit(directory) as index`")

    def _built_bm25(self) -> LexicalIndex:
        self._bm25 = self._bm25 or LexicalIndex.build(self._documents.tokens)
        return self._bm25

    def save(self, directory: str | Path, *, overwrite: bool = False) -> Path:
        """Write the index into a directory atomically.

        Args:
            directory: a new or empty directory, or an index with `overwrite`.
            overwrite: replace an existing index.
        """
        target = Path(directory)
        with storage.locked(target):
            old = storage.read_manifest(target) if (target / storage.MANIFEST).exists() else None
            if old and not overwrite:
                raise UsageError(
                    f"{target} holds an index already: add to it, choose another directory, or overwrite it"
                )
            self._generation = old.generation if old else 0
            self._write(target)
            if old and old.backend == "milvus":
                from kosbert.search.backends.milvus import drop_collection

                drop_collection(old.backend_settings, target, self._vectors)
        return target

    def _write(self, directory: Path) -> None:
        generation = self._generation + 1
        folder = storage.new_generation(directory, generation)
        self._documents.write(folder / storage.DOCUMENTS)
        self._vectors.write(folder)
        if self.lexical:
            self._built_bm25().write(folder / storage.BM25)
        manifest = storage.Manifest(
            backend=self.backend, model=self.model, count=len(self), next_key=self._next_key, lexical=self.lexical,
            backend_settings=self._vectors.settings(directory), generation=generation,
            files=storage.sync_files(folder),
        )  # fmt: skip
        storage.switch_generation(directory, manifest)
        self._generation = generation
        self._vectors.commit()

    @classmethod
    def load(cls, directory: str | Path, model: "str | SupportsEncode | None" = None) -> "Index":
        """Open an index read-only, with its own model or with a given copy of it."""
        return cls._open(Path(directory), model, writable=False)

    @classmethod
    @contextmanager
    def edit(cls, directory: str | Path, model: "str | SupportsEncode | None" = None) -> Iterator["Index"]:
        """Open an index for changes; they are saved at the end of the block, or discarded on an error."""
        target = Path(directory)
        storage.read_manifest(target)  # fails before the lock creates a directory
        with storage.locked(target):
            index = cls._open(target, model, writable=True)
            try:
                yield index
                index._write(target)
            finally:
                index.close()

    @classmethod
    def _open(cls, directory: Path, model: "str | SupportsEncode | None", *, writable: bool) -> "Index":
        manifest = storage.read_manifest(directory)
        name = model if isinstance(model, str) else manifest.model.name if model is None else ""
        encoder = load_any(name) if name or model is None or isinstance(model, str) else model
        identity = identify(encoder, name)
        if not identity.matches(manifest.model):
            raise UsageError(
                f"the index in {directory} was made with {manifest.model}, not with {identity}: "
                "give the model that made it, or build it again"
            )
        index = cls.__new__(cls)
        index.encoder, index.model = encoder, manifest.model
        index.backend, index.lexical = manifest.backend, manifest.lexical
        try:
            folder = storage.current_generation(directory, manifest)
            index._documents = Documents.read(folder / storage.DOCUMENTS)
            index._vectors = open_backend(
                manifest.backend, manifest.model.dim, folder, manifest.backend_settings, writable=writable
            )
            index._bm25 = LexicalIndex.read(folder / storage.BM25) if manifest.lexical and manifest.count else None
        except (KosbertError, FileNotFoundError):
            if storage.read_manifest(directory).generation == manifest.generation:
                raise
            # Another process has switched to a new generation meanwhile.
            return cls._open(directory, encoder, writable=writable)
        if len(index) != manifest.count:
            raise KosbertError(f"{folder} holds {len(index):,} of {manifest.count:,} sentences: build the index again")
        index._next_key, index._generation, index._writable = manifest.next_key, manifest.generation, writable
        return index

    def close(self) -> None:
        """Close files and connections."""
        self._vectors.close()
