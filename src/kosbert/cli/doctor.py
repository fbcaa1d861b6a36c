"""`kosbert doctor`: what is here, where things would come from, what is missing and the line that fixes it."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from importlib.util import find_spec
from typing import Any

from packaging.requirements import Requirement
from rich.table import Table

import kosbert
from kosbert import data
from kosbert.cli.output import DataDirOption, JsonOption, out, print_json
from kosbert.data.locate import cache_dir, offline


def doctor(data_dir: DataDirOption = None, json: JsonOption = False) -> None:
    """Say what is installed, where data and models come from, what is missing and how to fix it."""
    extras = _extras()
    report: dict[str, Any] = {
        "kosbert": kosbert.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": _machine(),
        "versions": {name: _version(name) for name in ("torch", "transformers", "sentence-transformers", "numpy")},
        "extras": extras,
        "data": {
            "KOSBERT_DATA": str(data_dir) if data_dir else None,
            "cache": str(cache_dir()),
            "offline": offline(),
            "here": [name for name, each in data.datasets().items() if _is_here(each, data_dir)],
        },
        "advice": _advice(data_dir, extras),
    }
    if json:
        print_json(report)
        return
    table = Table(show_header=False, title="kosbert doctor")
    versions = ", ".join(f"{name} {found or 'missing'}" for name, found in report["versions"].items())
    table.add_row("kosbert", f"{report['kosbert']} on Python {report['python']}, {report['platform']}")
    table.add_row("libraries", versions)
    table.add_row("machine", ", ".join(f"{name} {value}" for name, value in report["machine"].items()))
    table.add_row("extras", ", ".join(f"{name} {'yes' if not lack else 'no'}" for name, lack in extras.items()))
    table.add_row("data folder", f"{data_dir or 'KOSBERT_DATA is not set'}")
    table.add_row("cache", report["data"]["cache"])
    table.add_row("network", "forbidden (offline)" if report["data"]["offline"] else "used only to fetch what you name")
    table.add_row("data here", ", ".join(report["data"]["here"]))
    out.print(table)
    for line in report["advice"]:
        out.print(f"• {line}", highlight=False, markup=False)  # kosbert[serve] is no style


def _is_here(dataset: data.Dataset, data_dir: Any) -> bool:
    return any(data.available(dataset, split, data_dir) for split in dataset.splits)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _machine() -> dict[str, Any]:
    affinity = getattr(os, "sched_getaffinity", None)  # a container may have fewer cores than the machine
    cores = len(affinity(0)) if affinity else os.cpu_count()
    found: dict[str, Any] = {"cores": cores}
    if find_spec("torch"):
        import torch

        cuda = torch.cuda.is_available()
        found |= {"threads": torch.get_num_threads(), "device": "cuda" if cuda else _apple_or_cpu(torch)}
    return found


def _apple_or_cpu(torch: Any) -> str:
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _extras() -> dict[str, list[str]]:
    """Every optional extra with those of its packages that are not installed."""
    missing: dict[str, list[str]] = {name: [] for name in metadata("kosbert").get_all("Provides-Extra") or []}
    for line in requires("kosbert") or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}) or _version(requirement.name):
            continue
        for extra in missing:
            if requirement.marker.evaluate({"extra": extra}):
                missing[extra].append(requirement.name)
    return missing


def _advice(data_dir: Any, extras: dict[str, list[str]]) -> list[str]:
    advice = []
    if data_dir is not None and not data_dir.is_dir():
        advice.append(f"the data folder {data_dir} does not exist: create it or unset KOSBERT_DATA")
    if not data.available(data.get("korsts"), "test", data_dir):
        advice.append(
            "KorSTS is not here: kosbert data fetch korsts (or set KOSBERT_DATA to a folder that holds korsts/)"
        )
    for extra, lacking in extras.items():
        if lacking and extra != "dev":
            advice.append(f"{', '.join(lacking)} not installed: pip install 'kosbert[{extra}]'")
    if sys.stdout.encoding and sys.stdout.encoding.lower().replace("-", "") != "utf8":
        advice.append(f"the terminal uses {sys.stdout.encoding}: set PYTHONUTF8=1 to see Korean")
    return advice
