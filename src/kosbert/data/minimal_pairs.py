"""Hand-written Korean minimal pairs: edits that should change a similarity, and edits that should not.

An item is a triple: `paraphrase` means the same as `anchor`, `changed` is a small edit with another meaning.

| phenomenon | paraphrase                                    | changed                                         |
|------------|-----------------------------------------------|-------------------------------------------------|
| negation   | a paraphrase                                  | 안, 못, -지 않다, 없다, 아니다, or the opposite |
| particle   | another order, the passive, the other side    | who did it to whom; from where to where         |
| number     | a paraphrase, often with the number rewritten | another number, time or date                    |
| honorific  | another speech level, -시-, 주무시다 for 자다 | another content word                            |
| spacing    | spaces left out or put in where none belong   | another content word                            |
| typo       | slips, spelling by ear, ㅈㅏㅁㅗ              | another content word                            |
| loanword   | 케익 for 케이크                               | another content word                            |

A good model gives `paraphrase` the higher similarity to `anchor`, whatever its scale. In the first three the surface is
misleading: `changed` has more characters in common with `anchor` than `paraphrase` has. `note` is the sub-type.
"""

from dataclasses import dataclass
from pathlib import Path

from kosbert.data.tables import TSV, Row, Table

CHANGES_MEANING = ("negation", "particle", "number")
"""Phenomena that should lower the similarity."""
KEEPS_MEANING = ("honorific", "spacing", "typo", "loanword")
"""Phenomena that should not lower the similarity."""

_COLUMNS = ("phenomenon", "anchor", "paraphrase", "changed")  # and, optionally, note
_DEFAULT_FILE = Path(__file__).with_name("minimal_pairs.tsv")


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """A sentence, a variant with the same meaning, and a variant with another meaning."""

    phenomenon: str
    anchor: str
    paraphrase: str
    changed: str
    note: str = ""


def load_minimal_pairs(path: Path = _DEFAULT_FILE) -> list[MinimalPair]:
    """Read all items in file order; your own file needs the same columns and may have new phenomena."""
    return [_to_item(row) for row in Table(path, TSV).rows()]


def _to_item(row: Row) -> MinimalPair:
    phenomenon, anchor, paraphrase, changed = (row.text(name).strip() for name in _COLUMNS)
    note = row.text("note").strip() if "note" in row.fields else ""
    item = MinimalPair(phenomenon, anchor, paraphrase, changed, note)
    texts = (item.anchor, item.paraphrase, item.changed)
    if not item.phenomenon or not all(texts) or len(set(texts)) < 3:
        raise row.error("an item needs a phenomenon and three different sentences: anchor, paraphrase and changed")
    return item
