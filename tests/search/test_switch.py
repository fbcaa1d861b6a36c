"""An index that another process changes while it is being opened is opened again, and never half of each."""

from pathlib import Path

import pytest

from kosbert.search import Index, index, lexical
from kosbert.search.documents import Documents


@pytest.mark.parametrize("moment", ["documents", "words"])
def test_a_generation_that_goes_away_while_it_is_opened(
    moment: str, tmp_path: Path, shop: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if moment == "words":
        pytest.importorskip("bm25s")
    made = Index("random-words", words="bigrams" if moment == "words" else "")
    made.add(shop)
    made.save(tmp_path)
    kind, name = (Documents, "read") if moment == "documents" else (lexical.Lexical, "read")
    read, switched = getattr(kind, name), []

    def late(path: Path) -> object:
        if not switched:
            switched.append(path)
            with Index.change(tmp_path, made.encoder) as other:
                other.add(["새 글"])
        return read(path)

    monkeypatch.setattr(getattr(index, kind.__name__), name, late)
    found = Index.load(tmp_path, made.encoder)
    assert len(found) == len(shop) + 1
    if moment == "words":
        assert found.search("새 글", hybrid=True)[0].text == "새 글"
