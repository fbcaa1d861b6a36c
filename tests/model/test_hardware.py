"""Threads and token budgets: read from the machine, measured, cached."""

import json
from types import SimpleNamespace

import pytest

import kosbert
from kosbert.model import hardware
from kosbert.model.hardware import _container_limit, _physical_cores, cached_budget, measure_budget, threads


@pytest.fixture(autouse=True)
def _temporary_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))


def test_threads_are_the_smallest_limit(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert threads() == 7
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(hardware, "_physical_cores", lambda processors: 8)
    monkeypatch.setattr(hardware, "_container_limit", lambda: 3)
    assert threads() == 3
    monkeypatch.setattr(hardware, "_container_limit", lambda: 1 << 16)
    assert threads() == 8


def test_two_threads_of_a_core_count_once(tmp_path):
    for number, core in enumerate(("0", "0", "1", "1")):
        topology = tmp_path / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(core)
        (topology / "physical_package_id").write_text("0\n")
    assert _physical_cores({0, 1, 2, 3}, tmp_path) == 2
    assert _physical_cores({0, 2}, tmp_path) == 2
    assert _physical_cores({0, 1}, tmp_path) == 1
    assert _physical_cores({0, 9}, tmp_path) == 2  # unknown topology: the number of processors


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "10000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 1 << 16),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 1 << 16),
        ({}, 1 << 16),
    ],
)
def test_container_limit(files, limit, tmp_path):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    assert _container_limit(tmp_path) == limit


def test_fastest_budget_is_cached(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(hardware, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def run_batch(budget):
        now[0] += 0.001 * budget + (0.5 if budget != 512 else 0.1)
        return budget

    assert cached_budget("a model") is None
    assert measure_budget("a model", run_batch, (256, 512, 1024)) == 512
    assert cached_budget("a model") == 512
    assert cached_budget("another") is None
    measure_budget("another", run_batch, (256,))
    assert cached_budget("a model") == 512


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": "y"}'])
def test_damaged_cache_is_ignored(content):
    file = hardware._cache_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    assert cached_budget("a model") is None
    hardware._cache_budget("a model", 256)
    assert cached_budget("a model") == 256
    file.unlink()
    file.mkdir()  # cannot be written
    hardware._cache_budget("a model", 512)


def test_encoder_uses_the_measured_budget(tiny_bert, sentences):
    encoder = kosbert.load(tiny_bert)
    default = encoder.token_budget
    before = encoder.encode(sentences)
    tuned = encoder.tune_token_budget()
    assert tuned in hardware.TOKEN_BUDGETS
    assert encoder.token_budget == tuned
    again = kosbert.load(tiny_bert)
    assert again.token_budget == default  # until it is tuned
    assert again.tune_token_budget() == again.token_budget == tuned
    assert list(json.loads(hardware._cache_file().read_text(encoding="utf-8")).values()) == [tuned]
    assert abs(encoder.encode(sentences) - before).max() < 1e-5
