"""A real cluster of two nodes on this machine: when one node dies, the output is still complete and equal."""

import json
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import kosbert
from kosbert.errors import UsageError

pytestmark = pytest.mark.slow

ray = pytest.importorskip("ray", reason="Ray is not installed")


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    # Two CPUs per node: with one, the actor would occupy the CPU that reading needs, and the job would hang.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    second = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
    yield cluster, second
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def sentences_on_disk(tmp_path):
    texts = [
        f"{noun} {verb} {number}" for number in range(400) for noun in ("비가", "눈이") for verb in ("온다", "좋다")
    ]
    texts[7] = None
    directory = tmp_path / "in"
    directory.mkdir()
    for start in range(0, len(texts), 100):
        names = [f"n{n}" for n in range(start, start + 100)]
        parquet.write_table(
            pyarrow.table({"id": names, "문장": texts[start : start + 100]}), directory / f"{start:05d}.parquet"
        )
    return directory, texts


def test_output_is_complete_after_a_node_dies(cluster, sentences_on_disk, model, tmp_path):
    from kosbert.bulk.ray_encode import encode_on_ray

    nodes, second = cluster
    directory, texts = sentences_on_disk
    written = tmp_path / "out"

    def kill():
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not list(written.glob("*.parquet")):
            time.sleep(0.05)
        nodes.remove_node(second, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    rows = encode_on_ray(str(directory), str(written), model=str(model), text_column="문장", blocks=16, workers=2)
    killer.join()
    assert rows == len(texts)
    table = parquet.read_table(written)
    vectors = dict(zip(table["id"].to_pylist(), table["vector"].to_pylist(), strict=True))
    assert len(vectors) == len(texts)
    assert vectors.pop("n7") is None
    expected = kosbert.load(model).encode([text for text in texts if text], normalize_embeddings=True)
    names = [f"n{n}" for n, text in enumerate(texts) if text]
    np.testing.assert_allclose(np.array([vectors[name] for name in names]), expected, atol=1e-5)


def test_command_uses_a_running_cluster(cluster, sentences_on_disk, model, tmp_path):
    directory, texts = sentences_on_disk
    code = "from kosbert.cli import main; main()"
    line = [sys.executable, "-c", code, "encode", str(directory), "--out", str(tmp_path / "out"), "--model", str(model)]
    line += ["--text-column", "문장", "--engine", "ray", "--address", cluster[0].address, "--workers", "1", "--json"]
    done = subprocess.run(line, capture_output=True, encoding="utf-8", check=True)
    assert json.loads(done.stdout) == {"out": str(tmp_path / "out"), "rows": len(texts)}
    assert parquet.read_table(tmp_path / "out").num_rows == len(texts)


def test_wrong_column_is_a_usage_error(cluster, sentences_on_disk, model, tmp_path):
    from kosbert.bulk.ray_encode import encode_on_ray

    with pytest.raises(UsageError, match="has no column 'text': name one of id, 문장"):
        encode_on_ray(str(sentences_on_disk[0]), str(tmp_path / "out"), model=str(model))


def test_output_directory_that_is_not_empty_is_refused(sentences_on_disk, model):
    from kosbert.bulk.ray_encode import encode_on_ray

    with pytest.raises(UsageError, match="is not empty, and rows would be written twice"):
        encode_on_ray(str(sentences_on_disk[0]), str(sentences_on_disk[0]), model=str(model))
