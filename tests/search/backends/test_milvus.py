"""The Milvus backend and the commands against a real gRPC server (Milvus Lite), and with a local file."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kosbert.errors import KosbertError, UsageError
from kosbert.search import Index

pytest.importorskip("pymilvus", reason="pip install 'kosbert[milvus]'")
pytest.importorskip("milvus_lite", reason="pip install 'kosbert[milvus]'")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    program = Path(sys.executable).with_name("milvus-lite")
    if not program.exists():
        pytest.skip("the milvus-lite command is not installed next to Python")
    folder = tmp_path_factory.mktemp("milvus")
    command = [str(program), "server", "--data-dir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def test_server_gives_the_same_hits_as_exact_search(server: str, tmp_path: Path, shop: list[str]) -> None:
    milvus = Index("random-words", backend="milvus", uri=server, lexical="bigrams")
    exact = Index("random-words", lexical="bigrams")
    for index in (milvus, exact):
        index.add(shop, metadata=[{"year": 2018 + row} for row in range(6)])
    for where in ("", "year>2019", "year=2020"):
        for hybrid in (False, True):
            hits, exact_hits = (index.search(shop[3], k=4, where=where, hybrid=hybrid) for index in (milvus, exact))
            assert [hit.id for hit in hits] == [hit.id for hit in exact_hits], (where, hybrid)
            assert [hit.cosine for hit in hits] == pytest.approx([hit.cosine for hit in exact_hits], abs=1e-5)
    milvus.save(tmp_path / "index")
    milvus.close()
    with Index.edit(tmp_path / "index") as index:
        index.upsert(["환불 완료"], ids=["3"])
        index.delete(["2"])
    loaded = Index.load(tmp_path / "index")
    assert sorted(hit.id for hit in loaded.search("환불 완료", k=10)) == ["0", "1", "3", "4", "5"]
    assert loaded.search("환불 완료", k=1)[0].id == "3"
    loaded.close()


def test_overwriting_an_index_drops_its_collection(server: str, tmp_path: Path) -> None:
    from pymilvus import MilvusClient

    collections = []
    for text in ("하나", "둘"):
        index = Index("random-words", backend="milvus", uri=server)
        index.add([text])
        index.save(tmp_path, overwrite=True)
        collections.append(index._vectors.collection)  # type: ignore[attr-defined]
        index.close()
    client = MilvusClient(server)
    assert [client.has_collection(name) for name in collections] == [False, True]
    client.drop_collection(collections[1])
    client.close()
    with pytest.raises(KosbertError, match="has no collection"):
        Index.load(tmp_path)


@pytest.mark.slow
def test_commands_with_a_server(server: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text,year\na,배송이 늦어요,2020\nb,환불해 주세요,2021\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("id,text,year\nc,배송이 빨라요,2022\n", encoding="utf-8")

    def run(*arguments: str) -> dict:
        command = [sys.executable, "-c", "from kosbert.cli import main; main()", *arguments, "--json"]
        environment = os.environ | {"KOSBERT_OFFLINE": "1"}
        process = subprocess.run(
            command, capture_output=True, encoding="utf-8", env=environment, cwd=tmp_path, timeout=120, check=False
        )
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)

    index = ("--index", "index")
    summary = run(
        "index", "build", "a.csv", "--out", "index", "--model", "random-words", "--backend", "milvus",
        "--uri", server, "--id-column", "id",
    )  # fmt: skip
    assert summary["backend"] == "milvus"
    assert run("index", "add", "b.csv", *index, "--id-column", "id") == {"added": 1, "count": 3}
    result = run("search", "배송이 늦어요", *index, "--filter", "year>2020")
    assert [hit["id"] for hit in result["hits"]] == ["c", "b"]
    assert run("index", "delete", "c", *index) == {"deleted": 1, "count": 2}
    assert run("index", "info", "index")["count"] == 2
    assert not list((tmp_path / "index").glob("*.db"))


def test_unreachable_milvus_is_a_one_sentence_error() -> None:
    for uri, message in (
        ("http://127.0.0.1:9", "Milvus at http://127.0.0.1:9 failed"),
        ("nonsense", "not a Milvus URI"),
        ("", "needs a URI"),
    ):
        with pytest.raises((KosbertError, UsageError), match=message) as caught:
            Index("random-words", backend="milvus", uri=uri)
        assert "\n" not in str(caught.value)


def test_local_file_moves_with_the_index_directory(tmp_path: Path) -> None:
    index = Index("random-words", backend="milvus", uri=str(tmp_path / "index" / "milvus.db"))
    index.add(["글"])
    index.save(tmp_path / "index")
    index.close()
    moved = (tmp_path / "index").rename(tmp_path / "moved")
    index = Index.load(moved)
    assert index.search("글")[0].text == "글"
    index.close()
    shutil.rmtree(moved / "milvus.db")
    with pytest.raises(KosbertError, match="is missing"):
        Index.load(moved)
