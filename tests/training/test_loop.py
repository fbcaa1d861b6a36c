"""Training loop: schedule, best weights, patience, time budget, timing, and errors of a step."""

import copy
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kosbert.errors import KosbertError
from kosbert.losses.cosine_similarity import CosineSimilarityLoss
from kosbert.model import precision
from kosbert.model.packing import use_attention
from kosbert.training import Recipe, loop, train, trainer
from kosbert.training.loop import learning_rate
from kosbert.training.recipe import TrainingArguments


def rates(steps=100, **settings):
    arguments = TrainingArguments(lr=1.0, **settings)
    return np.array([learning_rate(arguments, step / steps) for step in range(steps)])


def test_learning_rates_have_known_values():
    actual = rates(warmup=0.1)
    np.testing.assert_allclose(actual[[0, 5, 10, 55, 99]], [0, 0.5, 1, 0.5, 1 / 90])
    np.testing.assert_allclose(rates(warmup=0)[[0, 50, 99]], [1, 0.5, 0.01])
    np.testing.assert_allclose(rates(warmup=0, schedule="cosine")[[0, 50]], [1, 0.5])
    assert (rates(warmup=0, schedule="constant") == 1).all()
    assert learning_rate(TrainingArguments(lr=2, warmup=1), 0.5) == 1


def test_linear_schedule_equals_that_of_transformers():
    from transformers import get_linear_schedule_with_warmup

    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule = get_linear_schedule_with_warmup(optimizer, 10, 100)
    expected = []
    for _ in range(100):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    np.testing.assert_allclose(rates(warmup=0.1), expected)


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant"])
@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.5])
def test_the_learning_rate_is_never_zero_within_a_stage(schedule, warmup):
    """A published trainer had a schedule that zeroed every second step."""
    actual = rates(schedule=schedule, warmup=warmup)
    assert (actual[1:] > 0).all()
    peak = int(actual.argmax())
    assert (np.diff(actual[: peak + 1]) > 0).all()
    assert (np.diff(actual[peak:]) <= 0).all()


def test_the_optimizer_uses_the_schedule(one_stage, tmp_path):
    trained = train(one_stage(8, {"warmup": 0.25, "lr": 1e-3}), tmp_path / "run")
    rates_used = [point["lr"] for point in trained.curves["only"][1:]]
    np.testing.assert_allclose(
        rates_used, [1e-3 * factor for factor in (0, 1 / 2, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6)]
    )


def test_the_same_seed_gives_identical_runs(one_stage, tmp_path, assert_same, weights):
    recipe = one_stage(6, data="nli", loss="softmax")
    for name in ("one", "two"):
        torch.manual_seed(hash(name))  # earlier random numbers must not matter
        train(recipe, tmp_path / name)
    assert_same(tmp_path / "one", tmp_path / "two")
    train(recipe.model_copy(update={"seed": 43}), tmp_path / "other")
    one, different = (weights(tmp_path / name / "model") for name in ("one", "other"))
    assert any(not torch.equal(one[name], different[name]) for name in one)


@pytest.fixture
def scripted(monkeypatch):
    """Return a function that sets the dev scores (the first before training) and records the weights at each."""

    def use(scores):
        seen, left = [], list(scores)

        def score(self):
            seen.append(copy.deepcopy(self.encoder.sentence_transformer.state_dict()))
            return left.pop(0)

        monkeypatch.setattr(trainer.Trainer, "dev_score", score)
        return seen

    return use


def test_the_best_weights_are_saved(one_stage, tmp_path, scripted, weights):
    seen = scripted([0.9, 0.1, 0.2, 0.8, 0.3, None, 0.7])  # 0.9 is the score before training
    trained = train(one_stage(6, {"evals_per_epoch": 10}), tmp_path / "run")
    assert [point.get("dev") for point in trained.curves["only"]] == [0.9, 0.1, 0.2, 0.8, 0.3, None, 0.7]
    saved = weights(trained.path)
    best = {name.removeprefix("0.model."): value for name, value in seen[3].items() if name.startswith("0.model.")}
    assert all(torch.equal(saved[f"./{name}"], value) for name, value in best.items())
    last = {name.removeprefix("0.model."): value for name, value in seen[6].items() if name.startswith("0.model.")}
    assert any(not torch.equal(saved[f"./{name}"], value) for name, value in last.items())


def test_patience_ends_a_stage(one_stage, tmp_path, scripted):
    scripted([0.0, 0.1, 0.5, 0.4, 0.45, 0.6, 0.55, 0.5, 0.4, 0.9])
    trained = train(one_stage(9, {"evals_per_epoch": 10, "patience": 3}), tmp_path / "run")
    assert len(trained.curves["only"]) == 1 + 8
    assert trained.curves["only"][-1]["dev"] == 0.4


def test_without_dev_the_last_weights_are_saved(document, tmp_path):
    trained = train(Recipe.parse(document | {"dev": []}), tmp_path / "run")
    assert trained.scores == {}
    assert all("dev" not in point for curve in trained.curves.values() for point in curve)
    assert [len(curve) for curve in trained.curves.values()] == [15, 10]


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock: a step takes 1 second, an evaluation 50, everything else nothing."""
    now = [1e7]  # later than any real clock
    gradients, score = loop._compute_gradients, trainer.Trainer.dev_score

    def slow(*arguments):
        now[0] += 1.0
        return gradients(*arguments)

    def slow_score(self):
        now[0] += 50.0
        return score(self)

    for module in (loop, trainer):  # not of the whole process: servers of other tests use it
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(loop, "_compute_gradients", slow)
    monkeypatch.setattr(trainer.Trainer, "dev_score", slow_score)


@pytest.mark.usefixtures("clock")
def test_a_time_budget_ends_the_run_with_its_schedule(document, tmp_path):
    document["stages"][0] |= {"epochs": 20}  # 300 and 100 steps
    document["stages"][1] |= {"epochs": 10}
    trained = train(Recipe.parse(document), tmp_path / "run", time_budget=40)
    steps = {name: curve[-1]["step"] for name, curve in trained.curves.items()}
    assert steps == {"nli": 30, "sts": 10}  # in proportion to 1,200 and 400 rows; evaluation does not count
    for curve in trained.curves.values():
        rates_used = [point["lr"] for point in curve if "lr" in point]
        assert max(rates_used) > 0.9e-3
        assert 0 < rates_used[-1] < 1.3e-3 / 9  # the last of ten
        assert "dev" in curve[-1]
    assert (trained.path / "modules.json").is_file()


@pytest.mark.usefixtures("clock")
def test_an_unused_time_budget_changes_nothing(one_stage, tmp_path, assert_same):
    train(one_stage(6), tmp_path / "unlimited")
    train(one_stage(6), tmp_path / "limited", time_budget=10_000)
    assert_same(tmp_path / "unlimited", tmp_path / "limited")


def failing(monkeypatch, at, outcome):
    """Change the loss at one of its calls."""
    from kosbert.losses import LOSSES

    real, calls = LOSSES["cosine-similarity"].compute_loss, []

    def compute_loss(self, *arguments):
        calls.append(1)
        return outcome(real(self, *arguments)) if len(calls) == at else real(self, *arguments)

    monkeypatch.setattr(LOSSES["cosine-similarity"], "compute_loss", compute_loss)


@pytest.mark.parametrize(
    ("outcome", "what"),
    [
        (lambda loss: loss * torch.nan, "loss became nan"),
        (lambda loss: loss * torch.inf, "loss became inf"),
        (lambda loss: (loss - loss.detach()).sqrt(), "gradient became (inf|nan)"),
    ],
)
def test_a_loss_that_is_not_finite_stops_the_run(one_stage, tmp_path, monkeypatch, outcome, what):
    failing(monkeypatch, 4, outcome)
    with pytest.raises(KosbertError, match=rf"^stage only: the {what} at step 4 .* lower train.lr .* start again$"):
        train(one_stage(6), tmp_path / "run", checkpoint_every=0)
    kept = sorted((tmp_path / "run" / "checkpoints").iterdir())
    # Step 4 failed, so the weights after step 3 may be bad; those after step 2 gave a finite loss.
    assert [path.name for path in kept] == ["00000001", "00000002"]
    assert not (tmp_path / "run" / "model").exists()


def test_a_huge_learning_rate_is_an_error(one_stage, tmp_path):
    with pytest.raises(KosbertError, match=r"^stage only: the (loss|gradient) became .* at step \d") as caught:
        train(one_stage(6, {"lr": 1e30, "warmup": 0.0}), tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_weights_that_are_not_finite_are_not_saved(one_stage, document, tmp_path, monkeypatch):
    recipe = one_stage(2, {"warmup": 0.0}).model_copy(update={"dev": []})
    step = torch.optim.AdamW.step

    def explode(self, *arguments):
        step(self, *arguments)
        self.param_groups[0]["params"][0].data.fill_(torch.inf)

    failing(monkeypatch, 2, lambda loss: (monkeypatch.setattr(torch.optim.AdamW, "step", explode), loss)[1])
    with pytest.raises(KosbertError, match="weights are not finite after step 2: lower train.lr"):
        train(recipe, tmp_path / "run")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA: tried to allocate 20 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes"),
        MemoryError(),
    ],
)
def test_out_of_memory_says_what_to_lower(one_stage, tmp_path, monkeypatch, error):
    def fail(loss):
        raise error

    failing(monkeypatch, 3, fail)
    message = r"^stage only: out of memory at step 3 with 4 rows of \d+ tokens: lower train.batch_size or max_length.*"
    with pytest.raises(KosbertError, match=message):
        train(one_stage(6), tmp_path / "run")


def test_other_runtime_errors_are_not_reported_as_out_of_memory(one_stage, tmp_path, monkeypatch):
    def fail(loss):
        raise RuntimeError("view is not compatible with the memory format")

    failing(monkeypatch, 1, fail)
    with pytest.raises(RuntimeError, match="memory format"):
        train(one_stage(6), tmp_path / "run")


def test_several_sources_with_different_losses_and_weights(document, tmp_path):
    document["stages"] = [
        {
            "name": "both",
            "epochs": 1,
            "data": [
                {"rows": "nli", "loss": "multiple-negatives-ranking", "batch_size": 5},
                {"rows": "sts", "loss": "cosine-similarity", "weight": 0.5, "limit": 12},
            ],
        }
    ]
    trained = train(Recipe.parse(document), tmp_path / "run")
    assert len(trained.curves["both"]) == 1 + 20 // 5 + 12 // 4  # 20 triplets
    card = json.loads((trained.path / "kosbert.json").read_text(encoding="utf-8"))
    assert sorted(fingerprint["rows"] for fingerprint in card["data"].values()) == [24, 40, 60]


@pytest.mark.parametrize(
    ("native", "setting", "half"), [(True, "auto", True), (True, "float32", False), (False, "auto", False)]
)
def test_bfloat16_is_used_if_the_processor_supports_it(one_stage, monkeypatch, tmp_path, native, setting, half):
    monkeypatch.setattr(precision, "fast_bfloat16", lambda: native)
    seen = []
    plain = CosineSimilarityLoss.compute_loss

    def watched(self, embeddings, labels, columns):
        seen.append((embeddings[0].dtype, torch.is_autocast_enabled("cpu")))
        return plain(self, embeddings, labels, columns)

    monkeypatch.setattr(CosineSimilarityLoss, "compute_loss", watched)
    modes = []
    linear = torch.nn.Linear.forward
    monkeypatch.setattr(
        torch.nn.Linear, "forward", lambda self, x: modes.append(torch.is_autocast_enabled("cpu")) or linear(self, x)
    )
    train(one_stage(3, train={"evals_per_epoch": 0, "precision": setting}), tmp_path / "out")
    assert any(modes) == half
    assert seen == [(torch.float32, False)] * 3  # losses are computed in float32


def test_bfloat16_and_float32_losses_stay_close(one_stage, monkeypatch, tmp_path):
    losses = []
    for native in (False, True):
        monkeypatch.setattr(precision, "fast_bfloat16", lambda native=native: native)
        train(one_stage(20, train={"evals_per_epoch": 0}), tmp_path / str(native))
        points = json.loads((tmp_path / str(native) / "curves.json").read_text("utf-8"))["only"]
        losses.append([point["loss"] for point in points if "loss" in point])
    assert losses[0] != losses[1]
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.05)


def test_time_steps_measures_the_first_stage_without_writing(document, tmp_path, monkeypatch):
    now = [0.0]
    compute = loop._compute_gradients

    def slow(*arguments):
        now[0] += 2.0
        return compute(*arguments)

    def slow_score(self):
        now[0] += 5.0
        return 0.5

    for module in (loop, trainer):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(loop, "_compute_gradients", slow)
    monkeypatch.setattr(trainer.Trainer, "dev_score", slow_score)
    monkeypatch.chdir(tmp_path)
    document["train"]["evals_per_epoch"] = 1
    timing = trainer.time_steps(Recipe.parse(document), steps=4)
    assert timing == trainer.StepTiming(total_steps=15, seconds_per_step=2.0, setup_seconds=5.0)
    assert now[0] == 5 + 4 * 2  # no evaluation at the end
    assert list(tmp_path.iterdir()) == []


def test_time_steps_of_a_stage_with_fewer_steps(one_stage):
    timing = trainer.time_steps(one_stage(2), steps=6)
    assert timing.total_steps == 2
    assert timing.seconds_per_step > 0
    assert timing.setup_seconds > 0


def test_progress_events_name_the_stage_and_carry_metrics(document, tmp_path):
    events = []
    result = train(Recipe.parse(document), tmp_path / "run", on_progress=events.append)
    assert [(event.task, event.done, event.total) for event in events] == [
        *(("nli", step, 15) for step in range(1, 16)), *(("sts", step, 10) for step in range(1, 11)),
    ]  # fmt: skip
    assert {(event.unit, event.level) for event in events} == {("steps", 0)}
    assert [event.metrics["loss"] for event in events[:15]] == [point["loss"] for point in result.curves["nli"][1:]]
    assert events[-1].metrics["best dev"] == max(point["dev"] for point in result.curves["sts"][1:] if "dev" in point)
    assert all(seconds > 0 for seconds in result.seconds.values())
    assert list(result.seconds) == ["nli", "sts"]


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_the_recipe_sets_the_dropout_and_the_saved_model_keeps_it(one_stage, tmp_path, rate):
    trained = train(one_stage(2).model_copy(update={"dropout": rate}), tmp_path / "run")
    config = json.loads((trained.path / "config.json").read_text(encoding="utf-8"))
    assert config["hidden_dropout_prob"] == config["attention_probs_dropout_prob"] == rate


@pytest.mark.parametrize(("setting", "padded", "grouped"), [
    (None, True, True), (None, False, False), (True, False, True), (False, True, False),
])  # fmt: skip
def test_sentences_are_grouped_by_length_where_batches_are_padded(one_stage, tmp_path, setting, padded, grouped):
    run = trainer.Trainer(one_stage(train={"group_by_length": setting}), tmp_path)
    run.setup()
    if padded:
        use_attention(run.model, "sdpa")
    assert run.build_stage(0).sampler.group_by_length == grouped


def test_the_recipe_chooses_the_attention(one_stage, tmp_path):
    recipe = one_stage(1).model_copy(update={"attn_implementation": "eager"})
    run = trainer.Trainer(recipe, tmp_path)
    run.setup()
    assert run.model[0].config._attn_implementation == "eager"
