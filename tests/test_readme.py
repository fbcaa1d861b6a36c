"""Run the commands and Python code of both READMEs, from top to bottom, in one directory."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Not run here: they install the project, need the network, take minutes, or run this very test.
NOT_RUN = ("make ", "pip install ", "kosbert data fetch ", "kosbert study ")
NEEDS_GPU = ("kosbert train nli-sts",)


def code_blocks(readme: str, language: str) -> list[str]:
    text = (ROOT / readme).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def without_comments(code: str) -> list[str]:
    lines = (line.partition("#")[0].rstrip() for line in code.splitlines())
    return [line for line in lines if line]


def shell_commands(readme: str) -> list[str]:
    return [command for block in code_blocks(readme, "bash") for command in without_comments(block)]


def test_both_readmes_show_the_same_code() -> None:
    assert shell_commands("README.md") == shell_commands("README.ko.md")
    for language in ("python", "console"):
        english, korean = (
            [without_comments(block) for block in code_blocks(readme, language)]
            for readme in ("README.md", "README.ko.md")
        )
        assert english == korean


def test_both_readmes_show_the_same_numbers() -> None:
    english, korean = (
        sorted(re.findall(r"\d+\.\d+|\d+%|\d+M", (ROOT / readme).read_text(encoding="utf-8")))
        for readme in ("README.md", "README.ko.md")
    )
    assert english == korean


def test_links_point_to_existing_files() -> None:
    for readme in ("README.md", "README.ko.md"):
        links = re.findall(r"\]\(([^)]+)\)", (ROOT / readme).read_text(encoding="utf-8"))
        missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
        assert not missing, readme


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert {"help", "setup", "study", "test", "lint", "bench", "clean"} <= targets
    shown = {command.split()[1] for command in shell_commands("README.md") if command.startswith("make ")}
    assert {"study", "test"} <= shown <= targets


@pytest.mark.slow
def test_commands_and_code_run(tmp_path: Path) -> None:
    """One test, because later commands read what earlier ones wrote."""
    (tmp_path / "my.csv").write_text("질문,답변,점수\n비가 오나요?,네 와요,4\n", encoding="utf-8")
    sentences = [
        f"{day} {event}" for day in ("오늘", "어제", "내일") for event in ("배송이 늦어요", "비가 와요", "밥을 먹어요")
    ]
    (tmp_path / "sentences.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    script = shutil.which("kosbert", path=str(Path(sys.executable).parent))
    assert script, "the console script is not installed"
    commands = [
        command
        for command in shell_commands("README.md")
        if not command.startswith(NOT_RUN) and command not in NEEDS_GPU
    ]
    assert len(commands) >= 14
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "kosbert"
        if arguments[0] == "train" and "--list" not in arguments:
            arguments += ["--time-budget", "3"]
        assert run([script, *arguments], tmp_path), command
    for readme in ("README.md", "README.ko.md"):
        code = "\n".join(code_blocks(readme, "python"))
        stdout = run([sys.executable, "-X", "utf8", "-c", code], tmp_path)
        assert "(3, 256)" in stdout
        assert "(3, 128)" in stdout


def run(command: list[str], directory: Path) -> str:
    result = subprocess.run(command, cwd=directory, capture_output=True, encoding="utf-8", timeout=300, check=False)
    assert result.returncode == 0, (command, result.stderr)
    return result.stdout
