"""Every repository layout loads by name, and gives the embeddings of sentence-transformers."""

import numpy as np
import pytest
from hub_repositories import SENTENCES, layouts
from sentence_transformers import SentenceTransformer

import kosbert


@pytest.mark.parametrize("name", layouts())
def test_model_equals_sentence_transformers(name, hub, repository_files, tmp_path):
    hub.add(name, repository_files(name))
    encoder = kosbert.load(name)
    embeddings = encoder.encode(SENTENCES)
    assert not hub.downloads(r"training_args|optimizer|\.ot$|\.h5$|\.msgpack$")
    stock = SentenceTransformer(
        name, device="cpu", cache_folder=str(tmp_path / "stock"), model_kwargs={"dtype": "float32"}
    )
    np.testing.assert_allclose(embeddings, stock.encode(SENTENCES), atol=1e-5)
    assert encoder.max_length == stock.max_seq_length
    assert encoder.prompts == stock.prompts
