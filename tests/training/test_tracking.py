"""TensorBoard and Weights & Biases through accelerate's trackers."""

from importlib.util import find_spec

import accelerate.tracking
import accelerate.utils
import pytest

from kosbert.errors import UsageError
from kosbert.training import train


class FakeTracker:
    """Records the calls of accelerate's trackers."""

    instances: list["FakeTracker"] = []  # noqa: RUF012

    def __init__(self, *arguments, **options):
        self.arguments, self.options, self.calls = arguments, options, []
        FakeTracker.instances.append(self)

    def __getattr__(self, name):
        return lambda *arguments, **options: self.calls.append((name, *arguments, options))


@pytest.fixture
def trackers(monkeypatch):
    FakeTracker.instances = []
    monkeypatch.setattr(accelerate.utils, "is_tensorboard_available", lambda: True)
    monkeypatch.setattr(accelerate.utils, "is_wandb_available", lambda: True)
    monkeypatch.setattr(accelerate.tracking, "TensorBoardTracker", FakeTracker)
    monkeypatch.setattr(accelerate.tracking, "WandBTracker", FakeTracker)
    return FakeTracker.instances


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_every_point_of_the_curve_is_logged(trackers, one_stage, tmp_path, name):
    trained = train(one_stage(3), tmp_path / "run", trackers=(name,))
    (tracker,) = trackers
    first, description, *points, last = tracker.calls
    assert (first[0], last[0], description[0]) == ("start", "finish", "store_init_configuration")
    assert description[1]["recipe"] == "tiny"
    assert [options["step"] for *_, options in points] == [1, 2, 3]
    curve = trained.curves["only"][1:]
    assert [values["only/loss"] for _, values, _ in points] == [point["loss"] for point in curve]
    assert points[-1][1]["only/dev"] == curve[-1]["dev"]
    assert str(tmp_path / "run") in map(str, (*tracker.arguments, *tracker.options.values()))


def test_trackers_are_finished_if_the_run_fails(trackers, one_stage, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(one_stage(3), tmp_path / "run", trackers=("wandb",), on_progress=stop)
    assert trackers[0].calls[-1][0] == "finish"


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_tracker_that_is_not_installed_is_a_usage_error(one_stage, tmp_path, monkeypatch, name):
    monkeypatch.setattr(accelerate.utils, f"is_{name}_available", lambda: False)
    with pytest.raises(UsageError, match=f"^{name} is not installed: pip install {name}$"):
        train(one_stage(3), tmp_path / "run", trackers=(name,))
    assert not (tmp_path / "run").exists()


def test_an_unknown_tracker_is_a_usage_error(one_stage, tmp_path):
    with pytest.raises(UsageError, match="there is no tracker 'tensorbord': did you mean tensorboard"):
        train(one_stage(3), tmp_path / "run", trackers=("tensorbord",))


@pytest.mark.skipif(not find_spec("tensorboard"), reason="tensorboard is not installed")
def test_tensorboard_writes_event_files(one_stage, tmp_path):
    train(one_stage(3), tmp_path / "run", trackers=("tensorboard",))
    assert list((tmp_path / "run" / "tensorboard").rglob("events.*"))
