"""An exported model is the model: the same vectors, without torch, and int8 only where it is good enough."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from typer.testing import CliRunner

import kosbert
from kosbert.cli.app import app
from kosbert.data.records import ScoredPair
from kosbert.errors import KosbertError, UsageError
from kosbert.export import export, release
from kosbert.export.quantize import to_whole
from kosbert.model.compress import with_pca
from kosbert.model.onnx_encoder import OnnxEncoder
from kosbert.model.torch_loading import load_torch

onnx = pytest.importorskip("onnx")


@pytest.mark.parametrize("pooling", ["mean", "max", "cls", "first-last"])
@pytest.mark.parametrize("backbone", ["tiny_bert", "tiny_roberta"])
def test_the_vectors_are_those_of_torch(backbone, pooling, sentences, request, tmp_path):
    """RoBERTa too, whose positions begin at 2."""
    encoder = load_torch(request.getfixturevalue(backbone), pooling=pooling)
    path = export(encoder, tmp_path / "model").path
    loaded = kosbert.load(path)
    assert isinstance(loaded, OnnxEncoder)
    np.testing.assert_allclose(
        loaded.encode(sentences), encoder.encode(sentences, normalize_embeddings=True), atol=2e-6
    )
    for budget in (1, 20, 1000):  # alone and in any company
        np.testing.assert_allclose(
            loaded.encode(sentences, token_budget=budget),
            encoder.encode(sentences, normalize_embeddings=True),
            atol=2e-6,
        )


def test_only_the_first_dimensions(tiny_bert, sentences, tmp_path):
    loaded = kosbert.load(export(tiny_bert, tmp_path / "model", dim=8).path)
    assert loaded.dim == 8
    wanted = load_torch(tiny_bert).encode(sentences, truncate_dim=8, normalize_embeddings=True)
    np.testing.assert_allclose(loaded.encode(sentences), wanted, atol=2e-6)
    with pytest.raises(UsageError, match="dim 33 is impossible; this model has 32 dimensions"):
        export(tiny_bert, tmp_path / "other", dim=33)


def test_the_with_pca(tiny_bert, sentences, pairs, tmp_path):
    model = load_torch(tiny_bert)
    model.save(tmp_path / "scored", {"scores": {"pairs": {"spearman": 0.9}}})
    made = export(tmp_path / "scored", tmp_path / "axes", dim=4, axes_of=sentences)
    loaded = kosbert.load(made.path)
    assert loaded.dim == 4
    assert "scores" not in loaded.card  # those were of all dimensions
    wanted = with_pca(model, sentences, 4).encode(sentences, normalize_embeddings=True)
    np.testing.assert_allclose(loaded.encode(sentences), wanted, atol=1e-5)
    assert "scores" in kosbert.load(export(tmp_path / "scored", tmp_path / "whole").path).card


def test_the_main_axes_from_the_command_line(tiny_bert, sentences, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(sentences), encoding="utf-8")
    arguments = ["export", str(tiny_bert), "--out", str(tmp_path / "out"), "--pca", str(tmp_path / "text.txt")]
    done = CliRunner().invoke(app, [*arguments, "--dim", "3"])
    assert done.exit_code == 0, done.output
    assert kosbert.load(tmp_path / "out").dim == 3
    refused = CliRunner().invoke(app, [*arguments[:-3], str(tmp_path / "other"), *arguments[-2:]])
    assert "say how many with --dim" in str(refused.exception)


def test_the_model_that_was_exported_is_left_as_it_was(tiny_bert, sentences, tmp_path):
    encoder = load_torch(tiny_bert)
    before = encoder.encode(sentences)
    export(encoder, tmp_path / "model")
    np.testing.assert_array_equal(encoder.encode(sentences), before)
    assert "packed" in repr(encoder)


def test_int8_is_written_with_its_cost(tiny_bert, pairs, sentences, tmp_path):
    made = export(tiny_bert, tmp_path / "model", int8=True, gate=("pairs", pairs), max_drop=5)
    assert made.gate is not None
    assert made.gate.before == pytest.approx(1)
    assert 0.95 < made.gate.after < 1
    card = json.loads((made.path / "kosbert.json").read_text(encoding="utf-8"))["export"]
    assert card["int8"] is True
    assert card["gate"] == {"on": "pairs", "before": made.gate.before, "after": made.gate.after}
    kinds = {node.op_type for node in onnx.load(made.path / "model.onnx").graph.node}
    assert "MatMulIntegerToFloat" in kinds
    large = [each for each in onnx.load(made.path / "model.onnx").graph.initializer if len(each.dims) == 2]
    assert all(each.data_type == onnx.TensorProto.INT8 or 1 in each.dims for each in large)
    cosines = (
        kosbert.load(made.path).encode(sentences) * load_torch(tiny_bert).encode(sentences, normalize_embeddings=True)
    ).sum(1)
    assert cosines.min() > 0.99


def test_int8_is_refused_with_the_numbers(tiny_bert, sentences, pairs, tmp_path):
    with pytest.raises(
        KosbertError, match=r"int8 costs 0\.\d\d points on pairs .* more than --max-drop 0: nothing was"
    ):
        export(tiny_bert, tmp_path / "model", int8=True, gate=("pairs", pairs), max_drop=0)
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="name a gate set"):
        export(tiny_bert, tmp_path / "model", int8=True)
    same = [ScoredPair(sentences[0], sentences[1], 3.0)] * 3
    with pytest.raises(KosbertError, match="the correlation on same is undefined"):
        export(tiny_bert, tmp_path / "model", int8=True, gate=("same", same))


def test_the_gate_does_not_count_what_the_dimensions_cost(tiny_bert, pairs, tmp_path):
    made = export(tiny_bert, tmp_path / "model", int8=True, dim=4, gate=("pairs", pairs), max_drop=100)
    plain = export(tiny_bert, tmp_path / "plain", dim=4, report={"pairs": pairs})
    assert made.gate.before == pytest.approx(kosbert.load(plain.path).card["scores"]["pairs"]["spearman"], abs=1e-3)


def test_a_pooling_that_leaves_the_prompt_out_is_no_graph(tiny_bert, tmp_path):
    modules = [Transformer(str(tiny_bert)), Pooling(32, "mean", include_prompt=False)]
    model = SentenceTransformer(modules=modules, device="cpu", prompts={"query": "질문: "}, default_prompt_name="query")
    model.save(str(tmp_path / "model"))
    with pytest.raises(UsageError, match="leaves its prompt out"):
        export(tmp_path / "model", tmp_path / "out")


def test_a_graph_that_was_traced_wrongly_is_not_written(tiny_bert, tmp_path, monkeypatch):
    traced, other = release.onnx_graph, load_torch(tiny_bert, pooling="max").sentence_transformer
    monkeypatch.setattr(release, "onnx_graph", lambda model, dim: traced(other, dim))
    with pytest.raises(KosbertError, match="the graph gives other vectors than the model"):
        export(tiny_bert, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_card_has_the_scores_of_what_is_written(tiny_bert, pairs, tmp_path):
    report = {"pairs": pairs}
    made = export(tiny_bert, tmp_path / "int8", int8=True, gate=("pairs", pairs), max_drop=5, report=report)
    card = json.loads((made.path / "kosbert.json").read_text(encoding="utf-8"))
    assert card["scores"]["pairs"]["spearman"] == made.gate.after
    torch_only = export(tiny_bert, tmp_path / "torch", form="torch", report=report)
    card = json.loads((torch_only.path / "kosbert.json").read_text(encoding="utf-8"))
    assert card["scores"]["pairs"]["spearman"] == pytest.approx(1)


def test_one_directory_for_running_and_for_training(tiny_bert, sentences, tmp_path):
    made = export(tiny_bert, tmp_path / "model", form="both")
    wanted = load_torch(tiny_bert).encode(sentences)
    np.testing.assert_allclose(SentenceTransformer(str(made.path)).encode(sentences), wanted, atol=5e-3)
    assert isinstance(kosbert.load(made.path), OnnxEncoder)
    again = kosbert.load(made.path, backend="torch")
    assert next(again.sentence_transformer.parameters()).dtype.itemsize == 4  # half the size on disk only
    np.testing.assert_allclose(again.encode(sentences), wanted, atol=5e-3)
    assert "OnnxEncoder" not in type(kosbert.load(made.path, pooling="max")).__name__  # the graph has its own pooling
    torch_only = export(tiny_bert, tmp_path / "torch", form="torch")
    assert torch_only.bytes < made.bytes
    assert not (torch_only.path / "model.onnx").exists()
    with pytest.raises(UsageError, match=r"holds no model.onnx: kosbert export it"):
        kosbert.load(torch_only.path, backend="onnx")


def test_neither_torch_nor_transformers(exported):
    """What makes the first answer come in a second."""
    code = (
        "import sys, kosbert; kosbert.load(sys.argv[1]).similarity('비가 온다', '눈이 온다');"
        "print([name for name in ('torch', 'transformers', 'sentence_transformers', 'sklearn', 'scipy', 'matplotlib',"
        "'huggingface_hub', 'datasets', 'pandas') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code, exported], capture_output=True, encoding="utf-8", check=True)
    assert found.stdout.strip() == "[]"


def test_long_sentences_are_cut_and_counted(exported, sentences, tiny_bert, caplog):
    loaded = kosbert.load(exported)
    long = " ".join(sentences * 5)
    vector = loaded.encode(long)
    assert "1 of the sentences had more than 64 tokens" in caplog.text
    np.testing.assert_allclose(vector, load_torch(tiny_bert).encode(long, normalize_embeddings=True), atol=2e-6)
    short = kosbert.load(exported, max_length=8)
    assert short.max_length == 8
    np.testing.assert_allclose(
        short.encode(sentences),
        load_torch(tiny_bert, max_length=8).encode(sentences, normalize_embeddings=True),
        atol=2e-6,
    )
    with pytest.raises(UsageError, match="max_length 65 is impossible; this model reads 3 to 64 tokens"):
        kosbert.load(exported, max_length=65)


def test_a_damaged_graph_is_one_sentence(exported, tmp_path):
    for name in ("kosbert.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((exported / name).read_bytes())
    (tmp_path / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(KosbertError, match="cannot be run .*: export it again"):
        kosbert.load(tmp_path)
    (tmp_path / "kosbert.json").unlink()
    with pytest.raises(KosbertError, match="cannot be run"):
        kosbert.load(tmp_path)


def _of_another_opset(folder):
    graph = onnx.load(folder / "model.onnx")
    graph.opset_import[0].version = 999
    onnx.save(graph, folder / "model.onnx")


def _with_other_inputs(folder):
    graph = onnx.load(folder / "model.onnx")
    for node in graph.graph.node:
        node.input[:] = ["pixels" if name == "input_ids" else name for name in node.input]
    next(each for each in graph.graph.input if each.name == "input_ids").name = "pixels"
    onnx.save(graph, folder / "model.onnx")


DAMAGES = {
    "till opset": _of_another_opset,
    "reads attention_mask, pixels": _with_other_inputs,
    "tokenizer.json": lambda folder: (folder / "tokenizer.json").unlink(),
    "No graph was found": lambda folder: (folder / "model.onnx").write_bytes(b""),
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_a_graph_that_is_not_ours_is_one_sentence(reason, exported, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "copy")
    DAMAGES[reason](folder)
    with pytest.raises(KosbertError, match=r"cannot be run \(.*: export it again") as caught:
        kosbert.load(folder)
    assert "\n" not in str(caught.value)
    assert reason in str(caught.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(texts=some.lists(some.text(max_size=40), min_size=1, max_size=12))
@pytest.mark.parametrize("kind", ["exported", "in_int8"])
def test_any_text_is_the_same_alone_and_in_company(kind, texts, request):
    """In int8 too: each token has its own scale."""
    loaded = kosbert.load(request.getfixturevalue(kind))
    together = loaded.encode(texts)
    assert np.isfinite(together).all()
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(loaded.encode(text), vector, atol=2e-6)


@given(
    some.lists(some.lists(some.floats(-50, 50, width=32), min_size=4, max_size=4), min_size=1, max_size=6),
    some.sampled_from([63, 127]),
)
def test_a_row_loses_at_most_half_a_step(rows, largest):
    table = np.array(rows, np.float32)
    whole, scales = to_whole(table, largest)
    assert whole.dtype == np.int8
    assert np.all(np.abs(whole * scales - table) <= scales / 2 * (1 + 1e-3))
