"""No command contacts another machine or leaves files in the home directory, with no setting by the user."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = {
    "similarity": ["-m", "kosbert", "similarity", "비가 온다", "눈이 온다"],
    "encode": ["-m", "kosbert", "encode", "sentences.txt", "--out", "vectors"],
    "torch": ["-c", "import kosbert; kosbert.load(backend='torch').encode('비가 온다')"],
    "onnxruntime": ["-c", "import kosbert, onnxruntime, time; time.sleep(1)"],
}
_VARIABLES = ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "RAY_USAGE_STATS_ENABLED")


def clean_environment(tmp_path: Path) -> dict[str, str]:
    """Return this environment with an empty home directory and without the variables that disable telemetry."""
    for name in ("home", "temporary", "work"):
        (tmp_path / name).mkdir()
    settings = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    settings |= {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary")}
    settings |= {"KOSBERT_CACHE": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    return {name: value for name, value in settings.items() if name not in _VARIABLES}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_connection_and_no_file_in_the_home_directory(command: list[str], tmp_path: Path) -> None:
    environment = clean_environment(tmp_path)
    (tmp_path / "work" / "sentences.txt").write_text("비가 온다\n눈이 온다\n", encoding="utf-8")
    trace = tmp_path / "trace"
    tracer = [shutil.which("strace"), "-f", "--seccomp-bpf", "-e", "trace=connect,sendto,sendmsg,sendmmsg", "-o", trace]
    can_trace = tracer[0] and subprocess.run([*tracer, "true"], capture_output=True, check=False).returncode == 0
    subprocess.run(
        [*(tracer if can_trace else []), sys.executable, *command],
        cwd=tmp_path / "work", env=environment, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    left = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert not left
    if can_trace:  # elsewhere the files alone tell: telemetry queues its events there
        calls = trace.read_text(encoding="utf-8", errors="replace")
        assert not re.findall(r".*sa_family=AF_INET6?.*", calls)


def test_the_trace_would_show_a_connection(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if not strace:
        pytest.skip("strace is not installed")
    trace = tmp_path / "trace"
    code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', 9))"
    command = [strace, "-f", "--seccomp-bpf", "-e", "trace=connect", "-o", trace, sys.executable, "-c", code]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("strace may not trace here")
    assert "AF_INET" in trace.read_text(encoding="utf-8")
