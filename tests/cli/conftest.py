"""Commands called in this process, in an empty folder."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kosbert.cli import main


@pytest.fixture
def kosbert(monkeypatch, capsys, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """A function that calls `kosbert` and returns its exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kosbert", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return run
