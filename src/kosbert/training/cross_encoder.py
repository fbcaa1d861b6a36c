"""Cross-encoder baseline: takes both sentences at once and returns a score, no embeddings.

Sentence-BERT's tables compare with it (Reimers and Gurevych 2019, §4.2, the rows BERT-STSb): more accurate, but too
slow for search, where it would have to score every query with every sentence. Trained and run with
sentence-transformers' CrossEncoder, so that the numbers are comparable with those of others.

    scores = train_cross_encoder("path/to/klue-bert-base", train, dev, out="runs/cross-encoder")
    score_cross_encoder("runs/cross-encoder", test)
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from sentence_transformers import CrossEncoder
from transformers.utils import logging as transformers_logging

from kosbert.data.records import ScoredPair
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation.sts import pearson, spearman
from kosbert.files import atomic_directory
from kosbert.model import best_device
from kosbert.model.directory import find_model
from kosbert.text import clean
from kosbert.training.columns import MAX_SCORE

Scores: TypeAlias = dict[str, float | None]


def train_cross_encoder(
    backbone: str | Path,
    pairs: Sequence[ScoredPair],
    dev: Sequence[ScoredPair],
    *,
    out: str | Path,
    epochs: float = 4,
    batch_size: int = 16,
    lr: float = 2e-5,
    seed: int = 0,
    device: str | None = None,
) -> Scores:
    """Train a cross-encoder, save it, and score it on dev. Nothing is selected on dev.

    Args:
        backbone: directory of a plain encoder with safetensors and a tokenizer.
        pairs: training pairs.
        dev: pairs to score at the end.
        out: a new directory for the model, with arguments, losses and scores in `kosbert.json`.
        epochs: passes over all pairs; may be a fraction.
        batch_size: pairs per step.
        lr: peak learning rate, after 10 % of the steps; then linear decay to 0 (§3.3 of the paper).
        seed: of the head, the order of the pairs and dropout.
        device: by default the fastest of the machine.
    """
    from datasets import Dataset
    from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
    from transformers import PrinterCallback, set_seed

    source, target = Path(backbone).expanduser(), Path(out).expanduser().absolute()
    if target.exists() and (target.is_file() or any(target.iterdir())):
        raise UsageError(f"{target} is not empty: give a new directory for the cross-encoder")
    if not pairs or not dev:
        raise UsageError("there are no pairs to train on or none to score: give both")
    if (source / "modules.json").is_file():
        raise UsageError(f"{source} is a sentence encoder: give the directory of a plain backbone")
    set_seed(seed)  # before the head is initialized
    model = _load(source, device, num_labels=1)
    steps = max(1, round(epochs * -(-len(pairs) // batch_size)))
    with tempfile.TemporaryDirectory() as trainer_dir:
        arguments = CrossEncoderTrainingArguments(
            output_dir=trainer_dir,
            max_steps=steps,
            per_device_train_batch_size=batch_size,
            learning_rate=lr,
            lr_scheduler_type="linear",
            warmup_steps=steps // 10,
            seed=seed,
            data_seed=seed,
            logging_steps=max(1, steps // 100),
            save_strategy="no",  # the trainer's checkpoints are pickles
            report_to="none",
            disable_tqdm=True,
            use_cpu=model.device.type == "cpu",
        )
        columns = {
            "sentence1": [clean(pair.sentence1) for pair in pairs],
            "sentence2": [clean(pair.sentence2) for pair in pairs],
            "label": [pair.score / MAX_SCORE for pair in pairs],
        }
        trainer = CrossEncoderTrainer(
            model=model, args=arguments, train_dataset=Dataset.from_dict(columns), loss=BinaryCrossEntropyLoss(model)
        )
        trainer.remove_callback(PrinterCallback)  # standard output is for results
        trainer.train()
    scores = score_cross_encoder(model, dev)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    if not np.isfinite(losses).all():
        raise KosbertError("the loss became NaN: train again with a lower lr")
    settings = {"backbone": str(backbone), "epochs": epochs, "batch_size": batch_size, "lr": lr, "seed": seed}
    card = {"kind": "cross-encoder", **settings, "pairs": len(pairs), "steps": steps, "losses": losses, "dev": scores}
    with atomic_directory(target) as directory:
        model.save_pretrained(str(directory), create_model_card=False, safe_serialization=True)
        text = json.dumps(card, ensure_ascii=False, indent=2)
        (directory / "kosbert.json").write_text(text + "\n", encoding="utf-8")
    return scores


def score_cross_encoder(
    model: CrossEncoder | str | Path, pairs: Sequence[ScoredPair], *, batch_size: int = 32, device: str | None = None
) -> Scores:
    """Return Pearson and Spearman correlation of predicted and gold scores over all pairs at once."""
    cross_encoder = _load(Path(model).expanduser(), device) if isinstance(model, str | Path) else model
    texts = [(clean(pair.sentence1), clean(pair.sentence2)) for pair in pairs]
    predicted = np.asarray(cross_encoder.predict(texts, batch_size=batch_size, show_progress_bar=False), np.float64)
    gold = np.array([pair.score for pair in pairs])
    return {"pearson": pearson(predicted, gold), "spearman": spearman(predicted, gold)}


def _load(directory: Path, device: str | None, **arguments: Any) -> CrossEncoder:
    """Load a CrossEncoder from a directory; rejects pickled weights and runs no remote code."""
    if not directory.is_dir():
        raise UsageError(f"there is no directory {directory}: give the directory of a model")
    verbosity, bars_enabled = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()  # no warning about the new head
    transformers_logging.disable_progress_bar()
    try:
        return CrossEncoder(
            str(find_model(str(directory))),
            device=device or best_device(),
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True, "dtype": torch.float32},
            **arguments,
        )
    except Exception as error:  # a damaged file can raise anything
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise KosbertError(
            f"the model in {directory} cannot be loaded ({reason}): give an encoder with safetensors and a tokenizer"
        ) from error
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars_enabled:
            transformers_logging.enable_progress_bar()
