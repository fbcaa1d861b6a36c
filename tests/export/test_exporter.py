"""Exported models: same embeddings as with torch, no torch needed, int8 only behind the quality gate."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from typer.testing import CliRunner

import kosbert
from kosbert.cli.app import app
from kosbert.data.records import ScoredPair
from kosbert.errors import KosbertError, UsageError
from kosbert.export import export, exporter
from kosbert.export.quantize import quantize_rows
from kosbert.model.compress import with_pca
from kosbert.model.onnx_encoder import OnnxEncoder
from kosbert.model.torch_loading import load_torch

onnx = pytest.importorskip("onnx")


@pytest.mark.parametrize("pooling", ["mean", "max", "cls", "first-last"])
@pytest.mark.parametrize("backbone", ["tiny_bert", "tiny_roberta"])
def test_embeddings_equal_those_of_torch(backbone, pooling, sentences, request, tmp_path):
    """Includes RoBERTa, whose position ids start at 2."""
    encoder = load_torch(request.getfixturevalue(backbone), pooling=pooling)
    path = export(encoder, tmp_path / "model").path
    loaded = kosbert.load(path)
    assert isinstance(loaded, OnnxEncoder)
    np.testing.assert_allclose(
        loaded.encode(sentences), encoder.encode(sentences, normalize_embeddings=True), atol=2e-6
    )
    for budget in (1, 20, 1000):  # batches of any composition
        np.testing.assert_allclose(
            loaded.encode(sentences, token_budget=budget),
            encoder.encode(sentences, normalize_embeddings=True),
            atol=2e-6,
        )


def test_dim_truncates_the_embedding(tiny_bert, sentences, tmp_path):
    loaded = kosbert.load(export(tiny_bert, tmp_path / "model", dim=8).path)
    assert loaded.dim == 8
    expected = load_torch(tiny_bert).encode(sentences, truncate_dim=8, normalize_embeddings=True)
    np.testing.assert_allclose(loaded.encode(sentences), expected, atol=2e-6)
    with pytest.raises(UsageError, match="dim 33 is impossible; this model has 32 dimensions"):
        export(tiny_bert, tmp_path / "other", dim=33)


def test_pca_reduces_the_embedding(tiny_bert, sentences, pairs, tmp_path):
    model = load_torch(tiny_bert)
    model.save(tmp_path / "scored", {"scores": {"pairs": {"spearman": 0.9}}})
    loaded = kosbert.load(export(tmp_path / "scored", tmp_path / "pca", dim=4, pca_sentences=sentences).path)
    assert loaded.dim == 4
    assert "scores" not in loaded.card  # those of all dimensions
    expected = with_pca(model, sentences, 4).encode(sentences, normalize_embeddings=True)
    np.testing.assert_allclose(loaded.encode(sentences), expected, atol=1e-5)
    assert "scores" in kosbert.load(export(tmp_path / "scored", tmp_path / "all-dimensions").path).card


def test_pca_from_the_command_line(tiny_bert, sentences, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(sentences), encoding="utf-8")
    arguments = ["export", str(tiny_bert), "--out", str(tmp_path / "out"), "--pca", str(tmp_path / "text.txt")]
    done = CliRunner().invoke(app, [*arguments, "--dim", "3"])
    assert done.exit_code == 0, done.output
    assert kosbert.load(tmp_path / "out").dim == 3
    without_dim = CliRunner().invoke(app, [*arguments[:-3], str(tmp_path / "other"), *arguments[-2:]])
    assert "give their number with --dim" in str(without_dim.exception)


def test_export_does_not_change_the_model(tiny_bert, sentences, tmp_path):
    encoder = load_torch(tiny_bert)
    before = encoder.encode(sentences)
    export(encoder, tmp_path / "model")
    np.testing.assert_array_equal(encoder.encode(sentences), before)
    assert "packed" in repr(encoder)


def test_int8_card_has_the_result_of_the_quality_gate(tiny_bert, pairs, sentences, tmp_path):
    result = export(tiny_bert, tmp_path / "model", int8=True, gate=("pairs", pairs), max_drop=5)
    gate = result.quality_gate
    assert gate is not None
    assert gate.spearman_before == pytest.approx(1)
    assert 0.95 < gate.spearman_after < 1
    card = json.loads((result.path / "kosbert.json").read_text(encoding="utf-8"))["export"]
    assert card["int8"] is True
    assert card["quality_gate"] == {
        "dataset": "pairs",
        "spearman_before": gate.spearman_before,
        "spearman_after": gate.spearman_after,
    }
    graph = onnx.load(result.path / "model.onnx").graph
    assert "MatMulIntegerToFloat" in {node.op_type for node in graph.node}
    matrices = [tensor for tensor in graph.initializer if len(tensor.dims) == 2]
    assert all(tensor.data_type == onnx.TensorProto.INT8 or 1 in tensor.dims for tensor in matrices)
    cosines = (
        kosbert.load(result.path).encode(sentences) * load_torch(tiny_bert).encode(sentences, normalize_embeddings=True)
    ).sum(1)
    assert cosines.min() > 0.99


def test_int8_above_max_drop_is_not_written(tiny_bert, sentences, pairs, tmp_path):
    with pytest.raises(
        KosbertError, match=r"int8 costs 0\.\d\d points on pairs .* more than --max-drop 0, so nothing was"
    ):
        export(tiny_bert, tmp_path / "model", int8=True, gate=("pairs", pairs), max_drop=0)
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="name a dataset for it"):
        export(tiny_bert, tmp_path / "model", int8=True)
    constant = [ScoredPair(sentences[0], sentences[1], 3.0)] * 3
    with pytest.raises(KosbertError, match="the correlation on constant is undefined"):
        export(tiny_bert, tmp_path / "model", int8=True, gate=("constant", constant))


def test_quality_gate_does_not_count_the_loss_by_dim(tiny_bert, pairs, tmp_path):
    gate = export(tiny_bert, tmp_path / "int8", int8=True, dim=4, gate=("pairs", pairs), max_drop=100).quality_gate
    float32 = export(tiny_bert, tmp_path / "float32", dim=4, evaluate_on={"pairs": pairs})
    spearman = kosbert.load(float32.path).card["scores"]["pairs"]["spearman"]
    assert gate.spearman_before == pytest.approx(spearman, abs=1e-3)


def test_pooling_without_prompt_cannot_be_exported(tiny_bert, tmp_path):
    modules = [Transformer(str(tiny_bert)), Pooling(32, "mean", include_prompt=False)]
    model = SentenceTransformer(modules=modules, device="cpu", prompts={"query": "질문: "}, default_prompt_name="query")
    model.save(str(tmp_path / "model"))
    with pytest.raises(UsageError, match="excludes its prompt"):
        export(tmp_path / "model", tmp_path / "out")


def test_graph_that_differs_from_the_model_is_not_written(tiny_bert, tmp_path, monkeypatch):
    onnx_graph, wrong_model = exporter.onnx_graph, load_torch(tiny_bert, pooling="max").sentence_transformer
    monkeypatch.setattr(exporter, "onnx_graph", lambda model, dim: onnx_graph(wrong_model, dim))
    with pytest.raises(KosbertError, match="the embeddings of the graph differ from those of the model"):
        export(tiny_bert, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_card_has_the_scores_of_the_exported_model(tiny_bert, pairs, tmp_path):
    datasets = {"pairs": pairs}
    result = export(tiny_bert, tmp_path / "int8", int8=True, gate=("pairs", pairs), max_drop=5, evaluate_on=datasets)
    card = json.loads((result.path / "kosbert.json").read_text(encoding="utf-8"))
    assert card["scores"]["pairs"]["spearman"] == result.quality_gate.spearman_after
    torch_only = export(tiny_bert, tmp_path / "torch", format="torch", evaluate_on=datasets)
    card = json.loads((torch_only.path / "kosbert.json").read_text(encoding="utf-8"))
    assert card["scores"]["pairs"]["spearman"] == pytest.approx(1)


def test_format_both_runs_with_onnx_and_with_torch(tiny_bert, sentences, tmp_path):
    both = export(tiny_bert, tmp_path / "model", format="both")
    expected = load_torch(tiny_bert).encode(sentences)
    np.testing.assert_allclose(SentenceTransformer(str(both.path)).encode(sentences), expected, atol=5e-3)
    assert isinstance(kosbert.load(both.path), OnnxEncoder)
    with_torch = kosbert.load(both.path, backend="torch")
    assert next(with_torch.sentence_transformer.parameters()).dtype.itemsize == 4  # float16 on disk only
    np.testing.assert_allclose(with_torch.encode(sentences), expected, atol=5e-3)
    assert "OnnxEncoder" not in type(kosbert.load(both.path, pooling="max")).__name__  # the graph has a fixed pooling
    torch_only = export(tiny_bert, tmp_path / "torch", format="torch")
    assert torch_only.bytes < both.bytes
    assert not (torch_only.path / "model.onnx").exists()
    with pytest.raises(UsageError, match=r"holds no model.onnx: kosbert export it"):
        kosbert.load(torch_only.path, backend="onnx")


def test_encoding_imports_neither_torch_nor_transformers(exported):
    """Their import takes seconds."""
    code = (
        "import sys, kosbert; kosbert.load(sys.argv[1]).similarity('비가 온다', '눈이 온다');"
        "print([name for name in ('torch', 'transformers', 'sentence_transformers', 'sklearn', 'scipy', 'matplotlib',"
        "'huggingface_hub', 'datasets', 'pandas') if name in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code, exported], capture_output=True, encoding="utf-8", check=True)
    assert process.stdout.strip() == "[]"


def test_long_sentences_are_truncated_with_a_warning(exported, sentences, tiny_bert, caplog):
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


def test_damaged_graph_raises_an_error_of_one_sentence(exported, tmp_path):
    for name in ("kosbert.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((exported / name).read_bytes())
    (tmp_path / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(KosbertError, match="cannot be run .*: export it again"):
        kosbert.load(tmp_path)
    (tmp_path / "kosbert.json").unlink()
    with pytest.raises(KosbertError, match="cannot be run"):
        kosbert.load(tmp_path)


def _unknown_opset(folder):
    graph = onnx.load(folder / "model.onnx")
    graph.opset_import[0].version = 999
    onnx.save(graph, folder / "model.onnx")


def _unknown_input(folder):
    graph = onnx.load(folder / "model.onnx")
    for node in graph.graph.node:
        node.input[:] = ["pixels" if name == "input_ids" else name for name in node.input]
    next(value for value in graph.graph.input if value.name == "input_ids").name = "pixels"
    onnx.save(graph, folder / "model.onnx")


DAMAGES = {
    "till opset": _unknown_opset,
    "reads attention_mask, pixels": _unknown_input,
    "tokenizer.json": lambda folder: (folder / "tokenizer.json").unlink(),
    "No graph was found": lambda folder: (folder / "model.onnx").write_bytes(b""),
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_unsupported_graph_raises_an_error_of_one_sentence(reason, exported, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "copy")
    DAMAGES[reason](folder)
    with pytest.raises(KosbertError, match=r"cannot be run \(.*: export it again") as caught:
        kosbert.load(folder)
    assert "\n" not in str(caught.value)
    assert reason in str(caught.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=12))
@pytest.mark.parametrize("model", ["exported", "exported_int8"])
def test_embedding_does_not_depend_on_the_batch(model, texts, request):
    """True for int8 too, because each token has its own scale."""
    loaded = kosbert.load(request.getfixturevalue(model))
    embeddings = loaded.encode(texts)
    assert np.isfinite(embeddings).all()
    for text, vector in zip(texts, embeddings, strict=True):
        np.testing.assert_allclose(loaded.encode(text), vector, atol=2e-6)


@given(
    st.lists(st.lists(st.floats(-50, 50, width=32), min_size=4, max_size=4), min_size=1, max_size=6),
    st.sampled_from([63, 127]),
)
def test_quantization_error_is_at_most_half_a_step(rows, max_value):
    table = np.array(rows, np.float32)
    integers, scales = quantize_rows(table, max_value)
    assert integers.dtype == np.int8
    assert np.all(np.abs(integers * scales - table) <= scales / 2 * (1 + 1e-3))
