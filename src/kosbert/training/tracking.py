"""Log training curves to TensorBoard or Weights & Biases, through accelerate's trackers.

kosbert.train("nli-sts", "runs/nli-sts", trackers=("tensorboard",))
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kosbert.errors import UsageError, did_you_mean

TRACKERS = ("tensorboard", "wandb")

Log = Callable[[str, int, Mapping[str, float]], None]
"""Takes the stage name, the steps done in all stages, and the newest point of the curve."""


@contextmanager
def started(names: Sequence[str], out: Path, run: str, values: dict[str, Any]) -> Iterator[Log]:
    """Start trackers for the block and yield the function that logs a point.

    Args:
        names: of `TRACKERS`.
        out: the run directory.
        run: name of the run.
        values: description of the run: recipe, seed, backbone.
    """
    trackers = [_tracker(name, out, run) for name in names]
    for tracker in trackers:
        # Only rank 0 gets here; accelerate would create a state of its own to find that out.
        tracker.main_process_only = False
        tracker.start()
        tracker.store_init_configuration(values)

    def log(stage: str, step: int, point: Mapping[str, float]) -> None:
        for tracker in trackers:
            tracker.log({f"{stage}/{name}": value for name, value in point.items() if name != "step"}, step=step)

    try:
        yield log
    finally:
        for tracker in trackers:
            tracker.finish()


def check(names: Sequence[str]) -> None:
    """Raise for a tracker that does not exist or is not installed."""
    from accelerate.utils import is_tensorboard_available, is_wandb_available

    is_available = {"tensorboard": is_tensorboard_available, "wandb": is_wandb_available}
    for name in names:
        if name not in is_available:
            raise UsageError(f"there is no tracker {name!r}: {did_you_mean(name, TRACKERS)}")
        if not is_available[name]():
            raise UsageError(f"{name} is not installed: pip install {name}")


def _tracker(name: str, out: Path, run: str) -> Any:
    from accelerate import tracking

    if name == "tensorboard":
        return tracking.TensorBoardTracker("tensorboard", logging_dir=out)
    return tracking.WandBTracker("kosbert", name=run, dir=str(out))
