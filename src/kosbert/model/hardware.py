"""Threads and token budgets for this machine.

The best token budget depends on the caches of the processor and on the size of the model. `Encoder.tune_token_budget`
measures it once and caches it on disk; bulk encoding and serving call it.
"""

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kosbert.files import cache_root, write_text

TOKEN_BUDGETS = (256, 512, 1_024, 2_048, 4_096)
_SECONDS_PER_BUDGET = 0.15
_ROUNDS = 3
_NO_LIMIT = 1 << 16


def threads() -> int:
    """Return the number of compute threads: OMP_NUM_THREADS, or the physical cores that this process may use.

    Two threads on one core share its arithmetic units, and a container may get fewer cores than the machine has.
    """
    # Not psutil: cpu_count(logical=False) ignores affinity and container limits (2 instead of 1 on a process pinned to
    # one core). Not joblib: with an affinity or container limit it returns logical processors, and it takes 12 ms for
    # the count (a subprocess) and 0.2 s or more for its import; reading /sys takes 0.1 ms.
    setting = os.environ.get("OMP_NUM_THREADS", "")
    if setting.isdigit() and int(setting) > 0:
        return int(setting)
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    return max(1, min(_physical_cores(processors), _container_limit()))


def _physical_cores(processors: set[int], root: Path = Path("/sys/devices/system/cpu")) -> int:
    """Return the number of cores behind these logical processors."""
    cores = set()
    for number in processors:
        topology = root / f"cpu{number}" / "topology"
        try:
            package, core = ((topology / name).read_text().strip() for name in ("physical_package_id", "core_id"))
        except OSError:
            return len(processors)  # not Linux, or no access
        cores.add((package, core))
    return len(cores)


def _container_limit(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the number of processors that the container's CPU quota allows."""
    try:  # cgroup v2: "200000 100000", or "max 100000"
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:  # cgroup v1
            quota = (root / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (root / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return _NO_LIMIT
    if not quota.isdigit() or not period.isdigit():
        return _NO_LIMIT
    return max(1, round(int(quota) / int(period)))


def cached_budget(speed_key: str) -> int | None:
    """Return the token budget that was measured on this machine for such a model, or None."""
    try:
        budget = int(json.loads(_cache_file().read_text(encoding="utf-8"))[_cache_key(speed_key)])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return budget if budget > 0 else None


def measure_budget(speed_key: str, run_batch: Callable[[int], int], budgets: Sequence[int] = TOKEN_BUDGETS) -> int:
    """Return the token budget with the most tokens per second, and cache it.

    Budgets are measured in turn, and the best of several rounds counts: other load on the machine can only slow one
    down.

    Args:
        speed_key: identifies backend, size and device of the model.
        run_batch: puts one batch of about so many tokens through the model and returns their number.
        budgets: the budgets to compare.
    """
    rates = dict.fromkeys(budgets, 0.0)
    for budget in budgets:
        run_batch(budget)  # warm-up: the first call allocates
    for _ in range(_ROUNDS):
        for budget in budgets:
            tokens, started = 0, time.perf_counter()
            while (seconds := time.perf_counter() - started) < _SECONDS_PER_BUDGET / _ROUNDS or not tokens:
                tokens += run_batch(budget)
            rates[budget] = max(rates[budget], tokens / max(seconds, 1e-9))
    best = max(rates, key=lambda budget: rates[budget])
    _cache_budget(speed_key, best)
    return best


def _cache_budget(speed_key: str, budget: int) -> None:
    """Write the budget to the cache; a failure is ignored, the next process measures again."""
    try:
        path = _cache_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            budgets = dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            budgets = {}
        write_text(path, json.dumps(budgets | {_cache_key(speed_key): budget}, indent=1))
    except OSError:
        pass


def _cache_file() -> Path:
    return cache_root() / "budgets.json"


def _cache_key(speed_key: str) -> str:
    return f"{speed_key}, {threads()} threads, {processor_name()}"


def processor_name() -> str:
    """Return the name of the processor, as specific as the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
