"""Baselines: encoders without trained sentence embeddings, which a model has to beat. `load_any` loads them by name."""

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
from kosbert.errors import KosbertError, UsageError
from kosbert.model.encoder import SupportsEncode
from kosbert.text import clean

logger = logging.getLogger(__name__)

_PIECES = re.compile(r"[^\W_]+|[^\w\s]")  # parts of an eojeol: letters and digits, or one punctuation mark
_HANGUL_ENDING = re.compile(r"[가-힣]+$")


class CharacterTfidf:
    """Character 1- to 3-grams weighted by TF-IDF with sublinear term frequency.

    Fitted on KorSTS train it reaches a cosine Spearman of 0.6611 on KorSTS test, because similar Korean sentences share
    stems and particles.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        self._vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), sublinear_tf=True)
        self._vectorizer.fit(sentences)

    def encode(self, sentences: Sequence[str]) -> csr_matrix:
        """Return one sparse row of length 1 per sentence."""
        return csr_matrix(self._vectorizer.transform(sentences))


def random_vector(text: str, dim: int, seed: int) -> NDArray[np.float32]:
    """Return a vector of length 1 that depends only on the text and the seed, the same on every machine.

    Its signs are bits of a hash. Cosines of two texts have mean 0 and standard deviation 1 / √dim.
    """
    digest = hashlib.shake_256(f"{seed}\0{text}".encode()).digest((dim + 7) // 8)
    bits = np.unpackbits(np.frombuffer(digest, np.uint8), count=dim)
    return (bits.astype(np.float32) * 2 - 1) / np.float32(np.sqrt(dim))


class RandomSentences:
    """A random vector per sentence: equal sentences are equal, all others are unrelated."""

    def __init__(self, dim: int = 256, seed: int = 0) -> None:
        self.dim, self.seed = dim, seed

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return one row of length 1 per sentence."""
        return _stacked((random_vector(clean(text), self.dim, self.seed) for text in sentences), self.dim)


class RandomWords:
    """The average of one random vector per word: a bag of words in few dimensions."""

    def __init__(self, dim: int = 256, seed: int = 0) -> None:
        self.dim, self.seed = dim, seed

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per sentence; zeros for a sentence without words."""
        word_vectors: dict[str, NDArray[np.float32]] = {}

        def average(text: str) -> NDArray[np.float32]:
            words = clean(text).split()
            for word in words:
                if word not in word_vectors:
                    word_vectors[word] = random_vector(word, self.dim, self.seed)
            return np.mean([word_vectors[word] for word in words], axis=0) if words else np.zeros(self.dim, np.float32)

        return _stacked(map(average, sentences), self.dim)


class StaticWords:
    """The average of pretrained word vectors, read from a text file.

    Each line is a word and its numbers; the line "count dimensions" of word2vec and fastText may come first. The whole
    eojeol is looked up first, then its parts without punctuation, also in lower case, and then with ever more Hangul
    removed from the end: 학교에서 becomes 학교 if the file has no particles.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UsageError(f"there is no file {path} of word vectors: give static: and the path of a text file")
        self._index: dict[str, int] = {}
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
            if clean(word) not in self._index:  # files are sorted by frequency: keep the first
                self._index[clean(word)] = len(rows)
                rows.append(vector)
        if not rows:
            raise KosbertError(f"{path} holds no word vectors: get the file again")
        self._vectors = np.stack(rows)  # (words, dim)

    def words(self, sentence: str) -> list[str]:
        """Return the words of the file that a sentence contains."""
        words: list[str] = []
        for eojeol in clean(sentence).split():
            if eojeol in self._index:
                words.append(eojeol)
            else:
                words += [word for piece in _PIECES.findall(eojeol) if (word := self._look_up(piece))]
        return words

    def _look_up(self, piece: str) -> str:
        """Return the word of the file that matches a part of an eojeol, or an empty string."""
        # Only Hangul is removed: a prefix of 학교에서 is its stem, a prefix of `schooling` is another word.
        min_length = max(1, len(_HANGUL_ENDING.sub("", piece)))
        for end in range(len(piece), min_length - 1, -1):
            for word in (piece[:end], piece[:end].lower()):
                if word in self._index:
                    return word
        return ""

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per sentence; zeros if the file has none of its words."""

        def average(sentence: str) -> NDArray[np.float32]:
            rows = [self._index[word] for word in self.words(sentence)]
            return self._vectors[rows].mean(axis=0) if rows else np.zeros(self.dim, np.float32)

        return _stacked(map(average, sentences), self.dim)


def _stacked(rows: Iterable[NDArray[np.float32]], dim: int) -> NDArray[np.float32]:
    return np.fromiter(rows, np.dtype((np.float32, dim)))  # (n, dim), and (0, dim) for no rows


def load_baseline(kind: str, option: str, *, data_dir: Path | None = None) -> SupportsEncode:
    """Load the baseline `KIND` or `KIND:OPTION`; `load_any` documents them."""
    match kind:
        case "tfidf":
            return _fit_tfidf(option, data_dir)
        case "static":
            if not option:
                raise UsageError("static alone is no encoder: give static:FILE with a file of word vectors")
            return StaticWords(Path(option).expanduser())
    if option:
        raise UsageError(f"{kind} takes nothing after a colon: give {kind} alone")
    return RandomSentences() if kind == "random" else RandomWords()


def _fit_tfidf(reference: str, data_dir: Path | None) -> CharacterTfidf:
    if not reference:
        has_korsts = data.available(*data.resolve("korsts-train"), data_dir)
        reference = "korsts-train" if has_korsts else "sample-sts-train"
        logger.info("TF-IDF is fitted on %s", reference)
    return CharacterTfidf([text for row in data.load(reference, data_dir=data_dir) for text in data.sentences_of(row)])
