"""Readers see a complete generation, whatever a writer is doing at that moment."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kosbert.search import Index, index, lexical, storage
from kosbert.search.documents import Documents


@pytest.mark.parametrize("reader", ["documents", "lexical"])
def test_load_starts_again_if_the_generation_is_replaced_meanwhile(
    reader: str, tmp_path: Path, shop: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if reader == "lexical":
        pytest.importorskip("bm25s")
    original = Index("random-words", lexical="bigrams" if reader == "lexical" else "")
    original.add(shop)
    original.save(tmp_path)
    owner: Any = Documents if reader == "documents" else lexical.LexicalIndex
    read, edited = owner.read, []

    def edit_then_read(path: Path) -> object:
        if not edited:
            edited.append(path)
            with Index.edit(tmp_path, original.encoder) as writer:
                writer.add(["새 글"])
        return read(path)

    monkeypatch.setattr(getattr(index, owner.__name__), "read", edit_then_read)
    loaded = Index.load(tmp_path, original.encoder)
    assert len(loaded) == len(shop) + 1
    if reader == "lexical":
        assert loaded.search("새 글", hybrid=True)[0].text == "새 글"


def test_every_step_of_a_write_leaves_a_readable_index(
    tmp_path: Path, shop: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Index("random-words")
    original.add(shop)
    original.save(tmp_path)
    states: list[tuple[str, int]] = []

    def reading_around(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            states.append((f"before {name}", len(Index.load(tmp_path, original.encoder).search("글"))))
            result = step(*arguments)
            states.append((f"after {name}", len(Index.load(tmp_path, original.encoder).search("글"))))
            return result

        return wrapped

    for name in ("new_generation", "sync_files", "switch_generation"):
        monkeypatch.setattr(storage, name, reading_around(name, getattr(storage, name)))
    with Index.edit(tmp_path, original.encoder) as writer:
        writer.add(["새 글"])
    assert states == [
        ("before new_generation", 6), ("after new_generation", 6),
        ("before sync_files", 6), ("after sync_files", 6),
        ("before switch_generation", 6), ("after switch_generation", 7),
    ]  # fmt: skip


def test_load_does_not_wait_for_an_edit_of_another_process(tmp_path: Path, shop: list[str]) -> None:
    original = Index("random-words")
    original.add(shop)
    original.save(tmp_path)
    code = """
import sys
from kosbert.search import Index
with Index.edit(sys.argv[1]) as index:
    index.upsert(["글 하나"], ids=["0"])
    print("editing", flush=True)
    sys.stdin.readline()
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "editing\n"
        assert Index.load(tmp_path, original.encoder).texts() == shop
        process.stdin.write("save\n")
        process.stdin.flush()
        assert process.wait(120) == 0
    assert sorted(Index.load(tmp_path, original.encoder).texts()) == sorted([*shop[1:], "글 하나"])
