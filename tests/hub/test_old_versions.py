"""Saved models open in sentence-transformers 5.1 with transformers 4, and give the same embeddings."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hub_repositories import SENTENCES, layouts
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

import kosbert
from kosbert.model import TorchEncoder
from kosbert.model.directory import builtin_directory
from kosbert.training import Recipe, train

OLD_VERSIONS = [
    *("sentence-transformers==5.1.2", "transformers==4.57.6", "tokenizers==0.22.2", "huggingface-hub==0.36.2"),
    "datasets==4.4.1",  # the newest that this huggingface-hub can import
]
SCRIPT = """
import json, sys
import numpy, sentence_transformers
assert sentence_transformers.__version__ == "5.1.2"
sentences = json.loads(sys.argv[1])
for name in sys.argv[2:]:
    model = sentence_transformers.SentenceTransformer(name, device="cpu")
    numpy.save(name + ".npy", model.encode(sentences))
"""


@pytest.fixture(scope="module")
def old_versions(tmp_path_factory) -> Path:
    """A directory with the old versions; torch and the rest come from this environment."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("this environment has no pip to install sentence-transformers 5.1.2 with")
    directory = tmp_path_factory.mktemp("old-versions")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "0",
         "--timeout", "10", "--no-deps", "--no-compile", "--target", str(directory), *OLD_VERSIONS],
        capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip("pip cannot install sentence-transformers 5.1.2 (is there a package index?)")
    return directory


def _train(backbone: Path, out: Path) -> Path:
    """Train two steps; check that the result opens in version 6 and has what text-embeddings-inference parses."""
    recipe = Recipe.load("sts", ["sample"], ["max_length=32", "dev=[]", "test=[]", "train.evals_per_epoch=0"])
    stage = recipe.stages[0].model_copy(update={"epochs": None, "steps": 2})
    path = train(recipe.model_copy(update={"backbone": str(backbone), "stages": [stage]}), out).path
    pooling = json.loads((path / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
    assert [key for key, value in pooling.items() if value is True] == ["pooling_mode_mean_tokens", "include_prompt"]
    assert {"pooling_mode_cls_token", "pooling_mode_lasttoken"} <= set(pooling)
    settings = json.loads((path / "sentence_bert_config.json").read_text(encoding="utf-8"))
    assert settings["max_seq_length"] == 32
    vectors = SentenceTransformer(str(path), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(vectors, kosbert.load(path).encode(SENTENCES), atol=1e-5)
    return path


@pytest.mark.slow
def test_saved_models_open_in_version_5(old_versions, tmp_path, monkeypatch):
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))
    encoders = {}
    for number, write in enumerate(layouts().values()):
        (tmp_path / f"source-{number}").mkdir()
        write(tmp_path / f"source-{number}")
        encoders[f"layout-{number}"] = kosbert.load(tmp_path / f"source-{number}")
    first = tmp_path / "source-0"
    for pooling in ("max", "cls", "first-last"):
        encoders[pooling] = kosbert.load(first, pooling=pooling)
    modules = [Transformer(str(first)), Pooling(32, ("cls", "mean")), Dense(64, 8), Normalize()]
    encoders["dense"] = TorchEncoder(SentenceTransformer(modules=modules, device="cpu"))
    expected = {}
    for name, encoder in encoders.items():
        expected[str(encoder.save(tmp_path / name))] = encoder.encode(SENTENCES)
    trained = _train(first, tmp_path / "run")
    expected[str(trained)] = kosbert.load(trained).encode(SENTENCES)
    for name in ("builtin", "builtin-base"):
        (tmp_path / name).symlink_to(builtin_directory(name))
        expected[str(tmp_path / name)] = kosbert.load(name, backend="torch").encode(SENTENCES)
    subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(SENTENCES), *expected],
        env=os.environ | {"PYTHONPATH": str(old_versions)}, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    for name, embeddings in expected.items():
        np.testing.assert_allclose(np.load(name + ".npy"), embeddings, atol=1e-5, err_msg=name)
