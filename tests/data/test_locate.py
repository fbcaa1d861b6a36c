"""Look-up order: user directory, cache, verified download; otherwise an error with the three ways."""

import gzip
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kosbert import data
from kosbert.data import catalogue
from kosbert.data.locate import verified
from kosbert.data.readers import reader, scored
from kosbert.data.registry import Dataset, File, Split
from kosbert.data.tables import TSV
from kosbert.errors import KosbertError

BODY = "sentence1\tsentence2\tscore\n비가 온다\t눈이 온다\t2.5\n".encode()


@pytest.fixture(autouse=True)
def data_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOSBERT_DATA", str(tmp_path / "mine"))
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KOSBERT_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    (tmp_path / "mine").mkdir()


@pytest.fixture
def requests_seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Register a data set `tiny` on a local server; yields the list of requested paths."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            self.wfile.write(BODY)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    file = File(
        "tiny/a.tsv", f"http://127.0.0.1:{server.server_port}/a.tsv", f"sha256:{hashlib.sha256(BODY).hexdigest()}"
    )
    register(monkeypatch, Split(1, (file,), reader(TSV, scored())))
    yield seen
    server.shutdown()
    server.server_close()


def register(monkeypatch: pytest.MonkeyPatch, split: Split, **more: str) -> None:
    tiny = Dataset("tiny", "sts", "ko", "Two sentences.", "nowhere", "CC0-1.0", "none", {"test": split}, **more)
    monkeypatch.setattr(catalogue, "CATALOGUE", {**catalogue.CATALOGUE, "tiny": tiny})


def put(path: Path, score: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"sentence1\tsentence2\tscore\n가\t나\t{score}\n", encoding="utf-8")


def test_user_directory_precedes_cache_and_cache_precedes_download(tmp_path: Path, requests_seen: list[str]) -> None:
    (downloaded,) = data.load("tiny")
    assert downloaded == data.ScoredPair("비가 온다", "눈이 온다", 2.5)
    assert (tmp_path / "cache/data/tiny/a.tsv").read_bytes() == BODY
    assert requests_seen == ["/a.tsv"]
    data.load("tiny")
    assert len(requests_seen) == 1  # cached
    put(tmp_path / "mine/tiny/a.tsv", 1.0)
    assert data.load("tiny")[0].score == 1.0
    put(tmp_path / "other/tiny/a.tsv", 4.0)
    assert data.load("tiny", data_dir=tmp_path / "other")[0].score == 4.0


@pytest.mark.parametrize("variable", ["KOSBERT_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_does_not_download(monkeypatch: pytest.MonkeyPatch, requests_seen: list[str], variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(KosbertError, match=r"kosbert data fetch tiny.*or put it at .*or set KOSBERT_DATA"):
        data.load("tiny")
    assert requests_seen == []
    assert not data.available(*data.resolve("tiny"))


def test_file_with_a_wrong_checksum_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests_seen: list[str]
) -> None:
    good = data.get("tiny").splits["test"]
    file = File("tiny/a.tsv", good.files[0].url, "sha256:" + 64 * "0")
    register(monkeypatch, Split(1, (file,), good.read))
    with pytest.raises(KosbertError, match="sha256"):
        data.load("tiny")
    assert not (tmp_path / "cache/data/tiny/a.tsv").exists()


def test_wrong_row_count_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "mine/tiny/a.tsv", 1.0)
    register(monkeypatch, Split(7, (File("tiny/a.tsv"),), reader(TSV, scored())))
    with pytest.raises(KosbertError, match="has 1 rows but tiny-test has 7"):
        data.load("tiny")


def test_error_for_a_data_set_without_url_says_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, Split(1, (File("tiny/a.tsv"),), reader(TSV, scored())), how_to_get="ask its authors")
    with pytest.raises(KosbertError, match=r"get it from nowhere \(ask its authors\)"):
        data.load("tiny")


@pytest.mark.parametrize("kind", ["sha256", "git"])
def test_gzipped_file_is_verified_by_its_content(kind: str, tmp_path: Path) -> None:
    git = hashlib.sha1(b"blob %d\0" % len(BODY) + BODY, usedforsecurity=False)
    expected = hashlib.sha256(BODY) if kind == "sha256" else git
    file = File("tiny/a.tsv", "", f"{kind}:{expected.hexdigest()}")
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(BODY))
    assert verified(file, path) is True
    path.write_bytes(gzip.compress(BODY + b"x"))
    assert verified(file, path) is False
    path.write_bytes(gzip.compress(BODY)[:-12])
    assert verified(file, path) is False


def test_missing_data_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KosbertError, match="data directory .* does not exist"):
        data.load("korsts-test", data_dir=tmp_path / "nothing")


def test_sample_set_needs_no_files() -> None:
    pairs = data.load("sample-sts-dev", download=False)
    assert len(pairs) == data.get("sample").splits["sts-dev"].rows
