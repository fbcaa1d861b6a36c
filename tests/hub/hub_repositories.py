"""Tiny models in the file layouts of the repositories that Korean engineers load: two layers, random weights.

    layouts() -> {"klue/roberta-base": function that writes the files into a directory, …}

What matters is what the real repositories have and lack: the weights as safetensors or only as pickle, in the old or
the new format of torch, whole or in shards; the tokenizer as tokenizer.json, only vocab.txt or only a sentencepiece
model; the settings of sentence-transformers in the layout of several versions.
"""

import json
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DebertaV2Config,
    DebertaV2Model,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraForPreTraining,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from kosbert import data

Writer = Callable[[Path], None]
HIDDEN = 32
POSITIONS = 64
SIZES = {"hidden_size": HIDDEN, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
         "initializer_range": 0.2}  # fmt: skip
BERT_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
KLUE_TOKENS = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
OLD, NEW = "sentence_transformers.models.", "sentence_transformers.sentence_transformer.modules."
SENTENCES = [
    "오늘은 날씨가 매우 좋다.",
    "비가 온다.",
    "한 남자가 기타를 연주한다.",
    "아이가 강아지와 함께 학교에 간다. 그리고 고양이는 집에서 혼자 잔다.",
    "대통령이 경제와 시장의 내일을 본다.",
]


@cache
def _vocabulary() -> tuple[str, ...]:
    """Return the characters of the sample set and of the test sentences."""
    rows = data.load("sample-sts-train")
    texts = [*SENTENCES, *(text for row in rows for text in data.sentences_of(row))]
    return tuple(sorted({character for text in texts for character in text if not character.isspace()}))


def _write_json(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, ensure_ascii=False, indent=2), encoding="utf-8")


def _wordpiece(directory: Path, special: list[str], *, fast: bool, **settings: Any) -> int:
    """Write the files of a BertTokenizer, and tokenizer.json if `fast`; return the size of the vocabulary."""
    tokens = [*special, *_vocabulary(), *(f"##{character}" for character in _vocabulary())]
    (directory / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    _write_json(directory / "tokenizer_config.json", {"do_lower_case": False, "model_max_length": POSITIONS} | settings)
    _write_json(
        directory / "special_tokens_map.json",
        {
            "cls_token": "[CLS]",
            "mask_token": "[MASK]",
            "pad_token": "[PAD]",
            "sep_token": "[SEP]",
            "unk_token": "[UNK]",
        },
    )
    if fast:
        tokenizer = Tokenizer(models.WordPiece({token: n for n, token in enumerate(tokens)}, unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        numbers = {token: tokens.index(token) for token in ("[CLS]", "[SEP]")}
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", numbers["[SEP]"]), ("[CLS]", numbers["[CLS]"]))
        tokenizer.add_special_tokens(special)
        tokenizer.save(str(directory / "tokenizer.json"))
    return len(tokens)


def _unigram(directory: Path, *, fast: bool) -> int:
    """Write the files of an XLMRobertaTokenizer with tokenizer.json; return the size of the vocabulary."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [(token, 0.0) for token in special]
    pieces += [("▁", -2.0), *((character, -3.0) for character in _vocabulary()), ("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens([*special, "<mask>"])
    if fast:
        tokenizer.save(str(directory / "tokenizer.json"))
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>",
             "unk_token": "<unk>", "mask_token": "<mask>"}  # fmt: skip
    _write_json(
        directory / "tokenizer_config.json",
        {**names, "tokenizer_class": "XLMRobertaTokenizer", "model_max_length": POSITIONS},
    )
    _write_json(directory / "special_tokens_map.json", names)
    return len(pieces)


def _sentencepiece_model(path: Path) -> int:
    """Write a sentencepiece model (protobuf) with KoBERT's special tokens; return its size."""
    pieces = [("[UNK]", 0.0, 2), ("[PAD]", 0.0, 3), ("[CLS]", 0.0, 3), ("[SEP]", 0.0, 3), ("[MASK]", 0.0, 3)]
    pieces += [("▁", -2.0, 1), *((character, -3.0, 1) for character in _vocabulary() if character not in "[]")]

    def delimited(number: int, content: bytes) -> bytes:  # a protobuf field with a length
        return bytes([number << 3 | 2]) + _varint(len(content)) + content

    model = b"".join(
        delimited(1, delimited(1, piece.encode()) + b"\x15" + struct.pack("<f", score) + bytes([3 << 3, kind]))
        for piece, score, kind in pieces
    )
    model += delimited(2, bytes([3 << 3, 1]))  # trainer_spec: model_type UNIGRAM
    path.write_bytes(model)
    return len(pieces)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _weights(model: PreTrainedModel) -> "OrderedDict[str, torch.Tensor]":
    return OrderedDict((name, tensor.detach().clone()) for name, tensor in model.state_dict().items())


def _save(directory: Path, model: PreTrainedModel, *, pickled: bool, **config: Any) -> None:
    """Write config.json, and the weights as safetensors or only as pytorch_model.bin."""
    document = model.config.to_dict() | {"architectures": [type(model).__name__]} | config
    if pickled:
        # The state dict itself: the decoder of the language model shares its memory with the embeddings.
        torch.save(model.state_dict(), directory / "pytorch_model.bin")
    else:
        model.save_pretrained(directory)
        (directory / "generation_config.json").unlink(missing_ok=True)
    for key in ("dtype", "transformers_version", "_name_or_path"):
        document.pop(key, None)
    _write_json(directory / "config.json", document)
    (directory / "README.md").write_text("# A tiny model\n", encoding="utf-8")


def _bert(directory: Path, special: list[str] = BERT_TOKENS, *, pickled: bool, fast: bool = True) -> None:
    size = _wordpiece(directory, special, fast=fast, tokenizer_class="BertTokenizer")
    torch.manual_seed(0)
    config = BertConfig(vocab_size=size, max_position_embeddings=POSITIONS, pad_token_id=0, **SIZES)
    _save(directory, BertForMaskedLM(config), pickled=pickled)


def klue_roberta(directory: Path, *, pickled: bool = False, masked_lm: bool = True) -> None:
    """RoBERTa with a BertTokenizer; its special tokens have the ids of RoBERTa's."""
    size = _wordpiece(directory, KLUE_TOKENS, fast=True, tokenizer_class="BertTokenizer")
    torch.manual_seed(1)
    config = RobertaConfig(
        vocab_size=size, max_position_embeddings=POSITIONS + 2, type_vocab_size=1, layer_norm_eps=1e-5,
        pad_token_id=1, bos_token_id=0, eos_token_id=2, **SIZES,
    )  # fmt: skip
    model = RobertaForMaskedLM(config) if masked_lm else RobertaModel(config)
    _save(directory, model, pickled=pickled, tokenizer_class="BertTokenizer")


def klue_bert(directory: Path) -> None:
    """BERT with safetensors and tokenizer.json, and the other formats beside them."""
    _bert(directory, pickled=False)
    for unwanted in ("rust_model.ot", "tf_model.h5", "flax_model.msgpack", "training_args.bin", "optimizer.bin"):
        (directory / unwanted).write_bytes(b"not needed")


def koelectra(directory: Path) -> None:
    """ELECTRA discriminator: only pytorch_model.bin, only vocab.txt."""
    size = _wordpiece(directory, BERT_TOKENS, fast=False)
    torch.manual_seed(2)
    config = ElectraConfig(vocab_size=size, embedding_size=HIDDEN, max_position_embeddings=POSITIONS, **SIZES)
    _save(directory, ElectraForPreTraining(config), pickled=True)
    for unwanted in ("training_args.bin", "optimizer.bin", "pytorch_model.fp16.bin", "tf_model.h5"):
        (directory / unwanted).write_bytes(b"not needed")


def kf_deberta(directory: Path) -> None:
    """DeBERTa-v2 with a BertTokenizer: only pytorch_model.bin, only vocab.txt."""
    size = _wordpiece(directory, BERT_TOKENS, fast=False, tokenizer_class="BertTokenizer")
    torch.manual_seed(3)
    config = DebertaV2Config(
        vocab_size=size, max_position_embeddings=POSITIONS, relative_attention=True, position_buckets=16,
        pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm", share_att_key=True, position_biased_input=False,
        type_vocab_size=0, max_relative_positions=-1, **SIZES,
    )  # fmt: skip
    _save(directory, DebertaV2Model(config), pickled=True)


def kobert(directory: Path) -> None:
    """BERT with a sentencepiece model of XLNet's tokenizer, and no tokenizer.json."""
    size = _sentencepiece_model(directory / "spiece.model")
    names = {"bos_token": "[CLS]", "eos_token": "[SEP]", "unk_token": "[UNK]", "sep_token": "[SEP]",
             "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}  # fmt: skip
    settings = {
        "do_lower_case": False,
        "remove_space": True,
        "keep_accents": False,
        "tokenizer_class": "XLNetTokenizer",
    }
    _write_json(directory / "tokenizer_config.json", {**names, **settings})
    _write_json(directory / "special_tokens_map.json", names)
    torch.manual_seed(4)
    config = BertConfig(vocab_size=size, max_position_embeddings=POSITIONS, pad_token_id=1, **SIZES)
    _save(directory, BertForMaskedLM(config), pickled=True)


def modernbert(directory: Path) -> None:
    """ModernBERT: no token_type_ids, local and global attention."""
    size = _wordpiece(
        directory, BERT_TOKENS, fast=True, tokenizer_class="PreTrainedTokenizerFast",
        model_input_names=["input_ids", "attention_mask"],
        **{f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")},
    )  # fmt: skip
    (directory / "vocab.txt").unlink()
    torch.manual_seed(5)
    config = ModernBertConfig(
        vocab_size=size, max_position_embeddings=POSITIONS, pad_token_id=0, cls_token_id=2, sep_token_id=3,
        bos_token_id=2, eos_token_id=3, local_attention=8, global_attn_every_n_layers=2,
        **{key: value for key, value in SIZES.items() if key != "initializer_range"},
    )  # fmt: skip
    _save(directory, ModernBertModel(config), pickled=False)


def _modules(directory: Path, *types: str) -> None:
    """Write modules.json; the first module is in the directory itself."""
    _write_json(
        directory / "modules.json",
        [
            {"idx": n, "name": str(n), "path": f"{n}_{kind.rpartition('.')[2]}" if n else "", "type": kind}
            for n, kind in enumerate(types)
        ],
    )


def _old_pooling(directory: Path, mode: str = "mean_tokens", *, size: int = HIDDEN) -> None:
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    _write_json(
        directory / "1_Pooling" / "config.json",
        {"word_embedding_dimension": size} | {f"pooling_mode_{name}": name == mode for name in modes},
    )


def e5(directory: Path) -> None:
    """XLM-R with prompts and Normalize, as multilingual-e5."""
    size = _unigram(directory, fast=True)
    torch.manual_seed(6)
    config = XLMRobertaConfig(
        vocab_size=size, max_position_embeddings=POSITIONS + 2, type_vocab_size=1, pad_token_id=1, **SIZES
    )
    _save(directory, XLMRobertaModel(config), pickled=False)
    _modules(directory, OLD + "Transformer", OLD + "Pooling", OLD + "Normalize")
    _old_pooling(directory)
    _write_json(directory / "sentence_bert_config.json", {"max_seq_length": POSITIONS, "do_lower_case": False})
    _write_json(
        directory / "config_sentence_transformers.json",
        {"__version__": {"sentence_transformers": "3.0.0"}, "prompts": {"query": "질문: ", "passage": "본문: "},
         "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )  # fmt: skip


def old_sentence_transformer(directory: Path, *, pickled: bool) -> None:
    """KLUE-RoBERTa fine-tuned with sentence-transformers 2: old pooling keys, no prompts."""
    klue_roberta(directory, pickled=pickled, masked_lm=False)
    _modules(directory, OLD + "Transformer", OLD + "Pooling")
    _old_pooling(directory)
    _write_json(directory / "sentence_bert_config.json", {"max_seq_length": 48, "do_lower_case": False})
    _write_json(
        directory / "config_sentence_transformers.json",
        {"__version__": {"sentence_transformers": "2.0.0", "transformers": "4.8.2", "pytorch": "1.9.0+cu102"}},
    )


def kr_sbert(directory: Path) -> None:
    """BERT fine-tuned with sentence-transformers 2: only pytorch_model.bin, vocab.txt and CLS pooling."""
    _bert(directory, pickled=True, fast=False)
    _modules(directory, OLD + "Transformer", OLD + "Pooling")
    _old_pooling(directory, "cls_token")
    _write_json(directory / "sentence_bert_config.json", {"max_seq_length": 50, "do_lower_case": False})


def new_sentence_transformer(directory: Path) -> None:
    """The layout that sentence-transformers 6 writes: pooling_mode, no max_seq_length."""
    _bert(directory, pickled=False)
    _modules(directory, "sentence_transformers.base.modules.transformer.Transformer", NEW + "pooling.Pooling")
    _write_json(
        directory / "1_Pooling" / "config.json",
        {"embedding_dimension": HIDDEN, "pooling_mode": "max", "include_prompt": True},
    )
    text = {"method": "forward", "method_output_name": "last_hidden_state"}
    _write_json(
        directory / "sentence_bert_config.json",
        {"transformer_task": "feature-extraction", "modality_config": {"text": text},
         "module_output_name": "token_embeddings"},
    )  # fmt: skip
    _write_json(
        directory / "config_sentence_transformers.json",
        {"__version__": {"sentence_transformers": "6.2.0"}, "model_type": "SentenceTransformer",
         "prompts": {"query": "", "document": ""}, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )  # fmt: skip


def distiluse(directory: Path) -> None:
    """DistilBERT in 0_Transformer and a projection: two folders with pytorch_model.bin."""
    backbone = directory / "0_Transformer"
    backbone.mkdir()
    size = _wordpiece(backbone, BERT_TOKENS, fast=False, tokenizer_class="DistilBertTokenizer")
    torch.manual_seed(7)
    config = DistilBertConfig(
        vocab_size=size, dim=HIDDEN, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=POSITIONS,
        initializer_range=0.2,
    )  # fmt: skip
    _save(backbone, DistilBertModel(config), pickled=True)
    _write_json(backbone / "sentence_bert_config.json", {"max_seq_length": 40})
    _modules(directory, OLD + "Transformer", OLD + "Pooling", OLD + "Dense")
    modules = json.loads((directory / "modules.json").read_text(encoding="utf-8"))
    modules[0]["path"] = "0_Transformer"
    _write_json(directory / "modules.json", modules)
    _old_pooling(directory)
    _write_json(
        directory / "2_Dense" / "config.json",
        {"in_features": HIDDEN, "out_features": 16, "bias": True,
         "activation_function": "torch.nn.modules.activation.Tanh"},
    )  # fmt: skip
    dense = torch.nn.Linear(HIDDEN, 16)
    torch.save(
        OrderedDict({"linear.weight": dense.weight.detach(), "linear.bias": dense.bias.detach()}),
        directory / "2_Dense" / "pytorch_model.bin",
    )


def sharded(directory: Path) -> None:
    """BERT in two shards with pytorch_model.bin.index.json."""
    _bert(directory, pickled=True)
    weights = torch.load(directory / "pytorch_model.bin", weights_only=True)
    (directory / "pytorch_model.bin").unlink()
    names = list(weights)
    weight_map = {}
    for number, part in enumerate((names[: len(names) // 2], names[len(names) // 2 :]), 1):
        file = f"pytorch_model-{number:05}-of-00002.bin"
        torch.save({name: weights[name].clone() for name in part}, directory / file)
        weight_map |= dict.fromkeys(part, file)
    size = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    _write_json(
        directory / "pytorch_model.bin.index.json", {"metadata": {"total_size": size}, "weight_map": weight_map}
    )


def legacy(directory: Path) -> None:
    """BERT as torch 1.5 and TensorFlow's conversion wrote it: no zip file, LayerNorm.gamma and beta, fp16."""
    _bert(directory, pickled=True)
    weights = torch.load(directory / "pytorch_model.bin", weights_only=True)
    old_names = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor.half()
        for name, tensor in weights.items()
    }
    torch.save(OrderedDict(old_names), directory / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def remote_code(directory: Path) -> None:
    """A model type of its own, with code in the repository."""
    _bert(directory, pickled=False)
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    config |= {"model_type": "own-bert", "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}}
    _write_json(directory / "config.json", config)
    (directory / "own.py").write_text("raise SystemExit('code of the repository ran')\n", encoding="utf-8")


class _Evil:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def malicious(directory: Path, marker: Path) -> None:
    """A pytorch_model.bin that creates the file `marker` if it is unpickled by Python."""
    _bert(directory, pickled=True)
    (directory / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": _Evil(marker)}))


def layouts() -> dict[str, Writer]:
    """Return all layouts that must load, by repository name."""
    return {
        "klue/roberta-base": klue_roberta,
        "klue/bert-base": klue_bert,
        "monologg/koelectra-base-v3-discriminator": koelectra,
        "kakaobank/kf-deberta-base": kf_deberta,
        "skt/kobert-base-v1": kobert,
        "intfloat/multilingual-e5-small": e5,
        "skt/A.X-Encoder-base": modernbert,
        "jhgan/ko-sroberta-multitask": lambda directory: old_sentence_transformer(directory, pickled=False),
        "jhgan/ko-sroberta-multitask-2021": lambda directory: old_sentence_transformer(directory, pickled=True),
        "snunlp/KR-SBERT-V40K-klueNLI-augSTS": kr_sbert,
        "sentence-transformers/layout-of-version-6": new_sentence_transformer,
        "sentence-transformers/distiluse-base-multilingual-cased-v2": distiluse,
        "someone/bert-in-shards": sharded,
        "someone/bert-in-the-format-of-2020": legacy,
    }
