"""Data sets: which exist, where their files are, and how a file becomes records.

from kosbert import data
pairs = data.load("korsts-test")                     # 1,379 ScoredPair
triplets = data.nli_triplets(data.load("klue-nli-train"))
"""

from typing import TYPE_CHECKING, Any

from kosbert.data.loading import load, read_file, read_records
from kosbert.data.locate import available, locate
from kosbert.data.records import LabeledPair, LabeledSentence, Record, ScoredPair, Sentence, Triplet, sentences_of
from kosbert.data.registry import Dataset, datasets, get, resolve

if TYPE_CHECKING:
    from kosbert.data.nli import nli_pairs, nli_triplets

__all__ = [
    "Dataset",
    "LabeledPair",
    "LabeledSentence",
    "Record",
    "ScoredPair",
    "Sentence",
    "Triplet",
    "available",
    "datasets",
    "get",
    "load",
    "locate",
    "nli_pairs",
    "nli_triplets",
    "read_file",
    "read_records",
    "resolve",
    "sentences_of",
]


def __getattr__(name: str) -> Any:
    """Import on first use: `kosbert --help` must not wait for numpy."""
    if name in ("nli_pairs", "nli_triplets"):
        from kosbert.data import nli

        return getattr(nli, name)
    raise AttributeError(f"module 'kosbert.data' has no attribute {name!r}")
