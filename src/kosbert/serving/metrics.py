"""Prometheus metrics. Several workers share a directory, and each of them reports the sum."""

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

MULTIPROC_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the directory shared by workers; must be set before this module is imported."""

_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TEXTS_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The metrics of one server. Each has its own registry, so one process can run several servers."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "kosbert_requests", "Responses by path and status.", ("path", "status"), registry=registry
        )
        self.request_seconds = Histogram(
            "kosbert_request_duration_seconds", "Time from the request headers to the end of the response.", ("path",),
            buckets=_SECONDS_BUCKETS, registry=registry,
        )  # fmt: skip
        self.in_progress = Gauge(
            "kosbert_requests_in_progress", "Requests in progress.", registry=registry, multiprocess_mode="livesum"
        )
        self.queue_tokens = Gauge(
            "kosbert_queue_tokens", "Tokens waiting for the model.", registry=registry, multiprocess_mode="livesum"
        )
        self.texts = Counter("kosbert_texts", "Encoded texts.", registry=registry)
        self.tokens = Counter("kosbert_tokens", "Encoded tokens, without padding.", registry=registry)
        self.batch_texts = Histogram(
            "kosbert_batch_texts", "Texts per batch.", buckets=_TEXTS_BUCKETS, registry=registry
        )
        self.batch_seconds = Histogram(
            "kosbert_batch_duration_seconds", "Forward pass of one batch.", buckets=_SECONDS_BUCKETS, registry=registry
        )

    def export(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        if not os.environ.get(MULTIPROC_VARIABLE):
            return generate_latest(self._registry)
        from prometheus_client.multiprocess import MultiProcessCollector

        all_workers = CollectorRegistry()
        MultiProcessCollector(all_workers)  # type: ignore[no-untyped-call]
        return generate_latest(all_workers)
