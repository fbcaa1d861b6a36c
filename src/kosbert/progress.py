"""Progress of long-running work: one event type for every package, and the bars that show it.

def train(..., on_progress: ProgressCallback | None = None): ...

with progress_bars() as on_progress:
    train(..., on_progress=on_progress)
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


@dataclass(frozen=True)
class ProgressEvent:
    """One step of long-running work.

    Args:
        task: what is running, for example "download korsts-train" or "stage nli". Events of one task share a bar.
        done: units done so far.
        total: units in total; None if unknown.
        unit: "bytes", "sentences", "steps", "runs", …
        level: 0 for the whole job, 1 for a part of it. At level 1 and below, a new task replaces the previous bar.
        metrics: numbers to show next to the bar, such as the loss and the dev score.
    """

    task: str
    done: int
    total: int | None = None
    unit: str = ""
    level: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)


ProgressCallback = Callable[[ProgressEvent], None]


def nested(on_progress: ProgressCallback | None, task: str = "") -> ProgressCallback | None:
    """Return a callback that reports the same events one level below, as part of a larger job.

    Args:
        on_progress: the callback of the larger job.
        task: a name for the events in place of their own.
    """
    if on_progress is None:
        return None
    return lambda event: on_progress(replace(event, level=event.level + 1, task=task or event.task))


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
    bars: dict[tuple[int, str], TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), disable=not enabled) as progress:

        def show(event: ProgressEvent) -> None:
            key = (event.level, event.task)
            if key not in bars:
                # A new part of the job: the bars of the previous part, and of its own parts, are no longer needed.
                for level, task in [bar for bar in bars if 0 < event.level <= bar[0]]:
                    progress.remove_task(bars.pop((level, task)))
                description = "  " * event.level + event.task
                bars[key] = progress.add_task(description, total=event.total, count="", metrics="")
            progress.update(
                bars[key], completed=event.done, total=event.total, count=_count(event), metrics=_metrics(event)
            )

        yield show


def _count(event: ProgressEvent) -> str:
    if event.unit == "bytes":
        return f"{event.done / 1e6:.1f}" + (f"/{event.total / 1e6:.1f} MB" if event.total else " MB")
    total = f"/{event.total:,}" if event.total is not None else ""
    return f"{event.done:,}{total} {event.unit}".rstrip()


def _metrics(event: ProgressEvent) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in event.metrics.items())
