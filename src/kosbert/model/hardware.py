"""What this machine has, and what a model of some size should do with it: threads, and tokens of a batch.

The best number of tokens depends on the caches of the processor and on the shape of the model, so it is measured, once,
by `Encoder.calibrate` (bulk encoding and serving do that), and remembered in the cache folder.
"""

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kosbert.data.locate import cache_dir

BUDGETS = (256, 512, 1_024, 2_048, 4_096)
_SECONDS = 0.15  # for one look at one budget
_ROUNDS = 3


def threads() -> int:
    """Threads that compute: OMP_NUM_THREADS if it is set, else the physical cores that this process may use.

    Two threads of one core share its arithmetic units, and a container may have less than the machine.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    return max(1, min(_physical(allowed), _container_limit()))


def _physical(processors: set[int], root: Path = Path("/sys/devices/system/cpu")) -> int:
    """How many cores these logical processors are."""
    cores = set()
    for number in processors:
        topology = root / f"cpu{number}" / "topology"
        try:
            package, core = ((topology / name).read_text().strip() for name in ("physical_package_id", "core_id"))
        except OSError:
            return len(processors)  # not Linux, or hidden: as many as the system says
        cores.add((package, core))
    return len(cores)


def _container_limit(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Whole processors that a container grants; more than any machine has where there is no limit."""
    try:  # version 2: "200000 100000", or "max 100000"
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:  # version 1
            quota = (root / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (root / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return 1 << 16
    if not quota.isdigit() or not period.isdigit():
        return 1 << 16
    return max(1, round(int(quota) / int(period)))


def remembered_budget(shape: str) -> int | None:
    """What was measured for a model of this shape on this machine."""
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))[_key(shape)]
        return int(found) if int(found) > 0 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def measured_budget(shape: str, run: Callable[[int], int], budgets: Sequence[int] = BUDGETS) -> int:
    """The budget with which most tokens come through in a second, remembered for next time.

    `run` puts one batch of about so many tokens through the model, and says how many they were. Budgets take turns, and
    the best of several looks counts: what else runs on the machine only ever makes one slower.
    """
    rates = dict.fromkeys(budgets, 0.0)
    for budget in budgets:
        run(budget)  # the first time allocates
    for _ in range(_ROUNDS):
        for budget in budgets:
            tokens, started = 0, time.perf_counter()
            while (spent := time.perf_counter() - started) < _SECONDS / _ROUNDS or not tokens:
                tokens += run(budget)
            rates[budget] = max(rates[budget], tokens / max(spent, 1e-9))
    best = max(rates, key=lambda budget: rates[budget])
    _remember(shape, best)
    return best


def _remember(shape: str, budget: int) -> None:
    """A cache that cannot be written costs a second next time and is no error."""
    try:
        file = _file()
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            known = dict(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            known = {}
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(known | {_key(shape): budget}, indent=1), encoding="utf-8")
        fresh.replace(file)
    except OSError:
        pass


def _file() -> Path:
    return cache_dir().parent / "budgets.json"


def _key(shape: str) -> str:
    return f"{shape}, {threads()} threads, {_processor()}"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
