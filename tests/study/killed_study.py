"""Run a study in a process that the test kills. Globals: STUDY (a YAML file) and STORE."""

from pathlib import Path

import torch

from kosbert.study.config import StudyConfig
from kosbert.study.run_study import run_study
from kosbert.study.store import Store

if __name__ == "__main__":
    torch.set_num_threads(1)
    study, store = StudyConfig.load(globals()["STUDY"]), Store(Path(globals()["STORE"]))
    run_study(study, "quick", store, keep="none", checkpoint_every=0)  # it also deletes models while it runs
