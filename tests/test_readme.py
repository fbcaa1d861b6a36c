"""The README's own commands and Python run as they stand, in both languages."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READMES = ["README.md", "README.ko.md"]
# What sets up the project itself, needs the network, or runs this very test is read here and run elsewhere.
ELSEWHERE = ("make ", "KOSBERT_DATA=", "kosbert data fetch ")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), flags=re.DOTALL)


def commands(name: str) -> list[str]:
    lines = [line for block in blocks(name, "bash") for line in block.splitlines()]
    return [line.partition("#")[0].strip() for line in lines if line and not line.startswith("#")]


def test_both_languages_show_the_same_commands() -> None:
    assert commands("README.md") == commands("README.ko.md")
    assert [re.sub("#.*", "", code) for code in blocks("README.md", "python")] == [
        re.sub("#.*", "", code) for code in blocks("README.ko.md", "python")
    ]


def test_the_two_commands_are_there() -> None:
    targets = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert {"help", "setup", "study", "test", "lint", "bench", "clean"} <= targets
    used = {command.split()[-1] for command in commands("README.md") if "make " in command}
    assert {"study", "test"} <= used <= targets


@pytest.mark.parametrize("command", [c for c in commands("README.md") if not c.startswith(ELSEWHERE)])
def test_command(command: str, tmp_path: Path) -> None:
    program, *arguments = command.split()
    assert program == "kosbert"
    found = shutil.which("kosbert", path=str(Path(sys.executable).parent))
    assert found, "the console script is not installed"
    done = subprocess.run(
        [found, *arguments], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("name", READMES)
def test_python(name: str, tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text("질문,답변,점수\n비가 오나요?,네 와요,4\n", encoding="utf-8")
    code = "\n".join(blocks(name, "python"))
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    assert "KLUE 벤치마크입니다!" in done.stdout
