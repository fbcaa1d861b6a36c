"""One of two ranks that run `kosbert train`; run by `start_process` of conftest.py.

Variables: RANK, PORT (of the TCP store), ARGUMENTS of `kosbert train`, STDERR (a file for standard error).
"""

import os
import sys
from pathlib import Path

import torch

from kosbert.cli import main

RANK, PORT, ARGUMENTS, STDERR = (globals()[name] for name in ("RANK", "PORT", "ARGUMENTS", "STDERR"))

if __name__ == "__main__":
    torch.set_num_threads(1)
    # What torchrun sets; the store is in another process.
    os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT)}
    os.environ |= {"RANK": str(RANK), "LOCAL_RANK": str(RANK), "WORLD_SIZE": "2"}
    sys.argv = ["kosbert", "train", *ARGUMENTS]
    with Path(STDERR).open("w", encoding="utf-8") as sys.stderr:
        main()
