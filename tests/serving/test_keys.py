"""API keys: from a file or the environment, required for everything but the page, never logged."""

import json
import logging
import os
import re
from pathlib import Path

import httpx
import pytest

from kosbert.errors import UsageError
from kosbert.serving.keys import ApiKeys
from kosbert.serving.server import JsonFormatter
from kosbert.serving.settings import Limits, ServerSettings

FIRST, SECOND = "first-key-0123456789", "second-key-0123456789"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "keys.txt"
    file.write_text(f"# for the shop\n{FIRST}\n\n{SECOND}  # for the app\n", encoding="utf-8")
    file.chmod(0o600)
    return file


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_match_returns_the_number_of_the_key() -> None:
    keys = ApiKeys([FIRST, SECOND, FIRST])
    assert len(keys) == 2
    assert keys.match(f"Bearer {FIRST}") == 1
    assert keys.match(f"bearer  {SECOND}") == 2
    for invalid in (
        "",
        "Bearer",
        "Bearer ",
        FIRST,
        f"Basic {FIRST}",
        f"Bearer {FIRST}x",
        "Bearer \udcff",
        "Bearer 한글",
    ):
        assert keys.match(invalid) is None
    assert FIRST not in repr(keys) + str(vars(keys))
    assert not ApiKeys()


def test_read_from_file_and_environment(key_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert len(ApiKeys.read(key_file, "third-key-0123456789, fourth-key-0123456789,")) == 4
    assert not [record for record in caplog.records if "kosbert" in record.name]
    if os.name == "posix":
        key_file.chmod(0o644)
        ApiKeys.read(key_file)
        assert "chmod 600" in caplog.text
        assert FIRST not in caplog.text
    for content, message in (
        ("", "no keys"),
        ("short", "openssl rand"),
        ("한글로된열여섯글자보다긴열쇠입니다요", "ASCII"),
    ):
        key_file.write_text(content, encoding="utf-8")
        with pytest.raises(UsageError, match=message) as error:
            ApiKeys.read(key_file)
        assert not content or content not in str(error.value)
    with pytest.raises(UsageError, match="cannot be read"):
        ApiKeys.read(key_file / "none")


def test_key_is_required_for_everything_but_public_paths(
    running, model_directory: Path, key_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kosbert.serving")
    with (
        running(ServerSettings(str(model_directory), keys=key_file)) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        for path in ("/health", "/ready", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 200
        for path in ("/", "/page/none", "/report"):
            assert client.get(path).status_code in (200, 404)
        posts = [("POST", path) for path in ("/v1/embeddings", "/embed", "/similarity", "/compare", "/explain",
                                             "/search", "/cluster", "/nothing")]  # fmt: skip
        for method, path in [*posts, ("GET", "/info"), ("GET", "/metrics"), ("GET", "/v1/models"), ("GET", "/nothing")]:
            for headers in ({}, bearer("wrong-key-0123456789")):
                response = client.request(method, path, headers=headers)
                assert response.status_code == 401, path
                assert response.json()["error"]["type"] == "authentication_error"
                assert response.headers["www-authenticate"] == "Bearer"
        for number, key in enumerate((FIRST, SECOND), start=1):
            assert client.post("/embed", json={"inputs": "비밀 문장"}, headers=bearer(key)).status_code == 200
            assert client.get("/info", headers=bearer(key)).json()["requires_key"] is True
            assert caplog.records[-1].fields["key"] == number
        # With keys, other websites cannot do anything, so any host name is allowed.
        assert client.get("/info", headers={"host": "embeddings.example", **bearer(FIRST)}).status_code == 200
    lines = "\n".join(JsonFormatter().format(record) for record in caplog.records)
    assert not re.search(f"{FIRST}|{SECOND}|wrong-key|비밀 문장", lines)
    for line in lines.splitlines():
        json.loads(line)


def test_rate_limit_is_per_key(running, model_directory: Path, key_file: Path) -> None:
    settings = ServerSettings(str(model_directory), keys=key_file, limits=Limits(max_rate=0.01))
    with running(settings) as url, httpx.Client(base_url=url, timeout=60) as client:
        assert client.get("/info", headers=bearer(FIRST)).status_code == 200
        assert client.get("/info", headers=bearer(FIRST)).status_code == 429
        assert client.get("/info", headers=bearer(SECOND)).status_code == 200
        assert client.get("/info").status_code == 401


def test_texts_are_logged_only_with_log_texts(running, model_directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kosbert.serving")
    with running(ServerSettings(str(model_directory), log_texts=True)) as url:
        httpx.post(f"{url}/embed", json={"inputs": ["비밀 문장"]}, headers={"x-request-id": "mine"}, timeout=60)
    (record,) = [record for record in caplog.records if getattr(record, "fields", {}).get("path") == "/embed"]
    document = json.loads(JsonFormatter().format(record))
    assert document["content"] == ["비밀 문장"]
    assert document["request_id"] == "mine"
    assert (document["status"], document["texts"], document["method"]) == (200, 1, "POST")
