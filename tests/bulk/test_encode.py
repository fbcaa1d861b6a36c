"""From a file to shards: every sentence once, in order, whatever happens on the way."""

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
from kosbert.bulk import encode_file
from kosbert.bulk.shards import read_shards
from kosbert.errors import KosbertError, UsageError
from kosbert.model.torch_loading import load_torch

NOUNS = ("비가", "눈이", "바람이", "아이가", "고양이가", "강아지가")
VERBS = ("온다", "좋다", "간다", "본다", "잔다")


@pytest.fixture
def file(tmp_path):
    """1,000 lines, of which some are empty and many repeat."""
    draw = random.Random(1)
    lines = [f"{draw.choice(NOUNS)} {draw.choice(VERBS)} {draw.randint(0, 30)}" for _ in range(1000)]
    for place in (0, 10, 11, 999):
        lines[place] = " "
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def everything(folder):
    parts = list(read_shards(folder))
    return [name for names, _ in parts for name in names], np.concatenate([vectors for _, vectors in parts])


@pytest.mark.parametrize("form", ["parquet", "npy"])
def test_the_vectors_are_those_of_encode(form, file, model, tmp_path):
    done = encode_file(file, tmp_path / "out", model=model, form=form, shard=300)
    assert (done.rows, done.rejects, done.shards) == (996, 4, 4)
    lines = file.read_text(encoding="utf-8").splitlines()
    names, vectors = everything(done.path)
    assert names == [str(n) for n, line in enumerate(lines, 1) if line.strip()]
    wanted = kosbert.load(model).encode([line for line in lines if line.strip()], normalize_embeddings=True)
    np.testing.assert_allclose(vectors, wanted, atol=2e-6)
    assert vectors.dtype == np.float32
    rejects = [json.loads(line) for line in (done.path / "rejects.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(each["line"], each["reason"]) for each in rejects] == [(n, "empty") for n in (1, 11, 12, 1000)]
    assert done.remembered == 996 - len({line for line in lines if line.strip()})


def test_smaller_vectors_with_their_text(file, model, tmp_path):
    from pyarrow import parquet

    done = encode_file(file, tmp_path / "out", model=model, precision="float16", dim=8, keep_text=True)
    table = parquet.read_table(done.path / "00000.parquet")
    assert table["text"].to_pylist()[0] == file.read_text(encoding="utf-8").splitlines()[1]
    _, vectors = everything(done.path)
    assert vectors.shape == (996, 8)
    assert vectors.dtype == np.float16
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float32), axis=1), 1, atol=1e-3)


def test_a_finished_job_does_nothing(file, model, tmp_path):
    encode_file(file, tmp_path / "out", model=model, shard=400)
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "out").iterdir()}
    assert encode_file(file, tmp_path / "out", model=model, shard=400).rows == 996
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "out").iterdir()} == before


def test_an_empty_file(model, tmp_path):
    (tmp_path / "a.txt").write_text("", encoding="utf-8")
    done = encode_file(tmp_path / "a.txt", tmp_path / "out", model=model)
    assert (done.rows, done.rejects, done.shards) == (0, 0, 0)
    assert list(read_shards(done.path)) == []


def test_another_job_is_refused(file, model, tmp_path):
    encode_file(file, tmp_path / "out", model=model, shard=400)
    with pytest.raises(UsageError, match="was begun with shard 400 and not 500: choose another --out"):
        encode_file(file, tmp_path / "out", model=model, shard=500)
    changed = file.read_bytes()
    file.write_bytes(changed[:-2] + b"x\n")  # of the same size
    with pytest.raises(UsageError, match="was begun with input"):
        encode_file(file, tmp_path / "out", model=model, shard=400)
    with pytest.raises(UsageError, match="holds other things"):
        encode_file(file, tmp_path, model=model)
    with pytest.raises(UsageError, match="holds no vectors"):
        next(read_shards(tmp_path))


def test_a_mistake_at_the_start_does_not_keep_the_folder(model, tmp_path):
    (tmp_path / "a.csv").write_text("id,sentence\n1,비가 온다\n", encoding="utf-8")
    with pytest.raises(UsageError, match="has no column 'text'"):
        encode_file(tmp_path / "a.csv", tmp_path / "out", model=model)
    assert encode_file(tmp_path / "a.csv", tmp_path / "out", model=model, text="sentence").rows == 1


@pytest.mark.parametrize("change", [{"pooling": "max"}, {"max_length": 8}])
def test_the_same_files_read_otherwise_are_another_model(change, file, tiny_bert, tmp_path):
    def stop(position, size, manifest):
        if manifest.shards:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_file(file, tmp_path / "out", model=load_torch(tiny_bert, pooling="mean"), shard=200, report=stop)
    with pytest.raises(UsageError, match="was begun with model"):
        encode_file(file, tmp_path / "out", model=load_torch(tiny_bert, **{"pooling": "mean"} | change), shard=200)
    encode_file(file, tmp_path / "out", model=load_torch(tiny_bert, pooling="mean"), shard=200)


def test_two_jobs_do_not_write_into_one_folder(file, model, tmp_path):
    def meddle(position, size, manifest):
        with pytest.raises(UsageError, match="another process writes vectors into .*: wait for it"):
            encode_file(file, tmp_path / "out", model=model, shard=400)

    done = encode_file(file, tmp_path / "out", model=model, shard=400, report=meddle)
    assert encode_file(file, tmp_path / "out", model=model, shard=400).rows == done.rows


def test_separators_of_unicode_do_not_end_a_line(model, tmp_path):
    (tmp_path / "a.txt").write_text("눈\u2028사람\n비\x85바람\n", encoding="utf-8")
    encode_file(tmp_path / "a.txt", tmp_path / "out", model=model, form="npy", keep_text=True)
    ((ids, vectors),) = read_shards(tmp_path / "out")
    assert (ids, len(vectors)) == (["1", "2"], 2)


def test_a_full_disk_loses_nothing(file, model, tmp_path, monkeypatch):
    whole = encode_file(file, tmp_path / "whole", model=model, shard=200)
    synced, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        synced(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KosbertError, match=r"the disk is full.*run the same command; it resumes"):
        encode_file(file, tmp_path / "out", model=model, shard=200)
    monkeypatch.setattr(os, "fsync", synced)
    again = encode_file(file, tmp_path / "out", model=model, shard=200)
    assert again.rows == whole.rows
    assert everything(again.path)[0] == everything(whole.path)[0]


def test_a_missing_shard_is_told(file, model, tmp_path):
    encode_file(file, tmp_path / "out", model=model, shard=400)
    (tmp_path / "out" / "00001.parquet").unlink()
    with pytest.raises(KosbertError, match=r"00001\.parquet is missing"):
        encode_file(file, tmp_path / "out", model=model, shard=400)


def command(file, folder, model):
    code = "from kosbert.cli import main; main()"
    arguments = ["encode", str(file), "--out", str(folder), "--model", str(model), "--shard", "50", "--json"]
    return [sys.executable, "-c", code, *arguments]


def test_killed_at_any_moment(file, model, tmp_path):
    """A real process, killed again and again: no sentence is lost and none is there twice."""
    whole = encode_file(file, tmp_path / "whole", model=model, shard=50)
    out, draw, kills = tmp_path / "out", random.Random(5), 0
    for _ in range(12):
        process = subprocess.Popen(command(file, out, model), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        seen = len(list(out.glob("0*"))) if out.exists() else 0
        deadline = time.monotonic() + 60
        target = seen + draw.randint(1, 3)  # a moment in which something is being written
        while process.poll() is None and time.monotonic() < deadline:
            if out.exists() and len(list(out.glob("0*"))) >= target:
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
        process.wait()
        if process.returncode == 0:
            break
    done = subprocess.run(command(file, out, model), capture_output=True, encoding="utf-8", check=True)
    assert kills >= 3
    assert json.loads(done.stdout)["vectors"] == 996
    names, vectors = everything(out)
    wanted_names, wanted = everything(whole.path)
    assert names == wanted_names
    np.testing.assert_allclose(vectors, wanted, atol=2e-6)
    assert (out / "rejects.jsonl").read_bytes() == (whole.path / "rejects.jsonl").read_bytes()
    assert not list(out.glob(".*.part"))


def test_the_command_says_what_is_wrong(file, tmp_path, model):
    def said(*arguments):
        line = [sys.executable, "-c", "from kosbert.cli import main; main()", "encode", *map(str, arguments)]
        done = subprocess.run(line, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 2
        return done.stderr

    assert "'csv' is impossible here: choose parquet or npy" in said(file, "--out", tmp_path / "o", "--format", "csv")
    assert "add --engine ray" in said(file, "--out", tmp_path / "o", "--workers", 2)
    assert "Ray writes Parquet" in said(file, "--out", tmp_path / "o", "--engine", "ray", "--keep-text")
    assert "there is no file" in said(tmp_path / "none.txt", "--out", tmp_path / "o", "--model", model)
    assert not (tmp_path / "o").exists()
