"""Models small enough to compute losses by hand, and a real BERT with two layers."""

from types import SimpleNamespace

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn
from transformers import BertConfig, BertModel, BertTokenizerFast, DataCollatorWithFlattening

WORDS = "비가 온다 눈이 날씨가 맑다 흐리다 오늘 내일 고양이가 강아지가 잔다 뛴다 사람이 책을 읽는다 노래를 부른다"


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Use one thread: on a busy machine a second one makes tiny matrices ten times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Table(nn.Module):
    """A model that looks up the embedding of a sentence in a table, by its first token."""

    def __init__(self, rows, dropout=0.0):
        super().__init__()
        self.rows = nn.Parameter(torch.tensor(rows, dtype=torch.float32))
        self.dropout = nn.Dropout(dropout)
        self.calls = []  # sentences of each call

    def get_embedding_dimension(self):
        return self.rows.shape[1]

    @property
    def device(self):
        return self.rows.device

    def forward(self, features):
        flat = "cu_seq_lens_q" in features
        ids = features["input_ids"]
        first = ids[0][features["cu_seq_lens_q"][:-1].long()] if flat else ids[:, 0]
        self.calls.append(len(first))
        return {**features, "sentence_embedding": self.dropout(self.rows[first])}

    def encode(self, texts, **options):
        return self.rows[torch.tensor([int(text) for text in texts])].detach()


def lists_to_padded(sentences):
    width = max(len(ids) for ids in sentences)
    return {
        "input_ids": torch.tensor([ids + [0] * (width - len(ids)) for ids in sentences]),
        "attention_mask": torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in sentences]),
        "modality": "text",
    }


def lists_to_flat(sentences):
    # The collator that sentence-transformers' Transformer uses to flatten.
    collator = DataCollatorWithFlattening(return_seq_idx=True, return_flash_attn_kwargs=True, return_position_ids=True)
    batch = collator([{"input_ids": ids} for ids in sentences])
    batch.pop("labels")
    return {**batch, "modality": "text"}


class FlatTransformer(Transformer):
    """A Transformer that takes flattened features without FlashAttention, by padding them."""

    def forward(self, features, **kwargs):
        if "cu_seq_lens_q" not in features:
            return super().forward(features, **kwargs)
        lengths = features["cu_seq_lens_q"].diff().tolist()
        pad = nn.utils.rnn.pad_sequence
        inputs = {
            name: pad(features[name][0].split(lengths), batch_first=True) for name in ("input_ids", "position_ids")
        }
        mask = pad([torch.ones(length) for length in lengths], batch_first=True)
        hidden = self.model(**inputs, attention_mask=mask.long()).last_hidden_state  # (sentences, width, dimension)
        return {**features, "token_embeddings": hidden[mask.bool()][None]}  # (1, tokens, dimension)


@pytest.fixture
def layouts():
    """Return both layouts of a batch, made from lists of token ids."""
    return SimpleNamespace(padded=lists_to_padded, flat=lists_to_flat)


@pytest.fixture
def table():
    return Table


@pytest.fixture
def column():
    """Return a function that makes a padded batch of one-token sentences from row numbers of the table."""
    return lambda *numbers: lists_to_padded([[number] for number in numbers])


@pytest.fixture(scope="session")
def tiny_directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()]
    (path / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    tokenizer = BertTokenizerFast(vocab=str(path / "vocab.txt"), do_lower_case=False, strip_accents=False)
    tokenizer.save_pretrained(path)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.5,  # large, so that embeddings differ
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(path)
    return path


@pytest.fixture
def tiny(tiny_directory):
    """Return a BERT with two layers and dropout 0.1, in training mode; it takes padded and flattened features."""
    modules = [FlatTransformer(str(tiny_directory)), Pooling(16, pooling_mode="mean")]
    return SentenceTransformer(modules=modules, device="cpu").train()


@pytest.fixture
def tokens(tiny):
    """Return a function that makes features of sentences in a layout."""

    def features(sentences, layout):
        ids = [tiny.tokenizer(sentence)["input_ids"] for sentence in sentences]
        return lists_to_flat(ids) if layout == "flat" else lists_to_padded(ids)

    return features


@pytest.fixture
def gradients():
    """Return a function that computes the loss and the gradient of every parameter."""

    def collect(loss_fn, features, labels=None, scale=1.0):
        loss_fn.zero_grad()
        loss = loss_fn(features, labels)
        (loss * scale).backward()
        named = loss_fn.named_parameters()
        return loss.detach(), {name: None if p.grad is None else p.grad.clone() for name, p in named}

    return collect
