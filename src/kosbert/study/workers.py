"""Worker processes of a study: each gets its share of the CPUs and, if there are GPUs, one of them.

Imports no torch: CUDA_VISIBLE_DEVICES must be set before torch looks for GPUs.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from multiprocessing.queues import SimpleQueue
from threading import Thread

from kosbert.errors import UsageError

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def refuse_torchrun(command: str) -> None:
    """Raise an error under torchrun: every process would run the whole study. `command` ends with `--jobs`."""
    processes = int(os.environ.get("WORLD_SIZE") or 1)
    if processes > 1 or "TORCHELASTIC_RUN_ID" in os.environ:
        raise UsageError(f"a study starts its own processes: run `{command} {processes}` without torchrun")


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them: numbers, UUIDs or MIG names."""
    if _VISIBLE in os.environ:
        names = [name.strip() for name in os.environ[_VISIBLE].split(",")]
        valid = [bool(name) and not name.startswith("-") for name in names]
        return names[: valid.index(False)] if False in valid else names  # CUDA ignores what follows an invalid name
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]  # asks the driver, starts no CUDA context


def process_pool(jobs: int) -> ProcessPoolExecutor:
    """Return a pool whose workers share CPUs and GPUs (round robin) and exit with this process."""
    context = get_context("spawn")
    gpus = visible_gpus()
    queue = context.SimpleQueue()
    for number in range(jobs):
        queue.put(gpus[number % len(gpus)] if gpus else None)
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=start_worker, initargs=(jobs, queue))


def start_worker(jobs: int, gpus: "SimpleQueue[str | None]") -> None:
    """Set up a worker: its GPU, which must come first, its threads, and its end with the parent."""
    gpu = gpus.get()
    if gpu is not None:
        os.environ[_VISIBLE] = gpu
    import torch

    torch.set_num_threads(thread_share(jobs))
    Thread(target=exit_with_parent, daemon=True).start()


def thread_share(jobs: int) -> int:
    """Return the CPU threads of one of `jobs` processes."""
    return max(1, (os.cpu_count() or 1) // jobs)


def exit_with_parent() -> None:
    """Wait for the parent process to end, even by a kill, then exit."""
    parent = parent_process()
    if parent:
        parent.join()
        os._exit(1)
