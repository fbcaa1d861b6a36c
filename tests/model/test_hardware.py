"""Threads and batches fit the machine, and what was measured is remembered."""

import json
from types import SimpleNamespace

import pytest

import kosbert
from kosbert.model import hardware
from kosbert.model.hardware import _container_limit, _physical, measured_budget, remembered_budget, threads


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))


def test_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert threads() == 7
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(hardware, "_physical", lambda processors: 8)
    monkeypatch.setattr(hardware, "_container_limit", lambda: 3)
    assert threads() == 3
    monkeypatch.setattr(hardware, "_container_limit", lambda: 1 << 16)
    assert threads() == 8


def test_two_threads_of_a_core_are_one(tmp_path):
    for number, core in enumerate(("0", "0", "1", "1")):
        topology = tmp_path / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(core)
        (topology / "physical_package_id").write_text("0\n")
    assert _physical({0, 1, 2, 3}, tmp_path) == 2
    assert _physical({0, 2}, tmp_path) == 2
    assert _physical({0, 1}, tmp_path) == 1
    assert _physical({0, 9}, tmp_path) == 2  # not told: as many as the system says


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
def test_the_limit_of_a_container(files, limit, tmp_path):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    assert _container_limit(tmp_path) == limit


def test_the_fastest_budget_is_remembered(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(hardware, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def run(budget):
        now[0] += 0.001 * budget + (0.5 if budget != 512 else 0.1)
        return budget

    assert remembered_budget("a shape") is None
    assert measured_budget("a shape", run, (256, 512, 1024)) == 512
    assert remembered_budget("a shape") == 512
    assert remembered_budget("another") is None
    measured_budget("another", run, (256,))
    assert remembered_budget("a shape") == 512


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": "y"}'])
def test_a_damaged_memory_is_no_trouble(content):
    file = hardware._file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    assert remembered_budget("a shape") is None
    hardware._remember("a shape", 256)
    assert remembered_budget("a shape") == 256
    file.unlink()
    file.mkdir()  # cannot be written
    hardware._remember("a shape", 512)


def test_an_encoder_uses_what_it_measured(tiny_bert, sentences):
    encoder = kosbert.load(tiny_bert)
    usual = encoder.token_budget
    before = encoder.encode(sentences)
    found = encoder.tune_token_budget()
    assert found in hardware.BUDGETS
    assert encoder.token_budget == found
    again = kosbert.load(tiny_bert)
    assert again.token_budget == usual  # until it is asked to
    assert again.tune_token_budget() == again.token_budget == found
    assert list(json.loads(hardware._file().read_text(encoding="utf-8")).values()) == [found]
    assert abs(encoder.encode(sentences) - before).max() < 1e-5
