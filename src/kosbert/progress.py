"""Progress of long work: one event type for every package, and the bars that show it.

def load(..., on_progress: ProgressCallback | None = None): ...

with progress_bars() as on_progress:
    load(..., on_progress=on_progress)
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


@dataclass(frozen=True)
class ProgressEvent:
    """One step of long work.

    Args:
        task: what is running, for example "download korsts-train" or "stage nli". Events of one task share a bar.
        done: units that are done.
        total: units in all; None where that is unknown.
        unit: "bytes", "sentences", "steps", "runs", …
        level: 0 for the whole job, 1 for a part of it. A new part replaces the bar of the one before.
        metrics: numbers to show next to the bar, such as the loss and the dev score.
    """

    task: str
    done: int
    total: int | None = None
    unit: str = ""
    level: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)


ProgressCallback = Callable[[ProgressEvent], None]


@contextmanager
def progress_bars(enabled: bool = True) -> Iterator[ProgressCallback]:
    """Show events as progress bars on standard error; yields the callback to pass on."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[metrics]}"),
    )
    tasks: dict[str, TaskID] = {}
    parts: dict[int, str] = {}
    with Progress(*columns, console=Console(stderr=True), disable=not enabled) as bars:

        def show(event: ProgressEvent) -> None:
            if event.task not in tasks:
                previous = parts.get(event.level)
                if event.level and previous in tasks:
                    bars.remove_task(tasks.pop(previous))
                parts[event.level] = event.task
                tasks[event.task] = bars.add_task(event.task, total=event.total, count="", metrics="")
            bars.update(
                tasks[event.task], completed=event.done, total=event.total, count=_count(event), metrics=_metrics(event)
            )

        yield show


def _count(event: ProgressEvent) -> str:
    if event.unit == "bytes":
        return f"{event.done / 1e6:.1f}" + (f"/{event.total / 1e6:.1f} MB" if event.total else " MB")
    total = f"/{event.total:,}" if event.total is not None else ""
    return f"{event.done:,}{total} {event.unit}".rstrip()


def _metrics(event: ProgressEvent) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in event.metrics.items())
