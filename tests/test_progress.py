"""Progress events and bars: one bar per task at level 0, one bar at a time below."""

import pytest

from kosbert import progress
from kosbert.progress import ProgressEvent, nested, progress_bars


class FakeProgress:
    """Records the bars that are shown."""

    def __init__(self, *columns, **options):
        self.bars, self.options = {}, options

    def __enter__(self):
        FakeProgress.current = self
        return self

    def __exit__(self, *error):
        pass

    def add_task(self, description, **fields):
        self.bars[description] = fields
        return description

    def update(self, task, **fields):
        self.bars[task] |= fields

    def remove_task(self, task):
        del self.bars[task]


@pytest.fixture
def bars(monkeypatch):
    monkeypatch.setattr(progress, "Progress", FakeProgress)
    return lambda: list(FakeProgress.current.bars)


def test_a_study_shows_a_job_bar_and_the_bar_of_the_current_stage(bars):
    with progress_bars() as on_progress:
        on_progress(ProgressEvent("study order", 0, 2, "runs"))
        stage = nested(on_progress)
        stage(ProgressEvent("nli", 1, 10, "steps", metrics={"loss": 0.5}))
        assert bars() == ["study order", "  nli"]
        stage(ProgressEvent("sts", 1, 10, "steps"))
        on_progress(ProgressEvent("study order", 1, 2, "runs"))
        assert bars() == ["study order", "  sts"]
        fields = FakeProgress.current.bars["study order"]
    assert (fields["completed"], fields["total"], fields["count"]) == (1, 2, "1/2 runs")


def test_tasks_at_level_0_keep_their_bars(bars):
    with progress_bars() as on_progress:
        for stage in ("nli", "sts", "nli"):
            on_progress(ProgressEvent(stage, 3, 1000, "steps", metrics={"loss": 0.12345, "best dev": 0.8}))
        assert bars() == ["nli", "sts"]
        assert FakeProgress.current.bars["nli"]["metrics"] == "loss 0.1235  best dev 0.8"
        assert FakeProgress.current.bars["nli"]["count"] == "3/1,000 steps"


def test_a_new_part_removes_the_bars_below_it(bars):
    with progress_bars() as on_progress:
        for level, task in ((0, "job"), (1, "part 1"), (2, "detail"), (1, "part 2")):
            on_progress(ProgressEvent(task, 1, 2, level=level))
        assert bars() == ["job", "  part 2"]


def test_nested_renames_and_lowers_events():
    events = []
    nested(events.append, "stage 1 of 2")(ProgressEvent("nli", 1, 2))
    assert events == [ProgressEvent("stage 1 of 2", 1, 2, level=1)]
    assert nested(None) is None


@pytest.mark.parametrize(
    ("event", "count"),
    [
        (ProgressEvent("download", 1_500_000, 3_000_000, "bytes"), "1.5/3.0 MB"),
        (ProgressEvent("download", 1_500_000, None, "bytes"), "1.5 MB"),
        (ProgressEvent("encode", 7, None, "sentences"), "7 sentences"),
        (ProgressEvent("encode", 7, 9), "7/9"),
    ],
)
def test_counts_are_readable(event, count):
    assert progress._count(event) == count


def test_disabled_bars_write_nothing(capsys):
    with progress_bars(enabled=False) as on_progress:
        on_progress(ProgressEvent("nli", 1, 2))
    assert capsys.readouterr() == ("", "")
