"""One index for every size: sentences with ids and metadata, and their vectors in a store (exact, HNSW, bits, Milvus).

index = Index("builtin")                               # in memory; kind="hnsw" beyond some 100,000 sentences
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
from kosbert.search import directory as disk
from kosbert.search.backends.base import Vectors, VectorStore, new_store, open_store
from kosbert.search.documents import Documents
from kosbert.search.encoding import ModelIdentity, checked, identify, unit_blocks, unit_vectors
from kosbert.search.hits import Hit, hits_by_both, hits_by_meaning
from kosbert.search.lexical import ANALYZERS, Lexical, analyze

if TYPE_CHECKING:
    from kosbert.model.encoder import SupportsEncode


class Index:
    """Sentences to search by meaning."""

    def __init__(
        self,
        model: "str | SupportsEncode" = "builtin",
        *,
        kind: str = "exact",
        precision: str = "float32",
        address: str = "",
        words: str = "",
    ) -> None:
        """Start an empty index.

        Args:
            model: a name (builtin, a directory, a hub name, a baseline) or anything with `encode`.
            kind: exact, hnsw, binary or milvus.
            precision: of an hnsw index: float32, float16 or int8.
            address: of Milvus: http://host:19530, or the path of a local file that ends in .db.
            words: also keep words for hybrid search: morphemes (needs kiwipiepy) or bigrams.
        """
        if words and words not in ANALYZERS:
            raise UsageError(f"unknown words {words!r}: {did_you_mean(words, ANALYZERS)}")
        self.encoder = load_any(model) if isinstance(model, str) else model
        self.model: ModelIdentity = identify(self.encoder, model if isinstance(model, str) else "")
        self.kind, self.words = kind, words
        self._documents = Documents()
        self._store: VectorStore = new_store(kind, self.model.dim, precision=precision, address=address)
        self._lexical: Lexical | None = None
        self._next_key, self._generation = 0, 0
        self._writable = True

    def __len__(self) -> int:
        return len(self._documents)

    def count(self) -> int:
        """How many sentences there are."""
        return len(self)

    @property
    def fields(self) -> list[str]:
        """The metadata that `where` can ask for."""
        return self._documents.fields

    def texts(self) -> list[str]:
        """Every sentence, in the order in which they came."""
        return self._documents.texts

    def ids(self) -> list[str]:
        """Every id, in the same order."""
        return self._documents.ids_at(np.arange(len(self)))

    def vectors(self, places: NDArray[np.integer[Any]]) -> Vectors:
        """The vectors of the sentences at some places of that order, (n, dim)."""
        return self._store.vectors(self._documents.keys[places])

    def add(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
        vectors: Any = None,
        progress: bool = False,
    ) -> list[str]:
        """Add sentences and give their ids: all of them, or none where something is wrong.

        Args:
            texts: the sentences.
            ids: one each; running numbers without them.
            metadata: one mapping each, of what `where` can ask for.
            vectors: what the index's own model made of the texts, (n, dim), if that is done already.
            progress: show a progress bar on standard error.
        """
        return self._put(texts, ids, metadata, vectors, progress, replace=False)

    def upsert(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str],
        metadata: Sequence[Mapping[str, Any]] | None = None,
        vectors: Any = None,
        progress: bool = False,
    ) -> list[str]:
        """Add sentences; one whose id is there already takes its place, with the new metadata."""
        return self._put(texts, ids, metadata, vectors, progress, replace=True)

    def _put(
        self,
        texts: Sequence[str],
        ids: Sequence[str] | None,
        metadata: Sequence[Mapping[str, Any]] | None,
        vectors: Any,
        progress: bool,
        *,
        replace: bool,
    ) -> list[str]:
        self._check_writable()
        if isinstance(texts, str):
            raise UsageError("one string is not a list of sentences: give a list")
        texts = list(checked_texts(texts, clean=False))
        keys = np.arange(self._next_key, self._next_key + len(texts), dtype=np.int64)
        names = [str(each) for each in (keys.tolist() if ids is None else ids)]
        for what, values in (("ids", names), ("metadata", metadata)):
            if values is not None and len(values) != len(texts):
                raise UsageError(f"{len(values)} {what} do not fit {len(texts)} sentences: give one each")
        for name, times in Counter(names).items():
            if times > 1:
                raise UsageError(f"the id {name!r} stands for {times} sentences: give each its own")
        known = self._documents.find(names)
        if not replace and (known >= 0).any():
            name = names[int(np.argmax(known >= 0))]
            raise UsageError(f"the id {name!r} is already in the index: upsert it, or give another id")
        words = analyze(self.words, texts) if self.words else None
        documents = self._documents.appended(keys, names, texts, metadata, words)
        given = None if vectors is None else unit(checked(vectors, len(texts), self.model.dim))
        self._next_key += len(texts)  # also where it goes wrong: no key is used twice
        done = 0
        try:
            for block in unit_blocks(self.encoder, texts, progress=progress) if given is None else [given]:
                self._store.add(keys[done : done + len(block)], block)
                done += len(block)
        except BaseException:
            self._store.remove(keys[:done])
            raise
        old = known[known >= 0]
        self._store.remove(old)
        self._documents = documents.without(old) if len(old) else documents
        self._lexical = None
        return names

    def delete(self, ids: Sequence[str]) -> int:
        """Delete sentences by their ids and say how many: all of them, or none where one is unknown."""
        self._check_writable()
        if isinstance(ids, str):
            raise UsageError("one string is not a list of ids: give a list")
        keys = self._documents.find([str(each) for each in ids])
        if (keys < 0).any():
            name = ids[int(np.argmax(keys < 0))]
            raise UsageError(f"there is no id {name!r} in the index: nothing was deleted")
        keys = np.unique(keys)
        self._store.remove(keys)
        self._documents = self._documents.without(keys)
        self._lexical = None
        return len(keys)

    def search(self, query: str, k: int = 10, *, where: str = "", hybrid: bool = False) -> list[Hit]:
        """The k sentences nearest to a query in meaning, nearest first.

        Args:
            query: what to look for.
            k: how many, at most.
            where: a filter on metadata such as "source=news,year>=2020".
            hybrid: also count common words (BM25); the two orders are fused by reciprocal ranks.
        """
        self._check_query(k)
        if hybrid and not self.words:
            raise UsageError("this index keeps no words: build it with --hybrid (in Python, words='morphemes')")
        vector = unit_vectors(self.encoder, [query])
        allowed = self._documents.keys_where(where) if where else None
        if allowed is not None and not len(allowed):
            return []
        if hybrid:
            self._lexical = self._lexical or Lexical.build(self._documents.words)
            words = analyze(self.words, [query])[0]
            return hits_by_both(self._documents, self._store, self._lexical, vector, words, k, allowed)
        return hits_by_meaning(self._documents, self._store, vector, k, allowed)

    def nearest(self, vectors: Any, k: int = 10, *, where: str = "") -> tuple[list[list[str]], Vectors]:
        """Ids and cosines of the k nearest to each of many vectors, (n, dim), for work in bulk."""
        self._check_query(k)
        queries = unit(checked(vectors, len(vectors), self.model.dim))
        allowed = self._documents.keys_where(where) if where else None
        keys, cosines = self._store.nearest(queries, k, allowed)
        return [self._documents.ids_at(row[row >= 0]) for row in self._documents.places(keys)], cosines

    def _check_query(self, k: int) -> None:
        if k < 1:
            raise UsageError(f"{k} hits are impossible: ask for 1 or more")
        if not len(self):
            raise UsageError("the index is empty: add sentences before you search")

    def _check_writable(self) -> None:
        if not self._writable:
            raise UsageError(
                "this index was opened to be read: change it inside `with Index.change(directory) as index`"
            )

    def save(self, directory: str | Path, *, replace: bool = False) -> Path:
        """Write the index into a directory: all of it, or nothing.

        Args:
            directory: where to; what is no index is never written over.
            replace: write over an index that is there.
        """
        target = Path(directory)
        with disk.locked(target):
            before = disk.read_manifest(target) if (target / disk.MANIFEST).exists() else None
            if before and not replace:
                raise UsageError(f"{target} holds an index already: add to it, choose another place, or replace it")
            self._generation = before.generation if before else 0
            self._write(target)
            if before and before.kind == "milvus":
                from kosbert.search.backends.milvus import drop

                drop(before.store, target, self._store)
        return target

    def _write(self, target: Path) -> None:
        folder = disk.new_generation(target, self._generation + 1)
        self._documents.write(folder / "documents.parquet")
        self._store.write(folder)
        if self.words:
            self._lexical = self._lexical or Lexical.build(self._documents.words)
            self._lexical.write(folder / "words")
        manifest = disk.Manifest(
            self.kind, self.model, len(self), self._next_key, self.words, self._store.settings(target),
            self._generation + 1, disk.files_of(folder),
        )  # fmt: skip
        disk.switch(target, manifest)
        self._generation += 1
        self._store.commit()

    @classmethod
    def load(cls, directory: str | Path, model: "str | SupportsEncode | None" = None) -> "Index":
        """Open an index to search it, with its own model or with the one that is given, if that is the same."""
        return cls._open(Path(directory), model, writing=False)

    @classmethod
    @contextmanager
    def change(cls, directory: str | Path, model: "str | SupportsEncode | None" = None) -> Iterator["Index"]:
        """Open an index to change it; it is saved at the end, or left as it was where something goes wrong."""
        target = Path(directory)
        disk.read_manifest(target)  # before the lock makes a directory
        with disk.locked(target):
            index = cls._open(target, model, writing=True)
            try:
                yield index
                index._write(target)
            finally:
                index.close()

    @classmethod
    def _open(cls, target: Path, model: "str | SupportsEncode | None", *, writing: bool) -> "Index":
        manifest = disk.read_manifest(target)
        name = model if isinstance(model, str) else manifest.model.name if model is None else ""
        encoder = load_any(name) if name or model is None or isinstance(model, str) else model
        given = identify(encoder, name)
        if not given.same_as(manifest.model):
            raise UsageError(
                f"the index in {target} was made with {manifest.model}, not with {given}: "
                "give the model that made it, or build it again"
            )
        index = cls.__new__(cls)
        index.encoder, index.model, index.kind, index.words = encoder, manifest.model, manifest.kind, manifest.words
        try:
            folder = disk.generation_folder(target, manifest)
            index._documents = Documents.read(folder / "documents.parquet")
            index._store = open_store(manifest.kind, manifest.model.dim, folder, manifest.store, writing=writing)
            index._lexical = Lexical.read(folder / "words") if manifest.words and manifest.count else None
        except (KosbertError, FileNotFoundError):
            if disk.read_manifest(target).generation == manifest.generation:
                raise
            return cls._open(target, encoder, writing=writing)  # another process has switched in the meantime
        if len(index) != manifest.count:
            raise KosbertError(f"{folder} holds {len(index):,} of {manifest.count:,} sentences: build the index again")
        index._next_key, index._generation, index._writable = manifest.next_key, manifest.generation, writing
        return index

    def close(self) -> None:
        """Let go of files and connections."""
        self._store.close()
