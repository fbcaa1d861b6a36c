"""Number formats of training by hardware; float16 with a loss scaler; losses that are read one step late."""

import json
import math

import pytest
import torch

from kosbert.errors import KosbertError
from kosbert.losses.cosine_similarity import CosineSimilarityLoss
from kosbert.model import precision
from kosbert.model.precision import device_name, tf32, training_dtype
from kosbert.training import loop, train, trainer

CPU, GPU, MPS = (torch.device(name) for name in ("cpu", "cuda", "mps"))


@pytest.mark.parametrize(
    ("device", "native", "expected"),
    [
        (GPU, True, torch.bfloat16),  # A100, RTX 30 and later
        (GPU, False, torch.float16),  # T4, V100
        (CPU, True, torch.bfloat16),
        (CPU, False, torch.float32),
        (MPS, True, torch.float32),
    ],
)
def test_the_hardware_decides_the_number_format(monkeypatch, device, native, expected):
    # A T4 claims to support bfloat16 if emulation counts.
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or native)
    monkeypatch.setattr(precision, "fast_bfloat16", lambda: native)
    assert training_dtype(device) == expected
    assert training_dtype(device, "float32") == torch.float32


def test_tf32_is_allowed_on_gpus_within_training_only():
    matmul = torch.backends.cuda.matmul
    assert not matmul.allow_tf32
    for setting, allowed in (("auto", True), ("float32", False)):
        with tf32(GPU, setting):
            assert matmul.allow_tf32 == allowed
        assert not matmul.allow_tf32
    with tf32(CPU, "auto"):
        assert not matmul.allow_tf32


def test_the_card_names_the_device_and_the_number_format(one_stage, tmp_path):
    for name, setting in (("auto", "auto"), ("exact", "float32")):
        trained = train(one_stage(1, {"precision": setting}), tmp_path / name)
        card = json.loads((trained.path / "kosbert.json").read_text(encoding="utf-8"))
        expected = str(training_dtype(CPU, setting)).removeprefix("torch.")
        assert card["hardware"] == {"device": device_name(CPU), "dtype": expected}


@pytest.fixture
def float16(monkeypatch):
    """Train in float16 on the CPU, with a scaler that starts at a scale and grows every second step."""

    def use(init_scale=2.0**8):
        monkeypatch.setattr(loop, "training_dtype", lambda *arguments: torch.float16)
        scalers = []

        def make(device, arguments):
            scalers.append(torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=2))
            return scalers[-1]

        monkeypatch.setattr(trainer, "make_scaler", make)
        return scalers

    return use


def losses_of(trained):
    return [point["loss"] for point in trained.curves["only"] if "loss" in point]


def test_float16_trains_like_float32(one_stage, tmp_path, float16):
    exact = train(one_stage(12, {"precision": "float32"}), tmp_path / "exact")
    scalers = float16()
    half = train(one_stage(12), tmp_path / "half")
    assert losses_of(half) != losses_of(exact)
    assert losses_of(half) == pytest.approx(losses_of(exact), rel=0.05)
    assert scalers[0].get_scale() == 2.0**8 * 2**6


def test_a_step_that_overflows_float16_is_skipped(one_stage, tmp_path, float16, weights):
    scalers = float16(2.0**40)
    start = train(one_stage(1, {"warmup": 0.0}), tmp_path / "one")
    plain = trainer.Trainer(one_stage(1), tmp_path / "none")
    plain.setup()
    untrained = plain.model.state_dict()
    saved = weights(start.path)
    assert all(torch.equal(saved[f"./{name.removeprefix('0.model.')}"], value) for name, value in untrained.items())
    assert scalers[0].get_scale() == 2.0**39
    float16(2.0**30)
    trained = train(one_stage(25, {"warmup": 0.0}), tmp_path / "all")
    assert all(map(math.isfinite, losses_of(trained)))
    assert losses_of(trained)[-1] < losses_of(trained)[0]


def test_overflow_in_every_step_is_an_error(one_stage, tmp_path, float16):
    float16(2.0**100)
    message = r"^stage only: the gradient overflowed float16 in 20 steps in a row, up to step 20: .* start again$"
    with pytest.raises(KosbertError, match=message):
        train(one_stage(30), tmp_path / "run")


def test_a_loss_that_is_not_finite_is_an_error_in_float16_too(one_stage, tmp_path, float16, monkeypatch):
    float16()
    plain = CosineSimilarityLoss.compute_loss
    monkeypatch.setattr(CosineSimilarityLoss, "compute_loss", lambda *arguments: plain(*arguments) * torch.nan)
    with pytest.raises(KosbertError, match="the loss became nan at step 1"):
        train(one_stage(3), tmp_path / "run")


def test_resume_restores_the_scale(one_stage, tmp_path, float16, assert_same):
    scalers = float16(2.0**26)  # overflows at first, then grows again
    recipe = one_stage(20)

    def stop(event):
        if event.done == 13:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "run", checkpoint_every=0, on_progress=stop)
    train(recipe, tmp_path / "run", resume=True)
    train(recipe, tmp_path / "whole")
    assert_same(tmp_path / "run", tmp_path / "whole")
    assert scalers[1].state_dict() == scalers[2].state_dict() != scalers[0].state_dict()


def test_losses_that_are_read_late_give_the_same_run(document, tmp_path, monkeypatch, assert_same):
    from kosbert.training import Recipe

    events = {}
    for late in (False, True):
        monkeypatch.setattr(loop, "_reads_late", lambda device, late=late: late)
        events[late] = []
        out = tmp_path / str(late)
        train(Recipe.parse(document), out, checkpoint_every=0, on_progress=events[late].append)
    assert_same(tmp_path / "True", tmp_path / "False")
    # The same points are reported; the best dev score may already be that of the next step.
    assert [(event.task, event.done, event.metrics["loss"]) for event in events[True]] == [
        (event.task, event.done, event.metrics["loss"]) for event in events[False]
    ]


@pytest.mark.parametrize("checkpoint_every", [0, 1000])
def test_a_late_loss_stops_the_run_before_a_checkpoint(one_stage, tmp_path, monkeypatch, checkpoint_every):
    monkeypatch.setattr(loop, "_reads_late", lambda device: True)
    plain, calls = CosineSimilarityLoss.compute_loss, []

    def fail_at_4(*arguments):
        calls.append(1)
        return plain(*arguments) * (torch.nan if len(calls) == 4 else 1)

    monkeypatch.setattr(CosineSimilarityLoss, "compute_loss", fail_at_4)
    with pytest.raises(KosbertError, match="the loss became nan at step 4"):
        train(one_stage(6), tmp_path / "run", checkpoint_every=checkpoint_every)
    assert len(calls) == (4 if checkpoint_every == 0 else 5)  # one step later if no checkpoint needs the loss
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("*"))
    assert kept == (["00000001", "00000002"] if checkpoint_every == 0 else [])
