"""How one server is set up; what `kosbert serve` parses, and what is sent to its worker processes."""

from dataclasses import dataclass, field
from pathlib import Path

from kosbert.errors import UsageError
from kosbert.serving.limits import Limits

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Settings:
    """How to serve.

    Args:
        model: builtin, a directory or a Hugging Face name.
        host: the address to listen on; other machines reach only one that is not loopback.
        port: the port; 0 for any that is free.
        index: the directory of an index to search.
        report: an HTML file to show at /report.
        keys: a file with API keys.
        workers: processes; each has its own copy of the model.
        cors: origins of other web pages that may use the server from a browser.
        log_texts: write the texts of requests into the log.
        limits: see `Limits`.
    """

    model: str = "builtin"
    host: str = "127.0.0.1"
    port: int = 8080
    index: Path | None = None
    report: Path | None = None
    keys: Path | None = None
    workers: int = 1
    cors: tuple[str, ...] = ()
    log_texts: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise UsageError(f"there is no port {self.port}: give 1 to 65535, or 0 for any that is free")
        if self.workers < 1:
            raise UsageError(f"{self.workers} workers cannot serve: give 1 or more")
        for origin in self.cors:
            if origin != "*" and "://" not in origin:
                raise UsageError(f"{origin!r} is no origin: write it as https://example.org, or * for every page")
        if self.report is not None and not self.report.is_file():
            raise UsageError(f"there is no report {self.report}: give the HTML file that a study wrote")

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in LOOPBACK
