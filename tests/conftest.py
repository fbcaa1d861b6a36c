"""Shared fixtures: tiny models (two layers of 32 dimensions, random weights), a browser, and the `real_data` marker."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# Set before huggingface_hub is imported, which reads them once. For the same reason the fixtures import lazily.
for _variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
    os.environ[_variable] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny models are slower with more threads
settings.register_profile("kosbert", deadline=None)  # no test passes or fails by the clock
settings.load_profile("kosbert")

WORDS = [
    *("오늘", "내일", "날씨", "비", "눈", "바람", "하늘", "아침", "사람", "남자", "여자", "아이", "고양이", "강아지"),
    *("기타", "노래", "음식", "물", "커피", "학교", "집", "길", "차", "책", "영화", "나라", "대통령", "경제", "시장"),
    *("가", "이", "은", "는", "을", "를", "에", "에서", "와", "과", "의", "도", "로", "한", "온다", "좋다", "춥다"),
    *("마신다", "본다", "간다", "있다", "한다", "연주한다", "달린다", "잔다", "매우", "함께", "혼자", "그리고", "안"),
]
SENTENCES = [
    "오늘은 날씨가 매우 좋다.",
    "비가 온다.",
    "한 남자가 기타를 연주한다.",
    "아이가 강아지와 함께 학교에 간다.",
    "눈",
    "고양이는 집에서 혼자 잔다. 그리고 강아지는 길에서 아이와 함께 달린다.",
    "대통령이 경제와 시장의 내일을 본다.",
    "커피를 마신다.",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `real_data` unless KOSBERT_DATA names a directory with the data sets."""
    if os.environ.get("KOSBERT_DATA"):
        return
    for item in items:
        if item.get_closest_marker("real_data"):
            item.add_marker(pytest.mark.skip(reason="KOSBERT_DATA is not set"))


def _wordpiece_tokenizer() -> "PreTrainedTokenizerFast":
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    syllables = sorted({syllable for word in WORDS for syllable in word})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS, *(f"##{word}" for word in WORDS)]
    tokens += [*syllables, *(f"##{syllable}" for syllable in syllables)]
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=64,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip


def _bpe_tokenizer() -> "PreTrainedTokenizerFast":
    from tokenizers import ByteLevelBPETokenizer, processors
    from transformers import PreTrainedTokenizerFast

    trainer = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer.train_from_iterator([" ".join(WORDS), *SENTENCES], vocab_size=500, min_frequency=1, special_tokens=special)
    trainer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return PreTrainedTokenizerFast(
        tokenizer_object=trainer._tokenizer, model_max_length=64,
        pad_token="<pad>", unk_token="<unk>", cls_token="<s>", sep_token="</s>", mask_token="<mask>",
        bos_token="<s>", eos_token="</s>",
    )  # fmt: skip


TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
        "initializer_range": 0.2}  # fmt: skip


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """Eight Korean sentences of different lengths, in the vocabulary of the tiny models."""
    return list(SENTENCES)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a plain BERT encoder (safetensors and tokenizer, no modules.json)."""
    import torch
    from transformers import BertConfig, BertModel

    directory = tmp_path_factory.mktemp("tiny-bert")
    tokenizer = _wordpiece_tokenizer()
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **TINY)).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a plain RoBERTa encoder: its positions start at 2, so 66 of them hold 64 tokens."""
    import torch
    from transformers import RobertaConfig, RobertaModel

    directory = tmp_path_factory.mktemp("tiny-roberta")
    tokenizer = _bpe_tokenizer()
    config = RobertaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=66, type_vocab_size=1,
        pad_token_id=1, bos_token_id=0, eos_token_id=2, **TINY,
    )  # fmt: skip
    torch.manual_seed(0)
    RobertaModel(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def browser():
    """Launch the system's Chromium with playwright; skip the test if either is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not chromium:
        pytest.skip("chromium is not installed: apt-get install chromium fonts-noto-cjk")
    if sys.platform == "win32":
        pytest.skip("tested with Debian's chromium only")
    with playwright.sync_playwright() as driver:
        chromium_browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield chromium_browser
        chromium_browser.close()
