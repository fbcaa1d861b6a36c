"""Timing several methods in alternating rounds."""

import pytest

from kosbert.benchmark.measure import measure


def test_ratios_are_taken_within_a_round():
    calls = []
    methods = {name: (lambda texts, name=name: calls.append(name)) for name in ("padded", "packed")}
    events = []
    padded, packed = measure(methods, ["비가 온다."] * 3, rounds=4, on_progress=events.append)
    assert len(calls) == 2 * 5  # a warm-up round and four that count
    assert [(event.done, event.total) for event in events] == [(done, 4) for done in range(5)]
    assert padded.ratios == [1.0] * 4
    assert len(packed.ratios) == 4
    assert all(speed > 0 for speed in (*padded.sentences_per_second, *packed.sentences_per_second))
    ratio = packed.sentences_per_second[2] / padded.sentences_per_second[2]
    assert packed.ratios[2] == pytest.approx(ratio)
