"""Two processes over gloo, started as torchrun does, train the same model as one process."""

import json

import pytest
import torch
from safetensors.torch import load_file
from torch import distributed

from kosbert import distributed as distributed_module
from kosbert.distributed import process_group, remove_gradient_hooks
from kosbert.errors import UsageError
from kosbert.losses import build
from kosbert.model.torch_loading import best_device, load_torch
from kosbert.training import Recipe, train
from kosbert.training.trainer import Trainer

LOSSES = {"multiple-negatives-ranking": "nli", "cosine-similarity": "sts", "softmax": "nli"}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, files):
    """Return a function that writes a recipe of two stages without dropout; the first has the given loss."""
    directory = tmp_path_factory.mktemp("recipes")
    backbone = {
        "text": str(files / "text.txt"),
        "layers": 1,
        "hidden_size": 32,
        "heads": 2,
        "vocab_size": 200,
        "dropout": 0,
    }

    def write(loss_fn):
        document = {
            "name": loss_fn,
            "backbone": backbone,
            "max_length": 32,
            "train": {"batch_size": 8, "lr": 1e-3, "evals_per_epoch": 2, "warmup": 0.0, "precision": "float32"},
            "dev": str(files / "dev.tsv"),
            # All batches have an even number of rows, so that two ranks use all of them.
            "stages": [
                {
                    "name": "one",
                    "data": str(files / f"{LOSSES[loss_fn]}.tsv"),
                    "loss": loss_fn,
                    "steps": 4,
                },
                {"name": "two", "data": str(files / "sts.tsv"), "loss": "cosine-similarity", "steps": 3},
            ],
        }
        path = directory / f"{loss_fn}.yaml"
        path.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
        return path

    return write


@pytest.fixture
def train_on_two_ranks(start_process, tmp_path):
    """Return a function that calls `kosbert train` on two ranks; it returns exit codes and standard errors."""

    def run(*arguments):
        store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        stderr = [tmp_path / f"stderr-{rank}" for rank in range(2)]
        processes = [
            start_process(
                "train_as_rank.py",
                RANK=rank,
                PORT=store.port,
                ARGUMENTS=list(map(str, arguments)),
                STDERR=str(stderr[rank]),
            )
            for rank in range(2)
        ]
        for process in processes:
            process.join(100)
        return [process.exitcode for process in processes], [file.read_text("utf-8") for file in stderr]

    return run


@pytest.mark.parametrize("loss_fn", LOSSES)
def test_two_ranks_train_the_same_model_as_one(recipe, train_on_two_ranks, loss_fn, tmp_path):
    codes, stderr = train_on_two_ranks(recipe(loss_fn), "--out", tmp_path / "two", "--checkpoint-every", "0")
    assert codes == [0, 0], stderr
    assert "━" in stderr[0]
    assert "━" not in stderr[1]  # only rank 0 shows progress
    train(Recipe.load(recipe(loss_fn)), tmp_path / "one")
    first, second = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two"))
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(second[name], first[name], atol=1e-5, rtol=0)
    curves = [json.loads((tmp_path / name / "curves.json").read_text("utf-8")) for name in ("one", "two")]
    for stage in ("one", "two"):
        for single, double in zip(*(curve[stage] for curve in curves), strict=True):
            assert double == pytest.approx(single, abs=1e-4)  # the loss is also that of the whole batch
    assert sorted(name.name for name in (tmp_path / "two").iterdir()) == ["curves.json", "model", "recipe.json"]


def test_both_ranks_stop_at_a_usage_error(recipe, train_on_two_ranks, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine", encoding="utf-8")
    codes, stderr = train_on_two_ranks(recipe("cosine-similarity"), "--out", tmp_path / "taken")
    assert codes == [2, 1]
    assert stderr[0].strip().endswith("is not empty and not a run directory: choose another --out")
    assert stderr[1].strip() == "kosbert: rank 0 of this run has stopped: see its error message"


def test_a_time_budget_ends_both_ranks_at_the_same_step(recipe, train_on_two_ranks, tmp_path):
    """Each rank has its own clock. If both acted on their own, one would wait for the other forever."""
    codes, stderr = train_on_two_ranks(recipe("cosine-similarity"), "--out", tmp_path / "run", "--time-budget", "1",
                           "--set", "stages.0.steps=100000")  # fmt: skip
    assert codes == [0, 0], stderr
    curve = json.loads((tmp_path / "run" / "curves.json").read_text("utf-8"))["one"]
    assert 1 < curve[-1]["step"] < 100000
    assert (tmp_path / "run" / "model" / "modules.json").is_file()


class FakeProcessGroup:
    """Two ranks with identical tensors; counts the elements of every all-reduce."""

    ReduceOp = distributed.ReduceOp

    def __init__(self):
        self.reduced = []

    def all_reduce(self, tensor, op=distributed.ReduceOp.SUM):
        self.reduced.append(tensor.numel())
        if op == distributed.ReduceOp.SUM:
            tensor *= 2

    def is_available(self):
        return True

    is_initialized = is_available

    def get_world_size(self):
        return 2

    def get_rank(self):
        return 0

    def get_backend_config(self):
        return "cpu:gloo,cuda:gloo"

    def broadcast(self, tensor, src):
        pass

    def barrier(self):
        pass


def test_gradients_of_the_head_are_reduced_once(one_stage, tmp_path, monkeypatch):
    group = FakeProcessGroup()
    monkeypatch.setattr("kosbert.distributed.dist", group)
    steps, reduced_per_step = 3, 2  # which parameters have a gradient, then all gradients with the loss
    train(one_stage(steps, {"evals_per_epoch": 0}, data="nli", loss="softmax"), tmp_path / "run")
    assert len(group.reduced) == steps * reduced_per_step


def test_gradients_of_the_head_are_reduced_for_other_trainers(tiny_bert, monkeypatch):
    group = FakeProcessGroup()
    monkeypatch.setattr("kosbert.distributed.dist", group)
    model = load_torch(tiny_bert).sentence_transformer
    loss_fn = build("softmax", model)
    features = [model.preprocess(texts) for texts in (["비가 온다."], ["눈이 온다."])]
    loss_fn(features, torch.tensor([1])).backward()
    assert sorted(group.reduced) == [3, 3 * 3 * model.get_embedding_dimension()]  # bias and weight
    group.reduced.clear()
    remove_gradient_hooks(loss_fn)
    loss_fn(features, torch.tensor([1])).backward()
    assert group.reduced == []


@pytest.fixture
def two_gpus(monkeypatch):
    """Pretend that this machine has two GPUs, and record the order of the calls."""
    calls = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: calls.append(f"cuda:{number}"))
    monkeypatch.setattr("kosbert.distributed.dist.init_process_group", lambda backend, **_: calls.append(backend))
    monkeypatch.setattr("kosbert.distributed.dist.destroy_process_group", lambda: None)
    monkeypatch.setattr("kosbert.distributed.dist.is_initialized", lambda: False)
    monkeypatch.setenv("WORLD_SIZE", "4")
    return calls


def test_each_rank_chooses_its_gpu_before_it_loads_a_model(two_gpus, monkeypatch, one_stage, tmp_path):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(Trainer, "fit", lambda self, **_: two_gpus.append("model"))
    train(one_stage(1), tmp_path / "run")
    assert two_gpus == ["cuda:1", "cpu:gloo,cuda:nccl", "model"]
    assert best_device() == "cuda"  # which is cuda:1 after set_device


def test_more_processes_than_gpus_are_a_usage_error(two_gpus, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(UsageError, match="more processes than the 2 GPUs of this machine: start 2 per machine$"):
        process_group().__enter__()
    assert two_gpus == []


@pytest.mark.parametrize(
    ("backends", "device"),
    [("cpu:gloo,cuda:nccl", "cpu"), ("cpu:gloo,cuda:gloo", "cpu"), ("cuda:nccl", "cuda")],
)
def test_numbers_of_the_host_stay_on_the_host_if_the_group_allows_it(monkeypatch, backends, device):
    monkeypatch.setattr("kosbert.distributed.dist.get_backend_config", lambda: backends)
    assert distributed_module._device() == torch.device(device)
