"""Time several inference methods side by side, in one process.

Every round runs all methods in a different order. Ratios are taken within a round, between measurements that are close
in time, so a slowdown of the whole machine affects both sides.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kosbert.progress import ProgressCallback, ProgressEvent
from kosbert.study.summary import MethodSpeed

InferenceMethod = Callable[[list[str]], object]
"""Encodes sentences; the result is not used."""


@dataclass(frozen=True)
class RoundSpeeds:
    """Speed of one method in every round; the ratio is to the first method within the same round."""

    method: str
    sentences_per_second: list[float]
    ratios: list[float]

    def median(self) -> MethodSpeed:
        """Return the medians, and the smallest and largest ratio."""
        return MethodSpeed(
            method=self.method,
            sentences_per_second=float(np.median(self.sentences_per_second)),
            ratio=float(np.median(self.ratios)),
            min_ratio=min(self.ratios),
            max_ratio=max(self.ratios),
        )


def measure(
    methods: Mapping[str, InferenceMethod],
    sentences: Sequence[str],
    rounds: int,
    on_progress: ProgressCallback | None = None,
) -> list[RoundSpeeds]:
    """Time every method in every round, after a warm-up round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    names = list(methods)
    for number in range(rounds + 1):
        for index in np.random.default_rng(number).permutation(len(names)):
            started = time.perf_counter()
            methods[names[index]](list(sentences))
            if number:
                seconds[names[index]].append(time.perf_counter() - started)
        if on_progress:
            on_progress(ProgressEvent("measure", number, rounds, "rounds"))
    first = seconds[names[0]]
    return [
        RoundSpeeds(
            name, [len(sentences) / value for value in values], [a / b for a, b in zip(first, values, strict=True)]
        )
        for name, values in seconds.items()
    ]
