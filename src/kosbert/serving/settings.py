"""Server settings and request limits. `kosbert serve` parses them and passes them to its worker processes."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from kosbert.errors import UsageError

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")

MAX_CHARACTERS = 100_000
"""Per text. Tokens beyond the model's maximum are dropped anyway, but tokenizing them takes time."""


@dataclass(frozen=True)
class Limits:
    """Limits of one server process.

    Args:
        max_body_bytes: size of a request body.
        max_texts: texts per request.
        max_tokens: tokens per request.
        max_queue_tokens: tokens of all requests waiting for the model.
        max_requests: concurrent requests.
        max_rate: requests per second and API key (per client address without keys); 0 for no limit.
        timeout: seconds per request.
    """

    max_body_bytes: int = 4 * 2**20
    max_texts: int = 2_048
    max_tokens: int = 32_768
    max_queue_tokens: int = 131_072
    max_requests: int = 256
    max_rate: float = 0.0
    timeout: float = 60.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 < value < float("inf") and not (name == "max_rate" and value == 0):
                raise UsageError(f"{name} must be greater than 0, not {value:g}")
        if self.max_queue_tokens < self.max_tokens:
            raise UsageError(
                f"a request of {self.max_tokens:,} tokens does not fit a queue of {self.max_queue_tokens:,}: "
                "lower --max-tokens or raise --max-queue"
            )


@dataclass(frozen=True)
class ServerSettings:
    """Settings of one server.

    Args:
        model: builtin, a directory or a Hugging Face name.
        host: address to listen on; other machines can connect only if it is not a loopback address.
        port: port; 0 for any free one.
        index: directory of the search index.
        report: HTML file to serve at /report.
        keys: file with API keys.
        workers: number of processes; each loads its own copy of the model.
        cors: origins of other websites whose scripts may call the server.
        log_texts: include the texts of requests in the log.
        limits: request limits.
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
            raise UsageError(f"port {self.port} does not exist: use 1 to 65535, or 0 for any free port")
        if self.workers < 1:
            raise UsageError(f"the number of workers must be 1 or more, not {self.workers}")
        for origin in self.cors:
            if origin != "*" and "://" not in origin:
                raise UsageError(f"{origin!r} is not an origin: use the form https://example.org, or * for all origins")
        if self.report is not None and not self.report.is_file():
            raise UsageError(f"the report {self.report} does not exist: use the HTML file that a study wrote")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in LOOPBACK_HOSTS
