"""Packing: embeddings and gradients equal the padded ones, and saved models do not contain it."""

import json
import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer import losses as st_losses
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch.nn import functional
from transformers import (
    AttentionInterface,
    AutoTokenizer,
    DebertaV2Config,
    DebertaV2Model,
    ElectraConfig,
    ElectraModel,
    MPNetConfig,
    MPNetModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from kosbert.errors import UsageError
from kosbert.model import is_packed, load, pack, supports_packing, unpack
from kosbert.model.attention import attend, make_plan, packed_attention
from kosbert.model.packing import ATTENTION_NAME, is_padded, to_device, use_attention, uses_flash_attention

LONG = "아이가 강아지와 함께 학교에 간다. " * 4


def stock_model(directory, pooling="mean") -> SentenceTransformer:
    backbone = Transformer(str(directory))
    return SentenceTransformer(modules=[backbone, Pooling(backbone.get_embedding_dimension(), pooling)], device="cpu")


def embeddings(model, texts):
    return model.eval()(model.preprocess(texts))["sentence_embedding"]


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model.train()


BATCHES = {
    "one sentence": ["비가 온다."],
    "one token": ["눈"],
    "equal lengths": ["비가 온다.", "눈이 온다.", "차가 간다."],
    "one long among short": ["눈", "비", LONG, "물", "집", "길"],
    "with empty sentences": ["", "오늘은 날씨가 좋다.", ""],
    "too long": [LONG * 9, "눈"],
}


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
@pytest.mark.parametrize("pooling", ["mean", "max", "cls", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"])
def test_embeddings_equal_the_padded_ones(family, pooling, sentences, request):
    model = stock_model(request.getfixturevalue(family), pooling)
    model.max_seq_length = 64
    for texts in [*BATCHES.values(), sentences]:
        padded = embeddings(model, texts)
        assert pack(model)
        assert "attention_mask" not in model.preprocess(texts)
        torch.testing.assert_close(embeddings(model, texts), padded, atol=1e-5, rtol=0)
        unpack(model)
        assert "attention_mask" in model.preprocess(texts)


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
@pytest.mark.parametrize("texts", BATCHES.values(), ids=BATCHES.keys())
def test_gradients_equal_the_padded_ones(family, texts, request):
    model = without_dropout(stock_model(request.getfixturevalue(family)))
    model.max_seq_length = 64

    def gradients():
        model.zero_grad()
        model(model.preprocess(texts))["sentence_embedding"].square().sum().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    expected = gradients()
    assert pack(model)
    model.train()
    packed = gradients()
    assert packed.keys() == expected.keys()
    # Relative to the largest gradient: the exact gradient of some parameters, such as a key's bias, is zero.
    largest = max(gradient.norm().item() for gradient in expected.values())
    for name, gradient in expected.items():
        assert (packed[name] - gradient).norm() <= 1e-4 * max(gradient.norm().item(), 1e-3 * largest), name


def test_roberta_positions_start_after_the_padding_index(tiny_roberta):
    model = stock_model(tiny_roberta)
    pack(model)
    features = model.preprocess(["비", "비가 온다."])
    ends = features["cu_seq_lens_q"].tolist()
    for start, end in pairwise(ends):
        assert features["position_ids"][0, start:end].tolist() == list(range(2, 2 + end - start))
    # The test can fail: positions that start at 0 change the embeddings.
    wrong = {**features, "position_ids": features["position_ids"] - 2}
    assert (model(wrong)["sentence_embedding"] - embeddings(model, ["비", "비가 온다."])).abs().max() > 1e-2


def test_model_that_packing_would_change_stays_padded(tiny_roberta, monkeypatch, caplog):
    model = stock_model(tiny_roberta)
    monkeypatch.setattr(Transformer, "_infer_flatten_position_offset", lambda self: 0)
    assert not pack(model)
    assert not is_packed(model)
    assert "stays padded" in caplog.text


def save_and_load(directory, target, model):
    AutoTokenizer.from_pretrained(str(directory)).save_pretrained(target)
    model.save_pretrained(target)
    return stock_model(target)


TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def test_electra_and_xlm_roberta_are_packed(tiny_bert, tiny_roberta, sentences, tmp_path):
    electra = ElectraModel(ElectraConfig(vocab_size=600, embedding_size=16, **TINY))
    xlm = XLMRobertaModel(XLMRobertaConfig(vocab_size=600, pad_token_id=1, type_vocab_size=1, **TINY))
    for directory, network in ((tiny_bert, electra), (tiny_roberta, xlm)):
        model = save_and_load(directory, tmp_path / network.config.model_type, network)
        padded = embeddings(model, sentences)
        assert pack(model)
        torch.testing.assert_close(embeddings(model, sentences), padded, atol=1e-5, rtol=0)


def test_relative_positions_fall_back_to_padding(tiny_bert, sentences, tmp_path):
    mpnet = MPNetModel(MPNetConfig(vocab_size=600, pad_token_id=0, **TINY))
    deberta = DebertaV2Model(DebertaV2Config(vocab_size=600, relative_attention=True, **TINY))
    for network in (mpnet, deberta):
        model = save_and_load(tiny_bert, tmp_path / network.config.model_type, network)
        assert not supports_packing(model)
        assert not pack(model)
        encoder = load(tmp_path / network.config.model_type)
        expected = model.encode(sentences)
        torch.testing.assert_close(
            torch.from_numpy(encoder.encode(sentences)), torch.from_numpy(expected), atol=1e-5, rtol=0
        )


def test_padded_batches_still_work_while_packed(tiny_bert, sentences):
    model = stock_model(tiny_bert)
    features = model.preprocess(sentences)
    expected = embeddings(model, sentences)
    pack(model)
    torch.testing.assert_close(model(features)["sentence_embedding"], expected, atol=1e-5, rtol=0)


def test_prompt_excluded_from_pooling(tiny_bert, sentences):
    backbone = Transformer(str(tiny_bert))
    model = SentenceTransformer(modules=[backbone, Pooling(32, "mean", include_prompt=False)], device="cpu")
    expected = model.encode(sentences, prompt="내일 아침 ")
    pack(model)
    assert abs(model.encode(sentences, prompt="내일 아침 ") - expected).max() < 1e-5


def test_model_in_bfloat16(tiny_bert, sentences):
    model = SentenceTransformer(str(tiny_bert), device="cpu", model_kwargs={"dtype": torch.bfloat16})
    padded = model.encode(sentences, convert_to_tensor=True)
    pack(model)
    packed = model.encode(sentences, convert_to_tensor=True)
    torch.testing.assert_close(packed.float(), padded.float(), atol=0.05, rtol=0.05)


def test_failed_packing_leaves_the_model_unchanged(tiny_bert, sentences, monkeypatch):
    model = SentenceTransformer(str(tiny_bert), device="cpu")
    before = model.encode(sentences)

    def broken(*arguments, **options):
        raise RuntimeError("no such kernel")

    with monkeypatch.context() as patched:
        patched.setitem(AttentionInterface._global_mapping, ATTENTION_NAME, broken)
        with pytest.raises(RuntimeError, match="no such kernel"):
            pack(model)
    np.testing.assert_array_equal(model.encode(sentences), before)


def test_saved_model_contains_only_stock_classes(tiny_bert, sentences, tmp_path):
    model = stock_model(tiny_bert)
    expected = model.encode(sentences)
    pack(model)
    model.save(str(tmp_path / "saved"))
    for file in (tmp_path / "saved").rglob("*.json"):
        assert "kosbert" not in file.read_text(encoding="utf-8")
    types = [module["type"] for module in json.loads((tmp_path / "saved/modules.json").read_text(encoding="utf-8"))]
    assert all(name.startswith("sentence_transformers.") for name in types)
    loaded = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert not is_packed(loaded)
    assert abs(loaded.encode(sentences) - expected).max() < 1e-5


@pytest.mark.parametrize(
    "loss_class",
    [
        st_losses.CosineSimilarityLoss,
        st_losses.CoSENTLoss,
        st_losses.MultipleNegativesRankingLoss,
        st_losses.CachedMultipleNegativesRankingLoss,
    ],
)
def test_sentence_transformers_trainer_gives_equal_weights(loss_class, tiny_bert, sentences, tmp_path):
    """Three steps with the stock trainer, collator, loss and optimizer, packed and padded."""
    rows = {"sentence1": sentences, "sentence2": sentences[::-1]}
    if loss_class in (st_losses.CosineSimilarityLoss, st_losses.CoSENTLoss):
        rows["score"] = [index / 8 for index in range(8)]
    weights = {}
    for packed in (False, True):
        model = without_dropout(stock_model(tiny_bert))
        if packed:
            assert pack(model)
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path), per_device_train_batch_size=4, max_steps=3, learning_rate=1e-3, seed=1,
            report_to="none", save_strategy="no", use_cpu=True, disable_tqdm=True, logging_strategy="no",
        )  # fmt: skip
        SentenceTransformerTrainer(
            model=model, args=arguments, train_dataset=Dataset.from_dict(rows), loss=loss_class(model)
        ).train()
        assert is_packed(model) == packed
        weights[packed] = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    start = torch.cat([parameter.detach().flatten() for parameter in stock_model(tiny_bert).parameters()])
    assert (weights[False] - start).abs().max() > 1e-3
    # Adam turns a gradient of rounding noise into a full step, so a few weights may differ.
    assert ((weights[True] - weights[False]).abs() > 1e-5).float().mean() < 0.02


def test_attention_dropout_is_applied_in_training_only(tiny_bert, sentences):
    model = stock_model(tiny_bert)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    for layer in model[0].model.encoder.layer:
        layer.attention.self.dropout.p = 0.5
    pack(model)
    features = model.preprocess(sentences)
    model.train()
    first, second = (model(dict(features))["sentence_embedding"] for _ in range(2))
    assert (first - second).abs().max() > 1e-2
    model.eval()
    first, second = (model(dict(features))["sentence_embedding"] for _ in range(2))
    assert torch.equal(first, second)


# The attention function, compared with a softmax per sequence.


def reference(query, key, value, lengths):
    parts = []
    for q, k, v in zip(query.split(lengths), key.split(lengths), value.split(lengths), strict=True):
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
        parts.append(torch.einsum("hqk,khd->qhd", functional.softmax(scores, dim=-1), v))
    return torch.cat(parts)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 70), min_size=1, max_size=24), st.integers(0, 2**16), st.booleans())
def test_attention_equals_plain_softmax_for_any_lengths(lengths, seed, ordered):
    lengths = sorted(lengths) if ordered else lengths
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(sum(lengths), 2, 4, generator=generator, requires_grad=True) for _ in range(3)]
    direction = torch.randn(sum(lengths), 2, 4, generator=generator)
    expected = reference(*tensors, lengths)
    result = attend(*tensors, make_plan(lengths), 0.0, None)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-4)
    expected_gradients = torch.autograd.grad((expected * direction).sum(), tensors)
    gradients = torch.autograd.grad((result * direction).sum(), tensors)
    for left, right in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(left, right, atol=1e-4, rtol=1e-4)


@given(st.lists(st.integers(1, 512), min_size=1, max_size=64))
def test_plan_limits_padding_and_covers_every_token(lengths):
    plan = make_plan(lengths)
    assert sum(group.sequences for group in plan.groups) == len(lengths)
    assert sum(plan.sizes) <= 2 * sum(lengths)  # neither sequences x longest nor tokens x tokens
    assert all(group.mask is None or group.mask.numel() <= 2 * sum(lengths) for group in plan.groups)
    if plan.token_to_slot is not None:
        assert torch.equal(plan.slot_to_token[plan.token_to_slot], torch.arange(sum(lengths)))


def test_runs_of_equal_length_are_not_copied():
    assert make_plan([14] * 70).slot_to_token is None
    assert make_plan([14] * 30 + [13] * 40).slot_to_token is None
    assert make_plan([14, 13, 14, 13]).slot_to_token is not None


def test_gradcheck_in_double_precision():
    lengths = [1, 3, 2, 5]
    tensors = [torch.randn(11, 2, 3, dtype=torch.double, requires_grad=True) for _ in range(3)]
    plan = make_plan(lengths)
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, plan, 0.0, None), tensors)


def test_padded_batch_uses_ordinary_attention():
    query, key, value = (torch.randn(2, 2, 5, 4) for _ in range(3))
    module = torch.nn.Module()
    module.is_causal = False
    result, _ = packed_attention(module, query, key, value, None)
    expected = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2)
    torch.testing.assert_close(result, expected)


def test_attention_on_a_cpu_is_in_float32():
    """Its backward pass is five times slower in bfloat16, which costs more than the matrix products gain."""
    generator = torch.Generator().manual_seed(3)
    inputs = [torch.randn(1, 2, 6, 4, generator=generator).bfloat16().requires_grad_() for _ in range(3)]
    boundaries = torch.tensor([0, 2, 6])
    with torch.autocast("cpu", torch.bfloat16):
        result, _ = packed_attention(torch.nn.Module(), *inputs, None, cu_seq_lens_q=boundaries)
    assert result.dtype == torch.float32
    float_inputs = [tensor.detach().float() for tensor in inputs]
    expected, _ = packed_attention(torch.nn.Module(), *float_inputs, None, cu_seq_lens_q=boundaries)
    assert torch.equal(result, expected)
    result.sum().backward()
    assert inputs[0].grad is not None


def test_gpus_are_packed_too(tiny_bert, monkeypatch):
    model = stock_model(tiny_bert)
    for device, supported in (("cuda", True), ("mps", False), ("meta", False)):
        parameter = SimpleNamespace(device=SimpleNamespace(type=device))
        monkeypatch.setattr(model[0], "parameters", lambda parameter=parameter: iter([parameter]))
        assert supports_packing(model) == supported


def test_a_gpu_groups_sequences_instead_of_many_runs():
    lengths = [70] * 3 + [80] * 3 + [90] * 3
    assert make_plan(lengths).slot_to_token is None  # three views on a CPU
    assert make_plan([70] * 3, "meta").slot_to_token is None
    plan = make_plan(lengths, "meta")
    assert [(group.sequences, group.longest) for group in plan.groups] == [(9, 90)]
    assert plan.slot_to_token.device.type == plan.groups[0].mask.device.type == "meta"


def test_the_grouped_plan_of_a_gpu_gives_the_same_attention():
    generator = torch.Generator().manual_seed(0)
    lengths = [70, 70, 80, 64]
    tokens = [torch.randn(sum(lengths), 2, 4, generator=generator) for _ in range(3)]
    runs, groups = make_plan(lengths), make_plan([lengths[0]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kosbert.model.attention._MIN_TOKENS_PER_RUN", 10**9)  # what a GPU does
        groups = make_plan(lengths)
    assert len(groups.groups) == 1 < len(runs.groups)
    torch.testing.assert_close(attend(*tokens, groups, 0.0, None), attend(*tokens, runs, 0.0, None), atol=1e-5, rtol=0)


def test_the_plan_is_made_before_the_batch_is_moved(tiny_bert, sentences, monkeypatch):
    model = stock_model(tiny_bert)
    pack(model)
    features = model.preprocess(sentences)
    monkeypatch.setattr(SentenceTransformer, "device", property(lambda self: torch.device("meta")))
    moved = to_device(model, features)
    assert moved["input_ids"].device.type == "meta"
    plan = moved["cu_seq_lens_q"]._kosbert_plan
    assert plan.sizes == make_plan(features["cu_seq_lens_q"].diff().tolist(), "meta").sizes


def test_another_attention_replaces_ours(tiny_bert, sentences):
    encoder = load(tiny_bert, device="cpu")
    expected = encoder.encode(sentences)
    model = encoder.sentence_transformer
    use_attention(model, "eager")
    assert (model[0].config._attn_implementation, is_packed(model), is_padded(model)) == ("eager", False, True)
    np.testing.assert_allclose(encoder.encode(sentences), expected, atol=1e-5)
    for name in ("flash_attention_2", "nonsense"):
        with pytest.raises(
            UsageError, match=f"^the attention {name} cannot be used here .* leave attn_implementation out$"
        ):
            use_attention(model, name)
    model[0].config._attn_implementation = "flash_attention_2"
    assert uses_flash_attention(model)  # then `encode` computes in half precision
