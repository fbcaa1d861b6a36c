"""The cross-encoder learns, is saved without pickle, and is scored over all pairs at once."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sentence_transformers import CrossEncoder

from kosbert.data.records import ScoredPair
from kosbert.errors import KosbertError, UsageError
from kosbert.training.cross_encoder import score_cross_encoder, train_cross_encoder


@pytest.fixture(scope="module")
def pairs(sentences: list[str]) -> list[ScoredPair]:
    """Return easy pairs: 5 if both sentences are from the first half, 0 if both from the second, else 2.5."""
    half = len(sentences) // 2
    rows = [(a, b) for a in range(len(sentences)) for b in (a - 1, a - 3)]
    rows.sort(key=lambda row: (row[0] >= half) + (row[1] % len(sentences) >= half))
    return [ScoredPair(sentences[a], sentences[b], 2.5 * ((a < half) + (b % len(sentences) < half))) for a, b in rows]


@pytest.fixture(scope="module")
def trained(tiny_bert: Path, pairs: list[ScoredPair], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "cross-encoder"
    scores = train_cross_encoder(tiny_bert, pairs, pairs, out=out, epochs=25, batch_size=8, lr=2e-3, seed=3)
    assert scores == json.loads((out / "kosbert.json").read_text(encoding="utf-8"))["dev"]
    return out


def test_training_lowers_the_loss(trained: Path) -> None:
    card = json.loads((trained / "kosbert.json").read_text(encoding="utf-8"))
    assert card["steps"] == len(card["losses"]) == 50
    assert np.mean(card["losses"][-5:]) < 0.8 * np.mean(card["losses"][:5])
    assert card["dev"]["spearman"] > 0.8


def test_the_model_is_saved_without_pickle_and_without_leftovers(trained: Path) -> None:
    assert (trained / "model.safetensors").is_file()
    assert not [file for file in trained.rglob("*") if file.suffix in (".bin", ".pt", ".pth", ".ckpt")]
    assert list(trained.parent.iterdir()) == [trained]


def test_the_score_is_computed_over_all_pairs_at_once(trained: Path, pairs: list[ScoredPair]) -> None:
    """The pairs are sorted by score, so a mean over batches of four would be a different number."""
    predicted = CrossEncoder(str(trained), device="cpu").predict([(pair.sentence1, pair.sentence2) for pair in pairs])
    gold = [pair.score for pair in pairs]
    scores = score_cross_encoder(trained, pairs, batch_size=4, device="cpu")
    assert scores["pearson"] == pytest.approx(pearsonr(predicted, gold).statistic, abs=1e-5)
    assert scores["spearman"] == pytest.approx(spearmanr(predicted, gold).statistic, abs=1e-5)
    card = json.loads((trained / "kosbert.json").read_text(encoding="utf-8"))
    assert scores["spearman"] == pytest.approx(card["dev"]["spearman"], abs=1e-3)


def test_losses_depend_on_the_seed(tiny_bert: Path, pairs: list[ScoredPair], tmp_path: Path) -> None:
    losses = []
    for number, seed in enumerate((7, 7, 8)):
        out = tmp_path / str(number)
        train_cross_encoder(tiny_bert, pairs, pairs, out=out, epochs=1, batch_size=8, seed=seed, device="cpu")
        losses.append(json.loads((out / "kosbert.json").read_text(encoding="utf-8"))["losses"])
    assert losses[0] == losses[1] != losses[2]


def test_wrong_arguments_are_usage_errors(
    tiny_bert: Path, trained: Path, pairs: list[ScoredPair], tmp_path: Path
) -> None:
    for backbone, rows, out, message in (
        (tiny_bert, pairs, trained, "is not empty: give"),
        (tiny_bert, [], tmp_path / "new", "no pairs"),
        (tmp_path / "nowhere", pairs, tmp_path / "new", "there is no directory"),
    ):
        with pytest.raises(UsageError, match=message):
            train_cross_encoder(backbone, rows, pairs, out=out)
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny_bert, encoder)
    (encoder / "modules.json").write_text("[]", encoding="utf-8")
    with pytest.raises(UsageError, match="is a sentence encoder"):
        train_cross_encoder(encoder, pairs, pairs, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_pickled_weights_are_rejected(tiny_bert: Path, pairs: list[ScoredPair], tmp_path: Path) -> None:
    pickled = tmp_path / "pickled"
    shutil.copytree(tiny_bert, pickled)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(KosbertError, match="cannot be loaded"):
        train_cross_encoder(pickled, pairs, pairs, out=tmp_path / "new")
