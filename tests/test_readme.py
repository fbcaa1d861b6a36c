"""The README's own commands and Python run as they stand, in both languages, in one folder, from top to bottom."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What sets up the project itself, needs the network, or runs this very test is read here and run elsewhere.
ELSEWHERE = ("make ", "KOSBERT_DATA=", "kosbert data fetch ", "kosbert train recipes/nli-sts.yaml\n", "kosbert study ")


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


def test_everything_runs(tmp_path: Path) -> None:
    """All of it in one test, because the Python loads what the commands trained."""
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    (tmp_path / "my.csv").write_text("질문,답변,점수\n비가 오나요?,네 와요,4\n", encoding="utf-8")
    sentences = [
        f"{day} {thing}" for day in ("오늘", "어제", "내일") for thing in ("배송이 늦어요", "비가 와요", "밥을 먹어요")
    ]
    (tmp_path / "sentences.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    script = shutil.which("kosbert", path=str(Path(sys.executable).parent))
    assert script, "the console script is not installed"
    wanted = [command for command in commands("README.md") if not f"{command}\n".startswith(ELSEWHERE)]
    assert len(wanted) >= 6
    for command in wanted:
        program, *arguments = shlex.split(command)
        assert program == "kosbert"
        hurry = ["--time-budget", "3"] if arguments[0] == "train" else []
        printed = run([script, *arguments, *hurry], tmp_path)
        assert printed, command
    for name in ("README.md", "README.ko.md"):
        printed = run([sys.executable, "-X", "utf8", "-c", "\n".join(blocks(name, "python"))], tmp_path)
        assert "(1, 256)" in printed


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", timeout=300, check=False)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout
