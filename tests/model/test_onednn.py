"""Linear layers with oneDNN: equal to torch's, and used only for inference in float32."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from transformers.activations import ACT2FN

from kosbert.model import load, onednn

pytestmark = pytest.mark.skipif(not onednn.has_onednn(), reason="this torch has no oneDNN")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """Enable oneDNN on any processor and record the shapes of its inputs."""
    shapes: list[torch.Size] = []

    def recorded(inputs, *arguments, **options):
        shapes.append(inputs.shape)
        return original(inputs, *arguments, **options)

    original = onednn.onednn_linear
    monkeypatch.setattr(onednn, "mkl_is_slow", lambda: True)
    monkeypatch.setattr(onednn, "onednn_linear", recorded)
    return shapes


@settings(deadline=None)
@given(
    shape=st.lists(st.integers(0, 9), min_size=0, max_size=2),
    width=st.integers(1, 40),
    out=st.integers(1, 40),
    bias=st.booleans(),
    transposed=st.booleans(),
    gelu=st.booleans(),
)
def test_result_equals_that_of_torch(shape, width, out, bias, transposed, gelu) -> None:
    weight = torch.randn(width, out).T if transposed else torch.randn(out, width)
    bias_vector = torch.randn(out) if bias else None
    inputs = torch.randn(*shape, width)
    with torch.inference_mode():
        result = onednn.onednn_linear(inputs, weight, bias_vector, activation="gelu" if gelu else "none")
    expected = functional.linear(inputs, weight, bias_vector)
    torch.testing.assert_close(result, functional.gelu(expected) if gelu else expected, rtol=1e-4, atol=1e-5)


def encode_with_and_without(encoder, sentences, monkeypatch) -> tuple[np.ndarray, np.ndarray]:
    monkeypatch.setattr(onednn, "mkl_is_slow", lambda: True)
    with_onednn = encoder.encode(sentences)
    monkeypatch.setattr(onednn, "mkl_is_slow", lambda: False)
    return with_onednn, encoder.encode(sentences)


def test_embeddings_are_equal(tiny_bert: Path, sentences: list[str], calls, monkeypatch) -> None:
    with_onednn, without = encode_with_and_without(load(tiny_bert), sentences, monkeypatch)
    assert calls
    np.testing.assert_allclose(with_onednn, without, atol=1e-5)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_only_exact_gelu_is_fused(tiny_bert: Path, sentences, activation, monkeypatch) -> None:
    encoder = load(tiny_bert)
    seen = []
    for layer in encoder.sentence_transformer[0].model.encoder.layer:
        layer.intermediate.intermediate_act_fn = ACT2FN[activation]
        layer.output.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].min().item()))
    layers = len(encoder.sentence_transformer[0].model.encoder.layer)
    assert len(onednn._before_gelu(encoder.sentence_transformer)) == (layers if activation == "gelu" else 0)
    with_onednn, without = encode_with_and_without(encoder, sentences, monkeypatch)
    np.testing.assert_allclose(with_onednn, without, atol=1e-5)
    assert seen
    assert min(seen) >= -0.2  # the minimum of all three activations is higher


def test_forward_hook_sees_the_result_without_gelu(tiny_bert: Path, sentences, monkeypatch) -> None:
    encoder = load(tiny_bert)
    seen = []
    dense = encoder.sentence_transformer[0].model.encoder.layer[0].intermediate.dense
    dense.register_forward_hook(lambda *arguments: seen.append(arguments[-1].sum().item()))
    with_onednn, without = encode_with_and_without(encoder, sentences[:1], monkeypatch)
    np.testing.assert_allclose(with_onednn, without, atol=1e-5)
    assert seen[0] == pytest.approx(seen[1], abs=1e-3)


def test_gradients_and_other_precisions_use_torch(calls) -> None:
    inputs, weight = torch.randn(3, 8), torch.randn(4, 8, requires_grad=True)
    with onednn.fast_linear(torch.nn.Identity(), torch.device("cpu")):
        functional.linear(inputs, weight).sum().backward()
        with torch.inference_mode():
            assert functional.linear(inputs.double(), weight.double()).dtype == torch.float64
            with torch.autocast("cpu", torch.bfloat16):
                assert functional.linear(inputs, weight).dtype == torch.bfloat16
        assert not calls
        with torch.no_grad():
            functional.linear(inputs, weight)
    assert weight.grad is not None
    assert calls == [(3, 8)]


def test_other_processors_and_devices_use_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"cpu_name": "Intel(R) Xeon(R)"})
    assert not onednn.mkl_is_slow.__wrapped__()
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"cpu_name": "AMD EPYC 9654"})
    assert onednn.mkl_is_slow.__wrapped__()
    assert not isinstance(onednn.fast_linear(torch.nn.Identity(), torch.device("cuda")), onednn._OneDnn)
