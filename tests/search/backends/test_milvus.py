"""The same code against a Milvus server: a real gRPC process of Milvus Lite, and the command line in front of it."""

import json
import os
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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("milvus-lite")
    if not program.exists():
        pytest.skip("the milvus-lite command is not beside Python")
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


def test_a_life_on_a_server(server: str, tmp_path: Path, shop: list[str]) -> None:
    index = Index("random-words", kind="milvus", address=server, words="bigrams")
    exact = Index("random-words", words="bigrams")
    for each in (index, exact):
        each.add(shop, metadata=[{"year": 2018 + place} for place in range(6)])
    for where in ("", "year>2019", "year=2020"):
        for hybrid in (False, True):
            found, truth = (each.search(shop[3], k=4, where=where, hybrid=hybrid) for each in (index, exact))
            assert [hit.id for hit in found] == [hit.id for hit in truth], (where, hybrid)
            assert [hit.cosine for hit in found] == pytest.approx([hit.cosine for hit in truth], abs=1e-5)
    index.save(tmp_path / "index")
    index.close()
    with Index.change(tmp_path / "index") as changed:
        changed.upsert(["환불 완료"], ids=["3"])
        changed.delete(["2"])
    loaded = Index.load(tmp_path / "index")
    assert sorted(hit.id for hit in loaded.search("환불 완료", k=10)) == ["0", "1", "3", "4", "5"]
    assert loaded.search("환불 완료", k=1)[0].id == "3"
    loaded.close()


def test_replacing_drops_the_old_collection(server: str, tmp_path: Path) -> None:
    from pymilvus import MilvusClient

    names = []
    for text in ("하나", "둘"):
        index = Index("random-words", kind="milvus", address=server)
        index.add([text])
        index.save(tmp_path, replace=True)
        names.append(index._store.collection)  # type: ignore[attr-defined]
        index.close()
    client = MilvusClient(server)
    assert [client.has_collection(name) for name in names] == [False, True]
    client.drop_collection(names[1])
    client.close()
    with pytest.raises(KosbertError, match="has no collection"):
        Index.load(tmp_path)


def test_the_commands_on_a_server(server: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text,year\na,배송이 늦어요,2020\nb,환불해 주세요,2021\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("id,text,year\nc,배송이 빨라요,2022\n", encoding="utf-8")

    def run(*arguments: str) -> dict:
        command = [sys.executable, "-c", "from kosbert.cli import main; main()", *arguments, "--json"]
        environment = os.environ | {"KOSBERT_OFFLINE": "1"}
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", env=environment, cwd=tmp_path, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    place = ("--index", "index")
    built = run(
        "index", "build", "a.csv", "--out", "index", "--model", "random-words", "--kind", "milvus",
        "--address", server, "--id-column", "id",
    )  # fmt: skip
    assert built["kind"] == "milvus"
    assert run("index", "add", "b.csv", *place, "--id-column", "id") == {"added": 1, "count": 3}
    found = run("search", "배송이 늦어요", *place, "--filter", "year>2020")
    assert [hit["id"] for hit in found["hits"]] == ["c", "b"]
    assert run("index", "delete", "c", *place) == {"deleted": 1, "count": 2}
    assert run("index", "info", "index")["count"] == 2
    assert not list((tmp_path / "index").glob("*.db"))


def test_no_server_is_one_sentence(tmp_path: Path) -> None:
    for address, message in (
        ("http://127.0.0.1:9", "Milvus at http://127.0.0.1:9 failed"),
        ("nonsense", "no address of Milvus"),
        ("", "needs an address"),
    ):
        with pytest.raises((KosbertError, UsageError), match=message) as caught:
            Index("random-words", kind="milvus", address=address)
        assert "\n" not in str(caught.value)
    index = Index("random-words", kind="milvus", address=str(tmp_path / "index" / "milvus.db"))
    index.add(["글"])
    index.save(tmp_path / "index")
    index.close()
    moved = (tmp_path / "index").rename(tmp_path / "moved")
    index = Index.load(moved)
    assert index.search("글")[0].text == "글"
    index.close()
    import shutil

    shutil.rmtree(moved / "milvus.db")
    with pytest.raises(KosbertError, match="is gone"):
        Index.load(moved)
