"""Where a number comes from: code, libraries, machine. Written beside every stage and every run."""

import hashlib
import os
import platform
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

_LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers", "numpy", "scipy", "scikit-learn")


@cache
def lineage() -> dict[str, Any]:
    """Versions of everything that computes, a checksum of our own code, and the machine without its name."""
    import torch

    from kosbert.training.loop import fast_bfloat16

    return {
        "kosbert": {"version": version("kosbert"), "sha256": _code()},
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in _LIBRARIES},
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "processors": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "trains_in": "bfloat16" if fast_bfloat16() else "float32",
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
        "command": "kosbert " + " ".join(sys.argv[1:]) if Path(sys.argv[0]).stem in ("kosbert", "__main__") else "",
    }


def _code() -> str:
    """SHA-256 over the package's sources: the version alone does not tell two commits apart."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
