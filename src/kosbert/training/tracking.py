"""Curves for TensorBoard or Weights & Biases, through accelerate's own trackers.

kosbert.train("recipes/nli-sts.yaml", "runs/nli-sts", trackers=("tensorboard",))
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kosbert.errors import UsageError, did_you_mean

TRACKERS = ("tensorboard", "wandb")

Log = Callable[[str, int, Mapping[str, float]], None]
"""Called with the name of a stage, the steps over all stages, and the newest point of the curve."""


@contextmanager
def tracked(names: Sequence[str], out: Path, run: str, values: dict[str, Any]) -> Iterator[Log]:
    """Start the trackers of these names and give the function that tells them a point; `values` describe the run."""
    started = [_tracker(name, out, run) for name in names]
    for tracker in started:
        # The caller is the main process; accelerate would start a state of its own to find that out.
        tracker.main_process_only = False
        tracker.start()
        tracker.store_init_configuration(values)

    def log(stage: str, step: int, point: Mapping[str, float]) -> None:
        for tracker in started:
            tracker.log({f"{stage}/{name}": value for name, value in point.items() if name != "step"}, step=step)

    try:
        yield log
    finally:
        for tracker in started:
            tracker.finish()


def check(names: Sequence[str]) -> None:
    """Refuse a tracker that does not exist or is not installed."""
    from accelerate.utils import is_tensorboard_available, is_wandb_available

    installed = {"tensorboard": is_tensorboard_available, "wandb": is_wandb_available}
    for name in names:
        if name not in installed:
            raise UsageError(f"there is no tracker {name!r}: {did_you_mean(name, TRACKERS)}")
        if not installed[name]():
            raise UsageError(f"{name} is not installed: pip install {name}")


def _tracker(name: str, out: Path, run: str) -> Any:
    from accelerate import tracking

    if name == "tensorboard":
        return tracking.TensorBoardTracker("tensorboard", logging_dir=out)
    return tracking.WandBTracker("kosbert", name=run, dir=str(out))
