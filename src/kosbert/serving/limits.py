"""How much a client may ask for: the sizes of a request, how many at once, and how often."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass

from kosbert.errors import UsageError

MOST_CHARACTERS = 100_000
"""Of one text: tokens beyond the model's length are cut off anyway, but finding them costs time."""

_MOST_REMEMBERED = 10_000  # clients whose rate is known; the one not seen for longest is forgotten


@dataclass(frozen=True)
class Limits:
    """What one server process takes on.

    `texts` and `tokens` are those of a request, `queue_tokens` those of all requests that wait for the model,
    `requests` those that are under way at once, `rate` the requests a second of a key (of an address where there are
    no keys; 0 for no limit), `seconds` the time for an answer.
    """

    body_bytes: int = 4 * 2**20
    texts: int = 2_048
    tokens: int = 32_768
    queue_tokens: int = 131_072
    requests: int = 256
    rate: float = 0.0
    seconds: float = 60.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 < value < float("inf") and not (name == "rate" and value == 0):
                raise UsageError(f"a limit of {value:g} for {name.replace('_', ' ')} is impossible: give more than 0")
        if self.queue_tokens < self.tokens:
            raise UsageError(
                f"a request of {self.tokens:,} tokens never fits a queue of {self.queue_tokens:,}: "
                "lower --max-tokens or raise --max-queue"
            )


class Rates:
    """A token bucket for each client: `rate` requests a second, and twice that at once after a rest.

    >>> now = [0.0]
    >>> rates = Rates(1, clock=lambda: now[0])
    >>> [rates.delay("가") for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, max(1.0, 2 * rate), clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client: requests left, and when that was

    def delay(self, client: str) -> float:
        """Seconds that a client must wait; 0 if its request may pass, and is counted."""
        if not self._rate:
            return 0.0
        now = self._clock()
        left, since = self._left.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        passes = left >= 1
        self._left[client] = (left - passes, now)
        if len(self._left) > _MOST_REMEMBERED:
            self._left.popitem(last=False)
        return 0.0 if passes else (1 - left) / self._rate
