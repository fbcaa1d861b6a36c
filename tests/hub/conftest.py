"""A test hub in place of the real one, for the client libraries in this process."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for hub_server and hub_repositories


@pytest.fixture(scope="session")
def repository_files(tmp_path_factory: pytest.TempPathFactory):
    """Return a function from the name of a layout to a directory with its files, written once."""
    from hub_repositories import layouts

    root = tmp_path_factory.mktemp("repositories")

    def files(name: str) -> Path:
        directory = root / name
        if not directory.is_dir():
            directory.mkdir(parents=True)
            layouts()[name](directory)
        return directory

    return files


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """A test hub with empty caches; huggingface_hub is online and knows only this hub."""
    import huggingface_hub
    from hub_server import HubServer
    from huggingface_hub import constants, hf_api
    from transformers.utils import hub as transformers_hub

    with HubServer() as server:
        for variable in ("KOSBERT_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "kosbert-cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        for client in (hf_api.api, transformers_hub.hf_api()):  # they have read the endpoint already
            monkeypatch.setattr(client, "endpoint", server.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
        huggingface_hub.close_session()
        yield server
        huggingface_hub.close_session()
