"""Vectors in Milvus: a local file through Milvus Lite, or a server or cluster by its address. The code is the same.

Milvus keeps keys and vectors; sentences, ids and metadata stay in the index directory, which also says which keys
count. That makes a killed `add` harmless: what it wrote has keys that no directory knows, and the next change deletes
them. Vectors that an upsert or a delete made useless are deleted after the directory has switched.
"""

import logging
import os
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from kosbert.errors import KosbertError, UsageError
from kosbert.search.backends.base import Found, Keys, Vectors, filtered

logger = logging.getLogger(__name__)

LOCAL = "milvus.db"
_BATCH = 1_000  # vectors of an insert: Milvus refuses messages of more than 64 MB
_MOST = 16_384  # hits that Milvus gives for a query at most


class MilvusStore:
    """A collection of a Milvus."""

    def __init__(self, client: Any, dim: int, address: str, collection: str, count: int, end: int) -> None:
        self._client, self._dim = client, dim
        self.address, self.collection = address, collection
        self._count, self._end = count, end
        self._doomed: list[int] = []

    @classmethod
    def create(cls, dim: int, address: str) -> "MilvusStore":
        """A new collection at an address: http://host:19530, or the path of a local file that ends in .db."""
        if not address:
            raise UsageError("an index of kind milvus needs an address: http://host:19530, or a path ending in .db")
        if "://" not in address:
            Path(address).parent.mkdir(parents=True, exist_ok=True)
        client, collection = _connect(address), f"kosbert_{uuid.uuid4().hex}"
        from pymilvus import DataType

        def make() -> None:
            schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field("key", DataType.INT64, is_primary=True)
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
            indexes = client.prepare_index_params()
            indexes.add_index("vector", index_type="AUTOINDEX", metric_type="COSINE")
            client.create_collection(collection, schema=schema, index_params=indexes, consistency_level="Strong")

        _asked(address, make)
        return cls(client, dim, address, collection, count=0, end=0)

    @classmethod
    def open(cls, dim: int, settings: dict[str, Any], directory: Path, *, writing: bool) -> "MilvusStore":
        """The collection that an index directory names."""
        address = settings["address"]
        if "://" not in address:
            address = str(directory / address)  # an absolute path stays what it is
            if not Path(address).exists():
                raise KosbertError(f"the Milvus file {address} is gone: build the index again from its source")
        client, collection = _connect(address), settings["collection"]
        if not _asked(address, lambda: client.has_collection(collection)):
            raise KosbertError(f"the Milvus at {address} has no collection {collection}: build the index again")
        _asked(address, lambda: client.load_collection(collection))
        store = cls(client, dim, address, collection, settings["count"], settings["end"])
        store._doomed = list(settings["doomed"])
        if writing:  # what a killed change left behind
            store.commit()
            _asked(address, lambda: client.delete(collection, filter=f"key >= {store._end}"))
        return store

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Take new vectors under new keys."""
        for start in range(0, len(keys), _BATCH):
            rows = [
                {"key": int(key), "vector": vector}
                for key, vector in zip(keys[start : start + _BATCH], vectors[start : start + _BATCH], strict=True)
            ]
            _asked(self.address, lambda rows=rows: self._client.insert(self.collection, rows))
        if len(keys):
            self._count += len(keys)
            self._end = int(keys[-1]) + 1

    def remove(self, keys: Keys) -> None:
        """Forget the vectors of some keys, once the index has switched."""
        self._doomed += keys.tolist()
        self._count -= len(keys)

    def nearest(self, queries: Vectors, k: int, allowed: Keys | None) -> Found:
        """The k nearest of each query, among the allowed keys, all if None."""
        if allowed is not None:
            most = _MOST - len(self._doomed)
            return filtered(queries, k, allowed, self._count, self._search, self.vectors, few=5_000, most=most)
        return self._search(queries, min(k, self._count))

    def _search(self, queries: Vectors, k: int) -> Found:
        if k > _MOST:
            raise UsageError(f"Milvus gives {_MOST:,} hits at most, not {k:,}: ask for fewer")
        wanted = min(k + len(self._doomed), _MOST)  # those that a change has deleted by now cost nothing
        found = _asked(
            self.address,
            lambda: self._client.search(
                self.collection, data=list(queries), limit=wanted, filter=f"key < {self._end}", output_fields=["key"]
            ),
        )
        keys, cosines = np.full((len(queries), k), -1, np.int64), np.zeros((len(queries), k), np.float32)
        doomed = set(self._doomed)
        for row, hits in enumerate(found):
            alive = [hit for hit in hits if hit["key"] not in doomed][:k]
            keys[row, : len(alive)] = [hit["key"] for hit in alive]
            cosines[row, : len(alive)] = [hit["distance"] for hit in alive]
        return keys, cosines

    def vectors(self, keys: Keys) -> Vectors:
        """The vectors of some keys, (n, dim)."""
        by_key: dict[int, Any] = {}
        for start in range(0, len(keys), _BATCH):
            some = keys[start : start + _BATCH].tolist()
            rows = _asked(
                self.address,
                lambda some=some: self._client.get(self.collection, ids=some, output_fields=["vector"]),
            )
            by_key |= {row["key"]: row["vector"] for row in rows}
        missing = [key for key in keys.tolist() if key not in by_key]
        if missing:
            raise KosbertError(f"the Milvus at {self.address} lost {len(missing)} vectors: build the index again")
        return np.array([by_key[key] for key in keys.tolist()], np.float32).reshape(len(keys), self._dim)

    def write(self, folder: Path) -> None:
        """Nothing to write: Milvus has it."""

    def commit(self) -> None:
        """Delete what no directory counts any more."""
        for start in range(0, len(self._doomed), _BATCH):
            some = self._doomed[start : start + _BATCH]
            _asked(self.address, lambda some=some: self._client.delete(self.collection, ids=some))
        self._doomed = []

    def settings(self, directory: Path) -> dict[str, Any]:
        """Where the vectors are; a file in the index directory by its name, so that both can move."""
        address, local = self.address, Path(self.address).resolve()
        if "://" not in address:
            address = local.name if local.parent == directory.resolve() else str(local)
        return {
            "address": address, "collection": self.collection,
            "count": self._count, "end": self._end, "doomed": self._doomed,
        }  # fmt: skip

    def close(self) -> None:
        """Close the connection, and the local file for other processes once nothing here uses it any more."""
        _disconnect(self._client, self.address)


def drop(settings: dict[str, Any], directory: Path, successor: Any) -> None:
    """Delete the collection of an index that another one replaced, unless it is the same."""
    collection, address = settings["collection"], settings["address"]
    if collection == getattr(successor, "collection", ""):
        return
    address = address if "://" in address else str(directory / address)
    try:
        client = _connect(address)
        _asked(address, lambda: client.drop_collection(collection))
        _disconnect(client, address)
    except KosbertError as error:
        logger.warning("the collection %s of the replaced index is left in Milvus: %s", collection, error)


_users: Counter[str] = Counter()  # of each local file, in this process


def _connect(address: str) -> Any:
    local = "://" not in address
    if local and not address.endswith(".db"):
        raise UsageError(f"{address} is no address of Milvus: give http://host:19530, or a path ending in .db")
    try:
        from pymilvus import MilvusClient

        if local:
            import milvus_lite  # noqa: F401  pymilvus would say it less clearly
    except ImportError:
        raise UsageError("an index of kind milvus needs pymilvus: pip install 'kosbert[milvus]'") from None
    for name in ("milvus_lite", "pymilvus", "grpc"):  # they print tracebacks of what is said below in a sentence
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    client = _asked(address, lambda: MilvusClient(address, token=os.environ.get("MILVUS_TOKEN", ""), timeout=10))
    if local:
        _users[str(Path(address).resolve())] += 1
    return client


def _disconnect(client: Any, address: str) -> None:
    client.close()
    if "://" not in address:
        path = str(Path(address).resolve())
        _users[path] -= 1
        if not _users[path]:
            from milvus_lite.server_manager import server_manager_instance

            server_manager_instance.release_server(address)


def _asked(address: str, ask: Any) -> Any:
    """Ask Milvus, and say in one sentence what it did not like."""
    try:
        return ask()
    except KosbertError:
        raise
    except Exception as error:  # pymilvus, gRPC and Milvus Lite raise unrelated kinds
        reason = " ".join(str(getattr(error, "message", "") or error).split())[:200]
        advice = "check that it runs"
        if "://" not in address:
            advice = "end what else has the file open, or share it by `milvus-lite server`"
        raise KosbertError(f"Milvus at {address} failed ({reason}): {advice}, and try again") from error
