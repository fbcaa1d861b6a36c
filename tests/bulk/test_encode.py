"""Bulk encoding: every sentence once and in order, after crashes too."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import kosbert
from kosbert.bulk import encode_file, read_shards
from kosbert.errors import KosbertError, UsageError
from kosbert.model.torch_loading import load_torch

NOUNS = ("비가", "눈이", "바람이", "아이가", "고양이가", "강아지가")
VERBS = ("온다", "좋다", "간다", "본다", "잔다")


@pytest.fixture
def file(tmp_path):
    """1,000 lines, of which some are empty and many repeat."""
    draw = random.Random(1)
    lines = [f"{draw.choice(NOUNS)} {draw.choice(VERBS)} {draw.randint(0, 30)}" for _ in range(1000)]
    for index in (0, 10, 11, 999):
        lines[index] = " "
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read_all(directory):
    parts = list(read_shards(directory))
    return [id for ids, _ in parts for id in ids], np.concatenate([vectors for _, vectors in parts])


@pytest.mark.parametrize("format", ["parquet", "npy"])
def test_vectors_equal_those_of_encode(format, file, model, tmp_path):
    summary = encode_file(file, tmp_path / "out", model=model, format=format, shard_size=300)
    assert (summary.rows, summary.rejects, summary.shards) == (996, 4, 4)
    lines = file.read_text(encoding="utf-8").splitlines()
    ids, vectors = read_all(summary.path)
    assert ids == [str(n) for n, line in enumerate(lines, 1) if line.strip()]
    expected = kosbert.load(model).encode([line for line in lines if line.strip()], normalize_embeddings=True)
    np.testing.assert_allclose(vectors, expected, atol=2e-6)
    assert vectors.dtype == np.float32
    rejects = [json.loads(line) for line in (summary.path / "rejects.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(reject["line"], reject["reason"]) for reject in rejects] == [(n, "empty") for n in (1, 11, 12, 1000)]
    assert summary.cache_hits == 996 - len({line for line in lines if line.strip()})


def test_truncated_float16_vectors_with_text(file, model, tmp_path):
    from pyarrow import parquet

    summary = encode_file(file, tmp_path / "out", model=model, precision="float16", truncate_dim=8, keep_text=True)
    table = parquet.read_table(summary.path / "00000.parquet")
    assert table["text"].to_pylist()[0] == file.read_text(encoding="utf-8").splitlines()[1]
    _, vectors = read_all(summary.path)
    assert vectors.shape == (996, 8)
    assert vectors.dtype == np.float16
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float32), axis=1), 1, atol=1e-3)


def test_finished_job_is_not_repeated(file, model, tmp_path):
    encode_file(file, tmp_path / "out", model=model, shard_size=400)
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "out").iterdir()}
    assert encode_file(file, tmp_path / "out", model=model, shard_size=400).rows == 996
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "it has no rows"), (" \n\n \n", r"all 3 rows were rejected \(line 1: empty\)")],
)
def test_file_without_sentences_is_an_error_that_leaves_nothing(content, message, model, tmp_path):
    (tmp_path / "a.txt").write_text(content, encoding="utf-8")
    with pytest.raises(KosbertError, match=f"a.txt has no sentences: {message}"):
        encode_file(tmp_path / "a.txt", tmp_path / "out", model=model, shard_size=2)
    assert not (tmp_path / "out").exists()


def test_directory_of_another_job_is_refused(file, model, tmp_path):
    encode_file(file, tmp_path / "out", model=model, shard_size=400)
    with pytest.raises(UsageError, match="was started with shard_size 400, not 500: choose another --out"):
        encode_file(file, tmp_path / "out", model=model, shard_size=500)
    changed = file.read_bytes()
    file.write_bytes(changed[:-2] + b"x\n")  # same size
    with pytest.raises(UsageError, match="was started with input"):
        encode_file(file, tmp_path / "out", model=model, shard_size=400)
    with pytest.raises(UsageError, match="contains other files"):
        encode_file(file, tmp_path, model=model)
    with pytest.raises(UsageError, match="contains no vectors"):
        next(read_shards(tmp_path))


def test_directory_is_usable_after_a_usage_error(model, tmp_path):
    (tmp_path / "a.csv").write_text("id,sentence\n1,비가 온다\n", encoding="utf-8")
    with pytest.raises(UsageError, match="has no column 'text'"):
        encode_file(tmp_path / "a.csv", tmp_path / "out", model=model)
    assert encode_file(tmp_path / "a.csv", tmp_path / "out", model=model, text_column="sentence").rows == 1


@pytest.mark.parametrize("change", [{"pooling": "max"}, {"max_length": 8}])
def test_same_model_files_with_other_settings_are_refused(change, file, tiny_bert, tmp_path):
    def stop(event):
        if event.metrics["shards"]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_file(
            file, tmp_path / "out", model=load_torch(tiny_bert, pooling="mean"), shard_size=200, on_progress=stop
        )
    with pytest.raises(UsageError, match="was started with model"):
        encode_file(file, tmp_path / "out", model=load_torch(tiny_bert, **{"pooling": "mean"} | change), shard_size=200)
    encode_file(file, tmp_path / "out", model=load_torch(tiny_bert, pooling="mean"), shard_size=200)


def test_second_job_in_the_same_directory_is_refused(file, model, tmp_path):
    def start_second_job(event):
        with pytest.raises(UsageError, match="another process writes vectors into .*: wait for it"):
            encode_file(file, tmp_path / "out", model=model, shard_size=400)

    summary = encode_file(file, tmp_path / "out", model=model, shard_size=400, on_progress=start_second_job)
    assert encode_file(file, tmp_path / "out", model=model, shard_size=400).rows == summary.rows


def test_unicode_separators_do_not_end_a_line(model, tmp_path):
    (tmp_path / "a.txt").write_text("눈\u2028사람\n비\x85바람\n", encoding="utf-8")
    encode_file(tmp_path / "a.txt", tmp_path / "out", model=model, format="npy", keep_text=True)
    ((ids, vectors),) = read_shards(tmp_path / "out")
    assert (ids, len(vectors)) == (["1", "2"], 2)


def test_full_disk_loses_nothing(file, model, tmp_path, monkeypatch):
    expected = encode_file(file, tmp_path / "expected", model=model, shard_size=200)
    synced, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        synced(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KosbertError, match=r"the disk is full.*run the same command; it resumes"):
        encode_file(file, tmp_path / "out", model=model, shard_size=200)
    monkeypatch.setattr(os, "fsync", synced)
    again = encode_file(file, tmp_path / "out", model=model, shard_size=200)
    assert again.rows == expected.rows
    assert read_all(again.path)[0] == read_all(expected.path)[0]


def test_missing_shard_is_an_error(file, model, tmp_path):
    encode_file(file, tmp_path / "out", model=model, shard_size=400)
    (tmp_path / "out" / "00001.parquet").unlink()
    with pytest.raises(KosbertError, match=r"00001\.parquet is missing"):
        encode_file(file, tmp_path / "out", model=model, shard_size=400)


def command(file, directory, model):
    code = "from kosbert.cli import main; main()"
    arguments = ["encode", str(file), "--out", str(directory), "--model", str(model), "--shard-size", "50", "--json"]
    return [sys.executable, "-c", code, *arguments]


@pytest.mark.slow
def test_killed_jobs_resume_without_loss_or_duplicates(file, model, tmp_path):
    """Kill real processes repeatedly while they write."""
    expected = encode_file(file, tmp_path / "expected", model=model, shard_size=50)
    out, draw, kills = tmp_path / "out", random.Random(5), 0
    for _ in range(12):
        process = subprocess.Popen(command(file, out, model), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        seen = len(list(out.glob("0*"))) if out.exists() else 0
        deadline = time.monotonic() + 60
        target = seen + draw.randint(1, 3)  # while something is being written
        while process.poll() is None and time.monotonic() < deadline:
            if out.exists() and len(list(out.glob("0*"))) >= target:
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
        process.wait()
        if process.returncode == 0:
            break
    completed = subprocess.run(command(file, out, model), capture_output=True, encoding="utf-8", check=True)
    assert kills >= 3
    assert json.loads(completed.stdout)["vectors"] == 996
    ids, vectors = read_all(out)
    expected_ids, expected_vectors = read_all(expected.path)
    assert ids == expected_ids
    np.testing.assert_allclose(vectors, expected_vectors, atol=2e-6)
    assert (out / "rejects.jsonl").read_bytes() == (expected.path / "rejects.jsonl").read_bytes()
    assert not list(out.glob(".*.part"))


def test_command_reports_usage_errors(file, tmp_path, model):
    def stderr_of(*arguments):
        line = [sys.executable, "-c", "from kosbert.cli import main; main()", "encode", *map(str, arguments)]
        completed = subprocess.run(line, capture_output=True, encoding="utf-8", check=False)
        assert completed.returncode == 2
        return completed.stderr

    assert "--format csv does not exist: choose parquet or npy" in stderr_of(
        file, "--out", tmp_path / "o", "--format", "csv"
    )
    assert "add --engine ray" in stderr_of(file, "--out", tmp_path / "o", "--workers", 2)
    assert "Ray reads and writes Parquet" in stderr_of(file, "--out", tmp_path / "o", "--engine", "ray", "--keep-text")
    assert "there is no file" in stderr_of(tmp_path / "none.txt", "--out", tmp_path / "o", "--model", model)
    assert not (tmp_path / "o").exists()
