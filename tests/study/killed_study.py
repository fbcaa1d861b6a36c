"""A study in a process of its own, so that it can be killed. Given: STUDY (a YAML file) and STORE."""

from pathlib import Path

import torch

from kosbert.study.config import Study
from kosbert.study.run_study import conduct
from kosbert.study.store import Store

if __name__ == "__main__":
    torch.set_num_threads(1)
    conduct(Study.read(globals()["STUDY"]), "quick", Store(Path(globals()["STORE"])), checkpoint_every=0)
