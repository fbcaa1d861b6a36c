"""Korean minimal pairs that we wrote ourselves: what should move a similarity, and what should not.

An item is a triple. `kept` says the same as `anchor`; `changed` is a small edit of `anchor` that says something else:

| phenomenon | kept                                          | changed                                         |
|------------|-----------------------------------------------|-------------------------------------------------|
| negation   | a paraphrase                                  | 안, 못, -지 않다, 없다, 아니다, or the opposite |
| particle   | another order, the passive, the other side    | who did it to whom; from where to where         |
| number     | a paraphrase, often with the number rewritten | another number, time or date                    |
| honorific  | another speech level, -시-, 주무시다 for 자다 | another content word                            |
| spacing    | spaces left out or put in where none belong   | another content word                            |
| typo       | slips, spelling by ear, ㅈㅏㅁㅗ              | another content word                            |
| loanword   | 케익 for 케이크                               | another content word                            |

So a model that understands gives `kept` the higher similarity to `anchor`, whatever its scale. In the first three the
surface speaks against it: `changed` looks more like `anchor` than `kept` does. `note` names the kind within.
"""

from dataclasses import dataclass
from pathlib import Path

from kosbert.data.readers import Row, tab_separated

CHANGES_MEANING = ("negation", "particle", "number")
"""Phenomena that should move the similarity."""
KEEPS_MEANING = ("honorific", "spacing", "typo", "loanword")
"""Phenomena that should not."""

_OURS = Path(__file__).with_name("minimal_pairs.tsv")


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """A sentence, one with the same meaning, and one with another meaning."""

    phenomenon: str
    anchor: str
    kept: str
    changed: str
    note: str = ""


def load_minimal_pairs(path: Path = _OURS) -> list[MinimalPair]:
    """Every item, in the order of the file; a file of your own needs the same columns, and may name new phenomena."""
    return [_item(row) for row in tab_separated()(path)]


def _item(row: Row) -> MinimalPair:
    phenomenon, anchor, kept, changed = (row.text(name).strip() for name in ("phenomenon", "anchor", "kept", "changed"))
    item = MinimalPair(phenomenon, anchor, kept, changed, row.text("note").strip() if "note" in row.fields else "")
    texts = (item.anchor, item.kept, item.changed)
    if not item.phenomenon or not all(texts) or len(set(texts)) < 3:
        raise row.error("an item needs a phenomenon and three different sentences: anchor, kept and changed")
    return item
