"""Count how often a step waits for the device, without one.

`cpu:0` plays the device: what is moved there, and everything computed from it, counts as device memory. Plain `cpu` is
the host. Reading a device tensor from Python (item, bool, tolist, a copy to the host, a shape that depends on values)
waits for all work that is queued on the device.
"""

from collections import Counter
from contextlib import contextmanager

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kosbert.model.packing import unpack
from kosbert.training import loop, trainer
from kosbert.training.loop import Callbacks, TrainerState

_WAITING = {
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.nonzero.default,
    torch.ops.aten.masked_select.default,
    torch.ops.aten.equal.default,
    torch.ops.aten.is_nonzero.default,
    torch.ops.aten.unique_dim.default,
    torch.ops.aten._unique2.default,
}


class SyncCounter(TorchDispatchMode):
    """Counts the calls that would wait for the device, by name."""

    def __init__(self, model):
        super().__init__()
        self.waits = Counter()
        self._model = model
        self.start()

    def start(self):
        """Forget everything but the weights: call this between steps."""
        self.waits.clear()
        self._kept = []  # so that no address is used twice within a step
        self._addresses = {parameter.untyped_storage().data_ptr() for parameter in self._model.parameters()}

    def is_on_device(self, value):
        return isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() in self._addresses

    def add(self, value):
        if isinstance(value, torch.Tensor):
            self._kept.append(value)
            self._addresses.add(value.untyped_storage().data_ptr())

    def discard(self, value):
        self._addresses.discard(value.untyped_storage().data_ptr())

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        leaves = tree_leaves((arguments, options))
        on_device = any(map(self.is_on_device, leaves))
        if on_device and self._waits(operation, leaves, options or {}):
            self.waits[str(operation)] += 1
        result = operation(*arguments, **(options or {}))
        for value in tree_leaves(result):
            if on_device:
                self.add(value)
            else:
                self._kept.append(value)
        return result

    def _waits(self, operation, leaves, options):
        if operation in (torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default):
            return any(isinstance(value, torch.Tensor) and value.dtype == torch.bool for value in leaves[1:])
        if operation is torch.ops.aten.repeat_interleave.Tensor:
            return options.get("output_size") is None
        return operation in _WAITING


@contextmanager
def counting_syncs(monkeypatch, model):
    """Count the waits within the block; the model and its batches are on the device."""
    counter = SyncCounter(model)
    to = torch.Tensor.to

    def moved(self, *arguments, **options):
        target = arguments[0] if arguments else options.get("device")
        if target == torch.device("cpu:0"):
            result = self if counter.is_on_device(self) else self.clone()
            counter.add(result)
        elif target == "cpu" and counter.is_on_device(self):  # as text: `tensor.device` is plain cpu everywhere here
            counter.waits["to"] += not options.get("non_blocking")
            result = self.clone()
            counter.discard(result)
        else:
            result = to(self, *arguments, **options)
        return result

    def reading(name):
        plain = getattr(torch.Tensor, name)

        def read(self, *arguments, **options):
            if counter.is_on_device(self):
                counter.waits[name] += 1
            return plain(self, *arguments, **options)

        return read

    with monkeypatch.context() as patch:
        patch.setattr(SentenceTransformer, "device", property(lambda self: torch.device("cpu:0")))
        for name in ("tolist", "numpy", "cpu"):
            patch.setattr(torch.Tensor, name, reading(name))
        patch.setattr(torch.Tensor, "to", moved)
        with counter:
            yield counter


CASES = {
    "multiple-negatives-ranking": ("nli.tsv", {}),
    "cosine-similarity": ("sts.tsv", {}),
    "cosent": ("sts.tsv", {}),
    "softmax": ("nli.tsv", {}),
    "simcse": ("text.txt", {}),
    "gradcache": ("nli.tsv", {"gradcache": 4}),
}


@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("case", CASES)
def test_a_step_does_not_wait_for_the_device(one_stage, files, tmp_path, monkeypatch, layout, case):
    """Before, a step waited 5 to 7 times (packed), 3 to 5 (padded), and 14 to 31 with GradCache.

    What remains is one wait per padded forward, inside transformers: it looks whether a mask has any padding.
    """
    rows, options = CASES[case]
    loss_fn = "multiple-negatives-ranking" if case == "gradcache" else case
    recipe = one_stage(4, {"batch_size": 8}, data=str(files / rows), loss=loss_fn, options=options)
    monkeypatch.setattr(loop, "_reads_late", lambda device: True)
    run = trainer.Trainer(recipe, tmp_path)
    run.setup()
    if layout == "padded":
        unpack(run.model)
    stage, waits, forwards = run.build_stage(0), [], [0]
    run.model[0].register_forward_pre_hook(lambda *_: forwards.append(forwards.pop() + 1))

    def next_step(*arguments):
        waits.append(counter.waits - Counter({"aten._local_scalar_dense.default": forwards[0] * (layout == "padded")}))
        counter.start()
        forwards[0] = 0

    with counting_syncs(monkeypatch, run.model) as counter:
        monkeypatch.setattr(loop, "_combine_seeds", lambda *numbers: next_step() or 1)  # called once per step
        stage.run(run.model, TrainerState(), Callbacks())
    assert [waits.total() for waits in waits[2:]] == [0, 0]  # the first step finds out whether there is dropout


def test_the_counter_counts(one_stage, files, tmp_path, monkeypatch):
    run = trainer.Trainer(one_stage(2), tmp_path)
    run.setup()
    stage = run.build_stage(0)
    monkeypatch.setattr("kosbert.model.packing.attach_plan", lambda *_: None)  # then attention reads the lengths
    with counting_syncs(monkeypatch, run.model) as counter:
        stage.run(run.model, TrainerState(), Callbacks())  # two steps and two probes for dropout
    assert counter.waits["tolist"] == 4
    assert counter.waits["aten.equal.default"] == 1  # of the two probes
