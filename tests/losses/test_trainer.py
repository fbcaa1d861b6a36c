"""Every loss trains with sentence-transformers' own trainer; its layers can be saved and restored."""

import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

from kosbert.errors import KosbertError
from kosbert.losses import LOSSES, build, load_loss_state, loss_state
from kosbert.losses.simcse import SimCSELoss

FIRST = ["비가 온다", "고양이가 잔다", "오늘 날씨가 맑다", "사람이 책을 읽는다"]
SECOND = ["오늘 비가 온다", "강아지가 잔다", "날씨가 맑다", "책을 읽는다"]
THIRD = ["눈이 온다", "고양이가 뛴다", "내일 날씨가 흐리다", "노래를 부른다"]
ROWS = {
    "labeled pairs": {"sentence1": FIRST, "sentence2": SECOND, "label": [0, 1, 2, 0]},
    "scored pairs": {"sentence1": FIRST, "sentence2": SECOND, "score": [0.9, 0.4, 0.8, 0.1]},
    "pairs": {"anchor": FIRST, "positive": SECOND},
    "triplets": {"anchor": FIRST, "positive": SECOND, "negative": THIRD},
    "sentences": {"sentence": FIRST},
    "vectors": {"sentence": FIRST, "label": torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).tolist()},
}


def trainer(tmp_path, model, loss_fn, **options):
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path),
        max_steps=2,
        per_device_train_batch_size=4,
        learning_rate=0.01,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        seed=1,
        **options,
    )
    rows = Dataset.from_dict(ROWS[loss_fn.row_type])
    return SentenceTransformerTrainer(model=model, args=arguments, train_dataset=rows, loss=loss_fn)


@pytest.mark.parametrize("wrappers", [{}, {"matryoshka": [8], "gradcache": 3}], ids=["plain", "wrapped"])
@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_trains_model_and_head(tmp_path, tiny, name, wrappers):
    options = {"teacher_dimension": 5} if name == "distillation" else {}
    loss_fn = build(name, tiny, **wrappers, **options)
    model_before = {key: value.clone() for key, value in tiny.state_dict().items() if "pooler" not in key}
    head_before = {key: value.clone() for key, value in loss_state(loss_fn).items()}
    assert bool(head_before) == (name in {"softmax", "simcse", "simcse-supervised", "distillation"})
    output = trainer(tmp_path, tiny, loss_fn).train()
    assert 0 < output.training_loss < 100
    moved = [
        key for key, value in tiny.state_dict().items() if key in model_before and (value != model_before[key]).any()
    ]
    assert len(moved) > 0.9 * len(model_before)
    for key, value in loss_state(loss_fn).items():
        assert (value != head_before[key]).any(), key


def test_evaluation_loss_with_gradcache(tmp_path, tiny):
    loss_fn = build("multiple-negatives-ranking", tiny, gradcache=2)
    metrics = trainer(tmp_path, tiny, loss_fn).evaluate(Dataset.from_dict(ROWS["pairs"]))
    assert metrics["eval_loss"] > 0


def test_the_model_card_names_the_loss_and_its_paper(tmp_path, tiny):
    trainer(tmp_path, tiny, build("multiple-negatives-ranking", tiny)).train()
    tiny.save_pretrained(str(tmp_path / "model"))
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "kosbert.losses.multiple_negatives_ranking.MultipleNegativesRankingLoss" in card
    assert "Henderson" in card


def test_loss_state_is_restored(tiny):
    loss_fn = build("softmax", tiny)
    saved = {name: value.clone() for name, value in loss_state(loss_fn).items()}
    assert sorted(saved) == ["classifier.bias", "classifier.weight"]
    restored = build("softmax", tiny)
    assert not torch.equal(restored.classifier.weight, loss_fn.classifier.weight)
    load_loss_state(restored, saved)
    assert torch.equal(restored.classifier.weight, loss_fn.classifier.weight)
    assert restored.classifier.weight.requires_grad


def test_a_checkpoint_of_another_loss_is_rejected(tiny):
    with pytest.raises(KosbertError, match="resume with the loss"):
        load_loss_state(SimCSELoss(tiny), loss_state(build("softmax", tiny)))
    with pytest.raises(KosbertError, match="resume with the loss"):
        load_loss_state(SimCSELoss(tiny), {})
