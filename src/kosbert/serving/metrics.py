"""What the server counts, for Prometheus. With several workers they share a folder, and any of them tells the sum."""

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Where the library looks for the folder that workers share; must be set before this module is imported."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The counters of one server; a registry of its own, so that several servers fit one process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "kosbert_requests", "Answers by path and status.", ("path", "status"), registry=registry
        )
        self.seconds = Histogram(
            "kosbert_request_seconds", "Time from the head of a request to the end of its answer.", ("path",),
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.under_way = Gauge(
            "kosbert_requests_under_way", "Requests being answered.", registry=registry, multiprocess_mode="livesum"
        )
        self.queue = Gauge(
            "kosbert_queue_tokens", "Tokens that wait for the model.", registry=registry, multiprocess_mode="livesum"
        )
        self.texts = Counter("kosbert_texts", "Texts that were encoded.", registry=registry)
        self.tokens = Counter("kosbert_tokens", "Tokens that were encoded, without padding.", registry=registry)
        self.batch_texts = Histogram(
            "kosbert_batch_texts", "Texts that went through the model together.", buckets=_TEXTS, registry=registry
        )
        self.batch_seconds = Histogram(
            "kosbert_batch_seconds", "Time of a batch in the model.", buckets=_SECONDS, registry=registry
        )

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        if not os.environ.get(SHARED):
            return generate_latest(self._registry)
        from prometheus_client.multiprocess import MultiProcessCollector

        everyone = CollectorRegistry()
        MultiProcessCollector(everyone)  # type: ignore[no-untyped-call]
        return generate_latest(everyone)
