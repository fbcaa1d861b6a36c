"""Check every kind of repository that kosbert loads from the Hugging Face hub, end to end, and print a Markdown table.

    python benchmarks/backbones.py            # a minute on one core, no network

A hub on localhost serves tiny models with random weights in the file layouts of real repositories (`tests/hub`), to
the unchanged client libraries. The columns: maximum difference of the embeddings from `SentenceTransformer(NAME)`;
packed or padded batches; a few steps of the recipe nli-sts; maximum difference of the ONNX graph; minimum cosine of
int8; whether a saved model has the keys that text-embeddings-inference reads. The second table shows what is refused.
The exit code is 1 if anything fails.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "hub"))
from hub_server import HubServer

HUB = HubServer()
SCRATCH = tempfile.TemporaryDirectory()
ROOT = Path(SCRATCH.name)
# Before huggingface_hub is imported, which reads them once.
os.environ |= {"HF_ENDPOINT": HUB.url, "HF_HOME": str(ROOT / "hf"), "KOSBERT_CACHE": str(ROOT / "kosbert")}
os.environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TOKENIZERS_PARALLELISM": "false"}
for variable in ("KOSBERT_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ.pop(variable, None)

import numpy as np
from hub_repositories import SENTENCES, layouts, malicious, remote_code
from sentence_transformers import SentenceTransformer

import kosbert
from kosbert import data
from kosbert.errors import KosbertError
from kosbert.export import export
from kosbert.model import TorchEncoder, is_packed
from kosbert.model.torch_encoder import quiet_transformers
from kosbert.training import Recipe, train

KOBERT = "skt/kobert-base-v1"  # sentence-transformers reads its tokenizer wrong, so the saved model is compared
MAX_DIFFERENCE, MAX_GRAPH_DIFFERENCE, MIN_COSINE = 1e-5, 1e-4, 0.98
TEI_KEYS = {f"pooling_mode_{name}" for name in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")}


def trains(name: str, folder: Path) -> bool:
    """Return whether three steps per stage have finite losses and change the weights."""
    steps = folder / "steps.yaml"
    steps.write_text("stages: {epochs: null, steps: 3}", encoding="utf-8")
    settings = ["train.batch_size=8", "train.evals_per_epoch=0", "max_length=32", "dev=[]", "test=[]"]
    recipe = Recipe.load("nli-sts", ["sample", steps], settings).model_copy(update={"backbone": name})
    losses: list[float] = []
    result = train(recipe, folder / "run", on_progress=lambda event: losses.append(event.metrics["loss"]))
    start = kosbert.load(name, pooling=recipe.pooling)
    change = np.abs(kosbert.load(result.path).encode(SENTENCES) - start.encode(SENTENCES)).max()
    return len(losses) == 6 and bool(np.isfinite(losses).all()) and change > 1e-6


def has_tei_keys(saved: Path) -> bool:
    """Return whether the settings have the keys that text-embeddings-inference parses."""
    pooling = json.loads((saved / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
    settings = json.loads((saved / "sentence_bert_config.json").read_text(encoding="utf-8"))
    return set(pooling) >= TEI_KEYS and isinstance(settings["max_seq_length"], int)


def check(name: str, folder: Path) -> tuple[list[str], bool]:
    """Return the cells of a row, and whether all of it is as it should be."""
    encoder = kosbert.load(name)
    assert isinstance(encoder, TorchEncoder)
    embeddings = encoder.encode(SENTENCES)
    peer = str(encoder.save(folder / "peer")) if name == KOBERT else name
    with quiet_transformers():
        stock = SentenceTransformer(peer, device="cpu", model_kwargs={"dtype": "float32"}).encode(SENTENCES)
    difference = np.abs(embeddings - stock).max()
    trained, saved = trains(name, folder), has_tei_keys(encoder.save(folder / "saved"))
    unit = encoder.encode(SENTENCES, normalize_embeddings=True)
    graph = kosbert.load(export(encoder, folder / "onnx").path).encode(SENTENCES)
    pairs = data.load("sample-sts-dev")[:60]
    int8 = export(encoder, folder / "int8", int8=True, gate=("sample-sts-dev", pairs), max_drop=20)
    cosine = (kosbert.load(int8.path).encode(SENTENCES) * unit).sum(axis=1).min()
    graph_difference = np.abs(graph - unit).max()
    fine = difference < MAX_DIFFERENCE and trained and graph_difference < MAX_GRAPH_DIFFERENCE
    cells = [
        "yes", f"{difference:.0e}", "packed" if is_packed(encoder.sentence_transformer) else "padded",
        "yes" if trained else "NO", f"{graph_difference:.0e}", f"{cosine:.4f}", "yes" if saved else "NO",
    ]  # fmt: skip
    return cells, bool(fine and saved and cosine > MIN_COSINE)


def refused(name: str, write: object) -> str:
    """Return the error of loading a repository; empty if it loads."""
    folder = ROOT / "files" / name
    folder.mkdir(parents=True)
    write(folder)  # type: ignore[operator]
    HUB.add(name, folder)
    try:
        kosbert.load(name)
    except KosbertError as error:
        return str(error).replace(str(ROOT), "…")
    return ""


def main() -> None:
    with HUB, SCRATCH:
        weights = {True: "safetensors", False: "`.bin`"}
        print("| repository layout | weights | loads | difference | batches | trains | ONNX | int8 cosine | TEI keys |")
        print("|---|---|---|---|---|---|---|---|---|")
        failed = []
        for name, write in layouts().items():
            folder = ROOT / "files" / name
            folder.mkdir(parents=True)
            write(folder)
            HUB.add(name, folder)
            (ROOT / "work" / name).mkdir(parents=True)
            cells, fine = check(name, ROOT / "work" / name)
            print("|", " | ".join([name, weights[any(folder.rglob("*.safetensors"))], *cells]), "|", flush=True)
            failed += [] if fine else [name]
        print("\n| repository | result |\n|---|---|")
        marker = ROOT / "marker"
        unsafe = {"code of its own": remote_code, "malicious pickle": lambda folder: malicious(folder, marker)}
        for number, (title, write) in enumerate(unsafe.items()):
            sentence = refused(f"someone/unsafe-{number}", write)
            print(f"| {title} | {sentence} |")
            failed += [] if sentence and not marker.exists() else [title]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
