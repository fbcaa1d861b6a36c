"""One of two processes that train together through the command line; conftest.py's `start` runs it.

Given: RANK, PORT (of the store where they meet), ARGUMENTS of `kosbert train`, SAID (a file for standard error).
"""

import os
import sys
from pathlib import Path

import torch

from kosbert.cli import main

RANK, PORT, ARGUMENTS, SAID = (globals()[name] for name in ("RANK", "PORT", "ARGUMENTS", "SAID"))

if __name__ == "__main__":
    torch.set_num_threads(1)
    # What torchrun sets; the store belongs to another process.
    os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT)}
    os.environ |= {"RANK": str(RANK), "LOCAL_RANK": str(RANK), "WORLD_SIZE": "2"}
    sys.argv = ["kosbert", "train", *ARGUMENTS]
    with Path(SAID).open("w", encoding="utf-8") as sys.stderr:
        main()
