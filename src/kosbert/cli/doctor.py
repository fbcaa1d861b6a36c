"""`kosbert doctor`: what is installed, where data and models come from, what is missing and how to fix it."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from rich.table import Table

import kosbert
from kosbert import data
from kosbert.cli.output import DataDirOption, JsonOption, out, print_json
from kosbert.data.locate import cache_dir
from kosbert.files import offline

_LIBRARIES = ("torch", "transformers", "sentence-transformers", "numpy")


def doctor(data_dir: DataDirOption = None, json: JsonOption = False) -> None:
    """Check the installation: libraries, extras, hardware, data, and what to do about anything missing."""
    missing_by_extra = _missing_by_extra()
    report: dict[str, Any] = {
        "kosbert": kosbert.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "hardware": _hardware(),
        "versions": {name: _version(name) for name in _LIBRARIES},
        "missing_by_extra": missing_by_extra,
        "data": {
            "data_dir": str(data_dir) if data_dir else None,
            "cache": str(cache_dir()),
            "offline": offline(),
            "available": [name for name, dataset in data.datasets().items() if _is_available(dataset, data_dir)],
        },
        "advice": _advice(data_dir, missing_by_extra),
    }
    if json:
        print_json(report)
        return
    versions = [f"{name} {installed or 'missing'}" for name, installed in report["versions"].items()]
    extras = [f"{extra} {'no' if packages else 'yes'}" for extra, packages in missing_by_extra.items()]
    table = Table(show_header=False, title="kosbert doctor")
    table.add_row("kosbert", f"{report['kosbert']} on Python {report['python']}, {report['platform']}")
    table.add_row("libraries", ", ".join(versions))
    table.add_row("hardware", ", ".join(f"{name} {value}" for name, value in report["hardware"].items()))
    table.add_row("extras", ", ".join(extras))
    table.add_row("data directory", f"{data_dir or 'KOSBERT_DATA is not set'}")
    table.add_row("cache", report["data"]["cache"])
    table.add_row("network", "off (offline)" if report["data"]["offline"] else "used only for what you ask to download")
    table.add_row("available data", ", ".join(report["data"]["available"]))
    out.print(table)
    for line in report["advice"]:
        out.print(f"• {line}", highlight=False, markup=False)  # rich would read kosbert[serve] as a style


def _is_available(dataset: data.Dataset, data_dir: Path | None) -> bool:
    return any(data.available(dataset, split, data_dir) for split in dataset.splits)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _hardware() -> dict[str, Any]:
    affinity = getattr(os, "sched_getaffinity", None)  # a container may have fewer cores than the machine
    hardware: dict[str, Any] = {"cores": len(affinity(0)) if affinity else os.cpu_count()}
    if find_spec("torch"):
        import torch

        from kosbert.model import best_device
        from kosbert.model.precision import device_name, training_dtype

        device = torch.device(best_device())
        dtype = str(training_dtype(device)).removeprefix("torch.")
        hardware |= {"threads": torch.get_num_threads(), "device": device.type}
        hardware |= {"device_name": device_name(device), "training_dtype": dtype}
    return hardware


def _missing_by_extra() -> dict[str, list[str]]:
    """Return the packages of each optional extra that are not installed."""
    missing: dict[str, list[str]] = {name: [] for name in metadata("kosbert").get_all("Provides-Extra") or []}
    for line in requires("kosbert") or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}) or _version(requirement.name):
            continue
        for extra in missing:
            if requirement.marker.evaluate({"extra": extra}):
                missing[extra].append(requirement.name)
    return missing


def _advice(data_dir: Path | None, missing_by_extra: dict[str, list[str]]) -> list[str]:
    advice = []
    if data_dir is not None and not data_dir.is_dir():
        advice.append(f"the data directory {data_dir} does not exist: create it or unset KOSBERT_DATA")
    if not data.available(data.get("korsts"), "test", data_dir):
        advice.append("KorSTS is missing: kosbert data fetch korsts, or set KOSBERT_DATA to a directory with korsts/")
    for extra, packages in missing_by_extra.items():
        if packages and extra != "dev":
            advice.append(f"{', '.join(packages)} not installed: pip install 'kosbert[{extra}]'")
    if sys.stdout.encoding and sys.stdout.encoding.lower().replace("-", "") != "utf8":
        advice.append(f"the terminal uses {sys.stdout.encoding}: set PYTHONUTF8=1 to see Korean")
    return advice
