"""Vectors in Milvus: a local file (Milvus Lite), or a server or cluster by its URI, with the same code.

Milvus stores keys and vectors; sentences, ids and metadata stay in the index directory, which decides which keys are
valid. A crashed `add` is harmless: no directory refers to its keys, and the next edit deletes them. Vectors removed by
an upsert or a delete are deleted from Milvus after the directory has switched.
"""

import logging
import os
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kosbert.errors import KosbertError, UsageError
from kosbert.search.backends.base import Keys, Neighbors, Vectors, filtered_search

logger = logging.getLogger(__name__)

LOCAL_FILE = "milvus.db"
_BATCH_SIZE = 1_000  # vectors per insert: Milvus refuses messages of more than 64 MB
_MAX_HITS = 16_384  # Milvus's limit per query


class MilvusBackend:
    """One Milvus collection.

    Args:
        client: a connected `MilvusClient`.
        dim: dimensions of a vector.
        uri: http://host:19530, or the path of a local .db file.
        collection: name of the collection.
        count: number of valid vectors.
        next_key: keys from here on belong to no committed change.
        pending_deletes: keys of removed vectors that are still in the collection.
    """

    def __init__(
        self, client: Any, dim: int, uri: str, collection: str, *, count: int, next_key: int, pending_deletes: list[int]
    ) -> None:
        self._client, self._dim = client, dim
        self.uri, self.collection = uri, collection
        self._count, self._next_key, self._pending_deletes = count, next_key, pending_deletes

    @classmethod
    def create(cls, dim: int, uri: str) -> "MilvusBackend":
        """Create a collection at http://host:19530, or in a local file whose path ends in .db."""
        if not uri:
            raise UsageError("the milvus backend needs a URI: http://host:19530, or a path ending in .db")
        if _is_local(uri):
            Path(uri).parent.mkdir(parents=True, exist_ok=True)
        client, collection = _connect(uri), f"kosbert_{uuid.uuid4().hex}"
        from pymilvus import DataType

        def create_collection() -> None:
            schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field("key", DataType.INT64, is_primary=True)
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
            indexes = client.prepare_index_params()
            indexes.add_index("vector", index_type="AUTOINDEX", metric_type="COSINE")
            client.create_collection(collection, schema=schema, index_params=indexes, consistency_level="Strong")

        _call(uri, create_collection)
        return cls(client, dim, uri, collection, count=0, next_key=0, pending_deletes=[])

    @classmethod
    def open(cls, dim: int, settings: dict[str, Any], directory: Path, *, writable: bool) -> "MilvusBackend":
        """Open the collection of an index directory."""
        uri = settings["uri"]
        if _is_local(uri):
            uri = str(directory / uri)  # an absolute path is unchanged
            if not Path(uri).exists():
                raise KosbertError(f"the Milvus file {uri} is missing: build the index again from its source")
        client, collection = _connect(uri), settings["collection"]
        if not _call(uri, client.has_collection, collection):
            raise KosbertError(f"Milvus at {uri} has no collection {collection}: build the index again")
        _call(uri, client.load_collection, collection)
        backend = cls(
            client, dim, uri, collection, count=settings["count"], next_key=settings["next_key"],
            pending_deletes=list(settings["pending_deletes"]),
        )  # fmt: skip
        if writable:  # clean up after a crashed edit
            backend.commit()
            _call(uri, client.delete, collection, filter=f"key >= {backend._next_key}")
        return backend

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Add vectors under new keys in ascending order."""
        for start in range(0, len(keys), _BATCH_SIZE):
            stop = start + _BATCH_SIZE
            rows = [
                {"key": int(key), "vector": vector}
                for key, vector in zip(keys[start:stop], vectors[start:stop], strict=True)
            ]
            _call(self.uri, self._client.insert, self.collection, rows)
        if len(keys):
            self._count += len(keys)
            self._next_key = int(keys[-1]) + 1

    def remove(self, keys: Keys) -> None:
        """Remove the vectors of these keys; `commit` deletes them from Milvus."""
        self._pending_deletes += keys.tolist()
        self._count -= len(keys)

    def search(self, queries: Vectors, k: int, allowed: Keys | None) -> Neighbors:
        """Return the k nearest neighbors of each query among the allowed keys (None: all)."""
        if allowed is None:
            return self._search(queries, min(k, self._count))
        return filtered_search(
            queries, k, allowed, self._count, self._search, self.vectors,
            brute_force_limit=5_000, max_k=_MAX_HITS - len(self._pending_deletes),
        )  # fmt: skip

    def _search(self, queries: Vectors, k: int) -> Neighbors:
        if k > _MAX_HITS:
            raise UsageError(f"Milvus returns at most {_MAX_HITS:,} hits, not {k:,}: ask for fewer")
        limit = min(k + len(self._pending_deletes), _MAX_HITS)  # removed vectors may still be among the hits
        results = _call(
            self.uri, self._client.search, self.collection, data=list(queries), limit=limit,
            filter=f"key < {self._next_key}", output_fields=["key"],
        )  # fmt: skip
        keys, cosines = np.full((len(queries), k), -1, np.int64), np.zeros((len(queries), k), np.float32)
        removed = set(self._pending_deletes)
        for row, hits in enumerate(results):
            valid = [hit for hit in hits if hit["key"] not in removed][:k]
            keys[row, : len(valid)] = [hit["key"] for hit in valid]
            cosines[row, : len(valid)] = [hit["distance"] for hit in valid]
        return keys, cosines

    def vectors(self, keys: Keys) -> Vectors:
        """Return the vectors of these keys, (n, dim)."""
        by_key: dict[int, Any] = {}
        for start in range(0, len(keys), _BATCH_SIZE):
            batch = keys[start : start + _BATCH_SIZE].tolist()
            rows = _call(self.uri, self._client.get, self.collection, ids=batch, output_fields=["vector"])
            by_key |= {row["key"]: row["vector"] for row in rows}
        missing = [key for key in keys.tolist() if key not in by_key]
        if missing:
            raise KosbertError(f"{len(missing)} vectors are missing from Milvus at {self.uri}: build the index again")
        return np.array([by_key[key] for key in keys.tolist()], np.float32).reshape(len(keys), self._dim)

    def write(self, folder: Path) -> None:
        """Do nothing: the vectors are in Milvus."""

    def commit(self) -> None:
        """Delete removed vectors from Milvus."""
        for start in range(0, len(self._pending_deletes), _BATCH_SIZE):
            batch = self._pending_deletes[start : start + _BATCH_SIZE]
            _call(self.uri, self._client.delete, self.collection, ids=batch)
        self._pending_deletes = []

    def settings(self, directory: Path) -> dict[str, Any]:
        """Return URI, collection and counters; a file in the index directory is relative, so that both can move."""
        uri = self.uri
        if _is_local(uri):
            path = Path(uri).resolve()
            uri = path.name if path.parent == directory.resolve() else str(path)
        return {
            "uri": uri, "collection": self.collection,
            "count": self._count, "next_key": self._next_key, "pending_deletes": self._pending_deletes,
        }  # fmt: skip

    def close(self) -> None:
        """Close the connection; release a local file for other processes when its last user closes."""
        _disconnect(self._client, self.uri)


def drop_collection(settings: dict[str, Any], directory: Path, successor: Any) -> None:
    """Delete the collection of an overwritten index, unless its successor uses the same one."""
    collection, uri = settings["collection"], settings["uri"]
    if collection == getattr(successor, "collection", ""):
        return
    uri = str(directory / uri) if _is_local(uri) else uri
    try:
        client = _connect(uri)
        _call(uri, client.drop_collection, collection)
        _disconnect(client, uri)
    except KosbertError as error:
        logger.warning("the collection %s of the overwritten index was not deleted: %s", collection, error)


_local_users: Counter[str] = Counter()  # connections to each local file in this process


def _is_local(uri: str) -> bool:
    return "://" not in uri


def _connect(uri: str) -> Any:
    if _is_local(uri) and not uri.endswith(".db"):
        raise UsageError(f"{uri} is not a Milvus URI: give http://host:19530, or a path ending in .db")
    try:
        from pymilvus import MilvusClient

        if _is_local(uri):
            import milvus_lite  # noqa: F401  the error of pymilvus is less clear
    except ImportError:
        raise UsageError("the milvus backend needs pymilvus: pip install 'kosbert[milvus]'") from None
    for name in ("milvus_lite", "pymilvus", "grpc"):  # they log tracebacks of errors that `_call` reports
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    client = _call(uri, MilvusClient, uri, token=os.environ.get("MILVUS_TOKEN", ""), timeout=10)
    if _is_local(uri):
        _local_users[str(Path(uri).resolve())] += 1
    return client


def _disconnect(client: Any, uri: str) -> None:
    client.close()
    if _is_local(uri):
        path = str(Path(uri).resolve())
        _local_users[path] -= 1
        if not _local_users[path]:
            from milvus_lite.server_manager import server_manager_instance

            server_manager_instance.release_server(uri)


def _call(uri: str, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a method of the client; turn every failure into a one-sentence error."""
    try:
        return method(*arguments, **options)
    except KosbertError:
        raise
    except Exception as error:  # pymilvus, gRPC and Milvus Lite raise unrelated types
        reason = " ".join(str(getattr(error, "message", "") or error).split())[:200]
        advice = "check that it runs"
        if _is_local(uri):
            advice = "close other programs that use the file, or share it with `milvus-lite server`"
        raise KosbertError(f"Milvus at {uri} failed ({reason}): {advice}, and try again") from error
