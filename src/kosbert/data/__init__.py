"""What data exists, how it gets here, and how a file becomes rows.

from kosbert import data
pairs = data.load("korsts-test")                     # 1,379 ScoredPair
triplets = data.nli_triplets(data.load("klue-nli-train"))
"""

from pathlib import Path

from kosbert.data.locate import Progress, available, locate
from kosbert.data.nli import nli_pairs, nli_triplets
from kosbert.data.records import LabeledPair, LabeledSentence, Record, ScoredPair, Sentence, Triplet, sentences_of
from kosbert.data.registry import Dataset, datasets, get, resolve
from kosbert.data.user_files import read_file
from kosbert.errors import KosbertError

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
    "nli_pairs",
    "nli_triplets",
    "read_file",
    "resolve",
    "sentences_of",
]


def load(
    reference: str, *, folder: Path | None = None, download: bool | None = None, progress: Progress | None = None
) -> list[Record]:
    """Every row of a split such as `korsts-test`, checked against the number of rows that its publisher gives."""
    dataset, name = resolve(reference)
    split = dataset.splits[name]
    paths = locate(dataset, name, folder=folder, download=download, progress=progress)
    rows = list(split.read(paths))
    if split.rows is not None and len(rows) != split.rows:
        where = ", ".join(map(str, paths)) or "the generator"
        raise KosbertError(
            f"{where} gave {len(rows):,} rows where {dataset.name}-{name} has {split.rows:,}: "
            "the file is cut off or another release; get it again"
        )
    return rows
