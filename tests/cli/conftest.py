"""Run commands in this process, in an empty directory."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kosbert.cli import main


@pytest.fixture
def kosbert(monkeypatch, capsys, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs `kosbert` and returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kosbert", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        return code, *capsys.readouterr()

    return run
