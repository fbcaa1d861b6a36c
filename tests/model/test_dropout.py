"""Dropout of a backbone: set everywhere it is applied, and detected by what a forward does."""

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import nn
from transformers import (
    AutoTokenizer,
    DebertaV2Config,
    DebertaV2Model,
    ElectraConfig,
    ElectraModel,
    ModernBertConfig,
    ModernBertModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from kosbert.errors import UsageError
from kosbert.losses import build
from kosbert.model import dropout
from kosbert.model.dropout import has_dropout, set_dropout
from kosbert.model.torch_loading import load_torch

TINY = {"vocab_size": 600, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
NETWORKS = {
    "electra": lambda: ElectraModel(ElectraConfig(embedding_size=16, **TINY)),
    "deberta-v2": lambda: DebertaV2Model(DebertaV2Config(relative_attention=True, **TINY)),
    "modernbert": lambda: ModernBertModel(ModernBertConfig(**TINY, **SPECIAL)),
    "xlm-roberta": lambda: XLMRobertaModel(XLMRobertaConfig(**(TINY | {"pad_token_id": 1}))),
}


@pytest.fixture(params=["tiny_bert", "tiny_roberta", *NETWORKS])
def directory(request, tiny_bert, tmp_path):
    if request.param not in NETWORKS:
        return request.getfixturevalue(request.param)
    torch.manual_seed(0)
    AutoTokenizer.from_pretrained(str(tiny_bert)).save_pretrained(tmp_path)
    NETWORKS[request.param]().save_pretrained(tmp_path)
    return tmp_path


def vectors(model, seed):
    torch.manual_seed(seed)
    with torch.no_grad():
        return model.train()(model.preprocess(["오늘은 날씨가 매우 좋다."]))["sentence_embedding"]


def test_dropout_is_set_wherever_it_is_applied(directory, tmp_path):
    encoder = load_torch(directory, device="cpu")
    model = encoder.sentence_transformer
    set_dropout(model, 0.0)
    assert torch.equal(vectors(model, 1), vectors(model, 2))
    assert not has_dropout(model)
    with pytest.raises(UsageError, match=r"SimCSE needs a model with dropout .* set dropout: 0.1 in the recipe"):
        build("simcse", model)
    set_dropout(model, 0.1)
    assert not torch.equal(vectors(model, 1), vectors(model, 2))
    assert has_dropout(model)
    build("simcse", model)
    encoder.save(tmp_path / "saved")
    reloaded = load_torch(tmp_path / "saved", device="cpu").sentence_transformer  # as a resumed run or the next stage
    assert rates(reloaded) == rates(model)
    torch.testing.assert_close(vectors(reloaded, 1), vectors(model, 1))


def rates(model):
    numbers = [getattr(module, "attention_dropout", None) for module in model.modules()]
    return [module.p for module in model.modules() if isinstance(module, nn.Dropout)], numbers


def test_rates_that_no_forward_uses_are_not_dropout(tiny_bert, tmp_path):
    config = ElectraConfig(
        embedding_size=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=0.1, **TINY
    )
    assert config.summary_last_dropout == 0.1
    ElectraModel(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(str(tiny_bert)).save_pretrained(tmp_path)
    model = load_torch(tmp_path, device="cpu").sentence_transformer
    assert not has_dropout(model.train())
    with pytest.raises(UsageError, match="SimCSE needs a model with dropout"):
        build("simcse", model)


def test_the_mode_counts_and_the_probe_runs_once(tiny_bert, monkeypatch):
    backbone = Transformer(str(tiny_bert))
    model = SentenceTransformer(modules=[backbone, Pooling(32)], device="cpu")
    probes, probe = [], dropout._is_random
    monkeypatch.setattr(dropout, "_is_random", lambda model: probes.append(1) or probe(model))
    torch.manual_seed(3)
    state = torch.get_rng_state()
    assert not has_dropout(model.eval())
    assert has_dropout(model, current_mode=False)
    assert not any(module.training for module in model.modules())
    assert all(has_dropout(model.train()) for _ in range(5))
    assert probes == [1]
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    assert not has_dropout(model)  # the rates have changed; that of the configuration is not applied
    assert probes == [1, 1]
    assert torch.equal(torch.get_rng_state(), state)


def test_a_dropout_of_zero_is_not_probed_and_tables_are_judged_by_their_rate():
    assert not has_dropout(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0)))
    assert has_dropout(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1)))


def test_a_model_without_a_backbone_is_a_usage_error():
    with pytest.raises(UsageError, match="dropout cannot be set in a NoneType model: leave dropout out"):
        set_dropout(nn.Sequential(nn.Linear(2, 2)), 0.1)
