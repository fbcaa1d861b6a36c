"""Revisions, offline mode, and one sentence for everything that can go wrong on the way from the hub."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest
from hub_repositories import SENTENCES, remote_code
from huggingface_hub import constants

import kosbert
from kosbert.errors import KosbertError, UsageError
from kosbert.export import export
from kosbert.model import load_any, model_origin

NAME = "klue/roberta-base"


def message(name: str, error: type[KosbertError] = KosbertError) -> str:
    with pytest.raises(error) as caught:
        kosbert.load(name)
    text = str(caught.value)
    assert "\n" not in text
    assert "Error: " not in text
    return text


@pytest.fixture
def files(repository_files) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in repository_files(NAME).iterdir()}


def test_revision_selects_the_commit(hub, files, repository_files):
    first = hub.add(NAME, files)
    other = {path.name: path.read_bytes() for path in repository_files("klue/bert-base").iterdir()}
    second = hub.add(NAME, other, revision="v2")
    hub.add_pull_request(NAME, 1, other, author="someone")
    main = kosbert.load(NAME).encode(SENTENCES)
    assert model_origin(NAME) == {"name": NAME, "commit": first}
    np.testing.assert_array_equal(kosbert.load(f"{NAME}@{first}").encode(SENTENCES), main)
    for revision in ("v2", "refs/pr/1", second):
        changed = kosbert.load(f"{NAME}@{revision}").encode(SENTENCES)
        assert np.abs(changed - main).max() > 1e-2
    assert model_origin(f"{NAME}@v2") == {"name": f"{NAME}@v2", "commit": second}
    np.testing.assert_allclose(load_any(f"mean:{NAME}@v2").encode(SENTENCES), changed, atol=1e-6)


def test_commit_that_was_used_is_recorded_although_main_moves(hub, files):
    first = hub.add(NAME, files)
    kosbert.load(NAME)
    hub.add(NAME, files | {"README.md": b"new"})
    before = hub.connections
    assert model_origin(NAME)["commit"] == first
    assert hub.connections == before


def test_offline_makes_no_connection(hub, files, monkeypatch):
    hub.add(NAME, files)
    monkeypatch.setenv("KOSBERT_OFFLINE", "1")
    assert "KOSBERT_OFFLINE forbids downloads" in message(NAME)
    assert "KOSBERT_OFFLINE forbids downloads" in message(f"{NAME}@main")
    assert hub.connections == 0
    monkeypatch.delenv("KOSBERT_OFFLINE")
    expected = kosbert.load(NAME).encode(SENTENCES)
    before = hub.connections
    monkeypatch.setenv("KOSBERT_OFFLINE", "1")
    np.testing.assert_array_equal(kosbert.load(NAME).encode(SENTENCES), expected)
    assert hub.connections == before > 0


def test_unreachable_hub_uses_the_cache(hub, files, monkeypatch):
    hub.add(NAME, files)
    expected = kosbert.load(NAME).encode(SENTENCES)
    hub.status = 503
    np.testing.assert_array_equal(kosbert.load(NAME).encode(SENTENCES), expected)
    assert "the hub answered with status 503" in message("klue/bert-base")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    np.testing.assert_array_equal(kosbert.load(NAME).encode(SENTENCES), expected)
    assert "check the network and run the same command again" in message("klue/bert-base")


def test_commands_in_a_process(hub, files, tmp_path):
    """`kosbert evaluate NAME` with the real environment variables: first downloads, then works without connections."""
    commit = hub.add(NAME, files)
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_OFFLINE")}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf")}
    model = f"mean:{NAME}@{commit}"
    command = [sys.executable, "-m", "kosbert", "evaluate", model, "--on", "sample-sts-test", "--json"]

    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=environment | variables, capture_output=True, encoding="utf-8", timeout=120, check=False
        )

    refused = run(KOSBERT_OFFLINE="1")
    assert (refused.returncode, hub.connections) == (2, 0)
    assert "KOSBERT_OFFLINE forbids downloads" in refused.stderr.replace("\n", " ")
    assert "Traceback" not in refused.stderr
    online = run()
    assert online.returncode == 0, online.stderr
    before = hub.connections
    assert run(KOSBERT_OFFLINE="1").stdout == online.stdout
    assert hub.connections == before > 0


def test_missing_repository_revision_and_gated_model(hub, files):
    hub.add(NAME, files)
    hub.add("company/secret", files, gated=True)
    assert "is neither a directory nor a public model on the hub: check the spelling" in message("kleu/x", UsageError)
    assert "klue/roberta-base has no revision v9: give a branch" in message(f"{NAME}@v9", UsageError)
    assert "give a branch, a tag or a commit after it" in message(f"{NAME}@", UsageError)
    gated = message("company/secret")
    assert "accept its conditions on https://huggingface.co/company/secret, then run `hf auth login`" in gated


def test_broken_download_resumes(hub, files, monkeypatch):
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    hub.add(NAME, files)
    hub.broken.add(f"{NAME}/model.safetensors")
    assert "run the same command again, which resumes the download" in message(NAME)
    hub.broken.clear()
    assert np.isfinite(kosbert.load(NAME).encode(SENTENCES)).all()


@pytest.mark.parametrize("local", [True, False])
def test_code_of_a_repository_never_runs_and_nothing_is_asked(local, hub, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def readline(self, *_):
            raise AssertionError("the terminal was read")

        def isatty(self):
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("the terminal was read"))
    (tmp_path / "own").mkdir()
    remote_code(tmp_path / "own")
    hub.add("someone/own", tmp_path / "own")
    text = message(str(tmp_path / "own") if local else "someone/own", UsageError)
    assert "needs code of its own, which kosbert never runs; choose a model" in text


def test_exported_model_loads_from_the_hub(hub, files, tmp_path, repository_files):
    result = export(kosbert.load(repository_files(NAME)), tmp_path / "exported")
    hub.add("me/exported", result.path)
    model = kosbert.load("me/exported")
    assert "onnx" in repr(model)
    np.testing.assert_array_equal(model.encode(SENTENCES), kosbert.load(result.path).encode(SENTENCES))
