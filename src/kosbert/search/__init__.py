"""Semantic search, clustering and duplicate mining.

from kosbert.search import Index
index = Index.load("my-index")
for hit in index.search("배송이 늦어요"):
    print(hit.score, hit.text)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kosbert.search.hits import Hit
    from kosbert.search.index import Index

__all__ = ["Hit", "Index"]


def __getattr__(name: str) -> Any:
    """Import Arrow only for an index: clustering and mining do not need it."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(f"kosbert.search.{'index' if name == 'Index' else 'hits'}"), name)
    raise AttributeError(f"module 'kosbert.search' has no attribute {name!r}")
